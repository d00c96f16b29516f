//! Each deliberate defect of `orcas_base::planted` that is this suite's until it has caught it: lives, failing disks,
//! reclamation on failing disks and empty packs in turn. `make planted` runs it; `ORCAS_PLANTED=Name` asks for one of them only.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use orcas_base::planted::{Bug, Suite, choose};
use parking_lot::Mutex;

use crate::store::Tally;
use crate::{THREADS, faults, live, vacated};

/// Attempts after which a defect counts as hidden.
const ATTEMPTS_MAX: u64 = 600;

struct Caught {
    by: &'static str,
    seed: u64,
    /// The first line of what the suite said.
    words: String,
}

fn attempt(number: u64, tally: &Arc<Tally>) -> Option<Caught> {
    type Suite = fn(u64, &Arc<Tally>);
    // Each suite gets all seeds. What a life does depends on remainders of its seed.
    let seed = number / 4 + 1;
    let (by, suite): (_, Suite) = match number % 4 {
        0 => ("power cuts", live),
        1 => ("failing disks", |seed, tally| drop(faults::fail(seed, tally))),
        2 => ("failing disks during reclamation", |seed, tally| drop(faults::reclaim(seed, tally))),
        _ => ("empty packs", vacated::live),
    };
    let panic = catch_unwind(AssertUnwindSafe(|| suite(seed, tally))).err()?;
    let words = panic.downcast_ref::<String>().cloned();
    let words = words.or_else(|| panic.downcast_ref::<&str>().map(|words| (*words).to_owned())).unwrap_or_default();
    Some(Caught { by, seed, words: words.lines().next().unwrap_or_default().to_owned() })
}

fn hunt(bug: Bug) -> Option<Caught> {
    let (next, caught) = (AtomicU64::new(0), Mutex::new(None));
    let (tally, started) = (Arc::new(Tally::default()), Instant::now());
    choose(Some(bug));
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while caught.lock().is_none() {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= ATTEMPTS_MAX {
                        return;
                    }
                    if let Some(found) = attempt(number, &tally) {
                        caught.lock().get_or_insert(found);
                    }
                }
            });
        }
    });
    choose(None);
    let caught = caught.into_inner();
    let (images, seconds) = (tally.images(), started.elapsed().as_secs_f64());
    match &caught {
        Some(Caught { by, seed, words }) => {
            println!("| {bug:?} | {by} | seed {seed}, {images} images | {seconds:.1} s | {words:.300}");
        }
        None => println!("| {bug:?} | not caught | {images} images | {seconds:.0} s |"),
    }
    caught
}

#[test]
#[ignore = "takes minutes: make planted"]
fn every_planted_defect_is_caught() {
    // Panics are what is looked for here.
    std::panic::set_hook(Box::new(|_| {}));
    let mut hidden = Vec::new();
    for bug in Bug::asked_of(Suite::Crash) {
        if hunt(bug).is_none() {
            hidden.push(bug);
        }
    }
    drop(std::panic::take_hook());
    assert!(hidden.is_empty(), "not caught: {hidden:?}");
}
