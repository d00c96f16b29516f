//! The owner's side of a log: two tasks, one for appends and one for the head, that live on when a caller gives up.

use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use bytes::Bytes;
use orcas_shared_log::objects::{self, Reply, Tagged, removable};
use orcas_shared_log::rows::{self, Answer, Kept, Statement};
use orcas_shared_log::{Appended, Cursor, Entry, EntryId, Position, Snapshot, Term, floor};
use tokio::sync::{mpsc, oneshot};

use crate::backoff::Backoff;
use crate::error::{Error, Fault};
use crate::objects::Objects;
use crate::rows::Session;

/// Appends to a log that this node has taken, until another node takes it. After any error but `TooLarge` and `Floor`, the
/// owner is over: what has become of its last batch, the log says when it is read. Its node renews it every few seconds.
pub struct Owner {
    term: Term,
    largest_batch: usize,
    batches: mpsc::Sender<Request<Bytes, Cursor>>,
    wishes: mpsc::Sender<Request<Wish, ()>>,
    over: Arc<OnceLock<Error>>,
}

/// What the head is to be.
enum Wish {
    /// As it is: only the change counts.
    Renewed,
    Kept {
        snapshots: Vec<Snapshot>,
        floor: Position,
        fences: Vec<Position>,
    },
}

struct Request<T, R> {
    what: T,
    reply: oneshot::Sender<Result<R, Error>>,
}

/// Where a task appends.
pub(crate) enum Log {
    Objects(Arc<Objects>),
    Rows(Session),
}

/// What a task changes.
pub(crate) enum Head {
    Objects { objects: Arc<Objects>, head: Tagged },
    Rows { session: Session, term: Term, kept: Kept },
}

impl Owner {
    /// `cursor` is behind the last entry, the node's own fence included.
    pub(crate) fn new(
        log: Log,
        head: Head,
        term: Term,
        cursor: Cursor,
        largest_batch: usize,
        deadline: Duration,
    ) -> Self {
        let over = Arc::new(OnceLock::new());
        // Who waits for a place has its batch itself.
        let (batches, inbox) = mpsc::channel(1);
        let (wishes, wished) = mpsc::channel(1);
        tokio::spawn(append_all(log, term, cursor, inbox, Arc::clone(&over), deadline));
        tokio::spawn(change_all(head, wished, Arc::clone(&over), deadline));
        Self { term, largest_batch, batches, wishes, over }
    }

    pub fn term(&self) -> Term {
        self.term
    }

    /// Why the owner is over, once a call has shown that it is, also one whose future was dropped.
    pub fn over(&self) -> Option<Error> {
        self.over.get().cloned()
    }

    /// Where a copy is that ends with the batch, once the batch is durable. Batches are appended in the order of these
    /// calls. If the future is dropped, the batch may be appended all the same.
    pub async fn append(&self, batch: Bytes) -> Result<Cursor, Error> {
        let (length, limit) = (batch.len(), self.largest_batch);
        if length > limit {
            return Err(Error::TooLarge { length, limit });
        }
        self.ask(&self.batches, batch).await
    }

    /// Changes what the head says of snapshots and the floor, and begins to delete the entries below the floor. The
    /// change is durable when this returns: snapshots that it does not name may be deleted then. Those that it names are
    /// in the store, and `fences` are all fences below the floor.
    pub async fn keep(&self, snapshots: Vec<Snapshot>, floor: Position, fences: Vec<Position>) -> Result<(), Error> {
        self.ask(&self.wishes, Wish::Kept { snapshots, floor, fences }).await
    }

    /// Changes the head, and nothing that it says. An owner of objects that was replaced may append for a while, and
    /// keep the next owner reading, until a change of the head tells it.
    pub async fn renew(&self) -> Result<(), Error> {
        self.ask(&self.wishes, Wish::Renewed).await
    }

    async fn ask<T, R>(&self, task: &mpsc::Sender<Request<T, R>>, what: T) -> Result<R, Error> {
        if let Some(error) = self.over.get() {
            return Err(error.clone());
        }
        let (reply, answer) = oneshot::channel();
        if task.send(Request { what, reply }).await.is_ok()
            && let Ok(answer) = answer.await
        {
            return answer;
        }
        let ended = || Error::Unknown("the task of the owner has ended".to_owned());
        Err(self.over.get().cloned().unwrap_or_else(ended))
    }
}

async fn append_all(
    mut log: Log,
    term: Term,
    mut cursor: Cursor,
    mut inbox: mpsc::Receiver<Request<Bytes, Cursor>>,
    over: Arc<OnceLock<Error>>,
    deadline: Duration,
) {
    while let Some(Request { what, reply }) = inbox.recv().await {
        let appended = match over.get().cloned().map_or_else(unique, Err) {
            Err(error) => Err(error),
            Ok(id) => {
                let entry = Entry { id: EntryId(id), term, previous: cursor.last, batch: Some(what) };
                let position = cursor.next;
                cursor = cursor.after(entry.id);
                log.append(position, entry, Backoff::new(deadline)).await
            }
        };
        // Before the caller hears of it: what it asks for next has the same answer.
        if let Err(error) = &appended {
            let _ = over.set(error.clone());
        }
        let is_done = appended.is_ok();
        let _ = reply.send(appended.map(|()| cursor));
        if !is_done {
            return;
        }
    }
}

impl Log {
    async fn append(&mut self, position: Position, entry: Entry<Bytes>, mut backoff: Backoff) -> Result<(), Error> {
        let appended = match self {
            Self::Objects(store) => {
                let mut append = objects::Append::new(position, entry);
                loop {
                    let reply = backoff.reply(store.call(&append.call()).await, Reply::Unknown).await?;
                    if let Some(appended) = append.reply(&reply) {
                        break appended;
                    }
                    if reply == Reply::Entry(None) {
                        backoff.wait("the store refuses an entry at a position where none is").await?;
                    }
                }
            }
            Self::Rows(session) => {
                let mut append = rows::Append::new(position, entry);
                loop {
                    let answer = session.run(&append.statement(), &backoff).await;
                    let answer = backoff.reply(answer, Answer::Unknown).await?;
                    if let Some(appended) = append.answer(&answer) {
                        break appended;
                    }
                    if matches!(answer, Answer::Head(_)) {
                        backoff.wait("the database refuses a row where none is").await?;
                    }
                }
            }
        };
        match appended {
            Appended::Durable => Ok(()),
            Appended::Fenced(term) => Err(Error::Fenced(term)),
        }
    }
}

async fn change_all(
    mut head: Head,
    mut wished: mpsc::Receiver<Request<Wish, ()>>,
    over: Arc<OnceLock<Error>>,
    deadline: Duration,
) {
    let mut removal = None;
    loop {
        // Nothing waits for a removal. A call that is given up is made again.
        let request = tokio::select! {
            biased;
            request = wished.recv() => request,
            () = head.remove(&mut removal, deadline), if removal.is_some() => continue,
        };
        let Some(Request { what, reply }) = request else { return };
        let (found, from) = head.kept();
        let (snapshots, below) = match &what {
            Wish::Renewed => (found, from),
            Wish::Kept { snapshots, floor, .. } => (snapshots.clone(), *floor),
        };
        if below < from || below > floor(&snapshots) {
            let _ = reply.send(Err(Error::Floor));
            continue;
        }
        let changed = match over.get() {
            Some(error) => Err(error.clone()),
            None => head.change(snapshots, below, Backoff::new(deadline)).await,
        };
        if let Err(error) = &changed {
            let _ = over.set(error.clone());
        }
        let is_done = changed.is_ok();
        let _ = reply.send(changed);
        if !is_done {
            return;
        }
        if let Wish::Kept { fences, .. } = what {
            removal = Some(Removal { below, fences, from: 0, found: VecDeque::new() });
        }
    }
}

/// The deletion of the entries below a floor. What is left when it fails or is given up is in nobody's way, and goes at
/// the next truncation.
struct Removal {
    below: Position,
    fences: Vec<Position>,
    /// What was not listed yet.
    from: Position,
    /// What was listed and not deleted yet.
    found: VecDeque<Position>,
}

impl Removal {
    async fn run(&mut self, objects: &Objects) -> Result<(), Fault> {
        loop {
            while let Some(position) = self.found.front() {
                objects.remove(*position).await?;
                self.found.pop_front();
            }
            if self.from >= self.below {
                return Ok(());
            }
            let listed = objects.list(self.from).await?;
            let behind = listed.iter().max().map(|last| last + 1).filter(|behind| *behind > self.from);
            self.from = behind.unwrap_or(self.below);
            self.found.extend(removable(listed, self.below, &self.fences));
        }
    }
}

impl Head {
    /// The snapshots that it names, and the floor.
    fn kept(&self) -> (Vec<Snapshot>, Position) {
        match self {
            Self::Objects { head: Tagged { head, .. }, .. } => (head.snapshots.clone(), head.floor),
            Self::Rows { kept, .. } => (kept.snapshots.clone(), kept.floor),
        }
    }

    async fn change(&mut self, snapshots: Vec<Snapshot>, floor: Position, mut backoff: Backoff) -> Result<(), Error> {
        match self {
            Self::Objects { objects: store, head } => {
                let mut change = objects::Change::new(head.clone(), |head| {
                    (head.snapshots, head.floor) = (snapshots, floor);
                });
                loop {
                    let reply = backoff.reply(store.call(&change.call()).await, Reply::Unknown).await?;
                    match change.reply(&reply) {
                        Some(objects::Changed::Done(done)) => {
                            *head = done;
                            return Ok(());
                        }
                        Some(objects::Changed::Fenced(term)) => return Err(Error::Fenced(term)),
                        Some(objects::Changed::Broken) => return Err(Error::OtherLog),
                        None if matches!(reply, Reply::Head(_)) => {
                            backoff.wait("the store refuses to replace a head that is as it was").await?;
                        }
                        None => {}
                    }
                }
            }
            Self::Rows { session, term, kept } => {
                let mut change = rows::Change::new(*term, kept, |kept| {
                    (kept.snapshots, kept.floor) = (snapshots, floor);
                });
                loop {
                    let answer = session.run(&change.statement(), &backoff).await;
                    let answer = backoff.reply(answer, Answer::Unknown).await?;
                    match change.answer(&answer) {
                        Some(rows::Changed::Done(done)) => {
                            *kept = done;
                            return Ok(());
                        }
                        Some(rows::Changed::Fenced(term)) => return Err(Error::Fenced(term)),
                        None if matches!(answer, Answer::Head(_)) => {
                            backoff.wait("the database refuses to change a head that is as it was").await?;
                        }
                        None => {}
                    }
                }
            }
        }
    }

    /// Deletes what the floor allows, as far as that succeeds.
    async fn remove(&mut self, removal: &mut Option<Removal>, deadline: Duration) {
        let mut backoff = Backoff::new(deadline);
        while let Some(removal) = removal {
            let removed = match self {
                Self::Objects { objects, .. } => removal.run(objects).await,
                Self::Rows { session, .. } => {
                    session.run(&Statement::Remove { below: removal.below }, &backoff).await.map(|_| ())
                }
            };
            if removed.is_ok() || backoff.reply(removed, ()).await.is_err() {
                break;
            }
        }
        *removal = None;
    }
}

/// A number that is used once.
pub(crate) fn unique() -> Result<u128, Error> {
    let mut bytes = [0; 16];
    getrandom::fill(&mut bytes).map_err(|error| Error::Unfit(format!("there are no random numbers: {error}")))?;
    Ok(u128::from_le_bytes(bytes))
}
