//! Batches and the one writer of the log.
//!
//! Duties of the caller: one thread appends and syncs; `durable` never claims more than successful syncs covered; a
//! batch is acknowledged only after the `sync` that follows its `append`; after any error that leaves
//! `needs_fail_over` true, every batch after the last synced one failed and `fail_over` comes next.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orcas_base::block::{BLOCK_SIZE, block_crc, field};
use orcas_base::error::{Error, Result};
use orcas_base::planted::{self, Bug};
use orcas_fs::{File, FileSystem, Open};
use orcas_record::Sequence;

use super::files::{Link, LogFiles, Place};
use super::format::{
    COMMIT_FRAME, Commit, FILE_HEADER, FRAME_ALIGN, FRAME_HEADER, FRAME_PAYLOAD_MAX, FileSeal, FrameClass, FrameHeader,
    LogKeys, payload_start,
};
use super::header::{FileHeader, Header};
use super::reader::LogReader;
use super::spare::{SpareMaker, fill, size_at};
use super::survey::Survey;
use super::{LogOptions, LogPosition, file_path};

/// Bytes of one batch: keeps frame offsets within 32 bits.
const BATCH_MAX: usize = 1024 * 1024 * 1024;

/// The records that one commit makes durable together, as bytes ready to be written.
#[derive(Default)]
pub struct Batch {
    bytes: Vec<u8>,
    /// End of the record frames; a commit record of an earlier `append` may stand behind it.
    frames_end: usize,
    records: usize,
    last_sequence: Sequence,
    /// The salt that the block checksums in `bytes` are mixed with at present.
    salt: u32,
    /// A record was too large: the batch is refused as a whole, never written in part.
    refused: bool,
}

impl Batch {
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a record whose payload is `parts` joined, at most `FRAME_PAYLOAD_MAX` bytes. Sequences rise. Returns the
    /// offset of the frame from the start of the batch.
    pub fn push(&mut self, sequence: Sequence, kind: u8, parts: &[&[u8]]) -> u32 {
        debug_assert!(sequence > self.last_sequence);
        self.bytes.truncate(self.frames_end);
        let offset = self.frames_end;
        let length: usize = parts.iter().map(|part| part.len()).sum();
        if length > FRAME_PAYLOAD_MAX || offset + length > BATCH_MAX {
            self.refused = true;
            return offset as u32;
        }
        let header = FrameHeader { kind, class: FrameClass::Record, length: length as u32, sequence };
        let start = offset + payload_start(length);
        self.bytes.reserve(header.frame_length() + COMMIT_FRAME);
        self.bytes.extend_from_slice(&header.encode());
        self.bytes.resize(start, 0);
        parts.iter().for_each(|part| self.bytes.extend_from_slice(part));
        let (front, payload) = self.bytes.split_at_mut(start);
        for (block, stored) in payload.chunks(BLOCK_SIZE).zip(front[offset + FRAME_HEADER..].chunks_exact_mut(4)) {
            stored.copy_from_slice(&(block_crc(block) ^ self.salt).to_le_bytes());
        }
        self.bytes.resize(self.bytes.len().next_multiple_of(FRAME_ALIGN), 0);
        self.frames_end = self.bytes.len();
        self.records += 1;
        self.last_sequence = sequence;
        offset as u32
    }

    /// Bytes of the records, framed.
    pub fn len(&self) -> usize {
        self.frames_end
    }

    pub fn is_empty(&self) -> bool {
        self.records == 0
    }

    pub fn records(&self) -> usize {
        self.records
    }

    /// Empties the batch and keeps its memory.
    pub fn clear(&mut self) {
        let mut bytes = std::mem::take(&mut self.bytes);
        bytes.clear();
        *self = Self { bytes, ..Self::default() };
    }

    /// Binds every frame to its place in the file and closes the batch with its commit record.
    pub(super) fn seal(&mut self, keys: &LogKeys, seal: &FileSeal, from: &LogPosition, durable: Sequence) -> Commit {
        self.bytes.truncate(self.frames_end);
        let salt_change = self.salt ^ seal.crc_salt();
        self.salt = seal.crc_salt();
        let mut at = 0;
        while at < self.frames_end {
            let mut header: [u8; FRAME_HEADER] = field(&self.bytes, at);
            let length = u32::from_le_bytes(field(&header, 8)) as usize;
            let crc = seal.header_crc(&header, from.offset + at as u64);
            header[..4].copy_from_slice(&crc.to_le_bytes());
            self.bytes[at..at + FRAME_HEADER].copy_from_slice(&header);
            let payload = at + payload_start(length);
            for stored in self.bytes[at + FRAME_HEADER..payload].chunks_exact_mut(4) {
                let salted = u32::from_le_bytes(field(stored, 0)) ^ salt_change;
                stored.copy_from_slice(&salted.to_le_bytes());
            }
            at = (payload + length).next_multiple_of(FRAME_ALIGN);
        }
        let mut commit = Commit {
            start: from.offset,
            durable,
            records: self.records as u32,
            chain: [0; 32],
            sequence: self.last_sequence.max(from.sequence),
        };
        let mut chain = keys.chain_after(&from.chain);
        chain.update(&self.bytes).update(&commit.chained());
        commit.chain = chain.finalize().into();
        self.bytes.extend_from_slice(&commit.encode(keys, seal, from.offset + self.frames_end as u64));
        commit
    }

    /// What `seal` made ready to be written.
    pub(super) fn sealed_bytes(&self) -> &[u8] {
        &self.bytes
    }
}

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
    options: Arc<LogOptions>,
    keys: LogKeys,
    current: Current,
    position: LogPosition,
    /// Set by a failed write or sync: this file is never written or synced again.
    failed: Option<Error>,
    /// The end of the chain that the present file's header names, until that header is durable.
    left: Vec<Link>,
    fs: Arc<dyn FileSystem>,
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
    pub(super) fn start(place: Place, found: Found, first: &mut dyn FnMut(&mut Self) -> Result<()>) -> Result<Self> {
        let Place { fs, options, keys } = place.clone();
        let spares = SpareMaker::new(Arc::clone(&fs), Arc::clone(&options), found.survey.highest + 1);
        let spare = match (spares.take(), found.last) {
            // What is allocated behind its batches is nothing that a restart would miss.
            (Err(Error::StorageFull), Some((file, end))) => {
                give_back(&*fs, &options.dir, file, end);
                spares.take()?
            }
            (taken, _) => taken?,
        };
        let header = new_header(&options, spare.number, &found.end)?;
        let reader = LogReader::new(Arc::clone(&fs), Arc::clone(&options), keys.clone());
        let mut log = Self {
            files: LogFiles::new(place, spares.clone(), reader.clone(), found.links.clone()),
            reader,
            fs,
            position: LogPosition { file: spare.number, offset: FILE_HEADER, ..found.end.clone() },
            current: Current { file: spare.file, bytes: spare.bytes, seal: header.seal(), header: header.clone() },
            failed: None,
            left: Vec::new(),
            options,
            keys,
            spares,
            found: Some(found),
        };
        first(&mut log)?;
        if log.position.offset > FILE_HEADER {
            log.current.file.sync_data()?;
        }
        log.current.file.write_at(0, &header.encode(&log.keys))?;
        log.current.file.sync_data()?;
        if let Some(found) = &log.found {
            found.survey.give_back(&*log.fs, &log.options.dir, &found.links);
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
        let free = self.fs.free_bytes(&self.options.dir).unwrap_or(u64::MAX);
        size_at(free, self.options.file_size) < self.options.file_size
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
        let commit = batch.seal(&self.keys, &self.current.seal, &self.position, durable);
        let written = self.current.file.write_at(start, &batch.bytes);
        self.note(written)?;
        self.position = LogPosition {
            file: self.current.seal.number,
            offset: start + batch.bytes.len() as u64,
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
            give_back(&*self.fs, &self.options.dir, link.end.file, link.end.offset);
            self.files.append(self.left.drain(..));
        }
        Ok(())
    }

    /// Gives up everything behind `end`, which a successful sync covered, and continues in a new file. The new file's
    /// header becomes durable with the first sync in it; until then a restart finds the old file in force.
    pub fn fail_over(&mut self, end: &LogPosition) -> Result<()> {
        debug_assert!(end.sequence <= self.position.sequence);
        let continued = self.continue_after(end.clone());
        continued.inspect_err(|error| tracing::error!(%error, "No new log file could be made"))
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
            return Err(Error::io("keep", &self.options.dir, kind.into()));
        };
        let links = found.survey.chain(&self.options.dir, &found.end, compacted)?;
        found.survey.remove_others(&*self.fs, &self.options.dir, &links)?;
        let cut_short = found.survey.cut_short(&self.options.dir, &links);
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
        give_back(&*self.fs, &self.options.dir, self.position.file, self.position.offset);
        let known = self.position == *durable && !planted::is(Bug::CleanEndNotWritten);
        if self.position.offset > FILE_HEADER && known {
            // Without it the next start finds the end as after a kill.
            let number = self.spares.number();
            drop(write_end(&*self.fs, &self.options, &self.keys, number, &self.position));
        }
    }

    /// A file is left only after it was synced whole: its successor's header says that its end is durable.
    fn leave(&mut self) -> Result<()> {
        self.sync()?;
        self.continue_after(self.position.clone())
    }

    fn continue_after(&mut self, end: LogPosition) -> Result<()> {
        let spare = self.spares.take()?;
        let header = new_header(&self.options, spare.number, &end)?;
        // A header whose write failed may stand on the disk all the same, and seals the present file at `end`.
        let written = spare.file.write_at(0, &header.encode(&self.keys));
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
        tracing::debug!(file = self.position.file, "The log continues in a new file");
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

/// Makes the file `number`, of one header that names `end`, behind which there is nothing.
pub(super) fn write_end(
    fs: &dyn FileSystem,
    options: &LogOptions,
    keys: &LogKeys,
    number: u64,
    end: &LogPosition,
) -> Result<()> {
    let file = fs.open(&file_path(&options.dir, number), Open::Create)?;
    let encoded = new_header(options, number, end)?.encode(keys);
    let mut page = [0; FILE_HEADER as usize];
    page[..encoded.len()].copy_from_slice(&encoded);
    file.write_at(0, &page)?;
    file.sync_data()?;
    fs.sync_dir(&options.dir)
}

/// Cuts a file at the end that a durable header names: behind it everything is void, but preallocated, 64 MiB for each
/// restart. This is about space only, so a failure is left for the next start to mend.
pub(super) fn give_back(fs: &dyn FileSystem, dir: &Path, number: u64, end: u64) {
    let cut = fs
        .open(&file_path(dir, number), Open::Write)
        .and_then(|file| if file.len()? > end { file.set_len(end) } else { Ok(()) });
    drop(cut);
}

fn new_header(options: &LogOptions, number: u64, end: &LogPosition) -> Result<FileHeader> {
    let mut salt = [0; 16];
    options.random.fill(&mut salt)?;
    Ok(FileHeader { store_id: options.store_id, number, salt, predecessor: end.clone() })
}
