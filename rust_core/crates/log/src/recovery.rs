//! Opens the log: finds the files in force, replays their batches, and makes the last ones durable again.
//!
//! The valid plain header with the highest number names the end of its predecessor, and so on back to the first file.
//! Anything else is void. Only the last file can have a tail that is not durable. It is never written or trusted again:
//! its batches above the watermark are appended to a new file and synced before the header of that file is written,
//! which names the last durable batch. A power loss in between leaves the old files in force.

use std::collections::VecDeque;
use std::path::Path;
use std::sync::Arc;

use orcas_base::error::{Error, Result};
use orcas_base::planted::{self, Bug};
use orcas_fs::FileSystem;
use orcas_record::placement::codec;
use orcas_record::{LogFileId, Sequence};

use super::chain::{Link, LogDirectory, Survey};
use super::encoding::{Batch, BatchFrame, FILE_HEADER, Header};
use super::scan::{Scanned, Scanner};
use super::writer::{Appended, Log, RecoveredChain};
use super::{LogOptions, LogPosition, RecoveredBatch, file_path};

#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// This log cannot be replayed from `applied`, and the reason is not damage: the index belongs to another log, or
    /// what follows `applied` has been compacted since.
    #[error("the applied position is not in the log")]
    NoMatchingPosition,
    #[error(transparent)]
    Failed(#[from] Error),
}

/// The log, ready to append, after all batches were visited.
pub struct Recovered {
    pub log: Log,
    pub last_sequence: Sequence,
    /// Bytes of the torn tail, which was dropped.
    pub torn_bytes: u64,
    /// Batches that were not known to be durable and were appended to the new file.
    pub reappended_batches: usize,
}

type Visit<'a> = &'a mut dyn FnMut(RecoveredBatch) -> Result<()>;

/// Passes the batches after `applied` (all for `None`) to `visit`, in order, each once it is known to be durable, and
/// continues in a new file. The caller holds the lock of the store. Files that are not in force stay until `Log::keep`;
/// of a compacted run, either the compacted file or the files that it replaces are visited.
///
/// # Errors
/// `Corrupt` for damage to anything that may have been acknowledged, `Missing` and `Foreign` for files, `Version` for
/// another format.
pub fn recover(
    fs: Arc<dyn FileSystem>,
    options: LogOptions,
    applied: Option<&LogPosition>,
    visit: Visit<'_>,
) -> Result<Recovered, RecoverError> {
    let directory = LogDirectory::new(fs, options);
    let survey = Survey::take(&directory)?;
    let files = survey.walk(&directory.options)?;
    let (mut replay, torn_bytes) = replay(&directory, &survey, &files, applied, visit)?;
    survey.remove_void(&*directory.fs, &directory.options.dir)?;
    let mut appended = Vec::new();
    let counting = replay.pending.back().map_or(&replay.durable_end, |last| &last.batch.position);
    let last = files.last().map(|last| {
        let end = if last.number() == counting.file { counting.offset } else { FILE_HEADER };
        (last.number(), end)
    });
    let found =
        RecoveredChain { links: links(files, &replay.durable_end), end: replay.durable_end.clone(), last, survey };
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

/// Passes the batches after `applied` (all for `None`) to `visit`, in order, up to the last one that the files have and
/// that ends at `until` or before, and changes nothing. Returns where that one ends. For the copy of a log that another
/// process writes: only durable batches are copied, so all of them count. The files `given_up` are there and count as
/// gone.
///
/// # Errors
/// As of [`recover`].
pub fn follow(
    fs: Arc<dyn FileSystem>,
    options: LogOptions,
    given_up: &[LogFileId],
    applied: Option<&LogPosition>,
    until: Sequence,
    visit: Visit<'_>,
) -> Result<LogPosition, RecoverError> {
    let directory = LogDirectory::new(fs, options);
    let (mut reached, mut is_cut) = (applied.cloned().unwrap_or(LogPosition::ORIGIN), false);
    let visit: Visit<'_> = &mut |batch: RecoveredBatch| {
        is_cut |= batch.position.sequence > until;
        if is_cut {
            return Ok(());
        }
        reached = batch.position.clone();
        visit(batch)
    };
    let mut survey = Survey::take(&directory)?;
    given_up.iter().for_each(|file| survey.leave_out(codec::log_file_number(*file)));
    let files = survey.walk(&directory.options)?;
    let (Replay { mut durable_end, pending, visit, .. }, _) = replay(&directory, &survey, &files, applied, visit)?;
    for Scanned { batch, .. } in pending {
        durable_end = batch.position.clone();
        visit(batch)?;
    }
    Ok(if is_cut { reached } else { durable_end })
}

/// Visits the batches of `files` after `applied` that are known to be durable; those behind them are pending. Returns the
/// bytes of the torn tail as well.
fn replay<'a>(
    directory: &LogDirectory,
    survey: &Survey,
    files: &[Header],
    applied: Option<&LogPosition>,
    visit: Visit<'a>,
) -> Result<(Replay<'a>, u64), RecoverError> {
    let mut replay = Replay { durable_end: LogPosition::ORIGIN, watermark: 0, pending: VecDeque::new(), visit };
    let mut torn_bytes = 0;
    let mut todo = files;
    let mut from = None;
    if let Some(applied) = applied {
        todo = &files[start_file(files, survey, applied, &directory.options.dir)?..];
        // An index from before a compaction contains things whose deletion the compacted file has dropped, and later
        // records refer to things that it has dropped. Such an index must be rebuilt from the beginning.
        if todo.iter().any(|header| matches!(header, Header::Compacted(_))) {
            return Err(RecoverError::NoMatchingPosition);
        }
        from = todo.first().filter(|header| !begins_at(header, applied)).map(|_| applied);
        replay.watermark = applied.sequence;
    }
    for (index, header) in todo.iter().enumerate() {
        let mut scanner = directory.scanner(header)?;
        // The header of this file is known to be durable only once one of its batches is.
        replay.durable_end = header.from().clone();
        if let Some(applied) = from.take() {
            seek(&mut scanner, applied, index + 1 == todo.len())?;
            replay.durable_end = applied.clone();
        }
        match todo.get(index + 1) {
            Some(next) => replay.closed_file(&mut scanner, header, next.from())?,
            None => torn_bytes = replay.last_file(&mut scanner, header.from().sequence)?,
        }
    }
    Ok((replay, torn_bytes))
}

/// Whether `applied` is the position before the first batch of a file. This is the end of the previous file, even if
/// that is gone; or the start of a file with the same predecessor, which may be empty or compacted by now.
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
        let closed = files.get(index + 1).map(|next| Link { header: files[index].clone(), end: next.from().clone() });
        return match closed {
            Some(link) if applied.offset > link.bytes() => Err(RecoverError::NoMatchingPosition),
            _ => Ok(index),
        };
    }
    if !survey.knows(applied.file) && files.last().is_none_or(|last| last.number() < applied.file) {
        return Err(Error::Missing { path: file_path(dir, applied.file) }.into());
    }
    Err(RecoverError::NoMatchingPosition)
}

/// The chain that ends at `end`. The last file is part of it only if the end is in that file.
fn links(files: Vec<Header>, end: &LogPosition) -> Vec<Link> {
    let mut ends: Vec<LogPosition> = files.iter().skip(1).map(|header| header.from().clone()).collect();
    if files.last().is_some_and(|last| last.number() == end.file) {
        ends.push(end.clone());
    }
    files.into_iter().zip(ends).map(|(header, end)| Link { header, end }).collect()
}

/// Moves the scanner past the applied batches of its file.
fn seek(scanner: &mut Scanner, applied: &LogPosition, last: bool) -> Result<(), RecoverError> {
    // Applied batches are not read again. Damage to them is found when the damaged content is read.
    if scanner.seek(applied)? {
        return Ok(());
    }
    if !last {
        return Err(RecoverError::NoMatchingPosition);
    }
    // Applied batches were durable. If the chain of the last file breaks before their end, they are damaged. If it
    // continues past their end, the position is not one of this log.
    while scanner.position().offset < applied.offset {
        if scanner.next()?.is_none() {
            return Err(scanner.corrupt("batches that had been applied are gone").into());
        }
    }
    if scanner.position() == applied { Ok(()) } else { Err(RecoverError::NoMatchingPosition) }
}

/// Visits batches once they are known to be durable.
struct Replay<'a> {
    /// End of the last batch that is known to be durable.
    durable_end: LogPosition,
    /// Highest sequence known to be durable.
    watermark: Sequence,
    pending: VecDeque<Scanned>,
    visit: Visit<'a>,
}

impl Replay<'_> {
    /// Replays a file with a successor. Every batch up to `end` was durable before the successor existed.
    fn closed_file(&mut self, scanner: &mut Scanner, header: &Header, end: &LogPosition) -> Result<()> {
        Link { header: header.clone(), end: end.clone() }.replay(scanner, self.visit)?;
        self.watermark = self.watermark.max(end.sequence);
        Ok(())
    }

    /// Replays the last file. Batches that may not be durable stay pending. Returns the bytes of the torn tail.
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
        let claims = scanner.claims_after_end()?;
        if claims.durable.max(self.watermark) > end.sequence && !planted::is(Bug::DamageTakenForATornEnd) {
            return Err(scanner.corrupt("the chain breaks before batches that were durable"));
        }
        Ok(claims.written_end - end.offset)
    }
}

fn append_again(log: &mut Log, scanned: Scanned, durable: Sequence) -> Result<RecoveredBatch> {
    let RecoveredBatch { mut records, .. } = scanned.batch;
    let mut batch = Batch::new();
    let frames: Vec<BatchFrame> =
        records.iter().map(|record| batch.push(record.sequence, record.kind, &[&record.payload])).collect();
    let Appended { at, position } = log.append_here(&mut batch, durable)?;
    for (record, frame) in records.iter_mut().zip(frames) {
        record.at = at.record(frame);
    }
    Ok(RecoveredBatch { position, records })
}
