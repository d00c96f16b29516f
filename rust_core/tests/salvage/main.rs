//! Stores damaged at random, in one to a hundred places, with files cut or missing: what a salvage gives is what was
//! stored, and every object of which no byte was hit is given.
//!
//! A hundred stores by default; `ORCAS_SALVAGE=N` takes N, `ORCAS_SALVAGE_SEED=N` repeats one and tells what was done.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the suite changes files by hand")]

#[path = "../flips/store.rs"]
#[allow(dead_code, unused_imports, reason = "the store of another suite, of which not everything is wanted here")]
mod store;

mod damage;
mod judge;
mod places;
#[cfg(feature = "planted")]
mod planted;
mod versions;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

use damage::Plan;
use judge::{Bench, Tally};

const STORES: u64 = 100;
const THREADS: u64 = 2;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|value| value.parse().unwrap_or_else(|_| panic!("{name} is a number")))
}

#[test]
fn a_store_without_damage_is_whole() {
    for bench in benches() {
        let mut tally = Tally::default();
        for index in [damage::Index::Kept, damage::Index::Missing] {
            let report = bench.run(&Plan { index, ..Plan::nothing() }, &mut tally).unwrap();
            assert!(report.is_whole() && report.doubtful == 0 && report.made_up.is_empty(), "{report:#?}");
            assert_eq!((report.deleted, report.records), (0, report.authenticated));
        }
        assert_eq!(tally.given, 2 * bench.objects());
    }
}

/// What compaction replaced counts no more, even where it is still there: what ended the objects in it was dropped.
#[test]
fn log_files_that_were_replaced_bring_nothing_back() {
    let bench = Bench::new(store::with_replaced_files(store::LARGE));
    let mut tally = Tally::default();
    for index in [damage::Index::Kept, damage::Index::Missing] {
        let report = bench.run(&Plan { index, ..Plan::nothing() }, &mut tally).unwrap();
        assert!(report.is_whole() && report.doubtful == 0 && report.made_up.is_empty(), "{report:#?}");
    }
    assert_eq!(tally.given, 2 * bench.objects());
}

/// Everything but what the objects stand in: headers of all files, both copies of the keys, the index.
#[test]
fn without_headers_keys_and_index_every_object_is_given() {
    for bench in benches() {
        let mut tally = Tally::default();
        let plan = Plan { index: damage::Index::Missing, ..Plan::headless(&bench.built.files) };
        let report = bench.run(&plan, &mut tally).unwrap();
        assert!(!report.keys && report.losses_total == 0, "{report:#?}");
        assert_eq!(tally.given, bench.objects());
    }
}

#[test]
fn what_was_not_hit_is_given_and_nothing_else() {
    let seeds: Vec<u64> = match number("ORCAS_SALVAGE_SEED") {
        Some(seed) => vec![seed],
        None => (1..=number("ORCAS_SALVAGE").unwrap_or(STORES)).collect(),
    };
    let benches = benches();
    let next = AtomicU64::new(0);
    let (tallies, failures) = (Mutex::new(Tally::default()), Mutex::new(BTreeMap::new()));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                let mut tally = Tally::default();
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    let bench = &benches[(*seed % benches.len() as u64) as usize];
                    let plan = Plan::random(*seed, &bench.built);
                    if seeds.len() == 1 {
                        println!("{plan:#?}");
                    }
                    let run = catch_unwind(AssertUnwindSafe(|| bench.run(&plan, &mut tally)));
                    let failed = match run {
                        Ok(Ok(report)) => {
                            if seeds.len() == 1 {
                                println!("{report:#?}");
                            }
                            continue;
                        }
                        Ok(Err(what)) => what,
                        Err(_) => "panicked".to_owned(),
                    };
                    failures.lock().insert(*seed, failed);
                }
                tallies.lock().add(&tally);
            });
        }
    });
    let (tally, failures) = (tallies.into_inner(), failures.into_inner());
    println!("{tally:?}");
    for (seed, what) in failures.iter().take(20) {
        println!("ORCAS_SALVAGE_SEED={seed}: {what}");
    }
    assert!(failures.is_empty(), "{} of {} stores", failures.len(), seeds.len());
    assert!(seeds.len() < 50 || tally.lost > 0 && tally.given > 0 && tally.stale > 0, "the damage does nothing");
}

fn benches() -> [Bench; 2] {
    [Bench::new(store::closed(store::LARGE)), Bench::new(store::killed(store::LARGE))]
}
