//! Everything between a parsed HTTP head and the engine, without Python and without sockets.
//!
//! `accept` turns a head into a verified, typed `Request`. The request performs its operation and returns a `Response`,
//! at once or later, to the `Responder` of its front end. Each operation has a file in `operations`. `form` does for the
//! forms of browsers what `accept` does for other requests.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests damage files by hand"))]

mod accept;
pub mod access_log;
pub mod accounting;
mod annotation;
mod attributes;
mod authorize;
mod body_plan;
mod challenge;
mod conditions;
mod cors;
mod describe;
mod documents;
mod encryption;
mod expiration;
mod form;
pub mod identities;
mod ingress;
pub mod lane;
mod metadata;
pub mod metering;
mod moves;
mod operations;
mod pages;
mod pieces;
pub mod replays;
pub mod reply;
pub mod request;
mod request_context;
pub mod request_log;
pub mod response;
mod settings;
mod sources;
pub mod store_body;
pub mod tally;
#[cfg(test)]
mod tests;
mod treatment;
mod upload_ids;
mod versions;
mod website;

use orcas_bodies::{
    body_md5, budget, download, form_file, hashes, intake, pool, prefixes, problem, stream, worker_group,
};

pub use accounting::Begun;
pub use body_plan::BodyPlan;
pub use describe::Description;
pub use form::{FormHead, FormVerdict};
pub use identities::{Identities, Principal};
pub use ingress::Ingress;
pub use lane::{Lane, LaneOptions};
pub use moves::{MovedPrefix, Place};
pub use orcas_s3::event_targets::EventTarget;
pub use reply::{Event, Reply, Responder};
pub use request::Request;
pub use response::{ErrorNote, Response, ResponseBody};
