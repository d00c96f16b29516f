//! Reads a whole journal, for checks of a store.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use orcas_base::error::{Error, Result};
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
    /// Files that are damaged, and the byte from which on. What follows the last mark of the last segment is no damage.
    pub damaged: Vec<(PathBuf, u64)>,
    /// Files that cannot be read, and why.
    pub unreadable: Vec<(PathBuf, String)>,
}

/// Examines the journal of the store in this directory. There need not be one. A segment that is removed meanwhile is none.
pub fn examine(fs: &dyn FileSystem, store: &Path) -> JournalExamined {
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
        match found.examine_segment(fs, &path, segments.last() == Some(name)) {
            Ok(()) | Err(Error::Missing { .. }) => {}
            Err(error) => found.unreadable.push((path, error.to_string())),
        }
    }
    found
}

impl JournalExamined {
    fn examine_segment(&mut self, fs: &dyn FileSystem, path: &Path, is_last: bool) -> Result<()> {
        let file = fs.open(path, Open::Read)?;
        let length = file.len()?;
        self.segments += 1;
        self.bytes += length;
        let Some(header) = read_header(fs, path)? else {
            // A crash while it was made leaves one like it at the end.
            if !is_last {
                self.damaged.push((path.to_owned(), 0));
            }
            return Ok(());
        };
        let mut scanner = Scanner::new(Arc::clone(&file), header.salt, HEADER as u64, length);
        while let Some(frame) = scanner.next()? {
            self.events += u64::from(frame.kind == FrameKind::Event);
        }
        if !scanner.is_done() && !is_last {
            self.damaged.push((path.to_owned(), scanner.offset()));
        }
        Ok(())
    }
}
