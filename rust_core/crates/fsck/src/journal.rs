//! The journal of events as a check sees it. Damage there costs events only, so it is no damage of the store.

use std::path::Path;

use super::FindingKind;
use super::collect::Collector;
use orcas_fs::FileSystem;
use orcas_journal::{JournalExamined, examine};

/// What it cannot read is a finding too: neither a check nor a repair of the store ends because of the journal.
pub(super) fn check_journal(collector: &Collector<'_>, fs: &dyn FileSystem, data: &Path) {
    let JournalExamined { damaged, unreadable, .. } = examine(fs, data, &mut |_, _, _| true);
    for (path, reason) in unreadable {
        let said = format!("events cannot be read: {reason}");
        collector.find(FindingKind::Suspicious, path.display().to_string(), said);
    }
    for (path, offset) in damaged {
        let place = format!("{}, byte {offset}", path.display());
        collector.find(FindingKind::Suspicious, place, "events from here to the end of this file are lost".to_owned());
    }
}
