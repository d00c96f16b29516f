//! Encryption at rest: a master key opens a keyring, its keys wrap data keys, and data keys seal blobs.
//!
//! Pure: bytes in, bytes out. Time and randomness come from the caller; files and requests are unknown here.
//! `docs/format.md` specifies every format that it encodes, and `docs/adr/0015-sealed-blobs.md` gives the reasons.
//! Secrets are overwritten when they are dropped, and no `Debug` shows them.

mod blob;
mod cache;
mod cipher;
mod control;
mod customer;
mod data_key;
mod derive;
mod error;
mod fresh;
mod id;
mod keyring;
mod kms;
mod master;
mod secret;
#[cfg(test)]
mod tests;
mod wrapped;

pub use blob::{BlobKey, BlobSealer, METADATA_MAX, block_range, tag_count};
pub use cache::{CacheCounts, CacheLimits, KeyCache};
pub use cipher::{Algorithm, TAG_LENGTH, Tag};
pub use control::ControlKey;
pub use customer::{CheckKey, CheckValue, CustomerKey};
pub use data_key::{DataKey, DataKeyId};
pub use error::{Error, Result};
pub use fresh::{FreshId, Random};
pub use id::{KeyId, SEAL_ID_LENGTH, SealId, StoreId};
pub use keyring::decode_body;
pub use keyring::{
    CONTROL_KEY, DATA_KEYS_MAX, KEYRING_LENGTH_MAX, KEYS_MAX, Key, KeyState, Keyring, SSE_S3_KEY, SealedKeyring,
    StoredKey, VERSIONS_MAX, Version, WAIT_DAYS_DEFAULT, WAIT_DAYS_MAX, WAIT_DAYS_MIN,
};
pub use kms::{EncryptionContext, KMS_DEFAULT_KEY, KeyName, KeyReference};
pub use master::{Kdf, MasterCache, MasterKey, MasterSecret, Passphrase, ScryptParams};
pub use secret::Secret;
pub use wrapped::{Domain, WRAPPED_LENGTH, WrappedKey};
