//! Which data key seals content of an object, and which key opens it: one of the server, a named one, or the key of a
//! request. Must not know headers, or how keys are kept.

use std::sync::{Arc, OnceLock};

use orcas_base::error::{Error, Result};
use orcas_fs::Random;
use orcas_record::{Bucket, Encryption, KeyCheck, Seal};
use orcas_seal::{BlobKey, CheckValue, DataKey, DataKeyId, KeyId, SealId};
use orcas_store::{ContentKeys, RequestKey, Sealing, algorithm_of, blob_key, bound, key_of_blob};

/// The account in the names of keys.
const ACCOUNT: &str = "000000000000";

/// The name of a key for clients of KMS.
pub fn key_arn(id: [u8; 16], region: &str) -> String {
    KeyId(id).arn(region, ACCOUNT)
}

/// The keys of a store's content.
pub struct ObjectKeys {
    /// Set once, before the first request. Without it nothing is sealed, and what is sealed cannot be read.
    keys: OnceLock<Arc<dyn ContentKeys>>,
    pub(crate) random: Arc<dyn Random>,
}

impl ObjectKeys {
    pub(crate) fn new(random: Arc<dyn Random>) -> Self {
        Self { keys: OnceLock::new(), random }
    }

    /// Sets where data keys come from: once, before the first request.
    pub fn set(&self, keys: Arc<dyn ContentKeys>) {
        // A second time changes nothing: the store has one keyring.
        let _ = self.keys.set(keys);
    }

    pub(crate) fn get(&self) -> Option<&dyn ContentKeys> {
        self.keys.get().map(|keys| &**keys)
    }

    /// Whether content can be sealed.
    pub fn can_seal(&self) -> bool {
        self.keys.get().is_some()
    }

    /// Whether new content of the bucket can be sealed without waiting.
    pub fn can_seal_at_once(&self, bucket: &Bucket, sealing: &Sealing) -> bool {
        let by = match &sealing.encryption {
            Some(Encryption::Named(named)) => Some(named.id),
            Some(Encryption::Managed) => None,
            Some(Encryption::Customer(_)) | None => return true,
        };
        self.get().is_some_and(|keys| keys.at_hand(&bucket.owner, by))
    }

    /// The key of a request.
    ///
    /// # Errors
    /// [`Error::NoKeyring`].
    pub fn request_key(&self, bytes: &[u8; 32]) -> Result<RequestKey> {
        Ok(RequestKey::new(bytes, self.usable()?.store()))
    }

    /// The description of the key that encrypts a new object, as its version keeps it.
    ///
    /// # Errors
    /// [`Error::NoKeyring`], or why the key of check values cannot be used.
    pub fn encryption_with(&self, key: &RequestKey) -> Result<Encryption> {
        let mut salt = [0; 16];
        self.random.fill(&mut salt)?;
        let CheckValue { salt, mac } = key.check_value(&self.usable()?.check_key()?, salt);
        Ok(Encryption::Customer(Arc::new(KeyCheck { salt, mac })))
    }

    /// Whether this is the key that the object says it was encrypted with.
    ///
    /// # Errors
    /// As of `encryption_with`.
    pub fn is_key_of(&self, key: &RequestKey, check: &KeyCheck) -> Result<bool> {
        let value = CheckValue { salt: check.salt, mac: check.mac };
        Ok(key.matches(&self.usable()?.check_key()?, &value))
    }

    /// The id of the key that a client names as in KMS; of the default one for `None`.
    ///
    /// # Errors
    /// [`Error::NoKeyring`], [`Error::NamedKeyUnusable`].
    pub fn named_key(&self, name: Option<&str>) -> Result<[u8; 16]> {
        self.usable()?.named(name)
    }

    /// Refuses content whose named key cannot be used now.
    ///
    /// # Errors
    /// [`Error::NoKeyring`], [`Error::NamedKeyUnusable`].
    pub fn check_named_key(&self, encryption: Option<&Encryption>) -> Result<()> {
        match encryption {
            Some(Encryption::Named(named)) => self.usable()?.check_named(named.id),
            _ => Ok(()),
        }
    }

    /// 16 random bytes in the place of an MD5 that nobody may know; `None` if the MD5 is no secret.
    ///
    /// # Errors
    /// When there is no randomness.
    pub fn hidden_md5(&self, encryption: Option<&Encryption>) -> Result<Option<[u8; 16]>> {
        if !encryption.is_some_and(Encryption::hides_digests) {
            return Ok(None);
        }
        let mut md5 = [0; 16];
        self.random.fill(&mut md5)?;
        Ok(Some(md5))
    }

    fn usable(&self) -> Result<&dyn ContentKeys> {
        self.get().ok_or(Error::NoKeyring)
    }

    /// The key under which new content of the bucket is sealed.
    pub(crate) fn data_key(&self, bucket: &Bucket, sealing: &Sealing) -> Result<Arc<DataKey>> {
        match &sealing.encryption {
            None => Err(Error::Record { reason: "content is to be sealed without encryption" }),
            Some(Encryption::Managed) => self.usable()?.current(&bucket.owner, None),
            Some(Encryption::Named(named)) => {
                let key = self.usable()?.current(&bucket.owner, Some(named.id)).map_err(of_named)?;
                Ok(bound(key, &named.context))
            }
            Some(Encryption::Customer(_)) => sealing.of_request(),
        }
    }

    /// The key of a blob that is read. Keys that depend on more than the keyring, such as a context, are not cached.
    pub(crate) fn blob_key(&self, seal: &Seal, sealing: &Sealing) -> Result<Arc<BlobKey>> {
        match &sealing.encryption {
            Some(Encryption::Customer(_)) => blob_key(&*sealing.of_request()?, seal).map(Arc::new),
            Some(Encryption::Named(named)) if named.context.is_empty() => self.cached_key(seal).map_err(of_named),
            Some(Encryption::Named(named)) => {
                key_of_blob(self.usable()?, seal, &named.context).map(Arc::new).map_err(of_named)
            }
            Some(Encryption::Managed) | None => self.cached_key(seal),
        }
    }

    fn cached_key(&self, seal: &Seal) -> Result<Arc<BlobKey>> {
        self.usable()?.blob_key(DataKeyId(seal.data_key), algorithm_of(seal)?, SealId(seal.id))
    }
}

fn of_named(error: Error) -> Error {
    match error {
        Error::KeyUnusable { reason, fault } => Error::NamedKeyUnusable { reason, fault },
        error => error,
    }
}
