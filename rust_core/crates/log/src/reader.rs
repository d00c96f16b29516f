//! Reads and verifies single contents of the log, on any thread.
//!
//! A frame header is verified before its length is used, and every 64 KiB block before any byte of it is returned. Reads
//! do not verify the chain; recovery does.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::Arc;

use orcas_base::block::{BLOCK_SIZE, field};
use orcas_base::buffers::Buffers;
use orcas_base::error::{Error, Result};
use orcas_base::sync::Mutex;
use orcas_base::verifying::verifying;
use orcas_fs::{File, FileSystem, Open};
use orcas_record::placement::codec;
use orcas_record::{LogFileId, LogLocation};

use super::encoding::{
    FRAME_HEADER, FRAME_PAYLOAD_MAX, FileContext, FrameClass, FrameHeader, HEADER_ENCODED, Header, LogKeys,
    blocks_match, payload_start,
};
use super::{CONTENT_PREFIX, LogOptions, file_path};

/// Most log files that readers keep open: the share of the process's descriptors that the log may use.
const OPEN_FILES_MAX: usize = 256;

#[derive(Clone)]
pub struct LogReader {
    inner: Arc<ReaderInner>,
    /// Memory for the blocks that a read touches.
    buffers: Arc<Buffers>,
}

struct ReaderInner {
    fs: Arc<dyn FileSystem>,
    options: Arc<LogOptions>,
    keys: LogKeys,
    /// Contexts of files that are read without their headers. If present, no other file is read.
    contexts: Option<HashMap<u64, FileContext>>,
    open: Mutex<OpenFiles>,
}

#[derive(Default)]
struct OpenFiles {
    /// Files by number, with the value of `opened` when the file was opened.
    files: HashMap<u64, (u64, Arc<OpenLog>)>,
    /// Files opened so far.
    opened: u64,
}

struct OpenLog {
    file: Arc<dyn File>,
    context: FileContext,
    path: PathBuf,
}

/// A read at an offset. `false` if it would have to wait.
type ReadAt<'a> = &'a dyn Fn(&dyn File, u64, &mut [u8]) -> Result<bool>;

impl LogReader {
    /// A reader for a log that is not open.
    pub fn of(fs: Arc<dyn FileSystem>, options: LogOptions) -> Self {
        let keys = LogKeys::derive(&options.commit_key);
        Self::new(fs, Arc::new(options), keys)
    }

    /// A reader for a log that may have lost headers and keys; `contexts` replaces them.
    pub fn salvaged(fs: Arc<dyn FileSystem>, options: LogOptions, contexts: HashMap<u64, FileContext>) -> Self {
        let keys = LogKeys::derive(&options.commit_key);
        Self::with(fs, Arc::new(options), keys, Some(contexts))
    }

    pub(super) fn new(fs: Arc<dyn FileSystem>, options: Arc<LogOptions>, keys: LogKeys) -> Self {
        Self::with(fs, options, keys, None)
    }

    fn with(
        fs: Arc<dyn FileSystem>,
        options: Arc<LogOptions>,
        keys: LogKeys,
        contexts: Option<HashMap<u64, FileContext>>,
    ) -> Self {
        let inner = Arc::new(ReaderInner { fs, options, keys, contexts, open: Mutex::default() });
        Self { inner, buffers: Buffers::new(false) }
    }

    /// This reader, with memory from `buffers`.
    pub fn using(self, buffers: Arc<Buffers>) -> Self {
        Self { buffers, ..self }
    }

    /// The error for a content that is not what was stored, although its checksums match.
    pub fn corrupt(&self, at: LogLocation, reason: &'static str) -> Error {
        let (file, offset) = codec::in_log_parts(at);
        Error::corrupt(&self.inner.options.path(codec::log_file(file)), offset, reason)
    }

    /// Fills `buf` with the bytes from `start` on of the content at `at`, which has `length`. `Error::Corrupt` when a
    /// checksum does not match.
    pub fn read_content(&self, at: LogLocation, length: u32, start: u32, buf: &mut [u8]) -> Result<()> {
        self.read((at, length), start, buf, &|file, offset, buf| file.read_at(offset, buf).map(|()| true)).map(|_| ())
    }

    /// Like `read_content`, but returns `false`, with `buf` undefined, if that would wait for the disk.
    pub fn try_read_content(&self, at: LogLocation, length: u32, start: u32, buf: &mut [u8]) -> Result<bool> {
        self.read((at, length), start, buf, &|file, offset, buf| file.read_at_nowait(offset, buf))
    }

    /// The fingerprint of the content at `at`, which has `length` bytes.
    pub fn read_fingerprint(&self, at: LogLocation, length: u32) -> Result<[u8; CONTENT_PREFIX]> {
        let mut fingerprint = [0; CONTENT_PREFIX];
        self.read_payload((at, length), 0, &mut fingerprint, &|file, offset, buf| {
            file.read_at(offset, buf).map(|()| true)
        })?;
        Ok(fingerprint)
    }

    fn read(&self, content: (LogLocation, u32), start: u32, buf: &mut [u8], read_at: ReadAt<'_>) -> Result<bool> {
        self.read_payload(content, CONTENT_PREFIX + start as usize, buf, read_at)
    }

    /// Fills `buf` with the bytes of the payload from `from` on.
    fn read_payload(
        &self,
        (at, length): (LogLocation, u32),
        from: usize,
        buf: &mut [u8],
        read_at: ReadAt<'_>,
    ) -> Result<bool> {
        let (file, offset) = codec::in_log_parts(at);
        let log = self.open(file)?;
        let corrupt = |reason| Error::corrupt(&log.path, offset, reason);
        let length = CONTENT_PREFIX + length as usize;
        let until = from + buf.len();
        if length > FRAME_PAYLOAD_MAX || until > length {
            return Err(corrupt("a read beyond the content"));
        }
        let first = from / BLOCK_SIZE;
        let end = until.next_multiple_of(BLOCK_SIZE).min(length);
        let data = payload_start(length);
        // If the blocks follow the front (header and table), one read fetches both.
        let length_of_front = if first == 0 { data + end } else { data };
        let mut front = self.buffers.take(length_of_front);
        front.resize(length_of_front, 0);
        if !read_at(&*log.file, offset, &mut front)? {
            return Ok(false);
        }
        let header = FrameHeader::decode(&field(&front, 0), &log.context, offset)
            .filter(|header| header.class == FrameClass::Record && header.length as usize == length)
            .ok_or_else(|| corrupt("no frame of this length begins here"))?;
        debug_assert_eq!(header.payload_start(), data);
        let mut later;
        let blocks = if first == 0 {
            &front[data..]
        } else {
            later = self.buffers.take(end - first * BLOCK_SIZE);
            later.resize(end - first * BLOCK_SIZE, 0);
            if !read_at(&*log.file, offset + (data + first * BLOCK_SIZE) as u64, &mut later)? {
                return Ok(false);
            }
            &later[..]
        };
        if !verifying(|| blocks_match(&log.context, &front[FRAME_HEADER + 4 * first..data], blocks)) {
            return Err(corrupt("a block does not match its checksum"));
        }
        buf.copy_from_slice(&blocks[from - first * BLOCK_SIZE..until - first * BLOCK_SIZE]);
        Ok(true)
    }

    /// Removes a file to which nothing leads any more, of a log that is not open.
    ///
    /// # Errors
    /// When it cannot be removed.
    pub fn remove(&self, file: LogFileId) -> Result<()> {
        let ReaderInner { fs, options, .. } = &*self.inner;
        fs.remove(&options.path(file))?;
        self.forget(codec::log_file_number(file));
        fs.sync_dir(&options.dir)
    }

    fn open(&self, number: u64) -> Result<Arc<OpenLog>> {
        let inner = &*self.inner;
        if let Some((_, found)) = inner.open.lock().files.get(&number) {
            return Ok(Arc::clone(found));
        }
        let path = file_path(&inner.options.dir, number);
        let file = inner.fs.open(&path, Open::Read)?;
        let context = match &inner.contexts {
            Some(contexts) => contexts.get(&number).cloned().ok_or_else(|| Error::Missing { path: path.clone() })?,
            None => {
                let mut encoded = [0; HEADER_ENCODED];
                file.read_at(0, &mut encoded)?;
                let header = Header::decode(&encoded, &inner.keys, &inner.options.store_id, number);
                header.map_err(|fault| fault.into_error(&path))?.context()
            }
        };
        let log = Arc::new(OpenLog { file, context, path });
        inner.open.lock().insert(number, Arc::clone(&log));
        Ok(log)
    }

    /// Closes a file that somebody else has replaced.
    pub fn forget_file(&self, file: LogFileId) {
        self.forget(codec::log_file_number(file));
    }

    /// Closes a file that was removed, so that its space is freed.
    pub(super) fn forget(&self, number: u64) {
        self.inner.open.lock().files.remove(&number);
    }
}

impl OpenFiles {
    /// Closes the file that was opened first when there are too many.
    fn insert(&mut self, number: u64, log: Arc<OpenLog>) {
        self.opened += 1;
        self.files.insert(number, (self.opened, log));
        if self.files.len() > OPEN_FILES_MAX
            && let Some(first) = self.files.iter().min_by_key(|(_, (opened, _))| *opened).map(|(number, _)| *number)
        {
            self.files.remove(&first);
        }
    }
}
