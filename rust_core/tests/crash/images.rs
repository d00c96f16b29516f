//! Disk images after a power cut, and what every one of them must be: a store that opens, whose state is a legal one,
//! stays that after another cut, and whose index is the one that a rebuild from nothing gives.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use orcas_core::fs::sim::{CrashPolicy, SimDisk, SimRng};
use parking_lot::Mutex;

use crate::observe::observe;
use crate::steps::{Phase, Recorder};
use crate::world::World;

pub const POLICIES: [CrashPolicy; 5] =
    [CrashPolicy::Drop, CrashPolicy::Keep, CrashPolicy::Prefix, CrashPolicy::Scatter, CrashPolicy::Scatter];

/// The place of a content in the index's dump.
const IN_LOG: &str = "0";

pub type Snapshot = Option<Arc<Vec<u8>>>;

/// What all threads have seen.
#[derive(Default)]
pub struct Tally {
    images: Mutex<HashSet<u128>>,
    steps: Mutex<BTreeMap<&'static str, u64>>,
}

impl Tally {
    pub fn images(&self) -> usize {
        self.images.lock().len()
    }

    fn count(&self, step: &'static str, image: u128) {
        if self.images.lock().insert(image) {
            *self.steps.lock().entry(step).or_default() += 1;
        }
    }

    pub fn steps(&self) -> BTreeMap<&'static str, u64> {
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
}

pub struct Checker {
    world: World,
    tally: Arc<Tally>,
    /// Images of this run with the least that had to be in them.
    seen: HashSet<(u128, usize)>,
    opened: u64,
}

impl Checker {
    pub fn new(world: World, tally: Arc<Tally>) -> Self {
        Self { world, tally, seen: HashSet::new(), opened: 0 }
    }

    /// Cuts the power of `disk` and checks what is left, unless that was checked against as much before. `must` tells
    /// apart the demands that `legal` makes.
    pub fn cut(
        &mut self,
        step: &'static str,
        disk: &SimDisk,
        policy: CrashPolicy,
        snapshots: &[Snapshot],
        (must, legal): (usize, &Legal),
        rng: &mut SimRng,
    ) {
        let image = disk.crash(rng, policy);
        let print = image.fingerprint();
        if !self.seen.insert((print, must)) {
            return;
        }
        self.tally.count(step, print);
        self.check(&format!("{step}, {policy:?}"), image, snapshots, legal, rng);
    }

    fn index(&self, snapshots: &[Snapshot], rng: &mut SimRng) -> Snapshot {
        // The newest is what a real store would most often find; any older one and none at all are legal too.
        match rng.below(4) {
            0 => None,
            1 => snapshots.get(rng.below(snapshots.len().max(1) as u64) as usize).cloned().flatten(),
            _ => snapshots.last().cloned().flatten(),
        }
    }

    fn check(&mut self, place: &str, image: SimDisk, snapshots: &[Snapshot], legal: &Legal, rng: &mut SimRng) {
        self.opened += 1;
        let deep = rng.below(6) == 0;
        let index = self.index(snapshots, rng);
        let recorder = deep.then(|| Recorder::attach(&image, Phase::Opening));
        let (state, dump) = self.open(place, &image, index, rng);
        if !legal.allows(&state) {
            panic!("{place}: an illegal state\n{}", difference(legal, &state));
        }
        // Recovery made durable what it found: from here on there is one legal state.
        let only = Legal { states: vec![state.into()] };
        if rng.below(3) == 0 {
            let (again, rebuilt) = self.open(place, &image.crash(rng, CrashPolicy::Drop), None, rng);
            assert!(only.allows(&again), "{place}: lost after recovery\n{}", difference(&only, &again));
            assert!(tables(&dump) == tables(&rebuilt), "{place}: the index differs from a rebuilt one");
        }
        let Some(recorder) = recorder else { return };
        let captures = recorder.take();
        for _ in 0..3.min(captures.len()) {
            let capture = &captures[rng.below(captures.len() as u64) as usize];
            let policy = POLICIES[rng.below(POLICIES.len() as u64) as usize];
            let image = capture.disk.crash(rng, policy);
            self.tally.count(capture.step, image.fingerprint());
            let place = format!("{place}; in recovery, {}", capture.step);
            let index = self.index(snapshots, rng);
            let (state, _) = self.open(&place, &image, index, rng);
            assert!(legal.allows(&state), "{place}: an illegal state\n{}", difference(legal, &state));
        }
    }

    fn open(&self, place: &str, disk: &SimDisk, index: Snapshot, rng: &mut SimRng) -> (String, String) {
        let stepper = match self.world.aside(rng.next()).open(disk, index) {
            Ok(stepper) => stepper,
            Err(error) => panic!("{place}: the store does not open: {error}"),
        };
        let state = observe(stepper.handle()).unwrap_or_else(|error| panic!("{place}: unreadable: {error}"));
        (state, stepper.index_dump().unwrap())
    }
}

/// Without the position, and without the places of contents, which move when a batch is appended again.
fn tables(dump: &str) -> Vec<String> {
    dump.lines().filter(|line| !line.starts_with("meta position")).map(without_place).collect()
}

fn without_place(line: &str) -> String {
    let columns: Vec<&str> = line.split(' ').collect();
    match columns[..] {
        ["blobs", sequence, IN_LOG, _file, _offset, length, ..] => format!("blob {sequence} of {length} in the log"),
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
