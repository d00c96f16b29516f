//! The index of a running store is damaged under it. Nobody gets a wrong answer, and soon the index is whole again; where
//! it cannot be built, because the log is damaged too, the damaged one is not opened again either.

use std::cell::Cell;
use std::os::unix::fs::FileExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use orcas_base::error::Error;
use orcas_engine::{Condition, Engine, IndexPlace};
use orcas_fs::{FileSystem, Open};
use orcas_fs_testing::{SimDisk, SimRng};

use crate::is_clear;
use crate::judge::{Bench, Scratch, check, write_index};
use crate::observe::{Seen, compare};
use crate::store::{self, INDEX, LARGE, environment, options};
use orcas_fsck::IndexState;

const PAGE: u64 = 4096;
const RUNS: u64 = 8;
/// An index that is not whole again by then will not be.
const TIMEOUT: Duration = Duration::from_secs(20);
/// So often everything is read before it is said that nobody asks for a damaged page.
const PASSES: u32 = 20;
const PAUSE: Duration = Duration::from_millis(2);
/// Behind the first records of a log file.
const INSIDE: u64 = 6_000;

struct Run<'a, 'b> {
    bench: &'a Bench<'b>,
    scratch: Scratch,
    disk: SimDisk,
}

impl<'a, 'b> Run<'a, 'b> {
    fn new(bench: &'a Bench<'b>) -> Self {
        let scratch = bench.scratch();
        write_index(&scratch.path, &bench.built.index);
        let disk = scratch.disk.snapshot();
        Self { bench, scratch, disk }
    }

    fn open(&self) -> Result<Engine, Error> {
        Engine::open(options(&self.scratch.path, self.bench.built.size), environment(&self.disk, IndexPlace::File))
    }

    /// Writes rubbish into pages of the index, behind the roots of its tables, at which a start looks; into many of them
    /// or into one.
    fn garble(&self, rng: &mut SimRng, many: bool) {
        let path = self.scratch.path.join(INDEX);
        let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
        let pages = file.metadata().unwrap().len() / PAGE;
        let (first, step) = match many {
            true => (pages / 2, 1 + rng.below(3)),
            false => (pages / 2 + rng.below(pages - pages / 2), pages),
        };
        for page in (first..pages).step_by(step as usize) {
            let noise: Vec<u8> = (0..64).map(|_| rng.next() as u8).collect();
            file.write_all_at(&noise, page * PAGE + rng.below(PAGE - 64)).unwrap();
        }
    }

    fn damage_log(&self) {
        for (name, bytes) in self.bench.built.files.iter().filter(|(name, _)| name.ends_with(".log")) {
            let file = self.disk.open(&self.scratch.path.join(name), Open::Write).unwrap();
            if bytes.len() as u64 > INSIDE {
                file.write_at(INSIDE, &[0x5a; 100]).unwrap();
            }
        }
    }

    /// Reads everything, again and again, until `enough`.
    fn read_until(&self, engine: &Engine, enough: &dyn Fn(&Seen, &Condition) -> bool) -> Result<(), String> {
        let begun = Instant::now();
        loop {
            let seen = compare(&engine.handle(), &self.bench.state);
            let condition = engine.handle().health().condition;
            if !(seen.wrong.is_empty() && seen.absent.is_empty()) {
                return Err(format!("absent {:?}, {:?}", seen.absent, seen.wrong));
            }
            if enough(&seen, &condition) {
                return Ok(());
            }
            if begun.elapsed() > TIMEOUT {
                return Err(format!("{} errors still, and it is {condition:?}: {:?}", seen.errors, seen.first_error));
            }
            std::thread::sleep(PAUSE);
        }
    }

    /// The index is built anew of a log that is whole.
    fn is_rebuilt(&self, rng: &mut SimRng) -> Result<(), String> {
        let engine = self.open().map_err(|error| error.to_string())?;
        self.garble(rng, true);
        self.read_until(&engine, &|seen, condition| seen.errors == 0 && *condition == Condition::Ok)?;
        engine.close().map_err(|error| error.to_string())?;
        let report = check(&self.disk, &self.scratch.path).map_err(|error| error.to_string())?;
        match report.index {
            // Of a page that nobody has asked for, nobody knows.
            IndexState::Equal | IndexState::NotCompared { .. } => Ok(()),
            index => Err(format!("{index:?} {:?}", report.findings.first())),
        }
    }

    /// Of a damaged log it cannot be built: the store stops writing, and does not start with what it has. With one damaged
    /// page a start need not notice by itself; nor need anybody who reads.
    fn is_given_up(&self, rng: &mut SimRng) -> Result<(), String> {
        let engine = self.open().map_err(|error| error.to_string())?;
        self.damage_log();
        let many = rng.below(2) == 0;
        self.garble(rng, many);
        let writable = || engine.handle().health().writable;
        let passes = Cell::new(0);
        self.read_until(&engine, &|_, _| {
            passes.set(passes.get() + 1);
            !writable() || !many && passes.get() > PASSES
        })?;
        if writable() {
            return Ok(());
        }
        drop(engine);
        match self.open() {
            Err(error) if is_clear(&error) => Ok(()),
            Err(error) => Err(format!("refused unclearly: {error}")),
            Ok(_) => Err("it starts with an index that it knows to be damaged".to_owned()),
        }
    }
}

/// One run, by its seed; what is wrong then.
pub fn attempt(bench: &Bench<'_>, seed: u64) -> Option<String> {
    let (run, mut rng) = (Run::new(bench), SimRng::new(seed));
    let judged = catch_unwind(AssertUnwindSafe(|| match seed % 2 {
        0 => run.is_rebuilt(&mut rng),
        _ => run.is_given_up(&mut rng),
    }));
    let what = judged.unwrap_or_else(|_| Err("it panics".to_owned())).err()?;
    Some(format!("seed {seed}: {what}"))
}

#[test]
fn an_index_damaged_in_use_is_built_anew_or_given_up() {
    let built = store::killed(LARGE);
    let bench = Bench::new(&built, true);
    let failures: Vec<String> = (1..=RUNS).filter_map(|seed| attempt(&bench, seed)).collect();
    assert!(failures.is_empty(), "{failures:#?}");
}
