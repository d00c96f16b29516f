//! Reading a log: by a node that follows it, and by one that takes it. A future that is dropped loses nothing: what the
//! node has learnt is in the machine, and the protocol allows that the call under way is made again.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use orcas_shared_log::objects::{self, Call, Reply};
use orcas_shared_log::rows::{self, Answer, Statement};
use orcas_shared_log::{Cursor, Entry, EntryId, NodeId, Position, Snapshot, Term};

use crate::backoff::Backoff;
use crate::error::{Error, Fault};
use crate::objects::{Objects, Reader};
use crate::owner::{Head, Log, Owner, unique};
use crate::rows::{Rows, Session};

/// Where a log begins by now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Beginning {
    pub floor: Position,
    /// The newest first.
    pub snapshots: Vec<Snapshot>,
}

/// What a copy does next.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Read {
    /// Apply this entry, which is at this position.
    Entry(Position, Entry<Bytes>),
    /// The copy has every entry that was acknowledged when `next` was called for the first time, or for the first time
    /// after the last end. `next` looks again.
    End,
    /// Load a snapshot, and follow from there.
    Truncated(Beginning),
}

/// What a node does next that takes the log.
pub enum Taken {
    /// Apply this entry, which is at this position. The last one may be the node's own fence.
    Entry(Position, Entry<Bytes>),
    Owner(Owner),
    /// Another node has taken the log meanwhile: follow it.
    Withdrawn,
    /// Load a snapshot, and begin again.
    Truncated(Beginning),
}

/// Entries that were found and not handed out yet.
struct Found {
    cursor: Cursor,
    entries: VecDeque<Entry<Bytes>>,
}

impl Found {
    fn new(cursor: Cursor) -> Self {
        Self { cursor, entries: VecDeque::new() }
    }

    fn next(&mut self) -> Option<(Position, Entry<Bytes>)> {
        let entry = self.entries.pop_front()?;
        let position = self.cursor.next;
        self.cursor = self.cursor.after(entry.id);
        Some((position, entry))
    }
}

/// Brings a copy up to the end of the log.
pub struct Follower {
    following: Following,
    found: Found,
    is_at_the_end: bool,
    /// What is read is up to an end that was given, which is not that of the log.
    reads_to: bool,
    deadline: Duration,
}

enum Following {
    Objects(Reader, objects::Follow<Bytes>),
    Rows(Session, rows::Follow),
}

impl Follower {
    pub(crate) fn of_objects(objects: Arc<Objects>, cursor: Cursor, deadline: Duration) -> Self {
        let following = Following::Objects(Reader::new(objects), objects::Follow::new(cursor));
        Self::new(following, cursor, deadline)
    }

    pub(crate) fn of_rows(rows: &Rows, cursor: Cursor, deadline: Duration) -> Self {
        Self::new(Following::Rows(rows.session(), rows::Follow::new(cursor)), cursor, deadline)
    }

    fn new(following: Following, cursor: Cursor, deadline: Duration) -> Self {
        Self { following, found: Found::new(cursor), is_at_the_end: false, reads_to: false, deadline }
    }

    /// Whether there seems to be something new, by one read: `next` changes the head of a database, or asks a bucket
    /// twice. It proves nothing, for a database that was replaced may answer; nor does it repeat a call that fails.
    pub async fn glance(&mut self) -> Result<bool, Error> {
        if !self.found.entries.is_empty() || self.is_at_the_end {
            return Ok(true);
        }
        match &mut self.following {
            Following::Objects(reader, follow) => {
                let call = follow.call();
                if call != Call::ReadEntry(self.found.cursor.next) {
                    return Ok(true);
                }
                let reply = reader.call(&call).await.map_err(Fault::at_the_start)?;
                if reply == Reply::Entry(None) {
                    return Ok(false);
                }
                // What was found is not read again.
                if let objects::Followed::Entry(entry) = follow.reply(&reply) {
                    self.found.entries.push_back(entry);
                }
                Ok(true)
            }
            Following::Rows(session, _) => {
                let answer = session.run(&Statement::ReadHead, &Backoff::new(self.deadline)).await;
                let answer = answer.map_err(Fault::at_the_start)?;
                Ok(!matches!(answer, Answer::Head(head) if head.ends(self.found.cursor)))
            }
        }
    }

    /// Lets `next` read up to `end` first, which the owner says that the log has. A bucket is asked entry by entry anyway.
    pub fn read_to(&mut self, end: Cursor) {
        if let Following::Rows(_, follow) = &mut self.following {
            self.reads_to |= follow.read_to(end);
        }
    }

    pub async fn next(&mut self) -> Result<Read, Error> {
        let mut backoff = Backoff::new(self.deadline);
        loop {
            if let Some((position, entry)) = self.found.next() {
                return Ok(Read::Entry(position, entry));
            }
            if std::mem::take(&mut self.is_at_the_end) {
                return Ok(Read::End);
            }
            match &mut self.following {
                Following::Objects(reader, follow) => {
                    let reply = backoff.reply(reader.call(&follow.call()).await, Reply::Unknown).await?;
                    match follow.reply(&reply) {
                        objects::Followed::Continues => {}
                        objects::Followed::Entry(entry) => self.found.entries.push_back(entry),
                        objects::Followed::End => self.is_at_the_end = true,
                        objects::Followed::Truncated(head) => return Ok(Read::Truncated(head.into())),
                        objects::Followed::Broken => return Err(Error::OtherLog),
                    }
                }
                Following::Rows(session, follow) => {
                    let answer = session.run(&follow.statement(), &backoff).await;
                    match follow.answer(&backoff.reply(answer, Answer::Unknown).await?) {
                        rows::Followed::Continues => {}
                        rows::Followed::Entries(entries) => self.found.entries.extend(entries),
                        rows::Followed::End(entries) => {
                            self.found.entries.extend(entries);
                            self.is_at_the_end = !std::mem::take(&mut self.reads_to);
                        }
                        rows::Followed::Truncated(head) => return Ok(Read::Truncated(head.into())),
                        rows::Followed::Broken => return Err(Error::OtherLog),
                    }
                }
            }
        }
    }
}

/// Brings a copy up to the end of the log, and makes its node the owner.
pub struct Taking {
    from: TakingFrom,
    found: Found,
    won: Option<(Log, Head, Term)>,
    largest_batch: usize,
    deadline: Duration,
}

enum TakingFrom {
    Objects(Reader, objects::Take<Bytes>),
    Rows(Rows, Session, rows::Take),
}

impl Taking {
    pub(crate) fn of_objects(
        objects: Arc<Objects>,
        cursor: Cursor,
        largest_batch: usize,
        deadline: Duration,
    ) -> Result<Self, Error> {
        let take = objects::Take::new(NodeId(unique()?), EntryId(unique()?), cursor);
        let from = TakingFrom::Objects(Reader::new(objects), take);
        Ok(Self { from, found: Found::new(cursor), won: None, largest_batch, deadline })
    }

    pub(crate) fn of_rows(
        rows: &Rows,
        cursor: Cursor,
        largest_batch: usize,
        deadline: Duration,
    ) -> Result<Self, Error> {
        let from = TakingFrom::Rows(rows.clone(), rows.session(), rows::Take::new(NodeId(unique()?), cursor));
        Ok(Self { from, found: Found::new(cursor), won: None, largest_batch, deadline })
    }

    /// Anything but an entry is the last answer. An attempt that is given up leaves the log without an owner.
    pub async fn next(&mut self) -> Result<Taken, Error> {
        let mut backoff = Backoff::new(self.deadline);
        loop {
            if let Some((position, entry)) = self.found.next() {
                return Ok(Taken::Entry(position, entry));
            }
            if let Some((log, head, term)) = self.won.take() {
                let cursor = self.found.cursor;
                return Ok(Taken::Owner(Owner::new(log, head, term, cursor, self.largest_batch, self.deadline)));
            }
            match &mut self.from {
                TakingFrom::Objects(reader, take) => {
                    let reply = backoff.reply(reader.call(&take.call()).await, Reply::Unknown).await?;
                    if reply == Reply::Refused {
                        backoff.wait("the store refuses a conditional write").await?;
                    }
                    match take.reply(&reply) {
                        objects::Taken::Continues => {}
                        objects::Taken::Entry(entry) => self.found.entries.push_back(entry),
                        objects::Taken::Owner { fence, head } => {
                            self.found.entries.push_back(fence);
                            let term = head.head.term;
                            let log = Log::Objects(reader.objects());
                            self.won = Some((log, Head::Objects { objects: reader.objects(), head }, term));
                        }
                        objects::Taken::Withdrawn => return Ok(Taken::Withdrawn),
                        objects::Taken::Truncated(head) => return Ok(Taken::Truncated(head.into())),
                        objects::Taken::Broken => return Err(Error::OtherLog),
                    }
                }
                TakingFrom::Rows(rows, session, take) => {
                    let answer = session.run(&take.statement(), &backoff).await;
                    match take.answer(&backoff.reply(answer, Answer::Unknown).await?) {
                        rows::Taken::Continues => {}
                        rows::Taken::Entries { entries, owner } => {
                            self.found.entries.extend(entries);
                            self.won = owner.map(|head| {
                                let log = Log::Rows(std::mem::replace(session, rows.session()));
                                let term = head.term;
                                (log, Head::Rows { session: rows.session(), term, kept: head.kept }, term)
                            });
                        }
                        rows::Taken::Withdrawn => return Ok(Taken::Withdrawn),
                        rows::Taken::Truncated(head) => return Ok(Taken::Truncated(head.into())),
                        rows::Taken::Broken => return Err(Error::OtherLog),
                    }
                }
            }
        }
    }
}

impl From<objects::Head> for Beginning {
    fn from(head: objects::Head) -> Self {
        Self { floor: head.floor, snapshots: head.snapshots }
    }
}

impl From<rows::RowHead> for Beginning {
    fn from(head: rows::RowHead) -> Self {
        Self { floor: head.kept.floor, snapshots: head.kept.snapshots }
    }
}
