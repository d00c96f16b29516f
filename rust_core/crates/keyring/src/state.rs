//! One state of an open keyring, as its readers see it. It never changes: a change replaces it.

use std::collections::HashMap;

use orcas_seal::{
    DataKeyId, Kdf, Key, KeyId, KeyName, KeyReference, Keyring as Keys, SSE_S3_KEY, ScryptParams, StoredKey,
};

/// One state of the keyring.
pub(crate) struct KeyringState {
    pub keys: Keys,
    /// The places of all data keys.
    pub places: HashMap<DataKeyId, usize>,
    /// The data key for new content, by the key that wraps it and its owner, among those that both files have.
    pub current: HashMap<KeyId, HashMap<Vec<u8>, DataKeyId>>,
    /// The key for content of SSE-S3.
    pub sse_s3: Option<KeyId>,
    /// How many data keys both files have, which are the first ones.
    pub durable: usize,
    /// The cost of scrypt, if the master key comes from a passphrase.
    pub scrypt: Option<ScryptParams>,
}

impl KeyringState {
    /// `kdf`: how the master key that seals it was derived.
    pub fn new(keys: Keys, durable: usize, kdf: Kdf) -> Self {
        let stored = keys.data_keys();
        let places = stored.iter().enumerate().map(|(place, stored)| (stored.wrapped.data_key(), place)).collect();
        let mut current: HashMap<_, HashMap<_, _>> = HashMap::new();
        for StoredKey { owner, wrapped } in &stored[..durable] {
            current.entry(wrapped.key()).or_default().insert(owner.clone(), wrapped.data_key());
        }
        let sse_s3 = sse_s3_key(&keys).map(|key| key.id);
        let scrypt = match kdf {
            Kdf::Scrypt { params, .. } => Some(params),
            Kdf::Key => None,
        };
        Self { keys, places, current, sse_s3, durable, scrypt }
    }
}

pub(crate) fn sse_s3_key(keys: &Keys) -> Option<&Key> {
    keys.find(&KeyReference::Name(KeyName::new(SSE_S3_KEY).expect("the name is a valid one")))
}
