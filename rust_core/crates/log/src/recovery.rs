//! Opens the log: which files are in force, what in them counts, what must be made durable again.
//!
//! The valid plain header with the highest number names the end of its predecessor, and so on back to the first file;
//! what is not named counts for nothing. Only the last file can have an undurable tail, and it is never written or
//! trusted again: its batches above the durable watermark are appended anew and synced before the new file's header is
//! written, and the new file names the last durable batch. A cut anywhere in between leaves the old files in force.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use orcas_base::error::{Error, Result};
use orcas_base::planted::{self, Bug};
use orcas_fs::FileSystem;
use orcas_record::Sequence;

use super::batch::Batch;
use super::directory::LogDirectory;
use super::format::FILE_HEADER;
use super::header::Header;
use super::link::Link;
use super::scan::{Scanned, Scanner};
use super::survey::Survey;
use super::writer::{Appended, Found, Log};
use super::{LogOptions, LogPosition, RecoveredBatch, file_path};

#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// `applied` is no place in this log from which it can be replayed, and no damage explains it: whatever it was
    /// applied to is not this log's, or was compacted since.
    #[error("the applied position is not in the log")]
    NoMatchingPosition,
    #[error(transparent)]
    Failed(#[from] Error),
}

/// The log, ready to append, after every batch was visited.
pub struct Recovered {
    pub log: Log,
    pub last_sequence: Sequence,
    /// Bytes behind the last batch that had been written but do not count.
    pub torn_bytes: u64,
    /// Batches that were not known to be durable and now are, in the new file.
    pub reappended_batches: usize,
}

type Visit<'a> = &'a mut dyn FnMut(RecoveredBatch) -> Result<()>;

/// Replays what stands behind `applied` (everything for `None`) in order through `visit`, each batch after it is known
/// to be durable, and continues in a new file. The store's lock must be held. Files that are not in force stay until
/// `Log::keep`; of a run that was compacted, the file may be visited or the ones it stands for.
///
/// Errors: `Corrupt` for damage to anything that may have been acknowledged, `Missing` and `Foreign` for files,
/// `Version` for a newer format.
pub fn recover(
    fs: Arc<dyn FileSystem>,
    options: LogOptions,
    applied: Option<&LogPosition>,
    visit: Visit<'_>,
) -> Result<Recovered, RecoverError> {
    let directory = LogDirectory::new(fs, options);
    let dir = &directory.options.dir;
    let survey = Survey::take(&directory)?;
    let files = survey.walk(&directory.options)?;

    let mut replay = Replay { durable_end: LogPosition::ORIGIN, watermark: 0, pending: VecDeque::new(), visit };
    let mut torn_bytes = 0;
    let mut todo = &files[..];
    let mut from = None;
    if let Some(applied) = applied {
        todo = &files[start_file(&files, &survey, applied, dir)?..];
        // What was applied before a compaction knows things whose end the compacted file has dropped, and later records
        // speak of things that it has dropped: only a replay from the beginning makes sense of it.
        if todo.iter().any(|header| matches!(header, Header::Compacted(_))) {
            return Err(RecoverError::NoMatchingPosition);
        }
        from = todo.first().filter(|header| !begins_at(header, applied)).map(|_| applied);
        replay.watermark = applied.sequence;
    }
    for (index, header) in todo.iter().enumerate() {
        let mut scanner = directory.scanner(header)?;
        // This file's own header is not known to be durable before one of its batches is.
        replay.durable_end = header.from().clone();
        if let Some(applied) = from.take() {
            seek(&mut scanner, applied, index + 1 == todo.len())?;
            replay.durable_end = applied.clone();
        }
        match todo.get(index + 1) {
            Some(next) => replay.sealed_file(&mut scanner, header, next.from())?,
            None => torn_bytes = replay.last_file(&mut scanner, header.from().sequence)?,
        }
    }

    survey.remove_void(&*directory.fs, dir)?;
    let mut appended = Vec::new();
    let counting = replay.pending.back().map_or(&replay.durable_end, |last| &last.batch.position);
    let last = files.last().map(|last| {
        let end = if last.number() == counting.file { counting.offset } else { FILE_HEADER };
        (last.number(), end)
    });
    let found = Found { links: links(files, &replay.durable_end), end: replay.durable_end.clone(), last, survey };
    let (pending, watermark) = (&mut replay.pending, replay.watermark);
    let log = Log::start(directory, found, &mut |log| {
        for scanned in pending.drain(..) {
            appended.push(append_again(log, scanned, watermark)?);
        }
        Ok(())
    })?;
    let reappended_batches = appended.len();
    for batch in appended {
        (replay.visit)(batch)?;
    }
    let last_sequence = log.position().sequence;
    Ok(Recovered { log, last_sequence, torn_bytes, reappended_batches })
}

/// Whether `applied` is the place before the first batch of a file: where the one before ends, whether or not that is
/// still there, or the beginning of the file under its own number or that of one that held nothing or is compacted.
fn begins_at(header: &Header, applied: &LogPosition) -> bool {
    let end = header.from();
    applied == end || applied.offset == FILE_HEADER && applied.chain == end.chain && applied.sequence == end.sequence
}

/// The file in which the replay begins.
fn start_file(files: &[Header], survey: &Survey, applied: &LogPosition, dir: &Path) -> Result<usize, RecoverError> {
    if let Some(index) = files.iter().position(|header| begins_at(header, applied)) {
        return Ok(index);
    }
    if let Some(index) = files.iter().position(|header| header.number() == applied.file) {
        let sealed = files.get(index + 1).map(|next| Link { header: files[index].clone(), end: next.from().clone() });
        return match sealed {
            Some(link) if applied.offset > link.bytes() => Err(RecoverError::NoMatchingPosition),
            _ => Ok(index),
        };
    }
    if !survey.knows(applied.file) && files.last().is_none_or(|last| last.number() < applied.file) {
        return Err(Error::Missing { path: file_path(dir, applied.file) }.into());
    }
    Err(RecoverError::NoMatchingPosition)
}

/// The chain that ends at `end`. The last of the files is not part of it unless the end is in it.
fn links(files: Vec<Header>, end: &LogPosition) -> Vec<Link> {
    let mut ends: Vec<LogPosition> = files.iter().skip(1).map(|header| header.from().clone()).collect();
    if files.last().is_some_and(|last| last.number() == end.file) {
        ends.push(end.clone());
    }
    files.into_iter().zip(ends).map(|(header, end)| Link { header, end }).collect()
}

/// Brings the scanner behind the applied batches of its file.
fn seek(scanner: &mut Scanner, applied: &LogPosition, last: bool) -> Result<(), RecoverError> {
    // What was applied is not read again: damage to it costs what it hit, and whoever reads that finds it.
    if scanner.seek(applied)? {
        return Ok(());
    }
    if !last {
        return Err(RecoverError::NoMatchingPosition);
    }
    // Applied batches were durable: if the chain of the last file breaks before their end, it lost them. If it goes past
    // it, the position is not one of this log.
    while scanner.position().offset < applied.offset {
        if scanner.next()?.is_none() {
            return Err(scanner.corrupt("batches that had been applied are gone").into());
        }
    }
    if scanner.position() == applied { Ok(()) } else { Err(RecoverError::NoMatchingPosition) }
}

/// Passes batches on once they are known to be durable.
struct Replay<'a> {
    /// Behind the last batch that is known to be durable.
    durable_end: LogPosition,
    /// Highest sequence known to be durable.
    watermark: Sequence,
    pending: VecDeque<Scanned>,
    visit: Visit<'a>,
}

impl Replay<'_> {
    /// A file with a successor: every batch up to `end` was durable before the successor existed.
    fn sealed_file(&mut self, scanner: &mut Scanner, header: &Header, end: &LogPosition) -> Result<()> {
        Link { header: header.clone(), end: end.clone() }.replay(scanner, self.visit)?;
        self.watermark = self.watermark.max(end.sequence);
        Ok(())
    }

    /// The last file: what may be undurable stays pending. Returns the bytes behind the end that do not count.
    fn last_file(&mut self, scanner: &mut Scanner, durable: Sequence) -> Result<u64> {
        self.watermark = self.watermark.max(durable);
        while let Some(scanned) = scanner.next()? {
            self.watermark = self.watermark.max(scanned.durable);
            self.pending.push_back(scanned);
            while self.pending.front().is_some_and(|first| first.batch.position.sequence <= self.watermark) {
                let Some(Scanned { batch, .. }) = self.pending.pop_front() else { break };
                self.durable_end = batch.position.clone();
                (self.visit)(batch)?;
            }
        }
        let end = scanner.position().clone();
        let claims = scanner.claims_behind()?;
        if claims.durable.max(self.watermark) > end.sequence && !planted::is(Bug::DamageTakenForATornEnd) {
            return Err(scanner.corrupt("the chain breaks before batches that were durable"));
        }
        Ok(claims.written_end - end.offset)
    }
}

fn append_again(log: &mut Log, scanned: Scanned, durable: Sequence) -> Result<RecoveredBatch> {
    let RecoveredBatch { mut records, .. } = scanned.batch;
    let mut batch = Batch::new();
    let offsets: Vec<u32> =
        records.iter().map(|record| batch.push(record.sequence, record.kind, &[&record.payload])).collect();
    let Appended { file, start, position } = log.append_here(&mut batch, durable)?;
    for (record, offset) in records.iter_mut().zip(offsets) {
        (record.file, record.frame_offset) = (file, start + u64::from(offset));
    }
    Ok(RecoveredBatch { position, records })
}
