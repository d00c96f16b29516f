//! The journal of events: segment files of checksummed frames, written by one thread and read by any.
//!
//! Invariants: what a mark covers is complete up to the record that it names, and what comes after the last mark does not
//! count. A reader learns whenever events between its place and the next one are gone. Nothing here is needed to open a
//! store: a damaged file costs its events. Payloads are opaque: this crate must not know what an event, the log or the
//! state of its writer is. `docs/format.md` specifies every byte.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests damage files directly"))]

#[cfg(test)]
mod document_tests;
mod examine;
mod format;
mod open;
mod reader;
mod scan;
mod segments;
mod shared;
#[cfg(test)]
mod tests;
mod writer;

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orcas_base::error::Result;
use orcas_fs::{FileSystem, Random};

pub use examine::{EventSink, JournalExamined, StoredEvent, examine};
pub use format::{MARK, Mark};
pub use open::{Resumed, discard};
pub use orcas_events::Place;
pub use reader::{Decode, JournalCursor, JournalReader, ReadEvents};
pub use shared::JournalFiles;
pub use writer::{Journal, Start};

/// The directory of the journal within that of the store.
pub const DIRECTORY: &str = "events";

#[derive(Clone)]
pub struct JournalOptions {
    pub fs: Arc<dyn FileSystem>,
    pub dir: PathBuf,
    pub store_id: [u8; 16],
    pub random: Arc<dyn Random>,
    /// How long events are kept, in milliseconds.
    pub retention_ms: u64,
    /// Bytes of all segments together, within the size of one segment.
    pub max_bytes: u64,
}

impl JournalOptions {
    /// Bytes after which a segment ends.
    fn segment_bytes(&self) -> u64 {
        (self.max_bytes / 8).clamp(64 << 10, 16 << 20)
    }

    fn path(&self, number: u64) -> PathBuf {
        self.dir.join(format!("{number:020}.events"))
    }
}

/// The names of segments in this directory, which need not exist.
fn segment_names(fs: &dyn FileSystem, dir: &Path) -> Result<Vec<String>> {
    let (Some(parent), Some(own)) = (dir.parent(), dir.file_name()) else { return Ok(Vec::new()) };
    if !fs.list(parent)?.iter().any(|name| own == name.as_str()) {
        return Ok(Vec::new());
    }
    let mut names = fs.list(dir)?;
    names.retain(|name| segment_number(name).is_some());
    Ok(names)
}

/// The number in the name of a segment. `None` for any other name.
fn segment_number(name: &str) -> Option<u64> {
    let digits = name.strip_suffix(".events")?;
    if digits.len() != 20 || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return None;
    }
    digits.parse().ok().filter(|number| *number > 0)
}
