//! One store through its lives: operations go in, the model follows in the order of the answers, and every step of the
//! disk on the way is cut.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use orcas_base::error::{Error, Result};
use orcas_decide::{Failure, Intent, Outcome, Refusal};
use orcas_engine::{Clock, Condition, EngineOptions, Handle, ReclaimLimits, Stepper, Waiter};
use orcas_fs_testing::{CrashPolicy, Fault, Operation, SimDisk, SimRng};
use orcas_record::{Bucket, BucketId, Cause, Durability};

use super::events::Followed;
use super::images::{Checker, Legal, POLICIES, Snapshot, Tally};
use super::observe::observe;
use super::reclaim::{Reader, limits};
use super::steps::{Phase, Recorder, Step};
use super::world::{Answers, World, upload_id};
use crate::model::{Model, Moment, Op, OperationEffect};

/// Of more captures than this from one action, a random share is cut: an object of many chunks repeats itself.
const CAPTURES_CUT: usize = 16;
/// The same of captures of one step in all lives of a store: a hundred packs that are retired one by one do, too.
const REPEATED_CUT: u64 = 12;
/// Of captures in which nothing is reclaimed, one in so many is cut.
const ORDINARY: u64 = 3;
/// More random cuts of a step of reclamation.
const SCATTERED: usize = 9;
/// More than the versions that one operation makes.
const STAMPS: u64 = 64;
/// One in so many uploads is submitted in a later round than its body arrived.
const HELD: u64 = 6;

/// The model after an operation, with its text.
#[derive(Clone)]
struct ModelState {
    model: Model,
    text: Arc<str>,
}

impl ModelState {
    fn new(model: Model) -> Self {
        let text = model.text().into();
        Self { model, text }
    }
}

/// A batch that failed: it may be found after a restart, until something is durable without it.
struct Branch {
    /// States of the history below it.
    base: usize,
    states: Vec<ModelState>,
}

pub struct Run {
    pub rng: SimRng,
    pub world: World,
    pub disk: SimDisk,
    pub stepper: Stepper,
    pub recorder: Recorder,
    checker: Checker,
    answers: Arc<Answers>,
    history: Vec<ModelState>,
    /// The earliest state that every acknowledged operation is in.
    pub must: usize,
    branches: Vec<Branch>,
    snapshots: Vec<Snapshot>,
    /// When which state has to be durable: what was acknowledged in the modes `interval` and `buffered`.
    deadlines: Vec<(Duration, usize)>,
    stamp: u64,
    /// One in so many captures is cut.
    sparse: u64,
    /// How often each step was captured.
    captured: BTreeMap<Step, u64>,
    /// The operation that was told to fail, and the first of its kind that does.
    pub fault: Option<(Operation, u64)>,
    /// Until the disk is repaired.
    pub failing: bool,
    /// Uploads whose bodies have arrived and that are not submitted yet.
    held: Vec<(Op, Intent)>,
    /// Whether there are such uploads.
    pub holds: bool,
    pub readers: Vec<Reader>,
    pub limits: ReclaimLimits,
    /// The piece of reclamation that waits for its commit.
    pub settling: Option<&'static str>,
    /// The file system has no holes.
    solid: bool,
    /// Upload ids that had been drawn when this life began.
    first_draw: u64,
    pub followed: Followed,
}

impl Run {
    /// A new store. One in `sparse` captures is cut.
    pub fn new(
        seed: u64,
        durability: Durability,
        tally: &Arc<Tally>,
        sparse: u64,
        change: impl FnOnce(&mut EngineOptions),
    ) -> Self {
        let mut rng = SimRng::new(seed);
        let mut world = World::new(seed, durability, &mut rng);
        change(&mut world.options);
        let disk = SimDisk::new();
        let solid = seed % 3 == 1;
        if solid {
            disk.refuse_holes();
        }
        let recorder = Recorder::attach(&disk, Phase::Opening);
        let stepper = world.open(&disk, None).unwrap();
        let followed = Followed::new(seed, &world.options);
        let mut run = Self {
            checker: Checker::new(world.clone(), Arc::clone(tally)),
            history: vec![ModelState::new(Model::new(durability))],
            limits: limits(&mut rng),
            rng,
            world,
            disk,
            stepper,
            recorder,
            answers: Arc::default(),
            must: 0,
            branches: Vec::new(),
            snapshots: vec![None],
            deadlines: Vec::new(),
            stamp: 0,
            sparse,
            captured: BTreeMap::new(),
            fault: None,
            failing: false,
            held: Vec::new(),
            holds: true,
            readers: Vec::new(),
            settling: None,
            solid,
            first_draw: 0,
            followed,
        };
        run.cut(0);
        run
    }

    pub fn model(&self) -> &Model {
        &self.history.last().expect("never empty").model
    }

    pub fn handle(&self) -> &Handle {
        self.stepper.handle()
    }

    /// A bucket of clients as it is now.
    pub fn bucket(&self, id: BucketId) -> Option<Arc<Bucket>> {
        self.handle().buckets().into_iter().find(|bucket| bucket.id == id)
    }

    pub fn read_only(&self) -> bool {
        matches!(self.handle().health().condition, Condition::ReadOnly(_))
    }

    fn legal(&self, must: usize) -> Legal {
        let branches = self.branches.iter().filter(|branch| branch.base >= must).flat_map(|branch| &branch.states);
        let states = self.history[must..].iter().chain(branches).map(|state| Arc::clone(&state.text)).collect();
        Legal { states }
    }

    /// Cuts the power at the steps since the last time; `must` is what had been acknowledged before them.
    pub fn cut(&mut self, must: usize) {
        let captures = self.recorder.take();
        let legal = self.legal(must);
        let sparse = self.sparse.saturating_mul((captures.len() / CAPTURES_CUT).max(1) as u64);
        for capture in captures {
            // Reclamation is rarer than what clients do, and each of its steps leaves more to be torn.
            let (sparse, scattered) = match capture.step.reclaiming {
                Some("barrier") => (sparse, 0),
                Some(_) => (self.sparse, SCATTERED),
                None => (sparse.saturating_mul(ORDINARY), 0),
            };
            let captured = self.captured.entry(capture.step).or_default();
            *captured += 1;
            let sparse = sparse.saturating_mul((*captured / REPEATED_CUT).max(1));
            if self.rng.below(sparse) > 0 {
                continue;
            }
            for policy in POLICIES.into_iter().chain([CrashPolicy::Scatter; SCATTERED]).take(POLICIES.len() + scattered)
            {
                let demand = (must, &legal);
                let followed = &mut self.followed;
                self.checker.cut(
                    capture.step,
                    &capture.disk,
                    policy,
                    &self.snapshots,
                    demand,
                    (followed, &mut self.rng),
                );
            }
        }
    }

    /// Cuts the power now that the answers are out.
    fn cut_after_answers(&mut self, reclaiming: Option<&'static str>) {
        let legal = self.legal(self.must);
        let now = self.disk.snapshot();
        for policy in [CrashPolicy::Drop, CrashPolicy::Scatter] {
            let demand = (self.must, &legal);
            let step = Step { reclaiming, what: "after the answers" };
            let followed = &mut self.followed;
            self.checker.cut(step, &now, policy, &self.snapshots, demand, (followed, &mut self.rng));
        }
    }

    /// Bodies first, then one or several rounds of the committer until everybody has an answer.
    pub fn round(&mut self, ops: Vec<Op>) {
        self.recorder.enter(Phase::Body);
        let mut ready = if self.rng.below(2) == 0 { std::mem::take(&mut self.held) } else { Vec::new() };
        for op in ops.into_iter().filter(|op| self.world.mode.allows(op)).collect::<Vec<_>>() {
            match self.intent(&op) {
                Ok(intent) if self.holds && has_body(&op) && self.rng.below(HELD) == 0 => self.held.push((op, intent)),
                Ok(intent) => ready.push((op, intent)),
                Err(error) => assert!(is_fault(&error), "a body was refused: {error}"),
            }
        }
        let mut waiting = VecDeque::new();
        for (op, intent) in ready {
            let sink = Arc::clone(&self.answers) as _;
            self.handle().submit(intent, Cause::Engine, Waiter::new(sink, waiting.len() as u64));
            waiting.push_back(op);
        }
        self.cut(self.must);
        let mut token = 0;
        while !waiting.is_empty() {
            self.commit(&mut waiting, &mut token);
        }
    }

    /// A round of the committer in which nothing but a flush can be due.
    pub fn idle(&mut self, by: Duration) {
        self.world.clock.advance(by);
        self.commit(&mut VecDeque::new(), &mut 0);
    }

    fn commit(&mut self, waiting: &mut VecDeque<Op>, token: &mut u64) {
        while self.stepper.awaits_index() {
            self.apply();
        }
        let settling = self.settling.take();
        self.recorder.enter(settling.map_or(Phase::Commit, Phase::Settle));
        let must = self.must;
        let (now_ms, mut draw) = (self.world.clock.now_ms(), self.world.random.drawn());
        self.stepper.commit();
        let answers = self.answers.take();
        let answered = !answers.is_empty();
        let failed =
            answers.iter().any(|(_, answer)| matches!(answer, Err(Failure::Engine(_))) && !Self::undecided(answer));
        let mut first = true;
        let mut aside = failed.then(|| (self.model().clone(), Vec::new()));
        for (answered, answer) in answers {
            assert_eq!(answered, *token, "answers out of order");
            *token += 1;
            let op = waiting.pop_front().expect("an answer for every intent");
            self.stamp += STAMPS;
            let at = Moment { now_ms, upload: upload_id(now_ms, self.first_draw, draw), stamp: self.stamp };
            // Every creation of an upload that is decided takes a draw, also one that is refused.
            draw += u64::from(matches!(op, Op::CreateUpload { .. }) && !Self::undecided(&answer));
            match &mut aside {
                _ if Self::undecided(&answer) => {}
                Some((model, states)) => {
                    assert!(matches!(&answer, Err(Failure::Engine(error)) if is_fault(error)), "{answer:?}");
                    if model.apply(&op, at).is_ok_and(|effect| effect.effective) {
                        states.push(ModelState::new(model.clone()));
                    }
                }
                // What the batch deletes counts only after it, where a bucket has layers.
                None if !first && self.holds_objects_of_batch(&op, &answer) => {}
                None => self.follow(&op, at, answer),
            }
            first = false;
        }
        assert_eq!(draw, self.world.random.drawn());
        if let Some((_, states)) = aside {
            self.branches.push(Branch { base: self.history.len() - 1, states });
            self.followed.doubt();
        } else if !self.read_only() {
            let now = self.world.clock.monotonic();
            let due = self.deadlines.iter().filter(|(deadline, _)| *deadline <= now).map(|(_, state)| *state);
            self.must = due.max().unwrap_or(0).max(self.must);
            self.deadlines.retain(|(deadline, _)| *deadline > now);
        }
        self.branches.retain(|branch| branch.base >= must);
        self.cut(must);
        self.branches.retain(|branch| branch.base >= self.must);
        if answered || settling.is_some() {
            self.cut_after_answers(settling);
        }
    }

    /// Whether the store turned an intent away before it looked at it.
    fn undecided(answer: &Result<Outcome, Failure>) -> bool {
        matches!(answer, Err(Failure::Engine(Error::ReadOnly { .. } | Error::UnderReserve { .. })))
    }

    fn holds_objects_of_batch(&self, op: &Op, answer: &Result<Outcome, Failure>) -> bool {
        let Op::DeleteBucket { bucket } = op else { return false };
        let layered = self.model().bucket(*bucket).is_some_and(|held| held.layered);
        layered && matches!(answer, Err(Failure::Refused(Refusal::BucketNotEmpty)))
    }

    /// Takes an answer into the model.
    fn follow(&mut self, op: &Op, at: Moment, answer: Result<Outcome, Failure>) {
        let mut model = self.model().clone();
        let promised = model.durability(op);
        let expected = model.apply(op, at);
        match (&expected, &answer) {
            (Ok(effect), Ok(outcome)) => check_outcome(effect, outcome, at),
            (Err(expected), Err(Failure::Refused(refusal))) => {
                assert!(same_refusal(expected, refusal), "{op:?}: {refusal:?} instead of {expected:?}");
            }
            // A completion is remembered with the layer that got its object.
            (Ok(_), Err(Failure::Refused(Refusal::NoSuchUpload))) if model.may_have_forgotten(op) => return,
            (Ok(_), Err(Failure::Refused(Refusal::QuotaExceeded { .. }))) if self.model().counts_layers() => return,
            _ => panic!("{op:?}: {answer:?} instead of {expected:?}"),
        }
        if let (Op::CreateBucket { name, .. } | Op::Fork { name, .. }, Ok(Outcome::Bucket(bucket))) = (op, &answer) {
            model.buckets.get_mut(name).expect("just made").id = Some(bucket.id);
        }
        if !expected.is_ok_and(|effect| effect.effective) {
            return;
        }
        self.followed.expect(self.history.len(), &model, op);
        self.history.push(ModelState::new(model));
        let options = &self.world.options;
        let wait = match promised {
            Durability::Sync => {
                self.must = self.history.len() - 1;
                return;
            }
            Durability::Interval => options.sync_interval,
            Durability::Buffered => options.write_buffer_window,
            Durability::UnsafeNone => return,
        };
        let deadline = self.world.clock.monotonic() + wait;
        self.deadlines.push((deadline, self.history.len() - 1));
    }

    pub fn apply(&mut self) {
        self.stepper.apply().unwrap();
        self.snapshots.push(Some(Arc::new(self.stepper.serialized_index().unwrap())));
    }

    pub fn make_spare(&mut self) -> Result<()> {
        self.recorder.enter(Phase::Spare);
        let made = self.stepper.make_spare();
        self.cut(self.must);
        made
    }

    /// What the living store shows is the model's present.
    pub fn compare(&self) {
        let state = observe(self.handle()).unwrap();
        let wanted = &self.history.last().expect("never empty").text;
        assert!(state == **wanted, "the store shows\n{state}\ninstead of\n{wanted}");
    }

    /// Lets the `nth` operation of a kind from now on fail.
    pub fn fail(&mut self, operation: Operation, nth: u64, fault: Fault, for_ever: bool) {
        self.fault = Some((operation, self.disk.count(operation) + nth));
        self.failing = true;
        self.disk.fail(operation, nth, fault, for_ever);
    }

    /// Whether it came to that.
    pub fn struck(&self) -> bool {
        self.fault.is_some_and(|(operation, from)| self.disk.count(operation) >= from)
    }

    pub fn repair_disk(&mut self) {
        self.failing = false;
        self.disk.clear_faults();
    }

    /// A start with this disk finds a legal state.
    pub fn check_start(&mut self, disk: &SimDisk) {
        let legal = self.legal(self.must);
        let demand = (self.must, &legal);
        let snapshots = &self.snapshots;
        self.checker.cut(
            Step::plain("after a start that failed"),
            disk,
            CrashPolicy::Keep,
            snapshots,
            demand,
            (&mut self.followed, &mut self.rng),
        );
    }

    /// A power cut, and the next life begins with what it left.
    pub fn crash(&mut self, policy: CrashPolicy) {
        let disk = self.disk.crash(&mut self.rng, policy);
        self.reopen(disk);
    }

    /// The process dies, the machine goes on.
    pub fn kill(&mut self) {
        self.reopen(self.disk.kill());
    }

    /// A clean end, after which a power cut takes nothing, whatever its mode.
    pub fn stop(&mut self) {
        self.recorder.enter(Phase::Close);
        self.stepper.close();
        self.cut(self.must);
        self.must = self.history.len() - 1;
        self.crash(CrashPolicy::Drop);
    }

    fn reopen(&mut self, disk: SimDisk) {
        self.held.clear();
        self.readers.clear();
        self.settling = None;
        if self.solid {
            disk.refuse_holes();
        }
        self.recorder = Recorder::attach(&disk, Phase::Opening);
        let index = match self.rng.below(4) {
            0 => None,
            _ => self.snapshots.last().cloned().flatten(),
        };
        self.first_draw = self.world.random.drawn();
        self.stepper = self.world.open(&disk, index).unwrap();
        self.disk = disk;
        let found = observe(self.handle()).unwrap();
        let legal = self.legal(self.must);
        assert!(legal.allows(&found), "an illegal state after a restart\n{found}");
        self.cut(self.must);
        let mut state = self.resume(&found);
        for bucket in self.handle().buckets() {
            let known = state.model.buckets.get_mut(&bucket.name).expect("observed");
            assert_eq!(*known.id.get_or_insert(bucket.id), bucket.id);
        }
        self.history = vec![state];
        self.must = 0;
        self.branches.clear();
        self.deadlines.clear();
        self.snapshots.push(Some(Arc::new(self.stepper.serialized_index().unwrap())));
    }

    /// The state that was found. Completions that may not have happened are forgotten, because nothing shows them, and
    /// so are tokens, which are in memory.
    fn resume(&self, found: &str) -> ModelState {
        let branches = self.branches.iter().flat_map(|branch| &branch.states);
        // A bucket that was deleted and created anew is another one, although it shows the same.
        let buckets = self.handle().buckets();
        let is_it = |state: &&ModelState| {
            let known = &state.model.buckets;
            let of = |name| known.get(name).and_then(|bucket| bucket.id);
            &*state.text == found && buckets.iter().all(|bucket| of(&bucket.name).is_none_or(|id| id == bucket.id))
        };
        let mut state = self.history[self.must..].iter().chain(branches).find(is_it).expect("a legal state").clone();
        let mut completed = self.history[self.must].model.completed.clone();
        let is_layered = |id| state.model.bucket(id).is_some_and(|bucket| bucket.layered);
        completed.values_mut().for_each(|done| done.frozen |= is_layered(done.bucket));
        state.model.completed = completed;
        state.model.tokens.clear();
        state
    }
}

fn has_body(op: &Op) -> bool {
    matches!(op, Op::Put { .. } | Op::Append { .. } | Op::PutPart { .. })
}

fn check_outcome(effect: &OperationEffect, outcome: &Outcome, at: Moment) {
    match outcome {
        Outcome::Put(put) | Outcome::Part(put) => assert_eq!(Some(put.etag), effect.etag),
        Outcome::Completed(completed, _) => assert_eq!(Some(completed.etag), effect.etag),
        Outcome::Deleted(entries) => {
            let entries: Vec<_> = entries.iter().map(|entry| entry.as_ref().map(drop).map_err(Clone::clone)).collect();
            assert_eq!(entries, effect.entries);
        }
        Outcome::Upload(id) => assert_eq!(*id, at.upload),
        Outcome::Expired(expired) => assert_eq!(*expired, effect.expired),
        Outcome::Moved { objects, bytes } => assert_eq!((*objects, *bytes), effect.moved),
        Outcome::Done
        | Outcome::DeletedOne(_)
        | Outcome::Updated(_)
        | Outcome::Sealed(_)
        | Outcome::Annotated { .. }
        | Outcome::Bucket(_) => {}
    }
}

/// The same, whatever the words are.
fn same_refusal(expected: &Refusal, found: &Refusal) -> bool {
    let invalid = |refusal: &Refusal| matches!(refusal, Refusal::InvalidRequest { .. });
    let state = |refusal: &Refusal| matches!(refusal, Refusal::InvalidBucketState { .. });
    expected == found || invalid(expected) && invalid(found) || state(expected) && state(found)
}

/// What a failing disk may be answered with.
pub fn is_fault(error: &Error) -> bool {
    matches!(error, Error::Io { .. } | Error::StorageFull | Error::UnderReserve { .. } | Error::ReadOnly { .. })
}
