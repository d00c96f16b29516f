//! Writes a compacted file: the records of a run of closed files that still count, under the same sequences.
//!
//! The header is written last, after a sync of everything else, so a valid header implies a complete file. Nothing
//! depends on the file until a record names it, and without such a record the next start removes it.

use std::sync::Arc;

use orcas_base::error::{Error, Result};
use orcas_base::planted::{self, Bug};
use orcas_fs::{File, Open};
use orcas_record::placement::codec;
use orcas_record::{LogFileId, LogLocation, Sequence};

use super::LogPosition;
use super::chain::{CompactedLog, FileRun, LogDirectory, LogFiles};
use super::encoding::{Batch, COMMIT_FRAME, CompactedHeader, FILE_HEADER, FRAME_PAYLOAD_MAX, FileContext};
use super::writer::BatchLocation;

/// Bytes of records after which a batch is closed.
const BATCH_BYTES: usize = 1024 * 1024;

/// A compacted file that is being written. The file is removed if this is dropped before `finish`.
pub struct LogCompaction {
    files: LogFiles,
    run: FileRun,
    file: Arc<dyn File>,
    salt: [u8; 16],
    context: FileContext,
    batch: Batch,
    /// The end of the last batch written.
    position: LogPosition,
    /// Sequence of the last record pushed.
    last: Sequence,
    progress: Progress,
    /// Syncs of the directory that had failed before the file was created.
    failed_syncs: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Progress {
    /// A write failed, so the content of the file is unknown.
    Failed,
    Body,
    /// The header may be on the disk.
    Header,
    Finished,
}

impl LogFiles {
    /// Begins to replace a run of adjacent closed files, in their order.
    ///
    /// # Errors
    /// `Io` with `ResourceBusy` while another compaction uses one of the files; with `InvalidInput` when the files are
    /// not a run, cover no records, or `Log::keep` was not called yet.
    pub fn compact(&self, files: &[LogFileId]) -> Result<LogCompaction> {
        let files: Vec<u64> = files.iter().copied().map(codec::log_file_number).collect();
        self.remove_abandoned(&files)?;
        let number = self.next_number();
        let run = self.claim(number, &files)?;
        LogCompaction::begin(self.clone(), run)
    }
}

impl LogCompaction {
    fn begin(files: LogFiles, run: FileRun) -> Result<Self> {
        let LogDirectory { fs, options, syncs, .. } = files.directory();
        let failed_syncs = syncs.failed();
        let mut salt = [0; 16];
        let filled = options.random.fill(&mut salt);
        let created = filled.and_then(|()| fs.open(&files.directory().path(run.number), Open::Create));
        let file = created.inspect_err(|_| files.released(run.number))?;
        let context = FileContext::new(&options.store_id, run.number, &salt);
        let position = LogPosition { file: run.number, offset: FILE_HEADER, ..run.from.clone() };
        let last = run.from.sequence;
        let (batch, progress) = (Batch::new(), Progress::Body);
        let compaction = Self { files, run, file, salt, context, batch, position, last, progress, failed_syncs };
        // A file without records must still be long enough for a header.
        compaction.file.write_at(0, &[0; FILE_HEADER as usize])?;
        Ok(compaction)
    }

    pub fn file(&self) -> LogFileId {
        codec::log_file(self.run.number)
    }

    /// Adds a record as `Batch::push` does. Sequences ascend and are among those that the replaced files cover. Returns
    /// where it is in the new file.
    ///
    /// # Errors
    /// `Record` when the sequence is wrong or the record is too large. After any error the compaction is void.
    pub fn push(&mut self, sequence: Sequence, kind: u8, parts: &[&[u8]]) -> Result<LogLocation> {
        self.check()?;
        if sequence <= self.last || sequence > self.run.end.sequence {
            self.progress = Progress::Failed;
            return Err(Error::Record { reason: "a record is not among those that the compacted file covers" });
        }
        if parts.iter().map(|part| part.len()).sum::<usize>() > FRAME_PAYLOAD_MAX {
            self.progress = Progress::Failed;
            return Err(Error::Record { reason: "a record is larger than a frame may be" });
        }
        if self.batch.len() >= BATCH_BYTES {
            self.write()?;
        }
        self.last = sequence;
        let batch = BatchLocation { file: self.run.number, start: self.position.offset };
        Ok(batch.record(self.batch.push(sequence, kind, parts)))
    }

    /// Bytes of the file so far.
    pub fn bytes(&self) -> u64 {
        self.position.offset + if self.batch.is_empty() { 0 } else { (self.batch.len() + COMMIT_FRAME) as u64 }
    }

    /// Completes the file and makes it durable.
    pub fn finish(mut self) -> Result<CompactedLog> {
        self.check()?;
        self.write()?;
        self.progress = Progress::Failed;
        if !planted::is(Bug::CompactedLogWithoutSync) {
            self.file.sync_data()?;
        }
        let LogDirectory { fs, options, keys, syncs } = self.files.directory();
        let header = CompactedHeader {
            store_id: options.store_id,
            number: self.run.number,
            salt: self.salt,
            from: self.run.from.clone(),
            end: self.run.end.clone(),
            own_end: self.position.offset,
            own_chain: self.position.chain,
        };
        self.progress = Progress::Header;
        self.file.write_at(0, &header.encode(keys))?;
        if !planted::is(Bug::CompactedLogWithoutSync) {
            self.file.sync_data()?;
        }
        if !planted::is(Bug::CompactedLogWithoutDirectorySync) {
            syncs.sync(&**fs, options, self.failed_syncs)?;
        }
        self.files.finished(header);
        self.progress = Progress::Finished;
        Ok(CompactedLog {
            file: codec::log_file(self.run.number),
            first: self.run.from.sequence.saturating_add(1),
            last: self.run.end.sequence,
            bytes: self.position.offset,
            replaced: self.run.files.iter().copied().map(codec::log_file).collect(),
        })
    }

    /// Writes the batch and begins the next one.
    fn write(&mut self) -> Result<()> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let start = self.position.offset;
        let end = self.batch.close(&self.files.directory().keys, &self.context, &self.position, self.run.from.sequence);
        let bytes = self.batch.closed_bytes();
        if let Err(error) = self.file.write_at(start, bytes) {
            self.progress = Progress::Failed;
            return Err(error);
        }
        self.file.start_writeback(start, bytes.len() as u64);
        self.position = end;
        self.batch.clear();
        Ok(())
    }

    fn check(&self) -> Result<()> {
        match self.progress {
            Progress::Body => Ok(()),
            _ => Err(Error::Record { reason: "the compaction has failed" }),
        }
    }
}

impl Drop for LogCompaction {
    fn drop(&mut self) {
        if self.progress != Progress::Finished {
            self.files.abandoned(self.run.number, self.progress == Progress::Header);
        }
    }
}
