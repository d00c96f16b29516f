//! A change of the head by the owner: renewals, snapshots, the floor.

use super::head::{Head, Tagged};
use super::store::{Call, Reply};
use crate::entry::Term;

/// Replaces the head. An owner makes one change at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Change {
    seen: Tagged,
    wanted: Head,
    looks: bool,
}

/// The result of a change of the head.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Changed {
    Done(Tagged),
    /// Another node owns the log since this term; nothing may be deleted that the change would have given up.
    Fenced(Term),
    /// The head is gone, or an older one is back: stop, and say so.
    Broken,
}

impl Change {
    /// `change` gets the head as the owner knows it.
    pub fn new(seen: Tagged, change: impl FnOnce(&mut Head)) -> Self {
        let mut wanted = seen.head.clone();
        change(&mut wanted);
        wanted.changes += 1;
        Self { seen, wanted, looks: false }
    }

    pub fn call<B>(&self) -> Call<B> {
        if self.looks {
            return Call::ReadHead;
        }
        Call::SwapHead { seen: Some(self.seen.tag.clone()), head: self.wanted.clone() }
    }

    /// The result; `None` while another call is needed.
    pub fn reply<B>(&mut self, reply: &Reply<B>) -> Option<Changed> {
        match reply {
            Reply::Swapped(tag) => Some(Changed::Done(Tagged { head: self.wanted.clone(), tag: tag.clone() })),
            Reply::Head(Some(found)) if found.head == self.wanted => Some(Changed::Done(found.clone())),
            Reply::Head(Some(found)) if found.tag == self.seen.tag => {
                self.looks = false;
                None
            }
            Reply::Head(Some(found)) if found.head.term > self.wanted.term => Some(Changed::Fenced(found.head.term)),
            Reply::Head(_) => Some(Changed::Broken),
            _ => {
                self.looks = true;
                None
            }
        }
    }
}
