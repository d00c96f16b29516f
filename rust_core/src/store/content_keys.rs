//! The data keys of owners, from the keyring of the store to the engine.

use std::sync::Arc;

use parking_lot::RwLock;

use orcas_base::error::{Error, KeyFault, Result};
use orcas_keyring::{KeyError, Keyring};
use orcas_seal::{
    Algorithm, BlobKey, CheckKey, DataKey, DataKeyId, Error as SealError, KMS_DEFAULT_KEY, KeyId, KeyReference, SealId,
    StoreId,
};
use orcas_store::ContentKeys;

/// What data keys of SSE-S3 are kept under, followed by the owner.
const MANAGED: &[u8] = b"content:";
/// What data keys that named keys wrap are kept under, followed by the owner.
const NAMED: &[u8] = b"named:";

pub struct KeyringKeys(pub Arc<Keyring>);

/// The keys of a standby, whose keyring is another one from time to time. They open what is sealed, and seal nothing.
pub struct CopiedKeys {
    store: StoreId,
    keyring: RwLock<Option<Arc<Keyring>>>,
}

impl CopiedKeys {
    pub fn new(store: [u8; 16]) -> Self {
        Self { store: StoreId(store), keyring: RwLock::new(None) }
    }

    pub fn replace(&self, keyring: Option<Arc<Keyring>>) {
        *self.keyring.write() = keyring;
    }

    fn keyring(&self) -> Result<Arc<Keyring>> {
        self.keyring.read().clone().ok_or(Error::NoKeyring)
    }
}

impl ContentKeys for CopiedKeys {
    fn store(&self) -> StoreId {
        self.store
    }

    fn current(&self, _: &[u8], _: Option<[u8; 16]>) -> Result<Arc<DataKey>> {
        Err(Error::NoNewKey { reason: "a standby stores nothing".into() })
    }

    fn at_hand(&self, _: &[u8], _: Option<[u8; 16]>) -> bool {
        false
    }

    fn named(&self, name: Option<&str>) -> Result<[u8; 16]> {
        KeyringKeys(self.keyring()?).named(name)
    }

    fn check_named(&self, id: [u8; 16]) -> Result<()> {
        KeyringKeys(self.keyring()?).check_named(id)
    }

    fn check_key(&self) -> Result<CheckKey> {
        KeyringKeys(self.keyring()?).check_key()
    }

    fn by_id(&self, id: DataKeyId) -> Result<Arc<DataKey>> {
        KeyringKeys(self.keyring()?).by_id(id)
    }

    fn blob_key(&self, id: DataKeyId, algorithm: Algorithm, seal: SealId) -> Result<Arc<BlobKey>> {
        KeyringKeys(self.keyring()?).blob_key(id, algorithm, seal)
    }
}

fn purpose(owner: &[u8], by: Option<[u8; 16]>) -> Vec<u8> {
    [if by.is_some() { NAMED } else { MANAGED }, owner].concat()
}

fn fault(error: &KeyError) -> KeyFault {
    match error {
        KeyError::Unusable(SealError::KeyDisabled { .. }) => KeyFault::Disabled,
        KeyError::Unusable(SealError::KeyPendingDestruction { .. }) => KeyFault::PendingDestruction,
        KeyError::Unusable(SealError::KeyDestroyed { .. } | SealError::UnknownKey { .. })
        | KeyError::NoKey { .. }
        | KeyError::NoSuchKey { .. } => KeyFault::Missing,
        KeyError::Unusable(_) | KeyError::Unknown { .. } | KeyError::NotStored(_) | KeyError::Older(_) => {
            KeyFault::Damaged
        }
    }
}

fn refusal(error: &KeyError) -> Error {
    let (reason, fault) = (error.to_string().into(), fault(error));
    match error {
        KeyError::NotStored(_) | KeyError::Older(_) | KeyError::Unusable(SealError::TooManyDataKeys) => {
            Error::NoNewKey { reason }
        }
        KeyError::Unusable(_) | KeyError::NoKey { .. } | KeyError::NoSuchKey { .. } | KeyError::Unknown { .. } => {
            Error::KeyUnusable { reason, fault }
        }
    }
}

fn named_refusal(error: &KeyError) -> Error {
    Error::NamedKeyUnusable { reason: error.to_string().into(), fault: fault(error) }
}

/// Whether this is how clients of KMS name the key that is used unless they name one.
fn is_default(name: &str) -> bool {
    matches!(KeyReference::parse(name), Some(KeyReference::Name(name)) if name.as_str() == KMS_DEFAULT_KEY)
}

impl ContentKeys for KeyringKeys {
    fn store(&self) -> StoreId {
        self.0.store()
    }

    fn current(&self, owner: &[u8], by: Option<[u8; 16]>) -> Result<Arc<DataKey>> {
        let purpose = purpose(owner, by);
        match by {
            None => self.0.data_key(&purpose),
            Some(id) => self.0.data_key_by(KeyId(id), &purpose),
        }
        .map_err(|error| refusal(&error))
    }

    fn at_hand(&self, owner: &[u8], by: Option<[u8; 16]>) -> bool {
        let purpose = purpose(owner, by);
        let known = match by {
            None => self.0.known_data_key(&purpose),
            Some(id) => self.0.known_data_key_by(KeyId(id), &purpose),
        };
        matches!(known, Ok(Some(_)))
    }

    fn named(&self, name: Option<&str>) -> Result<[u8; 16]> {
        let key = match name.filter(|name| !is_default(name)) {
            None => self.0.default_key().and_then(|id| self.0.named_key(&id.to_string())),
            Some(name) => self.0.named_key(name),
        };
        key.map(|id| id.0).map_err(|error| named_refusal(&error))
    }

    fn check_named(&self, id: [u8; 16]) -> Result<()> {
        self.0.named_key(&KeyId(id).to_string()).map(drop).map_err(|error| named_refusal(&error))
    }

    fn check_key(&self) -> Result<CheckKey> {
        self.0.check_key().map_err(|error| refusal(&error))
    }

    fn by_id(&self, id: DataKeyId) -> Result<Arc<DataKey>> {
        self.0.unwrap(id).map_err(|error| refusal(&error))
    }

    fn blob_key(&self, id: DataKeyId, algorithm: Algorithm, seal: SealId) -> Result<Arc<BlobKey>> {
        self.0.blob_key(id, algorithm, seal).map_err(|error| refusal(&error))
    }
}
