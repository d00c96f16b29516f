//! The bytes and versions that buckets and owners with a quota hold, as of everything decided, and whether a decision
//! may add to them.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::changes::Changes;
use super::published::{OF_BUCKET, OF_OWNER, PublishedUsage, QuotaUsage};
use crate::commit::view::CommitterView;
use orcas_base::error::Result;
use orcas_catalog::BucketTable;
use orcas_decide::{Failure, Held, Quota, Refusal};
use orcas_index::Counts;
use orcas_record::{Bucket, BucketId, BucketRole, DocumentKind, Record};

type Counted = HashMap<BucketId, Counts>;

#[derive(Default)]
pub(crate) struct QuotaLedger {
    owners: Arc<HashMap<Bytes, Quota>>,
    /// The sums; `None`: to be counted before the next decision.
    sums: Option<Sums>,
    shown: Shown,
}

/// The part of `sums` that is published.
#[derive(Default)]
struct Shown {
    usage: Option<Arc<QuotaUsage>>,
    /// Changed since.
    buckets: Vec<BucketId>,
    owners: Vec<Bytes>,
    /// Other buckets or owners are counted than before.
    anew: bool,
}

/// The bytes and versions of buckets with a quota, and of those whose owners have one.
#[cfg_attr(test, derive(Clone, Debug, PartialEq, Eq))]
#[derive(Default)]
struct Sums {
    /// Under each id of these buckets.
    ids: HashMap<BucketId, Held>,
    /// The buckets whose objects or uploads are under an id.
    under: HashMap<BucketId, Vec<BucketId>>,
    buckets: HashMap<BucketId, Held>,
    owners: HashMap<Bytes, Held>,
}

/// The change of the sums by a decision, once its records are decided.
#[derive(Default)]
pub(crate) struct Change {
    ids: HashMap<BucketId, Held>,
    buckets: HashMap<BucketId, Held>,
    owners: HashMap<Bytes, Held>,
    /// Ids that nothing is under yet.
    created: Vec<BucketId>,
    /// Other buckets have a quota than before, or other layers.
    restructures: bool,
}

impl QuotaLedger {
    /// Quotas of owners, from now on.
    pub fn set_owners(&mut self, owners: &Arc<HashMap<Bytes, Quota>>) {
        if !Arc::ptr_eq(&self.owners, owners) {
            self.owners = Arc::clone(owners);
            self.forget();
        }
    }

    /// Whether anybody has a quota.
    pub fn limits(&self, buckets: &BucketTable) -> bool {
        buckets.documents().in_use(DocumentKind::Quota) > 0 || !self.owners.is_empty()
    }

    /// Drops the sums: they are counted again.
    pub fn forget(&mut self) {
        self.sums = None;
        self.shown.anew = true;
    }

    /// Shows what is held. Everything that was decided is published.
    pub fn show(&mut self, published: &PublishedUsage) {
        let Shown { usage, buckets, owners, anew } = &mut self.shown;
        if std::mem::take(anew) {
            buckets.clear();
            owners.clear();
            let shown =
                self.sums.as_ref().map(|sums| Arc::new(QuotaUsage::new(sums.buckets.iter(), sums.owners.iter())));
            if shown.is_some() || usage.is_some() {
                usage.clone_from(&shown);
                published.show(shown);
            }
        }
        if let (Some(usage), Some(sums)) = (usage, &self.sums) {
            for bucket in buckets.drain(..) {
                usage.set_bucket(bucket, sums.buckets.get(&bucket).copied().unwrap_or_default());
            }
            for owner in owners.drain(..) {
                usage.set_owner(&owner, sums.owners.get(&owner).copied().unwrap_or_default());
            }
        }
        published.end();
    }

    pub fn is_counted(&self) -> bool {
        self.sums.is_some()
    }

    /// The sums, for comparison.
    #[cfg(test)]
    pub fn sums_now(&self) -> Option<impl PartialEq + std::fmt::Debug + use<>> {
        self.sums.clone()
    }

    /// Begins anew. `counted`: the counts of an index that has everything that was decided.
    pub fn count(&mut self, buckets: &BucketTable, counted: &Counted) {
        self.sums = self.sums(buckets, |id| Some(held_under(buckets, id, counted)));
        self.shown.anew = true;
    }

    /// `under`: what there is under an id. `None` if that is not known of one that matters.
    fn sums(&self, buckets: &BucketTable, under: impl Fn(BucketId) -> Option<Held>) -> Option<Sums> {
        let mut sums = Sums::default();
        for bucket in buckets.all().filter(|bucket| self.counts(buckets, bucket)) {
            for id in ids_of(bucket) {
                let held = under(id)?;
                sums.ids.insert(id, held);
                sums.under.entry(id).or_default().push(bucket.id);
                *sums.buckets.entry(bucket.id).or_default() += held;
                if self.owners.contains_key(&bucket.owner) {
                    *sums.owners.entry(bucket.owner.clone()).or_default() += held;
                }
            }
        }
        Some(sums)
    }

    /// Whether it matters what a bucket holds.
    pub fn counts(&self, buckets: &BucketTable, bucket: &Bucket) -> bool {
        quota_of(buckets, bucket.id).is_some() || self.owners.contains_key(&bucket.owner)
    }

    /// The changes that the records of a decision make. `vacant`: nothing is where versions move to. `counted`: for a
    /// decision that makes or restores a fork, as of `count`.
    ///
    /// # Errors
    /// A quota would be exceeded, or what is there cannot be looked up.
    pub fn judge(
        &self,
        view: &CommitterView<'_>,
        records: &[Record],
        (grows, vacant): (bool, bool),
        counted: Option<&Counted>,
    ) -> Result<Change, Failure> {
        let none = Sums::default();
        let sums = self.sums.as_ref().unwrap_or(&none);
        let counts = |bucket: BucketId| sums.ids.contains_key(&bucket);
        let mut changes = Changes::new(view, &counts, vacant);
        let mut change = Change::default();
        for record in records {
            changes.add(record)?;
            change.note(view.buckets, record);
        }
        change.ids = changes.held;
        for (id, by) in &change.ids {
            for bucket in sums.under.get(id).into_iter().flatten() {
                *change.buckets.entry(*bucket).or_default() += *by;
            }
        }
        for (bucket, by) in &change.buckets {
            if let Some(bucket) = view.buckets.by_id(*bucket).filter(|it| self.owners.contains_key(&it.owner)) {
                *change.owners.entry(bucket.owner.clone()).or_default() += *by;
            }
        }
        if let Some(counted) = counted.filter(|_| change.restructures) {
            self.check_restructured(view.buckets, records, counted)?;
        }
        if grows {
            self.check(view.buckets, sums, &change)?;
        }
        Ok(change)
    }

    fn check(&self, buckets: &BucketTable, sums: &Sums, change: &Change) -> Result<(), Refusal> {
        for (bucket, by) in &change.buckets {
            if let Some(quota) = quota_of(buckets, *bucket) {
                let held = sums.buckets.get(bucket).copied().unwrap_or_default();
                quota.check(held, *by, OF_BUCKET)?;
            }
        }
        for (owner, by) in &change.owners {
            if let Some(quota) = self.owners.get(owner) {
                quota.check(sums.owners.get(owner).copied().unwrap_or_default(), *by, OF_OWNER)?;
            }
        }
        Ok(())
    }

    /// Checks buckets that get other layers.
    fn check_restructured(&self, before: &BucketTable, records: &[Record], counted: &Counted) -> Result<(), Refusal> {
        let mut after = before.clone();
        records.iter().filter(|record| BucketTable::concerns(record)).for_each(|record| after.apply(record));
        let mut owners: HashMap<&Bytes, (Held, Held)> = HashMap::new();
        for record in records {
            let (Record::CreateBucket(bucket) | Record::UpdateBucket(bucket)) = record else { continue };
            if bucket.role != BucketRole::Bucket {
                continue;
            }
            let former = before.by_id(bucket.id).map_or_else(Held::default, |it| held(before, it, counted));
            let by = difference(held(&after, bucket, counted), former);
            if let Some(quota) = quota_of(&after, bucket.id) {
                quota.check(former, by, OF_BUCKET)?;
            }
            if self.owners.contains_key(&bucket.owner) {
                owners.entry(&bucket.owner).or_default().1 += by;
            }
        }
        for (owner, (mut sum, by)) in owners {
            before.all().filter(|bucket| bucket.owner == *owner).for_each(|it| sum += held(before, it, counted));
            self.owners.get(owner).map_or(Ok(()), |quota| quota.check(sum, by, OF_OWNER))?;
        }
        Ok(())
    }

    /// The records of a decision are decided.
    pub fn add(&mut self, buckets: &BucketTable, change: Change) {
        let Some(sums) = &mut self.sums else { return };
        for (id, by) in change.ids {
            *sums.ids.entry(id).or_default() += by;
        }
        for (bucket, by) in change.buckets {
            *sums.buckets.entry(bucket).or_default() += by;
            self.shown.buckets.push(bucket);
        }
        for (owner, by) in change.owners {
            *sums.owners.entry(owner.clone()).or_default() += by;
            self.shown.owners.push(owner);
        }
        if change.restructures {
            let mut known = std::mem::take(&mut sums.ids);
            known.extend(change.created.into_iter().map(|id| (id, Held::default())));
            self.sums = self.sums(buckets, |id| known.get(&id).copied());
            self.shown.anew = true;
        }
    }
}

impl Change {
    /// Notes what a record does to buckets and layers.
    fn note(&mut self, buckets: &BucketTable, record: &Record) {
        match record {
            Record::CreateBucket(bucket) => {
                self.created.push(bucket.id);
                self.restructures = true;
            }
            Record::UpdateBucket(bucket) => {
                let former = buckets.by_id(bucket.id);
                self.restructures |= former.is_none_or(|it| it.layers != bucket.layers || it.role != bucket.role);
            }
            Record::DeleteBucket { .. } | Record::PutDocument { kind: DocumentKind::Quota, .. } => {
                self.restructures = true;
            }
            _ => {}
        }
    }
}

/// The ids under which a bucket has objects, and that of its uploads.
fn ids_of(bucket: &Bucket) -> impl Iterator<Item = BucketId> {
    let own = Some(bucket.id).filter(|id| !bucket.stack().contains(id));
    bucket.stack().iter().copied().chain(own)
}

fn held(buckets: &BucketTable, bucket: &Bucket, counted: &Counted) -> Held {
    let mut sum = Held::default();
    ids_of(bucket).for_each(|id| sum += held_under(buckets, id, counted));
    sum
}

/// Amendments are no versions of their own, but refer to content as those do.
fn held_under(buckets: &BucketTable, id: BucketId, counted: &Counted) -> Held {
    counted.get(&id).map_or_else(Held::default, |counts| Held {
        bytes: counts.logical.cast_signed(),
        versions: if buckets.is_amendments(id) { 0 } else { (counts.objects + counts.history).cast_signed() },
    })
}

fn difference(after: Held, before: Held) -> Held {
    Held { bytes: after.bytes - before.bytes, versions: after.versions - before.versions }
}

/// The quota of a bucket, if it has one.
fn quota_of(buckets: &BucketTable, bucket: BucketId) -> Option<Quota> {
    let document = buckets.documents().get(bucket, DocumentKind::Quota)?;
    document.parsed(Quota::from_document).as_deref().copied()
}
