//! Requests in, answers out: everything between a parsed HTTP head and the engine, without Python and without sockets.
//!
//! `accept` turns a head into a verified, typed `Request`; the request carries itself out and comes back as an
//! `Answer`, at once or through `completions`. Bodies enter through `stream` or whole, checked by `intake`, and leave
//! through `download`. A native HTTP server would call exactly this.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests damage files by hand"))]

mod accept;
pub mod answer;
mod body_md5;
mod buckets;
pub mod budget;
mod challenge;
pub mod completions;
mod conditions;
mod copies;
pub mod crew;
mod deletes;
mod describe;
pub mod download;
mod incoming;
mod instant;
pub mod intake;
pub mod lane;
mod listing;
mod metadata;
mod objects;
pub mod pool;
pub mod prefixes;
pub mod problem;
pub mod replays;
pub mod request;
mod settings;
pub mod store_body;
pub mod stream;
#[cfg(test)]
mod tests;
mod uploads;

pub use answer::{Answer, AnswerBody, ErrorNote};
pub use describe::Description;
pub use lane::{AccessKey, Completion, Event, Identities, Lane, LaneOptions};
pub use request::{BodyPlan, Request};
