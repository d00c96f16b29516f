//! Events of buckets with layers and versioning: those that clients would have caused without layers.

use std::num::NonZeroU8;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::super::super::{Change, ChangeKind, JournalCursor, Waiter};
use super::super::events::{EVENTS, read};
use super::super::support::Store;
use crate::Effort;
use crate::commit::waiter::ChannelSink;
use orcas_catalog::{ListVersions, ListedVersion, VersionSink};
use orcas_decide::{AttributeChange, BucketChange, Intent, Precondition, UpdateVersion};
use orcas_record::{Bucket, BucketId, Cause, RequestCause, VersionId, Versioning};

/// What a change was, whether a request caused it, its version, and the size of what was stored.
type Told = (ChangeKind, bool, Option<usize>, Option<u64>);

/// One history in two buckets, of which one gets a snapshot whenever `snapshot` is.
struct Versioned {
    store: Store,
    buckets: [Arc<Bucket>; 2],
    snapshots: u64,
}

impl Versioned {
    fn new() -> Self {
        let store = Store::with(|options| options.events = EVENTS);
        let buckets = ["plain", "layered"].map(|name| store.bucket(name));
        let mut both = Self { store, buckets, snapshots: 0 };
        both.set(Versioning::Enabled);
        both
    }

    fn present(&self, at: usize) -> Arc<Bucket> {
        self.store.handle().bucket(&self.buckets[at].name).unwrap()
    }

    fn set(&mut self, versioning: Versioning) {
        let change = BucketChange::Versioning(versioning);
        for bucket in &self.buckets {
            self.store.handle().execute(Intent::UpdateBucket { bucket: bucket.id, change }).unwrap();
        }
    }

    fn put(&self, key: &str, bytes: &[u8]) {
        self.buckets.iter().for_each(|bucket| self.store.put(bucket, key, bytes).unwrap());
    }

    fn snapshot(&mut self) {
        self.snapshots += 1;
        let name = Bytes::from(format!("s{}", self.snapshots));
        self.store.handle().execute(Intent::CreateSnapshot { bucket: self.buckets[1].id, name }).unwrap();
    }

    /// The ids of the versions of `k` in the order of a listing.
    fn ids(&self, at: usize) -> Vec<VersionId> {
        #[derive(Default)]
        struct Ids(Vec<VersionId>);
        impl VersionSink for Ids {
            fn version(&mut self, version: &ListedVersion<'_>) {
                self.0.push(version.id);
            }
            fn prefix(&mut self, _: &[u8]) {}
            fn restart(&mut self) {
                self.0.clear();
            }
        }
        let (mut ids, bucket) = (Ids::default(), self.present(at));
        let (prefix, delimiter, after) = (Bytes::from_static(b"k"), None, None);
        let list = ListVersions { bucket: bucket.id, prefix, delimiter, after, max_keys: 100 };
        let handle = self.store.handle();
        if bucket.layers.is_empty() {
            handle.list_versions_to(&list, &mut ids).unwrap();
        } else {
            orcas_catalog::list_histories(&handle.shared.catalog, &list, &mut ids).unwrap();
        }
        ids.0
    }

    fn each(&self, version: usize, intent: impl Fn(BucketId, VersionId) -> Intent) {
        for at in 0..2 {
            let operation = NonZeroU8::new(9).unwrap();
            let cause = Cause::Request(RequestCause { operation, request: 7, principal: [5; 32] });
            let (sink, answer) = ChannelSink::pair();
            self.store.handle().submit(intent(self.buckets[at].id, self.ids(at)[version]), cause, Waiter::new(sink, 0));
            answer.recv().unwrap().unwrap();
        }
    }

    fn delete(&self, version: usize) {
        self.each(version, |bucket, id| {
            let precondition = Precondition::default();
            Intent::DeleteObject { bucket, key: "k".into(), precondition, version: Some(id), bypass: false }
        });
    }

    fn tag(&self, version: usize, value: &'static str) {
        self.each(version, |bucket, id| {
            let change = AttributeChange::Tags(vec![("t".into(), value.into())]);
            Intent::UpdateVersion(Box::new(UpdateVersion { bucket, key: "k".into(), version: Some(id), change }))
        });
    }

    /// The changes of each bucket, with the names of versions replaced by their places among those that came.
    fn changes(&self) -> [Vec<Told>; 2] {
        self.store.handle().shared.events.settle(Duration::from_secs(10));
        let (changes, _) = read(&self.store.handle(), JournalCursor::Oldest);
        [0, 1].map(|at| {
            let mut names = Vec::new();
            let of = |change: &Change| {
                let place = change.version.map(|id| {
                    names.iter().position(|name| *name == id).unwrap_or_else(|| {
                        names.push(id);
                        names.len() - 1
                    })
                });
                let by_request = matches!(change.cause, Cause::Request(_));
                (change.kind, by_request, place, change.content.map(|(size, _)| size))
            };
            changes.iter().filter(|change| change.bucket_name == self.buckets[at].name).map(of).collect()
        })
    }
}

/// Also where a change of a version, or its removal, is written above the layer that has it.
#[test]
fn a_layered_bucket_with_versioning_has_the_events_of_one_without_layers() {
    let mut both = Versioned::new();
    both.put("k", b"1");
    both.put("k", b"22");
    both.put("k", b"333");
    both.snapshot();
    both.tag(1, "first");
    both.tag(1, "again");
    both.delete(1);
    both.put("k", b"4444");
    both.tag(0, "of the top layer");
    both.delete(0);
    both.set(Versioning::Suspended);
    both.put("k", b"null");
    both.snapshot();
    both.tag(0, "null");
    both.store.reopen();
    both.put("k", b"other null");
    // One deletion, of the null version in the top layer and of the one below it.
    both.delete(0);
    both.buckets.iter().for_each(|bucket| both.store.delete(bucket, "k").unwrap());
    both.delete(0);
    both.store.reopen();
    both.tag(0, "last");
    both.delete(0);
    both.delete(0);
    assert!([0, 1].iter().all(|at| both.ids(*at).is_empty()));
    let [plain, layered] = both.changes();
    assert_eq!(plain, layered);
    let count = |kind| layered.iter().filter(|change| change.0 == kind).count();
    assert_eq!(count(ChangeKind::Removed), 6);
    assert_eq!(count(ChangeKind::Updated), 5);
    assert_eq!(count(ChangeKind::Marked), 1);
    // What empties layers that a restore has given up is no change that clients made.
    let restore = Intent::RestoreBucket { bucket: both.buckets[1].id, snapshot: "s2".into() };
    both.store.handle().execute(restore).unwrap();
    assert_eq!(both.ids(1).len(), 3);
    both.store.handle().reclaim(Effort::Collect).unwrap();
    assert_eq!(both.changes()[1], layered);
    both.store
        .handle()
        .execute(Intent::DeleteObject {
            bucket: both.buckets[1].id,
            key: "k".into(),
            precondition: Precondition::default(),
            version: Some(both.ids(1)[2]),
            bypass: false,
        })
        .unwrap();
    assert_eq!(both.changes()[1].len(), layered.len() + 1);
}
