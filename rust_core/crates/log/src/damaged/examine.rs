//! Reads a whole log file once and verifies all of it. Reading continues after damage: a frame header is bound to its
//! offset and to the salt of its file, so the next one whose checksum matches is a frame of this file, and every commit
//! record contains the chain value after its batch.
//!
//! What cannot be read is reported with the sequences that are lost. Nothing is guessed.

use std::path::PathBuf;

use orcas_base::block::field;
use orcas_base::error::Result;
use orcas_fs::Open;
use orcas_record::placement::codec;
use orcas_record::{LogFileId, Sequence};

use super::piece::{LogFault, LogPiece};
use super::window::{Meter, Window};
use crate::chain::Link;
use crate::encoding::{
    COMMIT_FRAME, Commit, FILE_HEADER, FRAME_ALIGN, FRAME_HEADER, FileContext, FrameClass, FrameHeader, Header,
    LogKeys, blocks_match,
};
use crate::{LogFiles, LogPosition, RecoveredBatch, RecoveredRecord};

/// An item that an examination finds. Items come in the order of the file.
pub enum Seen {
    /// The readable records of a batch. Their payloads are slices of large blocks.
    Batch(RecoveredBatch),
    Fault(LogFault),
}

/// The result of an examination.
#[derive(Clone, Copy, Debug)]
pub struct Examined {
    /// The last sequence that the file covers, as far as is known.
    pub last: Sequence,
    /// Byte after the last batch.
    pub end: u64,
}

type Sink<'a> = &'a mut dyn FnMut(Seen) -> Result<()>;

impl LogPiece {
    /// Reads the piece. `applied` is the last record that is known to have been durable; `meter` is called before every
    /// read.
    ///
    /// # Errors
    /// When reading fails, and errors of `sink` and `meter`. Damage is not an error.
    pub fn examine(&self, applied: Sequence, meter: Meter<'_>, sink: Sink<'_>) -> Result<Examined> {
        let path = self.path();
        let file = self.directory.fs.open(&path, Open::Read)?;
        let limit = match (&self.header, &self.end) {
            (Header::Compacted(header), _) => header.own_end,
            (Header::Plain(_), Some(end)) => end.offset,
            (Header::Plain(_), None) => file.len()?,
        };
        let from = self.header.from();
        let open_end = self.end.is_none() && matches!(self.header, Header::Plain(_));
        let readable = limit.min(file.len()?);
        let mut examination = Examination {
            window: Window::new(file, readable, meter),
            path,
            keys: self.directory.keys.clone(),
            context: self.header.context(),
            chain: self.from_known.then_some(from.chain),
            last: from.sequence,
            at: FILE_HEADER,
            until: match &self.header {
                Header::Compacted(header) => Some(header.end.sequence),
                Header::Plain(_) => self.end.as_ref().map(|end| end.sequence),
            },
            durable: applied.max(from.sequence),
            open_end,
            ended: false,
            sink,
        };
        examination.run()?;
        self.check_end(&mut examination, limit)
    }

    /// Checks that the last batch is the one named by the successor, or by the header of a compacted file.
    fn check_end(&self, examination: &mut Examination<'_>, limit: u64) -> Result<Examined> {
        let (chain, sequence) = match (&self.header, &self.end) {
            (Header::Compacted(header), _) => (header.own_chain, header.end.sequence),
            (Header::Plain(_), Some(end)) => (end.chain, end.sequence),
            (Header::Plain(_), None) => {
                return Ok(Examined { last: examination.last, end: examination.at });
            }
        };
        let compacted = matches!(self.header, Header::Compacted(_));
        if examination.ended {
            return Ok(Examined { last: sequence, end: examination.at });
        }
        let ends_so = examination.at == limit && examination.chain.is_none_or(|own| own == chain);
        let lost = if compacted { examination.last > sequence } else { examination.last != sequence };
        if !ends_so || lost {
            let missing = examination.last < sequence && (!compacted || examination.at < limit);
            let range = missing.then_some((examination.last + 1, sequence));
            examination.fault(examination.at.min(limit), "the file does not end where its successor says", range)?;
        }
        Ok(Examined { last: sequence, end: examination.at })
    }
}

struct Examination<'a> {
    window: Window<'a>,
    path: PathBuf,
    keys: LogKeys,
    context: FileContext,
    /// Chain value before the next batch, when it is known.
    chain: Option<[u8; 32]>,
    /// Sequence of the last record that was read or is known to be lost.
    last: Sequence,
    at: u64,
    /// The last sequence that the file covers, if known.
    until: Option<Sequence>,
    /// The highest sequence known to have been durable.
    durable: Sequence,
    /// The end of the file is unknown, so what cannot be parsed may be a torn tail.
    open_end: bool,
    /// The end of the file cannot be read, which has been reported.
    ended: bool,
    sink: Sink<'a>,
}

/// A batch that is being read.
struct OpenBatch {
    start: u64,
    /// Last sequence before it.
    before: Sequence,
    records: Vec<RecoveredRecord>,
    /// Frames, readable or not.
    frames: u32,
    /// Faults found so far. In a possible torn tail they count only if a later commit record shows that they are in what
    /// was durable.
    faults: Vec<LogFault>,
    damaged: bool,
    hasher: blake3::Hasher,
    hashed: u64,
}

impl OpenBatch {
    /// Hashes the bytes up to `until`, before the window moves on.
    fn hash(&mut self, window: &Window<'_>, until: u64) {
        if self.hashed < until {
            self.hasher.update(window.view(self.hashed, (until - self.hashed) as usize));
            self.hashed = until;
        }
    }
}

impl Examination<'_> {
    fn run(&mut self) -> Result<()> {
        while self.at < self.window.limit {
            if !self.batch()? {
                break;
            }
        }
        Ok(())
    }

    /// Reads a batch or what is left of it. `false` at the end of the file.
    fn batch(&mut self) -> Result<bool> {
        let mut open = self.open(self.at);
        loop {
            if self.hashed_before_load(&mut open, FRAME_HEADER)? {
                let header =
                    FrameHeader::decode(&field(self.window.view(self.at, FRAME_HEADER), 0), &self.context, self.at);
                if let Some(header) = header.filter(|header| header.follows(self.last, self.until)) {
                    let length = header.frame_length();
                    if self.hashed_before_load(&mut open, length)? {
                        if header.class == FrameClass::Commit {
                            return self.commit(open);
                        }
                        self.record(&mut open, &header)?;
                        self.at += length as u64;
                        continue;
                    }
                }
            }
            return self.broken(open);
        }
    }

    fn open(&self, start: u64) -> OpenBatch {
        OpenBatch {
            start,
            before: self.last,
            records: Vec::new(),
            frames: 0,
            faults: Vec::new(),
            damaged: false,
            hasher: self.keys.chain_after(&self.chain.unwrap_or_default()),
            hashed: start,
        }
    }

    fn record(&mut self, open: &mut OpenBatch, header: &FrameHeader) -> Result<()> {
        let (payload_start, length) = (header.payload_start(), header.length as usize);
        let frame = self.window.view(self.at, payload_start + length);
        open.frames += 1;
        if blocks_match(&self.context, &frame[FRAME_HEADER..payload_start], &frame[payload_start..]) {
            let payload = self.window.slice(self.at + payload_start as u64, length);
            let (sequence, kind, file) = (header.sequence, header.kind, self.context.number);
            open.records.push(RecoveredRecord { sequence, kind, payload, at: codec::in_log(file, self.at) });
        } else {
            open.damaged = true;
            let lost = Some((header.sequence, header.sequence));
            let fault = self.as_fault(self.at, "a block of a record does not match its checksum", lost);
            open.faults.push(LogFault { kind: Some(header.kind), ..fault });
        }
        self.last = header.sequence;
        Ok(())
    }

    fn commit(&mut self, mut open: OpenBatch) -> Result<bool> {
        open.hash(&self.window, self.at);
        let frame = field(self.window.view(self.at, COMMIT_FRAME), 0);
        let Some(commit) = Commit::decode(&frame, &self.keys, &self.context, self.at) else {
            return self.broken(open);
        };
        open.hasher.update(&commit.chained());
        let fits = commit.start == open.start && commit.records == open.frames;
        let chained = self.chain.is_none() || open.hasher.finalize() == blake3::Hash::from_bytes(commit.chain);
        if self.open_end && (open.damaged || !fits || !chained) && !self.was_durable(&open)? {
            return Ok(false);
        }
        if !(open.damaged || fits && chained) {
            open.faults.push(self.as_fault(open.start, "a batch does not continue the chain", None));
        }
        self.durable = self.durable.max(commit.durable);
        self.chain = Some(commit.chain);
        self.last = commit.sequence;
        self.at += COMMIT_FRAME as u64;
        self.deliver(open)?;
        Ok(true)
    }

    fn deliver(&mut self, open: OpenBatch) -> Result<()> {
        for fault in open.faults {
            (self.sink)(Seen::Fault(fault))?;
        }
        let (file, offset, sequence) = (self.context.number, self.at, self.last);
        let position = LogPosition { file, offset, sequence, chain: self.chain.unwrap_or_default() };
        (self.sink)(Seen::Batch(RecoveredBatch { position, records: open.records }))
    }

    /// Nothing can be read at the current offset. Searches for the next frame.
    fn broken(&mut self, mut open: OpenBatch) -> Result<bool> {
        let broken_at = self.at;
        if self.open_end && !self.was_durable(&open)? {
            return Ok(false);
        }
        let reason = match open.frames {
            0 => "no frame begins where one should",
            _ => "a frame or the commit record of a batch cannot be read",
        };
        let next = self.window.next_frame(broken_at, &self.context, (self.last, self.until))?;
        let (before, at) = match &next {
            Some((at, header)) if header.class == FrameClass::Record => (header.sequence - 1, *at),
            Some((at, header)) => (header.sequence, *at),
            None => (self.until.unwrap_or(self.durable), self.window.limit),
        };
        let lost = (before > self.last).then_some((self.last + 1, before));
        open.faults.push(self.as_fault(broken_at, reason, lost));
        self.chain = None;
        self.ended = next.is_none();
        self.last = self.last.max(before);
        self.at = at;
        self.deliver(open)?;
        match next {
            Some((_, header)) if header.class == FrameClass::Commit => self.lone_commit(),
            next => Ok(next.is_some()),
        }
    }

    /// Reads the commit record of a batch whose last frames could not be read. After it the chain value is known again.
    fn lone_commit(&mut self) -> Result<bool> {
        if self.window.load(self.at, COMMIT_FRAME)? {
            let frame = field(self.window.view(self.at, COMMIT_FRAME), 0);
            if let Some(commit) = Commit::decode(&frame, &self.keys, &self.context, self.at) {
                self.chain = Some(commit.chain);
                self.durable = self.durable.max(commit.durable);
            }
        }
        self.at += COMMIT_FRAME as u64;
        Ok(true)
    }

    /// Whether an incomplete batch was durable. If so it is damaged; otherwise it is the torn tail of the file.
    fn was_durable(&mut self, open: &OpenBatch) -> Result<bool> {
        if self.durable > open.before {
            return Ok(true);
        }
        let mut at = open.start;
        while at + COMMIT_FRAME as u64 <= self.window.limit {
            self.window.load(at, COMMIT_FRAME)?;
            let bytes = self.window.rest(at);
            let whole = bytes.len() - COMMIT_FRAME + 1;
            for offset in (0..whole).step_by(FRAME_ALIGN) {
                if bytes[offset + 5] != FrameClass::COMMIT
                    || !FrameHeader::is_likely(&bytes[offset..offset + FRAME_HEADER])
                {
                    continue;
                }
                let frame = field(&bytes[offset..], 0);
                if let Some(commit) = Commit::decode(&frame, &self.keys, &self.context, at + offset as u64) {
                    self.durable = self.durable.max(commit.durable);
                }
            }
            at += whole.next_multiple_of(FRAME_ALIGN) as u64;
        }
        if self.durable <= open.before {
            self.last = open.before;
            self.at = open.start;
        }
        Ok(self.durable > open.before)
    }

    /// Loads `length` bytes at the current offset, after hashing what leaves the window. `false` beyond the end.
    fn hashed_before_load(&mut self, open: &mut OpenBatch, length: usize) -> Result<bool> {
        if !self.window.holds(self.at, length) {
            open.hash(&self.window, self.at);
        }
        self.window.load(self.at, length)
    }

    fn as_fault(&self, offset: u64, reason: &'static str, lost: Option<(Sequence, Sequence)>) -> LogFault {
        LogFault { path: self.path.clone(), offset, reason, lost, kind: None }
    }

    fn fault(&mut self, offset: u64, reason: &'static str, lost: Option<(Sequence, Sequence)>) -> Result<()> {
        let fault = self.as_fault(offset, reason, lost);
        (self.sink)(Seen::Fault(fault))
    }
}

impl LogFiles {
    /// Reads a closed file as `LogPiece::examine` does.
    ///
    /// # Errors
    /// `Missing` when the file is not closed or not in force, and as `LogPiece::examine`.
    pub fn examine(&self, file: LogFileId, meter: Meter<'_>, sink: Sink<'_>) -> Result<Examined> {
        let Link { header, end } = self.link(codec::log_file_number(file))?;
        let directory = self.directory().clone();
        let piece = LogPiece { directory, header, bytes: end.offset, end: Some(end), from_known: true, gap: None };
        piece.examine(0, meter, sink)
    }

    /// Reads the file that contains `end`, up to there, as `LogPiece::examine` does.
    ///
    /// # Errors
    /// `Corrupt` or `Missing` when the file cannot be opened, and as `LogPiece::examine`.
    pub fn examine_current(&self, end: &LogPosition, meter: Meter<'_>, sink: Sink<'_>) -> Result<Examined> {
        let directory = self.directory().clone();
        let header = self.header(end.file)?;
        let (bytes, end) = (end.offset, Some(end.clone()));
        LogPiece { directory, header, bytes, end, from_known: true, gap: None }.examine(0, meter, sink)
    }
}
