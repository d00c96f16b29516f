//! From an intent to records in the batch: consults the store, the rules of S3 and quotas.

use std::collections::HashMap;

use super::super::maintenance::{MaintenanceIntent, MaintenanceOutcome};
use super::super::quotas::Change;
use super::Committer;
use orcas_base::error::Result;
use orcas_decide::requirements::{
    SMALL_RECORDS_LEN, adds_content, adds_to, durability, frees, may_be_long, new_packs, reshapes,
};
use orcas_decide::{Context, Decision, Failure, Intent, Outcome, View, decide, records_len};
use orcas_index::Counts;
use orcas_record::{BucketId, BucketRole, Cause, Durability, Record, UploadId};

impl Committer {
    pub(super) fn durability(&self, intent: &Intent) -> Durability {
        durability(intent, |bucket| {
            let bucket = self.buckets.by_id(bucket);
            bucket.and_then(|bucket| bucket.settings.durability).unwrap_or(self.shared.options.durability)
        })
    }

    /// Whether anything is taken on now.
    fn check_takes(&self) -> Result<()> {
        self.shared.faults.check_writable()?;
        self.stuck.clone().map_or(Ok(()), Err)
    }

    pub(super) fn decide(&mut self, intent: Intent, cause: &Cause) -> Result<Outcome, Failure> {
        self.check_takes()?;
        let counted = self.count_for_quotas(&intent)?;
        if adds_content(&intent) {
            self.check_space()?;
        }
        let births = self.unrecorded_packs(&new_packs(&intent));
        let context = Context {
            now_ms: self.shared.clock.now_ms(),
            next_sequence: self.next_sequence + births.len() as u64,
            upload_id: match &intent {
                Intent::CreateUpload { .. } => self.upload_ids.next(&*self.shared.clock, &*self.shared.random)?,
                // Randomness costs a system call.
                _ => UploadId([0; 16]),
            },
            version_key: self.version_key,
        };
        let in_layer = self.seals_layer(&intent);
        let (token, may_be_long, frees) = (intent.token(), may_be_long(&intent), frees(&intent));
        let vacant = self.quotas.is_counted() && self.moves_to_vacant(&intent)?;
        let Decision { outcome, records } = decide(&self.view(), &context, intent)?;
        let change = self.judge(&records, (!frees, vacant), counted.as_ref())?;
        if may_be_long && records_len(&records) > SMALL_RECORDS_LEN {
            self.check_space()?;
        }
        self.push_all(births, records, cause);
        change.into_iter().for_each(|change| self.quotas.add(&self.buckets, change));
        if matches!(outcome, Outcome::Moved { .. }) {
            (self.bulk, self.moved.prefix) = (true, true);
        }
        // Versions of a layer were put again.
        self.moved.layer |= in_layer && matches!(outcome, Outcome::Sealed(_));
        token.into_iter().for_each(|token| self.tokens.add(&token));
        Ok(outcome)
    }

    /// Whether versions under an id that is in the stack of layers of a bucket are sealed.
    fn seals_layer(&self, intent: &Intent) -> bool {
        let Intent::SealStored(seal, _) = intent else { return false };
        let bucket = self.buckets.by_id(seal.layer);
        bucket.is_none_or(|bucket| bucket.role != BucketRole::Bucket || !bucket.layers.is_empty())
    }

    /// Once a round: what a round brings is far less than the reserve.
    fn check_space(&mut self) -> Result<()> {
        self.space.get_or_insert_with(|| self.shared.space.check()).clone()
    }

    pub(super) fn maintain(&mut self, intent: MaintenanceIntent) -> Result<MaintenanceOutcome> {
        self.check_takes()?;
        let births = self.unrecorded_packs(&intent.new_packs());
        let merges = matches!(intent, MaintenanceIntent::MergeLayers { .. });
        let (outcome, records) = intent.decide(&self.view(), self.next_sequence + births.len() as u64)?;
        self.moved.layer |= merges && outcome.changed;
        // Maintenance adds nothing, so it is not refused.
        let change = self.judge(&records, (false, false), None).ok().flatten();
        self.push_all(births, records, &Cause::Engine);
        change.into_iter().for_each(|change| self.quotas.add(&self.buckets, change));
        Ok(outcome)
    }

    /// Whether it is a prefix that moves, and to where nothing is.
    fn moves_to_vacant(&self, intent: &Intent) -> Result<bool> {
        let Intent::MovePrefix(moved, _) = intent else { return Ok(false) };
        self.view().each_object(moved.bucket, &moved.prefix, &mut |_, _| false)
    }

    /// The changes that records make to the sums of quotas, if those are known. A decision that only frees does not
    /// depend on knowing them.
    fn judge(
        &mut self,
        records: &[Record],
        (grows, vacant): (bool, bool),
        counted: Option<&HashMap<BucketId, Counts>>,
    ) -> Result<Option<Change>, Failure> {
        if !self.quotas.is_counted() {
            return Ok(None);
        }
        match self.quotas.judge(&self.view(), records, (grows, vacant), counted) {
            Err(Failure::Engine(_)) if !grows => {
                self.quotas.forget();
                Ok(None)
            }
            judged => judged.map(Some),
        }
    }

    /// Whether what everybody with a quota holds has to be counted before the intent is decided.
    fn must_count(&self, intent: &Intent) -> bool {
        self.quotas.limits(&self.buckets)
            && (!self.quotas.is_counted() || reshapes(intent))
            && adds_to(intent)
                .and_then(|bucket| self.buckets.by_id(bucket))
                .is_some_and(|bucket| self.quotas.counts(&self.buckets, bucket))
    }

    /// Whether the intent has to wait for the next round: the index counts exactly what was decided once all of it is
    /// durable and applied. It does not wait for an index that cannot follow.
    pub(super) fn must_wait_to_count(&self, intent: &Intent) -> bool {
        let decided = !self.batch.is_empty() || !self.unsynced.is_empty();
        self.must_count(intent) && self.check_takes().is_ok() && (decided || self.index_follows())
    }

    /// Whether the index lacks something durable and will get it.
    fn index_follows(&self) -> bool {
        let applies = &self.shared.applies;
        !applies.has(self.durable.sequence) && applies.stalled().is_none()
    }

    /// Whether the next round is to wait until the index has everything.
    pub fn awaits_index(&self) -> bool {
        self.counting && self.index_follows()
    }

    /// Counts what everybody with a quota holds, if the intent needs that. For a decision that gives buckets other layers,
    /// returns what all of them hold.
    fn count_for_quotas(&mut self, intent: &Intent) -> Result<Option<HashMap<BucketId, Counts>>> {
        if !self.quotas.limits(&self.buckets) {
            self.quotas.forget();
        }
        if !self.must_count(intent) {
            return Ok(None);
        }
        // It has been waited for, so this says why it cannot follow.
        self.shared.applies.wait_for(self.durable.sequence)?;
        let counted = self.shared.catalog.index.read()?.all_counts()?;
        self.quotas.count(&self.buckets, &counted);
        Ok(reshapes(intent).then_some(counted))
    }
}
