//! What the store does to objects by itself or by order of its operator: expiry, and sealing what is stored.

pub(crate) mod expirations;
pub(crate) mod expired;
pub(crate) mod sealed;
pub(crate) mod stored_copies;
pub(crate) mod stored_sealing;
