//! The one writer of the log.
//!
//! Duties of the caller: only one thread appends and syncs. `durable` covers at most what successful syncs covered. A
//! batch is acknowledged only after the `sync` that follows its `append`. If `needs_fail_over` is true after an error,
//! every batch after the last synced one has failed, and the next call is `fail_over`.

use std::path::PathBuf;
use std::sync::Arc;

use orcas_base::error::{Error, Result};
use orcas_base::planted::{self, Bug};
use orcas_fs::File;
use orcas_record::placement::codec;
use orcas_record::{LogFileId, LogLocation, Sequence};

use super::chain::{Link, LogDirectory, LogFiles, SpareMaker, Survey, fill, size_at};
use super::encoding::{Batch, BatchFrame, COMMIT_FRAME, FILE_HEADER, FileContext, FileHeader, Header};
use super::reader::LogReader;
use super::{LogPosition, RecoveredBatch, RecoveredRecord};

/// The place where a batch begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLocation {
    pub(super) file: u64,
    /// The offset of the first frame.
    pub(super) start: u64,
}

impl BatchLocation {
    /// The location of a batch that was read.
    pub fn of(batch: &RecoveredBatch) -> Self {
        let first = batch.records.first().map(|record| codec::in_log_parts(record.at));
        let (file, start) = first.unwrap_or((batch.position.file, batch.position.offset));
        Self { file, start }
    }

    /// Where the frame of a record of it is.
    pub fn frame_of(self, record: &RecoveredRecord) -> BatchFrame {
        BatchFrame((record.byte() - self.start) as u32)
    }

    /// The byte of its file.
    pub fn byte(self) -> u64 {
        self.start
    }

    /// The location of a record of the batch.
    pub fn record(self, frame: BatchFrame) -> LogLocation {
        codec::in_log(self.file, self.start + u64::from(frame.0))
    }
}

/// The place where a batch was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Appended {
    pub at: BatchLocation,
    /// The end of the batch.
    pub position: LogPosition,
}

/// The spare file is made when a quarter of the current one is full: early enough for the roll, but not for a store with
/// hardly any writes.
const SPARE_AT: u64 = 4;

/// The single writer.
pub struct Log {
    directory: LogDirectory,
    current: Current,
    position: LogPosition,
    /// Set by a failed write or sync. The current file is then never written or synced again.
    failed: Option<Error>,
    /// Links that end before the current file, until its header is durable.
    pending_links: Vec<Link>,
    spares: SpareMaker,
    reader: LogReader,
    files: LogFiles,
    /// Until `keep` has decided which files are in force.
    found: Option<RecoveredChain>,
}

struct Current {
    file: Arc<dyn File>,
    /// Allocated bytes.
    bytes: u64,
    /// Successful syncs of its batches.
    syncs: u64,
    header: FileHeader,
    context: FileContext,
}

/// The chain as recovery found it, for the writer.
pub(super) struct RecoveredChain {
    pub survey: Survey,
    /// The chain as it was replayed.
    pub links: Vec<Link>,
    /// The position at which the chain ends and the new file begins.
    pub end: LogPosition,
    /// The last file, and the end of its last batch that counts.
    pub last: Option<(u64, u64)>,
}

impl Log {
    /// Continues the log in a new file, whose space and directory entry are durable. The batches that `first` appends are
    /// synced before the header is written, and the header is synced before this returns. A power loss in between leaves
    /// the log as it was.
    pub(super) fn start(
        directory: LogDirectory,
        found: RecoveredChain,
        first: &mut dyn FnMut(&mut Self) -> Result<()>,
    ) -> Result<Self> {
        let LogDirectory { fs, options, keys, .. } = directory.clone();
        let spares = SpareMaker::new(&directory, found.survey.highest + 1);
        let spare = match (spares.take(), found.last) {
            // The space after the last batch is not needed.
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
            current: Current {
                file: spare.file,
                bytes: spare.bytes,
                syncs: 0,
                context: header.context(),
                header: header.clone(),
            },
            failed: None,
            pending_links: Vec::new(),
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

    /// Closes the batch with its commit record and appends it, to the next file if this one is full. `durable` is the
    /// highest sequence that a successful sync covered. The batch is durable only after `sync`. An empty batch is not
    /// written.
    pub fn append(&mut self, batch: &mut Batch, durable: Sequence) -> Result<Appended> {
        self.check()?;
        if batch.refused {
            return Err(Error::Record { reason: "a record is larger than a frame may be" });
        }
        let bytes = (batch.len() + COMMIT_FRAME) as u64;
        if self.position.offset > FILE_HEADER && bytes > self.room() {
            self.next_file()?;
        }
        if bytes > self.room() && self.is_short_of_space() {
            self.allocate(self.position.offset + bytes)?;
        }
        self.append_here(batch, durable)
    }

    /// Bytes left in the current file.
    pub fn room(&self) -> u64 {
        self.current.bytes.saturating_sub(self.position.offset)
    }

    fn is_short_of_space(&self) -> bool {
        let free = self.directory.fs.free_bytes(&self.directory.options.dir).unwrap_or(u64::MAX);
        size_at(free, self.directory.options.file_size) < self.directory.options.file_size
    }

    /// Extends the file for a batch that does not fit. If there is no space, the log is unchanged and needs no fail-over.
    fn allocate(&mut self, end: u64) -> Result<()> {
        fill(&*self.current.file, self.current.bytes, end)?;
        self.current.bytes = end;
        Ok(())
    }

    /// `append` without a roll; the file grows if necessary.
    pub(super) fn append_here(&mut self, batch: &mut Batch, durable: Sequence) -> Result<Appended> {
        let start = self.position.offset;
        if batch.is_empty() {
            return Ok(self.appended(start));
        }
        let end = batch.close(&self.directory.keys, &self.current.context, &self.position, durable);
        let written = self.current.file.write_at(start, batch.closed_bytes());
        self.remember_failure(written)?;
        self.position = end;
        Ok(self.appended(start))
    }

    fn appended(&self, start: u64) -> Appended {
        Appended { at: BatchLocation { file: self.position.file, start }, position: self.position.clone() }
    }

    /// Makes every batch appended so far durable.
    pub fn sync(&mut self) -> Result<()> {
        self.check()?;
        let mut synced = self.current.file.sync_data();
        if synced.is_err() && planted::is(Bug::RetryFailedSync) {
            synced = self.current.file.sync_data();
        }
        self.remember_failure(synced)?;
        self.current.syncs += 1;
        self.spares.expect_syncs_of((self.position.offset - FILE_HEADER) / self.current.syncs);
        if let Some(link) = self.pending_links.last() {
            self.directory.truncate(link.end.file, link.end.offset);
            self.files.append(self.pending_links.drain(..));
        }
        Ok(())
    }

    /// Discards everything after `end`, which a successful sync covered, and continues in a new file. The header of the
    /// new file becomes durable with its first sync; until then the old file is in force.
    pub fn fail_over(&mut self, end: &LogPosition) -> Result<()> {
        debug_assert!(end.sequence <= self.position.sequence);
        let continued = self.continue_after(end.clone());
        continued.inspect_err(|error| tracing::error!(%error, "No new log file could be made"))
    }

    /// Makes every batch appended so far durable and continues in a new file, so that the current one is closed. Does
    /// nothing if the current file has no batch.
    pub fn roll(&mut self) -> Result<()> {
        self.check()?;
        if self.position.offset == FILE_HEADER {
            return Ok(());
        }
        self.next_file()?;
        self.sync()
    }

    /// To be called once, after recovery and before any compaction. `compacted` (file, first and last sequence) are the
    /// compacted files in force, according to the records. All other compacted files are removed, and so are the files
    /// that these replace.
    ///
    /// Returns the files in force that are shorter than their batches.
    ///
    /// # Errors
    /// `Missing` when a file in force is missing, `Corrupt` when it does not match the records. Then no file is removed.
    pub fn keep(&mut self, compacted: &[(LogFileId, Sequence, Sequence)]) -> Result<Vec<PathBuf>> {
        let Some(found) = &self.found else {
            let kind = std::io::ErrorKind::InvalidInput;
            return Err(Error::io("keep", &self.directory.options.dir, kind.into()));
        };
        let numbered = |&(file, first, last): &_| (codec::log_file_number(file), first, last);
        let compacted: Vec<_> = compacted.iter().map(numbered).collect();
        let links = found.survey.chain(&self.directory.options.dir, &found.end, &compacted)?;
        found.survey.remove_others(&*self.directory.fs, &self.directory.options.dir, &links)?;
        let cut_short = found.survey.cut_short(&self.directory.options.dir, &links);
        self.files.settle(links);
        self.found = None;
        Ok(cut_short)
    }

    /// Whether a write or sync failed, so that `fail_over` must come next.
    pub fn needs_fail_over(&self) -> bool {
        self.failed.is_some()
    }

    /// The end of the last batch appended.
    pub fn position(&self) -> LogPosition {
        self.position.clone()
    }

    pub fn reader(&self) -> LogReader {
        self.reader.clone()
    }

    pub fn files(&self) -> LogFiles {
        self.files.clone()
    }

    /// Whether a roll is near and its file is neither ready nor being made.
    pub fn wants_spare(&self) -> bool {
        self.position.offset > self.current.bytes / SPARE_AT && !self.spares.is_coming()
    }

    pub fn spare_maker(&self) -> SpareMaker {
        self.spares.clone()
    }

    /// Closes the log and returns the space allocated for later batches. If everything up to the end is `durable`, one
    /// more file names the end in its header, so that no damage can be mistaken for a torn tail. Nothing may be appended
    /// afterwards.
    pub fn close(&mut self, durable: &LogPosition) {
        self.spares.close();
        if self.failed.is_some() {
            return;
        }
        self.directory.truncate(self.position.file, self.position.offset);
        let known = self.position == *durable && !planted::is(Bug::CleanEndNotWritten);
        if self.position.offset > FILE_HEADER && known {
            // If this fails, the next start finds the end as after a crash.
            let number = self.spares.number();
            drop(self.directory.write_end(number, &self.position));
        }
    }

    /// Syncs the current file before the next one, because the header of that one says that the end is durable.
    fn next_file(&mut self) -> Result<()> {
        self.sync()?;
        self.continue_after(self.position.clone())
    }

    fn continue_after(&mut self, end: LogPosition) -> Result<()> {
        let spare = self.spares.take()?;
        let header = self.directory.new_header(spare.number, &end)?;
        // Even if the write fails, the header may be on the disk, where it closes the current file at `end`.
        let written = spare.file.write_at(0, &header.encode(&self.directory.keys));
        self.remember_failure(written)?;
        // Files that begin after `end` are not part of the chain, and the last one that is ends at `end`.
        let current = Header::Plain(self.current.header.clone());
        self.pending_links.push(Link { header: current, end: self.position.clone() });
        self.pending_links.retain(|link| link.header.number() <= end.file);
        if let Some(last) = self.pending_links.last_mut() {
            last.end = end.clone();
        }
        self.position = LogPosition { file: spare.number, offset: FILE_HEADER, ..end };
        self.current = Current { file: spare.file, bytes: spare.bytes, syncs: 0, context: header.context(), header };
        self.failed = None;
        tracing::debug!(file = self.position.file, "The log continues in a new file");
        Ok(())
    }

    fn check(&self) -> Result<()> {
        self.failed.clone().map_or(Ok(()), Err)
    }

    fn remember_failure(&mut self, done: Result<()>) -> Result<()> {
        if let Err(error) = &done {
            self.failed = Some(error.clone());
        }
        done
    }
}
