//! From the head of a request to the operation that its sender may ask for: signatures, identities, forms, websites.

pub(crate) mod accept;
pub(crate) mod access_decision;
pub(crate) mod authorize;
pub mod bounds;
pub(crate) mod circumstances;
pub(crate) mod cors;
pub mod decision_log;
pub(crate) mod describe;
pub(crate) mod form;
pub mod identities;
pub(crate) mod ingress;
pub(crate) mod missing;
pub mod policies;
pub(crate) mod request_context;
pub(crate) mod sessions;
pub mod signers;
pub(crate) mod website;
