//! Each deliberate defect of `orcas_base::planted` that is this suite's until it has caught it: flips in a store that was
//! closed, with its index and without, and in one that was killed, repairs, damage to files as a whole, and an index that
//! is damaged in use, in turn. `ORCAS_PLANTED=Name` asks for one of them only.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

use orcas_base::planted::{Bug, Suite, choose};
use orcas_fs_testing::SimRng;

use crate::judge::{Bench, Effect, Scratch};
use crate::store::{self, Built, LARGE};
use crate::{Flip, Outcome, attributes, disks, header, kind, rebuilt, sealed};

/// Attempts after which a defect counts as hidden.
const ATTEMPTS_MAX: u64 = 3_000;
/// Of so many flips one is in a header, and one near the end of a log file.
const HEADERS: u64 = 4;
/// Attempts among which repairs of damaged changes of attributes are.
const CHANGES: u64 = 100;
/// Bytes at the end of what a log file holds that take the last batches.
const TAIL: usize = 600;

/// The stores as the defect makes them, and where they are damaged.
struct Benches<'a> {
    closed: Bench<'a>,
    killed: Bench<'a>,
    without_index: Bench<'a>,
    scratch: Scratch,
}

impl<'a> Benches<'a> {
    fn new(closed: &'a Built, killed: &'a Built) -> Self {
        let scratch = Bench::new(closed, true).scratch();
        let without_index = Bench::new(closed, false);
        Self { closed: Bench::new(closed, true), killed: Bench::new(killed, true), without_index, scratch }
    }

    /// By which part of the suite, and what it says, if the defect shows.
    fn attempt(&self, seed: u64) -> Option<(&'static str, String)> {
        let outcome = Outcome::default();
        let mut rng = SimRng::new(seed);
        let (by, said) = match seed % 6 {
            0 => {
                let flip = random(&mut rng, &self.closed.built.index);
                let result = || self.closed.flip_index(&self.scratch, &flip.file, flip.offset, flip.mask);
                outcome.guard(&flip, result, &[]);
                ("an index", None)
            }
            1 => ("files as a whole", disks::attempt(&self.closed, seed)),
            2 => ("an index in use", rebuilt::attempt(&self.killed, seed / 6)),
            3 => {
                self.repair(&random(&mut rng, &self.closed.built.files), &outcome);
                let changes = || attributes::attempt(&self.without_index, Some(seed / 6));
                ("a repair", (seed < CHANGES).then(changes).flatten())
            }
            4 => ("a closed store", flip(&self.closed, &mut rng, &outcome)),
            _ => ("a killed store", flip(&self.killed, &mut rng, &outcome)),
        };
        let said = said.or_else(|| outcome.failures.into_inner().pop())?;
        Some((by, said))
    }

    fn repair(&self, flip: &Flip, outcome: &Outcome) {
        let bench = &self.without_index;
        let refused = matches!(bench.flip(&flip.file, flip.offset, flip.mask).rebuilt, Some(Effect::Refused(_)));
        if refused && kind(&flip.file) == "log" {
            outcome.judge_repair(flip, bench.repair(&flip.file, flip.offset, flip.mask));
        }
    }
}

fn flip(bench: &Bench<'_>, rng: &mut SimRng, outcome: &Outcome) -> Option<String> {
    let flip = random(rng, &bench.built.files);
    outcome.guard(&flip, || bench.flip(&flip.file, flip.offset, flip.mask), &bench.built.undecided);
    None
}

/// A byte anywhere, in a header, or among the last of a log file.
fn random(rng: &mut SimRng, files: &std::collections::BTreeMap<String, Vec<u8>>) -> Flip {
    let total: usize = files.values().map(Vec::len).sum();
    let mut at = rng.below(total as u64) as usize;
    let (file, bytes) = files
        .iter()
        .find(|(_, bytes)| match at < bytes.len() {
            true => true,
            false => {
                at -= bytes.len();
                false
            }
        })
        .unwrap();
    let written = bytes.iter().rposition(|byte| *byte != 0).unwrap_or(0);
    let offset = match rng.below(HEADERS) {
        0 => rng.below(header(file).min(bytes.len()) as u64) as usize,
        1 if kind(file) == "log" => written - rng.below(TAIL.min(written + 1) as u64) as usize,
        _ => at,
    };
    Flip { file: file.clone(), offset, mask: 1 + rng.below(255) as u8 }
}

/// The first attempt that shows the defect.
fn hunt(bug: Bug) -> Option<(u64, &'static str, String)> {
    choose(Some(bug));
    let caught = catch_unwind(AssertUnwindSafe(|| {
        let (closed, killed) = (store::closed(LARGE), store::killed(LARGE));
        let benches = Benches::new(&closed, &killed);
        if let Err(words) = sealed::exchanges() {
            return Some((1, "exchanged blocks of sealed content", words));
        }
        (1..=ATTEMPTS_MAX).find_map(|seed| benches.attempt(seed).map(|(by, words)| (seed, by, words)))
    }));
    choose(None);
    caught.unwrap_or_else(|_| Some((0, "the stores before any damage", "panicked".to_owned())))
}

#[test]
#[ignore = "takes minutes: make planted"]
fn every_planted_defect_is_caught() {
    // Panics are what is looked for here.
    std::panic::set_hook(Box::new(|_| {}));
    let mut hidden = Vec::new();
    for bug in Bug::asked_of(Suite::Flips) {
        let started = Instant::now();
        let caught = hunt(bug);
        let seconds = started.elapsed().as_secs_f64();
        match caught {
            Some((attempts, by, words)) => {
                println!("| {bug:?} | {by} | attempt {attempts} | {seconds:.1} s | {words:.300}");
            }
            None => {
                println!("| {bug:?} | not caught | {seconds:.0} s |");
                hidden.push(bug);
            }
        }
    }
    drop(std::panic::take_hook());
    assert!(hidden.is_empty(), "not caught: {hidden:?}");
}
