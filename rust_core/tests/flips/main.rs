//! Every byte of a store, flipped one at a time: a store that opens with it shows what was stored or an error, never
//! anything else, and the check names the file of every byte that counts.
//!
//! Some thousand flips are chosen by a seed, with every byte of all headers; `ORCAS_FLIPS=all` takes every byte,
//! `ORCAS_FLIPS=N` other ones, `ORCAS_SHARE=N` one Nth of the usual ones.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "the suite changes files by hand")]

mod attributes;
mod buckets;
mod disks;
mod judge;
mod observe;
#[cfg(feature = "planted")]
mod planted;
mod rebuilt;
mod sealed;
mod store;
mod versions;

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use orcas_base::error::Error;
use orcas_fs_testing::SimRng;
use parking_lot::Mutex;

use judge::{Bench, Effect, FlipResult, Repair, Said};
use store::{Built, INDEX, SEALED, SMALL, WAL};

const THREADS: usize = 2;
/// Flips when they are chosen, of the store that is flipped most and of the others; beside those in headers.
const CHOSEN: usize = 1_500;
const CHOSEN_FEW: usize = 600;
/// Bytes at the beginning of a file that are its header.
const LOG_HEADER: usize = 264;
const PACK_HEADER: usize = 72;
/// Of the chosen flips that keep a store without its index from opening, every so many is repaired.
const REPAIRED: usize = 8;
/// A flip that takes longer hangs.
const TIMEOUT: Duration = Duration::from_secs(60);
/// Bytes of content that are looked for to find where it stands.
const PROBE: usize = 32;

/// The flips of one kind of files.
#[derive(Default, Debug, Clone)]
struct Tally {
    flips: u64,
    named: u64,
    /// Flips that nobody notices and the check does not name.
    slack: u64,
    refused: u64,
    errors: u64,
    /// The end of a log that was not closed, taken for a torn one.
    torn: u64,
    /// Stores that did not open and were repaired.
    repaired: u64,
}

struct Flip {
    file: String,
    offset: usize,
    mask: u8,
}

/// What all threads found.
#[derive(Default)]
struct Outcome {
    tallies: Mutex<BTreeMap<&'static str, Tally>>,
    failures: Mutex<Vec<String>>,
    /// Bytes without a finding, by file.
    slack: Mutex<BTreeMap<String, Vec<usize>>>,
}

enum Choice {
    All,
    Seed(u64),
}

fn choice() -> Choice {
    match std::env::var("ORCAS_FLIPS").as_deref() {
        Ok("all") => Choice::All,
        Ok(seed) => Choice::Seed(seed.parse().expect("ORCAS_FLIPS is `all` or a number")),
        Err(_) => Choice::Seed(1),
    }
}

/// One in how many of the usual flips is wanted.
fn share() -> usize {
    std::env::var("ORCAS_SHARE").map_or(1, |share| share.parse().expect("ORCAS_SHARE is a number"))
}

fn kind(file: &str) -> &'static str {
    match file {
        _ if file.ends_with(".log") => "log",
        _ if file.ends_with(".pack") => "pack",
        INDEX => "index",
        WAL => "index WAL",
        _ => "keys",
    }
}

fn header(file: &str) -> usize {
    match kind(file) {
        "log" => LOG_HEADER,
        "pack" => PACK_HEADER,
        "keys" => usize::MAX,
        _ => 100,
    }
}

/// Every byte, or some of them, with `headers` also all that stand in headers.
fn flips(files: &BTreeMap<String, Vec<u8>>, chosen: usize, headers: bool) -> Vec<Flip> {
    let mut rng = SimRng::new(match choice() {
        Choice::All => 1,
        Choice::Seed(seed) => seed,
    });
    let (total, share): (usize, usize) = (files.values().map(Vec::len).sum(), share());
    let mut flips = Vec::new();
    for (file, bytes) in files {
        let header = if headers { header(file) } else { 0 };
        for offset in 0..bytes.len() {
            let mask = 1 + rng.below(255) as u8;
            let is_chosen = rng.below(total as u64) < (chosen / share) as u64;
            let in_header = offset < header && offset.is_multiple_of(share);
            if is_chosen || in_header || matches!(choice(), Choice::All) {
                flips.push(Flip { file: file.clone(), offset, mask });
            }
        }
    }
    flips
}

/// What is being tried, for when it hangs.
type Present = Mutex<Option<(String, Instant)>>;

fn try_all(flips: &[Flip], try_one: &(dyn Fn(usize, &Flip) + Sync)) {
    let next = AtomicUsize::new(0);
    let busy = AtomicUsize::new(THREADS);
    let present: Vec<Present> = (0..THREADS).map(|_| Mutex::default()).collect();
    let started = Instant::now();
    std::thread::scope(|scope| {
        for (thread, present) in present.iter().enumerate() {
            let (next, busy) = (&next, &busy);
            scope.spawn(move || {
                while let Some(flip) = flips.get(next.fetch_add(1, Ordering::Relaxed)) {
                    *present.lock() = Some((format!("{} byte {}", flip.file, flip.offset), Instant::now()));
                    try_one(thread, flip);
                }
                *present.lock() = None;
                busy.fetch_sub(1, Ordering::Relaxed);
            });
        }
        let mut told = Instant::now();
        while busy.load(Ordering::Relaxed) > 0 {
            std::thread::sleep(Duration::from_millis(20));
            for (what, since) in present.iter().filter_map(|present| present.lock().clone()) {
                if since.elapsed() > TIMEOUT {
                    println!("{what} hangs");
                    std::process::exit(1);
                }
            }
            if told.elapsed() > Duration::from_secs(60) {
                told = Instant::now();
                println!("{} of {} flips", next.load(Ordering::Relaxed), flips.len());
            }
        }
    });
    let each = started.elapsed() / flips.len().max(1) as u32;
    println!("{} flips in {:.1} s, {each:?} each", flips.len(), started.elapsed().as_secs_f64());
}

impl Outcome {
    fn fail(&self, flip: &Flip, what: String) {
        let failure = format!("{} byte {} ^ {:#04x}: {what}", flip.file, flip.offset, flip.mask);
        // At once: a run over every byte takes long, and may be ended before it comes to its report.
        println!("{failure}");
        self.failures.lock().push(failure);
    }

    fn judge(&self, flip: &Flip, result: FlipResult, undecided: &[String]) {
        let FlipResult { said, kept, rebuilt } = result;
        let mut torn = false;
        for (index, effect) in [("kept", &kept), ("rebuilt", &rebuilt)] {
            let Some(effect) = effect else { continue };
            match effect {
                // There are two of each header, and of the keys.
                Effect::Refused(error) if flip.offset < header(&flip.file) => {
                    self.fail(flip, format!("index {index}: refused for one copy of a header: {error}"));
                }
                Effect::Refused(error) if is_clear(error) => {}
                Effect::Refused(error) => self.fail(flip, format!("index {index}: refused unclearly: {error}")),
                Effect::Opened(seen) if effect.is_wrong() => {
                    let lost = !seen.absent.is_empty() && seen.wrong.is_empty() && seen.held == 0;
                    let tail = seen.absent.iter().all(|key| undecided.iter().any(|name| name.ends_with(key)));
                    if lost && tail {
                        torn = true;
                    } else {
                        self.fail(flip, format!("index {index}: {said:?}, absent {:?}, {:?}", seen.absent, seen.wrong));
                    }
                }
                Effect::Opened(_) => {}
            }
        }
        let effects: Vec<&Effect> = [&kept, &rebuilt].into_iter().flatten().collect();
        let is_seen = effects.iter().any(|effect| effect.is_seen());
        match &said {
            Said::Failed(error) => self.fail(flip, format!("the check failed: {error}")),
            Said::Elsewhere(what) => self.fail(flip, format!("the check does not name the file, but {what}")),
            Said::Nothing if is_seen && !torn => self.fail(flip, format!("the check is silent: {effects:?}")),
            Said::Nothing | Said::Named => {}
        }
        if said == Said::Nothing {
            self.slack.lock().entry(flip.file.clone()).or_default().push(flip.offset);
        }
        let mut tallies = self.tallies.lock();
        let tally = tallies.entry(kind(&flip.file)).or_default();
        tally.flips += 1;
        tally.named += u64::from(said == Said::Named);
        tally.slack += u64::from(said == Said::Nothing);
        tally.refused += u64::from(effects.iter().any(|effect| matches!(effect, Effect::Refused(_))));
        tally.errors += u64::from(effects.iter().any(|e| matches!(e, Effect::Opened(seen) if seen.errors > 0)));
        tally.torn += u64::from(torn);
    }

    /// A store that was repaired opens, lacks nothing but what the byte hit, and has unlocked no version.
    fn judge_repair(&self, flip: &Flip, repair: Repair) {
        let Repair { effect, hit, content_only, missing } = repair;
        match &effect {
            Effect::Refused(error) => self.fail(flip, format!("not even a repair helps: {error}")),
            Effect::Opened(seen) => {
                // Without the record of a bucket, its objects may be in another one.
                let absent = missing.as_ref().unwrap_or(&seen.absent);
                let beyond: Vec<_> = absent.iter().filter(|key| !hit.contains(*key)).collect();
                let wrong = content_only && !seen.wrong.is_empty();
                if !beyond.is_empty() || seen.errors > 0 || wrong || !seen.unlocked.is_empty() {
                    self.fail(flip, format!("repaired: lost {beyond:?} but hit {hit:?}, {seen:?}"));
                }
            }
        }
        self.tallies.lock().entry(kind(&flip.file)).or_default().repaired += 1;
    }

    /// Runs `try_one`; a panic is a failure.
    fn guard(&self, flip: &Flip, try_one: impl FnOnce() -> FlipResult, undecided: &[String]) {
        match catch_unwind(AssertUnwindSafe(try_one)) {
            Ok(result) => self.judge(flip, result, undecided),
            Err(_) => self.fail(flip, "it panics".to_owned()),
        }
    }

    fn report(&self, store: &str) {
        for (kind, tally) in &*self.tallies.lock() {
            println!("{store}, {kind}: {tally:?}");
        }
        let failures = self.failures.lock();
        assert!(failures.is_empty(), "{store}: {} of the flips did harm", failures.len());
    }
}

/// Whether somebody who reads the message knows that the store is damaged, and where.
fn is_clear(error: &Error) -> bool {
    matches!(
        error,
        Error::Corrupt { .. }
            | Error::Missing { .. }
            | Error::Foreign { .. }
            | Error::Version { .. }
            | Error::Index { .. }
            | Error::IndexDamaged { .. }
    )
}

/// Wherever the content of an object stands in a file, if it counts there, every byte of it is named: a place is either
/// without any slack or all of it is slack, and not every place of a content is.
fn content_is_named(built: &Built, flips: &[Flip], outcome: &Outcome) {
    let slack = outcome.slack.lock();
    // Padding looks the same all over.
    let is_noise = |piece: &&[u8]| piece.iter().any(|byte| *byte != piece[0]);
    let mut objects: BTreeMap<&[u8], Vec<&str>> = BTreeMap::new();
    for (name, bytes) in &built.objects {
        bytes.chunks_exact(PROBE).filter(is_noise).for_each(|piece| objects.entry(piece).or_default().push(name));
    }
    let wanted: HashSet<&[u8]> = objects.keys().copied().collect();
    // Places of an object, and how many of them count.
    let mut places: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (file, held) in built.files.iter().filter(|(file, _)| kind(file) != "keys") {
        let tried: BTreeSet<usize> = flips.iter().filter(|flip| flip.file == *file).map(|flip| flip.offset).collect();
        let silent: BTreeSet<usize> = slack.get(file).into_iter().flatten().copied().collect();
        for (at, piece) in held.windows(PROBE).enumerate().filter(|(_, piece)| wanted.contains(piece)) {
            let [tried, silent] = [&tried, &silent].map(|all| all.range(at..at + PROBE).count());
            let names = &objects[piece];
            assert!(
                silent == 0 || silent == tried,
                "{names:?} in {file} at {at}: {silent} of {tried} without a finding"
            );
            for name in names {
                let (all, named) = places.entry(name).or_default();
                *all += 1;
                *named += usize::from(silent == 0);
            }
        }
    }
    for (name, (places, named)) in &places {
        // The last batch of a store that was killed may be a torn one, which nobody misses.
        let is_last = built.undecided.iter().any(|undecided| undecided == name);
        assert!(is_last || *named > 0, "{name} stands at {places} places, and flips at none are named");
    }
    let found: usize = places.values().map(|(_, named)| named).sum();
    assert!(found > 0);
    println!("{found} pieces of content were found, and all flips in them named");
}

fn flip_files(store: &str, built: &Built, indexed: bool, (chosen, headers): (usize, bool)) {
    let bench = Bench::new(built, indexed);
    let flips = flips(&built.files, chosen, headers);
    tell_sizes(store, &built.files);
    let outcome = Outcome::default();
    let refused = AtomicUsize::new(0);
    let every = if matches!(choice(), Choice::All) { 1 } else { REPAIRED };
    try_all(&flips, &|_, flip| {
        let mut is_refused = false;
        let try_one = || {
            let result = bench.flip(&flip.file, flip.offset, flip.mask);
            is_refused = matches!(result.rebuilt, Some(Effect::Refused(_)));
            result
        };
        outcome.guard(flip, try_one, &built.undecided);
        if !indexed
            && is_refused
            && kind(&flip.file) == "log"
            && refused.fetch_add(1, Ordering::Relaxed).is_multiple_of(every)
        {
            match catch_unwind(AssertUnwindSafe(|| bench.repair(&flip.file, flip.offset, flip.mask))) {
                Ok(repair) => outcome.judge_repair(flip, repair),
                Err(_) => outcome.fail(flip, "its repair panics".to_owned()),
            }
        }
    });
    outcome.report(store);
    if !built.size.sealed {
        content_is_named(built, &flips, &outcome);
    }
}

fn tell_sizes(store: &str, files: &BTreeMap<String, Vec<u8>>) {
    let mut sizes: BTreeMap<&str, (usize, usize)> = BTreeMap::new();
    for (file, bytes) in files {
        let size = sizes.entry(kind(file)).or_default();
        *size = (size.0 + 1, size.1 + bytes.len());
    }
    println!("{store}: files and bytes {sizes:?}");
}

fn flip_index(store: &str, built: &Built) {
    let bench = Bench::new(built, true);
    let scratches: Vec<_> = (0..THREADS).map(|_| bench.scratch()).collect();
    let outcome = Outcome::default();
    tell_sizes(store, &built.index);
    try_all(&flips(&built.index, CHOSEN_FEW, true), &|thread, flip| {
        outcome.guard(flip, || bench.flip_index(&scratches[thread], &flip.file, flip.offset, flip.mask), &[]);
    });
    outcome.report(store);
}

#[test]
fn every_byte_of_a_closed_store() {
    flip_files("closed, with index", &store::closed(SMALL), true, (CHOSEN, true));
}

#[test]
fn every_byte_of_a_store_without_its_index() {
    flip_files("closed, without index", &store::closed(SMALL), false, (CHOSEN_FEW, false));
}

#[test]
fn every_byte_of_a_store_that_was_killed() {
    flip_files("killed, with index", &store::killed(SMALL), true, (CHOSEN_FEW, false));
}

#[test]
fn every_byte_of_a_sealed_store() {
    let built = store::closed(SEALED);
    let stored: Vec<u8> = built.files.values().flatten().copied().collect();
    let noise = built.objects.values().filter(|bytes| bytes.len() >= PROBE && bytes[..PROBE] != [bytes[0]; PROBE]);
    for bytes in noise {
        assert!(memchr::memmem::find(&stored, &bytes[..PROBE]).is_none(), "content is there as it is");
    }
    flip_files("sealed, with index", &built, true, (CHOSEN_FEW, false));
}

#[test]
fn every_byte_of_an_index() {
    flip_index("index of a closed store", &store::closed(SMALL));
}

#[test]
fn every_byte_of_an_index_with_a_wal() {
    flip_index("index of a store that was killed", &store::killed(SMALL));
}
