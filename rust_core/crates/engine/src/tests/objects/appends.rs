//! Objects that grow: what is read, what is kept of it, and what it costs.

use std::sync::Arc;
use std::time::Instant;

use bytes::Bytes;

use super::super::steps::Steps;
use super::super::support::{Store, noise};
use crate::Effort;
use orcas_checksum::Md5Hasher;
use orcas_decide::{Failure, Intent, ObjectAppend, Outcome, PutObject, Refusal};
use orcas_fs_testing::{CrashPolicy, SimDisk, SimRng};
use orcas_record::{Bucket, Durability};

fn append(put: PutObject, offset: u64) -> Intent {
    Intent::AppendObject(Box::new(ObjectAppend { put, offset, user_metadata: false, declared: None }))
}

impl Steps {
    fn append(&mut self, bucket: &Bucket, key: &str, offset: usize, bytes: &[u8]) -> Result<Outcome, Failure> {
        let body = match bytes.len() {
            ..=65_536 => self.handle().content().appended_body(bucket, Bytes::copy_from_slice(bytes)),
            _ => self.large_body(bucket, bytes),
        };
        self.run(append(Self::put_of(bucket, key, bytes, body), offset as u64))
    }
}

#[test]
fn what_was_appended_is_read_in_order_and_goes_with_its_object() {
    let mut steps = Steps::new();
    let bucket = steps.bucket("b");
    let mut whole = Vec::new();
    for turn in 0..150 {
        let bytes = noise([7, 100, 257, 1_000, 300_000][turn % 5 * usize::from(turn % 40 < 5)], turn as u64);
        steps.append(&bucket, "k", whole.len(), &bytes).unwrap();
        whole.extend_from_slice(&bytes);
        if turn % 30 == 0 {
            assert_eq!(steps.get(&bucket, "k"), whole);
            steps.apply();
            assert_eq!(steps.get(&bucket, "k"), whole);
        }
    }
    steps.apply();
    assert_eq!(steps.get(&bucket, "k"), whole);
    let manifest = steps.object(&bucket, "k").version.manifest.clone();
    assert!(manifest.len() < 64, "{}", manifest.len());
    steps.rebuild();
    assert_eq!(steps.get(&bucket, "k"), whole);
    assert_eq!(steps.object(&bucket, "k").version.manifest, manifest);
    let stored = |steps: &Steps| steps.shared().catalog.index.read().unwrap().totals().unwrap().stored;
    assert_eq!(stored(&steps), whole.len() as u64);
    steps.delete(&bucket, "k");
    steps.apply();
    assert_eq!(stored(&steps), 0);
}

#[test]
fn of_two_appends_in_one_batch_the_second_sees_the_first() {
    let mut steps = Steps::new();
    let bucket = steps.bucket("b");
    let intent = |steps: &Steps, offset, bytes: &[u8]| {
        let body = steps.handle().content().appended_body(&bucket, Bytes::copy_from_slice(bytes));
        append(Steps::put_of(&bucket, "k", bytes, body), offset)
    };
    let mut answers = Vec::new();
    for (offset, length) in [(0, 300), (0, 300), (300, 400), (700, 10)] {
        let next = intent(&steps, offset, &noise(length, offset));
        answers.push(steps.submit(next));
    }
    steps.stepper().commit();
    let answers: Vec<_> = answers.into_iter().map(|submitted| submitted.answer()).collect();
    assert!(matches!(answers[1], Err(Failure::Refused(Refusal::InvalidWriteOffset { size: 300 }))));
    assert!(answers.iter().enumerate().all(|(at, answer)| answer.is_ok() == (at != 1)));
    assert_eq!(steps.get(&bucket, "k"), [noise(300, 0), noise(400, 300), noise(10, 700)].concat());
}

#[test]
fn a_crash_leaves_what_was_acknowledged() {
    let disk = SimDisk::new();
    let mut steps = Steps::on(&disk, |_| {});
    let bucket = steps.bucket("b");
    let mut whole = Vec::new();
    for turn in 0..80u64 {
        let bytes = noise(300, turn);
        steps.append(&bucket, "k", whole.len(), &bytes).unwrap();
        whole.extend_from_slice(&bytes);
        if turn % 3 == 0 {
            steps.apply();
        }
        if turn % 7 == 0 {
            let after = Steps::on(&disk.crash(&mut SimRng::new(turn), CrashPolicy::Scatter), |_| {});
            assert_eq!(after.get(&bucket, "k"), whole);
        }
    }
}

/// A store of one object that was appended to `count` times.
fn grown(count: u64, length: usize, change: impl FnOnce(&mut crate::EngineOptions)) -> (Store, Arc<Bucket>, Vec<u8>) {
    let store = Store::with(change);
    let bucket = store.bucket("b");
    let mut whole = Vec::new();
    let mut begun = Instant::now();
    for turn in 0..count {
        let bytes = noise(length, turn);
        let body = store.handle().content().appended_body(&bucket, Bytes::copy_from_slice(&bytes));
        let put = PutObject { md5: Md5Hasher::digest(&bytes), body, ..store.small_put(&bucket, "k", &bytes) };
        store.handle().execute(append(put, whole.len() as u64)).unwrap();
        whole.extend_from_slice(&bytes);
        if turn % 2_000 == 1_999 {
            println!("{} appends: the last 2000 took {:.3} s", turn + 1, begun.elapsed().as_secs_f64());
            begun = Instant::now();
        }
    }
    (store, bucket, whole)
}

#[test]
fn compaction_keeps_what_an_object_that_grew_names() {
    let (mut store, bucket, whole) = grown(500, 300, |options| {
        options.durability = Durability::UnsafeNone;
        options.log_file_size = 128 << 10;
    });
    store.handle().reclaim(Effort::Compact).unwrap();
    assert_eq!(store.get(&bucket, "k").unwrap(), Some(whole.clone()));
    store.check_rebuild();
    assert_eq!(store.get(&bucket, "k").unwrap(), Some(whole));
}

#[test]
#[ignore = "a measurement, which takes a minute"]
fn how_long_ten_thousand_appends_take() {
    let (store, bucket, whole) = grown(10_000, 100, |options| {
        options.durability = Durability::UnsafeNone;
        options.log_file_size = 64 << 20;
    });
    println!("log: {:?}", store.handle().usage().unwrap().files);
    let begun = Instant::now();
    assert_eq!(store.get(&bucket, "k").unwrap(), Some(whole));
    println!("read in {:.3} s", begun.elapsed().as_secs_f64());
}
