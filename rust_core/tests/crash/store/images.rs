//! Disk images after a power cut, and what every one of them must be: a store that opens, whose state is a legal one,
//! stays that after another cut and after everything that is dead was reclaimed, and whose index is the one that a
//! rebuild from nothing gives.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use orcas_base::error::Result;
use orcas_engine::{ReclaimLimits, Stepper};
use orcas_fs_testing::{CrashPolicy, SimDisk, SimRng};
use parking_lot::Mutex;

use super::events::Followed;
use super::observe::observe;
use super::steps::{Phase, Recorder, Step};
use super::world::World;

pub const POLICIES: [CrashPolicy; 5] =
    [CrashPolicy::Drop, CrashPolicy::Keep, CrashPolicy::Prefix, CrashPolicy::Scatter, CrashPolicy::Scatter];

/// Nearly everything is worth reclaiming; a log file costs more than a page in any case.
pub const EAGER: ReclaimLimits =
    ReclaimLimits { live_max: 0.9, freed_min: 6_000, output_max: 1 << 40, compact: true, hurry: false };
/// Steps after which reclamation of a store that nobody writes to must have ended.
const RECLAIM_STEPS_MAX: usize = 5_000;

/// One image in so many is opened again with an index built anew, cut in its recovery, reclaimed completely.
const REBUILT: u64 = 5;
const RECOVERY_CUT: u64 = 20;
const RECLAIMED: u64 = 40;

/// The place of a content in the index's dump.
const IN_LOG: &str = "0";

pub type Snapshot = Option<Arc<Vec<u8>>>;

/// What all threads have seen.
#[derive(Default)]
pub struct Tally {
    images: Mutex<HashSet<u128>>,
    steps: Mutex<BTreeMap<Step, u64>>,
}

impl Tally {
    pub fn images(&self) -> usize {
        self.images.lock().len()
    }

    /// Those that were cut while something was being reclaimed.
    pub fn reclaiming(&self) -> usize {
        self.steps().iter().filter(|(step, _)| step.reclaiming.is_some()).map(|(_, images)| *images as usize).sum()
    }

    fn count(&self, step: Step, image: u128) {
        if self.images.lock().insert(image) {
            *self.steps.lock().entry(step).or_default() += 1;
        }
    }

    pub fn steps(&self) -> BTreeMap<Step, u64> {
        self.steps.lock().clone()
    }
}

/// The states that a store may be in after a cut.
pub struct Legal {
    pub states: Vec<Arc<str>>,
}

impl Legal {
    pub fn allows(&self, state: &str) -> bool {
        self.states.iter().any(|legal| &**legal == state)
    }

    fn check(&self, place: &str, what: &str, state: &str) {
        assert!(self.allows(state), "{place}: {what}\n{}", difference(self, state));
    }
}

/// Reclaims everything that is dead, with nobody else at work.
pub fn reclaim_everything(stepper: &mut Stepper) -> Result<()> {
    stepper.refresh_reclamation(true);
    for _ in 0..RECLAIM_STEPS_MAX {
        if stepper.reclaim(&EAGER)? == orcas_engine::Step::Idle {
            return Ok(());
        }
        stepper.commit();
        stepper.apply()?;
    }
    panic!("reclamation does not end: {:?}", stepper.reclaiming());
}

pub struct Checker {
    world: World,
    tally: Arc<Tally>,
    /// Images of this run with the least that had to be in them.
    seen: HashSet<(u128, usize)>,
}

impl Checker {
    pub fn new(world: World, tally: Arc<Tally>) -> Self {
        Self { world, tally, seen: HashSet::new() }
    }

    /// Cuts the power of `disk` and checks what is left, unless that was checked against as much before. `must` tells
    /// apart the demands that `legal` makes.
    pub fn cut(
        &mut self,
        step: Step,
        disk: &SimDisk,
        policy: CrashPolicy,
        snapshots: &[Snapshot],
        (must, legal): (usize, &Legal),
        (followed, rng): (&mut Followed, &mut SimRng),
    ) {
        let image = disk.crash(rng, policy);
        let print = image.fingerprint();
        if !self.seen.insert((print, must)) {
            return;
        }
        self.tally.count(step, print);
        self.check(step, policy, image, snapshots, legal, (followed, rng));
    }

    fn index(&self, snapshots: &[Snapshot], rng: &mut SimRng) -> Snapshot {
        // The newest is what a real store would most often find; any older one and none at all are legal too.
        match rng.below(4) {
            0 => None,
            1 => snapshots.get(rng.below(snapshots.len().max(1) as u64) as usize).cloned().flatten(),
            _ => snapshots.last().cloned().flatten(),
        }
    }

    fn check(
        &mut self,
        step: Step,
        policy: CrashPolicy,
        image: SimDisk,
        snapshots: &[Snapshot],
        legal: &Legal,
        (followed, rng): (&mut Followed, &mut SimRng),
    ) {
        let place = format!("{step}, {policy:?}");
        let recorder = (rng.below(RECOVERY_CUT) == 0).then(|| Recorder::attach(&image, Phase::Opening));
        let index = self.index(snapshots, rng);
        let (mut stepper, state) = self.open(&place, &image, index, rng);
        legal.check(&place, "an illegal state", &state);
        followed.check_image(&place, &mut stepper);
        // Recovery made durable what it found: from here on there is one legal state.
        let only = Legal { states: vec![state.into()] };
        let reclaimed = rng.below(RECLAIMED) == 0;
        if reclaimed {
            reclaim_everything(&mut stepper).unwrap_or_else(|error| panic!("{place}: reclamation: {error}"));
            only.check(&place, "changed by reclamation", &observed(&place, &stepper));
        }
        if reclaimed || rng.below(REBUILT) == 0 {
            let dump = stepper.index_dump().unwrap();
            drop(stepper);
            let (again, state) = self.open(&place, &image.crash(rng, CrashPolicy::Drop), None, rng);
            only.check(&place, "lost after recovery", &state);
            check_same(&place, &dump, &again.index_dump().unwrap());
        }
        let Some(recorder) = recorder else { return };
        let captures = recorder.take();
        for _ in 0..3.min(captures.len()) {
            let capture = &captures[rng.below(captures.len() as u64) as usize];
            let policy = POLICIES[rng.below(POLICIES.len() as u64) as usize];
            let image = capture.disk.crash(rng, policy);
            self.tally.count(Step { reclaiming: step.reclaiming, ..capture.step }, image.fingerprint());
            let place = format!("{place}; in recovery, {}", capture.step);
            let index = self.index(snapshots, rng);
            let (_, state) = self.open(&place, &image, index, rng);
            legal.check(&place, "an illegal state", &state);
        }
    }

    fn open(&self, place: &str, disk: &SimDisk, index: Snapshot, rng: &mut SimRng) -> (Stepper, String) {
        let stepper = match self.world.aside(rng.next()).open(disk, index) {
            Ok(stepper) => stepper,
            Err(error) => panic!("{place}: the store does not open: {error}"),
        };
        let state = observed(place, &stepper);
        (stepper, state)
    }
}

fn observed(place: &str, stepper: &Stepper) -> String {
    observe(stepper.handle()).unwrap_or_else(|error| panic!("{place}: unreadable: {error}"))
}

/// Compares an index with one that was built anew, but for the position and the places of contents, which move when a
/// batch is appended again.
pub fn check_same(place: &str, kept: &str, rebuilt: &str) {
    let (kept, rebuilt) = (tables(kept), tables(rebuilt));
    if kept == rebuilt {
        return;
    }
    let mut out = String::new();
    kept.iter().filter(|line| !rebuilt.contains(line)).for_each(|line| out += &format!("kept: {line}\n"));
    rebuilt.iter().filter(|line| !kept.contains(line)).for_each(|line| out += &format!("rebuilt: {line}\n"));
    panic!("{place}: the index differs from a rebuilt one\n{out}");
}

fn tables(dump: &str) -> Vec<String> {
    dump.lines().filter(|line| !line.starts_with("meta position")).map(without_place).collect()
}

fn without_place(line: &str) -> String {
    let columns: Vec<&str> = line.split(' ').collect();
    match columns[..] {
        ["blobs", sequence, IN_LOG, _file, _offset, ref rest @ ..] => {
            format!("blob {sequence} in the log {}", rest.join(" "))
        }
        _ => line.to_owned(),
    }
}

/// The first lines that differ from the earliest and the latest legal state.
fn difference(legal: &Legal, state: &str) -> String {
    let mut out = format!("{} legal states\n", legal.states.len());
    for (name, wanted) in [("earliest", legal.states.first()), ("latest", legal.states.last())] {
        let Some(wanted) = wanted else { continue };
        let (wanted, found): (HashSet<_>, HashSet<_>) = (wanted.lines().collect(), state.lines().collect());
        wanted.difference(&found).for_each(|line| out += &format!("{name}: missing {line}\n"));
        found.difference(&wanted).for_each(|line| out += &format!("{name}: too much {line}\n"));
    }
    out
}
