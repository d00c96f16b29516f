//! Files and packs that a renewal has still to look at: it leaves nothing dead in files.

use std::collections::HashSet;

use orcas_log::ClosedLog;
use orcas_record::{LogFileId, PackId};

/// The files and packs that a renewal has still to look at.
#[derive(Default)]
pub(crate) struct Renewal {
    /// Packs that were there when it began and were not swept since.
    pub packs: HashSet<PackId>,
    /// Log files that it has written.
    pub logs: HashSet<LogFileId>,
}

impl Renewal {
    pub fn renewed(&mut self, file: LogFileId) {
        self.logs.insert(file);
    }

    /// The first run of adjacent files that were not written anew, as long as one compaction may be.
    pub fn run(&self, closed: &[ClosedLog], most: u64, passed: &dyn Fn(LogFileId) -> bool) -> Vec<LogFileId> {
        let (mut files, mut bytes) = (Vec::new(), 0);
        for log in closed {
            if self.logs.contains(&log.file) || passed(log.file) || bytes + log.bytes > most {
                if files.is_empty() {
                    continue;
                }
                break;
            }
            bytes += log.bytes;
            files.push(log.file);
        }
        files
    }
}
