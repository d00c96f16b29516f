//! Replays a log, as far as it can be read, into an index of its own; and replays the records that the present index
//! lacks into a copy of it. No record is refused because it contradicts the rest: the check reports it instead.

use std::path::Path;

use crate::collect::Collector;
use crate::logs::{Entry, EntryGroup, LogCheck};
use crate::present::{Copied, private_options};
use crate::{FindingKind, Phase};
use orcas_base::error::{Error, Result};
use orcas_index::{Applied, Index, Writer};
use orcas_log::{Inspection, LogFault, LogGap, LogPiece, OtherLog};
use orcas_record::Sequence;

/// An index of a log that is not larger is built in memory.
const IN_MEMORY_MAX: u64 = 256 << 20;

/// What came of it.
pub(crate) struct Replayed {
    /// What the log says.
    pub index: Index,
    /// Why it does not say all of it.
    pub incomplete: Option<String>,
    /// Why the copy of the present index could not follow.
    pub behind: Option<String>,
    /// The log's last record, as far as is known.
    pub last: Sequence,
}

/// Reads the whole log.
///
/// # Errors
/// What reading or writing the private index ran into; damage is no error.
pub(crate) fn replay(
    check: &LogCheck<'_>,
    inspection: &Inspection,
    (threads, online): (usize, bool),
    (dir, store_id): (&Path, [u8; 16]),
    copied: Option<&Copied>,
) -> Result<Replayed> {
    let collector = check.collector;
    collector.progress().enter(Phase::Log);
    tell_of_files(collector, inspection, online);
    let bytes: u64 = inspection.pieces.iter().map(|piece| piece.bytes).sum();
    let path = (bytes > IN_MEMORY_MAX).then(|| dir.join("rebuilt.db"));
    let index = Index::open(private_options(path.as_deref()), store_id)?;
    let mut fresh = Follower::new(index.writer()?, 0);
    fresh.bulk()?;
    let mut tail = copied.map(|copied| Ok::<_, Error>(Follower::new(copied.index.writer()?, copied.applied())));
    let mut behind = match &tail {
        Some(Err(error)) => Some(error.to_string()),
        _ => None,
    };
    let mut begin = |piece: &LogPiece, last: Sequence| {
        if let Some(gap) = &piece.gap {
            tell_of_gap(collector, gap, last.saturating_add(1).min(gap.until));
        }
    };
    let last = check.run(&inspection.pieces, threads, &mut begin, &mut |group| {
        if let Some(Ok(tail)) = &mut tail {
            tail.take(&group);
        }
        fresh.take(&group);
        Ok(())
    })?;
    if let Some(gap) = &inspection.gap {
        tell_of_gap(collector, gap, last.saturating_add(1));
    }
    let incomplete = fresh.end();
    if let Some(Ok(tail)) = tail {
        behind = behind.or(tail.end());
    }
    Ok(Replayed { index, incomplete, behind, last })
}

fn tell_of_gap(collector: &Collector<'_>, gap: &LogGap, first: Sequence) {
    let lost = (first <= gap.until).then_some((first, gap.until));
    let fault = LogFault::of_file(gap.path.clone(), gap.reason, lost);
    collector.fault(FindingKind::LogFile, &fault);
}

fn tell_of_files(collector: &Collector<'_>, inspection: &Inspection, online: bool) {
    for fault in &inspection.faults {
        collector.fault(FindingKind::LogFile, fault);
    }
    for place in &inspection.lost_copies {
        collector.find(
            FindingKind::Suspicious,
            place.as_str(),
            "one of the two copies of the file header is damaged; the next start repairs it",
        );
    }
    for other in &inspection.others {
        match other {
            OtherLog::Headless(file) => collector.find(
                FindingKind::Suspicious,
                format!("log/{file:020}.log, byte 0"),
                "the file has content but no header: an interrupted start leaves that, or the header is gone",
            ),
            // A running store makes and replaces files.
            OtherLog::Unnamed(file) if !online => collector.find(
                FindingKind::Leftover,
                format!("log/{file:020}.log"),
                "nothing leads to this file of the log",
            ),
            OtherLog::Unnamed(_) | OtherLog::Spare(_) => {}
        }
    }
}

/// An index that follows the log from a record on.
struct Follower {
    writer: Writer,
    after: Sequence,
    bulk: bool,
    failed: Option<Error>,
}

impl Follower {
    fn new(writer: Writer, after: Sequence) -> Self {
        Self { writer, after, bulk: false, failed: None }
    }

    fn bulk(&mut self) -> Result<()> {
        self.bulk = true;
        self.writer.begin_bulk()
    }

    /// Applies the group at once; what is already there is passed over.
    fn take(&mut self, group: &EntryGroup) {
        if self.failed.is_some() || group.position.sequence <= self.after {
            return;
        }
        let entries = group.entries.iter().filter(|entry| entry.sequence > self.after);
        let applied: Vec<Applied<'_>> = entries.map(as_applied).collect();
        self.failed = self.writer.apply(&applied, &group.position.encode()).err();
    }

    /// Why it did not follow to the end, if it did not.
    fn end(mut self) -> Option<String> {
        if let Some(error) = self.failed {
            return Some(error.to_string());
        }
        if !self.bulk {
            return None;
        }
        match self.writer.end_salvage() {
            Ok(lacking) => lacking.map(|error| error.to_string()),
            Err(error) => Some(error.to_string()),
        }
    }
}

fn as_applied(entry: &Entry) -> Applied<'_> {
    Applied {
        sequence: entry.sequence,
        kind: entry.kind,
        record: &entry.record,
        payload: &entry.payload,
        location: entry.location,
    }
}
