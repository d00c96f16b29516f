//! Reads single contents from the log, any thread, verifying what it touches.
//!
//! A frame header is checked before its length is believed, and every 64 KiB block before a byte of it is handed out.
//! The chain is recovery's business, not a read's.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use orcas_base::block::{BLOCK_SIZE, field};
use orcas_base::buffers::Buffers;
use orcas_base::error::{Error, Result};
use orcas_base::sync::Mutex;
use orcas_fs::{File, FileSystem, Open};

use super::format::{
    FRAME_HEADER, FRAME_PAYLOAD_MAX, FileSeal, FrameClass, FrameHeader, LogKeys, blocks_match, payload_start,
};
use super::header::{HEADER_ENCODED, Header};
use super::{CONTENT_PREFIX, ContentLocation, LogOptions, file_path};

/// Log files that readers keep open at most: the share of the process's descriptors that the log may take.
const OPEN_FILES_MAX: usize = 256;

#[derive(Clone)]
pub struct LogReader {
    shared: Arc<Shared>,
    /// For the blocks that a read touches.
    buffers: Arc<Buffers>,
}

struct Shared {
    fs: Arc<dyn FileSystem>,
    options: Arc<LogOptions>,
    keys: LogKeys,
    /// Of files that are read without their headers: with these nothing else is read.
    seals: Option<HashMap<u64, FileSeal>>,
    open: Mutex<OpenFiles>,
}

#[derive(Default)]
struct OpenFiles {
    /// By number, with the moment at which each was opened.
    files: HashMap<u64, (u64, Arc<OpenLog>)>,
    /// Files opened so far.
    moment: u64,
}

struct OpenLog {
    file: Arc<dyn File>,
    seal: FileSeal,
    path: PathBuf,
}

/// A read at an offset: `false` when it would have to wait.
type ReadAt<'a> = &'a dyn Fn(&dyn File, u64, &mut [u8]) -> Result<bool>;

impl LogReader {
    /// A reader of its own for a log that is not open.
    pub fn of(fs: Arc<dyn FileSystem>, options: LogOptions) -> Self {
        let keys = LogKeys::derive(&options.commit_key);
        Self::new(fs, Arc::new(options), keys)
    }

    /// A reader for a log that may have lost headers and keys: of each file `seals` says how it is read.
    pub fn salvaged(fs: Arc<dyn FileSystem>, options: LogOptions, seals: HashMap<u64, FileSeal>) -> Self {
        let keys = LogKeys::derive(&options.commit_key);
        Self::with(fs, Arc::new(options), keys, Some(seals))
    }

    pub(super) fn new(fs: Arc<dyn FileSystem>, options: Arc<LogOptions>, keys: LogKeys) -> Self {
        Self::with(fs, options, keys, None)
    }

    fn with(
        fs: Arc<dyn FileSystem>,
        options: Arc<LogOptions>,
        keys: LogKeys,
        seals: Option<HashMap<u64, FileSeal>>,
    ) -> Self {
        let shared = Arc::new(Shared { fs, options, keys, seals, open: Mutex::default() });
        Self { shared, buffers: Buffers::new(false) }
    }

    /// The same reader with memory from `buffers`.
    pub fn using(self, buffers: Arc<Buffers>) -> Self {
        Self { buffers, ..self }
    }

    /// Fills `buf` with the content's bytes from `start`. `Error::Corrupt` when a checksum does not hold.
    pub fn read_content(&self, location: &ContentLocation, start: u32, buf: &mut [u8]) -> Result<()> {
        self.read(location, start, buf, &|file, offset, buf| file.read_at(offset, buf).map(|()| true)).map(|_| ())
    }

    /// Like `read_content`, but `false` (with `buf` undefined) when that would wait for the disk.
    pub fn try_read_content(&self, location: &ContentLocation, start: u32, buf: &mut [u8]) -> Result<bool> {
        self.read(location, start, buf, &|file, offset, buf| file.read_at_nowait(offset, buf))
    }

    /// The fingerprint that stands before the content.
    pub fn read_fingerprint(&self, location: &ContentLocation) -> Result<[u8; CONTENT_PREFIX]> {
        let mut fingerprint = [0; CONTENT_PREFIX];
        self.read_payload(location, 0, &mut fingerprint, &|file, offset, buf| {
            file.read_at(offset, buf).map(|()| true)
        })?;
        Ok(fingerprint)
    }

    fn read(&self, location: &ContentLocation, start: u32, buf: &mut [u8], read_at: ReadAt<'_>) -> Result<bool> {
        self.read_payload(location, CONTENT_PREFIX + start as usize, buf, read_at)
    }

    /// Bytes of the payload from `from` on.
    fn read_payload(
        &self,
        location: &ContentLocation,
        from: usize,
        buf: &mut [u8],
        read_at: ReadAt<'_>,
    ) -> Result<bool> {
        let log = self.open(location.file)?;
        let corrupt = |reason| Error::corrupt(&log.path, location.offset, reason);
        let length = CONTENT_PREFIX + location.length as usize;
        let until = from + buf.len();
        if length > FRAME_PAYLOAD_MAX || until > length {
            return Err(corrupt("a read beyond the content"));
        }
        let first = from / BLOCK_SIZE;
        let end = until.next_multiple_of(BLOCK_SIZE).min(length);
        let data = payload_start(length);
        // The front (header and table) and the blocks come in one read when they are neighbours.
        let length_of_front = if first == 0 { data + end } else { data };
        let mut front = self.buffers.take(length_of_front);
        front.resize(length_of_front, 0);
        if !read_at(&*log.file, location.offset, &mut front)? {
            return Ok(false);
        }
        let header = FrameHeader::decode(&field(&front, 0), &log.seal, location.offset)
            .filter(|header| header.class == FrameClass::Record && header.length as usize == length)
            .ok_or_else(|| corrupt("no frame of this length begins here"))?;
        debug_assert_eq!(header.payload_start(), data);
        let mut later;
        let blocks = if first == 0 {
            &front[data..]
        } else {
            later = self.buffers.take(end - first * BLOCK_SIZE);
            later.resize(end - first * BLOCK_SIZE, 0);
            if !read_at(&*log.file, location.offset + (data + first * BLOCK_SIZE) as u64, &mut later)? {
                return Ok(false);
            }
            &later[..]
        };
        if !blocks_match(&log.seal, &front[FRAME_HEADER + 4 * first..data], blocks) {
            return Err(corrupt("a block does not match its checksum"));
        }
        buf.copy_from_slice(&blocks[from - first * BLOCK_SIZE..until - first * BLOCK_SIZE]);
        Ok(true)
    }

    fn open(&self, number: u64) -> Result<Arc<OpenLog>> {
        let shared = &*self.shared;
        if let Some((_, found)) = shared.open.lock().files.get(&number) {
            return Ok(Arc::clone(found));
        }
        let path = file_path(&shared.options.dir, number);
        let file = shared.fs.open(&path, Open::Read)?;
        let seal = match &shared.seals {
            Some(seals) => seals.get(&number).cloned().ok_or_else(|| Error::Missing { path: path.clone() })?,
            None => {
                let mut encoded = [0; HEADER_ENCODED];
                file.read_at(0, &mut encoded)?;
                let header = Header::decode(&encoded, &shared.keys, &shared.options.store_id, number);
                header.map_err(|fault| fault.into_error(&path))?.seal()
            }
        };
        let log = Arc::new(OpenLog { file, seal, path });
        shared.open.lock().insert(number, Arc::clone(&log));
        Ok(log)
    }

    /// The file is gone: gives its space back by closing it.
    pub(super) fn forget(&self, number: u64) {
        self.shared.open.lock().files.remove(&number);
    }
}

impl OpenFiles {
    /// Closes the file that was opened first when there are too many.
    fn insert(&mut self, number: u64, log: Arc<OpenLog>) {
        self.moment += 1;
        self.files.insert(number, (self.moment, log));
        if self.files.len() > OPEN_FILES_MAX
            && let Some(first) = self.files.iter().min_by_key(|(_, (moment, _))| *moment).map(|(number, _)| *number)
        {
            self.files.remove(&first);
        }
    }
}
