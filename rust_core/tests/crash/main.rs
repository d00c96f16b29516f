//! The whole engine on a disk that loses power, single-stepped: clients, the committer, the applier and reclamation in any
//! order. After every operation of the disk, those of recovery included, the power is cut, what was not synced is
//! dropped, kept, reordered or torn, and the store that opens must be the model after some prefix of the sequenced
//! operations that holds every acknowledged one.
//!
//! `ORCAS_CRASH_SEED=N` repeats one seed, `ORCAS_CRASH_SEED=N..M` explores others; `ORCAS_SHARE=N` takes one Nth of the
//! usual lives. A seed that found something stays in `REGRESSIONS`.

mod faults;
#[path = "../flips/keys.rs"]
mod keys;
mod long;
mod model;
#[cfg(feature = "planted")]
mod planted;
mod store;
mod vacated;
mod workload;

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use orcas_fs_testing::CrashPolicy;
use orcas_record::Durability;

use store::{POLICIES, Run, Tally};
use workload::Workload;

/// Distinct disk images that a full run has to see, and how many of them must have been cut during reclamation.
const IMAGES_MIN: usize = 100_000;
const RECLAIMING_MIN: usize = 50_000;
const SEEDS: u64 = 128;
const THREADS: u64 = 2;
const LIVES: u64 = 3;
const ROUNDS: u64 = 14;

/// Seeds that failed once.
const REGRESSIONS: [u64; 1] = [13];

/// Says which seed it was when a test panics.
pub struct Seed(pub u64);

impl Drop for Seed {
    fn drop(&mut self) {
        // Planted defects are reported by who planted them.
        if std::thread::panicking() && !cfg!(feature = "planted") {
            println!("to repeat: ORCAS_CRASH_SEED={}", self.0);
        }
    }
}

pub fn durability(seed: u64) -> Durability {
    match seed % 8 {
        0..4 => Durability::Sync,
        4 | 5 => Durability::Interval,
        6 => Durability::Buffered,
        _ => Durability::UnsafeNone,
    }
}

/// One store through its lives.
fn live(seed: u64, tally: &Arc<Tally>) {
    let _named = Seed(seed);
    let mut run = Run::new(seed, durability(seed), tally, 1, |options| store::events::choose(seed, options));
    run.begin_following();
    let mut workload = Workload::new(true);
    let large = seed % 6 == 5;
    for life in 0..LIVES {
        for round in 0..ROUNDS {
            let ops = match round {
                3 | 4 if large && life == 0 => workload::large_upload(&mut run).unwrap_or_default(),
                _ => workload.ops(&mut run),
            };
            run.round(ops);
            run.maybe_follow();
            if run.rng.below(4) == 0 {
                run.open_reader();
            }
            if run.rng.below(4) == 0 {
                let seal = run.rng.below(3) == 0;
                run.refresh(seal);
            }
            let steps = if run.rng.below(3) == 0 { 80 } else { run.rng.below(12) };
            run.reclaim(steps);
            match run.rng.below(12) {
                0 => run.make_spare().unwrap(),
                10 => run.stepper.fill_prefix_hashes().unwrap(),
                11 => run.finish_readers(),
                1..4 => run.apply(),
                4 => run.idle(Duration::from_millis(200)),
                5 => run.compare(),
                6 => run.world.clock.advance(Duration::from_millis(30)),
                7 => run.world.clock.set_ahead(Duration::from_millis(run.rng.below(2_000))),
                _ => {}
            }
        }
        run.follow_to_the_end();
        if life + 1 < LIVES {
            match run.rng.below(5) {
                0 => run.kill(),
                1 => run.stop(),
                _ => {
                    let policy = POLICIES[run.rng.below(POLICIES.len() as u64) as usize];
                    run.crash(policy);
                }
            }
            run.begin_following();
        }
    }
    run.finish_readers();
    run.compare();
    run.crash(CrashPolicy::Drop);
}

/// The seeds that were asked for, or else `usual`.
fn seeds(usual: RangeInclusive<u64>) -> (Vec<u64>, bool) {
    let Ok(asked) = std::env::var("ORCAS_CRASH_SEED") else { return (usual.collect(), false) };
    let number = |text: &str| text.parse::<u64>().expect("ORCAS_CRASH_SEED is N or N..M");
    let (first, last) = match asked.split_once("..") {
        Some((first, end)) => (number(first), number(end) - 1),
        None => (number(&asked), number(&asked)),
    };
    ((first..=last).collect(), true)
}

/// One in how many of the usual seeds is wanted.
fn share() -> usize {
    std::env::var("ORCAS_SHARE").map_or(1, |share| share.parse().expect("ORCAS_SHARE is a number"))
}

#[test]
fn a_power_cut_after_any_step_leaves_a_prefix_with_everything_acknowledged() {
    let tally = Arc::new(Tally::default());
    let share = share();
    let (mut seeds, asked) = seeds(1..=SEEDS / share as u64);
    if !asked {
        seeds.extend(REGRESSIONS);
    }
    let next = AtomicU64::new(0);
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(seed) = seeds.get(next.fetch_add(1, Ordering::Relaxed) as usize) {
                    live(*seed, &tally);
                }
            });
        }
    });
    report(&tally);
    // Few seeds differ more from each other than all of them do from the usual number.
    let share = if share == 1 { 1 } else { share + 1 };
    assert!(asked || tally.images() >= IMAGES_MIN / share, "only {} distinct disk images", tally.images());
    assert!(asked || tally.reclaiming() >= RECLAIMING_MIN / share, "only {} during reclamation", tally.reclaiming());
}

/// What was cut, and how often.
fn report(tally: &Tally) {
    println!("{} distinct disk images, {} of them cut during reclamation", tally.images(), tally.reclaiming());
    for (step, images) in tally.steps() {
        println!("{images:8} {step}");
    }
}
