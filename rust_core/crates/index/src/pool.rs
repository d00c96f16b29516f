//! The bounded pool of read connections: at most `max_open` exist, `max_idle` of them unused, none used past its
//! lifetime. The most recently used goes out first, so that the others age and close. Who comes when all are out waits for
//! one, and is refused after `WAIT_MAX`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;

use super::damage::Damage;
use super::error::damaged;
use super::options::IndexOptions;
use super::schema;
use orcas_base::error::{Error, Result};

/// How long a caller waits for a connection while all are out: many times what a page takes to read.
pub(super) const WAIT_MAX: Duration = Duration::from_secs(if cfg!(any(test, feature = "testing")) { 1 } else { 10 });

pub(super) struct Pooled {
    pub(super) conn: Connection,
    opened_at: Instant,
    /// How often the files had been replaced when it was opened.
    generation: u64,
}

#[derive(Default)]
struct PoolState {
    /// The last one was used last.
    idle: Vec<Pooled>,
    /// Connections to the present files that exist or are being opened.
    open: u32,
    /// Those of them that are being opened.
    opening: u32,
    /// The files are being replaced: nobody gets a connection.
    suspended: bool,
    hits: u64,
    misses: u64,
    waits: u64,
    refusals: u64,
}

/// The read connections of an index. Zeros for one in memory, which has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Loans of one that was open.
    pub hits: u64,
    /// Loans for which one was opened.
    pub misses: u64,
    /// Callers that found all out and waited.
    pub waits: u64,
    /// Those of them that waited in vain.
    pub refusals: u64,
    pub open: u32,
    pub idle: u32,
}

pub(super) struct Pool {
    path: PathBuf,
    max_open: u32,
    max_idle: usize,
    lifetime: Duration,
    damage: Arc<Damage>,
    state: Mutex<PoolState>,
    freed: Condvar,
}

impl Pool {
    pub(super) fn new(path: PathBuf, options: &IndexOptions, damage: Arc<Damage>) -> Self {
        Self {
            path,
            max_open: options.max_open.max(1),
            max_idle: options.max_idle as usize,
            lifetime: options.lifetime,
            damage,
            state: Mutex::default(),
            freed: Condvar::new(),
        }
    }

    pub(super) fn take(&self) -> Result<Pooled> {
        let mut expired = Vec::new();
        let mut deadline = None;
        let mut state = self.state.lock();
        loop {
            // None is idle while the files are being replaced.
            while let Some(pooled) = state.idle.pop() {
                if pooled.opened_at.elapsed() < self.lifetime {
                    state.hits += 1;
                    return Ok(pooled);
                }
                state.open -= 1;
                expired.push(pooled);
            }
            if state.open < self.max_open && !state.suspended {
                break;
            }
            let deadline = *deadline.get_or_insert_with(|| {
                state.waits += 1;
                Instant::now() + WAIT_MAX
            });
            let late = self.freed.wait_until(&mut state, deadline).timed_out();
            if late && state.idle.is_empty() && (state.open >= self.max_open || state.suspended) {
                state.refusals += 1;
                return Err(Error::Busy { connections: self.max_open });
            }
        }
        state.open += 1;
        state.opening += 1;
        state.misses += 1;
        let generation = self.damage.generation();
        drop(state);
        // Closing and opening touch the disk: never under the lock.
        drop(expired);
        let opened = schema::open_reader(&self.path).map_err(|error| match self.path.try_exists() {
            Ok(false) => damaged("its file is gone"),
            _ => error,
        });
        self.state.lock().opening -= 1;
        // Who replaces the files waits for it.
        self.freed.notify_all();
        match opened {
            Ok(conn) => Ok(Pooled { conn, opened_at: Instant::now(), generation }),
            Err(error) => {
                let error = error.into();
                self.forget(generation);
                self.damage.note(generation, &error);
                Err(error)
            }
        }
    }

    /// What a read on this connection ran into.
    pub(super) fn note(&self, pooled: &Pooled, error: &Error) {
        self.damage.note(pooled.generation, error);
    }

    /// From now on nobody gets a connection, and none is being opened. What was idle is given back; connections that are
    /// out are closed when they come back.
    pub(super) fn suspend(&self) -> Vec<Connection> {
        let mut state = self.state.lock();
        state.suspended = true;
        while state.opening > 0 {
            self.freed.wait(&mut state);
        }
        self.damage.advance();
        state.open = 0;
        state.idle.drain(..).map(|pooled| pooled.conn).collect()
    }

    /// Connections are to the files that stand there now.
    pub(super) fn resume(&self) {
        self.state.lock().suspended = false;
        self.freed.notify_all();
    }

    pub(super) fn give_back(&self, pooled: Pooled) {
        // A transaction left open would pin the WAL for as long as the connection idles.
        let reusable = pooled.opened_at.elapsed() < self.lifetime && pooled.conn.is_autocommit();
        let generation = pooled.generation;
        let mut state = self.state.lock();
        if reusable && state.idle.len() < self.max_idle && self.damage.generation() == generation {
            state.idle.push(pooled);
            drop(state);
            self.freed.notify_one();
            return;
        }
        drop(state);
        drop(pooled);
        self.forget(generation);
    }

    fn forget(&self, generation: u64) {
        let mut state = self.state.lock();
        if self.damage.generation() == generation {
            state.open -= 1;
        }
        drop(state);
        self.freed.notify_one();
    }

    /// Closes those that have idled past their lifetime.
    pub(super) fn close_expired(&self) {
        let expired: Vec<Pooled> = {
            let mut state = self.state.lock();
            let expired: Vec<Pooled> =
                state.idle.extract_if(.., |pooled| pooled.opened_at.elapsed() >= self.lifetime).collect();
            state.open -= expired.len() as u32;
            expired
        };
        for _ in &expired {
            self.freed.notify_one();
        }
        // Closing touches the disk: not under the lock.
        drop(expired);
    }

    pub(super) fn connections(&self) -> Connections {
        let PoolState { ref idle, open, hits, misses, waits, refusals, .. } = *self.state.lock();
        Connections { hits, misses, waits, refusals, open, idle: idle.len() as u32 }
    }
}
