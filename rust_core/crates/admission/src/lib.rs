//! Who sends a request, and whether they may: identities, signatures and sessions, what bounds a sender, the documents of
//! buckets that have a say, and access decisions.
//!
//! Must not know how a request is carried out or answered, nor front ends.
#![forbid(unsafe_code)]

pub mod access_control;
pub mod access_decision;
pub mod acls;
pub mod authenticate;
pub mod authorize;
pub mod bounds;
pub mod circumstances;
pub mod control;
pub mod decision_log;
pub mod documents;
pub mod ingress;
pub mod missing;
pub mod options;
pub mod policies;
pub mod request_context;
pub mod senders;
