//! The process-wide limit on bytes of request bodies held in memory, as permits that give their share back on drop.
//!
//! First come, first served: nobody overtakes a waiter, so a large body cannot starve behind small ones. Callbacks run
//! without the lock held.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

pub struct Budget {
    state: Mutex<State>,
}

struct State {
    free: u64,
    waiting: VecDeque<Waiting>,
}

struct Waiting {
    bytes: u64,
    granted: Box<dyn FnOnce(Permit) + Send>,
}

/// A share of the budget, in bytes.
pub struct Permit {
    budget: Arc<Budget>,
    bytes: u64,
}

impl Budget {
    /// `total` in bytes; no request may ask for more at once.
    pub fn new(total: u64) -> Arc<Self> {
        Arc::new(Self { state: Mutex::new(State { free: total, waiting: VecDeque::new() }) })
    }

    /// Takes `bytes` now, or `None` when they are not free or others wait for theirs.
    pub fn try_take(self: &Arc<Self>, bytes: u64) -> Option<Permit> {
        let mut state = self.state.lock();
        if !state.waiting.is_empty() || state.free < bytes {
            return None;
        }
        state.free -= bytes;
        Some(Permit { budget: Arc::clone(self), bytes })
    }

    /// Takes `bytes` now, or calls `granted` from the thread that frees them.
    pub fn take_or_wait(self: &Arc<Self>, bytes: u64, granted: impl FnOnce(Permit) + Send + 'static) -> Option<Permit> {
        let mut state = self.state.lock();
        if state.waiting.is_empty() && state.free >= bytes {
            state.free -= bytes;
            return Some(Permit { budget: Arc::clone(self), bytes });
        }
        state.waiting.push_back(Waiting { bytes, granted: Box::new(granted) });
        None
    }

    fn give_back(self: &Arc<Self>, bytes: u64) {
        let mut granted = Vec::new();
        {
            let mut state = self.state.lock();
            state.free += bytes;
            while state.waiting.front().is_some_and(|first| first.bytes <= state.free) {
                if let Some(first) = state.waiting.pop_front() {
                    state.free -= first.bytes;
                    granted.push(first);
                }
            }
        }
        for waiting in granted {
            (waiting.granted)(Permit { budget: Arc::clone(self), bytes: waiting.bytes });
        }
    }
}

impl Permit {
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Gives back what exceeds `bytes`.
    pub fn shrink_to(&mut self, bytes: u64) {
        let excess = self.bytes.saturating_sub(bytes);
        if excess > 0 {
            self.bytes -= excess;
            self.budget.give_back(excess);
        }
    }

    /// Takes `bytes` of this share out of it, or all that it has.
    pub fn split(&mut self, bytes: u64) -> Permit {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Permit { budget: Arc::clone(&self.budget), bytes }
    }

    /// Joins `other`, which must come from the same budget.
    pub fn merge(&mut self, mut other: Permit) {
        self.bytes += std::mem::take(&mut other.bytes);
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if self.bytes > 0 {
            self.budget.give_back(self.bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn waiters_are_served_in_order_and_nobody_overtakes() {
        let budget = Budget::new(10);
        let mut first = budget.try_take(8).unwrap();
        let (sender, receiver) = mpsc::channel();
        let other = sender.clone();
        assert!(budget.take_or_wait(6, move |permit| sender.send(("large", permit)).unwrap()).is_none());
        assert!(budget.take_or_wait(1, move |permit| other.send(("small", permit)).unwrap()).is_none());
        assert!(budget.try_take(1).is_none());
        first.shrink_to(5);
        assert!(receiver.try_recv().is_err());
        first.shrink_to(4);
        let (name, large) = receiver.try_recv().unwrap();
        assert_eq!(name, "large");
        drop(large);
        assert_eq!(receiver.try_recv().unwrap().0, "small");
        assert!(budget.try_take(6).is_some());
    }

    #[test]
    fn a_grant_that_nobody_takes_returns() {
        let budget = Budget::new(4);
        let held = budget.try_take(4).unwrap();
        assert!(budget.take_or_wait(3, drop).is_none());
        drop(held);
        assert!(budget.try_take(4).is_some());
    }

    #[test]
    fn what_was_split_returns_in_parts() {
        let budget = Budget::new(4);
        let mut one = budget.try_take(4).unwrap();
        drop(one.split(1));
        assert!(budget.try_take(2).is_none());
        let rest = one.split(9);
        drop(one);
        assert!(budget.try_take(2).is_none());
        drop(rest);
        assert!(budget.try_take(4).is_some());
    }

    #[test]
    fn merged_permits_return_whole() {
        let budget = Budget::new(4);
        let mut one = budget.try_take(1).unwrap();
        one.merge(budget.try_take(3).unwrap());
        assert!(budget.try_take(1).is_none());
        drop(one);
        assert!(budget.try_take(4).is_some());
    }
}
