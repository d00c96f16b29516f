//! Reads a whole journal, for checks of a store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orcas_base::error::{Error, Result};
use orcas_fs::{FileSystem, Open};

use super::format::{FrameKind, HEADER};
use super::scan::{Scanned, Scanner, read_header};
use super::{DIRECTORY, segment_names};
use orcas_events::Place;

/// The findings of a look at all segments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalExamined {
    pub segments: u64,
    pub bytes: u64,
    pub events: u64,
    /// Files that are damaged, and the byte from which on.
    pub damaged: Vec<(PathBuf, u64)>,
    /// The last segment, if its end is torn: what a crash left there is no damage.
    pub torn: Option<(PathBuf, u64)>,
    /// Files that cannot be read, and why.
    pub unreadable: Vec<(PathBuf, String)>,
}

/// An event as it was pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredEvent {
    pub place: Place,
    pub time_ms: u64,
    pub payload: Vec<u8>,
}

/// Gets each event, with its file and the byte where its frame begins. `false` ends the reading of that file.
pub type EventSink<'a> = &'a mut dyn FnMut(&Path, u64, StoredEvent) -> bool;

/// Examines the journal of the store in this directory. There need not be one. A segment that is removed meanwhile is none.
pub fn examine(fs: &dyn FileSystem, store: &Path, sink: EventSink<'_>) -> JournalExamined {
    let dir = store.join(DIRECTORY);
    let mut found = JournalExamined::default();
    let segments = match segment_names(fs, &dir) {
        Ok(segments) => segments,
        Err(error) => {
            found.unreadable.push((dir, error.to_string()));
            return found;
        }
    };
    for name in &segments {
        let path = dir.join(name);
        match found.examine_segment(fs, &path, segments.last() == Some(name), sink) {
            Ok(()) | Err(Error::Missing { .. }) => {}
            Err(error) => found.unreadable.push((path, error.to_string())),
        }
    }
    found
}

impl JournalExamined {
    fn examine_segment(&mut self, fs: &dyn FileSystem, path: &Path, is_last: bool, sink: EventSink<'_>) -> Result<()> {
        let file = fs.open(path, Open::Read)?;
        let length = file.len()?;
        self.segments += 1;
        self.bytes += length;
        let Some(header) = read_header(fs, path)? else {
            // A crash while it was made leaves one like it at the end.
            self.broken(path, 0, is_last);
            return Ok(());
        };
        let mut scanner = Scanner::new(Arc::clone(&file), header.salt, HEADER as u64, length);
        let mut at = scanner.offset();
        while let Some(Scanned { kind, place, time_ms, payload }) = scanner.next()? {
            if kind == FrameKind::Event {
                self.events += 1;
                if !sink(path, at, StoredEvent { place, time_ms, payload: payload.to_vec() }) {
                    return Ok(());
                }
            }
            at = scanner.offset();
        }
        if !scanner.is_done() {
            self.broken(path, scanner.offset(), is_last);
        }
        Ok(())
    }

    fn broken(&mut self, path: &Path, byte: u64, is_last: bool) {
        let place = (path.to_owned(), byte);
        if is_last { self.torn = Some(place) } else { self.damaged.push(place) }
    }
}
