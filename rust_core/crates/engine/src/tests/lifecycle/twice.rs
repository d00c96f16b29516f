//! Lifecycle of a random history, with layers and without.

use std::collections::BTreeMap;
use std::sync::Arc;

use bytes::Bytes;

use super::super::lifecycle::layers::{
    DAY, DOCUMENTS, Seen, delete, fork, set_rules, set_versioning, snapshot, tags, update, with_name,
};
use super::super::steps::Steps;
use orcas_catalog::VersionStart;
use orcas_decide::{AttributeChange, Failure, Intent, Refusal};
use orcas_fs_testing::{SimDisk, SimRng};
use orcas_lifecycle::DAY_MS;
use orcas_record::{Bucket, BucketId, VersionId, Versioning};

/// Some noon.
const NOON_MS: u64 = 20_000 * DAY_MS + DAY_MS / 2;

/// One history twice: in a bucket without layers, and in one with snapshots that is now and then replaced by its fork.
struct Twice {
    steps: Steps,
    rng: SimRng,
    plain: Bytes,
    layered: Bytes,
    /// What snapshots and buckets that were forked showed.
    kept: BTreeMap<(Bytes, Option<Bytes>), Vec<Seen>>,
    names: u64,
    removed: u64,
    amended: usize,
}

impl Twice {
    fn new(seed: u64) -> Self {
        let mut steps = Steps::on(&SimDisk::new(), |_| {});
        steps.stop_clock(NOON_MS);
        let locked = seed.is_multiple_of(3);
        for name in ["plain", "layered"] {
            steps.run(with_name(name.into(), locked)).unwrap();
        }
        let (plain, layered) = ("plain".into(), "layered".into());
        let rng = SimRng::new(seed);
        let mut twice = Self { steps, rng, plain, layered, kept: BTreeMap::new(), names: 0, removed: 0, amended: 0 };
        if seed % 3 == 1 {
            twice.both(|bucket| set_versioning(bucket, Versioning::Enabled));
        }
        twice
    }

    fn buckets(&self) -> [Arc<Bucket>; 2] {
        [&self.plain, &self.layered].map(|name| self.steps.named(name))
    }

    /// Whether it was done; it is refused in both or in none.
    fn both(&mut self, intent: impl Fn(&Bucket) -> Intent) -> bool {
        let done = self.buckets().map(|bucket| match self.steps.run(intent(&bucket)) {
            Ok(_) => true,
            Err(Failure::Refused(_)) => false,
            Err(Failure::Engine(error)) => panic!("{error}"),
        });
        assert_eq!(done[0], done[1]);
        done[0]
    }

    fn new_name(&mut self, of: &str) -> Bytes {
        self.names += 1;
        format!("{of}{}", self.names).into()
    }

    /// The same version of both buckets.
    fn any_version(&mut self) -> Option<[(Bytes, VersionId); 2]> {
        let [plain, layered] = self.buckets().map(|bucket| self.steps.ids(&bucket));
        assert_eq!(plain.len(), layered.len());
        let at = self.rng.below(plain.len().max(1) as u64) as usize;
        Some([plain.get(at)?.clone(), layered.get(at)?.clone()])
    }

    fn of_version(&mut self, intent: impl Fn(&Bucket, &Bytes, VersionId) -> Intent) {
        let Some(found) = self.any_version() else { return };
        let buckets = self.buckets();
        let done = [0, 1].map(|at| {
            let (key, id) = &found[at];
            self.steps.run(intent(&buckets[at], key, *id)).is_ok()
        });
        assert_eq!(done[0], done[1]);
    }

    fn keep(&mut self, name: Bytes, snapshot: Option<Bytes>) {
        let seen = self.steps.seen(&self.steps.named(&name));
        self.kept.insert((name, snapshot), seen);
    }

    fn step(&mut self) {
        let key = Bytes::from(["a", "a/1", "b"][self.rng.below(3) as usize]);
        match self.rng.below(22) {
            0..6 => {
                let bytes = vec![0; 1 + self.rng.below(4) as usize];
                let text = String::from_utf8_lossy(&key).into_owned();
                for bucket in self.buckets() {
                    let put = self.steps.intent(&bucket, &text, &bytes);
                    self.steps.run(put).unwrap();
                }
            }
            6 => drop(self.both(|bucket| delete(bucket, &key, None))),
            7 | 8 => self.of_version(|bucket, key, id| {
                delete(bucket, key, Some(id).filter(|_| bucket.versioning != Versioning::Unversioned))
            }),
            9 | 10 => self.of_version(|bucket, key, id| update(bucket, key, id, tags())),
            11 => {
                let held = self.rng.below(2) == 0;
                self.of_version(|bucket, key, id| update(bucket, key, id, AttributeChange::LegalHold(held)));
            }
            12 => {
                let versioning = [Versioning::Enabled, Versioning::Suspended][self.rng.below(2) as usize];
                self.both(|bucket| set_versioning(bucket, versioning));
            }
            13 | 14 => self.snapshot(),
            15 => self.fork(),
            16 => self.steps.advance(DAY * self.rng.below(3) as u32),
            17 => {
                let document = self.rng.below(DOCUMENTS as u64).to_string();
                self.both(|bucket| set_rules(bucket, &document));
            }
            18 => self.forget(),
            19 => drop(self.steps.merge()),
            _ => self.expire(),
        }
    }

    fn snapshot(&mut self) {
        let name = self.new_name("s");
        let layered = self.steps.named(&self.layered);
        match self.steps.run(snapshot(&layered, &name)) {
            Ok(_) => self.keep(self.layered.clone(), Some(name)),
            Err(failure) => assert!(matches!(failure, Failure::Refused(Refusal::InvalidBucketState { .. }))),
        }
    }

    fn forget(&mut self) {
        let kept: Vec<_> = self.kept.keys().filter(|(_, snapshot)| snapshot.is_some()).cloned().collect();
        let Some((name, Some(snapshot))) = kept.get(self.rng.below(kept.len().max(1) as u64) as usize) else { return };
        let bucket = self.steps.named(name).id;
        self.steps.run(Intent::DeleteSnapshot { bucket, name: snapshot.clone() }).unwrap();
        self.kept.remove(&(name.clone(), Some(snapshot.clone())));
    }

    /// From now on, the fork is the bucket with layers.
    fn fork(&mut self) {
        let name = self.new_name("f");
        let layered = self.steps.named(&self.layered);
        match self.steps.run(fork(&layered, None, &name)) {
            Ok(_) => {
                self.steps.run(set_rules(&layered, "")).unwrap();
                self.keep(self.layered.clone(), None);
                self.layered = name;
            }
            Err(failure) => assert!(matches!(failure, Failure::Refused(Refusal::InvalidBucketState { .. }))),
        }
    }

    fn expire(&mut self) {
        let page = 1 + self.rng.below(4) as usize;
        self.steps.advance(DAY * self.rng.below(3) as u32);
        let before = self.buckets().map(|bucket| self.steps.seen(&bucket));
        assert_eq!(before[0], before[1]);
        let merges = self.rng.below(3) == 0;
        let mut report = self.steps.run_rules(page, |steps| {
            if merges {
                steps.merge();
            }
        });
        self.removed += report.versions + report.markers;
        // What was moved after it was found is left to the next run.
        while merges && report.removed() {
            report = self.steps.run_rules(page, |_| {});
        }
        let after = self.buckets().map(|bucket| self.steps.seen(&bucket));
        assert_eq!(after[0], after[1], "before: {before:#?}");
        let held = |seen: &[Seen]| seen.iter().filter(|it| it.held).cloned().collect::<Vec<_>>();
        assert_eq!(held(&before[1]), held(&after[1]));
        let amendments = self.steps.named(&self.layered).amendments();
        self.amended += usize::from(amendments.is_some_and(|layer| !self.is_empty(layer)));
    }

    fn is_empty(&self, layer: BucketId) -> bool {
        orcas_catalog::scan_versions(&self.steps.shared().catalog, layer, &VersionStart::From(Bytes::new()), 1)
            .unwrap()
            .0
            .is_empty()
    }

    /// Snapshots and what was forked are as they were.
    fn check_kept(&mut self) {
        for ((name, snapshot), seen) in std::mem::take(&mut self.kept) {
            let bucket = self.steps.named(&name);
            let Some(snapshot) = snapshot else {
                assert_eq!(self.steps.seen(&bucket), seen);
                continue;
            };
            let look = self.new_name("look");
            self.steps.run(fork(&bucket, Some(&snapshot), &look)).unwrap();
            assert_eq!(self.steps.seen(&self.steps.named(&look)), seen, "{name:?} {snapshot:?}");
        }
    }
}

#[test]
fn rules_remove_the_same_with_layers_and_without() {
    let (mut removed, mut amended) = (0, 0);
    for seed in 0..24 {
        let mut twice = Twice::new(seed);
        for _ in 0..120 {
            twice.step();
        }
        twice.expire();
        twice.check_kept();
        (removed, amended) = (removed + twice.removed, amended + twice.amended);
    }
    assert!(removed > 400 && amended > 60, "{removed} {amended}");
}
