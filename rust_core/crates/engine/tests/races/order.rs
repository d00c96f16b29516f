//! What clients asked and were answered, and whether one order of the operations explains all answers: an order in which
//! each operation takes effect between its beginning and its end.

use std::collections::HashSet;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;

/// What the operations change, as it is between two of them.
pub trait State: Clone + Debug + Eq + Hash {
    type Asked: Debug;
    type Answer: Debug;

    /// The state after an operation, if it can have been answered so here.
    fn after(&self, asked: &Self::Asked, answer: &Self::Answer) -> Option<Self>;
}

#[derive(Debug)]
pub struct Call<S: State> {
    begin: u64,
    end: u64,
    pub asked: S::Asked,
    pub answer: S::Answer,
}

impl<S: State> Call<S> {
    pub fn begin(&self) -> u64 {
        self.begin
    }

    /// Whether it had ended when the other one began.
    pub fn is_before(&self, other: &Self) -> bool {
        self.end < other.begin
    }
}

/// What the clients of a schedule did. They do not meet at it: neither field is a point at which the scheduler looks.
pub struct Calls<S: State> {
    time: AtomicU64,
    list: Mutex<Vec<Call<S>>>,
}

impl<S: State> Default for Calls<S> {
    fn default() -> Self {
        Self { time: AtomicU64::default(), list: Mutex::default() }
    }
}

impl<S: State> Calls<S> {
    fn tick(&self) -> u64 {
        self.time.fetch_add(1, Ordering::Relaxed)
    }

    /// Calls `answer`, and notes what it returns and when.
    pub fn ask(&self, asked: S::Asked, answer: impl FnOnce(&S::Asked) -> S::Answer) {
        self.ask_together(|| {
            let answer = answer(&asked);
            vec![(asked, answer)]
        });
    }

    /// Calls `answer`, which asks for several things at a time, each of them answered as of some moment until the end.
    pub fn ask_together(&self, answer: impl FnOnce() -> Vec<(S::Asked, S::Answer)>) {
        let begin = self.tick();
        let answers = answer();
        let end = self.tick();
        let call = |(asked, answer)| Call { begin, end, asked, answer };
        self.list.lock().extend(answers.into_iter().map(call));
    }

    /// Searches for an order that explains every answer.
    ///
    /// # Panics
    /// When there is none.
    pub fn judge(&self, first: &S) {
        let calls = self.list.lock();
        assert!(calls.len() <= u128::BITS as usize, "{} calls", calls.len());
        if !explains(first, &calls, 0, &mut HashSet::new()) {
            panic!("no order of the operations explains the answers, from {first:?}:\n{}", told(&calls));
        }
    }

    pub fn with<R>(&self, look: impl FnOnce(&[Call<S>]) -> R) -> R {
        look(&self.list.lock())
    }
}

/// The calls, one in each line.
pub fn told<S: State>(calls: &[Call<S>]) -> String {
    let mut told = String::new();
    calls.iter().for_each(|call| told += &format!("{call:?}\n"));
    told
}

/// Whether the calls that are not in `done` can follow `state`.
fn explains<S: State>(state: &S, calls: &[Call<S>], done: u128, seen: &mut HashSet<(u128, S)>) -> bool {
    let open = || calls.iter().enumerate().filter(move |(at, _)| done & (1 << at) == 0);
    let Some(first_end) = open().map(|(_, call)| call.end).min() else { return true };
    if !seen.insert((done, state.clone())) {
        return false;
    }
    // What began after another one had ended comes behind it.
    open().filter(|(_, call)| call.begin < first_end).any(|(at, call)| match state.after(&call.asked, &call.answer) {
        Some(next) => explains(&next, calls, done | 1 << at, seen),
        None => false,
    })
}
