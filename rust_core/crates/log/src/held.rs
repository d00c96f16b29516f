//! Which files a copy of the log needs that ends at some durable position, and how much of each.
//!
//! Invariant: the bytes listed are what a power cut could have left, so that a recovery of them finds the log up to the
//! position. That holds while nothing removes or finishes compacted files; plain ones may be appended to meanwhile.

use std::path::Path;

use orcas_base::error::{Error, Result};
use orcas_fs::{FileSystem, Open};

use super::format::FILE_HEADER;
use super::header::{HEADER_ENCODED, is_compacted, is_plain};
use super::{LogPosition, file_number, file_path};

/// Names and lengths in bytes, in the order of their numbers. `end` is a durable position not before the last file that
/// was sealed when it was looked up.
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
        let mut head = [0; HEADER_ENCODED];
        file.read_at(0, &mut head)?;
        // Anything else was never in force: a file made ahead, or a compacted one that is not finished.
        if is_plain(&head) {
            last = Some((files.len(), number));
            files.push((name, length));
        } else if is_compacted(&head) {
            files.push((name, length));
        }
    }
    let Some((at, number)) = last.filter(|(_, number)| *number >= end.file) else {
        return Err(Error::corrupt(dir, 0, "the log ends before its durable position"));
    };
    // Batches behind the position are not known to be durable.
    files[at].1 = if number == end.file { end.offset } else { FILE_HEADER };
    Ok(files)
}
