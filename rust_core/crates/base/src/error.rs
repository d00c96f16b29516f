//! The errors of the store below S3. Variants have the data that messages and decisions need, so no code matches on
//! text. Cloneable, because a failed sync fails every writer of its batch.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub type Result<T, E = Error> = std::result::Result<T, E>;

#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    #[error("{op} failed on {path}: {source}", path = path.display())]
    Io { op: &'static str, path: PathBuf, source: Arc<io::Error> },
    #[error("{path} is damaged at byte {offset}: {reason}", path = path.display())]
    Corrupt { path: PathBuf, offset: u64, reason: &'static str },
    #[error("{path} is missing although the store depends on it", path = path.display())]
    Missing { path: PathBuf },
    #[error("{path} does not belong to this store: {reason}", path = path.display())]
    Foreign { path: PathBuf, reason: &'static str },
    #[error("{path} was written by format {found}; this version reads format {supported}", path = path.display())]
    Version { path: PathBuf, found: u32, supported: u32 },
    #[error("another process has the store at {path} open", path = path.display())]
    Locked { path: PathBuf },
    #[error("the index failed: {reason}")]
    Index { reason: Arc<str> },
    /// The index is damaged or unreadable. It can be rebuilt from the log.
    #[error("the index is damaged: {reason}")]
    IndexDamaged { reason: Arc<str> },
    /// There are too many requests at once.
    #[error("all {connections} read connections of the index stayed in use")]
    Busy { connections: u32 },
    /// The request can be repeated, and goes on then.
    #[error("more newer versions of the key were deleted than one request may pass over")]
    ManyDeleted,
    #[error("a stored record cannot be read: {reason}")]
    Record { reason: &'static str },
    /// There is no keyring, or no master key was given.
    #[error(
        "the content is encrypted, and the keyring is not open: ORCAS_MASTER_KEY or ORCAS_MASTER_PASSPHRASE opens it"
    )]
    NoKeyring,
    /// A key of the keyring cannot be used.
    #[error("the key of the content cannot be used: {reason}")]
    KeyUnusable { reason: Arc<str>, fault: KeyFault },
    /// A key that a client named cannot be used.
    #[error("the key of the content cannot be used: {reason}")]
    NamedKeyUnusable { reason: Arc<str>, fault: KeyFault },
    /// The key of the client is not stored: the request has to bring it.
    #[error("the content is encrypted with the key of a customer")]
    NoCustomerKey,
    /// No key for new content is available at present.
    #[error("no key for new content: {reason}")]
    NoNewKey { reason: Arc<str> },
    #[error("the disk is full")]
    StorageFull,
    /// There is free space, but not more than the reserve.
    #[error("the disk has less free space than ORCAS_DISK_RESERVE keeps, which is {reserve} bytes")]
    UnderReserve { reserve: u64 },
    #[error("the store is read-only: {cause}")]
    ReadOnly { cause: StoreFault },
    #[error("the store is closed")]
    Closed,
}

/// The reasons why a key cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyFault {
    /// No such key, or not any more.
    Missing,
    Disabled,
    PendingDestruction,
    /// The bytes that the key wraps do not verify.
    Damaged,
}

/// Why a store is read-only or degraded.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreFault {
    /// Public: contains no path and nothing that a user stored.
    pub reason: &'static str,
    /// The detail for the operator. May be empty.
    pub detail: Arc<str>,
}

impl StoreFault {
    pub fn new(reason: &'static str, detail: impl Into<Arc<str>>) -> Self {
        Self { reason, detail: detail.into() }
    }
}

impl From<&'static str> for StoreFault {
    fn from(reason: &'static str) -> Self {
        Self::new(reason, "")
    }
}

impl fmt::Display for StoreFault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.reason)?;
        if self.detail.is_empty() { Ok(()) } else { write!(f, ": {}", self.detail) }
    }
}

impl Error {
    pub fn io(op: &'static str, path: &Path, source: io::Error) -> Self {
        if source.kind() == io::ErrorKind::StorageFull || source.kind() == io::ErrorKind::QuotaExceeded {
            return Self::StorageFull;
        }
        Self::Io { op, path: path.to_owned(), source: Arc::new(source) }
    }

    /// Advice to the operator if a store does not open, as the end of a sentence.
    pub fn advice(&self) -> &'static str {
        match self {
            // Without keys nothing can be verified, so nothing can be given up either.
            Self::Corrupt { path, .. } | Self::Missing { path }
                if path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("store.keys")) =>
            {
                "; restore a backup, or serve what is left, read-only, with `orcas serve --salvage`"
            }
            Self::Version { found, supported, .. } if found < supported => {
                "; copy its objects to a new store, from the version of Orcas that wrote them"
            }
            Self::Version { .. } => "; use the version of Orcas that wrote it, or restore a backup that this one made",
            // Nothing that only the index has is ever lost.
            Self::Index { .. } | Self::IndexDamaged { .. } => {
                "; `orcas fsck` checks the store, and `orcas fsck --repair` builds the index anew from the log"
            }
            Self::Corrupt { .. } | Self::Missing { .. } | Self::Foreign { .. } | Self::Record { .. } => {
                "; `orcas fsck` shows what is damaged, `orcas fsck --repair --accept-loss` gives it up, so that the \
                 store opens, and `orcas serve --salvage` serves what is intact, read-only"
            }
            Self::StorageFull => {
                "; make room on its file system, or in the quota of its user: a start needs up to 8 MiB, and as much as \
                 the index has if that must be rebuilt"
            }
            Self::Io { .. }
            | Self::Locked { .. }
            | Self::Busy { .. }
            | Self::ManyDeleted
            | Self::NoKeyring
            | Self::KeyUnusable { .. }
            | Self::NamedKeyUnusable { .. }
            | Self::NoCustomerKey
            | Self::NoNewKey { .. }
            | Self::UnderReserve { .. }
            | Self::ReadOnly { .. }
            | Self::Closed => "",
        }
    }

    pub fn corrupt(path: &Path, offset: u64, reason: &'static str) -> Self {
        Self::Corrupt { path: path.to_owned(), offset, reason }
    }
}
