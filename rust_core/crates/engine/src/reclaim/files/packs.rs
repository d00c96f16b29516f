//! Space in packs: gaps that belong to no chunk are punched out, packs with little in them are emptied into others, and
//! empty ones are retired.

use std::collections::HashSet;
use std::time::Duration;

use super::pack_space::{Move, PackTask, Sweep, choose};
use crate::maintenance::MaintenanceIntent;
use crate::reclaim::limits::{ReclaimLimits, Step};
use crate::reclaim::work::{Activity, FollowUp, Reclaimer, passes_over};
use orcas_base::error::Result;
use orcas_base::planted::{self, Bug};
use orcas_record::PackId;

/// After this time packs and log files are looked at again in which there was nothing to do, or something in the way.
const PASSED_FOR: Duration = Duration::from_secs(600);
impl Reclaimer {
    pub(crate) fn choose_pack(&mut self, limits: &ReclaimLimits) -> Result<Option<Step>> {
        let left: HashSet<PackId> = self.removals.iter().filter_map(|(_, removal)| removal.vacated()).collect();
        let now = self.shared.clock.monotonic();
        if now.saturating_sub(self.passed_since) > PASSED_FOR {
            self.passed_since = now;
            self.swept.clear();
            self.passed.clear();
            self.passed_logs.clear();
        }
        let passed = |pack| self.passed.contains(&pack) || left.contains(&pack);
        let task = choose(&self.shared, limits, &self.swept, &passed)?;
        Ok(Some(match task {
            None => return Ok(None),
            Some(PackTask::Retire(pack)) => {
                self.submit(MaintenanceIntent::RetirePack { pack }, FollowUp::Retired(pack), Activity::Idle)
            }
            Some(PackTask::Seal(pack)) => {
                self.shared.packs.seal(pack);
                // Somebody still writes into it: later.
                if !self.shared.packs.is_idle(pack) {
                    self.passed.insert(pack);
                }
                Step::Worked { bytes: 0 }
            }
            // The pack is idle, so nothing new comes into it; what was decided before is waited for, since neither a
            // pin nor the index shows it.
            Some(PackTask::Sweep(pack)) => {
                let sweep = Sweep::new(&self.shared, pack)?;
                if planted::is(Bug::SweepWithoutBarrier) {
                    self.activity = Activity::Sweeping(sweep);
                    return Ok(Some(Step::Worked { bytes: 0 }));
                }
                self.submit(MaintenanceIntent::Barrier { seal: false }, FollowUp::Nothing, Activity::Sweeping(sweep))
            }
            Some(PackTask::Discard(pack)) => {
                self.submit(MaintenanceIntent::Barrier { seal: false }, FollowUp::Discarded(pack), Activity::Idle)
            }
            Some(PackTask::Empty(pack)) if limits.compact => self.submit(
                MaintenanceIntent::Barrier { seal: false },
                FollowUp::Nothing,
                Activity::Emptying(Move::new(pack)),
            ),
            Some(PackTask::Empty(pack)) => {
                self.passed.insert(pack);
                Step::Worked { bytes: 0 }
            }
        }))
    }

    /// Removes a pack that was idle, and not born, before a barrier.
    pub(crate) fn discard(&mut self, pack: PackId) -> Result<()> {
        // Should it stay, it is not looked at again at once.
        self.passed.insert(pack);
        if !self.shared.packs.unborn().contains(&pack) {
            return Ok(());
        }
        self.shared.packs.retire(pack)?;
        self.done.lock().packs += 1;
        Ok(())
    }

    pub(crate) fn sweep(&mut self, mut sweep: Sweep) -> Result<Step> {
        let swept = sweep.step(&self.shared);
        if swept.as_ref().is_err_and(passes_over) {
            self.passed.insert(sweep.pack);
        }
        match swept? {
            Some(freed) => {
                self.swept.insert(sweep.pack);
                self.done.lock().punched_bytes += freed;
            }
            None => self.activity = Activity::Sweeping(sweep),
        }
        Ok(Step::Worked { bytes: 0 })
    }

    pub(crate) fn empty(&mut self, mut moving: Move) -> Result<Step> {
        let pack = moving.pack;
        let stepped = moving.step(&self.shared);
        if stepped.as_ref().is_err_and(passes_over) {
            self.passed.insert(pack);
        }
        match stepped? {
            Some((intent, bytes)) => {
                self.done.lock().moved_bytes += bytes;
                self.submit(intent, FollowUp::Moved(pack), Activity::Emptying(moving));
                Ok(Step::Worked { bytes: 2 * bytes })
            }
            None => Ok(self.submit(MaintenanceIntent::RetirePack { pack }, FollowUp::Retired(pack), Activity::Idle)),
        }
    }
}
