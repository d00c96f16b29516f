//! Appends one entry at the end of the log, by its owner.

use super::store::{Call, Reply};
use crate::entry::{Appended, Entry, Position};

/// Appends one batch. The next one begins when this one is done, because an entry names the one before it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Append<B> {
    position: Position,
    entry: Entry<B>,
    /// Whether a reply left open what is at the position.
    looks: bool,
}

impl<B: Clone> Append<B> {
    /// `position` is the one behind the last entry of the owner's copy, which `entry` names as the one before it.
    pub fn new(position: Position, entry: Entry<B>) -> Self {
        Self { position, entry, looks: false }
    }

    pub fn entry(&self) -> &Entry<B> {
        &self.entry
    }

    /// The call to make next. It may be made again if it is not known what has become of it, but never with other
    /// bytes.
    pub fn call(&self) -> Call<B> {
        if self.looks {
            return Call::ReadEntry(self.position);
        }
        Call::CreateEntry { position: self.position, entry: self.entry.clone() }
    }

    /// The result; `None` while another call is needed.
    pub fn reply(&mut self, reply: &Reply<B>) -> Option<Appended> {
        match reply {
            Reply::Created => return Some(Appended::Durable),
            Reply::Entry(Some(found)) if found.id == self.entry.id => return Some(Appended::Durable),
            Reply::Entry(Some(found)) => return Some(Appended::Fenced(found.term)),
            // An earlier try may still arrive. It has the same bytes, so it does not matter which one does.
            Reply::Entry(None) => self.looks = false,
            _ => self.looks = true,
        }
        None
    }
}
