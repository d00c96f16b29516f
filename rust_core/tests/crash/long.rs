//! The same for as long as somebody wants: seeds that nobody tried, lives and failing disks in turn, until
//! `CRASH_SECONDS` are over or the file that `ORCAS_CRASH_STOP` names is there. `make crash-long` runs it.
#![allow(clippy::disallowed_methods, reason = "a file says when to stop, the hour where to begin")]

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use parking_lot::Mutex;

use crate::store::Tally;
use crate::{THREADS, faults, live, report};

/// Seeds after which the images are counted anew, so that memory stays bounded.
const SEEDS_COUNTED: u64 = 512;
const REPORT_EVERY: Duration = Duration::from_secs(10);

#[derive(Default)]
struct Totals {
    images: usize,
    reclaiming: usize,
    failed: Vec<String>,
}

fn is_over(until: Option<Instant>, stop: Option<&PathBuf>) -> bool {
    until.is_some_and(|until| Instant::now() >= until) || stop.is_some_and(|stop| stop.exists())
}

/// One seed; its command when it fails.
fn attempt(seed: u64, tally: &Arc<Tally>) -> Result<(), String> {
    let (test, done) = match seed % 4 {
        0 => ("a_disk_that_fails_during", catch_unwind(AssertUnwindSafe(|| drop(faults::reclaim(seed, tally))))),
        1 => ("a_failing_disk", catch_unwind(AssertUnwindSafe(|| drop(faults::fail(seed, tally))))),
        _ => ("a_power_cut", catch_unwind(AssertUnwindSafe(|| live(seed, tally)))),
    };
    done.map_err(|_| format!("ORCAS_CRASH_SEED={seed} cargo test --profile ci --test crash -- --nocapture {test}"))
}

#[test]
#[ignore = "runs until it is told to stop: make crash-long"]
fn as_long_as_asked() {
    let seconds = std::env::var("CRASH_SECONDS").ok().map(|text| text.parse().expect("CRASH_SECONDS is a number"));
    let started = Instant::now();
    let until = seconds.map(|seconds| started + Duration::from_secs(seconds));
    let stop = std::env::var_os("ORCAS_CRASH_STOP").map(PathBuf::from);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("after 1970");
    let first = std::env::var("ORCAS_CRASH_SEED").map_or(now.as_millis() as u64 % 1_000_000_000 * 1_000, |text| {
        text.parse().expect("here ORCAS_CRASH_SEED is the first seed")
    });
    println!("seeds from {first}");
    let (next, totals) = (AtomicU64::new(first), Mutex::new(Totals::default()));
    let tally = Mutex::new(Arc::new(Tally::default()));
    let reported = Mutex::new(Instant::now());
    let fold = |totals: &mut Totals, tally: &Tally| {
        totals.images += tally.images();
        totals.reclaiming += tally.reclaiming();
    };
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while !is_over(until, stop.as_ref()) {
                    let seed = next.fetch_add(1, Ordering::Relaxed);
                    if (seed - first) % SEEDS_COUNTED == SEEDS_COUNTED - 1 {
                        let counted = std::mem::take(&mut *tally.lock());
                        report(&counted);
                        fold(&mut totals.lock(), &counted);
                    }
                    let counted = Arc::clone(&tally.lock());
                    if let Err(command) = attempt(seed, &counted) {
                        println!("FAILED, to repeat: {command}");
                        totals.lock().failed.push(command);
                    }
                    let mut reported = reported.lock();
                    if reported.elapsed() >= REPORT_EVERY {
                        *reported = Instant::now();
                        let (seeds, images) = (seed - first, totals.lock().images + counted.images());
                        println!("{:>6} s, seed {seed}, {seeds} seeds, {images} images", started.elapsed().as_secs());
                    }
                }
            });
        }
    });
    let last = tally.into_inner();
    report(&last);
    let mut totals = totals.into_inner();
    fold(&mut totals, &last);
    let seeds = next.into_inner() - first;
    println!("{seeds} seeds, {} images, {} during reclamation", totals.images, totals.reclaiming);
    totals.failed.iter().for_each(|command| println!("failed: {command}"));
    assert!(totals.failed.is_empty(), "{} seeds failed", totals.failed.len());
}
