//! Reads the frames of one log file past any damage, and determines what is missing between them.

use std::path::PathBuf;
use std::sync::Arc;

use bytes::Bytes;

use orcas_base::block::field;
use orcas_base::error::Result;
use orcas_base::planted::{self, Bug};
use orcas_fs::File;
use orcas_record::placement::codec;
use orcas_record::{LogLocation, Sequence};

use super::super::window::Window;
use super::file::SalvagedFile;
use crate::encoding::{
    COMMIT_FRAME, Commit, FILE_HEADER, FRAME_HEADER, FileContext, FrameClass, FrameHeader, LogKeys, blocks_match,
};
use crate::{RecoveredRecord, place};

/// Bytes that are kept of an unreadable record: enough for its bucket and key.
const HINT: usize = 2048;

/// An item found in a damaged log. Items come in the order of sequences.
pub enum Salvaged {
    Record(RecoveredRecord),
    /// A record whose payload is damaged; `hint` is the beginning of the payload.
    Unreadable {
        sequence: Sequence,
        kind: u8,
        hint: Bytes,
        /// For messages.
        place: String,
    },
    /// Bytes after the last record of a file with an unknown end that are not a whole record.
    Torn {
        /// For messages.
        place: String,
        /// End of these bytes.
        end: LogLocation,
    },
    /// Records that are missing, first to last. Compaction may have dropped some of them.
    Gone(Sequence, Sequence),
}

/// A record of a file, or the end of what the file covers.
pub struct Item {
    file: u64,
    pub sequence: Sequence,
    /// The file never held a record between this sequence and `sequence`.
    pub after: Sequence,
    pub what: Option<Salvaged>,
}

impl Item {
    /// Chooses between two items with the same sequence: a readable record is preferred, then the newer file. A compacted
    /// file has the current form of a record, and records of failed batches are in older files.
    pub fn or(self, other: Self) -> Self {
        let rank = |item: &Self| (item.what.as_ref().map(|found| matches!(found, Salvaged::Record(_))), item.file);
        let after = self.after.min(other.after);
        let chosen = if rank(&self) >= rank(&other) { self } else { other };
        Self { after, ..chosen }
    }
}

/// Reads the frames of one file past any damage.
pub struct Frames {
    path: PathBuf,
    pub number: u64,
    keys: Option<LogKeys>,
    context: FileContext,
    until: Option<Sequence>,
    window: Window<'static>,
    at: u64,
    /// The last sequence read; at the beginning that of the predecessor, if the header says so.
    last: Option<Sequence>,
    /// The offset at which the file should end.
    claimed: u64,
    /// No damage was found so far.
    sound: bool,
    /// No damage was found since the last record.
    contiguous: bool,
    ended: bool,
    /// End of the bytes after the last record that are not a record.
    torn: Option<u64>,
    /// Records since the last commit record, and how many of them are readable.
    batch: u64,
    readable: u64,
    /// Readable records in batches whose commit record is genuine.
    pub authenticated: u64,
}

impl Frames {
    /// The frames of a file, from its first on.
    ///
    /// # Errors
    /// When the length of the file cannot be determined.
    pub fn new(salvaged: &SalvagedFile, path: PathBuf, file: Arc<dyn File>, keys: Option<&LogKeys>) -> Result<Self> {
        let readable = salvaged.limit.min(file.len()?);
        Ok(Self {
            path,
            number: salvaged.number,
            // A commit record cannot be verified with only four bytes of the salt.
            keys: keys.filter(|_| salvaged.header.is_some()).cloned(),
            context: salvaged.context.clone(),
            until: salvaged.until,
            window: Window::new(file, readable, &|_| Ok(())),
            at: FILE_HEADER,
            last: salvaged.header.as_ref().map(|header| header.from().sequence),
            claimed: salvaged.limit,
            sound: true,
            contiguous: salvaged.header.is_some(),
            ended: false,
            torn: None,
            batch: 0,
            readable: 0,
            authenticated: 0,
        })
    }

    /// Whether the file was read to its end without finding damage.
    pub fn is_whole(&self) -> bool {
        self.sound && self.at == self.claimed
    }

    pub fn next(&mut self) -> Result<Option<Item>> {
        while !self.ended && self.at < self.window.limit {
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
                // The records before this commit record are lost; they reach up to its sequence.
                let (file, sequence) = (self.number, header.sequence);
                self.last = Some(sequence);
                self.contiguous = true;
                return Ok(Some(Item { file, sequence, after: sequence, what: None }));
            }
        }
        Ok(self.end())
    }

    /// Returns, once, what follows the last record.
    fn end(&mut self) -> Option<Item> {
        let Some(until) = self.until.take() else {
            let sequence = self.last.unwrap_or(0);
            let end = codec::in_log(self.number, self.torn.take()?);
            let what = Salvaged::Torn { place: place(&self.path, self.at), end };
            return Some(Item { file: self.number, sequence, after: 0, what: Some(what) });
        };
        let complete = self.at == self.claimed && self.contiguous;
        let after = if complete { self.last.unwrap_or(until).min(until) } else { until };
        Some(Item { file: self.number, sequence: until, after, what: None })
    }

    /// The whole frame at the current offset, if there is one.
    fn frame(&mut self) -> Result<Option<(FrameHeader, Bytes)>> {
        let at = self.at;
        if !self.window.load(at, FRAME_HEADER)? {
            return Ok(None);
        }
        let header = FrameHeader::decode(&field(self.window.view(at, FRAME_HEADER), 0), &self.context, at);
        let Some(header) = header.filter(|header| header.follows(self.last.unwrap_or(0), self.until)) else {
            return Ok(None);
        };
        let length = header.frame_length();
        if !self.window.load(at, length)? {
            return Ok(None);
        }
        Ok(Some((header, self.window.slice(at, length))))
    }

    fn commit(&mut self, frame: &Bytes) {
        let (batch, readable) = (std::mem::take(&mut self.batch), std::mem::take(&mut self.readable));
        let at = self.at - COMMIT_FRAME as u64;
        let genuine = self.keys.as_ref().and_then(|keys| Commit::decode(&field(frame, 0), keys, &self.context, at));
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
        let whole = blocks_match(&self.context, &frame[FRAME_HEADER..from], &payload);
        let what = if whole || planted::is(Bug::SalvageWithoutBlockChecksums) {
            self.readable += 1;
            let (kind, file) = (header.kind, self.number);
            Salvaged::Record(RecoveredRecord { sequence, kind, payload, at: codec::in_log(file, offset) })
        } else {
            self.sound = false;
            let hint = Bytes::copy_from_slice(&payload[..length.min(HINT)]);
            Salvaged::Unreadable { sequence, kind: header.kind, hint, place: place(&self.path, offset) }
        };
        Item { file: self.number, sequence, after, what: Some(what) }
    }

    /// End of the last byte from here on that is not zero.
    fn written_end(&mut self) -> Result<Option<u64>> {
        let (mut at, mut end) = (self.at, None);
        while self.window.load(at, 1)? {
            let bytes = self.window.rest(at);
            end = bytes.iter().rposition(|byte| *byte != 0).map(|last| at + last as u64 + 1).or(end);
            at += bytes.len() as u64;
        }
        Ok(end)
    }

    /// Offset of the next frame that can follow what was read.
    fn next_frame(&mut self) -> Result<Option<u64>> {
        if planted::is(Bug::SalvageWithoutResync) {
            return Ok(None);
        }
        let next = self.window.next_frame(self.at, &self.context, (self.last.unwrap_or(0), self.until))?;
        Ok(next.map(|(at, _)| at))
    }
}
