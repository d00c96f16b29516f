//! An open keyring: data keys for content, changes, and what each of them does to the files.
//!
//! Changes are made one at a time, under `writer`; readers take the published state, which never changes. A data key is
//! handed out for new content only once both files have it.

mod master;

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orcas_base::error::Error;
use orcas_seal::{
    Algorithm, BlobKey, CONTROL_KEY, CacheCounts, CheckKey, ControlKey, DATA_KEYS_MAX, DataKey, DataKeyId,
    Error as SealError, FreshId, KMS_DEFAULT_KEY, Key, KeyCache, KeyId, KeyName, KeyReference, KeyState,
    Keyring as Keys, MasterKey, MasterSecret, SSE_S3_KEY, ScryptParams, SealId, StoreId,
};
use parking_lot::{Mutex, RwLock};

use crate::copies::{self, Copies, NAMES, Presence};
use crate::environment::Environment;
use crate::error::{ChangeError, KeyError, Older, OpenError};
use crate::info::KeyInfo;
use crate::state::{KeyringState, sse_s3_key};
use crate::times::KeyTimes;
use crate::unsealing::{kdf_for, unseal};

/// From here on, a warning says that the limit is near.
const DATA_KEYS_MANY: usize = DATA_KEYS_MAX / 10 * 9;

pub struct Keyring {
    environment: Environment,
    dir: PathBuf,
    writer: Mutex<Writer>,
    /// The newest generation that the store has had. An older keyring is for reading only.
    noted: u64,
    published: RwLock<Arc<KeyringState>>,
    data_keys: KeyCache<DataKeyId, DataKey>,
    blob_keys: KeyCache<BlobId, BlobKey>,
    times: KeyTimes,
}

/// The values from which the key of a blob derives.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct BlobId {
    data_key: DataKeyId,
    algorithm: Algorithm,
    seal: SealId,
}

/// The state that only changes use.
struct Writer {
    master: MasterKey,
    /// Both files have the published state.
    settled: bool,
}

impl Keyring {
    /// Creates the keyring of a store that has none, with the key `orcas/s3` and the store's own. Takes as long as scrypt.
    ///
    /// # Errors
    /// [`OpenError::Exists`] when there is any copy, even a damaged one.
    pub fn create(
        environment: Environment,
        dir: &Path,
        store: StoreId,
        secret: &MasterSecret,
    ) -> Result<Arc<Self>, OpenError> {
        if copies::presence(&environment.fs, dir) != Presence::None {
            return Err(OpenError::Exists { dir: dir.to_owned() });
        }
        let mut random = |bytes: &mut [u8]| environment.fill(bytes);
        let times = KeyTimes::default();
        let kdf = kdf_for(secret, ScryptParams::DEFAULT, &mut random)?;
        let master = times.derived.timed(|| secret.derive(kdf))?;
        let mut keys = Keys::new(store);
        for name in [SSE_S3_KEY, CONTROL_KEY] {
            keys.create(KeyName::new(name)?, (environment.now_ms)(), &mut random)?;
        }
        let keyring = Self::with(environment, dir, 0, keys, Writer { master, settled: false }, times);
        let stored = keyring.settle(&mut keyring.writer.lock());
        match stored {
            Err(error @ (ChangeError::Uncertain { .. } | ChangeError::OneCopy { .. })) => {
                // It is there, so it cannot be created again.
                tracing::warn!(%error, "The keyring was created, but not both of its files are durable");
            }
            stored => stored?,
        }
        Ok(keyring)
    }

    /// Opens the keyring of a store. A copy that is damaged or older is written again; where that fails, a warning says
    /// so, and the next change tries it again. Takes as long as scrypt.
    ///
    /// `noted`: the newest generation that the store has had. If the keyring is older, it opens what it has data keys for,
    /// and neither changes nor seals anything until [`Self::accept_older`].
    ///
    /// # Errors
    /// See [`OpenError`].
    pub fn open(
        environment: Environment,
        dir: &Path,
        store: StoreId,
        secret: &MasterSecret,
        noted: u64,
    ) -> Result<Arc<Self>, OpenError> {
        let copies = Copies::read(&environment.fs, dir, store)?;
        let (path, bytes) = copies.newest();
        let times = KeyTimes::default();
        let unseal = |path, bytes| unseal(path, bytes, store, secret, &times);
        let (keys, master) = unseal(path, bytes).map_err(|error| {
            let opens_older = || copies.older().is_some_and(|(path, bytes)| unseal(path, bytes).is_ok());
            match error {
                OpenError::MasterKey { path } | OpenError::WantsKey { path } | OpenError::WantsPassphrase { path }
                    if opens_older() =>
                {
                    OpenError::FormerMasterKey { path }
                }
                error => error,
            }
        })?;
        let repaired = copies.repair(&environment.fs, dir);
        match &repaired {
            // A check and a salvage write nothing. The next start does.
            Ok(()) | Err(Error::ReadOnly { .. }) => {}
            Err(error) => {
                tracing::warn!(%error, "The keyring has one good copy only: the other cannot be written");
            }
        }
        let writer = Writer { master, settled: repaired.is_ok() };
        Ok(Self::with(environment, dir, noted, keys, writer, times))
    }

    fn with(
        environment: Environment,
        dir: &Path,
        noted: u64,
        keys: Keys,
        writer: Writer,
        times: KeyTimes,
    ) -> Arc<Self> {
        // Until both files are known to be durable, new content gets no data key. What is sealed can be read.
        let durable = if writer.settled { keys.data_keys().len() } else { 0 };
        let (limits, kdf) = (environment.cache, writer.master.kdf());
        Arc::new(Self {
            environment,
            dir: dir.to_owned(),
            noted,
            writer: Mutex::new(writer),
            published: RwLock::new(Arc::new(KeyringState::new(keys, durable, kdf))),
            data_keys: KeyCache::new(limits),
            blob_keys: KeyCache::new(limits),
            times,
        })
    }

    pub fn store(&self) -> StoreId {
        self.state().keys.store()
    }

    pub fn generation(&self) -> u64 {
        self.state().keys.generation()
    }

    /// Lookups of data keys.
    pub fn counts(&self) -> CacheCounts {
        self.data_keys.counts()
    }

    /// Lookups of the keys of blobs.
    pub fn blob_counts(&self) -> CacheCounts {
        self.blob_keys.counts()
    }

    pub fn times(&self) -> &KeyTimes {
        &self.times
    }

    /// The key with this name or id, but not the store's own. A destroyed key is found by its id only.
    pub fn find(&self, text: &str) -> Option<KeyId> {
        let reference = match KeyId::parse(text) {
            Some(id) => KeyReference::Id(id),
            None => KeyReference::Name(KeyName::new(text).ok()?),
        };
        self.state().keys.find(&reference).filter(|key| is_for_use(key)).map(|key| key.id)
    }

    /// The keys, destroyed ones included, in the order of their creation. The store's own is not one of them.
    pub fn list(&self) -> Vec<KeyInfo> {
        let state = self.state();
        let mut wraps: HashMap<KeyId, usize> = HashMap::new();
        for stored in state.keys.data_keys() {
            *wraps.entry(stored.wrapped.key()).or_default() += 1;
        }
        let info = |key: &Key| KeyInfo {
            id: key.id,
            name: key.name.as_str().to_owned(),
            state: key.state,
            created_ms: key.created_ms,
            versions: key.versions.len(),
            data_keys: wraps.get(&key.id).copied().unwrap_or_default(),
        };
        state.keys.keys().iter().filter(|key| is_for_use(key)).map(info).collect()
    }

    /// The key for content of SSE-S3.
    ///
    /// # Errors
    /// [`KeyError::NoKey`].
    pub fn default_key(&self) -> Result<KeyId, KeyError> {
        self.state().sse_s3.ok_or(KeyError::NoKey { name: SSE_S3_KEY })
    }

    /// The key that a client names as in KMS, if it can be used now. Never waits.
    ///
    /// # Errors
    /// [`KeyError::NoSuchKey`], or [`KeyError::Unusable`] with its state.
    pub fn named_key(&self, text: &str) -> Result<KeyId, KeyError> {
        let state = self.state();
        let key = KeyReference::parse(text).and_then(|reference| state.keys.find(&reference));
        let key = key.filter(|key| is_for_use(key));
        let key = key.ok_or_else(|| KeyError::NoSuchKey { text: text.to_owned() })?;
        key.check_usable()?;
        Ok(key.id)
    }

    /// The key of check values. Never waits.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn check_key(&self) -> Result<CheckKey, KeyError> {
        let id = self.default_key()?;
        Ok(self.state().keys.check_key(id)?)
    }

    /// The key of the control plane's secrets, which is in both files. If the keyring has none yet, it is made and stored
    /// first. Blocks for the disk.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn control_key(&self) -> Result<ControlKey, ChangeError> {
        let mut writer = self.writer.lock();
        if let Some(found) = self.known_control_key().filter(|_| writer.settled) {
            return Ok(found);
        }
        self.check_newest()?;
        let mut next = self.state().keys.clone();
        if next.control_key().is_none() {
            let now_ms = (self.environment.now_ms)();
            next.create(KeyName::new(CONTROL_KEY)?, now_ms, &mut |bytes| self.environment.fill(bytes))?;
        }
        let made = next.control_key().ok_or(SealError::Invalid { reason: "orcas/control has no version" })?;
        self.store_and_publish(&mut writer, next).map(|()| made)
    }

    /// The control key, for what is sealed under it already. Never waits.
    pub fn known_control_key(&self) -> Option<ControlKey> {
        self.state().keys.control_key()
    }

    /// The data key with which new content of `owner` is sealed with SSE-S3. If there is none yet, it is made and stored
    /// first, which waits for the disk.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn data_key(&self, owner: &[u8]) -> Result<Arc<DataKey>, KeyError> {
        self.data_key_by(self.default_key()?, owner)
    }

    /// A data key for content that a named key encrypts.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn data_key_by(&self, by: KeyId, owner: &[u8]) -> Result<Arc<DataKey>, KeyError> {
        match self.known_data_key_by(by, owner)? {
            Some(found) => Ok(found),
            None => self.make_data_key(by, owner),
        }
    }

    /// Like [`Self::data_key`], but `None` if it would have to be made. Never waits.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn known_data_key(&self, owner: &[u8]) -> Result<Option<Arc<DataKey>>, KeyError> {
        self.check_newest()?;
        let by = self.state().sse_s3;
        by.map(|by| self.known_data_key_by(by, owner)).transpose().map(Option::flatten)
    }

    /// Like [`Self::data_key_by`], but `None` if it would have to be made. Never waits.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn known_data_key_by(&self, by: KeyId, owner: &[u8]) -> Result<Option<Arc<DataKey>>, KeyError> {
        self.check_newest()?;
        let current = self.state().current.get(&by).and_then(|owners| owners.get(owner)).copied();
        current.map(|id| self.unwrap(id)).transpose()
    }

    /// The data key of this id, for content that was sealed with it. Never waits.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn unwrap(&self, id: DataKeyId) -> Result<Arc<DataKey>, KeyError> {
        self.data_keys.get_or_make(&id, (self.environment.monotonic_ms)(), || {
            let state = self.state();
            let place = *state.places.get(&id).ok_or(KeyError::Unknown { id })?;
            Ok(self.times.unwrapped.timed(|| state.keys.open_data_key(&state.keys.data_keys()[place]))?)
        })
    }

    /// The key of a blob that this data key seals. Never waits. What is cached can be used for as long as the data key.
    ///
    /// # Errors
    /// [`KeyError`].
    pub fn blob_key(&self, data_key: DataKeyId, algorithm: Algorithm, seal: SealId) -> Result<Arc<BlobKey>, KeyError> {
        self.blob_keys.get_or_make(&BlobId { data_key, algorithm, seal }, (self.environment.monotonic_ms)(), || {
            Ok(self.unwrap(data_key)?.blob_key(algorithm, seal))
        })
    }

    fn make_data_key(&self, by: KeyId, owner: &[u8]) -> Result<Arc<DataKey>, KeyError> {
        let mut writer = self.writer.lock();
        self.check_newest()?;
        if !writer.settled {
            // The files may lack a data key that another caller has made in vain.
            self.settle(&mut writer)?;
        }
        if let Some(found) = self.known_data_key_by(by, owner)? {
            return Ok(found);
        }
        let mut next = self.state().keys.clone();
        let made = next.add_data_key(by, owner, &mut |bytes| self.environment.fill(bytes))?;
        let count = next.data_keys().len();
        self.store_and_publish(&mut writer, next)?;
        drop(writer);
        if count >= DATA_KEYS_MANY {
            tracing::warn!(count, limit = DATA_KEYS_MAX, "The keyring is close to its limit of data keys");
        }
        self.unwrap(made.id())
    }

    /// Adds a key. Blocks, like all changes; readers do not wait for it.
    ///
    /// # Errors
    /// [`ChangeError`], which says what holds then, as for all changes.
    pub fn create_key(&self, name: &str) -> Result<KeyId, ChangeError> {
        let is_reserved = name.starts_with("orcas/") || name.starts_with("aws/");
        let refused = match name {
            KMS_DEFAULT_KEY => Some("aws/s3 is what clients of KMS call the key orcas/s3"),
            CONTROL_KEY => Some("orcas/control is the store's own key"),
            // It exists, or was destroyed.
            SSE_S3_KEY => None,
            _ => is_reserved.then_some("names that begin with orcas/ or aws/ are reserved"),
        };
        refused.map_or(Ok(()), |reason| Err(SealError::Invalid { reason }))?;
        let name = KeyName::new(name)?;
        let now_ms = (self.environment.now_ms)();
        self.change(|keys| Ok(keys.create(name, now_ms, &mut |bytes| self.environment.fill(bytes))?))
    }

    /// Adds a version to a key, and wraps the data keys of the key again. Returns the number of the version.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn rotate(&self, id: KeyId) -> Result<u32, ChangeError> {
        let now_ms = (self.environment.now_ms)();
        self.change(|keys| Ok(keys.rotate(id, now_ms, &mut |bytes| self.environment.fill(bytes))?))
    }

    /// # Errors
    /// [`ChangeError`].
    pub fn disable(&self, id: KeyId) -> Result<(), ChangeError> {
        self.change(|keys| Ok(keys.disable(id)?))
    }

    /// # Errors
    /// [`ChangeError`].
    pub fn enable(&self, id: KeyId) -> Result<(), ChangeError> {
        self.change(|keys| Ok(keys.enable(id)?))
    }

    /// Schedules the destruction of a key in 7 to 30 days, or destroys it at once for 0. `lose_content` allows it for
    /// `orcas/s3` and for keys that wrap data keys.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn destroy(&self, id: KeyId, days: u32, lose_content: bool) -> Result<(), ChangeError> {
        let now_ms = (self.environment.now_ms)();
        self.change(|keys| {
            let for_content = sse_s3_key(keys).is_some_and(|key| key.id == id);
            let is_used = for_content || keys.data_keys().iter().any(|stored| stored.wrapped.key() == id);
            if is_used && !lose_content {
                return Err(ChangeError::InUse);
            }
            if days == 0 {
                return Ok(keys.destroy(id)?);
            }
            keys.schedule_destruction(id, now_ms, days)?;
            Ok(())
        })
    }

    /// Calls a destruction off. The key is then disabled.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn cancel_destruction(&self, id: KeyId) -> Result<(), ChangeError> {
        self.change(|keys| Ok(keys.cancel_destruction(id)?))
    }

    /// What is due: keys whose time is over are destroyed, an unfinished write is repeated, and data keys that nobody
    /// used for long leave the memory. To be called every minute or so. Returns the destroyed keys.
    ///
    /// # Errors
    /// [`ChangeError`].
    pub fn upkeep(&self) -> Result<Vec<KeyId>, ChangeError> {
        self.data_keys.trim((self.environment.monotonic_ms)());
        self.blob_keys.trim((self.environment.monotonic_ms)());
        let now_ms = (self.environment.now_ms)();
        let is_due = |key: &Key| matches!(key.state, KeyState::PendingDestruction { due_ms } if due_ms <= now_ms);
        if self.check_newest().is_ok() && self.state().keys.keys().iter().any(is_due) {
            return self.change(|keys| Ok(keys.destroy_due(now_ms)));
        }
        let mut writer = self.writer.lock();
        if writer.settled { Ok(Vec::new()) } else { self.settle(&mut writer).map(|()| Vec::new()) }
    }

    fn check_newest(&self) -> Result<(), Older> {
        let (found, noted) = (self.generation(), self.noted);
        if found < noted { Err(Older { found, noted }) } else { Ok(()) }
    }

    fn state(&self) -> Arc<KeyringState> {
        Arc::clone(&self.published.read())
    }

    fn change<T>(&self, change: impl FnOnce(&mut Keys) -> Result<T, ChangeError>) -> Result<T, ChangeError> {
        let mut writer = self.writer.lock();
        self.check_newest()?;
        let mut next = self.state().keys.clone();
        let value = change(&mut next)?;
        self.store_and_publish(&mut writer, next).map(|()| value)
    }

    /// Writes the published state to both files again.
    fn settle(&self, writer: &mut Writer) -> Result<(), ChangeError> {
        let keys = self.state().keys.clone();
        self.store_and_publish(writer, keys)
    }

    /// Writes `next` to both files, and publishes it unless neither has it.
    fn store_and_publish(&self, writer: &mut Writer, next: Keys) -> Result<(), ChangeError> {
        let fresh = FreshId::draw(&mut |bytes| self.environment.fill(bytes))?;
        let stored = self.write_both(&next.seal(&writer.master, fresh));
        if let Err(ChangeError::Unchanged { .. }) = stored {
            return stored;
        }
        writer.settled = stored.is_ok();
        let durable = if stored.is_ok() { next.data_keys().len() } else { self.state().durable };
        *self.published.write() = Arc::new(KeyringState::new(next, durable, writer.master.kdf()));
        // Whatever it was, the next use of a data key meets the new states. Then no key of a blob is made from an old one.
        self.data_keys.remove_if(|_, _| true);
        self.blob_keys.remove_if(|_, _| true);
        stored
    }

    fn write_both(&self, bytes: &[u8]) -> Result<(), ChangeError> {
        let [first, second] = NAMES.map(|name| self.dir.join(name));
        let write = |path: &Path| copies::write(&self.environment.fs, &self.dir, path, bytes);
        match write(&first) {
            Ok(()) => {}
            Err((error, true)) => return Err(ChangeError::Uncertain { path: first, error }),
            Err((error, false)) => return Err(ChangeError::Unchanged { path: first, error }),
        }
        write(&second).map_err(|(error, _)| ChangeError::OneCopy { path: second, error })
    }
}

impl fmt::Debug for Keyring {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyring").field("dir", &self.dir).finish_non_exhaustive()
    }
}

/// Whether operators and clients can name the key.
fn is_for_use(key: &Key) -> bool {
    key.name.as_str() != CONTROL_KEY
}
