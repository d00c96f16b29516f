//! Everything between a parsed HTTP head and the engine, without Python and without sockets.
//!
//! A request begins in `begin` and ends in `finish`, unless another front end is to begin it anew. In between, `admission::accept` turns its head into a verified,
//! typed `Request`, and `admission::form` does so for the forms of browsers. The request performs its operation and
//! returns a `Response`, at once or later, to the `Responder` of its front end. Each operation has a file in
//! `operations`.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests damage files by hand"))]

pub mod accounting;
pub mod admission;
mod begin;
mod buckets;
mod finish;
pub mod gateway;
mod listening;
mod objects;
mod operations;
mod postponed;
mod refusal;
pub mod requests;
#[cfg(test)]
mod tests;
mod tokens;

pub use admission::bounds::lockouts::LockoutOptions;
pub use admission::describe::Description;
pub use admission::form::{FormAdmission, FormHead};
pub use admission::identities::{Identities, IdentityRow, IdentityTables, KeyRow, LimitRow, Requester};
pub use admission::ingress::Ingress;
pub use admission::ingress::now_ms;
pub use admission::options::{GatewayOptions, PublicAccess};
pub use admission::policies::compile_new as compile_policy;
pub use begin::Begun;
pub use buckets::moves::{BucketPrefix, MovedPrefix};
pub use finish::{Admission, Done, ResponseSummary};
pub use gateway::Gateway;
pub use listening::Listening;
pub use orcas_s3::event_targets::EventTarget;
pub use postponed::{Accepted, Postponed};
pub use refusal::Refusal;
pub use requests::body_plan::BodyPlan;
pub use requests::reply::{Completion, Reply, Responder};
pub use requests::request::Request;
pub use requests::response::{ErrorNote, Response, ResponseBody};
