//! Errors of keys and sealed bytes. No variant holds a secret or anything derived from one.

use crate::id::{KeyId, StoreId};

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The one answer to a wrong or missing master key.
    #[error("the master key is missing, or is not the one that the keyring was sealed with")]
    MasterKey,
    /// The text of a master key or passphrase cannot be one.
    #[error("{reason}")]
    MalformedMasterKey { reason: &'static str },
    #[error("the keyring is damaged: {reason}")]
    DamagedKeyring { reason: &'static str },
    #[error("the keyring was written by format {found}; this version reads format {supported}")]
    Version { found: u32, supported: u32 },
    #[error("the keyring belongs to another store, {found}")]
    Foreign { found: StoreId },
    #[error("scrypt parameters are out of bounds: {reason}")]
    ScryptParams { reason: &'static str },
    #[error("no key {id} is in the keyring")]
    UnknownKey { id: KeyId },
    #[error("key {id} is disabled")]
    KeyDisabled { id: KeyId },
    /// A key whose destruction is scheduled; that can still be cancelled.
    #[error("key {id} is about to be destroyed")]
    KeyPendingDestruction { id: KeyId },
    #[error("key {id} was destroyed")]
    KeyDestroyed { id: KeyId },
    /// The operation asks for another state, such as cancelling a destruction that is not scheduled.
    #[error("key {id} is not in a state that allows this")]
    KeyState { id: KeyId },
    #[error("a key with this name exists")]
    NameTaken,
    /// No owner gets another data key.
    #[error("the keyring has 16,384 data keys, as many as it takes")]
    TooManyDataKeys,
    /// A limit of the keyring, or a name or number outside its bounds.
    #[error("{reason}")]
    Invalid { reason: &'static str },
    /// Sealed bytes, their tag, or what they are bound to has changed, or the key is another one.
    #[error("sealed data does not authenticate")]
    NotAuthentic,
    /// The caller's blocks, tags and length do not fit together.
    #[error("blocks do not fit the blob: {reason}")]
    Blocks { reason: &'static str },
}
