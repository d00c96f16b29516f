//! The secrets of a store: its id, the key of commit records and the key from which every owner's scope is derived.
//! Kept twice, because without them nothing in the store can be read. Written by the engine alone.
//!
//! Format (docs/format.md, "Store keys"): magic 8 | version u32 | store id 16 | commit key 32 | scope key 32 | BLAKE3
//! of everything before, 32.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orcas_base::error::{Error, Result};
use orcas_fs::{FileSystem, Open, Random};
use orcas_record::Fingerprint;

const MAGIC: &[u8; 8] = b"ORCASKEY";
const VERSION: u32 = 1;
const LENGTH: usize = 8 + 4 + 16 + 32 + 32 + 32;
/// The files of a store's keys.
pub const KEY_FILES: [&str; 2] = ["store.keys", "store.keys.copy"];

#[derive(Clone)]
pub struct StoreKeys {
    pub store_id: [u8; 16],
    pub commit_key: [u8; 32],
    scope_key: [u8; 32],
    /// The store has had a log: without one it has lost it.
    pub established: bool,
}

impl StoreKeys {
    /// Reads the keys of the store in `dir`; makes them when the store is new, which the caller knows from there being
    /// no log. The first of the two files is written by `establish`, once there is a log.
    ///
    /// # Errors
    /// [`Error::Missing`] when a store with a log has no keys, [`Error::Corrupt`] when neither copy can be read.
    pub fn open(fs: &Arc<dyn FileSystem>, dir: &Path, random: &dyn Random, new: bool) -> Result<Self> {
        let copies: Vec<(PathBuf, Result<Self>)> = KEY_FILES
            .iter()
            .map(|name| dir.join(name))
            .map(|path| {
                let read = Self::read(fs, &path);
                (path, read)
            })
            .collect();
        let lost = |read: &Result<Self>| matches!(read, Err(Error::Missing { .. }));
        let established = !lost(&copies[0].1);
        if let Some(keys) = copies.iter().find_map(|(_, read)| read.as_ref().ok()).cloned() {
            // A new store does not have the first one yet.
            for (_, read) in &copies[usize::from(new)..] {
                if let Err(error) = read {
                    tracing::warn!(%error, "A copy of the keys was lost and is written again");
                }
            }
            if copies[1].1.is_err() {
                keys.write(fs, dir, &copies[1].0)?;
            }
            return Ok(Self { established, ..keys });
        }
        if !new || copies.iter().any(|(_, read)| !lost(read)) {
            // Prefer to say that a copy is damaged: a missing one is no news when the other cannot be read.
            let damaged = copies.iter().filter_map(|(_, read)| read.as_ref().err());
            let reason = damaged.max_by_key(|error| !matches!(error, Error::Missing { .. })).cloned();
            return Err(reason.unwrap_or(Error::Missing { path: dir.join(KEY_FILES[0]) }));
        }
        let mut keys = Self::blank();
        random.fill(&mut keys.store_id)?;
        random.fill(&mut keys.commit_key)?;
        random.fill(&mut keys.scope_key)?;
        keys.write(fs, dir, &copies[1].0)?;
        Ok(keys)
    }

    /// Writes the first file if it is not there or cannot be read. To be called once a log is in force, so that the
    /// file tells a store that lost its log from one that never had any.
    pub fn establish(&self, fs: &Arc<dyn FileSystem>, dir: &Path) -> Result<()> {
        let path = dir.join(KEY_FILES[0]);
        if Self::read(fs, &path).is_ok() { Ok(()) } else { self.write(fs, dir, &path) }
    }

    /// Both copies as they are, without writing anything.
    pub fn inspect(fs: &Arc<dyn FileSystem>, dir: &Path) -> [(PathBuf, Result<Self>); 2] {
        KEY_FILES.map(|name| {
            let path = dir.join(name);
            let read = Self::read(fs, &path);
            (path, read)
        })
    }

    /// # Errors
    /// [`Error::Version`] for a copy of another format. What cannot be read is left to those who need it.
    pub fn check_formats(fs: &Arc<dyn FileSystem>, dir: &Path) -> Result<()> {
        let copies = Self::inspect(fs, dir).into_iter().filter_map(|(_, read)| read.err());
        copies.filter(|error| matches!(error, Error::Version { .. })).map(Err).next().unwrap_or(Ok(()))
    }

    /// A code that only those can make who have these keys. Two are compared in constant time.
    pub fn authenticate(&self, message: &[u8]) -> blake3::Hash {
        let key = blake3::derive_key("Orcas 2026 messages between the nodes of a cluster", &self.commit_key);
        blake3::keyed_hash(&key, message)
    }

    pub fn is_same(&self, other: &Self) -> bool {
        (self.store_id, self.commit_key, self.scope_key) == (other.store_id, other.commit_key, other.scope_key)
    }

    /// The keys of a store that has lost its own: nothing can be verified with these, nor made.
    pub fn lost(store_id: [u8; 16]) -> Self {
        Self { store_id, ..Self::blank() }
    }

    fn blank() -> Self {
        Self { store_id: [0; 16], commit_key: [0; 32], scope_key: [0; 32], established: false }
    }

    fn read(fs: &Arc<dyn FileSystem>, path: &Path) -> Result<Self> {
        let file = fs.open(path, Open::Read)?;
        let mut bytes = [0u8; LENGTH];
        file.read_at(0, &mut bytes)?;
        let (body, digest) = bytes.split_at(LENGTH - 32);
        if &body[..8] != MAGIC || blake3::hash(body).as_bytes() != digest {
            return Err(Error::corrupt(path, 0, "the store's keys do not match their checksum"));
        }
        let version = u32::from_le_bytes([body[8], body[9], body[10], body[11]]);
        if version != VERSION {
            return Err(Error::Version { path: path.to_owned(), found: version, supported: VERSION });
        }
        let mut keys = Self::blank();
        keys.store_id.copy_from_slice(&body[12..28]);
        keys.commit_key.copy_from_slice(&body[28..60]);
        keys.scope_key.copy_from_slice(&body[60..92]);
        Ok(keys)
    }

    /// Writes a copy under its name whole or not at all.
    fn write(&self, fs: &Arc<dyn FileSystem>, dir: &Path, path: &Path) -> Result<()> {
        let mut bytes = Vec::with_capacity(LENGTH);
        bytes.extend_from_slice(MAGIC);
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&self.store_id);
        bytes.extend_from_slice(&self.commit_key);
        bytes.extend_from_slice(&self.scope_key);
        let digest = blake3::hash(&bytes);
        bytes.extend_from_slice(digest.as_bytes());
        let draft = path.with_extension("draft");
        let left_behind = draft.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        if fs.list(dir)?.iter().any(|name| name == left_behind) {
            fs.remove(&draft)?;
        }
        let file = fs.open(&draft, Open::Create)?;
        file.write_at(0, &bytes)?;
        file.sync_data()?;
        fs.rename(&draft, path)?;
        fs.sync_dir(dir)
    }

    /// The key that the ids of versions are made with.
    pub fn version_key(&self) -> [u8; 32] {
        // No fingerprint is made with it: the key of a scope comes from an owner's id, not from this context.
        blake3::derive_key("Orcas 2026 ids of versions", &self.scope_key)
    }

    /// The key that fingerprints are made with in the scope of `owner`.
    pub fn scope(&self, owner: &[u8]) -> [u8; 32] {
        *blake3::keyed_hash(&self.scope_key, owner).as_bytes()
    }
}

/// The fingerprint of `bytes` within a scope.
pub fn fingerprint(scope: &[u8; 32], bytes: &[u8]) -> Fingerprint {
    Fingerprint(*blake3::keyed_hash(scope, bytes).as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;
    use orcas_fs_testing::{SimDisk, SimRandom};

    #[test]
    fn another_format_is_told_from_damage() {
        let (fs, dir): (Arc<dyn FileSystem>, _) = (Arc::new(SimDisk::new()), Path::new("/"));
        let keys = StoreKeys::open(&fs, dir, &SimRandom::new(1), true).unwrap();
        keys.establish(&fs, dir).unwrap();
        StoreKeys::check_formats(&fs, dir).unwrap();
        let path = dir.join(KEY_FILES[1]);
        let file = fs.open(&path, Open::Write).unwrap();
        file.write_at(8, &2u32.to_le_bytes()).unwrap();
        StoreKeys::check_formats(&fs, dir).unwrap();
        let mut body = [0; LENGTH - 32];
        file.read_at(0, &mut body).unwrap();
        file.write_at(body.len() as u64, blake3::hash(&body).as_bytes()).unwrap();
        let refused = StoreKeys::check_formats(&fs, dir).unwrap_err();
        assert!(
            matches!(&refused, Error::Version { path: found, found: 2, supported: 1 } if *found == path),
            "{refused}"
        );
    }
}
