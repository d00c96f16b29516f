//! Reads a whole journal, for checks of a store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orcas_base::error::Result;
use orcas_fs::{FileSystem, Open};

use super::format::{FrameKind, HEADER};
use super::scan::{Scanner, read_header};
use super::{DIRECTORY, segment_names};

/// What a look at all segments found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct JournalExamined {
    pub segments: u64,
    pub bytes: u64,
    pub events: u64,
    /// Files that cannot be read, and the byte from which on. What follows the last mark of the last segment is no damage.
    pub damaged: Vec<(PathBuf, u64)>,
}

/// Examines the journal of the store in this directory. There need not be one.
///
/// # Errors
/// What reading the files ran into.
pub fn examine(fs: &dyn FileSystem, store: &Path) -> Result<JournalExamined> {
    let dir = store.join(DIRECTORY);
    let mut found = JournalExamined::default();
    let segments = segment_names(fs, &dir)?;
    for name in &segments {
        let path = dir.join(name);
        let last = segments.last() == Some(name);
        let file = fs.open(&path, Open::Read)?;
        let length = file.len()?;
        found.segments += 1;
        found.bytes += length;
        let Some(header) = read_header(fs, &path)? else {
            // A crash while it was made leaves one like it at the end.
            if !last {
                found.damaged.push((path, 0));
            }
            continue;
        };
        let mut scanner = Scanner::new(Arc::clone(&file), header.salt, HEADER as u64, length);
        while let Some(frame) = scanner.next()? {
            found.events += u64::from(frame.kind == FrameKind::Event);
        }
        if !scanner.is_done() && !last {
            found.damaged.push((path, scanner.offset()));
        }
    }
    Ok(found)
}
