//! Readers of the journal: each has a place and learns when events behind it are gone.

use orcas_base::error::{Error, Result};
use orcas_fs::Open;

use super::format::{FrameKind, HEADER};
use super::scan::Scanner;
use super::segments::Segment;
use super::shared::JournalFiles;
use orcas_events::Place;

/// Where reading begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JournalCursor {
    /// Behind this place.
    After(Place),
    /// The oldest event.
    Oldest,
    /// The first event that is not older, in milliseconds since the Unix epoch.
    Since(u64),
}

/// The events that one look brings.
#[derive(Debug, PartialEq, Eq)]
pub struct ReadEvents<T> {
    /// Events in order. Empty at the end of the journal.
    pub events: Vec<T>,
    /// Events before these, or behind them if there are none here, are gone.
    pub lost: bool,
}

/// Makes an event of its place, its time and its payload.
pub type Decode<T> = fn(Place, u64, &[u8]) -> Result<T>;

pub struct JournalReader {
    files: JournalFiles,
    cursor: JournalCursor,
    /// The segment that is read, and where in it.
    at: Option<(u64, u64)>,
}

impl JournalReader {
    pub fn new(files: JournalFiles, cursor: JournalCursor) -> Self {
        Self { files, cursor, at: None }
    }

    /// The place behind which the next look begins. `None` if it is not known before that look.
    pub fn place(&self) -> Option<Place> {
        match self.cursor {
            JournalCursor::After(place) => Some(place),
            JournalCursor::Oldest | JournalCursor::Since(_) => None,
        }
    }

    /// The next events, until their payloads have `bytes`, each as `decode` makes it. Blocking.
    ///
    /// # Errors
    /// [`Error::Corrupt`] for damage that only the writer can pass over, or what reading and decoding ran into.
    pub fn read<T>(&mut self, bytes: usize, decode: Decode<T>) -> Result<ReadEvents<T>> {
        let mut read = ReadEvents { events: Vec::new(), lost: false };
        let Some(mut segment) = self.segment() else { return Ok(read) };
        let mut taken = 0;
        loop {
            if self.is_behind(&segment) && !read.events.is_empty() {
                // What is gone is between them and what follows.
                self.at = None;
                return Ok(read);
            }
            self.enter(&segment, &mut read);
            let intact = match self.scan(&segment, bytes, decode, &mut taken, &mut read) {
                // It was removed just now.
                Err(Error::Missing { .. }) => return self.again(read, bytes, decode),
                done => done?,
            };
            if taken >= bytes {
                return Ok(read);
            }
            match self.files.segments.next(segment.number) {
                Some(next) => {
                    segment = next;
                    self.at = None;
                }
                None if intact => return Ok(read),
                None => {
                    let (path, at) = (self.files.options.path(segment.number), self.at);
                    return Err(Error::corrupt(&path, at.map_or(0, |(_, offset)| offset), "an event cannot be read"));
                }
            }
        }
    }

    fn again<T>(&mut self, read: ReadEvents<T>, bytes: usize, decode: Decode<T>) -> Result<ReadEvents<T>> {
        self.at = None;
        if read.events.is_empty() && self.segment().is_some() { self.read(bytes, decode) } else { Ok(read) }
    }

    /// The segment in which the next event is.
    fn segment(&self) -> Option<Segment> {
        let segments = &self.files.segments;
        if let Some(found) = self.at.and_then(|(number, _)| segments.find(number)) {
            return Some(found);
        }
        match self.cursor {
            JournalCursor::After(place) => segments.last_where(|segment| segment.after <= place),
            JournalCursor::Oldest => segments.oldest(),
            JournalCursor::Since(time_ms) => segments.last_where(|segment| segment.began_ms <= time_ms),
        }
    }

    /// Whether something is missing before a segment.
    fn is_behind(&self, segment: &Segment) -> bool {
        matches!(self.cursor, JournalCursor::After(place) if place < segment.after)
    }

    /// Goes to the beginning of a segment, and notes whether something is missing before it.
    fn enter<T>(&mut self, segment: &Segment, read: &mut ReadEvents<T>) {
        if self.is_behind(segment) {
            read.lost = true;
            self.cursor = JournalCursor::After(segment.after);
        } else if self.cursor == JournalCursor::Oldest {
            self.cursor = JournalCursor::After(segment.after);
        }
    }

    /// Reads on in a segment. False if it is damaged before its end.
    fn scan<T>(
        &mut self,
        segment: &Segment,
        bytes: usize,
        decode: Decode<T>,
        taken: &mut usize,
        read: &mut ReadEvents<T>,
    ) -> Result<bool> {
        let options = &self.files.options;
        let file = options.fs.open(&options.path(segment.number), Open::Read)?;
        let offset = self.at.filter(|(number, _)| *number == segment.number).map_or(HEADER as u64, |(_, at)| at);
        let mut scanner = Scanner::new(file, segment.salt, offset, segment.end);
        let mut last = segment.after;
        while *taken < bytes {
            let Some(frame) = scanner.next()? else { break };
            if frame.kind != FrameKind::Event {
                continue;
            }
            last = last.max(frame.place);
            let wanted = match self.cursor {
                JournalCursor::After(place) => frame.place > place,
                JournalCursor::Oldest => true,
                JournalCursor::Since(time_ms) => frame.time_ms >= time_ms,
            };
            if wanted {
                *taken += frame.payload.len() + 1;
                self.cursor = JournalCursor::After(frame.place);
                read.events.push(decode(frame.place, frame.time_ms, frame.payload)?);
            }
        }
        self.at = Some((segment.number, scanner.offset()));
        if self.files.segments.next(segment.number).is_none() && matches!(self.cursor, JournalCursor::Since(_)) {
            // Nothing is that young: whatever comes now is.
            self.cursor = JournalCursor::After(last);
        }
        Ok(scanner.is_done() || *taken >= bytes)
    }
}
