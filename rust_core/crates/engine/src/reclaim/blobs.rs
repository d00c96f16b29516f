//! Dead blobs: their choice and their condemnation.
//!
//! Invariants. A blob is chosen when the index counts no reference to it, and checked again when the index has
//! everything that was decided before the choice. Then every reader that may have found it through an object must end.
//! Then the committer condemns it, if nothing has referred to it since.

use std::collections::HashSet;

use super::super::maintenance::MaintenanceIntent;
use super::limits::Step;
use super::work::{Activity, DeferredRemoval, FollowUp, Reclaimer};
use orcas_base::error::Result;
use orcas_base::planted::{self, Bug};
use orcas_record::{BlobLocation, Sequence};

/// Blobs that one decision condemns: a few milliseconds of the committer's time.
const CONDEMN_AT_A_TIME: usize = 1_024;
/// Blobs chosen at a time.
const CHOSEN_AT_A_TIME: usize = 16_384;

impl Reclaimer {
    /// Blobs without references become candidates. What refers to them from now on takes them off; what was decided
    /// before is waited for, so that the index knows of it.
    pub(super) fn choose_blobs(&mut self) -> Result<Option<Step>> {
        let mut dead = self.shared.catalog.index.read()?.dead_blobs(self.cursor, CHOSEN_AT_A_TIME)?;
        dead.retain(|(blob, _)| *blob <= self.limit);
        let Some((last, _)) = dead.last() else {
            // From the beginning next time: what was passed over may be free by then.
            self.cursor = 0;
            return Ok(None);
        };
        self.cursor = *last;
        self.shared.reclaim.candidates.choose(dead.iter().map(|(blob, _)| *blob));
        if planted::is(Bug::CondemnWithoutBarrier) {
            self.activity = Activity::Chosen { epoch: self.shared.catalog.epochs.end(), blobs: dead };
            return Ok(Some(Step::Worked { bytes: 0 }));
        }
        Ok(Some(self.submit(MaintenanceIntent::Barrier { roll: false }, FollowUp::Settled(dead), Activity::Idle)))
    }

    pub(super) fn condemn(&mut self, epoch: u64, mut blobs: Vec<(Sequence, BlobLocation)>) -> Step {
        if !self.shared.catalog.epochs.is_over(epoch) && !planted::is(Bug::CondemnWithoutReaders) {
            self.activity = Activity::Chosen { epoch, blobs };
            return Step::Waiting;
        }
        let rest = blobs.split_off(blobs.len().min(CONDEMN_AT_A_TIME));
        let then = if rest.is_empty() { Activity::Idle } else { Activity::Chosen { epoch, blobs: rest } };
        let intent = MaintenanceIntent::CondemnBlobs { blobs: blobs.iter().map(|(blob, _)| *blob).collect() };
        self.submit(intent, FollowUp::Condemned(blobs), then)
    }

    /// What was decided before the choice is in the index. A blob that is referred to now was mentioned too early to be
    /// taken off the candidates: should its object go too, that object's readers are none of the epoch that ends here.
    pub(super) fn settled(&mut self, mut blobs: Vec<(Sequence, BlobLocation)>) -> Result<()> {
        let referred = match self.referred(&blobs) {
            Ok(referred) => referred,
            Err(error) => {
                self.give_up(&FollowUp::Settled(blobs));
                return Err(error);
            }
        };
        blobs.retain(|(blob, _)| !referred.contains(blob));
        self.shared.reclaim.candidates.drop(referred.into_iter());
        if !blobs.is_empty() {
            // Who found an object that led to them did so in this epoch at the latest.
            self.activity = Activity::Chosen { epoch: self.shared.catalog.epochs.end(), blobs };
        }
        Ok(())
    }

    /// The blobs to which the index counts references.
    fn referred(&self, blobs: &[(Sequence, BlobLocation)]) -> Result<HashSet<Sequence>> {
        let mut referred = HashSet::new();
        if planted::is(Bug::CondemnWithoutSecondLook) {
            return Ok(referred);
        }
        let reader = self.shared.catalog.index.read()?;
        for (blob, _) in blobs {
            if reader.blob_refs(*blob)? != Some(0) {
                referred.insert(*blob);
            }
        }
        Ok(referred)
    }

    pub(super) fn condemned(&mut self, blobs: &[(Sequence, BlobLocation)], condemned: &[Sequence]) {
        let mut done = self.done.lock();
        for (_, location) in blobs.iter().filter(|(blob, _)| condemned.binary_search(blob).is_ok()) {
            done.blobs += 1;
            done.condemned_bytes += u64::from(location.length());
            match *location {
                BlobLocation::Log { at, length } => self.estimates.condemned(at.file(), u64::from(length)),
                BlobLocation::Pack { at, .. } => {
                    self.swept.remove(&at.pack());
                    self.passed.remove(&at.pack());
                }
            }
        }
        drop(done);
        self.shared.reclaim.candidates.drop(blobs.iter().map(|(blob, _)| *blob));
        self.defer([DeferredRemoval::Blobs(condemned.to_vec())]);
    }
}
