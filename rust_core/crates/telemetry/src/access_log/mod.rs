//! The access log: what it says about each request, as a line of JSON, and the queue of lines for whoever writes them.
//!
//! Nothing here waits: a line for which the queue has no room is only counted. No line has a secret or a signature.

pub mod batches;
pub mod note;
pub mod queue;
pub mod record;
mod server_log;
