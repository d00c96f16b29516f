//! From the head of a request to its answer, for any front end.
//!
//! A request begins in `begin` and ends in `finish`, unless another front end is to begin it anew. In between, `accept`
//! turns its head into a verified, typed request, and `form` does so for the forms of browsers. What is counted and
//! logged of it is in `accounting` and `logs`. Must not know Python and sockets, nor operations by their names.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests damage files by hand"))]

mod accept;
pub mod accounting;
mod begin;
mod cors;
mod describe;
mod finish;
mod form;
mod gateway;
mod listening;
pub mod logs;
mod moves;
mod postponed;
mod refusal;
mod stages;
#[cfg(test)]
mod tests;
mod website;

pub use begin::Begun;
pub use describe::Description;
pub use finish::{Admission, Done, ResponseSummary};
pub use form::{FormAdmission, FormHead};
pub use gateway::Gateway;
pub use listening::Listening;
pub use moves::{BucketPrefix, CopiedObject, MovedPrefix};
pub use orcas_admission::bounds::lockouts::LockoutOptions;
pub use orcas_admission::bounds::replays::NotAdmitted;
pub use orcas_admission::control::admin::{AdminCaller, Needs};
pub use orcas_admission::control::asking::{AccessQuestion, Explained};
pub use orcas_admission::decision_log::LoggedDecisions;
pub use orcas_admission::ingress::{Ingress, now_ms};
pub use orcas_admission::options::{GatewayOptions, PublicAccess};
pub use orcas_admission::policies::compile_new as compile_policy;
pub use orcas_admission::senders::identities::{Identities, IdentityRow, IdentityTables, KeyRow, LimitRow, Requester};
pub use orcas_requests::body_plan::BodyPlan;
pub use orcas_requests::replication::Progress as CopyProgress;
pub use orcas_requests::request::Request;
pub use orcas_requests::store_body::UploadStream;
pub use orcas_requests::tally::{Delivery, Tally};
pub use orcas_responses::{Completion, ErrorNote, Reply, Responder, Response, ResponseBody};
pub use orcas_s3::event_targets::EventTarget;
pub use postponed::{Accepted, Postponed};
pub use refusal::Refusal;
