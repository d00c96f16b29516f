//! Packs whose last chunk is dead while a new one is on its way into them. Other lives have too many chunks for that.

use std::sync::Arc;

use orcas_decide::Precondition;
use orcas_fs_testing::CrashPolicy;
use orcas_record::{BucketSettings, ObjectHeaders};

use crate::model::{Op, Payload};
use crate::store::{Run, Tally};
use crate::{Seed, durability};

const SEEDS: u64 = 12;
const ROUNDS: u64 = 24;
const STEPS: u64 = 24;
/// One in so many captures is cut.
const CUT: u64 = 4;

/// One object in chunks that comes and goes, applied or not, with steps of reclamation in between.
pub fn live(seed: u64, tally: &Arc<Tally>) {
    let _named = Seed(seed);
    let mut run = Run::new(seed, durability(seed), tally, CUT, |_| {});
    run.holds = false;
    run.limits.freed_min = 1;
    run.begin_following();
    run.round(vec![Op::CreateBucket { name: "one".into(), settings: BucketSettings::default() }]);
    let known = run.model().buckets.values().find_map(|held| held.id);
    let Some(bucket) = known else { return };
    for round in 0..ROUNDS {
        let (key, precondition) = ("a".into(), Precondition::default());
        if round % 2 == 0 {
            let length = 5_000 + run.rng.below(20_000) as usize;
            let body = Payload::new(vec![run.rng.next() as u8; length].into());
            let headers = ObjectHeaders::default();
            run.round(vec![Op::Put { bucket, key, body, chunked: true, headers, precondition }]);
        } else {
            run.round(vec![Op::Delete { bucket, key, precondition }]);
            run.apply();
        }
        run.maybe_follow();
        let steps = run.rng.below(STEPS);
        run.reclaim(steps);
        if run.rng.below(3) == 0 {
            run.apply();
        }
    }
    run.follow_to_the_end();
    run.compare();
    run.crash(CrashPolicy::Drop);
}

#[test]
fn an_empty_pack_goes_only_if_nothing_comes_into_it() {
    let tally = Arc::new(Tally::default());
    for seed in 1..=SEEDS {
        live(seed, &tally);
    }
    println!("{} distinct disk images", tally.images());
}
