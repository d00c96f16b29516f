//! A node of the model: it drives the state machines of the crate as a server does.

use std::collections::{BTreeSet, VecDeque};

use orcas_shared_log::objects::{
    Append, Call, Change, Changed, Follow, Followed, Head, Reply, Tag, Tagged, Take, Taken, removable,
};
use orcas_shared_log::{
    Appended, ContentName, Cursor, Entry, EntryId, NodeId, Position, Snapshot, Term, floor, orphans, retain,
};

use crate::mistake::Mistake;
use crate::store::{Answer, Request};

/// The effect of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Body {
    /// Stores something under a number that only this write has, with or without content beside the log.
    Write { number: u8, content: Option<ContentName> },
    /// The content is not needed any more.
    Retire(ContentName),
}

/// A copy of the log, as far as this node has read it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Replica {
    pub cursor: Cursor,
    pub batches: Vec<Body>,
    pub fences: Vec<Position>,
    /// The copy began with a snapshot.
    pub is_loaded: bool,
}

impl Replica {
    fn apply(&mut self, entry: &Entry<Body>) {
        match entry.batch {
            Some(batch) => self.batches.push(batch),
            None => self.fences.push(self.cursor.next),
        }
        self.cursor = self.cursor.after(entry.id);
    }

    pub fn has_write(&self, write: u8) -> bool {
        self.batches.iter().any(|batch| matches!(batch, Body::Write { number, .. } if *number == write))
    }

    pub fn needs(&self, name: ContentName) -> bool {
        let named = |batch: &Body| matches!(batch, Body::Write { content: Some(found), .. } if *found == name);
        self.batches.iter().any(named) && !self.batches.contains(&Body::Retire(name))
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    Follower,
    Reading {
        follow: Follow<Body>,
        /// The batches that were acknowledged when the last entry was asked for.
        acknowledged: BTreeSet<u8>,
    },
    Taking(Take<Body>),
    Loading(Snapshot),
    Owner {
        term: Term,
        head: Tagged,
    },
}

/// The writing that the owner does with the log, one at a time.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Writing {
    Content {
        name: ContentName,
        number: u8,
    },
    Entry(Append<Body>),
    Retired(ContentName),
    /// Only with a mistake: the content after the batch, or the deletion before it.
    ContentAfter(ContentName),
    DeletedBefore(ContentName),
    Forgotten(ContentName),
}

/// The tidying that the owner does beside it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Tidying {
    Snapshot(Snapshot, Replica),
    Head { change: Change, gives_up: Option<GivenUp> },
    ListEntries(GivenUp),
    Delete(VecDeque<Request>),
    List,
}

/// What may be deleted after a change of the head that is no renewal.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct GivenUp {
    below: Position,
    snapshots: Vec<Snapshot>,
}

/// A line of calls, each made when the one before it has been answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Line {
    Main,
    Tidying,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Node {
    pub number: u8,
    /// Counts starts.
    pub run: u8,
    ids: u8,
    contents: u8,
    pub replica: Replica,
    pub role: Role,
    /// The head in which it has named itself.
    swapped: Option<Tagged>,
    pub writing: Option<Writing>,
    pub tidying: Option<Tidying>,
    /// What was read before its turn.
    pub ahead: Option<(Position, Option<Entry<Body>>)>,
}

/// The result of a step, for the ledger outside.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    Acknowledged(u8),
    Fenced(Term),
    Read { acknowledged: BTreeSet<u8> },
    Broken,
    NoSnapshot,
}

impl Node {
    pub fn new(number: u8) -> Self {
        Self {
            number,
            run: 0,
            ids: 0,
            contents: 0,
            replica: Replica::default(),
            role: Role::Follower,
            swapped: None,
            writing: None,
            tidying: None,
            ahead: None,
        }
    }

    pub fn crash(&mut self, keeps_replica: bool) {
        let replica = if keeps_replica { std::mem::take(&mut self.replica) } else { Replica::default() };
        *self = Self { run: self.run + 1, replica, ..Self::new(self.number) };
    }

    pub fn id(&self) -> NodeId {
        NodeId(u128::from(self.number + 1) << 8 | u128::from(self.run))
    }

    pub fn term(&self) -> Option<Term> {
        if let Role::Owner { term, .. } = self.role { Some(term) } else { None }
    }

    fn entry_id(&mut self, mistake: Option<Mistake>) -> EntryId {
        if mistake == Some(Mistake::IdsMadeFromPlaces) {
            return EntryId(u128::from(self.replica.cursor.next) + 1);
        }
        self.ids += 1;
        EntryId(self.id().0 << 8 | u128::from(self.ids))
    }

    pub fn take(&mut self, mistake: Option<Mistake>) {
        let id = self.entry_id(mistake);
        self.ahead = None;
        self.role = Role::Taking(Take::new(self.id(), id, self.replica.cursor));
    }

    pub fn read(&mut self) {
        self.ahead = None;
        self.role = Role::Reading { follow: Follow::new(self.replica.cursor), acknowledged: BTreeSet::new() };
    }

    pub fn write(&mut self, number: u8, has_content: bool, mistake: Option<Mistake>) {
        let Some(term) = self.term() else { return };
        if !has_content {
            return self.append(Body::Write { number, content: None }, mistake);
        }
        self.contents += 1;
        let name = ContentName { term, number: self.contents.into() };
        if mistake == Some(Mistake::ContentAfterItsEntry) {
            return self.append(Body::Write { number, content: Some(name) }, mistake);
        }
        self.writing = Some(Writing::Content { name, number });
    }

    /// The first content that is needed, if any.
    pub fn retire(&mut self, mistake: Option<Mistake>) {
        let content = self.replica.batches.iter().find_map(|batch| match batch {
            Body::Write { content: Some(name), .. } if self.replica.needs(*name) => Some(*name),
            _ => None,
        });
        match content {
            Some(name) if mistake == Some(Mistake::ContentDeletedBeforeItsEntry) => {
                self.writing = Some(Writing::DeletedBefore(name));
            }
            Some(name) => self.append(Body::Retire(name), mistake),
            None => {}
        }
    }

    fn append(&mut self, batch: Body, mistake: Option<Mistake>) {
        let Some(term) = self.term() else { return };
        let id = self.entry_id(mistake);
        let entry = Entry { id, term, previous: self.replica.cursor.last, batch: Some(batch) };
        self.writing = Some(Writing::Entry(Append::new(self.replica.cursor.next, entry)));
    }

    pub fn truncate(&mut self) {
        if let Some(term) = self.term() {
            self.tidying = Some(Tidying::Snapshot(Snapshot { at: self.replica.cursor, term }, self.replica.clone()));
        }
    }

    pub fn renew(&mut self) {
        if let Role::Owner { head, .. } = &self.role {
            let change = Change::new(head.clone(), |_| {});
            self.tidying = Some(Tidying::Head { change, gives_up: None });
        }
    }

    pub fn collect(&mut self) {
        self.tidying = Some(Tidying::List);
    }

    pub fn is_busy(&self, line: Line) -> bool {
        match line {
            Line::Main => self.writing.is_some() || !matches!(self.role, Role::Follower | Role::Owner { .. }),
            Line::Tidying => self.tidying.is_some(),
        }
    }

    /// The call to make next in a line.
    pub fn request(&self, line: Line) -> Option<Request> {
        if line == Line::Tidying {
            return Some(match self.tidying.as_ref()? {
                Tidying::Snapshot(snapshot, state) => Request::PutSnapshot(*snapshot, state.clone()),
                Tidying::Head { change, .. } => Request::Log(change.call()),
                Tidying::Delete(requests) => requests.front()?.clone(),
                Tidying::ListEntries(_) => Request::ListEntries,
                Tidying::List => Request::ListContent,
            });
        }
        match &self.role {
            Role::Reading { follow, .. } => return Some(Request::Log(follow.call())),
            Role::Taking(take) => return Some(Request::Log(take.call())),
            Role::Loading(snapshot) => return Some(Request::ReadSnapshot(*snapshot)),
            Role::Follower | Role::Owner { .. } => {}
        }
        Some(match self.writing.as_ref()? {
            Writing::Content { name, .. } | Writing::ContentAfter(name) => Request::PutContent(*name),
            Writing::Entry(append) => Request::Log(append.call()),
            Writing::Retired(name) | Writing::DeletedBefore(name) | Writing::Forgotten(name) => {
                Request::DeleteContent(*name)
            }
        })
    }

    /// The position behind the one that it reads, unless that was read already.
    pub fn reads_ahead(&self) -> Option<Position> {
        let call = match &self.role {
            Role::Reading { follow, .. } => follow.call(),
            Role::Taking(take) => take.call(),
            _ => return None,
        };
        match call {
            Call::ReadEntry(position) if self.ahead.is_none() => Some(position + 1),
            _ => None,
        }
    }

    /// The reply to a call, if that was read before its turn. Any call but that for the entry before ends the reading
    /// ahead.
    pub fn ahead_of(&mut self, line: Line, request: &Request) -> Option<Option<Entry<Body>>> {
        let Request::Log(Call::ReadEntry(position)) = request else {
            if line == Line::Main {
                self.ahead = None;
            }
            return None;
        };
        let (at, found) = self.ahead.take()?;
        if at == *position {
            return Some(found);
        }
        self.ahead = Some((at, found)).filter(|_| at == position + 1);
        None
    }

    /// Takes the reply to the call of a line, `None` if it does not come.
    pub fn reply(&mut self, line: Line, answer: Option<Answer>, mistake: Option<Mistake>) -> Option<Event> {
        if line == Line::Tidying {
            return self.tidied(answer, mistake);
        }
        let reply = match &answer {
            Some(Answer::Log(reply)) => reply.clone(),
            _ => Reply::Unknown,
        };
        match std::mem::replace(&mut self.role, Role::Follower) {
            Role::Reading { follow, acknowledged } => self.reading(follow, acknowledged, &reply, mistake),
            Role::Taking(take) => self.taking(take, &reply, mistake),
            Role::Loading(snapshot) => self.loading(snapshot, answer),
            role => {
                self.role = role;
                self.wrote(&reply, answer, mistake)
            }
        }
    }

    fn reading(
        &mut self,
        mut follow: Follow<Body>,
        acknowledged: BTreeSet<u8>,
        reply: &Reply<Body>,
        mistake: Option<Mistake>,
    ) -> Option<Event> {
        let is_next = follow.call() == Call::ReadEntry(self.replica.cursor.next);
        if is_next && mistake == Some(Mistake::HoleTakenForTheEnd) && matches!(reply, Reply::Entry(None)) {
            return Some(Event::Read { acknowledged });
        }
        let mut followed = follow.reply(reply);
        let is_fence = matches!(reply, Reply::Entry(Some(entry)) if entry.batch.is_none());
        if is_next && is_fence && mistake == Some(Mistake::FencesBelieved) {
            let head = Head { term: 0, owner: self.id(), changes: 0, floor: 0, snapshots: Vec::new() };
            followed = follow.reply(&Reply::Head(Some(Tagged { head, tag: Tag(String::new()) })));
        }
        match followed {
            Followed::Continues => {}
            Followed::Entry(entry) => self.replica.apply(&entry),
            Followed::End => return Some(Event::Read { acknowledged }),
            Followed::Truncated(head) => return self.load(&head.snapshots),
            Followed::Broken => return Some(Event::Broken),
        }
        self.role = Role::Reading { follow, acknowledged };
        None
    }

    fn load(&mut self, snapshots: &[Snapshot]) -> Option<Event> {
        let Some(newest) = snapshots.first() else { return Some(Event::NoSnapshot) };
        self.role = Role::Loading(*newest);
        None
    }

    fn loading(&mut self, snapshot: Snapshot, answer: Option<Answer>) -> Option<Event> {
        match answer {
            Some(Answer::Snapshot(Some(state))) => {
                self.replica = Replica { is_loaded: true, ..state };
                None
            }
            // It was replaced while it was looked for.
            Some(_) => None,
            None => {
                self.role = Role::Loading(snapshot);
                None
            }
        }
    }

    fn taking(&mut self, mut take: Take<Body>, reply: &Reply<Body>, mistake: Option<Mistake>) -> Option<Event> {
        let call = take.call();
        let mut taken = take.reply(reply);
        if let (Call::SwapHead { head, .. }, Reply::Swapped(tag)) = (&call, reply) {
            self.swapped = Some(Tagged { head: head.clone(), tag: tag.clone() });
        }
        match (mistake, take.call()) {
            (Some(Mistake::NoFence), Call::CreateEntry { .. }) => taken = take.reply(&Reply::Created),
            (Some(Mistake::HeadNotReadAgain), Call::ReadHead) if matches!(call, Call::CreateEntry { .. }) => {
                taken = take.reply(&Reply::Head(self.swapped.clone()));
            }
            _ => {}
        }
        match taken {
            Taken::Continues => {}
            Taken::Entry(entry) => self.replica.apply(&entry),
            Taken::Owner { fence, head } => {
                if mistake != Some(Mistake::NoFence) {
                    self.replica.apply(&fence);
                }
                self.role = Role::Owner { term: fence.term, head };
                return None;
            }
            Taken::Withdrawn => return None,
            Taken::Truncated(head) => return self.load(&head.snapshots),
            Taken::Broken => return Some(Event::Broken),
        }
        self.role = Role::Taking(take);
        None
    }

    fn wrote(&mut self, reply: &Reply<Body>, answer: Option<Answer>, mistake: Option<Mistake>) -> Option<Event> {
        match self.writing.take()? {
            // The name is of this owner alone, so whatever the store says of another try, the content is that.
            Writing::Content { name, number } if answer.is_some() => {
                self.append(Body::Write { number, content: Some(name) }, mistake);
                None
            }
            Writing::Entry(append) => self.appended(append, reply, mistake),
            Writing::DeletedBefore(name) if answer.is_some() => {
                self.append(Body::Retire(name), mistake);
                None
            }
            Writing::ContentAfter(_) | Writing::Retired(_) | Writing::Forgotten(_) if answer.is_some() => None,
            unanswered => {
                self.writing = Some(unanswered);
                None
            }
        }
    }

    fn appended(&mut self, mut append: Append<Body>, reply: &Reply<Body>, mistake: Option<Mistake>) -> Option<Event> {
        let entry = append.entry().clone();
        match (mistake, reply, entry.batch) {
            (Some(Mistake::OwnEntryTakenForAnother), Reply::Refused, _) => return self.fenced(),
            // The request was cancelled, and the next one takes its place.
            (Some(Mistake::PlaceUsedAgain), Reply::Unknown, _) => return None,
            (Some(Mistake::PlaceSkipped), Reply::Unknown, _) => {
                self.replica.cursor = self.replica.cursor.after(entry.id);
                return None;
            }
            (Some(Mistake::Renumbered), Reply::Unknown, Some(batch)) => {
                self.replica.cursor = self.replica.cursor.after(entry.id);
                self.append(batch, mistake);
                return None;
            }
            (
                Some(Mistake::CleanupAfterAnUnknownCommit),
                Reply::Unknown,
                Some(Body::Write { content: Some(name), .. }),
            ) => {
                self.writing = Some(Writing::Forgotten(name));
                return None;
            }
            _ => {}
        }
        match append.reply(reply) {
            None => {
                self.writing = Some(Writing::Entry(append));
                None
            }
            Some(Appended::Durable) => {
                self.replica.apply(&entry);
                match entry.batch {
                    Some(Body::Write { number, content }) => {
                        if let (Some(Mistake::ContentAfterItsEntry), Some(name)) = (mistake, content) {
                            self.writing = Some(Writing::ContentAfter(name));
                        }
                        Some(Event::Acknowledged(number))
                    }
                    Some(Body::Retire(name)) if mistake != Some(Mistake::ContentDeletedBeforeItsEntry) => {
                        self.writing = Some(Writing::Retired(name));
                        None
                    }
                    _ => None,
                }
            }
            Some(Appended::Fenced(_)) => self.fenced(),
        }
    }

    /// The node starts again from what its copy has.
    fn fenced(&mut self) -> Option<Event> {
        let term = self.term()?;
        self.crash(true);
        Some(Event::Fenced(term))
    }

    fn tidied(&mut self, answer: Option<Answer>, mistake: Option<Mistake>) -> Option<Event> {
        let Role::Owner { term, head } = self.role.clone() else { return None };
        match (self.tidying.take()?, answer) {
            (Tidying::Snapshot(snapshot, _), Some(_)) => {
                let (snapshots, old) = retain(snapshot, &head.head.snapshots);
                let mut to = floor(&snapshots);
                if mistake == Some(Mistake::FloorAboveTheOlderSnapshot) {
                    to = snapshot.at.next;
                }
                let change = Change::new(head, |head| {
                    head.floor = to;
                    head.snapshots = snapshots;
                });
                let gives_up = Some(GivenUp { below: to, snapshots: old });
                self.tidying = Some(Tidying::Head { change, gives_up });
            }
            (Tidying::Head { mut change, gives_up }, answer) => {
                let reply = if let Some(Answer::Log(reply)) = answer { reply } else { Reply::Unknown };
                let another = match &reply {
                    Reply::Head(Some(found)) if found.head.term > term => Some(found.tag.clone()),
                    _ => None,
                };
                if let (Some(Mistake::HeadTakenBack), Some(tag)) = (mistake, another) {
                    let change = Change::new(Tagged { tag, ..head }, |_| {});
                    self.tidying = Some(Tidying::Head { change, gives_up });
                    return None;
                }
                match change.reply(&reply) {
                    None => self.tidying = Some(Tidying::Head { change, gives_up }),
                    Some(Changed::Done(head)) => {
                        self.role = Role::Owner { term, head };
                        self.tidying = gives_up.map(Tidying::ListEntries);
                    }
                    Some(Changed::Fenced(_)) if mistake == Some(Mistake::CollectedAfterALostRace) => {
                        self.tidying = gives_up.map(Tidying::ListEntries);
                    }
                    Some(Changed::Fenced(_)) => return self.fenced(),
                    Some(Changed::Broken) => return Some(Event::Broken),
                }
            }
            (Tidying::ListEntries(GivenUp { below, snapshots }), Some(Answer::Entries(listed))) => {
                let fences: &[_] = if mistake == Some(Mistake::FencesDeleted) { &[] } else { &self.replica.fences };
                let entries = removable(listed, below, fences).map(Request::DeleteEntry);
                let requests = entries.chain(snapshots.into_iter().map(Request::DeleteSnapshot)).collect();
                self.tidying = Some(Tidying::Delete(requests)).filter(has_more);
            }
            (Tidying::Delete(mut requests), Some(_)) => {
                requests.pop_front();
                self.tidying = Some(Tidying::Delete(requests)).filter(has_more);
            }
            (Tidying::List, Some(Answer::Content(names))) => {
                let owned = if mistake == Some(Mistake::ContentOfTheCurrentTermRemoved) { term + 1 } else { term };
                let requests = orphans(owned, names, |name| self.replica.needs(name)).map(Request::DeleteContent);
                self.tidying = Some(Tidying::Delete(requests.collect())).filter(has_more);
            }
            (unanswered, _) => self.tidying = Some(unanswered),
        }
        None
    }
}

fn has_more(tidying: &Tidying) -> bool {
    !matches!(tidying, Tidying::Delete(requests) if requests.is_empty())
}
