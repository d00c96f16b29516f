//! Every way to add something, against what the index counts: a write is refused exactly if it would exceed a quota, and
//! what is refused before it is written would be refused by the decision.
//!
//! What a refused write would have done is found by doing it once more without quotas.

use std::sync::Arc;

use bytes::Bytes;

use super::super::steps::Steps;
use super::super::support::noise;
use crate::Addition;
use orcas_catalog::{ScanStart, VersionStart};
use orcas_checksum::Md5Hasher;
use orcas_decide::{
    Annotate, AnnotationChange, BucketChange, Complete, CompletePart, Copy, CopyAttributes, CopyHeaders, CopyPart,
    Expire, ExpireEntry, ExpiredPlace, Failure, Intent, Layers, Move, MovePrefix, ObjectAppend, Outcome, Precondition,
    PutPart, Quota, Refusal,
};
use orcas_fs_testing::SimRng;
use orcas_record::{Bucket, BucketId, DocumentKind, LayerKind, UploadId, VersionId, Versioning};

const LIMIT: Quota = Quota { bytes: Some(20_000), versions: Some(9) };
const KEYS: [&str; 6] = ["a/1", "a/2", "a/3", "b/1", "b/2", "c"];
/// What the engine is told that rules say: only a bucket with this document has something expire.
const RULES: &[u8] = b"rules";

type Held = (u64, u64);

struct Upload {
    id: UploadId,
    bucket: BucketId,
    key: &'static str,
    parts: Vec<CompletePart>,
}

struct Run {
    steps: Steps,
    rng: SimRng,
    /// The quotas are of the first bucket, or of the owner of both.
    of_owner: bool,
    uploads: Vec<Upload>,
    seed: u64,
    refused: usize,
    refused_early: usize,
    grown: usize,
    /// How often there were amendments.
    amended: usize,
}

/// How an intent is made, again if it has to be.
type Make<'a> = &'a dyn Fn(&Steps) -> Option<Intent>;

impl Run {
    fn new(seed: u64) -> Self {
        let mut run = Self {
            steps: Steps::new(),
            rng: SimRng::new(seed),
            of_owner: seed % 2 == 1,
            uploads: Vec::new(),
            seed: seed << 32,
            refused: 0,
            refused_early: 0,
            grown: 0,
            amended: 0,
        };
        for name in ["one", "two"] {
            let bucket = run.steps.bucket(name).id;
            let document = Bytes::from_static(RULES);
            run.steps.run(Intent::PutDocument { bucket, kind: DocumentKind::Lifecycle, document }).unwrap();
        }
        run.limit(LIMIT);
        run
    }

    fn bucket(&self, name: &str) -> Arc<Bucket> {
        self.steps.handle().bucket(name.as_bytes()).unwrap()
    }

    fn any_bucket(&mut self) -> Arc<Bucket> {
        let name = if self.rng.below(4) == 0 { "two" } else { "one" };
        self.bucket(name)
    }

    fn any_key(&mut self) -> &'static str {
        KEYS[self.rng.below(KEYS.len() as u64) as usize]
    }

    fn body(&mut self) -> Vec<u8> {
        self.seed += 1;
        noise([10, 700, 5_000, 9_000][self.rng.below(4) as usize], self.seed)
    }

    fn limit(&mut self, quota: Quota) {
        if self.of_owner {
            let none = quota.is_none();
            let quotas = [(Bytes::from_static(b"root"), quota)].into_iter().filter(|_| !none).collect();
            self.steps.handle().set_owner_quotas(quotas);
        } else {
            let (bucket, document) = (self.bucket("one").id, quota.to_document().into());
            self.execute(Intent::PutDocument { bucket, kind: DocumentKind::Quota, document }).unwrap();
        }
    }

    /// Runs it however often the index has to follow first.
    fn execute(&mut self, intent: Intent) -> Result<Outcome, Failure> {
        let submitted = self.steps.submit(intent);
        while !submitted.is_answered() {
            if self.steps.stepper().awaits_index() {
                self.steps.apply();
            }
            self.steps.stepper().commit();
        }
        submitted.answer()
    }

    /// What the quota limits, as the index counts it.
    fn held(&mut self) -> Held {
        self.steps.apply();
        let counted = self.steps.shared().catalog.index.read().unwrap().all_counts().unwrap();
        let mut held = (0, 0);
        for bucket in self.steps.handle().buckets().iter().filter(|it| self.of_owner || &it.name[..] == b"one") {
            let own = Some(&bucket.id).filter(|id| !bucket.stack().contains(id));
            for id in bucket.stack().iter().chain(own) {
                let counts = counted.get(id).copied().unwrap_or_default();
                let amends = self.steps.shared().catalog.kind(*id) == LayerKind::Amendments;
                // They are about versions of other layers.
                let versions = if amends { 0 } else { counts.objects + counts.history };
                held = (held.0 + counts.logical, held.1 + versions);
                self.amended += usize::from(amends && counts.objects + counts.history > 0);
            }
        }
        held
    }

    /// Does it, and checks that it is refused exactly if it has to be. `None`: it was refused for another reason.
    fn attempt(&mut self, make: Make<'_>) -> Option<Outcome> {
        let before = self.held();
        let intent = make(&self.steps)?;
        let frees = matches!(intent, Intent::DeleteObject { .. } | Intent::Expire(_) | Intent::AbortUpload { .. });
        let told = format!("{before:?} {intent:?}");
        match self.execute(intent) {
            Ok(outcome) => {
                let after = self.held();
                assert!(frees || allows(before, after), "{after:?} after {told}");
                self.grown += usize::from(after.0 > before.0);
                Some(outcome)
            }
            Err(Failure::Refused(Refusal::QuotaExceeded { .. })) => {
                assert_eq!(self.held(), before);
                assert!(!frees, "{told}");
                self.refused += 1;
                self.limit(Quota::default());
                let again = make(&self.steps)?;
                let outcome = self.execute(again).unwrap();
                let after = self.held();
                assert!(!allows(before, after), "{after:?} refused after {told}");
                self.limit(LIMIT);
                Some(outcome)
            }
            Err(Failure::Refused(_)) => {
                assert_eq!(self.held(), before);
                None
            }
            Err(Failure::Engine(error)) => panic!("{error}: {told}"),
        }
    }

    /// The same for what is compared with the quotas before it is written.
    fn attempt_upload(&mut self, bucket: &Bucket, adds: &Addition, bytes: usize, make: Make<'_>) -> Option<Outcome> {
        let handle = self.steps.handle();
        let (early, at_once) =
            (handle.check_room(bucket, adds, bytes as u64), handle.try_check_room(bucket, adds, bytes as u64));
        let (known, refused) = (self.steps.stepper().committer.quotas.is_counted(), self.refused);
        let outcome = self.attempt(make);
        let refused = self.refused > refused;
        // An append may add more than its bytes: in a bucket with versions, the whole object.
        assert!(!known || !refused || early.is_err() || matches!(adds, Addition::End), "{adds:?} of {bytes}");
        for early in [early, at_once.map_err(Failure::Refused)].into_iter().filter_map(Result::err) {
            assert!(matches!(early, Failure::Refused(Refusal::QuotaExceeded { .. })), "{early:?}");
            assert!(refused || outcome.is_none(), "{adds:?} of {bytes} was refused early");
            self.refused_early += 1;
        }
        outcome
    }

    fn step(&mut self) {
        let (bucket, key) = (self.any_bucket(), self.any_key());
        let name = Bytes::from_static(key.as_bytes());
        match self.rng.below(19) {
            0..3 => {
                let bytes = self.body();
                let adds = Addition::Object(name);
                self.attempt_upload(&bucket, &adds, bytes.len(), &|steps| Some(steps.intent(&bucket, key, &bytes)));
            }
            3 => {
                let bytes = self.body();
                let found = self.steps.handle().object_in(&bucket, &name).unwrap();
                let offset = found.map_or(0, |found| found.object.version.size);
                self.attempt_upload(&bucket, &Addition::End, bytes.len(), &|steps| {
                    let body = steps.handle().content().appended_body(&bucket, Bytes::copy_from_slice(&bytes));
                    let put = Steps::put_of(&bucket, key, &bytes, body);
                    Some(Intent::AppendObject(Box::new(ObjectAppend {
                        put,
                        offset,
                        user_metadata: false,
                        declared: None,
                    })))
                });
            }
            4 | 5 => {
                let text = self.body();
                let name = Bytes::from_static([&b"x"[..], b"y"][self.rng.below(2) as usize]);
                self.attempt(&|steps| Some(annotate(steps, &bucket, key, &name, &text)));
            }
            6 => {
                let (to, to_key) = (self.any_bucket(), self.any_key());
                self.attempt(&|_| Some(copy(&bucket, key, &to, to_key)));
            }
            7 => {
                let made = Intent::CreateUpload {
                    bucket: bucket.id,
                    key: name,
                    headers: Box::default(),
                    attributes: Default::default(),
                    checksum: None,
                };
                if let Some(Outcome::Upload(id)) = self.attempt(&|_| Some(made.clone())) {
                    self.uploads.push(Upload { id, bucket: bucket.id, key, parts: Vec::new() });
                }
            }
            8 | 9 => self.put_part(&bucket, key),
            10 => self.end_upload(),
            11 => self.delete(&bucket, key),
            12 => self.expire(&bucket),
            13 => {
                let changes = [Versioning::Enabled, Versioning::Suspended];
                let change = BucketChange::Versioning(changes[self.rng.below(2) as usize]);
                // Half of the runs have no versions, so that they can move things.
                if self.rng.below(4) == 0 && self.seed >> 32 & 2 == 0 {
                    let _ = self.execute(Intent::UpdateBucket { bucket: bucket.id, change });
                }
            }
            14 => {
                let (to, to_key) = (self.any_bucket(), self.any_key());
                self.attempt(&|_| {
                    Some(Intent::MoveObject(Box::new(Move {
                        from_bucket: bucket.id,
                        from_key: Bytes::from_static(key.as_bytes()),
                        from_conditions: Default::default(),
                        bucket: to.id,
                        key: Bytes::from_static(to_key.as_bytes()),
                        precondition: Precondition::default(),
                    })))
                });
            }
            15 | 16 => {
                let to = self.any_bucket();
                let prefixes = [["a/", "b/"], ["b/", "a/"], ["a/", "a/"]][self.rng.below(3) as usize];
                let request = MovePrefix {
                    from_bucket: bucket.id,
                    from_prefix: prefixes[0].into(),
                    bucket: to.id,
                    prefix: prefixes[1].into(),
                    overwrite: self.rng.below(2) == 0,
                    limit: 100,
                };
                self.attempt(&|steps| Some(steps.handle().move_intent(&request).unwrap()));
            }
            17 if self.seed >> 32 & 4 == 0 => {
                let snapshot = Bytes::from_static(b"s");
                let _ = self.execute(Intent::DeleteSnapshot { bucket: bucket.id, name: snapshot.clone() });
                let _ = self.execute(Intent::CreateSnapshot { bucket: bucket.id, name: snapshot });
            }
            18 => {
                let snapshot = Bytes::from_static(b"s");
                self.attempt(&|_| Some(Intent::RestoreBucket { bucket: bucket.id, snapshot: snapshot.clone() }));
            }
            _ => {}
        }
    }

    /// A part, uploaded or copied.
    fn put_part(&mut self, source: &Bucket, source_key: &'static str) {
        let Some(at) = (self.uploads.len() as u64).checked_sub(1).map(|last| self.rng.below(last + 1) as usize) else {
            return;
        };
        let Upload { id: upload, bucket, key, .. } = self.uploads[at];
        let bucket = self.steps.handle().buckets().into_iter().find(|it| it.id == bucket).unwrap();
        let number = 1 + self.rng.below(2) as u16;
        let md5;
        let put = if self.rng.below(2) == 0 {
            let bytes = self.body();
            md5 = Md5Hasher::digest(&bytes);
            self.attempt_upload(&bucket, &Addition::Part(upload, number), bytes.len(), &|steps| {
                Some(Intent::PutPart(Box::new(PutPart {
                    bucket: bucket.id,
                    key: key.into(),
                    upload,
                    number,
                    size: bytes.len() as u64,
                    md5,
                    checksum: None,
                    computed: None,
                    body: steps.body(&bucket, &bytes),
                })))
            })
        } else {
            let source_key = Bytes::from_static(source_key.as_bytes());
            md5 = [number as u8; 16];
            self.attempt(&|steps| {
                let found = steps.handle().object_in(source, &source_key).unwrap()?;
                Some(Intent::CopyPart(Box::new(CopyPart {
                    source: (source.id, source_key.clone(), None),
                    source_sequence: found.object.sequence,
                    source_conditions: Default::default(),
                    range: None,
                    bucket: bucket.id,
                    key: key.into(),
                    upload,
                    number,
                    md5,
                    checksum: None,
                })))
            })
        };
        if put.is_some() {
            let parts = &mut self.uploads[at].parts;
            parts.retain(|part| part.number != number);
            parts.push(CompletePart { number, md5, checksum: None });
            parts.sort_by_key(|part| part.number);
        }
    }

    fn end_upload(&mut self) {
        let Some(Upload { id: upload, bucket, key, mut parts }) = self.uploads.pop() else { return };
        // One that is not the last has to have 5 MiB.
        parts.truncate(1);
        if parts.is_empty() || self.rng.below(3) == 0 {
            self.attempt(&|_| Some(Intent::AbortUpload { bucket, key: key.into(), upload, idle_since_ms: None }));
            return;
        }
        self.attempt(&|_| {
            Some(Intent::CompleteUpload(Box::new(Complete {
                bucket,
                key: key.into(),
                upload,
                parts: parts.clone(),
                checksum: None,
                checksum_type: None,
                size: None,
                modified_ms: None,
                precondition: Precondition::default(),
            })))
        });
    }

    /// The versions in the top layer of a bucket, with versioning in all: key, id, and whether it is the newest.
    fn versions(&self, bucket: &Bucket) -> Vec<(Bytes, VersionId, bool)> {
        let shared = self.steps.shared();
        let rows = if bucket.amendments().is_some() {
            orcas_catalog::scan_histories(&shared.catalog, bucket.id, &ScanStart::from_prefix(Bytes::new()), 100)
                .unwrap()
                .rows
        } else {
            orcas_catalog::scan_versions(&shared.catalog, bucket.top(), &VersionStart::From(Bytes::new()), 100)
                .unwrap()
                .0
        };
        // The newest of a key comes first.
        let is_latest = |at: usize| at == 0 || rows[at - 1].key != rows[at].key;
        rows.iter().enumerate().map(|(at, row)| (row.key.clone(), row.id, is_latest(at))).collect()
    }

    /// Of an object, or of a version by its id.
    fn delete(&mut self, bucket: &Bucket, key: &'static str) {
        let versions = self.versions(bucket);
        let chosen = versions.get(self.rng.below(8) as usize).filter(|_| self.rng.below(2) == 0);
        let (key, version) = chosen.map_or((key.into(), None), |(key, id, _)| (key.clone(), Some(*id)));
        self.attempt(&|_| {
            Some(Intent::DeleteObject {
                bucket: bucket.id,
                key: key.clone(),
                version: version.filter(|_| bucket.versioning != Versioning::Unversioned),
                precondition: Precondition::default(),
                bypass: false,
            })
        });
    }

    fn expire(&mut self, bucket: &Bucket) {
        let mut entries = Vec::new();
        for (key, id, is_latest) in self.versions(bucket) {
            let found = if bucket.amendments().is_some() {
                self.steps.handle().version_in(bucket, &key, id).unwrap()
            } else {
                self.steps.handle().version(bucket.top(), &key, id).unwrap()
            };
            let Some(found) = found.filter(|_| self.rng.below(3) == 0) else { continue };
            let place = match (is_latest, found.object.version.delete_marker) {
                (true, true) => ExpiredPlace::LoneMarker,
                (true, false) => ExpiredPlace::Current,
                (false, _) => ExpiredPlace::Noncurrent(id),
            };
            entries.push(ExpireEntry { key, sequence: found.object.sequence, place, tags: None });
        }
        let top = bucket.amendments().map(|_| bucket.top());
        let expire = Expire { bucket: bucket.id, document: Bytes::from_static(RULES), top, entries };
        self.attempt(&|_| Some(Intent::Expire(Box::new(expire.clone()))));
    }
}

/// Whether LIMIT allows to go from `before` to `after`.
fn allows(before: Held, after: Held) -> bool {
    (after.0 <= before.0 || after.0 <= 20_000) && (after.1 <= before.1 || after.1 <= 9)
}

fn copy(bucket: &Bucket, key: &'static str, to: &Bucket, to_key: &'static str) -> Intent {
    Intent::CopyObject(Box::new(Copy {
        source: (bucket.id, key.into(), None),
        source_conditions: Default::default(),
        bucket: to.id,
        key: to_key.into(),
        modified_ms: None,
        precondition: Precondition::default(),
        headers: CopyHeaders::default(),
        attributes: CopyAttributes::default(),
        checksum: None,
    }))
}

fn annotate(steps: &Steps, bucket: &Bucket, key: &'static str, name: &Bytes, text: &[u8]) -> Intent {
    let change = if text.len() == 10 {
        AnnotationChange::Delete { bypass: false }
    } else {
        AnnotationChange::Put {
            md5: Md5Hasher::digest(text),
            checksum: None,
            body: Box::new(steps.handle().content().appended_body(bucket, Bytes::copy_from_slice(text))),
            encryption: None,
        }
    };
    let (key, name) = (key.into(), name.clone());
    Intent::Annotate(Box::new(Annotate { bucket: bucket.id, key, version: None, name, if_match: None, change }))
}

#[test]
fn whatever_is_done_is_refused_exactly_when_it_would_exceed_a_quota() {
    let (mut refused, mut early, mut grown, mut amended) = (0, 0, 0, 0);
    for seed in 0..16 {
        let mut run = Run::new(seed);
        for _ in 0..120 {
            run.step();
        }
        (refused, early, grown) = (refused + run.refused, early + run.refused_early, grown + run.grown);
        amended += run.amended;
    }
    assert!(refused > 100 && early > 50 && grown > 100 && amended > 100, "{refused} {early} {grown} {amended}");
}
