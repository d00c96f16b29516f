//! The bytes of a keyring: a header that says how to derive its key, the sealed keys, and a checksum over both. The
//! checksum tells damage from a wrong master key.
//!
//! Format: `docs/format.md`, Keyring.

use std::collections::HashSet;

use zeroize::Zeroizing;

use super::key::{DATA_KEYS_MAX, KEYS_MAX, Key, KeyState, StoredKey, VERSIONS_MAX, Version};
use crate::cipher::{AUTH_TAG_LENGTH, Algorithm, AuthTag};
use crate::error::{Error, Result};
use crate::fresh::FreshId;
use crate::id::{KeyId, SealId, StoreId};
use crate::keys::{Kdf, KeyName, MasterKey, ScryptParams, WRAPPED_LENGTH, WrappedKey};
use crate::secret::Secret;

const MAGIC: &[u8; 8] = b"ORCASRNG";
const FORMAT: u32 = 1;
const HEADER_LENGTH: usize = 112;
const CHECKSUM_LENGTH: usize = 32;
const VERSION_LENGTH: usize = 8 + 32;
/// Bytes of a key besides its name and versions.
const KEY_LENGTH: usize = 16 + 2 + 1 + 8 + 8 + 2;

/// Bytes of the longest keyring.
pub const KEYRING_LENGTH_MAX: usize = HEADER_LENGTH
    + 4
    + KEYS_MAX * (KEY_LENGTH + 250 + VERSIONS_MAX * VERSION_LENGTH)
    + 4
    + DATA_KEYS_MAX * (1 + 255 + WRAPPED_LENGTH)
    + AUTH_TAG_LENGTH
    + CHECKSUM_LENGTH;

const KEY: u8 = 1;
const SCRYPT: u8 = 2;

const ENABLED: u8 = 1;
const DISABLED: u8 = 2;
const PENDING: u8 = 3;
const DESTROYED: u8 = 4;

fn damaged<T>(reason: &'static str) -> Result<T> {
    Err(Error::DamagedKeyring { reason })
}

/// The contents of the sealed part.
pub(super) struct Contents<'a> {
    pub store: StoreId,
    pub generation: u64,
    pub keys: &'a [Key],
    pub data_keys: &'a [StoredKey],
}

pub(super) fn seal(contents: &Contents<'_>, master: &MasterKey, fresh: FreshId) -> Vec<u8> {
    let (id, algorithm) = (fresh.used(), Algorithm::preferred());
    let mut body = encode(contents.keys, contents.data_keys);
    let mut out = header(master.kdf(), id, contents, algorithm);
    let tag = master.keyring_cipher(algorithm, id).seal([0; 12], &out, &mut body);
    out.extend_from_slice(&body);
    out.extend_from_slice(&tag);
    out.extend_from_slice(blake3::hash(&out).as_bytes());
    out
}

fn header(kdf: Kdf, id: SealId, contents: &Contents<'_>, algorithm: Algorithm) -> Vec<u8> {
    let (kind, [log2_n, r, p], salt) = match kdf {
        Kdf::Key => (KEY, [0; 3], [0; 32]),
        Kdf::Scrypt { params, salt } => (SCRYPT, [params.log2_n(), params.r(), params.p()], salt),
    };
    let mut out = Vec::with_capacity(HEADER_LENGTH);
    out.extend_from_slice(MAGIC);
    out.extend_from_slice(&FORMAT.to_le_bytes());
    out.extend_from_slice(&[kind, log2_n, r, p]);
    out.extend_from_slice(&salt);
    out.extend_from_slice(&id.0);
    out.extend_from_slice(&contents.store.0);
    out.extend_from_slice(&[algorithm.code(), 0, 0, 0, 0, 0, 0, 0]);
    out.extend_from_slice(&contents.generation.to_le_bytes());
    out
}

/// The plain body. Allocated once, so that no copy of it stays behind.
pub(super) fn encode(keys: &[Key], data_keys: &[StoredKey]) -> Zeroizing<Vec<u8>> {
    let length = |key: &Key| KEY_LENGTH + key.name.as_str().len() + key.versions.len() * VERSION_LENGTH;
    let stored = |stored: &StoredKey| 1 + stored.owner.len() + WRAPPED_LENGTH;
    let lengths = keys.iter().map(length).sum::<usize>() + data_keys.iter().map(stored).sum::<usize>();
    let mut out = Zeroizing::new(Vec::with_capacity(4 + 4 + lengths));
    out.extend_from_slice(&(keys.len() as u32).to_le_bytes());
    for key in keys {
        let (state, due_ms) = match key.state {
            KeyState::Enabled => (ENABLED, 0),
            KeyState::Disabled => (DISABLED, 0),
            KeyState::PendingDestruction { due_ms } => (PENDING, due_ms),
            KeyState::Destroyed => (DESTROYED, 0),
        };
        out.extend_from_slice(&key.id.0);
        out.extend_from_slice(&(key.name.as_str().len() as u16).to_le_bytes());
        out.extend_from_slice(key.name.as_str().as_bytes());
        out.push(state);
        out.extend_from_slice(&due_ms.to_le_bytes());
        out.extend_from_slice(&key.created_ms.to_le_bytes());
        out.extend_from_slice(&(key.versions.len() as u16).to_le_bytes());
        for version in &key.versions {
            out.extend_from_slice(&version.created_ms.to_le_bytes());
            out.extend_from_slice(version.material().expose());
        }
    }
    out.extend_from_slice(&(data_keys.len() as u32).to_le_bytes());
    for stored in data_keys {
        out.push(stored.owner.len() as u8);
        out.extend_from_slice(&stored.owner);
        out.extend_from_slice(&stored.wrapped.encode());
    }
    out
}

/// The bytes of a keyring whose checksum holds. It says how its key is derived, and nothing of it is trusted until it is
/// opened.
#[derive(Debug)]
pub struct SealedKeyring<'a> {
    bytes: &'a [u8],
    kdf: Kdf,
    store: StoreId,
    algorithm: Algorithm,
    generation: u64,
}

impl<'a> SealedKeyring<'a> {
    /// # Errors
    /// [`Error::DamagedKeyring`], or [`Error::Version`] for another format whose checksum holds.
    pub fn parse(bytes: &'a [u8]) -> Result<Self> {
        let Some((bytes, checksum)) = bytes.split_last_chunk::<CHECKSUM_LENGTH>() else {
            return damaged("it is too short");
        };
        if !bytes.starts_with(MAGIC) || blake3::hash(bytes).as_bytes() != checksum {
            return damaged("its checksum does not hold");
        }
        let mut reader = Reader(&bytes[MAGIC.len()..]);
        let found = u32::from_le_bytes(reader.array()?);
        if found != FORMAT {
            return Err(Error::Version { found, supported: FORMAT });
        }
        let [kind, log2_n, r, p] = reader.array()?;
        let salt = reader.array()?;
        let kdf = match (kind, [log2_n, r, p]) {
            (KEY, [0, 0, 0]) if salt == [0; 32] => Kdf::Key,
            (SCRYPT, _) => Kdf::Scrypt { params: ScryptParams::new(log2_n, r, p)?, salt },
            _ => return damaged("its header has an unknown value"),
        };
        reader.array::<32>()?;
        let store = StoreId(reader.array()?);
        let [code, zeros @ ..] = reader.array::<8>()?;
        let algorithm = Algorithm::from_code(code).filter(|_| zeros == [0; 7]);
        let generation = u64::from_le_bytes(reader.array()?);
        let Some(algorithm) = algorithm.filter(|_| bytes.len() >= HEADER_LENGTH + AUTH_TAG_LENGTH) else {
            return damaged("its header has an unknown value");
        };
        Ok(Self { bytes, kdf, store, algorithm, generation })
    }

    /// How to derive the master key that opens it.
    pub fn kdf(&self) -> Kdf {
        self.kdf
    }

    /// The store that it says it belongs to.
    pub fn store(&self) -> StoreId {
        self.store
    }

    /// Rises with each change: of two copies, the newer one counts. Readable without the master key.
    pub fn generation(&self) -> u64 {
        self.generation
    }

    pub(super) fn open(&self, master: &MasterKey) -> Result<(Vec<Key>, Vec<StoredKey>)> {
        let (header, rest) = self.bytes.split_at(HEADER_LENGTH);
        let (body, tag): (_, &AuthTag) = rest.split_last_chunk().ok_or(Error::MasterKey)?;
        let id = SealId(Reader(&header[48..]).array()?);
        let mut body = Zeroizing::new(body.to_vec());
        let cipher = master.keyring_cipher(self.algorithm, id);
        cipher.open([0; 12], header, &mut body, tag).map_err(|_| Error::MasterKey)?;
        decode(&body)
    }
}

/// The keys and data keys of a body. Every body has one encoding: another one is refused.
pub(super) fn decode(body: &[u8]) -> Result<(Vec<Key>, Vec<StoredKey>)> {
    let mut reader = Reader(body);
    let count = u32::from_le_bytes(reader.array()?) as usize;
    if count > KEYS_MAX {
        return damaged("it has too many keys");
    }
    let mut keys: Vec<Key> = Vec::new();
    for _ in 0..count {
        let key = decode_key(&mut reader)?;
        let living = |other: &Key| other.state != KeyState::Destroyed && key.state != KeyState::Destroyed;
        if keys.iter().any(|other| other.id == key.id || other.name == key.name && living(other)) {
            return damaged("two of its keys have the same name");
        }
        keys.push(key);
    }
    let data_keys = decode_data_keys(&mut reader)?;
    if !reader.0.is_empty() {
        return damaged("it has bytes left over");
    }
    Ok((keys, data_keys))
}

fn decode_data_keys(reader: &mut Reader<'_>) -> Result<Vec<StoredKey>> {
    let count = u32::from_le_bytes(reader.array()?) as usize;
    if count > DATA_KEYS_MAX {
        return damaged("it has too many data keys");
    }
    let (mut data_keys, mut ids) = (Vec::new(), HashSet::new());
    for _ in 0..count {
        let [length] = reader.array()?;
        let owner = reader.take(length.into())?.to_vec();
        let wrapped = WrappedKey::decode(&reader.array::<WRAPPED_LENGTH>()?);
        let wrapped = wrapped.map_err(|_| Error::DamagedKeyring { reason: "a data key has an unknown value" })?;
        if !ids.insert(wrapped.data_key()) {
            return damaged("two of its data keys have the same id");
        }
        data_keys.push(StoredKey { owner, wrapped });
    }
    Ok(data_keys)
}

fn decode_key(reader: &mut Reader<'_>) -> Result<Key> {
    let id = KeyId(reader.array()?);
    let length = u16::from_le_bytes(reader.array()?);
    let name = std::str::from_utf8(reader.take(length.into())?).ok().and_then(|name| KeyName::new(name).ok());
    let [state] = reader.array()?;
    let due_ms = u64::from_le_bytes(reader.array()?);
    let state = match (state, due_ms) {
        (ENABLED, 0) => KeyState::Enabled,
        (DISABLED, 0) => KeyState::Disabled,
        (PENDING, due_ms) => KeyState::PendingDestruction { due_ms },
        (DESTROYED, 0) => KeyState::Destroyed,
        _ => return damaged("a key has an unknown state"),
    };
    let created_ms = u64::from_le_bytes(reader.array()?);
    let count = u16::from_le_bytes(reader.array()?);
    if usize::from(count) > VERSIONS_MAX || (count == 0) != (state == KeyState::Destroyed) {
        return damaged("a key has a wrong number of versions");
    }
    let mut versions = Vec::with_capacity(count.into());
    for number in 1..=u32::from(count) {
        let created_ms = u64::from_le_bytes(reader.array()?);
        let mut material = Secret::new(&[0; 32]);
        let bytes = reader.take(32)?;
        material.fill(|out| out.copy_from_slice(bytes));
        versions.push(Version::from_material(number, created_ms, material));
    }
    let name = name.ok_or(Error::DamagedKeyring { reason: "a key has an impossible name" })?;
    Ok(Key { id, name, state, created_ms, versions })
}

/// The bytes that are left to decode.
struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, length: usize) -> Result<&'a [u8]> {
        let Some((taken, rest)) = self.0.split_at_checked(length) else {
            return damaged("it ends early");
        };
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        Ok(self.take(N)?.try_into().expect("as many bytes were taken"))
    }
}
