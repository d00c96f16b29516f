//! A log that is written anew as a whole: one plain file without a predecessor, which takes the place of every other
//! file when its header is durable. For a log whose damage somebody has agreed to leave behind.
//!
//! Invariants: until the header is durable the old files are in force, and nothing was changed in them. Every commit
//! record says that its own batch is durable, which is so whenever the file is in force.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orcas_base::error::Result;
use orcas_fs::{File, FileSystem, Open};
use orcas_record::Sequence;

use super::format::{FILE_HEADER, FileSeal, LogKeys};
use super::header::FileHeader;
use super::writer::{Batch, write_end};
use super::{LogOptions, LogPosition, file_number, file_path};

/// Bytes at which a batch is closed.
const BATCH_BYTES: usize = 1024 * 1024;
/// Behind the name of a file that is kept for whoever wants to look at it.
pub const SET_ASIDE: &str = "damaged";

pub struct LogRewrite {
    fs: Arc<dyn FileSystem>,
    options: LogOptions,
    keys: LogKeys,
    file: Arc<dyn File>,
    header: FileHeader,
    seal: FileSeal,
    batch: Batch,
    /// Behind the last batch written.
    position: LogPosition,
    /// Of the last record pushed.
    last: Sequence,
    in_force: bool,
}

impl LogRewrite {
    /// Begins a file behind all that are there. Nobody may have the log open.
    ///
    /// # Errors
    /// What listing the directory, randomness or making the file ran into.
    pub fn begin(fs: Arc<dyn FileSystem>, options: LogOptions) -> Result<Self> {
        let numbers = fs.list(&options.dir)?.iter().filter_map(|name| file_number(name)).max();
        let number = numbers.unwrap_or(0) + 1;
        let mut salt = [0; 16];
        options.random.fill(&mut salt)?;
        let file = fs.open(&file_path(&options.dir, number), Open::Create)?;
        file.write_at(0, &[0; FILE_HEADER as usize])?;
        let predecessor = LogPosition::ORIGIN;
        let position = LogPosition { file: number, offset: FILE_HEADER, ..LogPosition::ORIGIN };
        let header = FileHeader { store_id: options.store_id, number, salt, predecessor };
        let (keys, seal) = (LogKeys::derive(&options.commit_key), header.seal());
        let batch = Batch::new();
        Ok(Self { fs, options, keys, file, header, seal, batch, position, last: 0, in_force: false })
    }

    /// The number of the file.
    pub fn file(&self) -> u64 {
        self.header.number
    }

    /// Adds a record as [`Batch::push`] does. Returns the frame's offset in the file.
    ///
    /// # Errors
    /// What writing ran into.
    pub fn push(&mut self, sequence: Sequence, kind: u8, parts: &[&[u8]]) -> Result<u64> {
        if self.batch.len() >= BATCH_BYTES {
            self.write()?;
        }
        self.last = sequence;
        Ok(self.position.offset + u64::from(self.batch.push(sequence, kind, parts)))
    }

    /// Puts the file in force: from here on every other file counts for nothing.
    ///
    /// # Errors
    /// What writing ran into. The old files are in force then, unless only the directory or what follows failed.
    pub fn finish(mut self) -> Result<()> {
        self.write()?;
        self.file.sync_data()?;
        self.fs.sync_dir(&self.options.dir)?;
        self.file.write_at(0, &self.header.encode(&self.keys))?;
        self.in_force = true;
        self.file.sync_data()?;
        write_end(&*self.fs, &self.options, &self.keys, self.header.number + 1, &self.position)
    }

    fn write(&mut self) -> Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let start = self.position.offset;
        let commit = self.batch.seal(&self.keys, &self.seal, &self.position, self.last);
        let bytes = self.batch.sealed_bytes();
        self.file.write_at(start, bytes)?;
        self.file.start_writeback(start, bytes.len() as u64);
        self.position = LogPosition {
            file: self.header.number,
            offset: start + bytes.len() as u64,
            chain: commit.chain,
            sequence: commit.sequence,
        };
        self.batch.clear();
        Ok(())
    }
}

impl Drop for LogRewrite {
    fn drop(&mut self) {
        if !self.in_force {
            // A leftover is void: it has no header.
            let removed = self.fs.remove(&file_path(&self.options.dir, self.header.number));
            let _ =
                removed.inspect_err(|error| tracing::warn!(%error, "The rest of a compaction could not be removed"));
        }
    }
}

/// Renames every log file with a number below `number`, so that no start looks at them. Returns the new paths.
///
/// # Errors
/// What renaming ran into; some may have been renamed.
pub fn set_aside_before(fs: &dyn FileSystem, dir: &Path, number: u64) -> Result<Vec<PathBuf>> {
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
