//! A change of the head by the owner: snapshots and the floor.

use super::statement::{Answer, Kept, Statement};
use crate::entry::Term;

/// Replaces what the head says of snapshots and the floor. An owner makes one change at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    term: Term,
    wanted: Kept,
    looks: bool,
}

/// What has become of a change.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    /// What it gave up may be deleted: entries below the floor, and snapshots that are not named any more.
    Done(Kept),
    /// Another node owns the log since this term; nothing may be deleted that the change would have given up.
    Fenced(Term),
}

impl Change {
    /// `seen` is what the owner changed last, or found when it took the log. `change` gets a copy of it. A snapshot
    /// that it adds must be in the store.
    pub fn new(term: Term, seen: &Kept, change: impl FnOnce(&mut Kept)) -> Self {
        let mut wanted = seen.clone();
        change(&mut wanted);
        wanted.changes = seen.changes + 1;
        Self { term, wanted, looks: false }
    }

    /// The statement to run next.
    pub fn statement<B>(&self) -> Statement<B> {
        if self.looks {
            return Statement::ReadHead;
        }
        Statement::Change { term: self.term, kept: self.wanted.clone() }
    }

    /// `None` while another statement is needed.
    pub fn answer<B>(&mut self, answer: &Answer<B>) -> Option<Changed> {
        match answer {
            Answer::Changed(_) => return Some(Changed::Done(self.wanted.clone())),
            Answer::Head(head) if head.term > self.term => return Some(Changed::Fenced(head.term)),
            Answer::Unchanged => self.looks = true,
            // A database that was replaced says so, or one in which the head was changed by hand.
            Answer::Head(_) => self.looks = false,
            _ => {}
        }
        None
    }
}
