//! The keyring of a store: named keys with versions, their states, and wrapping data keys with them.
//!
//! A change counts when the sealed keyring that has it is durable. Making it durable is up to the caller, and so is
//! forgetting cached data keys of a key that was disabled or is to be destroyed.

mod format;
mod key;

pub use format::{KEYRING_LENGTH_MAX, SealedKeyring};
pub use key::{DATA_KEYS_MAX, KEYS_MAX, Key, KeyState, StoredKey, VERSIONS_MAX, Version};

use crate::cipher::Algorithm;
use crate::derive::Expander;
use crate::error::{Error, Result};
use crate::fresh::{FreshId, Random};
use crate::id::{KeyId, StoreId};
use crate::keys::{
    CheckKey, ControlKey, DataKey, Domain, EncryptionContext, KeyName, KeyReference, MasterKey, WrappedKey,
};
use crate::secret::Secret;

/// The name of the key that wraps data keys of SSE-S3.
pub const SSE_S3_KEY: &str = "orcas/s3";
/// The name of the key under which secrets of the control plane are sealed. It is the store's own: nobody else names it.
pub const CONTROL_KEY: &str = "orcas/control";
/// Days between the wish to destroy a key and its destruction, as in KMS.
pub const WAIT_DAYS_MIN: u32 = 7;
pub const WAIT_DAYS_DEFAULT: u32 = 30;
pub const WAIT_DAYS_MAX: u32 = 30;

const DAY_MS: u64 = 86_400_000;
const CHECK_KEYS: &[u8] = b"orcas seal v1 check keys";
/// Bits of a generation that count the changes of one branch.
const BRANCH_BITS: u32 = 32;

/// Keys in the order of their creation. Times are milliseconds since 1970.
#[derive(Clone, Debug)]
pub struct Keyring {
    store: StoreId,
    /// Rises with each change: of two copies, the newer one counts. See [`Keyring::branch`].
    generation: u64,
    keys: Vec<Key>,
    /// Data keys in the order of their creation.
    data_keys: Vec<StoredKey>,
}

impl Keyring {
    /// A keyring without keys.
    pub fn new(store: StoreId) -> Self {
        Self { store, generation: 0, keys: Vec::new(), data_keys: Vec::new() }
    }

    pub fn store(&self) -> StoreId {
        self.store
    }

    pub fn generation(&self) -> u64 {
        self.generation
    }

    /// All keys, also those that were destroyed.
    pub fn keys(&self) -> &[Key] {
        &self.keys
    }

    /// # Errors
    /// [`Error::UnknownKey`].
    pub fn key(&self, id: KeyId) -> Result<&Key> {
        self.keys.iter().find(|key| key.id == id).ok_or(Error::UnknownKey { id })
    }

    /// The key that a request names; `None` if there is none. A destroyed key is found by its id only.
    pub fn find(&self, reference: &KeyReference) -> Option<&Key> {
        self.keys.iter().find(|key| match reference {
            KeyReference::Id(id) => key.id == *id,
            KeyReference::Name(name) => key.name == *name && key.state != KeyState::Destroyed,
        })
    }

    /// Adds an enabled key with one version.
    ///
    /// # Errors
    /// [`Error::NameTaken`], [`Error::Invalid`] when there are [`KEYS_MAX`] keys, and those of `random`.
    pub fn create(&mut self, name: KeyName, now_ms: u64, random: Random<'_>) -> Result<KeyId> {
        if self.find(&KeyReference::Name(name.clone())).is_some() {
            return Err(Error::NameTaken);
        }
        if self.keys.len() >= KEYS_MAX {
            return Err(Error::Invalid { reason: "the keyring is full" });
        }
        let mut id = [0; 16];
        random(&mut id)?;
        let id = KeyId::from_random(id);
        let first = Version::new(1, now_ms, random)?;
        self.keys.push(Key { id, name, state: KeyState::Enabled, created_ms: now_ms, versions: vec![first] });
        self.generation += 1;
        Ok(id)
    }

    /// The data keys that the keyring keeps.
    pub fn data_keys(&self) -> &[StoredKey] {
        &self.data_keys
    }

    /// Makes a data key for an owner and keeps it, wrapped by an enabled key.
    ///
    /// # Errors
    /// Those of [`Self::wrap`] and of `random`, [`Error::TooManyDataKeys`] when there are [`DATA_KEYS_MAX`], and
    /// [`Error::Invalid`] when the owner has more than 255 bytes.
    pub fn add_data_key(&mut self, id: KeyId, owner: &[u8], random: Random<'_>) -> Result<DataKey> {
        if self.data_keys.len() >= DATA_KEYS_MAX {
            return Err(Error::TooManyDataKeys);
        }
        if owner.len() > 255 {
            return Err(Error::Invalid { reason: "the owner of a data key has at most 255 bytes" });
        }
        let data_key = DataKey::generate(self.store, random)?;
        let none = EncryptionContext::default();
        let domain = Domain { store: self.store, owner, context: &none };
        let wrapped = self.wrap(id, &data_key, &domain, FreshId::draw(random)?)?;
        self.data_keys.push(StoredKey { owner: owner.to_vec(), wrapped });
        self.generation += 1;
        Ok(data_key)
    }

    /// A data key that the keyring keeps.
    ///
    /// # Errors
    /// Those of [`Self::unwrap`].
    pub fn open_data_key(&self, stored: &StoredKey) -> Result<DataKey> {
        let none = EncryptionContext::default();
        self.unwrap(&stored.wrapped, &Domain { store: self.store, owner: &stored.owner, context: &none })
    }

    /// Adds a version to an enabled key, wraps the kept data keys of the key again under it, and returns its number.
    /// Older versions still unwrap what they wrapped.
    ///
    /// # Errors
    /// Those of [`Self::wrap`], [`Error::Invalid`] when there are [`VERSIONS_MAX`] versions, and those of `random`.
    pub fn rotate(&mut self, id: KeyId, now_ms: u64, random: Random<'_>) -> Result<u32> {
        let key = self.key(id)?;
        let number = key.usable()?.number + 1;
        if key.versions.len() >= VERSIONS_MAX {
            return Err(Error::Invalid { reason: "the key has too many versions" });
        }
        let mut next = self.clone();
        next.key_mut(id)?.versions.push(Version::new(number, now_ms, random)?);
        let none = EncryptionContext::default();
        for (place, stored) in self.data_keys.iter().enumerate().filter(|(_, stored)| stored.wrapped.key() == id) {
            let domain = Domain { store: self.store, owner: &stored.owner, context: &none };
            next.data_keys[place].wrapped = next.rewrap(&stored.wrapped, &domain, id, FreshId::draw(random)?)?;
        }
        next.generation += 1;
        *self = next;
        Ok(number)
    }

    /// Refuses to wrap and unwrap with a key until it is enabled again.
    ///
    /// # Errors
    /// [`Error::UnknownKey`], or [`Error::KeyState`] for a key that is not enabled.
    pub fn disable(&mut self, id: KeyId) -> Result<()> {
        self.change(id, |state| (state == KeyState::Enabled).then_some(KeyState::Disabled))
    }

    /// # Errors
    /// [`Error::UnknownKey`], or [`Error::KeyState`] for a key that is not disabled.
    pub fn enable(&mut self, id: KeyId) -> Result<()> {
        self.change(id, |state| (state == KeyState::Disabled).then_some(KeyState::Enabled))
    }

    /// Schedules the destruction of a key, which from now on wraps and unwraps nothing. Returns when it is due.
    ///
    /// # Errors
    /// [`Error::Invalid`] for other than 7 to 30 days, [`Error::UnknownKey`], or [`Error::KeyState`] for a key whose
    /// destruction is scheduled or over.
    pub fn schedule_destruction(&mut self, id: KeyId, now_ms: u64, days: u32) -> Result<u64> {
        if !(WAIT_DAYS_MIN..=WAIT_DAYS_MAX).contains(&days) {
            return Err(Error::Invalid { reason: "a key is destroyed after 7 to 30 days" });
        }
        let due_ms = now_ms.saturating_add(u64::from(days) * DAY_MS);
        let living = |state| matches!(state, KeyState::Enabled | KeyState::Disabled);
        self.change(id, |state| living(state).then_some(KeyState::PendingDestruction { due_ms }))?;
        Ok(due_ms)
    }

    /// Calls the destruction off. The key is then disabled, as in KMS.
    ///
    /// # Errors
    /// [`Error::UnknownKey`], or [`Error::KeyState`] for a key whose destruction is not scheduled.
    pub fn cancel_destruction(&mut self, id: KeyId) -> Result<()> {
        let pending = |state| matches!(state, KeyState::PendingDestruction { .. });
        self.change(id, |state| pending(state).then_some(KeyState::Disabled))
    }

    /// Destroys a key at once, without a wait.
    ///
    /// # Errors
    /// [`Error::UnknownKey`], or [`Error::KeyDestroyed`].
    pub fn destroy(&mut self, id: KeyId) -> Result<()> {
        let key = self.key_mut(id)?;
        if key.state == KeyState::Destroyed {
            return Err(Error::KeyDestroyed { id });
        }
        key.state = KeyState::Destroyed;
        key.versions.clear();
        self.generation += 1;
        Ok(())
    }

    /// Destroys the keys that are due: what they wrapped is lost for good once no copy of the keyring has them. Returns
    /// their ids.
    pub fn destroy_due(&mut self, now_ms: u64) -> Vec<KeyId> {
        let mut destroyed = Vec::new();
        for key in &mut self.keys {
            if matches!(key.state, KeyState::PendingDestruction { due_ms } if due_ms <= now_ms) {
                key.state = KeyState::Destroyed;
                key.versions.clear();
                destroyed.push(key.id);
            }
        }
        self.generation += u64::from(!destroyed.is_empty());
        destroyed
    }

    /// Wraps a data key of this store under the newest version of a key.
    ///
    /// # Errors
    /// [`Error::UnknownKey`], [`Error::KeyDisabled`], [`Error::KeyPendingDestruction`] or [`Error::KeyDestroyed`], and
    /// [`Error::Foreign`] for a data key or domain of another store.
    pub fn wrap(&self, id: KeyId, data_key: &DataKey, domain: &Domain<'_>, fresh: FreshId) -> Result<WrappedKey> {
        self.check_store(domain)?;
        if data_key.store() != self.store {
            return Err(Error::Foreign { found: data_key.store() });
        }
        let newest = self.key(id)?.usable()?;
        let by = (id, newest.number, newest.material());
        Ok(WrappedKey::wrap(by, data_key, domain, (Algorithm::preferred(), fresh)))
    }

    /// The data key, for the domain that it was wrapped for.
    ///
    /// # Errors
    /// Those of [`Self::wrap`], and [`Error::NotAuthentic`] for another domain or changed bytes.
    pub fn unwrap(&self, wrapped: &WrappedKey, domain: &Domain<'_>) -> Result<DataKey> {
        self.check_store(domain)?;
        let key = self.key(wrapped.key())?;
        key.usable()?;
        let version = key.versions.iter().find(|version| version.number == wrapped.version());
        wrapped.unwrap(version.ok_or(Error::NotAuthentic)?.material(), domain)
    }

    /// The data key, wrapped under the newest version of `id`, which may be another key.
    ///
    /// # Errors
    /// Those of [`Self::unwrap`] and [`Self::wrap`].
    pub fn rewrap(&self, wrapped: &WrappedKey, domain: &Domain<'_>, id: KeyId, fresh: FreshId) -> Result<WrappedKey> {
        self.wrap(id, &self.unwrap(wrapped, domain)?, domain, fresh)
    }

    /// The key of check values of customers' keys. It derives from the first version of a key, which stays until the key is
    /// destroyed, and is refused when that key cannot be used.
    ///
    /// # Errors
    /// [`Error::UnknownKey`], [`Error::KeyDisabled`], [`Error::KeyPendingDestruction`] or [`Error::KeyDestroyed`].
    pub fn check_key(&self, id: KeyId) -> Result<CheckKey> {
        let key = self.key(id)?;
        key.usable()?;
        let first = key.versions.first().ok_or(Error::KeyDestroyed { id })?;
        let secret = Expander::new(first.material().expose()).expand(&[CHECK_KEYS, &self.store.0], Secret::new);
        Ok(CheckKey::new(secret))
    }

    /// The key of the secrets of the control plane, from the first version of [`CONTROL_KEY`]; `None` if there is no such
    /// key yet.
    pub fn control_key(&self) -> Option<ControlKey> {
        // A user's key may have had the name, and been destroyed, before the store took it for itself.
        let mut named = self.keys.iter().filter(|key| key.name.as_str() == CONTROL_KEY);
        named.find_map(|key| key.versions.first()).map(|version| ControlKey::new(self.store, version.material()))
    }

    /// Counts as a change although nothing else does: the keyring is to be sealed under another master key.
    pub fn renew(&mut self) {
        self.generation += 1;
    }

    /// Counts as a change after which no generation up to `noted`, which other copies have had, is a later one. The upper
    /// 32 bits of the generation tell that those copies may have what this one lacks.
    pub fn branch(&mut self, noted: u64) {
        self.generation = ((self.generation.max(noted) >> BRANCH_BITS) + 1) << BRANCH_BITS;
    }

    /// The bytes of the keyring under a master key. Sealing under another one than before is a change: see
    /// [`Self::renew`].
    pub fn seal(&self, master: &MasterKey, fresh: FreshId) -> Vec<u8> {
        format::seal(
            &format::Contents {
                store: self.store,
                generation: self.generation,
                keys: &self.keys,
                data_keys: &self.data_keys,
            },
            master,
            fresh,
        )
    }

    /// Opens sealed bytes, which must be of this store. Without a master key this fails as with a wrong one.
    ///
    /// # Errors
    /// [`Error::MasterKey`], [`Error::Foreign`], or [`Error::DamagedKeyring`] for what no version writes.
    pub fn open(sealed: &SealedKeyring<'_>, store: StoreId, master: Option<&MasterKey>) -> Result<Self> {
        if sealed.store() != store {
            return Err(Error::Foreign { found: sealed.store() });
        }
        let (keys, data_keys) = sealed.open(master.ok_or(Error::MasterKey)?)?;
        Ok(Self { store, generation: sealed.generation(), keys, data_keys })
    }

    fn check_store(&self, domain: &Domain<'_>) -> Result<()> {
        if domain.store == self.store { Ok(()) } else { Err(Error::Foreign { found: domain.store }) }
    }

    fn key_mut(&mut self, id: KeyId) -> Result<&mut Key> {
        self.keys.iter_mut().find(|key| key.id == id).ok_or(Error::UnknownKey { id })
    }

    fn change(&mut self, id: KeyId, next: impl FnOnce(KeyState) -> Option<KeyState>) -> Result<()> {
        let key = self.key_mut(id)?;
        key.state = next(key.state).ok_or(Error::KeyState { id })?;
        self.generation += 1;
        Ok(())
    }
}

impl Version {
    fn new(number: u32, created_ms: u64, random: Random<'_>) -> Result<Self> {
        let mut material = Secret::new(&[0; 32]);
        let mut filled = Ok(());
        material.fill(|bytes| filled = random(bytes));
        filled.map(|()| Self::from_material(number, created_ms, material))
    }
}

/// Decodes the plain body of a keyring and encodes it again; also the number of keys. For fuzz targets, which cannot
/// open a sealed one.
pub fn decode_body(body: &[u8]) -> Result<(Vec<u8>, usize)> {
    let (keys, data_keys) = format::decode(body)?;
    Ok((format::encode(&keys, &data_keys).to_vec(), keys.len()))
}
