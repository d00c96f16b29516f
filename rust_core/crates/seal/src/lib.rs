//! Encryption at rest: a master key opens a keyring, its keys wrap data keys, and data keys seal blobs.
//!
//! Pure: bytes in, bytes out. Time and randomness come from the caller; files and requests are unknown here.
//! `docs/format.md` specifies every format that it encodes, and `docs/adr/0015-sealed-blobs.md` gives the reasons.
//! Secrets are overwritten when they are dropped, and no `Debug` shows them.

mod blob;
mod cache;
mod cipher;
mod derive;
mod error;
mod fresh;
mod id;
mod keyring;
mod keys;
mod secret;
#[cfg(test)]
mod tests;

pub use blob::{BlobKey, BlobSealer, METADATA_MAX, auth_tag_count, block_range};
pub use cache::{CacheCounts, CacheLimits, KeyCache};
pub use cipher::{AUTH_TAG_LENGTH, Algorithm, AuthTag, open_message, seal_message};
pub use error::{Error, Result};
pub use fresh::{FreshId, Random};
pub use id::{KeyId, SEAL_ID_LENGTH, SealId, StoreId};
pub use keyring::{
    CONTROL_KEY, DATA_KEYS_MAX, KEYRING_LENGTH_MAX, KEYS_MAX, Key, KeyState, Keyring, SSE_S3_KEY, SealedKeyring,
    StoredKey, VERSIONS_MAX, Version, WAIT_DAYS_DEFAULT, WAIT_DAYS_MAX, WAIT_DAYS_MIN, decode_body,
};
pub use keys::{
    CheckKey, CheckValue, ControlKey, CustomerKey, DataKey, DataKeyId, Domain, EncryptionContext, KMS_DEFAULT_KEY, Kdf,
    KeyName, KeyReference, MasterCache, MasterKey, MasterSecret, Passphrase, ScryptParams, WRAPPED_LENGTH, WrappedKey,
};
pub use secret::Secret;
