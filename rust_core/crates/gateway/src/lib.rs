//! Requests in, answers out: everything between a parsed HTTP head and the engine, without Python and without sockets.
//!
//! `accept` turns a head into a verified, typed `Request`; the request carries itself out and comes back as an
//! `Answer`, at once or through `completions`. What is an operation's own stands in one file in `operations`. Bodies
//! enter through `stream` or whole, checked by `intake`, and leave through `download`. A native HTTP server would call
//! exactly this.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests damage files by hand"))]

mod accept;
pub mod answer;
mod body_md5;
mod body_plan;
pub mod budget;
mod challenge;
pub mod completions;
mod conditions;
pub mod crew;
mod describe;
pub mod download;
mod incoming;
pub mod intake;
pub mod lane;
mod metadata;
mod operations;
mod pages;
pub mod pool;
pub mod prefixes;
pub mod problem;
mod reading;
pub mod replays;
pub mod reply;
pub mod request;
mod settings;
mod sources;
pub mod store_body;
pub mod stream;
#[cfg(test)]
mod tests;
mod upload_ids;

pub use answer::{Answer, AnswerBody, ErrorNote};
pub use body_plan::BodyPlan;
pub use describe::Description;
pub use lane::{AccessKey, Identities, Lane, LaneOptions};
pub use reply::{Completion, Event, Reply};
pub use request::Request;
