//! Reads what is left of packs, some of which may be missing or have damaged headers. Changes nothing.
//!
//! Checksums use four bytes of a pack's salt, so if the header is lost, they follow from any intact chunk frame.

use std::collections::HashMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use orcas_base::block::{CHUNK_LENGTH_MAX, block_crc};
use orcas_base::error::{Error, Result};
use orcas_fs::{File, FileSystem, Open, read_around_faults};

use super::format::{
    CHUNK_HEADER, ChunkHeader, FILE_HEADER, FILE_HEADER_ENCODED, FRAME_ALIGN, PackHeader, frame_length, table_length,
};
use super::packs::Packs;
use super::{PackOptions, pack_number, pack_path};

/// The packs of a directory from which anything can be read.
#[derive(Default)]
pub struct PackSalvage {
    /// The salt of the checksums of each pack.
    pub(super) salts: HashMap<u64, u32>,
    /// Damage of whole packs.
    pub findings: Vec<(PathBuf, String)>,
}

/// The store ids in valid headers, and how many packs have each.
///
/// # Errors
/// When the directory cannot be listed.
pub fn store_ids(fs: &dyn FileSystem, dir: &Path) -> Result<HashMap<[u8; 16], u64>> {
    let mut found = HashMap::new();
    for number in numbers(fs, dir)? {
        let read = fs.open(&pack_path(dir, number), Open::Read).and_then(|file| read_header(&*file));
        if let Ok((Some(header), _)) = read {
            *found.entry(header.store_id).or_default() += 1;
        }
    }
    Ok(found)
}

fn numbers(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<u64>> {
    match fs.list(dir) {
        Ok(names) => Ok(names.iter().filter_map(|name| pack_number(name)).collect()),
        Err(Error::Missing { .. }) => Ok(Vec::new()),
        Err(Error::Io { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn read_header(file: &dyn File) -> Result<(Option<PackHeader>, [u8; FILE_HEADER_ENCODED])> {
    let mut bytes = [0; FILE_HEADER_ENCODED];
    let length = file.len()?.min(FILE_HEADER_ENCODED as u64) as usize;
    read_around_faults(file, 0, &mut bytes[..length])?;
    Ok((PackHeader::decode_any(&bytes), bytes))
}

impl PackSalvage {
    /// Reads the header of every pack.
    ///
    /// # Errors
    /// When the directory cannot be listed; a pack that cannot be read is a finding.
    pub fn survey(fs: &dyn FileSystem, dir: &Path, store_id: [u8; 16]) -> Result<Self> {
        let mut salvage = Self::default();
        for number in numbers(fs, dir)? {
            let path = pack_path(dir, number);
            let looked = fs.open(&path, Open::Read).and_then(|file| salvage.inspect(&path, number, &*file, store_id));
            if let Err(error) = looked {
                salvage.findings.push((path, format!("the pack cannot be read: {error}")));
            }
        }
        Ok(salvage)
    }

    fn inspect(&mut self, path: &Path, number: u64, file: &dyn File, store_id: [u8; 16]) -> Result<()> {
        let mut find = |detail: &str| self.findings.push((path.to_owned(), detail.to_owned()));
        let salt = match read_header(file)? {
            (Some(header), _) if header.store_id != store_id => {
                find("the pack belongs to another store");
                return Ok(());
            }
            (Some(header), _) => header.crc_salt(),
            (None, _) => match recover_salt(file)? {
                Some(salt) => {
                    find("the header is damaged or missing; chunks are read without it");
                    salt
                }
                None => {
                    find("the header is damaged, and no chunk can be read");
                    return Ok(());
                }
            },
        };
        self.salts.insert(number, salt);
        Ok(())
    }

    /// Packs that can be read.
    pub fn count(&self) -> u64 {
        self.salts.len() as u64
    }

    /// All packs, for reading only.
    pub fn open(self, fs: Arc<dyn FileSystem>, options: PackOptions) -> Packs {
        Packs::salvaged(fs, options, self.salts)
    }
}

/// The part of a pack's salt that checksums use, as most of its intact frames have it.
fn recover_salt(file: &dyn File) -> Result<Option<u32>> {
    let length = file.len()?;
    let mut votes: HashMap<u32, u64> = HashMap::new();
    let mut at = FILE_HEADER;
    while at + CHUNK_HEADER as u64 <= length {
        let found = salt_of(file, at, length)?;
        at += found.map_or(FRAME_ALIGN, |(_, taken)| taken);
        if let Some((salt, _)) = found {
            *votes.entry(salt).or_default() += 1;
        }
    }
    Ok(votes.into_iter().max_by_key(|(_, count)| *count).map(|(salt, _)| salt))
}

/// The salt under which a frame begins at `at`, and the length of the frame. Its header and its table must agree.
fn salt_of(file: &dyn File, at: u64, length: u64) -> Result<Option<(u32, u64)>> {
    let mut bytes = [0; CHUNK_HEADER];
    read_around_faults(file, at, &mut bytes)?;
    let salt = ChunkHeader::salt_for(&bytes, at);
    let Some(header) = ChunkHeader::decode(&bytes, salt, at) else { return Ok(None) };
    let table = table_length(header.length.min(CHUNK_LENGTH_MAX));
    if header.length == 0 || at + (CHUNK_HEADER + table) as u64 > length {
        return Ok(None);
    }
    let mut stored = vec![0; table];
    read_around_faults(file, at + CHUNK_HEADER as u64, &mut stored)?;
    let agrees = header.table_salt(block_crc(&stored)) == salt;
    Ok(agrees.then(|| (salt, frame_length(header.length))))
}
