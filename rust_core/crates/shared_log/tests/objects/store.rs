//! The object store of the model: what it holds, and what a call does to it.

use std::collections::{BTreeMap, BTreeSet};

use orcas_shared_log::objects::{Call, Head, Reply, Tag, Tagged};
use orcas_shared_log::{ContentName, Entry, Position, Snapshot};

use crate::node::{Body, Replica};

/// A call on its way, of the log or of what lies beside it.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Request {
    Log(Call<Body>),
    ListEntries,
    DeleteEntry(Position),
    PutContent(ContentName),
    DeleteContent(ContentName),
    ListContent,
    PutSnapshot(Snapshot, Replica),
    ReadSnapshot(Snapshot),
    DeleteSnapshot(Snapshot),
}

/// A reply on its way.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Answer {
    Log(Reply<Body>),
    Done,
    Entries(Vec<Position>),
    Content(BTreeSet<ContentName>),
    Snapshot(Option<Replica>),
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Store {
    pub entries: BTreeMap<Position, Entry<Body>>,
    pub head: Option<Head>,
    pub content: BTreeSet<ContentName>,
    pub snapshots: BTreeMap<Snapshot, Replica>,
    /// The first entry that was ever created at each position: what the log says, whatever is deleted later.
    pub history: BTreeMap<Position, Entry<Body>>,
}

impl Store {
    pub fn execute(&mut self, request: &Request) -> Answer {
        match request {
            Request::Log(call) => return Answer::Log(self.call(call)),
            Request::ListEntries => return Answer::Entries(self.entries.keys().copied().collect()),
            Request::DeleteEntry(position) => drop(self.entries.remove(position)),
            Request::PutContent(name) => drop(self.content.insert(*name)),
            Request::DeleteContent(name) => drop(self.content.remove(name)),
            Request::ListContent => return Answer::Content(self.content.clone()),
            Request::PutSnapshot(snapshot, state) => drop(self.snapshots.insert(*snapshot, state.clone())),
            Request::ReadSnapshot(snapshot) => return Answer::Snapshot(self.snapshots.get(snapshot).cloned()),
            Request::DeleteSnapshot(snapshot) => drop(self.snapshots.remove(snapshot)),
        }
        Answer::Done
    }

    pub fn call(&mut self, call: &Call<Body>) -> Reply<Body> {
        match call {
            Call::ReadHead => Reply::Head(self.tagged()),
            Call::SwapHead { seen, head } => {
                if self.tagged().map(|found| found.tag) != *seen {
                    return Reply::Refused;
                }
                self.head = Some(head.clone());
                Reply::Swapped(tag(head))
            }
            Call::ReadEntry(position) => Reply::Entry(self.entries.get(position).cloned()),
            Call::CreateEntry { position, entry } => {
                if self.entries.contains_key(position) {
                    return Reply::Refused;
                }
                self.entries.insert(*position, entry.clone());
                self.history.entry(*position).or_insert_with(|| entry.clone());
                Reply::Created
            }
        }
    }

    pub fn tagged(&self) -> Option<Tagged> {
        self.head.as_ref().map(|head| Tagged { head: head.clone(), tag: tag(head) })
    }
}

/// As a store that makes it from the content.
fn tag(head: &Head) -> Tag {
    Tag(format!("{}-{}-{}", head.term, head.owner.0, head.changes))
}
