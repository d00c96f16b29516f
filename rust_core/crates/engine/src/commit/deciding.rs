//! From an intent to records in the batch: what is asked of the store, of S3's rules and of quotas.

use std::collections::HashMap;

use super::super::maintenance::{MaintenanceIntent, MaintenanceOutcome};
use super::super::requirements::{
    SMALL_RECORDS_LEN, adds_content, durability, frees, may_be_long, new_packs, reshapes,
};
use super::Committer;
use orcas_base::error::Result;
use orcas_decide::{Context, Decision, Failure, Intent, Outcome, decide, records_len};
use orcas_index::Counts;
use orcas_record::{BucketId, Cause, Durability, UploadId};

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
        let births = self.unborn_packs(&new_packs(&intent));
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
        let (token, may_be_long, frees) = (intent.token(), may_be_long(&intent), frees(&intent));
        let Decision { outcome, records } = decide(&self.view(), &context, intent)?;
        let change = match self.quotas.is_counted() {
            true => Some(self.quotas.judge(&self.view(), &records, !frees, counted.as_ref())?),
            false => None,
        };
        if may_be_long && records_len(&records) > SMALL_RECORDS_LEN {
            self.check_space()?;
        }
        self.push_all(births, records, cause);
        change.into_iter().for_each(|change| self.quotas.add(change));
        if matches!(outcome, Outcome::Moved { .. }) {
            (self.bulk, self.moved.prefix) = (true, true);
        }
        token.into_iter().for_each(|token| self.tokens.add(&token));
        Ok(outcome)
    }

    /// Once a round: what a round brings is far less than the reserve.
    fn check_space(&mut self) -> Result<()> {
        self.space.get_or_insert_with(|| self.shared.check_space()).clone()
    }

    pub(super) fn maintain(&mut self, intent: MaintenanceIntent) -> Result<MaintenanceOutcome> {
        self.check_takes()?;
        let births = self.unborn_packs(&intent.new_packs());
        let merges = matches!(intent, MaintenanceIntent::MergeLayers { .. });
        let (outcome, records) = intent.decide(&self.view(), self.next_sequence + births.len() as u64)?;
        if merges && outcome.changed {
            self.moved.layer = true;
            self.quotas.forget();
        }
        self.push_all(births, records, &Cause::Engine);
        Ok(outcome)
    }

    /// Counts what everybody with a quota holds, unless that is known. For a decision that gives buckets other layers,
    /// returns what all of them hold.
    fn count_for_quotas(&mut self, intent: &Intent) -> Result<Option<HashMap<BucketId, Counts>>> {
        if !self.quotas.limits(&self.buckets) {
            self.quotas.forget();
            return Ok(None);
        }
        let reshapes = reshapes(intent);
        if self.quotas.is_counted() && !reshapes {
            return Ok(None);
        }
        // The index counts exactly what was decided once it has all of it.
        if let Err(error) = self.flush() {
            self.fail_round(&error);
            return Err(error);
        }
        self.shared.applies.wait_for(self.durable.sequence)?;
        let counted = self.shared.index.read()?.all_counts()?;
        self.quotas.count(&self.buckets, &counted);
        Ok(reshapes.then_some(counted))
    }
}
