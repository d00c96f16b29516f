//! Responses, and how a request gets its own: status, headers and body as one value; the front end that takes it
//! (`Responder`); the obligation to answer exactly once (`Reply`).
//!
//! Requests are known as `InProgress` only: who sends them, whether they may, and what they do is not known here.
#![forbid(unsafe_code)]

pub mod reply;
pub mod request_ids;
pub mod response;

pub use reply::{Completion, InProgress, Reply, Responder};
pub use response::{ErrorNote, Response, ResponseBody};
