//! The writer of the journal. After an error it is of no use: the journal is opened again.
//!
//! Invariants: a segment is in the list only when its header is durable. The last frame of every write is a mark. The
//! oldest segments are removed first, and never the last one.

use std::sync::Arc;

use orcas_base::error::Result;
use orcas_fs::{File, Open};

use super::format::{Frame, FrameKind, Header, Mark};
use super::segments::Segment;
use super::shared::JournalFiles;
use orcas_events::Place;

/// The segment that is written.
pub(crate) struct Active {
    file: Arc<dyn File>,
    segment: Segment,
    /// What the last mark stands for, and the last that is durable, with the bytes up to it.
    written: u64,
    synced: u64,
    synced_end: u64,
    /// Bytes up to the first mark: what the segment began with.
    began: u64,
}

impl Active {
    pub fn resumed(file: Arc<dyn File>, segment: Segment, sequence: u64, began: u64) -> Self {
        let synced_end = segment.end;
        Self { file, segment, written: sequence, synced: sequence, synced_end, began }
    }

    pub fn number(&self) -> u64 {
        self.segment.number
    }

    pub fn end(&self) -> u64 {
        self.segment.end
    }
}

/// Where a segment begins.
#[derive(Clone, Debug)]
pub struct Start {
    /// The last event before it; behind a record if events before it are missing.
    pub after: Place,
    pub mark: Mark,
    /// The sequence of the record that the mark stands for.
    pub sequence: u64,
    pub now_ms: u64,
}

/// The journal, for its one writer.
pub struct Journal {
    files: JournalFiles,
    active: Option<Active>,
    buffer: Vec<u8>,
}

impl Journal {
    pub(crate) fn new(files: JournalFiles, active: Option<Active>) -> Self {
        Self { files, active, buffer: Vec::new() }
    }

    /// Begins anew: removes all segments, and gives the journal another id. Places in the old one mean nothing any more.
    ///
    /// # Errors
    /// What removing and writing files ran into.
    pub fn begin<'s>(&mut self, start: &Start, states: impl Iterator<Item = &'s [u8]>) -> Result<()> {
        let files = self.files.clone();
        let options = &files.options;
        self.active = None;
        let mut number = 1;
        for name in options.fs.list(&options.dir)? {
            if let Some(old) = super::segment_number(&name) {
                number = number.max(old + 1);
                options.fs.remove(&options.dir.join(name))?;
            }
        }
        let mut id = [0; 8];
        options.random.fill(&mut id)?;
        files.segments.replace(u64::from_le_bytes(id), Vec::new());
        self.create(number, start, states)
    }

    /// Ends the segment and begins the next one. Everything pushed must be written.
    ///
    /// # Errors
    /// What writing and syncing the files ran into.
    pub fn roll<'s>(&mut self, start: &Start, states: impl Iterator<Item = &'s [u8]>) -> Result<()> {
        self.sync()?;
        let number = self.active.as_ref().map_or(1, |active| active.segment.number + 1);
        self.create(number, start, states)
    }

    fn create<'s>(&mut self, number: u64, start: &Start, states: impl Iterator<Item = &'s [u8]>) -> Result<()> {
        let options = &self.files.options;
        let mut salt = [0; 4];
        options.random.fill(&mut salt)?;
        let header = Header {
            number,
            store_id: options.store_id,
            journal: self.files.id(),
            after: start.after,
            sequence: start.sequence,
            began_ms: start.now_ms,
            salt: u32::from_le_bytes(salt),
            mark: start.mark,
        };
        let mut bytes = header.encode().to_vec();
        for state in states {
            push(&mut bytes, header.salt, FrameKind::State, start.after, start.now_ms, state);
        }
        let place = Place { sequence: start.sequence, ordinal: 0 };
        push(&mut bytes, header.salt, FrameKind::Mark, place, start.now_ms, &start.mark);
        let path = options.path(number);
        // One that a failed attempt has left.
        let file = match options.fs.open(&path, Open::Create) {
            Err(_) if options.fs.remove(&path).is_ok() => options.fs.open(&path, Open::Create)?,
            done => done?,
        };
        file.write_at(0, &bytes)?;
        file.sync_data()?;
        options.fs.sync_dir(&options.dir)?;
        let segment = Segment::new(&header, bytes.len() as u64);
        self.files.segments.push(segment.clone());
        self.active = Some(Active::resumed(file, segment, start.sequence, bytes.len() as u64));
        self.buffer.clear();
        Ok(())
    }

    /// Adds an event. `false` if its payload is too long.
    pub fn push_event(&mut self, place: Place, time_ms: u64, payload: impl FnOnce(&mut Vec<u8>)) -> bool {
        let salt = self.active.as_ref().map_or(0, |active| active.segment.salt);
        Frame::push(&mut self.buffer, salt, FrameKind::Event, place, time_ms, payload)
    }

    /// Adds what the writer needs to go on from here.
    pub fn push_state(&mut self, place: Place, time_ms: u64, state: &[u8]) -> bool {
        let salt = self.active.as_ref().map_or(0, |active| active.segment.salt);
        push(&mut self.buffer, salt, FrameKind::State, place, time_ms, state)
    }

    /// Writes what was pushed: it is complete up to `mark`.
    ///
    /// # Errors
    /// What writing ran into. Nothing of it counts then.
    pub fn write(&mut self, mark: &Mark, sequence: u64, time_ms: u64) -> Result<()> {
        let Some(active) = &mut self.active else { return Ok(()) };
        push(&mut self.buffer, active.segment.salt, FrameKind::Mark, Place { sequence, ordinal: 0 }, time_ms, mark);
        active.file.write_at(active.segment.end, &self.buffer)?;
        active.segment.end += self.buffer.len() as u64;
        active.written = sequence;
        self.buffer.clear();
        self.files.segments.grown(active.segment.end);
        Ok(())
    }

    /// Makes everything written durable.
    ///
    /// # Errors
    /// What syncing ran into. `distrusted` then says what does not count.
    pub fn sync(&mut self) -> Result<()> {
        let Some(active) = &mut self.active else { return Ok(()) };
        if active.synced_end < active.segment.end {
            active.file.sync_data()?;
            (active.synced, active.synced_end) = (active.written, active.segment.end);
        }
        Ok(())
    }

    /// The segment that is written and the bytes of it that are known to be durable.
    pub fn distrusted(&self) -> Option<(u64, u64)> {
        self.active.as_ref().map(|active| (active.segment.number, active.synced_end))
    }

    /// The sequence of the record that the last durable mark stands for. 0 before the beginning.
    pub fn durable(&self) -> u64 {
        self.active.as_ref().map_or(0, |active| active.synced)
    }

    /// Whether something is written and not durable.
    pub fn is_dirty(&self) -> bool {
        self.active.as_ref().is_some_and(|active| active.synced_end < active.segment.end)
    }

    /// Whether the next segment is due: the present one is full, or its events are to be forgotten some day. What every
    /// segment begins with does not count: however much it is, a new segment would have it too.
    pub fn is_full(&self, now_ms: u64) -> bool {
        let options = &self.files.options;
        self.active.as_ref().is_some_and(|active| {
            let old = now_ms.saturating_sub(active.segment.began_ms) > options.retention_ms / 8;
            let bytes = active.segment.end - active.began;
            bytes >= options.segment_bytes() || old && bytes > 0
        })
    }

    /// Removes segments that are too old, or too many. Returns their number.
    ///
    /// # Errors
    /// What removing files ran into.
    pub fn expire(&self, now_ms: u64) -> Result<usize> {
        let options = &self.files.options;
        let mut bytes = self.files.bytes();
        let mut removed = 0;
        for (segment, ended_ms) in self.files.segments.closed() {
            if bytes <= options.max_bytes && ended_ms + options.retention_ms > now_ms {
                break;
            }
            self.remove(segment.number)?;
            bytes -= segment.end;
            removed += 1;
        }
        Ok(removed)
    }

    /// Removes the oldest segment, whatever its age. False if there is only the one that is written.
    ///
    /// # Errors
    /// What removing the file ran into.
    pub fn remove_oldest(&self) -> Result<bool> {
        let closed = self.files.segments.closed();
        closed.first().map_or(Ok(false), |(segment, _)| self.remove(segment.number).map(|()| true))
    }

    fn remove(&self, number: u64) -> Result<()> {
        // Readers look for it no more.
        self.files.segments.remove(number);
        self.files.options.fs.remove(&self.files.options.path(number))
    }
}

fn push(out: &mut Vec<u8>, salt: u32, kind: FrameKind, place: Place, time_ms: u64, payload: &[u8]) -> bool {
    Frame::push(out, salt, kind, place, time_ms, |out| out.extend_from_slice(payload))
}
