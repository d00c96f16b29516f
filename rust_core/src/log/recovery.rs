//! Opens the log: which files are in force, what in them counts, what must be made durable again.
//!
//! The valid header with the highest number names the end of its predecessor, and so on back to the first file; what
//! is not named is void. Only the last file can have an undurable tail, and it is never written or trusted again: its
//! batches above the durable watermark are appended anew and synced before the new file's header is written, and the
//! new file names the last durable batch. A cut anywhere in between leaves the old files in force.

use std::collections::{BTreeMap, VecDeque};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use crate::error::{Error, Result};
use crate::fs::{File, FileSystem, Open};
use crate::record::Sequence;

use super::format::{FILE_HEADER, FILE_HEADER_ENCODED, FileHeader, LogKeys};
use super::scan::{Scanned, Scanner};
use super::writer::{Appended, Batch, Log, give_back};
use super::{LogOptions, LogPosition, RecoveredBatch, file_number, file_path};

#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// `applied` is no place in this log and no damage explains it: whatever it was applied to is not this log's.
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
/// to be durable, and continues in a new file. The store's lock must be held.
///
/// Errors: `Corrupt` for damage to anything that may have been acknowledged, `Missing` and `Foreign` for files,
/// `Version` for a newer format.
pub fn recover(
    fs: Arc<dyn FileSystem>,
    options: LogOptions,
    applied: Option<&LogPosition>,
    visit: Visit<'_>,
) -> Result<Recovered, RecoverError> {
    let options = Arc::new(options);
    let keys = LogKeys::derive(&options.commit_key);
    let survey = Survey::take(&*fs, &options, &keys)?;
    let files = survey.files_in_force(&options.dir)?;
    if files.is_empty() && options.established {
        return Err(survey.lost(&options.dir).into());
    }
    let next_number = survey.highest + 1;

    let mut replay = Replay { durable_end: LogPosition::ORIGIN, watermark: 0, pending: VecDeque::new(), visit };
    let mut torn_bytes = 0;
    let mut todo = &files[..];
    let mut from = None;
    if let Some(applied) = applied {
        todo = &files[start_file(&files, applied, &options.dir)?..];
        from = todo.first().filter(|header| !begins_at(header, applied)).map(|_| applied);
        replay.watermark = applied.sequence;
    }
    for (index, header) in todo.iter().enumerate() {
        let mut scanner = open_scanner(&*fs, &options, &keys, header)?;
        // This file's own header is not known to be durable before one of its batches is.
        replay.durable_end = header.predecessor.clone();
        if let Some(applied) = from.take() {
            seek(&mut scanner, applied, index + 1 == todo.len())?;
            replay.durable_end = applied.clone();
        }
        match todo.get(index + 1) {
            Some(next) => replay.sealed_file(&mut scanner, &next.predecessor)?,
            None => torn_bytes = replay.last_file(&mut scanner, header.predecessor.sequence)?,
        }
    }

    survey.remove_void(&*fs, &options.dir)?;
    let mut appended = Vec::new();
    let (end, pending, watermark) = (replay.durable_end.clone(), &mut replay.pending, replay.watermark);
    let log = Log::start(Arc::clone(&fs), Arc::clone(&options), keys, next_number, &end, &mut |log| {
        for scanned in pending.drain(..) {
            appended.push(append_again(log, scanned, watermark)?);
        }
        Ok(())
    })?;
    survey.remove_unnamed(&*fs, &options.dir, &files, end.file)?;
    survey.give_back(&*fs, &options.dir, &files, &end);
    let reappended_batches = appended.len();
    for batch in appended {
        (replay.visit)(batch)?;
    }
    let last_sequence = log.position().sequence;
    Ok(Recovered { log, last_sequence, torn_bytes, reappended_batches })
}

/// What the log's directory holds.
struct Survey {
    valid: BTreeMap<u64, FileHeader>,
    /// Never in force: no header was ever written.
    void: Vec<u64>,
    /// The highest number that any file has.
    highest: u64,
    /// Bytes of every file.
    lengths: BTreeMap<u64, u64>,
}

impl Survey {
    fn take(fs: &dyn FileSystem, options: &LogOptions, keys: &LogKeys) -> Result<Self> {
        let mut survey = Self { valid: BTreeMap::new(), void: Vec::new(), highest: 0, lengths: BTreeMap::new() };
        for number in fs.list(&options.dir)?.iter().filter_map(|name| file_number(name)) {
            let path = file_path(&options.dir, number);
            let file = fs.open(&path, Open::Read)?;
            survey.highest = number;
            survey.lengths.insert(number, file.len()?);
            match read_header(&*file, &path, options, keys, number)? {
                Some(header) => drop(survey.valid.insert(number, header)),
                None => survey.void.push(number),
            }
        }
        Ok(survey)
    }

    /// From the first file to the last, each the predecessor of the next.
    fn files_in_force(&self, dir: &Path) -> Result<Vec<FileHeader>> {
        let mut files: Vec<FileHeader> = self.valid.values().next_back().cloned().into_iter().collect();
        while let Some(predecessor) = files.last().map(|header| &header.predecessor).filter(|end| end.file > 0) {
            let number = predecessor.file;
            let path = || file_path(dir, number);
            if self.void.contains(&number) {
                return Err(Error::corrupt(&path(), 0, "the file header is gone although a successor exists"));
            }
            let found = self.valid.get(&number).ok_or_else(|| Error::Missing { path: path() })?;
            if files.last().is_some_and(|header| header.number <= number) {
                return Err(Error::corrupt(&path(), 0, "the file claims an older successor"));
            }
            files.push(found.clone());
        }
        files.reverse();
        Ok(files)
    }

    /// What to say of a log without any file in force.
    fn lost(&self, dir: &Path) -> Error {
        match self.void.first() {
            Some(number) => Error::corrupt(&file_path(dir, *number), 0, "no file of the log has a header"),
            None => Error::Missing { path: file_path(dir, 1) },
        }
    }

    fn remove_void(&self, fs: &dyn FileSystem, dir: &Path) -> Result<()> {
        remove(fs, dir, self.void.iter().copied())
    }

    /// Once the new file is in force: files that no header names, directly or through others.
    fn remove_unnamed(&self, fs: &dyn FileSystem, dir: &Path, files: &[FileHeader], last: u64) -> Result<()> {
        let named = |number: u64| number <= last && files.iter().any(|header| header.number == number);
        remove(fs, dir, self.valid.keys().copied().filter(|number| !named(*number)))
    }

    /// Once the new file is in force: what stands behind the named ends of all files before it, the last of which
    /// ends at `last`.
    fn give_back(&self, fs: &dyn FileSystem, dir: &Path, files: &[FileHeader], last: &LogPosition) {
        let ends = files.iter().map(|header| &header.predecessor).filter(|end| end.file < last.file);
        for end in ends.chain([last]) {
            if self.lengths.get(&end.file).is_some_and(|length| *length > end.offset) {
                give_back(fs, dir, end.file, end.offset);
            }
        }
    }
}

fn remove(fs: &dyn FileSystem, dir: &Path, numbers: impl Iterator<Item = u64>) -> Result<()> {
    let mut removed = false;
    for number in numbers {
        fs.remove(&file_path(dir, number))?;
        removed = true;
    }
    if removed { fs.sync_dir(dir) } else { Ok(()) }
}

/// `None` when no header was ever written: the file is short, or zero where its header would be.
fn read_header(
    file: &dyn File,
    path: &Path,
    options: &LogOptions,
    keys: &LogKeys,
    number: u64,
) -> Result<Option<FileHeader>> {
    if file.len()? < FILE_HEADER {
        return Ok(None);
    }
    let mut page = vec![0; FILE_HEADER as usize];
    file.read_at(0, &mut page)?;
    if page.iter().all(|byte| *byte == 0) {
        return Ok(None);
    }
    let mut encoded = [0; FILE_HEADER_ENCODED];
    encoded.copy_from_slice(&page[..FILE_HEADER_ENCODED]);
    FileHeader::decode(&encoded, keys, &options.store_id, number).map(Some).map_err(|fault| fault.into_error(path))
}

fn open_scanner(fs: &dyn FileSystem, options: &LogOptions, keys: &LogKeys, header: &FileHeader) -> Result<Scanner> {
    let path: PathBuf = file_path(&options.dir, header.number);
    Scanner::new(fs.open(&path, Open::Read)?, path, keys.clone(), header)
}

/// Whether `applied` is the place before the first batch of a file, under its own number or that of an empty file
/// that was given up.
fn begins_at(header: &FileHeader, applied: &LogPosition) -> bool {
    let end = &header.predecessor;
    applied.offset == FILE_HEADER && applied.chain == end.chain && applied.sequence == end.sequence
}

/// The file in which the replay begins.
fn start_file(files: &[FileHeader], applied: &LogPosition, dir: &Path) -> Result<usize, RecoverError> {
    if let Some(index) = files.iter().position(|header| begins_at(header, applied)) {
        return Ok(index);
    }
    if let Some(index) = files.iter().position(|header| header.number == applied.file) {
        let sealed = files.get(index + 1).map(|next| next.predecessor.offset);
        return match sealed {
            Some(end) if applied.offset > end => Err(RecoverError::NoMatchingPosition),
            _ => Ok(index),
        };
    }
    if files.last().is_none_or(|last| last.number < applied.file) {
        return Err(Error::Missing { path: file_path(dir, applied.file) }.into());
    }
    Err(RecoverError::NoMatchingPosition)
}

/// Brings the scanner behind the applied batches of its file.
fn seek(scanner: &mut Scanner, applied: &LogPosition, last: bool) -> Result<(), RecoverError> {
    if !last {
        return if scanner.seek(applied)? { Ok(()) } else { Err(RecoverError::NoMatchingPosition) };
    }
    // Applied batches were durable: if the chain of the last file breaks before their end, it lost them.
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
    fn sealed_file(&mut self, scanner: &mut Scanner, end: &LogPosition) -> Result<()> {
        while scanner.position().offset < end.offset {
            let Some(scanned) = scanner.next()? else {
                return Err(scanner.corrupt("the chain breaks in a file that has a successor"));
            };
            if scanned.batch.position.offset <= end.offset {
                (self.visit)(scanned.batch)?;
            }
        }
        if scanner.position() != end {
            return Err(scanner.corrupt("the file does not end where its successor says"));
        }
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
        if claims.durable.max(self.watermark) > end.sequence {
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
