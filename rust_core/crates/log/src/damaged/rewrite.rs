//! Rewrites a damaged log, after the operator has accepted the loss: one plain file without a predecessor, which replaces
//! all other files when its header is durable.
//!
//! Invariants: until the header is durable, the old files are unchanged and in force. Every commit record says that its
//! own batch is durable, which is true whenever the file is in force.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orcas_base::error::Result;
use orcas_fs::{File, FileSystem, Open};
use orcas_record::placement::codec;
use orcas_record::{LogFileId, LogLocation, Sequence};

use crate::chain::LogDirectory;
use crate::encoding::{Batch, FILE_HEADER, FileContext, FileHeader};
use crate::writer::BatchLocation;
use crate::{LogOptions, LogPosition, file_number};

/// Bytes of records after which a batch is closed.
const BATCH_BYTES: usize = 1024 * 1024;
/// Extension of a damaged file that is kept for examination.
pub const SET_ASIDE: &str = "damaged";

pub struct LogRewrite {
    directory: LogDirectory,
    file: Arc<dyn File>,
    header: FileHeader,
    context: FileContext,
    batch: Batch,
    /// End of the last batch written.
    position: LogPosition,
    /// Sequence of the last record pushed.
    last: Sequence,
    in_force: bool,
}

impl LogRewrite {
    /// Begins a file with the next free number. The log must not be open.
    ///
    /// # Errors
    /// When the directory cannot be listed, or the file or its salt cannot be made.
    pub fn begin(fs: Arc<dyn FileSystem>, options: LogOptions) -> Result<Self> {
        let directory = LogDirectory::new(fs, options);
        let LogDirectory { fs, options, .. } = &directory;
        let numbers = fs.list(&options.dir)?.iter().filter_map(|name| file_number(name)).max();
        let number = numbers.unwrap_or(0) + 1;
        let header = directory.new_header(number, &LogPosition::ORIGIN)?;
        let file = fs.open(&directory.path(number), Open::Create)?;
        file.write_at(0, &[0; FILE_HEADER as usize])?;
        let position = LogPosition { file: number, offset: FILE_HEADER, ..LogPosition::ORIGIN };
        let context = header.context();
        let batch = Batch::new();
        Ok(Self { directory, file, header, context, batch, position, last: 0, in_force: false })
    }

    pub fn file(&self) -> LogFileId {
        codec::log_file(self.header.number)
    }

    /// The location at which the file begins.
    pub fn start(&self) -> LogLocation {
        codec::in_log(self.header.number, 0)
    }

    /// Adds a record as [`Batch::push`] does. Returns where it is.
    ///
    /// # Errors
    /// When a write fails.
    pub fn push(&mut self, sequence: Sequence, kind: u8, parts: &[&[u8]]) -> Result<LogLocation> {
        if self.batch.len() >= BATCH_BYTES {
            self.write()?;
        }
        self.last = sequence;
        let batch = BatchLocation { file: self.header.number, start: self.position.offset };
        Ok(batch.record(self.batch.push(sequence, kind, parts)))
    }

    /// Puts the file in force, so that all other files are void.
    ///
    /// # Errors
    /// When a write fails. The old files are then in force, unless the header was written.
    pub fn finish(mut self) -> Result<()> {
        self.write()?;
        self.file.sync_data()?;
        self.directory.fs.sync_dir(&self.directory.options.dir)?;
        self.file.write_at(0, &self.header.encode(&self.directory.keys))?;
        self.in_force = true;
        self.file.sync_data()?;
        self.directory.write_end(self.header.number + 1, &self.position)
    }

    fn write(&mut self) -> Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let start = self.position.offset;
        let end = self.batch.close(&self.directory.keys, &self.context, &self.position, self.last);
        let bytes = self.batch.closed_bytes();
        self.file.write_at(start, bytes)?;
        self.file.start_writeback(start, bytes.len() as u64);
        self.position = end;
        self.batch.clear();
        Ok(())
    }
}

impl Drop for LogRewrite {
    fn drop(&mut self) {
        if !self.in_force {
            // Without a header the file is void in any case.
            let removed = self.directory.fs.remove(&self.directory.path(self.header.number));
            let _ =
                removed.inspect_err(|error| tracing::warn!(%error, "Leftovers of a compaction could not be removed"));
        }
    }
}

/// Renames every log file with a lower number than `file`, so that no start reads it. Returns the new paths.
///
/// # Errors
/// When a file cannot be renamed. Others may have been renamed.
pub fn set_aside_before(fs: &dyn FileSystem, dir: &Path, file: LogFileId) -> Result<Vec<PathBuf>> {
    let number = codec::log_file_number(file);
    let mut aside = Vec::new();
    for name in fs.list(dir)? {
        if file_number(&name).is_some_and(|found| found < number) {
            let kept = dir.join(format!("{name}.{SET_ASIDE}"));
            fs.rename(&dir.join(&name), &kept)?;
            aside.push(kept);
        }
    }
    fs.sync_dir(dir)?;
    Ok(aside)
}
