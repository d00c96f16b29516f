//! Requests that are not answered here: those of the application, and all of them while another node owns the log.

pub mod application;
mod asking;
pub mod owner;
mod passing;
mod pool;
pub mod reads;
