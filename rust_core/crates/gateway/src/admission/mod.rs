//! From the head of a request to the operation that its sender may ask for: signatures, identities, forms, websites.

pub mod accept;
pub mod access_control;
pub mod access_decision;
pub mod authenticate;
pub mod authorize;
pub mod bounds;
pub mod circumstances;
pub mod cors;
pub mod decision_log;
pub mod describe;
pub mod form;
pub mod identities;
pub mod ingress;
pub mod missing;
pub mod options;
pub mod policies;
pub mod request_context;
pub mod sessions;
pub mod signers;
pub mod website;
