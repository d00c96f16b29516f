//! Keys that customers send with each request (SSE-C). They are never stored: only a check value is, which tells
//! whether a later request brings the same key.

use std::fmt;

use super::data_key::{DataKey, DataKeyId};
use crate::derive::{extract, mac, mac_is};
use crate::id::StoreId;
use crate::secret::Secret;

const CUSTOMER: &[u8] = b"orcas seal v1 customer";
const CHECK: &[u8] = b"orcas seal v1 check";

/// The key of check values, which stays on the server. Without it, a stored check value helps nobody to guess a key.
#[derive(Debug)]
pub struct CheckKey(Secret);

impl CheckKey {
    pub fn new(secret: Secret) -> Self {
        Self(secret)
    }
}

/// The stored form of a customer's key: an HMAC that only the server can compute.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct CheckValue {
    /// Random, one for each object: equal keys have different check values.
    pub salt: [u8; 16],
    pub mac: [u8; 32],
}

impl fmt::Debug for CheckValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("CheckValue(..)")
    }
}

/// The key of one request.
#[derive(Debug)]
pub struct CustomerKey(Secret);

impl CustomerKey {
    /// Copies the bytes; the caller overwrites its own.
    pub fn new(bytes: &[u8; 32]) -> Self {
        Self(Secret::new(bytes))
    }

    /// The data key that seals the blobs of this request. It shares nothing, so its id is zeros and its fingerprint key
    /// has no use.
    pub fn data_key(&self, store: StoreId) -> DataKey {
        DataKey::new(DataKeyId([0; 16]), store, extract(CUSTOMER, self.0.expose()))
    }

    /// The check value for a random salt.
    pub fn check_value(&self, key: &CheckKey, salt: [u8; 16]) -> CheckValue {
        CheckValue { salt, mac: mac(key.0.expose(), &[CHECK, &salt, self.0.expose()]) }
    }

    /// Whether this is the key of a check value; takes the same time for any other key.
    pub fn matches(&self, key: &CheckKey, check: &CheckValue) -> bool {
        mac_is(key.0.expose(), &[CHECK, &check.salt, self.0.expose()], &check.mac)
    }
}
