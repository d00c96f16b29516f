//! The directory of a log with its options and keys, and operations on single files by number.

use std::path::PathBuf;
use std::sync::Arc;

use orcas_base::error::Result;
use orcas_fs::{FileSystem, Open};

use super::format::{FILE_HEADER, LogKeys};
use super::header::{FileHeader, Header};
use super::scan::Scanner;
use super::{LogOptions, LogPosition, file_path};

/// Where the log is, and the keys to it.
#[derive(Clone)]
pub struct LogDirectory {
    pub fs: Arc<dyn FileSystem>,
    pub options: Arc<LogOptions>,
    pub keys: LogKeys,
}

impl LogDirectory {
    pub fn new(fs: Arc<dyn FileSystem>, options: LogOptions) -> Self {
        let keys = LogKeys::derive(&options.commit_key);
        Self { fs, options: Arc::new(options), keys }
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
