//! The journal of events as a check sees it. Damage there costs events only, so it is no damage of the store.

use std::path::Path;

use super::FindingKind;
use super::collect::Collector;
use orcas_base::error::Result;
use orcas_fs::FileSystem;
use orcas_journal::{JournalExamined, examine};

pub(super) fn check_journal(collector: &Collector<'_>, fs: &dyn FileSystem, data: &Path) -> Result<()> {
    let JournalExamined { damaged, .. } = examine(fs, data)?;
    for (path, offset) in damaged {
        let place = format!("{}, byte {offset}", path.display());
        collector.find(FindingKind::Suspicious, place, "events from here to the end of this file are lost".to_owned());
    }
    Ok(())
}
