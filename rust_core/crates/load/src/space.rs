//! The objects of a run and what is known of each: which writing of it was answered, and which one is under way.
//!
//! An object is written by one connection at a time and read by any number. Its generation grows with every change: odd
//! ones are writings, even ones deletions, 0 was never there. Whoever reads looks before and after, so that it can tell a
//! late answer from a wrong one. Any thread; no lock is held while anything is waited for.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

const SEGMENT: u32 = 1 << 16;
const SEGMENTS: usize = 1 << 12;
/// Objects that one run may make.
pub const OBJECTS_MAX: u32 = SEGMENT * SEGMENTS as u32 - 1;

const GENERATION: u64 = (1 << 31) - 1;
const SETTLED_SHIFT: u32 = 31;
const BUSY: u64 = 1 << 62;
const DOUBTFUL: u64 = 1 << 63;

/// What is known of an object at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State(u64);

impl State {
    /// The generation that was sent last.
    fn begun(self) -> u32 {
        (self.0 & GENERATION) as u32
    }

    /// The generation that was answered last.
    fn settled(self) -> u32 {
        (self.0 >> SETTLED_SHIFT & GENERATION) as u32
    }

    fn is_live(self) -> bool {
        self.settled() % 2 == 1 && self.0 & DOUBTFUL == 0
    }

    fn is_free(self) -> bool {
        self.0 & (BUSY | DOUBTFUL) == 0
    }
}

/// A change of an object that is under way. Nobody else changes the object until it is given back.
#[derive(Debug)]
pub struct Claim {
    pub number: u32,
    /// Of the writing or the deletion.
    pub generation: u32,
}

/// An object that was there when it was looked at.
#[derive(Clone, Copy, Debug)]
pub struct Sight {
    pub number: u32,
    before: State,
}

/// Whether what a read found may be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    Right,
    /// It changed meanwhile: that there was nothing is as right as the opposite.
    Raced,
    /// Something older than what was answered before the read began.
    Stale,
    /// A writing that nobody has sent yet.
    Unknown,
    /// Nothing, although it was there all the time.
    Missing,
}

pub struct Space {
    segments: Box<[OnceLock<Box<[AtomicU64]>>]>,
    length: AtomicU32,
    /// Objects that were deleted, to be written again: else what lives would be ever sparser.
    deleted: Mutex<Vec<u32>>,
    deletes: bool,
}

impl Space {
    /// `deletes`: whether objects are ever deleted. If not, none may be missing.
    pub fn new(deletes: bool) -> Self {
        let segments = (0..SEGMENTS).map(|_| OnceLock::new()).collect();
        Self { segments, length: AtomicU32::new(0), deleted: Mutex::default(), deletes }
    }

    /// Objects so far, whatever became of them.
    pub fn len(&self) -> u32 {
        self.length.load(Ordering::Acquire).min(OBJECTS_MAX)
    }

    fn slot(&self, number: u32) -> &AtomicU64 {
        let segment = self.segments[(number / SEGMENT) as usize]
            .get_or_init(|| (0..SEGMENT).map(|_| AtomicU64::new(0)).collect());
        &segment[(number % SEGMENT) as usize]
    }

    fn state(&self, number: u32) -> State {
        State(self.slot(number).load(Ordering::Acquire))
    }

    /// Takes an object that is not there, to write it: a deleted one, else a new one. `None` when there are too many.
    pub fn claim_new(&self) -> Option<Claim> {
        let deleted = self.deleted.lock().pop();
        if let Some(claim) = deleted.and_then(|number| self.claim(number, |state| !state.is_live())) {
            return Some(claim);
        }
        let number = self.length.fetch_add(1, Ordering::AcqRel);
        if number >= OBJECTS_MAX {
            self.length.store(OBJECTS_MAX, Ordering::Release);
            return None;
        }
        self.claim(number, |_| true)
    }

    /// Takes one of the first `within` objects to write it again, at or behind `start`.
    pub fn claim_written(&self, within: u32, start: u32) -> Option<Claim> {
        self.scan(within, start).find_map(|number| self.claim(number, |_| true))
    }

    /// Takes an object that is there, to delete it, at or behind `start`.
    pub fn claim_live(&self, start: u32) -> Option<Claim> {
        self.scan(self.len(), start).find_map(|number| self.claim(number, State::is_live)).map(|claim| Claim {
            // A writing was claimed; the deletion that ends the present one comes right behind it.
            generation: claim.generation - 1,
            ..claim
        })
    }

    /// An object that is there, at or behind `start`.
    pub fn find_live(&self, start: u32) -> Option<Sight> {
        self.scan(self.len(), start).find_map(|number| self.sight(number))
    }

    fn scan(&self, length: u32, start: u32) -> impl Iterator<Item = u32> + use<> {
        let start = if length == 0 { 0 } else { start % length };
        (start..length).chain(0..start)
    }

    /// Claims the next writing of an object, which is the next odd generation.
    fn claim(&self, number: u32, suits: impl Fn(State) -> bool) -> Option<Claim> {
        let slot = self.slot(number);
        let taken = slot.fetch_update(Ordering::AcqRel, Ordering::Acquire, |raw| {
            (State(raw).is_free() && suits(State(raw))).then_some(raw | BUSY)
        });
        let before = State(taken.ok()?);
        Some(Claim { number, generation: before.begun() + 1 + before.begun() % 2 })
    }

    /// The change is about to be sent.
    pub fn begin(&self, claim: &Claim) {
        self.update(claim.number, |raw| raw & !GENERATION | u64::from(claim.generation));
    }

    /// The change was answered.
    pub fn settle(&self, claim: Claim) {
        let generation = u64::from(claim.generation);
        self.update(claim.number, |raw| raw & !(GENERATION << SETTLED_SHIFT | BUSY) | generation << SETTLED_SHIFT);
        if claim.generation.is_multiple_of(2) {
            self.deleted.lock().push(claim.number);
        }
    }

    /// Nobody knows whether the change took place: the object is not touched again.
    pub fn doubt(&self, claim: Claim) {
        self.update(claim.number, |raw| raw & !BUSY | DOUBTFUL);
    }

    /// The change was never sent.
    pub fn give_back(&self, claim: Claim) {
        self.update(claim.number, |raw| raw & !BUSY);
    }

    fn update(&self, number: u32, change: impl Fn(u64) -> u64) {
        let _ = self.slot(number).fetch_update(Ordering::AcqRel, Ordering::Acquire, |raw| Some(change(raw)));
    }

    /// One object, if it is there.
    pub fn sight(&self, number: u32) -> Option<Sight> {
        let before = self.state(number);
        before.is_live().then_some(Sight { number, before })
    }

    /// The writings of an object that a read begun at `sight` may still see now: the oldest and the newest.
    pub fn span(&self, sight: &Sight) -> (u32, u32) {
        (sight.before.settled(), self.state(sight.number).begun())
    }

    /// What to think of a read that began at `sight` and found the object, in the given writing if it could tell.
    pub fn judge_found(&self, sight: &Sight, generation: Option<u32>) -> Verdict {
        let (oldest, newest) = self.span(sight);
        match generation {
            None => Verdict::Right,
            Some(found) if found < oldest => Verdict::Stale,
            Some(found) if found > newest || found % 2 == 0 => Verdict::Unknown,
            Some(_) => Verdict::Right,
        }
    }

    /// What to think of a read that began at `sight` and was told that there is no such object.
    pub fn judge_missing(&self, sight: &Sight) -> Verdict {
        let (oldest, newest) = self.span(sight);
        // The first even generation at or after the oldest. A second writing may have passed over it.
        if self.deletes && oldest + oldest % 2 <= newest { Verdict::Raced } else { Verdict::Missing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(space: &Space) -> u32 {
        let claim = space.claim_new().expect("room");
        let number = claim.number;
        space.begin(&claim);
        space.settle(claim);
        number
    }

    #[test]
    fn one_writer_at_a_time() {
        let space = Space::new(true);
        let number = written(&space);
        let claim = space.claim_written(1, 0).expect("free");
        assert_eq!((claim.number, claim.generation), (number, 3));
        assert!(space.claim_written(1, 0).is_none() && space.claim_live(0).is_none());
        space.give_back(claim);
        assert_eq!(space.claim_live(0).expect("free").generation, 2);
    }

    #[test]
    fn the_deleted_are_written_again() {
        let space = Space::new(true);
        let numbers = [written(&space), written(&space)];
        let claim = space.claim_live(1).expect("there");
        assert_eq!(claim.number, numbers[1]);
        space.begin(&claim);
        space.settle(claim);
        assert_eq!(space.find_live(1).expect("there").number, numbers[0], "the scan goes round");
        let again = space.claim_new().expect("room");
        assert_eq!((again.number, again.generation), (numbers[1], 3));
        assert_eq!(space.claim_new().expect("room").number, 2);
    }

    #[test]
    fn nobody_touches_what_is_in_doubt() {
        let space = Space::new(true);
        written(&space);
        let claim = space.claim_written(1, 0).expect("free");
        space.begin(&claim);
        space.doubt(claim);
        assert!(space.find_live(0).is_none() && space.claim_live(0).is_none() && space.claim_written(1, 0).is_none());
    }

    #[test]
    fn reads_beside_writings() {
        let space = Space::new(false);
        let number = written(&space);
        let sight = space.find_live(number).expect("there");
        let judged = |found| space.judge_found(&sight, found);
        assert_eq!([Some(1), None].map(judged), [Verdict::Right, Verdict::Right]);
        assert_eq!([Some(0), Some(2), Some(3)].map(judged), [Verdict::Stale, Verdict::Unknown, Verdict::Unknown]);
        assert_eq!(space.judge_missing(&sight), Verdict::Missing);
        let claim = space.claim_written(1, number).expect("free");
        space.begin(&claim);
        assert_eq!([Some(1), Some(3)].map(judged), [Verdict::Right, Verdict::Right], "under way");
        space.settle(claim);
        assert_eq!([Some(1), Some(3)].map(judged), [Verdict::Right, Verdict::Right], "since the read began");
        let later = space.find_live(number).expect("there");
        assert_eq!(space.judge_found(&later, Some(1)), Verdict::Stale);
        assert_eq!(space.judge_missing(&sight), Verdict::Missing, "it was written over, not deleted");
    }

    #[test]
    fn reads_beside_deletions() {
        let space = Space::new(true);
        let number = written(&space);
        let sight = space.find_live(number).expect("there");
        assert_eq!(space.judge_missing(&sight), Verdict::Missing);
        let claim = space.claim_live(number).expect("there");
        space.begin(&claim);
        assert_eq!(space.judge_missing(&sight), Verdict::Raced);
        assert_eq!(space.judge_found(&sight, Some(1)), Verdict::Right);
        space.settle(claim);
        assert!(space.sight(number).is_none());
    }
}
