//! A node: it follows the log with its files, or owns the log.
//!
//! Everything blocks. One caller drives [`Node::follow`], [`Node::take`] and [`Node::step_down`]; the files of the owner are
//! used by any number of threads.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use bytes::Bytes;
use orcas_base::error::Error as FileError;
use orcas_fs::{FileSystem, GivenUp, Open};
use orcas_log_stores::{Error as StoreError, Follower, LogStore, Options, Owner, Read, Taken};
use orcas_shared_log::{Cursor, Position, Snapshot, Term};
use parking_lot::Mutex;
use tokio::net::{TcpStream, lookup_host};
use tokio::runtime::{Builder, Handle, Runtime};
use tokio::time::timeout;

use super::change::Change;
use super::copy::{Applied, Copy, write_small};
use super::files::SharedFiles;
use super::mark::Mark;
use super::queue::{Appender, Queue};

/// Batches that are applied before a caller hears of them.
const BATCHES_MAX: usize = 256;

#[derive(Clone, Debug, thiserror::Error)]
pub enum NodeError {
    #[error("{0}")]
    Store(#[from] StoreError),
    #[error("{0}")]
    Files(#[from] FileError),
    #[error("the directory is of a node of another log, {0}")]
    OtherLog(String),
    /// The log begins behind what the node has.
    #[error(
        "the log begins at entry {floor} by now, and this node has only what is before entry {next}: begin in an empty \
         directory with `orcas cluster join`"
    )]
    Behind { floor: Position, next: Position },
    /// Nothing was applied: that would have overwritten a store.
    #[error("the directory has a store of its own, and the log has another one")]
    OwnStore,
    /// The store of the log was restored, or has failed over to a copy that lacked what it had acknowledged.
    #[error("the store of the log has lost what it had acknowledged to this node as the owner, before entry {0}")]
    WentBack(Position),
    #[error("this node does not own the log")]
    NotOwner,
}

pub struct NodeOptions {
    /// `s3://…` or `postgresql://…`.
    pub url: String,
    /// `url` without secrets, to know the log by.
    pub log: String,
    pub store: Options,
}

pub struct Node {
    fs: Arc<dyn FileSystem>,
    root: PathBuf,
    log: String,
    store: LogStore,
    state: Mutex<State>,
    // Dropped last: tasks of the others run in it.
    runtime: Runtime,
}

enum State {
    Following(Box<Following>),
    Owner(Arc<Ownership>),
}

struct Following {
    copy: Copy,
    follower: Follower,
    cursor: Cursor,
    fences: Vec<Position>,
    term: Term,
    /// The files are of no log yet: nothing is applied to them.
    has_own_store: bool,
    /// Where the log was when this node owned it, until it is known that it continues from there. The node follows from
    /// its mark, an earlier place, and its files have what lies between.
    known: Option<Cursor>,
}

struct Ownership {
    files: Arc<SharedFiles>,
    queue: Arc<Queue>,
    appended: Arc<Appended>,
    fences: Vec<Position>,
    term: Term,
}

/// Appends for the queue, and knows how far the log is.
struct Appended {
    owner: Owner,
    largest_batch: usize,
    cursor: Mutex<Cursor>,
    handle: Handle,
}

/// What a call of [`Node::follow`] or [`Node::take`] has brought.
#[derive(Debug, Default)]
pub struct Followed {
    pub applied: Applied,
    /// Entries that were read.
    pub entries: u64,
    /// The node has everything that was acknowledged before the call.
    pub is_at_the_end: bool,
    /// The highest term that was seen.
    pub term: Term,
    /// The next position.
    pub next: Position,
}

impl Node {
    /// Opens the log. The directory of the store exists.
    ///
    /// # Errors
    /// The store of the log cannot be used, or the directory is of another log.
    pub fn open(fs: Arc<dyn FileSystem>, root: &Path, options: NodeOptions) -> Result<Self, NodeError> {
        let runtime = Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("orcas-cluster")
            .enable_all()
            .build()
            .map_err(|error| FileError::io("start threads for", root, error))?;
        let store = runtime.block_on(LogStore::open(&options.url, &options.store))?;
        let following = Following::from_mark(&fs, root, &options.log, &store)?;
        let state = Mutex::new(State::Following(Box::new(following)));
        Ok(Self { fs, root: root.to_owned(), log: options.log, store, state, runtime })
    }

    /// What an operator should know about the store of the log.
    pub fn warning(&self) -> Option<&'static str> {
        self.store.warning()
    }

    /// Whether there seems to be something new for [`Node::follow`], by one read.
    ///
    /// # Errors
    /// [`NodeError::WentBack`]; [`NodeError::NotOwner`] if this node owns the log, and what reading it ran into.
    pub fn glance(&self) -> Result<bool, NodeError> {
        let mut state = self.state.lock();
        let State::Following(following) = &mut *state else { return Err(NodeError::NotOwner) };
        following.check_known(&self.runtime, &self.store)?;
        Ok(self.runtime.block_on(following.follower.glance())?)
    }

    /// How long it takes to read the head of the log, whatever the node is. Waits for no other call.
    ///
    /// # Errors
    /// What reading it ran into.
    pub fn latency(&self) -> Result<Duration, NodeError> {
        let began = Instant::now();
        self.runtime.block_on(self.store.touch())?;
        Ok(began.elapsed())
    }

    /// Whether nothing listens at any address of a server, which says that no process serves there. No if that cannot be
    /// told within `limit`.
    pub fn is_refused(&self, host: &str, port: u16, limit: Duration) -> bool {
        let is_refused = async {
            let mut addresses = lookup_host((host, port)).await.ok()?.peekable();
            addresses.peek()?;
            for address in addresses {
                let failed = TcpStream::connect(address).await.err()?;
                (failed.kind() == ErrorKind::ConnectionRefused).then_some(())?;
            }
            Some(())
        };
        matches!(self.runtime.block_on(async { timeout(limit, is_refused).await }), Ok(Some(())))
    }

    /// Applies what the log has beyond the last call, up to `until` if that is given, which its owner says that the log
    /// has, else to its end, or for some hundred batches.
    ///
    /// # Errors
    /// [`NodeError::Behind`]; [`NodeError::WentBack`]; [`NodeError::OwnStore`]; [`NodeError::NotOwner`] if this node owns the
    /// log; what reading and writing ran into, when nothing was applied. The next call goes on.
    pub fn follow(&self, until: Option<Cursor>) -> Result<Followed, NodeError> {
        let mut state = self.state.lock();
        let State::Following(following) = &mut *state else { return Err(NodeError::NotOwner) };
        following.check_known(&self.runtime, &self.store)?;
        let mut followed = Followed::default();
        if let Some(until) = until {
            following.follower.read_to(until);
        }
        for _ in 0..BATCHES_MAX {
            if until.is_some_and(|until| until.next <= following.cursor.next) {
                break;
            }
            let step = match self.runtime.block_on(following.follower.next()) {
                Ok(Read::Entry(position, entry)) => {
                    let applied = following.apply(position, entry.batch.as_ref(), entry.term, &mut followed);
                    applied.map(|()| following.cursor = following.cursor.after(entry.id))
                }
                Ok(Read::End) => {
                    followed.is_at_the_end = true;
                    break;
                }
                Ok(Read::Truncated(beginning)) => {
                    Err(NodeError::Behind { floor: beginning.floor, next: following.cursor.next })
                }
                Err(error) => Err(error.into()),
            };
            if let Err(error) = step {
                // What was handed out and not applied is needed once more.
                following.follower = self.store.follow(following.cursor);
                if followed.entries == 0 {
                    return Err(error);
                }
                // The caller hears of what was applied; the next call finds the error again.
                break;
            }
        }
        (followed.term, followed.next) = (following.term, following.cursor.next);
        Ok(followed)
    }

    /// Gives up what the owner has given up; the store is not open.
    ///
    /// # Errors
    /// [`NodeError::NotOwner`] if this node owns the log, and what changing a file ran into.
    pub fn give_up(&self, given_up: &GivenUp) -> Result<(), NodeError> {
        match &mut *self.state.lock() {
            State::Following(following) => Ok(following.copy.give_up(given_up)?),
            State::Owner(_) => Err(NodeError::NotOwner),
        }
    }

    /// The term in which this node owns the log, and the end of what the log has for sure.
    pub fn end(&self) -> Option<(Term, Cursor)> {
        let ownership = self.ownership().ok()?;
        let end = *ownership.appended.cursor.lock();
        Some((ownership.term, end))
    }

    /// Takes the log, and applies what it has up to its end: the store must not be open. `None`: another node was faster.
    ///
    /// # Errors
    /// As of [`Node::follow`].
    pub fn take(&self) -> Result<Option<Followed>, NodeError> {
        let mut state = self.state.lock();
        let State::Following(following) = &mut *state else { return Err(NodeError::NotOwner) };
        following.check_known(&self.runtime, &self.store)?;
        let mut taking = {
            let _runtime = self.runtime.enter();
            self.store.take(following.cursor)?
        };
        let mut followed = Followed { is_at_the_end: true, ..Followed::default() };
        let owner = loop {
            let taken = self.runtime.block_on(taking.next());
            let ended = match taken {
                Ok(Taken::Entry(position, entry)) => {
                    match following.apply(position, entry.batch.as_ref(), entry.term, &mut followed) {
                        Ok(()) => {
                            following.cursor = following.cursor.after(entry.id);
                            continue;
                        }
                        Err(error) => Err(error),
                    }
                }
                Ok(Taken::Owner(owner)) => break owner,
                Ok(Taken::Withdrawn) => Ok(None),
                Ok(Taken::Truncated(beginning)) => {
                    Err(NodeError::Behind { floor: beginning.floor, next: following.cursor.next })
                }
                Err(error) => Err(error.into()),
            };
            following.follower = self.store.follow(following.cursor);
            return ended;
        };
        following.copy.give_up(&std::mem::take(&mut followed.applied.given_up))?;
        let term = owner.term();
        let appended = Arc::new(Appended {
            owner,
            largest_batch: self.store.largest_batch(),
            cursor: Mutex::new(following.cursor),
            handle: self.runtime.handle().clone(),
        });
        let queue = Arc::new(Queue::new(Box::new(Arc::clone(&appended))));
        let files = Arc::new(SharedFiles::new(Arc::clone(&self.fs), &self.root, Arc::clone(&queue)));
        files.note_dirty(following.copy.take_dirty());
        let fences = std::mem::take(&mut following.fences);
        (followed.term, followed.next) = (term, following.cursor.next);
        *state = State::Owner(Arc::new(Ownership { files, queue, appended, fences, term }));
        Ok(Some(followed))
    }

    /// Becomes a follower again, from the mark: the store is closed, and the log goes to whoever takes it.
    ///
    /// # Errors
    /// As of [`Node::open`].
    pub fn step_down(&self) -> Result<(), NodeError> {
        let mut state = self.state.lock();
        let known = match &*state {
            State::Owner(ownership) => {
                ownership.queue.end("it has given up the log");
                Some(*ownership.appended.cursor.lock())
            }
            State::Following(following) => following.known,
        };
        let following = Following { known, ..Following::from_mark(&self.fs, &self.root, &self.log, &self.store)? };
        *state = State::Following(Box::new(following));
        Ok(())
    }

    /// The files of the store, for the engine of the owner.
    ///
    /// # Errors
    /// [`NodeError::NotOwner`].
    pub fn files(&self) -> Result<Arc<SharedFiles>, NodeError> {
        self.ownership().map(|ownership| Arc::clone(&ownership.files))
    }

    /// Appends a message for the other nodes.
    ///
    /// # Errors
    /// [`NodeError::NotOwner`], and [`NodeError::Files`] when this node does not own the log any more.
    pub fn note(&self, message: Bytes) -> Result<(), NodeError> {
        Ok(self.ownership()?.queue.append([Change::Note(message)])?)
    }

    /// Changes the head of the log and nothing that it says: an owner that was replaced learns it by that. To be called
    /// every few seconds.
    ///
    /// # Errors
    /// [`NodeError::NotOwner`], and [`NodeError::Store`] when this node does not own the log any more.
    pub fn renew(&self) -> Result<(), NodeError> {
        let ownership = self.ownership()?;
        // After any error the owner is over.
        let renewed = self.runtime.block_on(ownership.appended.owner.renew());
        Ok(renewed.inspect_err(|error| ownership.queue.end(&error.to_string()))?)
    }

    /// Replaces a small file on all nodes.
    ///
    /// # Errors
    /// As of [`Node::note`], and what writing the file here ran into.
    pub fn replace_small(&self, name: &str, bytes: Bytes) -> Result<(), NodeError> {
        let change = Change::Replace { name: name.to_owned(), bytes: bytes.clone() };
        self.ownership()?.queue.append([change])?;
        Ok(write_small(&*self.fs, &self.root, name, &bytes)?)
    }

    /// Why this node, which has taken the log, does not own it any more.
    pub fn over(&self) -> Option<FileError> {
        self.ownership().ok().and_then(|ownership| ownership.queue.over())
    }

    pub fn term(&self) -> Option<Term> {
        self.ownership().ok().map(|ownership| ownership.term)
    }

    /// Makes durable here what the files have of the log, and notes how much that is: returns it.
    ///
    /// # Errors
    /// What syncing or writing ran into. The mark before stays.
    pub fn mark(&self) -> Result<Cursor, NodeError> {
        let owner = match &mut *self.state.lock() {
            State::Following(following) => {
                let dirty = following.copy.take_dirty();
                let (cursor, fences) = (following.cursor, following.fences.clone());
                let mark = Mark { log: self.log.clone(), cursor, fences };
                return match mark.write(&*self.fs, &self.root, &dirty) {
                    Ok(()) => Ok(cursor),
                    Err(error) => {
                        following.copy.note_dirty(dirty);
                        Err(error.into())
                    }
                };
            }
            State::Owner(ownership) => Arc::clone(ownership),
        };
        let (cursor, dirty) = owner.files.at_rest(|| *owner.appended.cursor.lock());
        let mark = Mark { log: self.log.clone(), cursor, fences: owner.fences.clone() };
        match mark.write(&*self.fs, &self.root, &dirty) {
            Ok(()) => Ok(cursor),
            Err(error) => {
                owner.files.note_dirty(dirty);
                Err(error.into())
            }
        }
    }

    /// Lets the log begin at `at`, which a mark of this node has passed. Nodes that have less need a copy of the files.
    ///
    /// # Errors
    /// [`NodeError::NotOwner`], and what changing the head of the log ran into.
    pub fn truncate(&self, at: Cursor) -> Result<(), NodeError> {
        let ownership = self.ownership()?;
        let fences = ownership.fences.iter().copied().filter(|fence| *fence < at.next).collect();
        let snapshot = Snapshot { at, term: ownership.term };
        Ok(self.runtime.block_on(ownership.appended.owner.keep(vec![snapshot], at.next, fences))?)
    }

    fn ownership(&self) -> Result<Arc<Ownership>, NodeError> {
        match &*self.state.lock() {
            State::Owner(ownership) => Ok(Arc::clone(ownership)),
            State::Following(_) => Err(NodeError::NotOwner),
        }
    }
}

impl Following {
    fn from_mark(fs: &Arc<dyn FileSystem>, root: &Path, log: &str, store: &LogStore) -> Result<Self, NodeError> {
        let found = Mark::read(&**fs, root)?;
        let has_own_store = found.is_none() && fs.open(&root.join("store.keys"), Open::Read).is_ok();
        let mark = found.unwrap_or_else(|| Mark { log: log.to_owned(), ..Mark::default() });
        if mark.log != log {
            return Err(NodeError::OtherLog(mark.log));
        }
        let (cursor, fences) = (mark.cursor, mark.fences);
        let copy = Copy::new(Arc::clone(fs), root);
        let follower = store.follow(cursor);
        Ok(Self { copy, follower, cursor, fences, term: 0, has_own_store, known: None })
    }

    /// Whether the log continues what this node has added to it.
    fn check_known(&mut self, runtime: &Runtime, store: &LogStore) -> Result<(), NodeError> {
        let Some(known) = self.known else { return Ok(()) };
        match runtime.block_on(store.follow(known).next()) {
            Err(StoreError::OtherLog) => return Err(NodeError::WentBack(known.next)),
            found => drop(found?),
        }
        self.known = None;
        Ok(())
    }

    /// Applies an entry, which does not count as applied before this succeeds.
    fn apply(
        &mut self,
        position: Position,
        batch: Option<&Bytes>,
        term: Term,
        followed: &mut Followed,
    ) -> Result<(), NodeError> {
        match batch {
            Some(_) if self.has_own_store => return Err(NodeError::OwnStore),
            Some(batch) => self.copy.apply(batch, &mut followed.applied)?,
            None if self.fences.last().is_none_or(|last| *last < position) => self.fences.push(position),
            None => {}
        }
        self.term = self.term.max(term);
        followed.entries += 1;
        Ok(())
    }
}

impl Appender for Arc<Appended> {
    fn append(&self, batch: Bytes) -> Result<(), String> {
        let (reply, answer) = mpsc::sync_channel(1);
        let appended = Arc::clone(self);
        // Whoever waits may be a thread of another runtime.
        self.handle.spawn(async move {
            let done = appended.owner.append(batch).await;
            if let Ok(cursor) = &done {
                *appended.cursor.lock() = *cursor;
            }
            let _ = reply.send(done.map(drop));
        });
        match answer.recv() {
            Ok(done) => done.map_err(|error| error.to_string()),
            Err(_) => Err("its threads have ended".to_owned()),
        }
    }

    fn largest_batch(&self) -> usize {
        self.largest_batch
    }
}
