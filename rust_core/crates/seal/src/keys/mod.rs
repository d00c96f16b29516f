//! The keys beside the keyring: the master key that opens it, data keys and how they are wrapped, keys that customers
//! send, and how clients name keys.

mod control;
mod customer;
mod data_key;
mod kms;
mod master;
mod wrapped;

pub use control::ControlKey;
pub use customer::{CheckKey, CheckValue, CustomerKey};
pub use data_key::{DataKey, DataKeyId};
pub use kms::{EncryptionContext, KMS_DEFAULT_KEY, KeyName, KeyReference};
#[cfg(test)]
pub(crate) use master::stretched;
pub use master::{Kdf, MasterCache, MasterKey, MasterSecret, Passphrase, ScryptParams};
pub use wrapped::{Domain, WRAPPED_LENGTH, WrappedKey};
