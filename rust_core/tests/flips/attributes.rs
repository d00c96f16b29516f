//! Every change of tags and locks, also of a version that a frozen layer has, and every document of a bucket, damaged alone
//! in a store without its index: the repair loses no version and unlocks none.

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use orcas_record::{self as record, BucketId, BucketRole, Record, UPDATE_VERSION};

use crate::judge::{Bench, Frame, frames};
use crate::store::{self, SMALL};
use crate::{Flip, Outcome};

const PUT_DOCUMENT: u8 = 23;

/// The last byte of each such record.
fn places(bench: &Bench<'_>) -> Vec<Flip> {
    let logs = || bench.built.files.iter().filter(|(file, _)| file.ends_with(".log"));
    let created = logs().flat_map(|(_, bytes)| frames(bytes).into_iter().filter_map(|frame| decoded(bytes, &frame)));
    let amendments: BTreeSet<BucketId> = created
        .filter_map(|record| match record {
            Record::CreateBucket(bucket) => (bucket.role == BucketRole::Amendments).then_some(bucket.id),
            _ => None,
        })
        .collect();
    let of_file = |(file, bytes): (&String, &Vec<u8>)| {
        let is_change = |frame: &Frame| {
            [UPDATE_VERSION, PUT_DOCUMENT].contains(&frame.kind)
                || matches!(decoded(bytes, frame), Some(Record::PutVersion(version)) if amendments.contains(&version.bucket))
        };
        let wanted = frames(bytes).into_iter().filter(is_change);
        wanted.map(|frame| Flip { file: file.clone(), offset: frame.payload.end - 1, mask: 1 }).collect::<Vec<_>>()
    };
    logs().flat_map(of_file).collect()
}

fn decoded(bytes: &[u8], frame: &Frame) -> Option<Record> {
    record::decode(frame.kind, &Bytes::copy_from_slice(&bytes[frame.payload.clone()])).ok()
}

/// What is wrong after such a repair: with one of the records by `seed`, or with all of them.
pub fn attempt(bench: &Bench<'_>, seed: Option<u64>) -> Option<String> {
    let places = places(bench);
    let chosen = seed.map_or(0..places.len(), |seed| {
        let at = seed as usize % places.len();
        at..at + 1
    });
    places[chosen].iter().find_map(|flip| {
        let outcome = Outcome::default();
        match catch_unwind(AssertUnwindSafe(|| bench.repair(&flip.file, flip.offset, flip.mask))) {
            Ok(repair) => outcome.judge_repair(flip, repair),
            Err(_) => outcome.fail(flip, "its repair panics".to_owned()),
        }
        outcome.failures.into_inner().pop()
    })
}

#[test]
fn a_damaged_change_of_tags_and_locks_costs_no_version_and_no_lock() {
    let built = store::closed(SMALL);
    let bench = Bench::new(&built, false);
    assert!(places(&bench).len() >= 16, "{} records", places(&bench).len());
    assert_eq!(attempt(&bench, None), None);
}
