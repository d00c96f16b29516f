//! The objects of a load and the known state of each: the last change that was acknowledged, and the one in progress.
//!
//! At most one connection changes an object at a time; any number read it. Each change increases the generation of the
//! object: odd generations are writes, even ones deletions, and 0 means never written. A reader looks at the state before
//! and after its request, so that it can tell a concurrent change from a wrong response. For any thread.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;

const SEGMENT: u32 = 1 << 16;
const SEGMENTS: usize = 1 << 12;
/// Most objects of one load.
pub const OBJECTS_MAX: u32 = SEGMENT * SEGMENTS as u32 - 1;

const GENERATION: u64 = (1 << 31) - 1;
const SETTLED_SHIFT: u32 = 31;
const BUSY: u64 = 1 << 62;
const ABANDONED: u64 = 1 << 63;

/// The known state of an object at one moment: two generations and two flags.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectState(u64);

impl ObjectState {
    /// The last generation that was sent.
    fn begun(self) -> u32 {
        (self.0 & GENERATION) as u32
    }

    /// The last generation that was acknowledged.
    fn settled(self) -> u32 {
        (self.0 >> SETTLED_SHIFT & GENERATION) as u32
    }

    fn is_live(self) -> bool {
        self.settled() % 2 == 1 && self.0 & ABANDONED == 0
    }

    fn is_free(self) -> bool {
        self.0 & (BUSY | ABANDONED) == 0
    }
}

/// The exclusive right to change an object, until it is settled, released or abandoned.
#[derive(Debug)]
pub struct Claim {
    pub number: u32,
    /// The generation of the write or the deletion.
    pub generation: u32,
}

/// An object that existed at the moment of the observation.
#[derive(Clone, Copy, Debug)]
pub struct Observation {
    pub number: u32,
    before: ObjectState,
}

/// Whether the result of a read can be right.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadCheck {
    Right,
    /// The object was deleted during the read, so both results are right.
    Raced,
    /// The result is older than a change that was acknowledged before the read began.
    Stale,
    /// The result is a write that was not sent yet.
    Unknown,
    /// The object was not found, although it existed all the time.
    Missing,
}

pub struct ObjectTable {
    segments: Box<[OnceLock<Box<[AtomicU64]>>]>,
    length: AtomicU32,
    /// Deleted objects, which are written again first, so that the numbers in use stay dense.
    deleted: Mutex<Vec<u32>>,
    deletes: bool,
}

impl ObjectTable {
    /// `deletes` says whether the load deletes objects. If not, none may be missing.
    pub fn new(deletes: bool) -> Self {
        let segments = (0..SEGMENTS).map(|_| OnceLock::new()).collect();
        Self { segments, length: AtomicU32::new(0), deleted: Mutex::default(), deletes }
    }

    /// Objects so far, deleted ones included.
    pub fn len(&self) -> u32 {
        self.length.load(Ordering::Acquire).min(OBJECTS_MAX)
    }

    fn slot(&self, number: u32) -> &AtomicU64 {
        let segment = self.segments[(number / SEGMENT) as usize]
            .get_or_init(|| (0..SEGMENT).map(|_| AtomicU64::new(0)).collect());
        &segment[(number % SEGMENT) as usize]
    }

    fn state(&self, number: u32) -> ObjectState {
        ObjectState(self.slot(number).load(Ordering::Acquire))
    }

    /// Claims a deleted object or a new one, to write it. `None` when there are `OBJECTS_MAX`.
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

    /// Claims the first free one of the first `within` objects, from `start` on, to overwrite it.
    pub fn claim_written(&self, within: u32, start: u32) -> Option<Claim> {
        self.scan(within, start).find_map(|number| self.claim(number, |_| true))
    }

    /// Claims the first free object that exists, from `start` on, to delete it.
    pub fn claim_live(&self, start: u32) -> Option<Claim> {
        self.scan(self.len(), start).find_map(|number| self.claim(number, ObjectState::is_live)).map(|claim| Claim {
            // `claim` returns the next odd generation; the deletion is the even one before it.
            generation: claim.generation - 1,
            ..claim
        })
    }

    /// The first object that exists, from `start` on.
    pub fn find_live(&self, start: u32) -> Option<Observation> {
        self.scan(self.len(), start).find_map(|number| self.observe(number))
    }

    fn scan(&self, length: u32, start: u32) -> impl Iterator<Item = u32> + use<> {
        let start = if length == 0 { 0 } else { start % length };
        (start..length).chain(0..start)
    }

    /// Claims the next write of an object, which has the next odd generation.
    fn claim(&self, number: u32, suits: impl Fn(ObjectState) -> bool) -> Option<Claim> {
        let slot = self.slot(number);
        let taken = slot.fetch_update(Ordering::AcqRel, Ordering::Acquire, |raw| {
            (ObjectState(raw).is_free() && suits(ObjectState(raw))).then_some(raw | BUSY)
        });
        let before = ObjectState(taken.ok()?);
        Some(Claim { number, generation: before.begun() + 1 + before.begun() % 2 })
    }

    /// To be called before the change is sent.
    pub fn begin(&self, claim: &Claim) {
        self.update(claim.number, |raw| raw & !GENERATION | u64::from(claim.generation));
    }

    /// The change was acknowledged.
    pub fn settle(&self, claim: Claim) {
        let generation = u64::from(claim.generation);
        self.update(claim.number, |raw| raw & !(GENERATION << SETTLED_SHIFT | BUSY) | generation << SETTLED_SHIFT);
        if claim.generation.is_multiple_of(2) {
            self.deleted.lock().push(claim.number);
        }
    }

    /// Whether the change took place is not known, so the object is not used again.
    pub fn abandon(&self, claim: Claim) {
        self.update(claim.number, |raw| raw & !BUSY | ABANDONED);
    }

    /// The change was never sent, or was refused.
    pub fn release(&self, claim: Claim) {
        self.update(claim.number, |raw| raw & !BUSY);
    }

    fn update(&self, number: u32, change: impl Fn(u64) -> u64) {
        let _ = self.slot(number).fetch_update(Ordering::AcqRel, Ordering::Acquire, |raw| Some(change(raw)));
    }

    /// This object, if it exists.
    pub fn observe(&self, number: u32) -> Option<Observation> {
        let before = self.state(number);
        before.is_live().then_some(Observation { number, before })
    }

    /// The oldest and the newest generation that a read begun at `seen` may return.
    pub fn span(&self, seen: &Observation) -> (u32, u32) {
        (seen.before.settled(), self.state(seen.number).begun())
    }

    /// Judges a read that began at `seen` and found the object, in this generation if the content says so.
    pub fn judge_found(&self, seen: &Observation, generation: Option<u32>) -> ReadCheck {
        let (oldest, newest) = self.span(seen);
        match generation {
            None => ReadCheck::Right,
            Some(found) if found < oldest => ReadCheck::Stale,
            Some(found) if found > newest || found % 2 == 0 => ReadCheck::Unknown,
            Some(_) => ReadCheck::Right,
        }
    }

    /// Judges a read that began at `seen` and did not find the object.
    pub fn judge_missing(&self, seen: &Observation) -> ReadCheck {
        let (oldest, newest) = self.span(seen);
        // The even generation that deletes the observed write. An overwrite skips it; the check is then too lenient.
        if self.deletes && oldest + oldest % 2 <= newest { ReadCheck::Raced } else { ReadCheck::Missing }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(objects: &ObjectTable) -> u32 {
        let claim = objects.claim_new().expect("room");
        let number = claim.number;
        objects.begin(&claim);
        objects.settle(claim);
        number
    }

    #[test]
    fn one_writer_at_a_time() {
        let objects = ObjectTable::new(true);
        let number = written(&objects);
        let claim = objects.claim_written(1, 0).expect("free");
        assert_eq!((claim.number, claim.generation), (number, 3));
        assert!(objects.claim_written(1, 0).is_none() && objects.claim_live(0).is_none());
        objects.release(claim);
        assert_eq!(objects.claim_live(0).expect("free").generation, 2);
    }

    #[test]
    fn deleted_objects_are_written_again() {
        let objects = ObjectTable::new(true);
        let numbers = [written(&objects), written(&objects)];
        let claim = objects.claim_live(1).expect("there");
        assert_eq!(claim.number, numbers[1]);
        objects.begin(&claim);
        objects.settle(claim);
        assert_eq!(objects.find_live(1).expect("there").number, numbers[0], "the scan wraps around");
        let again = objects.claim_new().expect("room");
        assert_eq!((again.number, again.generation), (numbers[1], 3));
        assert_eq!(objects.claim_new().expect("room").number, 2);
    }

    #[test]
    fn an_abandoned_object_is_not_used_again() {
        let objects = ObjectTable::new(true);
        written(&objects);
        let claim = objects.claim_written(1, 0).expect("free");
        objects.begin(&claim);
        objects.abandon(claim);
        assert!(
            objects.find_live(0).is_none() && objects.claim_live(0).is_none() && objects.claim_written(1, 0).is_none()
        );
    }

    #[test]
    fn reads_during_writes() {
        let objects = ObjectTable::new(false);
        let number = written(&objects);
        let seen = objects.find_live(number).expect("there");
        let judged = |found| objects.judge_found(&seen, found);
        assert_eq!([Some(1), None].map(judged), [ReadCheck::Right, ReadCheck::Right]);
        assert_eq!([Some(0), Some(2), Some(3)].map(judged), [ReadCheck::Stale, ReadCheck::Unknown, ReadCheck::Unknown]);
        assert_eq!(objects.judge_missing(&seen), ReadCheck::Missing);
        let claim = objects.claim_written(1, number).expect("free");
        objects.begin(&claim);
        assert_eq!([Some(1), Some(3)].map(judged), [ReadCheck::Right, ReadCheck::Right], "in progress");
        objects.settle(claim);
        assert_eq!([Some(1), Some(3)].map(judged), [ReadCheck::Right, ReadCheck::Right], "since the read began");
        let later = objects.find_live(number).expect("there");
        assert_eq!(objects.judge_found(&later, Some(1)), ReadCheck::Stale);
        assert_eq!(objects.judge_missing(&seen), ReadCheck::Missing, "it was overwritten, not deleted");
    }

    #[test]
    fn reads_during_deletions() {
        let objects = ObjectTable::new(true);
        let number = written(&objects);
        let seen = objects.find_live(number).expect("there");
        assert_eq!(objects.judge_missing(&seen), ReadCheck::Missing);
        let claim = objects.claim_live(number).expect("there");
        objects.begin(&claim);
        assert_eq!(objects.judge_missing(&seen), ReadCheck::Raced);
        assert_eq!(objects.judge_found(&seen, Some(1)), ReadCheck::Right);
        objects.settle(claim);
        assert!(objects.observe(number).is_none());
    }
}
