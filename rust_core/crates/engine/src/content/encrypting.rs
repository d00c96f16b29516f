//! Which data key seals content of an object, and which key opens it: one of the server, a named one, or the key of a
//! request. Must not know headers, or how keys are kept.

use std::sync::Arc;

use crate::handle::Handle;
use crate::state::EngineState;
use orcas_base::error::{Error, Result};
use orcas_base::sync::atomic::Ordering;
use orcas_record::{Bucket, Encryption, KeyCheck, Seal};
use orcas_seal::{BlobKey, CheckValue, DataKey, DataKeyId, KeyId, SealId};
use orcas_store::{ContentKeys, RequestKey, Sealing, algorithm_of, blob_key, bound, key_of_blob};

/// The account in the names of keys.
const ACCOUNT: &str = "000000000000";

/// The name of a key for clients of KMS.
pub fn key_arn(id: [u8; 16], region: &str) -> String {
    KeyId(id).arn(region, ACCOUNT)
}

impl Handle {
    /// The key of a request.
    ///
    /// # Errors
    /// [`Error::NoKeyring`].
    pub fn request_key(&self, bytes: &[u8; 32]) -> Result<RequestKey> {
        Ok(RequestKey::new(bytes, self.shared.content_keys()?.store()))
    }

    /// What a new object says of the key that encrypts it.
    ///
    /// # Errors
    /// [`Error::NoKeyring`], or why the key of check values cannot be used.
    pub fn encryption_with(&self, key: &RequestKey) -> Result<Encryption> {
        let mut salt = [0; 16];
        self.shared.random.fill(&mut salt)?;
        let CheckValue { salt, mac } = key.check_value(&self.shared.content_keys()?.check_key()?, salt);
        Ok(Encryption::Customer(Arc::new(KeyCheck { salt, mac })))
    }

    /// Whether this is the key that the object says it was encrypted with.
    ///
    /// # Errors
    /// As of `encryption_with`.
    pub fn is_key_of(&self, key: &RequestKey, check: &KeyCheck) -> Result<bool> {
        let value = CheckValue { salt: check.salt, mac: check.mac };
        Ok(key.matches(&self.shared.content_keys()?.check_key()?, &value))
    }

    /// Whether any bucket has default encryption.
    pub fn has_default_encryption(&self) -> bool {
        self.shared.default_encryptions.load(Ordering::Relaxed) > 0
    }

    /// The id of the key that a client names as in KMS; of the default one for `None`.
    ///
    /// # Errors
    /// [`Error::NoKeyring`], [`Error::NamedKeyUnusable`].
    pub fn named_key(&self, name: Option<&str>) -> Result<[u8; 16]> {
        self.shared.content_keys()?.named(name)
    }

    /// Refuses content whose named key cannot be used now.
    ///
    /// # Errors
    /// [`Error::NoKeyring`], [`Error::NamedKeyUnusable`].
    pub fn check_named_key(&self, encryption: Option<&Encryption>) -> Result<()> {
        match encryption {
            Some(Encryption::Named(named)) => self.shared.content_keys()?.check_named(named.id),
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
        self.shared.random.fill(&mut md5)?;
        Ok(Some(md5))
    }
}

impl EngineState {
    fn content_keys(&self) -> Result<&dyn ContentKeys> {
        self.content_keys.get().map(|keys| &**keys).ok_or(Error::NoKeyring)
    }

    /// What new content of the bucket is sealed under.
    pub fn data_key(&self, bucket: &Bucket, sealing: &Sealing) -> Result<Arc<DataKey>> {
        match &sealing.encryption {
            None => Err(Error::Record { reason: "content is to be sealed without encryption" }),
            Some(Encryption::Managed) => self.content_keys()?.current(&bucket.owner, None),
            Some(Encryption::Named(named)) => {
                let key = self.content_keys()?.current(&bucket.owner, Some(named.id)).map_err(of_named)?;
                Ok(bound(key, &named.context))
            }
            Some(Encryption::Customer(_)) => sealing.of_request(),
        }
    }

    pub fn has_data_key_at_hand(&self, bucket: &Bucket, sealing: &Sealing) -> bool {
        let by = match &sealing.encryption {
            Some(Encryption::Named(named)) => Some(named.id),
            Some(Encryption::Managed) => None,
            Some(Encryption::Customer(_)) | None => return true,
        };
        self.content_keys.get().is_some_and(|keys| keys.at_hand(&bucket.owner, by))
    }

    /// The key of a blob that is read. Keys that depend on more than the keyring, such as a context, are not cached.
    pub fn blob_key(&self, seal: &Seal, sealing: &Sealing) -> Result<Arc<BlobKey>> {
        match &sealing.encryption {
            Some(Encryption::Customer(_)) => blob_key(&*sealing.of_request()?, seal).map(Arc::new),
            Some(Encryption::Named(named)) if named.context.is_empty() => self.cached_key(seal).map_err(of_named),
            Some(Encryption::Named(named)) => {
                key_of_blob(self.content_keys()?, seal, &named.context).map(Arc::new).map_err(of_named)
            }
            Some(Encryption::Managed) | None => self.cached_key(seal),
        }
    }

    fn cached_key(&self, seal: &Seal) -> Result<Arc<BlobKey>> {
        self.content_keys()?.blob_key(DataKeyId(seal.data_key), algorithm_of(seal)?, SealId(seal.id))
    }
}

fn of_named(error: Error) -> Error {
    match error {
        Error::KeyUnusable { reason, fault } => Error::NamedKeyUnusable { reason, fault },
        error => error,
    }
}
