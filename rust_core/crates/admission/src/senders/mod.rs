//! Who may sign: identities and their keys, and sessions with temporary credentials.

pub mod identities;
pub mod sessions;
pub mod signers;
pub mod tokens;
