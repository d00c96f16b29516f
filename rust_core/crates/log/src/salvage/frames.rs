//! Walks the frames of one log file, around damage, and says what is missing between them.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};

use orcas_base::block::field;
use orcas_base::error::Result;
use orcas_base::planted::{self, Bug};
use orcas_fs::{File, read_around_faults};
use orcas_record::Sequence;

use super::super::RecoveredRecord;
use super::super::format::{
    COMMIT_FRAME, Commit, FILE_HEADER, FRAME_ALIGN, FRAME_HEADER, FileSeal, FrameClass, FrameHeader, LogKeys,
    blocks_match,
};
use super::salt::is_likely;
use super::{Piece, Salvaged};

/// Bytes read at a time.
const WINDOW: u64 = 4 * 1024 * 1024;
/// Bytes that are kept of a record that cannot be read: enough for its bucket and key.
const HINT: usize = 2048;

/// A record of a file, or the end of what the file stands for.
pub struct Item {
    file: u64,
    pub sequence: Sequence,
    /// The file holds no record between this one and `sequence`, nor did it ever.
    pub after: Sequence,
    pub what: Option<Salvaged>,
}

impl Item {
    /// Of two for one sequence that which counts: a record that can be read, from the file that was made last. The form
    /// of a record in a compacted file is its present one, and what a failed batch left behind is in an older file.
    pub fn or(self, other: Self) -> Self {
        let rank = |item: &Self| (item.what.as_ref().map(|found| matches!(found, Salvaged::Record(_))), item.file);
        let after = self.after.min(other.after);
        let chosen = if rank(&self) >= rank(&other) { self } else { other };
        Self { after, ..chosen }
    }
}

/// Walks the frames of one file, around damage.
pub struct Frames {
    path: PathBuf,
    pub number: u64,
    keys: Option<LogKeys>,
    seal: FileSeal,
    limit: u64,
    until: Option<Sequence>,
    window: Window,
    at: u64,
    /// The last sequence that was met; of the file before where the header says so.
    last: Option<Sequence>,
    /// Where the file ends according to whoever knows.
    claimed: u64,
    /// Every byte so far is as it was written.
    sound: bool,
    /// The same since the last record.
    contiguous: bool,
    ended: bool,
    /// Bytes that are no record end here, behind the last one.
    torn: Option<u64>,
    /// Records since the last commit, and those of them that can be read.
    batch: u64,
    readable: u64,
    /// Records that can be read in batches whose commit is genuine.
    pub authenticated: u64,
}

impl Frames {
    /// The frames of a file, from its first on.
    ///
    /// # Errors
    /// When the file's length cannot be told.
    pub fn new(piece: &Piece, path: PathBuf, file: Arc<dyn File>, keys: Option<&LogKeys>) -> Result<Self> {
        Ok(Self {
            path,
            number: piece.number,
            // A salt of which four bytes are known verifies no commit.
            keys: keys.filter(|_| piece.header.is_some()).cloned(),
            seal: piece.seal.clone(),
            limit: piece.limit.min(file.len()?),
            until: piece.until,
            window: Window { file, block: Bytes::new(), start: 0 },
            at: FILE_HEADER,
            last: piece.header.as_ref().map(|header| header.from().sequence),
            claimed: piece.limit,
            sound: true,
            contiguous: piece.header.is_some(),
            ended: false,
            torn: None,
            batch: 0,
            readable: 0,
            authenticated: 0,
        })
    }

    /// Whether the file was walked to its end and every byte of it is as it was written.
    pub fn is_whole(&self) -> bool {
        self.sound && self.at == self.claimed
    }

    pub fn next(&mut self) -> Result<Option<Item>> {
        while !self.ended && self.at < self.limit {
            let Some((header, frame)) = self.frame()? else {
                self.sound = false;
                self.contiguous = false;
                (self.batch, self.readable) = (0, 0);
                match self.next_frame()? {
                    Some(at) => self.at = at,
                    None => {
                        self.ended = true;
                        self.torn = self.written_end()?;
                    }
                }
                continue;
            };
            self.at += header.frame_length() as u64;
            if header.class == FrameClass::Record {
                return Ok(Some(self.record(&header, &frame)));
            }
            self.commit(&frame);
            if !self.contiguous && header.sequence > self.last.unwrap_or(0) {
                // The commit record is left of records that are not: up to its sequence there were some.
                let (file, sequence) = (self.number, header.sequence);
                self.last = Some(sequence);
                self.contiguous = true;
                return Ok(Some(Item { file, sequence, after: sequence, what: None }));
            }
        }
        Ok(self.end())
    }

    /// Once, what follows the last record.
    fn end(&mut self) -> Option<Item> {
        let Some(until) = self.until.take() else {
            let sequence = self.last.unwrap_or(0);
            let what =
                Salvaged::Torn { file: self.number, path: self.path.clone(), offset: self.at, end: self.torn.take()? };
            return Some(Item { file: self.number, sequence, after: 0, what: Some(what) });
        };
        let complete = self.at == self.claimed && self.contiguous;
        let after = if complete { self.last.unwrap_or(until).min(until) } else { until };
        Some(Item { file: self.number, sequence: until, after, what: None })
    }

    /// The frame that begins here, if a whole one does.
    fn frame(&mut self) -> Result<Option<(FrameHeader, Bytes)>> {
        let (at, limit) = (self.at, self.limit);
        if !self.window.load(at, FRAME_HEADER, limit)? {
            return Ok(None);
        }
        let header = FrameHeader::decode(&field(self.window.view(at, FRAME_HEADER), 0), &self.seal, at);
        let Some(header) = header.filter(|header| self.fits(header)) else { return Ok(None) };
        let length = header.frame_length();
        if !self.window.load(at, length, limit)? {
            return Ok(None);
        }
        Ok(Some((header, self.window.slice(at, length))))
    }

    /// Whether such a frame can follow what was read.
    fn fits(&self, header: &FrameHeader) -> bool {
        let (last, until) = (self.last.unwrap_or(0), self.until.unwrap_or(Sequence::MAX));
        match header.class {
            FrameClass::Record => header.sequence > last && header.sequence <= until,
            FrameClass::Commit => header.sequence >= last && header.sequence <= until,
        }
    }

    fn commit(&mut self, frame: &Bytes) {
        let (batch, readable) = (std::mem::take(&mut self.batch), std::mem::take(&mut self.readable));
        let at = self.at - COMMIT_FRAME as u64;
        let genuine = self.keys.as_ref().and_then(|keys| Commit::decode(&field(frame, 0), keys, &self.seal, at));
        if genuine.is_some_and(|commit| u64::from(commit.records) == batch) {
            self.authenticated += readable;
        }
    }

    fn record(&mut self, header: &FrameHeader, frame: &Bytes) -> Item {
        let (from, length, sequence) = (header.payload_start(), header.length as usize, header.sequence);
        let offset = self.at - header.frame_length() as u64;
        let payload = frame.slice(from..from + length);
        let after = self.last.filter(|_| self.contiguous).unwrap_or(sequence - 1);
        self.last = Some(sequence);
        self.contiguous = true;
        self.batch += 1;
        let whole = blocks_match(&self.seal, &frame[FRAME_HEADER..from], &payload);
        let what = if whole || planted::is(Bug::SalvageWithoutBlockChecksums) {
            self.readable += 1;
            let (kind, file) = (header.kind, self.number);
            Salvaged::Record(RecoveredRecord { sequence, kind, payload, frame_offset: offset, file })
        } else {
            self.sound = false;
            let hint = Bytes::copy_from_slice(&payload[..length.min(HINT)]);
            Salvaged::Unreadable { sequence, kind: header.kind, hint, path: self.path.clone(), offset }
        };
        Item { file: self.number, sequence, after, what: Some(what) }
    }

    /// Behind the last byte from here on that is not zero.
    fn written_end(&mut self) -> Result<Option<u64>> {
        let (mut at, mut end) = (self.at, None);
        while at < self.limit && self.window.load(at, 1, self.limit)? {
            let bytes = self.window.rest(at);
            end = bytes.iter().rposition(|byte| *byte != 0).map(|last| at + last as u64 + 1).or(end);
            at += bytes.len() as u64;
        }
        Ok(end)
    }

    /// Where the next frame begins that can follow what was read.
    fn next_frame(&mut self) -> Result<Option<u64>> {
        if planted::is(Bug::SalvageWithoutResync) {
            return Ok(None);
        }
        let mut at = self.at + FRAME_ALIGN as u64;
        while self.window.load(at, FRAME_HEADER, self.limit)? {
            let bytes = self.window.rest(at);
            let whole = bytes.len() - FRAME_HEADER + 1;
            for index in (0..whole).step_by(FRAME_ALIGN) {
                let candidate = &bytes[index..index + FRAME_HEADER];
                if !is_likely(candidate) {
                    continue;
                }
                let place = at + index as u64;
                let Some(header) = FrameHeader::decode(&field(candidate, 0), &self.seal, place) else { continue };
                if self.fits(&header) && place + header.frame_length() as u64 <= self.limit {
                    return Ok(Some(place));
                }
            }
            at += whole.next_multiple_of(FRAME_ALIGN) as u64;
        }
        Ok(None)
    }
}

/// The part of a file that is in memory.
struct Window {
    file: Arc<dyn File>,
    block: Bytes,
    start: u64,
}

impl Window {
    /// Makes the window hold `length` bytes at `at`; false beyond `limit`.
    fn load(&mut self, at: u64, length: usize, limit: u64) -> Result<bool> {
        if at + length as u64 > limit {
            return Ok(false);
        }
        if self.start <= at && at + length as u64 <= self.start + self.block.len() as u64 {
            return Ok(true);
        }
        let wanted = (limit - at).min(WINDOW).max(length as u64) as usize;
        let mut block = BytesMut::zeroed(wanted);
        read_around_faults(&*self.file, at, &mut block)?;
        self.block = block.freeze();
        self.start = at;
        Ok(true)
    }

    fn view(&self, at: u64, length: usize) -> &[u8] {
        let from = (at - self.start) as usize;
        &self.block[from..from + length]
    }

    fn slice(&self, at: u64, length: usize) -> Bytes {
        let from = (at - self.start) as usize;
        self.block.slice(from..from + length)
    }

    fn rest(&self, at: u64) -> &[u8] {
        &self.block[(at - self.start) as usize..]
    }
}
