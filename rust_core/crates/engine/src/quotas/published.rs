//! The bytes and versions that buckets and owners with a quota hold as of what is published, for whoever asks before a
//! decision. Only the committer changes them, once per round. A reader waits for nobody while the same buckets and
//! owners have quotas. If it also reads what is published, it can tell whether both are of one moment: the number of
//! rounds is odd in between.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use orcas_base::sync::RwLock;
use orcas_base::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering};
use orcas_decide::{Held, QuotaOf};
use orcas_record::BucketId;

pub(super) const OF_BUCKET: [QuotaOf; 2] = [QuotaOf::BucketBytes, QuotaOf::BucketVersions];
pub(super) const OF_OWNER: [QuotaOf; 2] = [QuotaOf::OwnerBytes, QuotaOf::OwnerVersions];

/// A number of bytes and one of versions.
#[derive(Default)]
struct Shown {
    bytes: AtomicI64,
    versions: AtomicI64,
}

/// The bytes and versions of everybody with a quota. Made anew when others have one; the numbers change in place.
#[derive(Default)]
pub(crate) struct QuotaUsage {
    buckets: HashMap<BucketId, Shown>,
    owners: HashMap<Bytes, Shown>,
}

/// The usage that the committer has shown last, if it knows what is held.
#[derive(Default)]
pub(crate) struct PublishedUsage {
    known: AtomicBool,
    /// Odd from before something is published until what is held is shown.
    rounds: AtomicU64,
    latest: RwLock<Option<Arc<QuotaUsage>>>,
}

impl Shown {
    fn new(held: Held) -> Self {
        Self { bytes: AtomicI64::new(held.bytes), versions: AtomicI64::new(held.versions) }
    }

    fn set(&self, held: Held) {
        self.bytes.store(held.bytes, Ordering::Relaxed);
        self.versions.store(held.versions, Ordering::Relaxed);
    }

    fn get(&self) -> Held {
        Held { bytes: self.bytes.load(Ordering::Relaxed), versions: self.versions.load(Ordering::Relaxed) }
    }
}

impl QuotaUsage {
    pub fn new<'a>(
        buckets: impl Iterator<Item = (&'a BucketId, &'a Held)>,
        owners: impl Iterator<Item = (&'a Bytes, &'a Held)>,
    ) -> Self {
        Self {
            buckets: buckets.map(|(id, held)| (*id, Shown::new(*held))).collect(),
            owners: owners.map(|(owner, held)| (owner.clone(), Shown::new(*held))).collect(),
        }
    }

    pub fn bucket(&self, bucket: BucketId) -> Option<Held> {
        self.buckets.get(&bucket).map(Shown::get)
    }

    pub fn owner(&self, owner: &Bytes) -> Option<Held> {
        self.owners.get(owner).map(Shown::get)
    }

    pub fn set_bucket(&self, bucket: BucketId, held: Held) {
        self.buckets.get(&bucket).into_iter().for_each(|shown| shown.set(held));
    }

    pub fn set_owner(&self, owner: &Bytes, held: Held) {
        self.owners.get(owner).into_iter().for_each(|shown| shown.set(held));
    }
}

impl PublishedUsage {
    pub fn show(&self, usage: Option<Arc<QuotaUsage>>) {
        self.known.store(usage.is_some(), Ordering::Relaxed);
        // Readers do not wait while the old one is freed.
        let old = std::mem::replace(&mut *self.latest.write(), usage);
        drop(old);
    }

    /// Something is about to be published.
    pub fn begin(&self) {
        self.rounds.fetch_or(1, Ordering::SeqCst);
    }

    /// Ends a change: the published sums are shown.
    pub fn end(&self) {
        let rounds = self.rounds.load(Ordering::Relaxed);
        if rounds % 2 == 1 {
            self.rounds.store(rounds + 1, Ordering::SeqCst);
        }
    }

    /// The usage, unless it is about to change, and the moment for `is_of`.
    pub fn latest(&self) -> Option<(Arc<QuotaUsage>, u64)> {
        if !self.known.load(Ordering::Relaxed) {
            return None;
        }
        let moment = self.rounds.load(Ordering::SeqCst);
        let usage = self.latest.read().clone()?;
        moment.is_multiple_of(2).then_some((usage, moment))
    }

    /// Whether nothing was published since that moment.
    pub fn is_of(&self, moment: u64) -> bool {
        self.rounds.load(Ordering::SeqCst) == moment
    }
}
