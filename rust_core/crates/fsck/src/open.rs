//! A check while the store is open: everything up to one position of the log.

use std::path::Path;
use std::sync::Arc;

use super::closed::places;
use super::collect::Collector;
use super::journal::check_journal;
use super::owners::Owners;
use super::present::{COPY_NAME, PresentIndex, open_copy, unreadable};
use super::sealed::tags::AuthTagCheck;
use super::subject::Subject;
use super::{CheckOptions, CheckProgress, CheckReport, Phase};
use orcas_base::error::{Error, Result};
use orcas_fs::FileSystem;
use orcas_fs::scratch::ScratchDir;
use orcas_index::Index;
use orcas_log::LogPosition;
use orcas_record::Sequence;
use orcas_store::{ContentKeys, StoreKeys};

/// A store that is open, whose content stays in its place during the check.
pub struct OpenStore<'a> {
    pub fs: &'a Arc<dyn FileSystem>,
    pub data: &'a Path,
    pub keys: &'a StoreKeys,
    pub content_keys: Option<&'a dyn ContentKeys>,
    pub index: &'a Index,
    /// Where the log ends, as far as the index has it.
    pub applied: LogPosition,
}

/// Checks what the store holds at this moment, while it goes on, and tells `damaged` of every blob that is. Blocking: it
/// reads everything.
///
/// # Errors
/// What kept the check from going on. Damage is no error: it is in the report.
pub fn check_open(
    store: OpenStore<'_>,
    options: &CheckOptions,
    progress: &CheckProgress,
    damaged: &mut dyn FnMut(Sequence),
) -> Result<CheckReport> {
    let OpenStore { fs, data, keys, content_keys, index, applied } = store;
    progress.enter(Phase::Start);
    let collector = &Collector::new(options, progress, data.to_owned());
    let scratch = &ScratchDir::new()?;
    check_journal(collector, &**fs, data);
    let copy = scratch.path().join(COPY_NAME);
    let present = match index.copy_to(&copy) {
        Ok(()) => open_copy(collector, copy, keys.store_id)?,
        Err(Error::IndexDamaged { reason }) => unreadable(collector, &reason),
        Err(error) => return Err(error),
    };
    // The index holds durable batches only, so the log up to its position does not change any more.
    let end = Some(match &present {
        PresentIndex::Copied(copied) => copied.position.clone().unwrap_or(LogPosition::ORIGIN),
        PresentIndex::Absent | PresentIndex::Unreadable(_) => applied,
    });
    let (log, packs) = places(data, keys);
    let (fs, owners, live) = (Arc::clone(fs), Owners::new(keys.clone()), Some(index));
    let tags = AuthTagCheck::new(content_keys);
    let checked = Subject { fs, log, packs, owners, present, end, live, scratch, tags, options, collector }.check();
    collector.damage().blobs().for_each(damaged);
    checked
}
