//! One stream of events: its filter, its place and its format.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

use bytes::Bytes;
use parking_lot::Mutex;

use orcas_base::error::Result;
use orcas_engine::{EventReader, JournalCursor, Place};
use orcas_events::json::{Context, write_records};
use orcas_events::sse::write_event;
use orcas_events::{Event, EventNames, Filter};
use orcas_s3::{ErrorCode, S3Error};

use super::hub::{Found, Shown, Waits};
use super::names::event_of;
use super::pieces::{Piece, StreamFormat};
use super::streams::EventStreams;
use orcas_base::completions::Resume;

/// Events that one look takes from memory, and bytes after which it ends.
const EVENTS_AT_ONCE: usize = 64;
const BYTES_AT_ONCE: usize = 32 << 10;
/// Bytes of the journal that one look reads.
const JOURNAL_AT_ONCE: usize = 64 << 10;
/// Looks at the journal that may find nothing that is wanted, so that shutdown does not wait for long.
const LOOKS_AT_ONCE: usize = 64;

/// The type of events in a stream of server-sent events, and that of the notice that some are gone.
const EVENT: &str = "s3";
const GAP: &str = "gap";

/// The options of a client, as text.
#[derive(Clone, Debug, Default)]
pub struct ListenOptions {
    /// Names and patterns. All events if there are none.
    pub names: Vec<String>,
    pub buckets: Vec<String>,
    pub prefix: Vec<u8>,
    pub suffix: Vec<u8>,
    /// The id of the last event that the client has had.
    pub last_id: Option<String>,
    /// `now`, `oldest`, an id, or a time.
    pub start: Option<String>,
}

/// Begins behind a place of the journal and follows it.
pub struct Listener {
    streams: Weak<EventStreams>,
    filter: Arc<Filter>,
    format: StreamFormat,
    /// The time before which the stream does not begin; 0 once it has. The journal may lag behind what is older.
    since_ms: AtomicU64,
    /// Locked last: no other lock is taken while it is held.
    cursor: Mutex<JournalCursor>,
    /// Only the one consumer of the stream locks these.
    reader: Mutex<Option<EventReader>>,
    /// Bytes to be sent before anything else.
    first: Mutex<Vec<u8>>,
}

impl Listener {
    /// # Errors
    /// What is wrong with the options, `ServiceUnavailable` if there are too many listeners, `NotImplemented` if there
    /// are no events.
    pub fn open(
        streams: &Arc<EventStreams>,
        options: ListenOptions,
        format: StreamFormat,
    ) -> Result<Arc<Self>, S3Error> {
        if !streams.engine.has_events() {
            let message = "This server keeps no events: ORCAS_EVENTS_ENABLED turns them on.";
            return Err(S3Error::with(ErrorCode::NotImplemented, message));
        }
        let filter = Arc::new(filter(&options, format)?);
        let (cursor, is_gone) = start(streams, &options)?;
        if !streams.hub.enter(streams.listeners_max) {
            let message =
                "There are as many listeners as ORCAS_EVENTS_LISTENERS_MAX allows, or the server is stopping.";
            return Err(S3Error::with(ErrorCode::ServiceUnavailable, message));
        }
        streams.engine.add_listener();
        let since_ms = AtomicU64::new(if let JournalCursor::Since(time_ms) = cursor { time_ms } else { 0 });
        let first = match (format, cursor) {
            (StreamFormat::Lines, _) => Vec::new(),
            // A stream that breaks off before its first event goes on where it began.
            (StreamFormat::Sse, JournalCursor::After(place)) => {
                format!("retry: 1000\nid: {}\n\n", streams.id(place)).into_bytes()
            }
            (StreamFormat::Sse, _) => b"retry: 1000\n\n".to_vec(),
        };
        let (cursor, reader, first) = (Mutex::new(cursor), Mutex::default(), Mutex::new(first));
        let listener =
            Arc::new(Self { streams: Arc::downgrade(streams), filter, format, since_ms, cursor, reader, first });
        if is_gone {
            let place = streams.engine.events_state().and_then(|events| events.oldest).unwrap_or_default();
            listener.write_gap(streams, place, &mut listener.first.lock());
        }
        Ok(listener)
    }

    /// The new events in memory. Empty: nothing; `None`: `read` has to be called, or the stream has ended.
    pub fn take(&self) -> Option<Bytes> {
        let streams = self.streams.upgrade()?;
        let first = std::mem::take(&mut *self.first.lock());
        if !first.is_empty() {
            return Some(first.into());
        }
        if let Some(shared) = self.take_shared(&streams) {
            return Some(shared);
        }
        let (from, has_begun) = (self.place()?, self.has_begun());
        match streams.hub.find(from, EVENTS_AT_ONCE) {
            Found::Older | Found::Closed => None,
            Found::Events(found, mut to) => {
                let mut out = Vec::new();
                for shown in found {
                    if self.takes(&shown.event) {
                        out.extend_from_slice(&self.form(&streams, &shown));
                    }
                    if out.len() >= BYTES_AT_ONCE {
                        to = shown.event.place;
                        break;
                    }
                }
                *self.cursor.lock() = JournalCursor::After(to);
                *self.reader.lock() = None;
                let bytes = Bytes::from(out);
                if has_begun {
                    self.share(&streams, from, to, &bytes);
                }
                Some(bytes)
            }
        }
    }

    /// The piece that another listener has made for this place.
    fn take_shared(&self, streams: &EventStreams) -> Option<Bytes> {
        if !self.has_begun() || streams.hub.is_closed() {
            return None;
        }
        let (bytes, to) = streams.hub.pieces.find(self.place()?, self.format, &self.filter)?;
        *self.reader.lock() = None;
        *self.cursor.lock() = JournalCursor::After(to);
        Some(bytes)
    }

    fn share(&self, streams: &EventStreams, from: Place, to: Place, bytes: &Bytes) {
        if !bytes.is_empty() {
            let (format, filter, bytes) = (self.format, Arc::clone(&self.filter), bytes.clone());
            streams.hub.pieces.keep(Piece { from, to, format, filter, bytes });
        }
    }

    /// Whether no event is too old any more.
    fn has_begun(&self) -> bool {
        self.since_ms.load(Ordering::Relaxed) == 0
    }

    /// What comes next in the journal. Empty: nothing that is wanted so far; `None`: the stream has ended. Blocking.
    ///
    /// # Errors
    /// What reading the journal ran into.
    pub fn read(&self) -> Result<Option<Bytes>> {
        let Some(streams) = self.streams.upgrade() else { return Ok(None) };
        if let Some(shared) = self.take_shared(&streams) {
            return Ok(Some(shared));
        }
        let (from, has_begun, mut is_whole) = (self.place(), self.has_begun(), true);
        let mut kept = self.reader.lock();
        let mut out = Vec::new();
        for _ in 0..LOOKS_AT_ONCE {
            if streams.hub.is_closed() {
                return Ok(None);
            }
            // The journal has at least this, unless it fell back meanwhile.
            let reached = streams.engine.events_reached();
            let cursor = *self.cursor.lock();
            let Some(mut reader) = kept.take().or_else(|| streams.engine.read_events(cursor)) else { return Ok(None) };
            let read = reader.read(JOURNAL_AT_ONCE)?;
            let (place, reached) = (reader.place(), reached.min(streams.engine.events_reached()));
            if read.lost {
                let gap = read.events.first().map_or(place.unwrap_or_default(), |change| before(change.place));
                self.write_gap(&streams, gap, &mut out);
                is_whole = false;
            }
            for event in read.events.iter().filter_map(event_of).filter(|event| self.takes(event)) {
                self.write(&streams, &event, &mut out);
            }
            let ended = read.events.is_empty() && !read.lost;
            *self.cursor.lock() = match place {
                Some(place) if ended => JournalCursor::After(place.max(reached)),
                Some(place) => JournalCursor::After(place),
                None if ended => JournalCursor::After(reached),
                None => cursor,
            };
            if ended {
                break;
            }
            *kept = Some(reader);
            if out.len() >= BYTES_AT_ONCE {
                break;
            }
        }
        let bytes = Bytes::from(out);
        if has_begun
            && is_whole
            && let (Some(from), Some(to)) = (from, self.place())
        {
            self.share(&streams, from, to, &bytes);
        }
        Ok(Some(bytes))
    }

    /// Bytes to be sent when there was nothing else for a while.
    pub fn heartbeat(&self) -> Vec<u8> {
        match (self.format, self.streams.upgrade(), self.place()) {
            // Clients parse each line as an event.
            (StreamFormat::Lines, ..) => b" ".to_vec(),
            // A client that connects again begins here, not with the last event that it wanted.
            (StreamFormat::Sse, Some(streams), Some(place)) => format!(":\nid: {}\n\n", streams.id(place)).into_bytes(),
            (StreamFormat::Sse, ..) => b":\n\n".to_vec(),
        }
    }

    /// Calls `resume` when there is more. False: there is.
    pub fn wait(self: &Arc<Self>, resume: Resume) -> bool {
        self.streams.upgrade().is_some_and(|streams| streams.hub.wait(resume, Arc::clone(self) as Arc<dyn Waits>))
    }

    /// Resumes it, if it waits.
    pub fn wake(self: &Arc<Self>) {
        let streams = self.streams.upgrade();
        if let Some(resume) = streams.and_then(|streams| streams.hub.wake(&(Arc::clone(self) as Arc<dyn Waits>))) {
            resume();
        }
    }

    /// Whether an event belongs to the stream. To be asked once for each, in order.
    fn takes(&self, event: &Event) -> bool {
        if event.time_ms < self.since_ms.load(Ordering::Relaxed) {
            return false;
        }
        self.since_ms.store(0, Ordering::Relaxed);
        self.filter.matches(event)
    }

    fn form(&self, streams: &EventStreams, shown: &Shown) -> Bytes {
        let made = || {
            let mut out = Vec::with_capacity(1024);
            self.write(streams, &shown.event, &mut out);
            Bytes::from(out)
        };
        shown.forms[self.format as usize].get_or_init(made).clone()
    }

    fn write(&self, streams: &EventStreams, event: &Event, out: &mut Vec<u8>) {
        let name_prefix = if self.format == StreamFormat::Lines { "s3:" } else { "" };
        let context = Context { region: &streams.region, host_id: &streams.host_id, configuration_id: "", name_prefix };
        match self.format {
            StreamFormat::Lines => {
                write_records(out, context, [event]);
                out.push(b'\n');
            }
            StreamFormat::Sse => {
                let mut data = Vec::with_capacity(1024);
                write_records(&mut data, context, [event]);
                write_event(out, &streams.id(event.place), EVENT, &data);
            }
        }
    }

    /// Says that events are gone. What follows comes behind `place`.
    fn write_gap(&self, streams: &EventStreams, place: Place, out: &mut Vec<u8>) {
        if self.format == StreamFormat::Sse {
            let id = streams.id(place);
            write_event(out, &id, GAP, format!("{{\"continuesAfter\":\"{id}\"}}").as_bytes());
        }
    }
}

impl Waits for Listener {
    fn wants(&self, event: &Event) -> bool {
        // Older events may wait with this one, so the stream does not begin before it takes them.
        event.time_ms >= self.since_ms.load(Ordering::Relaxed) && self.filter.matches(event)
    }

    fn place(&self) -> Option<Place> {
        match *self.cursor.lock() {
            JournalCursor::After(place) => Some(place),
            JournalCursor::Oldest | JournalCursor::Since(_) => None,
        }
    }

    fn pass(&self, from: Place, to: Place) {
        let mut cursor = self.cursor.lock();
        if let JournalCursor::After(place) = *cursor
            && (from..to).contains(&place)
        {
            *cursor = JournalCursor::After(to);
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        if let Some(streams) = self.streams.upgrade() {
            streams.hub.leave();
            streams.engine.remove_listener();
        }
    }
}

/// The place right before.
fn before(place: Place) -> Place {
    match place.ordinal.checked_sub(1) {
        Some(ordinal) => Place { ordinal, ..place },
        None => Place::after(place.sequence.saturating_sub(1)),
    }
}

fn filter(options: &ListenOptions, format: StreamFormat) -> Result<Filter, S3Error> {
    let mut names = EventNames::NONE;
    for name in &options.names {
        // MinIO's clients ask for reads as well, of which there are no events.
        let is_read = format == StreamFormat::Lines && name.starts_with("s3:ObjectAccessed:");
        let known = if is_read { Some(EventNames::NONE) } else { EventNames::parse(name) };
        let unknown =
            || S3Error::argument("A specified event is not supported for notifications.", "events", name.as_bytes());
        names = names.union(known.ok_or_else(unknown)?);
    }
    if options.names.is_empty() {
        names = EventNames::ALL;
    }
    let (buckets, prefix, suffix) = (options.buckets.clone(), options.prefix.clone(), options.suffix.clone());
    Ok(Filter { names, buckets, prefix, suffix })
}

/// Where the stream begins, and whether events between that and what the client asked for are gone.
fn start(streams: &EventStreams, options: &ListenOptions) -> Result<(JournalCursor, bool), S3Error> {
    if let Some(last) = options.last_id.as_deref().filter(|last| !last.is_empty()) {
        return streams.named(last, "Last-Event-ID");
    }
    match options.start.as_deref() {
        None | Some("now") => Ok((JournalCursor::After(streams.engine.events_now()), false)),
        Some("oldest") => Ok((JournalCursor::Oldest, false)),
        Some(text) => match orcas_http::timestamp::parse(text.as_bytes()) {
            Some(time_ms) => Ok((JournalCursor::Since(time_ms), false)),
            None => streams.named(text, "start").map_err(|_| {
                let known = "start is now, oldest, a time such as 2026-01-31T12:00:00Z, or the id of an event.";
                S3Error::argument(known, "start", text.as_bytes())
            }),
        },
    }
}
