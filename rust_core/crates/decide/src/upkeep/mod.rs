//! Changes of objects by the store itself or by order of its operator: expiry, and sealing of stored content.

pub(crate) mod expirations;
pub(crate) mod expired;
pub(crate) mod sealed;
pub(crate) mod stored_copies;
pub(crate) mod stored_sealing;
