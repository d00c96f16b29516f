//! Reads and verifies ranges of chunks, on any thread.
//!
//! A chunk's header and checksum table are verified once, and the table is kept in a bounded cache. Every 64 KiB block
//! is verified each time before a byte of it is returned.

use std::collections::{HashMap, VecDeque};
use std::path::PathBuf;
use std::sync::Arc;

use orcas_base::block::{BLOCK_SIZE, field};
use orcas_base::error::{Error, Result};
use orcas_base::sync::Mutex;
use orcas_base::verifying::verifying;
use orcas_fs::{File, FileSystem, Open};

use super::format::{
    CHUNK_HEADER, ChunkHeader, FILE_HEADER_ENCODED, FORMAT_VERSION, HeaderFault, PackHeader, blocks_match,
    content_start, table_length,
};
use super::{PackOptions, pack_path};

/// Packs that readers keep open at most, which limits the file descriptors that they take.
const OPEN_PACKS_MAX: usize = 64;
/// Bytes of memory that the cache of tables may take.
const TABLES_MAX: usize = 8 * 1024 * 1024;
/// Bytes of header and table read at first: enough for chunks of 4 MiB.
const PREFIX_GUESS: usize = CHUNK_HEADER + 4 * 64;

pub(super) struct Reader {
    fs: Arc<dyn FileSystem>,
    options: Arc<PackOptions>,
    /// For salvage: the salts of the packs, whose headers are not read then. A pack without one cannot be read.
    salts: Option<HashMap<u64, u32>>,
    /// Oldest first.
    open: Mutex<VecDeque<Arc<OpenPack>>>,
    tables: Mutex<TableCache>,
}

pub(super) struct OpenPack {
    pub number: u64,
    pub file: Arc<dyn File>,
    pub crc_salt: u32,
    pub path: PathBuf,
    /// One of the two copies of the header is damaged.
    pub lacks_a_copy: bool,
}

/// Reads at an offset; returns `false` when it would have to wait.
pub(super) type ReadAt<'a> = &'a dyn Fn(&dyn File, u64, &mut [u8]) -> Result<bool>;

/// The part of a chunk's frame before the content: header and checksum table, verified.
pub(super) struct FramePrefix {
    pub header: ChunkHeader,
    /// Salted, one for each block.
    pub crcs: Vec<u32>,
}

/// The part of a `FramePrefix` that the cache keeps.
struct Table {
    length: u32,
    crcs: Vec<u32>,
}

#[derive(Default)]
struct TableCache {
    by_location: HashMap<(u64, u64), Arc<Table>>,
    /// Oldest first.
    order: VecDeque<(u64, u64)>,
    bytes: usize,
}

impl Reader {
    pub fn new(fs: Arc<dyn FileSystem>, options: Arc<PackOptions>, salts: Option<HashMap<u64, u32>>) -> Self {
        Self { fs, options, salts, open: Mutex::default(), tables: Mutex::default() }
    }

    /// Fills `buf` with the content's bytes from `start`; `false` when `read_at` would have waited.
    pub fn read(&self, pack: u64, offset: u64, start: u32, buf: &mut [u8], read_at: ReadAt<'_>) -> Result<bool> {
        let pack = self.open(pack)?;
        let corrupt = |reason| Error::corrupt(&pack.path, offset, reason);
        let Some(table) = self.table(&pack, offset, read_at)? else { return Ok(false) };
        let from = start as usize;
        let until = from + buf.len();
        if until > table.length as usize {
            return Err(corrupt("the read extends beyond the chunk"));
        }
        if buf.is_empty() {
            return Ok(true);
        }
        let first = from / BLOCK_SIZE;
        let end = until.next_multiple_of(BLOCK_SIZE).min(table.length as usize);
        let data = offset + content_start(table.length);
        let crcs = &table.crcs[first..];
        let matched = if from == first * BLOCK_SIZE && until == end {
            if !read_at(&*pack.file, data + from as u64, buf)? {
                return Ok(false);
            }
            verifying(|| blocks_match(crcs, buf, pack.crc_salt))
        } else {
            let mut blocks = vec![0; end - first * BLOCK_SIZE];
            if !read_at(&*pack.file, data + (first * BLOCK_SIZE) as u64, &mut blocks)? {
                return Ok(false);
            }
            buf.copy_from_slice(&blocks[from - first * BLOCK_SIZE..until - first * BLOCK_SIZE]);
            verifying(|| blocks_match(crcs, &blocks, pack.crc_salt))
        };
        if !matched {
            buf.fill(0);
            return Err(corrupt("a block does not match its checksum"));
        }
        Ok(true)
    }

    fn table(&self, pack: &OpenPack, offset: u64, read_at: ReadAt<'_>) -> Result<Option<Arc<Table>>> {
        let location = (pack.number, offset);
        if let Some(found) = self.tables.lock().by_location.get(&location) {
            return Ok(Some(Arc::clone(found)));
        }
        let Some(prefix) = FramePrefix::read(pack, offset, read_at)? else { return Ok(None) };
        let table = Arc::new(Table { length: prefix.header.length, crcs: prefix.crcs });
        self.tables.lock().insert(location, &table);
        Ok(Some(table))
    }

    pub fn open(&self, number: u64) -> Result<Arc<OpenPack>> {
        if let Some(found) = self.open.lock().iter().find(|pack| pack.number == number) {
            return Ok(Arc::clone(found));
        }
        let pack = Arc::new(match &self.salts {
            None => open_pack(&*self.fs, &self.options, number, Open::Read)?,
            Some(salts) => {
                let path = pack_path(&self.options.dir, number);
                let crc_salt = *salts.get(&number).ok_or_else(|| Error::Missing { path: path.clone() })?;
                OpenPack { number, file: self.fs.open(&path, Open::Read)?, crc_salt, path, lacks_a_copy: false }
            }
        });
        let mut open = self.open.lock();
        if open.len() == OPEN_PACKS_MAX {
            open.pop_front();
        }
        open.push_back(Arc::clone(&pack));
        Ok(pack)
    }

    /// Drops the descriptor and the tables of a pack.
    pub fn forget(&self, number: u64) {
        self.open.lock().retain(|pack| pack.number != number);
        self.tables.lock().forget(number);
    }
}

impl FramePrefix {
    /// `None` when `read_at` would have waited.
    pub fn read(pack: &OpenPack, offset: u64, read_at: ReadAt<'_>) -> Result<Option<Self>> {
        let corrupt = |reason| Error::corrupt(&pack.path, offset, reason);
        let guess = pack.file.len()?.saturating_sub(offset).min(PREFIX_GUESS as u64) as usize;
        let mut prefix = vec![0; guess.max(CHUNK_HEADER)];
        if !read_at(&*pack.file, offset, &mut prefix)? {
            return Ok(None);
        }
        let header = ChunkHeader::decode(&field(&prefix, 0), pack.crc_salt, offset)
            .ok_or_else(|| corrupt("no chunk begins here"))?;
        let end = CHUNK_HEADER + table_length(header.length);
        if end > prefix.len() {
            let known = prefix.len();
            prefix.resize(end, 0);
            if !read_at(&*pack.file, offset + known as u64, &mut prefix[known..])? {
                return Ok(None);
            }
        }
        let crcs = header
            .decode_table(&prefix[CHUNK_HEADER..end], pack.crc_salt)
            .ok_or_else(|| corrupt("the checksum table does not match"))?;
        Ok(Some(Self { header, crcs }))
    }
}

impl Table {
    /// Bytes that the table takes in the cache, including an estimate for the map and the queue.
    fn memory(&self) -> usize {
        4 * self.crcs.len() + 160
    }
}

impl TableCache {
    fn insert(&mut self, location: (u64, u64), table: &Arc<Table>) {
        if self.by_location.insert(location, Arc::clone(table)).is_some() {
            return;
        }
        self.order.push_back(location);
        self.bytes += table.memory();
        while self.bytes > TABLES_MAX {
            let Some(oldest) = self.order.pop_front() else { break };
            self.bytes -= self.by_location.remove(&oldest).map_or(0, |table| table.memory());
        }
    }

    fn forget(&mut self, pack: u64) {
        self.order.retain(|(number, _)| *number != pack);
        let gone = self.by_location.extract_if(|(number, _), _| *number == pack);
        self.bytes -= gone.map(|(_, table)| table.memory()).sum::<usize>();
    }
}

/// The bytes of a header, and zeros where the file is too short for it.
pub(super) fn read_header(file: &dyn File) -> Result<[u8; FILE_HEADER_ENCODED]> {
    let mut encoded = [0; FILE_HEADER_ENCODED];
    // An empty pack of an earlier version ends after the first copy.
    let present = file.len()?.min(FILE_HEADER_ENCODED as u64) as usize;
    file.read_at(0, &mut encoded[..present])?;
    Ok(encoded)
}

/// Opens a pack after checking that it is what its name says.
pub(super) fn open_pack(fs: &dyn FileSystem, options: &PackOptions, number: u64, mode: Open) -> Result<OpenPack> {
    let path = pack_path(&options.dir, number);
    let file = fs.open(&path, mode)?;
    let encoded = read_header(&*file)?;
    let header = PackHeader::decode(&encoded, &options.store_id, number).map_err(|fault| match fault {
        HeaderFault::Damaged => Error::corrupt(&path, 0, "the pack header does not match its checksum"),
        HeaderFault::Version(found) => Error::Version { path: path.clone(), found, supported: FORMAT_VERSION },
        HeaderFault::Foreign(reason) => Error::Foreign { path: path.clone(), reason },
    })?;
    let lacks_a_copy = PackHeader::lacks_a_copy(&encoded);
    Ok(OpenPack { number, file, crc_salt: header.crc_salt(), path, lacks_a_copy })
}
