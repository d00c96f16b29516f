//! The one writer of the log.
//!
//! Duties of the caller: one thread appends and syncs; `durable` never claims more than successful syncs covered; a
//! batch is acknowledged only after the `sync` that follows its `append`; after any error that leaves
//! `needs_fail_over` true, every batch after the last synced one failed and `fail_over` comes next.

use std::path::PathBuf;
use std::sync::Arc;

use orcas_base::error::{Error, Result};
use orcas_base::planted::{self, Bug};
use orcas_fs::File;
use orcas_record::Sequence;

use super::LogPosition;
use super::batch::Batch;
use super::directory::LogDirectory;
use super::files::LogFiles;
use super::format::{COMMIT_FRAME, FILE_HEADER, FileSeal};
use super::header::{FileHeader, Header};
use super::link::Link;
use super::reader::LogReader;
use super::spare::{SpareMaker, fill, size_at};
use super::survey::Survey;

/// Where a batch went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    pub file: u64,
    /// Offset of the batch's first frame.
    pub start: u64,
    pub position: LogPosition,
}

/// The spare file is made when this part of the present one is full: early enough for the roll, and not for a store
/// that is hardly written to.
const SPARE_AT: u64 = 4;

/// The single writer.
pub struct Log {
    directory: LogDirectory,
    current: Current,
    position: LogPosition,
    /// Set by a failed write or sync: this file is never written or synced again.
    failed: Option<Error>,
    /// The end of the chain that the present file's header names, until that header is durable.
    left: Vec<Link>,
    spares: SpareMaker,
    reader: LogReader,
    files: LogFiles,
    /// Until `keep` has said which files are in force.
    found: Option<Found>,
}

struct Current {
    file: Arc<dyn File>,
    /// That are allocated.
    bytes: u64,
    header: FileHeader,
    seal: FileSeal,
}

/// What recovery hands over to the writer.
pub(super) struct Found {
    pub survey: Survey,
    /// The chain as it was replayed.
    pub links: Vec<Link>,
    /// Where it ends and the new file begins.
    pub end: LogPosition,
    /// The last file, and the end of its last batch that counts.
    pub last: Option<(u64, u64)>,
}

impl Log {
    /// Continues after the end of what was found, in a file whose zeros and directory entry are durable. `first`
    /// batches are written and made durable before the header, and the header before this returns: a cut in between
    /// leaves the log as it was.
    pub(super) fn start(
        directory: LogDirectory,
        found: Found,
        first: &mut dyn FnMut(&mut Self) -> Result<()>,
    ) -> Result<Self> {
        let LogDirectory { fs, options, keys } = directory.clone();
        let spares = SpareMaker::new(Arc::clone(&fs), Arc::clone(&options), found.survey.highest + 1);
        let spare = match (spares.take(), found.last) {
            // What is allocated behind its batches is nothing that a restart would miss.
            (Err(Error::StorageFull), Some((file, end))) => {
                directory.truncate(file, end);
                spares.take()?
            }
            (taken, _) => taken?,
        };
        let header = directory.new_header(spare.number, &found.end)?;
        let reader = LogReader::new(fs, options, keys);
        let mut log = Self {
            files: LogFiles::new(directory.clone(), spares.clone(), reader.clone(), found.links.clone()),
            reader,
            position: LogPosition { file: spare.number, offset: FILE_HEADER, ..found.end.clone() },
            current: Current { file: spare.file, bytes: spare.bytes, seal: header.seal(), header: header.clone() },
            failed: None,
            left: Vec::new(),
            directory,
            spares,
            found: Some(found),
        };
        first(&mut log)?;
        if log.position.offset > FILE_HEADER {
            log.current.file.sync_data()?;
        }
        log.current.file.write_at(0, &header.encode(&log.directory.keys))?;
        log.current.file.sync_data()?;
        if let Some(found) = &log.found {
            found.survey.truncate(&log.directory, &found.links);
        }
        Ok(log)
    }

    /// Seals the batch with its commit record and writes it behind the last one, in the next file if this one is
    /// full. `durable` is the highest sequence that a successful sync covered. Nothing is durable before `sync`. An
    /// empty batch writes nothing.
    pub fn append(&mut self, batch: &mut Batch, durable: Sequence) -> Result<Appended> {
        self.check()?;
        if batch.refused {
            return Err(Error::Record { reason: "a record is larger than a frame may be" });
        }
        let bytes = (batch.len() + COMMIT_FRAME) as u64;
        if self.position.offset > FILE_HEADER && bytes > self.room() {
            self.leave()?;
        }
        if bytes > self.room() && self.is_short_of_space() {
            self.allocate(self.position.offset + bytes)?;
        }
        self.append_here(batch, durable)
    }

    /// Bytes that fit into the present file.
    pub fn room(&self) -> u64 {
        self.current.bytes.saturating_sub(self.position.offset)
    }

    fn is_short_of_space(&self) -> bool {
        let free = self.directory.fs.free_bytes(&self.directory.options.dir).unwrap_or(u64::MAX);
        size_at(free, self.directory.options.file_size) < self.directory.options.file_size
    }

    /// Takes space for a batch that is larger than the file. Where there is none nothing has failed: the log is as it was.
    fn allocate(&mut self, end: u64) -> Result<()> {
        fill(&*self.current.file, self.current.bytes, end)?;
        self.current.bytes = end;
        Ok(())
    }

    /// `append` without a roll: the file grows if it must.
    pub(super) fn append_here(&mut self, batch: &mut Batch, durable: Sequence) -> Result<Appended> {
        let start = self.position.offset;
        if batch.is_empty() {
            return Ok(Appended { file: self.position.file, start, position: self.position.clone() });
        }
        let commit = batch.seal(&self.directory.keys, &self.current.seal, &self.position, durable);
        let written = self.current.file.write_at(start, batch.sealed_bytes());
        self.note(written)?;
        self.position = LogPosition {
            file: self.current.seal.number,
            offset: start + batch.sealed_bytes().len() as u64,
            chain: commit.chain,
            sequence: commit.sequence,
        };
        Ok(Appended { file: self.position.file, start, position: self.position.clone() })
    }

    /// Makes every batch appended so far durable.
    pub fn sync(&mut self) -> Result<()> {
        self.check()?;
        let mut synced = self.current.file.sync_data();
        if synced.is_err() && planted::is(Bug::RetryFailedSync) {
            synced = self.current.file.sync_data();
        }
        self.note(synced)?;
        if let Some(link) = self.left.last() {
            self.directory.truncate(link.end.file, link.end.offset);
            self.files.append(self.left.drain(..));
        }
        Ok(())
    }

    /// Gives up everything behind `end`, which a successful sync covered, and continues in a new file. The new file's
    /// header becomes durable with the first sync in it; until then a restart finds the old file in force.
    pub fn fail_over(&mut self, end: &LogPosition) -> Result<()> {
        debug_assert!(end.sequence <= self.position.sequence);
        self.continue_after(end.clone())
    }

    /// Makes every batch appended so far durable and continues in a new file, so that the present one is sealed;
    /// `position` is durable then. Nothing when the present one has no batch.
    pub fn roll(&mut self) -> Result<()> {
        self.check()?;
        if self.position.offset == FILE_HEADER {
            return Ok(());
        }
        self.leave()?;
        self.sync()
    }

    /// Once, after recovery and before anything is compacted: `compacted` (file, first and last sequence) are the
    /// compacted files in force, as the records say. All others go, and so do the files these stand for.
    ///
    /// Returns the files in force that are shorter than what stands in them.
    ///
    /// # Errors
    /// `Missing` when a file in force is not there, `Corrupt` when it is not what the records say; nothing was removed.
    pub fn keep(&mut self, compacted: &[(u64, Sequence, Sequence)]) -> Result<Vec<PathBuf>> {
        let Some(found) = &self.found else {
            let kind = std::io::ErrorKind::InvalidInput;
            return Err(Error::io("keep", &self.directory.options.dir, kind.into()));
        };
        let links = found.survey.chain(&self.directory.options.dir, &found.end, compacted)?;
        found.survey.remove_others(&*self.directory.fs, &self.directory.options.dir, &links)?;
        let cut_short = found.survey.cut_short(&self.directory.options.dir, &links);
        self.files.settle(links);
        self.found = None;
        Ok(cut_short)
    }

    /// Whether a write or sync failed, so that only `fail_over` is possible.
    pub fn needs_fail_over(&self) -> bool {
        self.failed.is_some()
    }

    /// Behind the last batch appended.
    pub fn position(&self) -> LogPosition {
        self.position.clone()
    }

    pub fn reader(&self) -> LogReader {
        self.reader.clone()
    }

    pub fn files(&self) -> LogFiles {
        self.files.clone()
    }

    /// Whether a roll is near, and nobody has made its file or is about to.
    pub fn wants_spare(&self) -> bool {
        self.position.offset > self.current.bytes / SPARE_AT && !self.spares.is_coming()
    }

    pub fn spare_maker(&self) -> SpareMaker {
        self.spares.clone()
    }

    /// The end of the log: what was allocated for later batches is given back. If all are `durable`, a file of one header
    /// names the end, so that no damage can be taken for a torn tail. Nothing may be appended any more.
    pub fn close(&mut self, durable: &LogPosition) {
        self.spares.close();
        if self.failed.is_some() {
            return;
        }
        self.directory.truncate(self.position.file, self.position.offset);
        let known = self.position == *durable && !planted::is(Bug::CleanEndNotWritten);
        if self.position.offset > FILE_HEADER && known {
            // Without it the next start finds the end as after a kill.
            let number = self.spares.number();
            drop(self.directory.write_end(number, &self.position));
        }
    }

    /// A file is left only after it was synced whole: its successor's header says that its end is durable.
    fn leave(&mut self) -> Result<()> {
        self.sync()?;
        self.continue_after(self.position.clone())
    }

    fn continue_after(&mut self, end: LogPosition) -> Result<()> {
        let spare = self.spares.take()?;
        let header = self.directory.new_header(spare.number, &end)?;
        // A header whose write failed may stand on the disk all the same, and seals the present file at `end`.
        let written = spare.file.write_at(0, &header.encode(&self.directory.keys));
        self.note(written)?;
        // A file that begins behind the end holds nothing and is not named; the end of the one before may be earlier.
        let current = Header::Plain(self.current.header.clone());
        self.left.push(Link { header: current, end: self.position.clone() });
        self.left.retain(|link| link.header.number() <= end.file);
        if let Some(last) = self.left.last_mut() {
            last.end = end.clone();
        }
        self.position = LogPosition { file: spare.number, offset: FILE_HEADER, ..end };
        self.current = Current { file: spare.file, bytes: spare.bytes, seal: header.seal(), header };
        self.failed = None;
        Ok(())
    }

    fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn note(&mut self, done: Result<()>) -> Result<()> {
        if let Err(error) = &done {
            self.failed = Some(error.clone());
        }
        done
    }
}
