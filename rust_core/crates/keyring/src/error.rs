//! Why a keyring does not open, a change fails, or a data key is not available. Each message is one or two sentences
//! for the operator, and contains no secret.

use std::path::PathBuf;

use orcas_base::error::Error as FileError;
use orcas_seal::{DataKeyId, Error as SealError};

/// A keyring that does not open. Nothing was changed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum OpenError {
    #[error("there is no keyring in {dir}: restore keyring and keyring.copy from a backup", dir = dir.display())]
    Missing { dir: PathBuf },
    #[error(
        "the store in {dir} has a keyring, and no master key was given: set ORCAS_MASTER_KEY or ORCAS_MASTER_PASSPHRASE, \
         or the same name with _FILE, to what it was sealed with",
        dir = dir.display()
    )]
    NoMasterKey { dir: PathBuf },
    #[error("{dir} has a keyring already", dir = dir.display())]
    Exists { dir: PathBuf },
    #[error("no copy of the keyring can be read ({first}; {second}): restore keyring and keyring.copy from a backup")]
    Damaged { first: String, second: String },
    #[error("the master key is not the one that {path} was sealed with: give that one", path = path.display())]
    MasterKey { path: PathBuf },
    #[error("{path} was sealed with a passphrase, but a master key was given", path = path.display())]
    WantsPassphrase { path: PathBuf },
    #[error("{path} was sealed with a master key, but a passphrase was given", path = path.display())]
    WantsKey { path: PathBuf },
    /// The newer copy is under another master key.
    #[error(
        "the master key was changed, and the one that was given opens only the older copy of the keyring: give the new \
         one, for {path}",
        path = path.display()
    )]
    FormerMasterKey { path: PathBuf },
    #[error("{path} belongs to another store", path = path.display())]
    Foreign { path: PathBuf },
    #[error("{path}: {error}", path = path.display())]
    Version { path: PathBuf, error: SealError },
    #[error(transparent)]
    Invalid(#[from] SealError),
    #[error("the keyring was not created: {0}")]
    NotStored(#[from] ChangeError),
}

/// The keyring is an older one that was put back. Changes and new data keys would make it differ from newer copies, of
/// which one may be restored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the keyring is of generation {found}, and the store has had generation {noted}: restore a newer copy, or give it up \
     with `orcas key accept-older`"
)]
pub struct Older {
    pub found: u64,
    pub noted: u64,
}

/// A change that is not durable in both files. Says what holds now.
#[derive(Clone, Debug, thiserror::Error)]
pub enum ChangeError {
    #[error(transparent)]
    Refused(#[from] SealError),
    #[error(transparent)]
    Older(#[from] Older),
    #[error("the keyring is not older than one that the store has had")]
    NotOlder,
    /// Content may be sealed under data keys that the key wraps.
    #[error("content may need this key and would be lost with it; `--lose-content` destroys it nevertheless")]
    InUse,
    #[error("nothing was changed, because {path} cannot be written: {error}", path = path.display())]
    Unchanged { path: PathBuf, error: FileError },
    #[error(
        "the change is in effect, but a power failure may undo it, because {path} cannot be made durable: {error}; it is \
         written again at the next change or start",
        path = path.display()
    )]
    Uncertain { path: PathBuf, error: FileError },
    #[error(
        "the change is in effect and durable, but in one file only, because {path} cannot be written: {error}; it is \
         written again at the next change or start",
        path = path.display()
    )]
    OneCopy { path: PathBuf, error: FileError },
}

/// A data key that cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum KeyError {
    /// The key that wraps it is disabled, is about to be destroyed, or was destroyed; or its wrapping does not verify.
    #[error(transparent)]
    Unusable(#[from] SealError),
    #[error("no key {name} is in the keyring: `orcas key create {name}` makes one")]
    NoKey { name: &'static str },
    /// A client names it.
    #[error("no key {text:?} is in the keyring")]
    NoSuchKey { text: String },
    /// The keyring is older than what was sealed with it.
    #[error("data key {} is not in the keyring, which is older than the store: restore a newer copy", hex(id))]
    Unknown { id: DataKeyId },
    /// Nothing new is sealed.
    #[error(transparent)]
    Older(#[from] Older),
    #[error("a new data key cannot be stored: {0}")]
    NotStored(#[from] ChangeError),
}

fn hex(id: &DataKeyId) -> String {
    id.0.iter().map(|byte| format!("{byte:02x}")).collect()
}
