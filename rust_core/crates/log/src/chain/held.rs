//! Which files a copy of the log up to a durable position needs, and how many bytes of each.
//!
//! Invariant: the listed bytes are a state that a power loss could have left, so recovery finds the log up to the
//! position. Meanwhile plain files may be appended to, but no file may be removed and no compaction may finish.

use std::path::Path;

use orcas_base::error::{Error, Result};
use orcas_fs::{FileSystem, Open};

use crate::encoding::{FILE_HEADER, HEADER_ENCODED, is_compacted, is_plain};
use crate::{LogPosition, file_number, file_path};

/// Names and lengths in bytes, in the order of file numbers. `end` is a durable position that is not before the end of
/// any closed file.
pub fn files_up_to(fs: &dyn FileSystem, dir: &Path, end: &LogPosition) -> Result<Vec<(String, u64)>> {
    let mut files = Vec::new();
    let mut last = None;
    for name in fs.list(dir)? {
        let Some(number) = file_number(&name) else { continue };
        let file = fs.open(&file_path(dir, number), Open::Read)?;
        let length = file.len()?;
        if length < FILE_HEADER {
            continue;
        }
        let mut start = [0; HEADER_ENCODED];
        file.read_at(0, &mut start)?;
        // Other files were never in force: a spare file, or an unfinished compacted one.
        if is_plain(&start) {
            last = Some((files.len(), number));
            files.push((name, length));
        } else if is_compacted(&start) {
            files.push((name, length));
        }
    }
    let Some((at, number)) = last.filter(|(_, number)| *number >= end.file) else {
        return Err(Error::corrupt(dir, 0, "the log ends before its durable position"));
    };
    // Later batches are not known to be durable.
    files[at].1 = if number == end.file { end.offset } else { FILE_HEADER };
    Ok(files)
}
