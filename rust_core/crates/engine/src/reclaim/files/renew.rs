//! A request that leaves nothing dead in files, however little space that frees: when all dead blobs are condemned, every
//! gap is punched out of the packs, and every log file is rewritten once.

use super::compaction::{Compaction, OUTPUT_MAX};
use super::left_to_renew::Renewal;
use super::pack_space::Sweep;
use crate::maintenance::MaintenanceIntent;
use crate::reclaim::limits::{ReclaimLimits, Step};
use crate::reclaim::work::{Activity, FollowUp, Reclaimer, passes_over};
use orcas_base::error::Result;
use orcas_log::SealedLog;
use orcas_record::PackId;

impl Reclaimer {
    /// Begins such a request, or none.
    pub(crate) fn renew(&mut self, renews: bool) -> Result<()> {
        self.renewal = None;
        if renews {
            let packs = self.shared.packs.files()?.into_iter().map(|file| file.pack).collect();
            self.renewal = Some(Renewal { packs, ..Renewal::default() });
        }
        Ok(())
    }

    /// Ends it. Whether something may be left in files; `None` if there is no such request.
    pub(crate) fn end_renewal(&mut self) -> Option<bool> {
        let renewal = self.renewal.take()?;
        let is_left = |log: &SealedLog| log.first <= self.limit && !renewal.logs.contains(&log.file);
        let logs = self.logs.sealed().iter().any(is_left);
        let busy = !matches!(self.activity, Activity::Idle) || !self.removals.is_empty();
        let packs = !renewal.packs.is_empty() || !self.shared.packs.has_holes();
        Some(logs || busy || packs)
    }

    pub(crate) fn choose_renewal(&mut self, limits: &ReclaimLimits) -> Result<Option<Step>> {
        if self.renewal.is_none() {
            return Ok(None);
        }
        if let Some(pack) = self.next_swept()? {
            let sweep = Sweep::new(&self.shared, pack)?;
            // What was decided before is waited for, since neither a pin nor the index shows it.
            let barrier = MaintenanceIntent::Barrier { seal: false };
            return Ok(Some(self.submit(barrier, FollowUp::Nothing, Activity::Sweeping(sweep))));
        }
        let sealed = self.settled_logs();
        let passed = |file| self.passed_logs.contains(&file) || self.logs.awaits_replacement(file);
        let most = limits.output_max.min(OUTPUT_MAX);
        let files = self.renewal.as_ref().map(|renewal| renewal.run(&sealed, most, &passed)).unwrap_or_default();
        if files.is_empty() {
            let waits = self.renewal.as_ref().is_some_and(|renewal| !renewal.packs.is_empty());
            return Ok(waits.then_some(Step::Waiting));
        }
        let begun = Compaction::begin(&self.shared, &self.logs, files.clone());
        let mut compaction =
            begun.inspect_err(|error| self.passed_logs.extend(files.iter().filter(|_| passes_over(error))))?;
        compaction.renews = true;
        self.activity = Activity::Rewriting(Box::new(compaction));
        Ok(Some(Step::Worked { bytes: 0 }))
    }

    /// The next pack to sweep: one that nobody writes to. It takes no more chunks from now on.
    fn next_swept(&mut self) -> Result<Option<PackId>> {
        let Some(renewal) = &mut self.renewal else { return Ok(None) };
        if renewal.packs.is_empty() {
            return Ok(None);
        }
        let files = self.shared.packs.files()?;
        renewal.packs.retain(|pack| files.iter().any(|file| file.pack == *pack));
        let reader = self.shared.catalog.index.read()?;
        let mut next = None;
        for pack in &renewal.packs {
            self.shared.packs.seal(*pack);
            // One that no record names is discarded as a whole.
            if self.shared.packs.is_idle(*pack) && reader.has_pack(*pack)? {
                next = Some(*pack);
                break;
            }
        }
        // It is not tried again if it cannot be swept: that is an error.
        if let Some(pack) = next {
            renewal.packs.remove(&pack);
        }
        Ok(next)
    }
}
