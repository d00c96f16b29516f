//! Where the data keys under which content is sealed come from. Must not know how they are kept.

use std::sync::Arc;

use orcas_base::error::Result;
use orcas_seal::{Algorithm, BlobKey, CheckKey, DataKey, DataKeyId, SealId, StoreId};

/// The id of a key of the keyring.
pub type KeyId = [u8; 16];

/// Where the data keys of owners come from. All but `current` never wait.
pub trait ContentKeys: Send + Sync {
    /// The store to whose blobs keys are bound.
    fn store(&self) -> StoreId;
    /// The key under which new content of the owner is sealed: one that the named key wraps, or one of SSE-S3. May write
    /// files the first time.
    ///
    /// # Errors
    /// Why there is none.
    fn current(&self, owner: &[u8], by: Option<KeyId>) -> Result<Arc<DataKey>>;
    /// Whether `current` would answer without waiting.
    fn at_hand(&self, owner: &[u8], by: Option<KeyId>) -> bool;
    /// The key that a client names as in KMS, or the default one, if it can be used.
    ///
    /// # Errors
    /// [`orcas_base::error::Error::NamedKeyUnusable`].
    fn named(&self, name: Option<&str>) -> Result<KeyId>;
    /// Refuses a named key that cannot be used.
    ///
    /// # Errors
    /// [`orcas_base::error::Error::NamedKeyUnusable`].
    fn check_named(&self, id: KeyId) -> Result<()>;
    /// The key of check values of customers' keys.
    ///
    /// # Errors
    /// Why it cannot be used.
    fn check_key(&self) -> Result<CheckKey>;
    /// The data key of this id.
    ///
    /// # Errors
    /// Why it cannot be used.
    fn by_id(&self, id: DataKeyId) -> Result<Arc<DataKey>>;
    /// The key of a blob that the data key of this id seals, to be used for reads: it may stay in a cache.
    ///
    /// # Errors
    /// Those of [`Self::by_id`].
    fn blob_key(&self, id: DataKeyId, algorithm: Algorithm, seal: SealId) -> Result<Arc<BlobKey>> {
        Ok(Arc::new(self.by_id(id)?.blob_key(algorithm, seal)))
    }
}
