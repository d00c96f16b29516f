//! The directory of a log with its options and keys, and operations on single files by number.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;

use orcas_base::error::{Error, Result};
use orcas_base::sync::Mutex;
use orcas_fs::{FileSystem, Open};

use crate::encoding::{FILE_HEADER, FileHeader, Header, LogKeys};
use crate::scan::Scanner;
use crate::{LogOptions, LogPosition, file_path};

/// The directory of the log, and the keys of the log.
#[derive(Clone)]
pub struct LogDirectory {
    pub fs: Arc<dyn FileSystem>,
    pub options: Arc<LogOptions>,
    pub keys: LogKeys,
    pub syncs: DirectorySyncs,
}

/// Syncs of the directory while the log is in use. One that fails loses the names of all files that were created before
/// it, whoever did so, for later syncs as well.
#[derive(Clone, Default)]
pub struct DirectorySyncs {
    /// Syncs that failed. Locked during each, so that none is missed.
    failed: Arc<Mutex<u64>>,
}

impl DirectorySyncs {
    /// Syncs that failed so far.
    pub fn failed(&self) -> u64 {
        *self.failed.lock()
    }

    /// Makes the names in the directory durable.
    ///
    /// # Errors
    /// When this sync fails, or one did after `failed` was asked, which was before a file was created.
    pub fn sync(&self, fs: &dyn FileSystem, options: &LogOptions, failed: u64) -> Result<()> {
        let mut count = self.failed.lock();
        let synced = fs.sync_dir(&options.dir);
        *count += u64::from(synced.is_err());
        if synced.is_ok() && *count != failed {
            let reason = io::Error::other("an earlier sync of the directory failed");
            return Err(Error::io("sync directory", &options.dir, reason));
        }
        synced
    }
}

impl LogDirectory {
    pub fn new(fs: Arc<dyn FileSystem>, options: LogOptions) -> Self {
        let keys = LogKeys::derive(&options.commit_key);
        Self { fs, options: Arc::new(options), keys, syncs: DirectorySyncs::default() }
    }

    pub fn path(&self, number: u64) -> PathBuf {
        file_path(&self.options.dir, number)
    }

    /// Begins to read the batches of a file.
    pub fn scanner(&self, header: &Header) -> Result<Scanner> {
        let path = self.path(header.number());
        Scanner::new(self.fs.open(&path, Open::Read)?, path, self.keys.clone(), header)
    }

    /// A header with a new salt for the file that follows `end`.
    pub fn new_header(&self, number: u64, end: &LogPosition) -> Result<FileHeader> {
        let mut salt = [0; 16];
        self.options.random.fill(&mut salt)?;
        Ok(FileHeader { store_id: self.options.store_id, number, salt, predecessor: end.clone() })
    }

    /// Makes the file `number`, which consists of a header that names `end` as the end of the log.
    pub fn write_end(&self, number: u64, end: &LogPosition) -> Result<()> {
        let file = self.fs.open(&self.path(number), Open::Create)?;
        let encoded = self.new_header(number, end)?.encode(&self.keys);
        let mut page = [0; FILE_HEADER as usize];
        page[..encoded.len()].copy_from_slice(&encoded);
        file.write_at(0, &page)?;
        file.sync_data()?;
        self.fs.sync_dir(&self.options.dir)
    }

    /// Truncates a file to the end that a durable header names. Everything after that end is void, but up to 64 MiB of
    /// it are allocated. Only space is at stake, so a failure is left to the next start.
    pub fn truncate(&self, number: u64, end: u64) {
        let truncated = self
            .fs
            .open(&self.path(number), Open::Write)
            .and_then(|file| if file.len()? > end { file.set_len(end) } else { Ok(()) });
        drop(truncated);
    }
}
