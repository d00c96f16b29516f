//! Data keys: each seals the blobs of one owner or bucket, as long as both live. Rotating other keys rewraps it and never
//! changes it.

use std::fmt;
use std::sync::OnceLock;

use crate::blob::{BlobKey, BlobSealer};
use crate::cipher::Algorithm;
use crate::derive::Expander;
use crate::error::Result;
use crate::fresh::{FreshId, Random};
use crate::id::{SealId, StoreId};
use crate::secret::Secret;

const BLOBS: &[u8] = b"orcas seal v1 blobs";
const CONTEXT: &[u8] = b"orcas seal v1 context";
const FINGERPRINTS: &[u8] = b"orcas seal v1 fingerprints";

/// The name of a data key, random.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct DataKeyId(pub [u8; 16]);

/// A data key, unwrapped, of one store.
pub struct DataKey {
    id: DataKeyId,
    store: StoreId,
    secret: Secret,
    blobs: Expander,
    /// Derived when it is first needed: every upload needs it.
    fingerprints: OnceLock<Secret>,
}

impl DataKey {
    /// A new data key.
    ///
    /// # Errors
    /// Those of `random`.
    pub fn generate(store: StoreId, random: Random<'_>) -> Result<Self> {
        let (mut id, mut secret) = ([0; 16], Secret::new(&[0; 32]));
        random(&mut id)?;
        let mut filled = Ok(());
        secret.fill(|bytes| filled = random(bytes));
        filled?;
        Ok(Self::new(DataKeyId(id), store, secret))
    }

    pub(crate) fn new(id: DataKeyId, store: StoreId, secret: Secret) -> Self {
        let blobs = Expander::new(secret.expose()).expand(&[BLOBS, &store.0], Expander::new);
        Self { id, store, secret, blobs, fingerprints: OnceLock::new() }
    }

    pub fn id(&self) -> DataKeyId {
        self.id
    }

    pub fn store(&self) -> StoreId {
        self.store
    }

    pub(crate) fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The key for fingerprints of content that is sealed under this data key. Content is shared among what has the same
    /// one. Not for data keys of customers, which share nothing.
    pub fn fingerprint_key(&self) -> &Secret {
        let derive = || Expander::new(self.secret.expose()).expand(&[FINGERPRINTS, &self.store.0], Secret::new);
        self.fingerprints.get_or_init(derive)
    }

    /// The data key for blobs that are bound to a context, which opens them with the same bytes only. An empty context
    /// binds nothing: it gives the same key.
    pub fn bound(&self, context: &[u8]) -> Self {
        let expander = Expander::new(self.secret.expose());
        let secret = match context {
            [] => self.secret.clone(),
            context => expander.expand(&[CONTEXT, &self.store.0, context], Secret::new),
        };
        Self::new(self.id, self.store, secret)
    }

    /// Begins to seal a blob of `length` bytes.
    pub fn sealer(&self, algorithm: Algorithm, id: FreshId, length: u64) -> BlobSealer {
        let id = id.used();
        BlobSealer::new(self.blob_key(algorithm, id), id, length)
    }

    /// The key of a blob that was sealed with `algorithm` under `id`. Any other values make a key that opens nothing.
    pub fn blob_key(&self, algorithm: Algorithm, id: SealId) -> BlobKey {
        self.blobs.expand(&[&id.0, &[algorithm.code()]], |key| BlobKey::new(algorithm, key))
    }
}

impl fmt::Debug for DataKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DataKey").field("id", &self.id).finish_non_exhaustive()
    }
}
