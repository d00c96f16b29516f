//! When quotas are counted, whom that keeps waiting, and that the sums follow whatever is decided.

use std::sync::Arc;

use bytes::Bytes;

use super::super::super::seal_stored::first_batch;
use super::super::super::{ReclaimLimits, Step};
use super::super::sealing::OneKey;
use super::super::steps::{Steps, Submitted};
use super::super::support::noise;
use crate::commit::queue::Stall;
use orcas_base::error::Error;
use orcas_catalog::{VersionScanRow, VersionStart};
use orcas_checksum::Md5Hasher;
use orcas_decide::{
    AttributeChange, BucketChange, Failure, Intent, Move, Outcome, Precondition, PutPart, Quota, QuotaOf, Refusal,
    UpdateVersion,
};
use orcas_fs_testing::{CrashPolicy, Fault, Operation, SimDisk, SimRng};
use orcas_record::{Bucket, BucketSettings, DocumentKind, Versioning};

const MERGES: ReclaimLimits =
    ReclaimLimits { live_max: 0.0, freed_min: u64::MAX, output_max: 0, compact: false, hurry: false };

fn quota(bucket: &Bucket, bytes: Option<u64>) -> Intent {
    let document = Quota { bytes, versions: None }.to_document().into();
    Intent::PutDocument { bucket: bucket.id, kind: DocumentKind::Quota, document }
}

fn snapshot(bucket: &Bucket, name: &'static str) -> Intent {
    Intent::CreateSnapshot { bucket: bucket.id, name: name.into() }
}

fn forget(bucket: &Bucket, name: &'static str) -> Intent {
    Intent::DeleteSnapshot { bucket: bucket.id, name: name.into() }
}

fn delete(bucket: &Bucket, key: &str) -> Intent {
    let (key, precondition) = (Bytes::copy_from_slice(key.as_bytes()), Precondition::default());
    Intent::DeleteObject { bucket: bucket.id, key, precondition, version: None, bypass: false }
}

/// Runs it however often the index has to follow first.
fn run(steps: &mut Steps, intent: Intent) -> Result<Outcome, Failure> {
    let submitted = steps.submit(intent);
    settle(steps, &submitted);
    submitted.answer()
}

fn settle(steps: &mut Steps, submitted: &Submitted) {
    while !submitted.is_answered() {
        if steps.stepper().awaits_index() {
            steps.apply();
        }
        steps.stepper().commit();
    }
}

fn put(steps: &mut Steps, bucket: &Bucket, key: &str, length: usize) -> Result<(), Failure> {
    let intent = steps.intent(bucket, key, &noise(length, length as u64));
    run(steps, intent).map(drop)
}

fn exceeded(result: Result<(), Failure>) -> bool {
    matches!(result, Err(Failure::Refused(Refusal::QuotaExceeded { of: QuotaOf::BucketBytes, .. })))
}

/// A bucket that may hold 1000 bytes and holds 600, and one without a quota. The index has not all of it.
fn limited(steps: &mut Steps) -> [Arc<Bucket>; 2] {
    let [limited, free] = ["limited", "free"].map(|name| steps.bucket(name));
    for (bucket, key) in [(&limited, "a"), (&limited, "b"), (&free, "a"), (&free, "b")] {
        put(steps, bucket, key, 300).unwrap();
    }
    run(steps, quota(&limited, Some(1_000))).unwrap();
    [limited, free]
}

#[test]
fn an_index_that_cannot_follow_refuses_only_what_may_exceed_a_quota() {
    for stall in [Stall::Space, Stall::Damage] {
        let mut steps = Steps::new();
        let [limited, free] = limited(&mut steps);
        let upload = Intent::CreateUpload {
            bucket: limited.id,
            key: "u".into(),
            headers: Default::default(),
            attributes: Default::default(),
            checksum: None,
        };
        let Ok(Outcome::Upload(upload)) = run(&mut steps, upload) else { panic!("no upload") };
        steps.shared().applies.stall(stall);
        run(&mut steps, delete(&limited, "a")).unwrap();
        run(&mut steps, delete(&free, "a")).unwrap();
        run(&mut steps, Intent::AbortUpload { bucket: limited.id, key: "u".into(), upload, idle_since_ms: None })
            .unwrap();
        put(&mut steps, &free, "c", 5_000).unwrap();
        run(&mut steps, snapshot(&limited, "s")).unwrap();
        let refused = put(&mut steps, &limited, "c", 10);
        assert!(
            matches!(refused, Err(Failure::Engine(Error::StorageFull | Error::IndexDamaged { .. }))),
            "{stall:?}: {refused:?}"
        );
        // All of it is counted once the index follows.
        steps.apply();
        assert!(exceeded(put(&mut steps, &limited, "c", 701)));
        put(&mut steps, &limited, "c", 700).unwrap();
        assert!(exceeded(put(&mut steps, &limited, "d", 1)));
    }
}

#[test]
fn only_a_write_under_a_quota_waits_for_the_index_and_only_once() {
    let mut steps = Steps::new();
    let [limited, free] = limited(&mut steps);
    let awaits = |steps: &mut Steps, intent: Intent| {
        let submitted = steps.submit(intent);
        steps.stepper().commit();
        let awaits = steps.stepper().awaits_index();
        settle(steps, &submitted);
        submitted.answer().unwrap();
        awaits
    };
    let small = |steps: &Steps, bucket: &Bucket| steps.intent(bucket, "c", b"x");
    let (of_free, of_limited) = (small(&steps, &free), small(&steps, &limited));
    assert!(!awaits(&mut steps, of_free));
    assert!(awaits(&mut steps, of_limited));
    // From there on the sums follow what is decided.
    let other = steps.bucket("other");
    for intent in [
        Intent::DeleteBucket { bucket: other.id },
        snapshot(&limited, "first"),
        snapshot(&free, "first"),
        delete(&limited, "a"),
        snapshot(&limited, "second"),
        forget(&limited, "first"),
        quota(&limited, Some(900)),
    ] {
        assert!(!awaits(&mut steps, intent));
        let next = small(&steps, &limited);
        assert!(!awaits(&mut steps, next));
    }
}

#[test]
fn what_was_durable_before_counting_keeps_its_answer_if_the_next_batch_fails() {
    let disk = SimDisk::new();
    let mut steps = Steps::on(&disk, |_| {});
    let [limited, free] = limited(&mut steps);
    let first = steps.intent(&free, "first", b"first");
    let second = steps.intent(&limited, "second", b"second");
    let [first, second] = [first, second].map(|intent| steps.submit(intent));
    // That of the first is the next one.
    disk.fail(Operation::Sync, 2, Fault::Io, false);
    settle(&mut steps, &first);
    settle(&mut steps, &second);
    first.answer().unwrap();
    assert!(matches!(second.answer(), Err(Failure::Engine(Error::Io { .. }))));
    assert_eq!(steps.get(&free, "first"), b"first");
    let disk = disk.crash(&mut SimRng::new(1), CrashPolicy::Drop);
    let after = Steps::on(&disk, |_| {});
    assert_eq!(after.get(&free, "first"), b"first");
    assert!(after.handle().object(limited.id, &Bytes::from_static(b"second")).unwrap().is_none());
}

#[test]
fn what_a_failed_batch_would_have_added_does_not_count() {
    let disk = SimDisk::new();
    let mut steps = Steps::on(&disk, |_| {});
    let [limited, _] = limited(&mut steps);
    put(&mut steps, &limited, "counted", 100).unwrap();
    disk.fail(Operation::Sync, 1, Fault::Io, false);
    assert!(matches!(put(&mut steps, &limited, "c", 300), Err(Failure::Engine(Error::Io { .. }))));
    put(&mut steps, &limited, "d", 300).unwrap();
    assert!(exceeded(put(&mut steps, &limited, "e", 1)));
}

/// Both what is followed and what was counted, by bucket and by owner.
fn check_sums(steps: &mut Steps) {
    let followed = steps.stepper().committer.quotas.sums_now();
    if followed.is_none() {
        return;
    }
    steps.apply();
    let committer = &mut steps.stepper().committer;
    let buckets = Arc::clone(&committer.buckets);
    let counted = steps.shared().catalog.index.read().unwrap().all_counts().unwrap();
    let quotas = &mut steps.stepper().committer.quotas;
    quotas.count(&buckets, &counted);
    assert_eq!(followed, quotas.sums_now());
}

/// It ends and begins anew in one decision.
#[test]
fn sums_follow_an_upload_that_is_sealed() {
    let mut steps = Steps::new();
    steps.handle().keys().set(OneKey::new(7));
    let [limited, _] = limited(&mut steps);
    let (bucket, key) = (limited.id, Bytes::from_static(b"u"));
    let (headers, attributes) = (Default::default(), Default::default());
    let create = Intent::CreateUpload { bucket, key: key.clone(), headers, attributes, checksum: None };
    let Ok(Outcome::Upload(upload)) = run(&mut steps, create) else { panic!("no upload") };
    for number in 1..3 {
        let bytes = noise(100, number.into());
        let (size, body) = (bytes.len() as u64, steps.body(&limited, &bytes));
        let (key, md5) = (key.clone(), Md5Hasher::digest(&bytes));
        let put = PutPart { bucket, key, upload, number, size, md5, checksum: None, computed: None, body };
        run(&mut steps, Intent::PutPart(Box::new(put))).unwrap();
    }
    assert!(exceeded(put(&mut steps, &limited, "c", 201)));
    steps.apply();
    let sealing = first_batch(steps.handle(), &limited).unwrap().unwrap();
    run(&mut steps, sealing).unwrap();
    assert!(steps.stepper().committer.quotas.sums_now().is_some());
    check_sums(&mut steps);
    run(&mut steps, Intent::AbortUpload { bucket, key, upload, idle_since_ms: None }).unwrap();
    check_sums(&mut steps);
}

const NAMES: [&str; 3] = ["s", "t", "u"];

fn create(rng: &mut SimRng) -> Intent {
    Intent::CreateBucket {
        name: ["one", "two"][rng.below(2) as usize].into(),
        owner: "root".into(),
        location: Bytes::new(),
        settings: BucketSettings::default(),
        object_lock: false,
        documents: Vec::new(),
    }
}

/// Something about layers or objects of one of the buckets, at random.
fn some(steps: &Steps, rng: &mut SimRng) -> Intent {
    let pick = |rng: &mut SimRng| NAMES[rng.below(3) as usize];
    let buckets = steps.handle().buckets();
    if buckets.is_empty() {
        return create(rng);
    }
    let bucket = &buckets[rng.below(buckets.len() as u64) as usize];
    let key = ["a", "b", "c", "d"][rng.below(4) as usize];
    match rng.below(26) {
        22 => {
            let versioning = [Versioning::Enabled, Versioning::Suspended][rng.below(2) as usize];
            Intent::UpdateBucket { bucket: bucket.id, change: BucketChange::Versioning(versioning) }
        }
        23..26 => some_version(steps, rng, bucket, key),
        20 | 21 => Intent::MoveObject(Box::new(Move {
            from_bucket: bucket.id,
            from_key: key.into(),
            from_conditions: Default::default(),
            bucket: buckets[rng.below(buckets.len() as u64) as usize].id,
            key: "moved".into(),
            precondition: Precondition::default(),
        })),
        0..8 => steps.intent(bucket, key, &noise(1 + rng.below(900) as usize, 1)),
        8..12 => delete(bucket, key),
        12 | 13 => snapshot(bucket, pick(rng)),
        14 => forget(bucket, pick(rng)),
        15 => Intent::RestoreBucket { bucket: bucket.id, snapshot: pick(rng).into() },
        16 => Intent::ForkBucket {
            bucket: bucket.id,
            snapshot: None,
            name: ["fork", "again"][rng.below(2) as usize].into(),
        },
        17 => Intent::DeleteBucket { bucket: bucket.id },
        18 => quota(bucket, Some(2_000 + rng.below(3_000))),
        _ => create(rng),
    }
}

/// Something about a version that one of the layers has: its deletion, or other tags.
fn some_version(steps: &Steps, rng: &mut SimRng, bucket: &Bucket, key: &'static str) -> Intent {
    let layer = bucket.stack()[rng.below(bucket.stack().len() as u64) as usize];
    let start = VersionStart::From(Bytes::from_static(key.as_bytes()));
    let (rows, _) = orcas_catalog::scan_versions(&steps.shared().catalog, layer, &start, 3).unwrap();
    let row = rows.into_iter().last().filter(|_| bucket.versioning != Versioning::Unversioned);
    let Some(VersionScanRow { key, id, .. }) = row else { return delete(bucket, key) };
    let (bucket, version, precondition) = (bucket.id, Some(id), Precondition::default());
    if rng.below(2) == 0 {
        return Intent::DeleteObject { bucket, key, precondition, version, bypass: false };
    }
    let change = AttributeChange::Tags(vec![("t".into(), rng.below(9).to_string().into())]);
    Intent::UpdateVersion(Box::new(UpdateVersion { bucket, key, version, change }))
}

#[test]
fn sums_follow_snapshots_forks_restores_and_merges() {
    let (mut followed, mut merges) = (0, 0);
    for seed in 0..25 {
        let mut steps = Steps::new();
        let mut rng = SimRng::new(seed);
        steps.bucket("one");
        if seed % 3 == 0 {
            steps.handle().set_owner_quotas([("root".into(), Quota { bytes: Some(9_000), versions: Some(20) })].into());
        }
        for _ in 0..60 {
            let intent = some(&steps, &mut rng);
            match run(&mut steps, intent) {
                Ok(_) | Err(Failure::Refused(_)) => {}
                Err(Failure::Engine(error)) => panic!("{error}"),
            }
            if rng.below(4) == 0 {
                steps.apply();
                for _ in 0..6 {
                    merges += usize::from(steps.stepper().reclaim(&MERGES).unwrap() != Step::Idle);
                    steps.stepper().commit();
                    steps.apply();
                }
            }
            followed += usize::from(steps.stepper().committer.quotas.is_counted());
            check_sums(&mut steps);
        }
    }
    assert!(followed > 500 && merges > 100, "{followed} {merges}");
}
