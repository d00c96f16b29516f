//! Every record about a bucket, a layer or a snapshot, damaged alone in a store without its index: after the repair, each
//! object is in some bucket or snapshot, or an earlier one is where it was.

use std::collections::BTreeSet;

use bytes::Bytes;
use orcas_engine::Handle;

use crate::judge::{Bench, frames};
use crate::observe::{self, Observed};
use crate::store::{self, Built, SMALL};
use crate::versions;
use crate::{Flip, Outcome};

/// CreateBucket, DeleteBucket and UpdateBucket.
pub const KINDS: [u8; 3] = [1, 2, 14];

/// The last byte of each such record.
fn places(built: &Built) -> Vec<Flip> {
    let logs = built.files.iter().filter(|(file, _)| file.ends_with(".log"));
    let of_file = |(file, bytes): (&String, &Vec<u8>)| {
        let wanted = frames(bytes).into_iter().filter(|frame| KINDS.contains(&frame.kind));
        wanted.map(|frame| Flip { file: file.clone(), offset: frame.payload.end - 1, mask: 1 }).collect::<Vec<_>>()
    };
    logs.flat_map(of_file).collect()
}

/// Objects that are in no bucket any more, without one from before in their place.
pub fn missing(handle: &Handle, built: &Built, wanted: &Observed) -> Vec<String> {
    let found = observe::observe(handle);
    let items = found.items.iter().map(|((_, key, _), item)| (key, &item.bytes[..]));
    // Snapshots are observed as their layers.
    let contents: BTreeSet<(&Bytes, &[u8])> = items.chain(versions::contents(&found.versions)).collect();
    let is_former = |name: &(_, Bytes, u16)| {
        let earlier = found.items.get(name).map(|item| &item.bytes[..]);
        let mut former = built.former.iter().filter(|(full, _)| full.as_bytes().ends_with(&name.1));
        earlier.is_some_and(|earlier| former.any(|(_, all)| all.iter().any(|bytes| bytes == earlier)))
    };
    let gone =
        wanted.items.iter().filter(|(name, item)| !contents.contains(&(&name.1, &item.bytes[..])) && !is_former(name));
    gone.map(|((bucket, key, part), _)| format!("{bucket:?} {key:?} {part}")).collect()
}

#[test]
fn a_damaged_record_about_a_bucket_costs_no_object() {
    let built = store::closed(SMALL);
    let bench = Bench::new(&built, false);
    let places = places(&built);
    assert!(places.len() >= 15, "{} records", places.len());
    let outcome = Outcome::default();
    places.iter().for_each(|flip| outcome.judge_repair(flip, bench.repair(&flip.file, flip.offset, flip.mask)));
    outcome.report("records about buckets");
}
