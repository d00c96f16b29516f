//! The bounded pool of read connections: at most `max_open` exist and at most `max_idle` of them are idle. None is
//! reused past its lifetime. The most recently used one is lent first, so that the others age and are closed. A caller
//! that finds all of them in use waits, and fails after `WAIT_MAX`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;

use super::schema;
use crate::damage::Damage;
use crate::error::damaged;
use crate::options::IndexOptions;
use orcas_base::error::{Error, Result};

/// How long a caller waits while all connections are in use: many times longer than a page of results takes.
pub(crate) const WAIT_MAX: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });

pub(crate) struct Pooled {
    pub(crate) conn: Connection,
    opened_at: Instant,
    /// How often the files had been replaced when the connection was opened.
    generation: u64,
}

#[derive(Default)]
struct PoolState {
    /// Ordered by last use; the last one was used most recently.
    idle: Vec<Pooled>,
    /// Connections to the current files that exist or are being opened.
    open: u32,
    /// The connections among them that are being opened.
    opening: u32,
    /// While the files are being replaced, no connection is lent.
    suspended: bool,
    hits: u64,
    misses: u64,
    waits: u64,
    refusals: u64,
}

/// The read connections of an index. Zeros for one in memory, which has none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Connections {
    /// Requests that an idle connection answered.
    pub hits: u64,
    /// Requests for which a connection was opened.
    pub misses: u64,
    /// Requests that waited because all connections were in use.
    pub waits: u64,
    /// Waiting requests that timed out.
    pub refusals: u64,
    pub open: u32,
    pub idle: u32,
}

pub(crate) struct Pool {
    path: PathBuf,
    max_open: u32,
    max_idle: usize,
    lifetime: Duration,
    damage: Arc<Damage>,
    state: Mutex<PoolState>,
    freed: Condvar,
}

impl Pool {
    pub(crate) fn new(path: PathBuf, options: &IndexOptions, damage: Arc<Damage>) -> Self {
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

    pub(crate) fn take(&self) -> Result<Pooled> {
        let mut expired = Vec::new();
        let mut deadline = None;
        let mut state = self.state.lock();
        loop {
            // While the files are being replaced, no connection is idle.
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
        // `suspend` waits for this.
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

    /// Reports an error that a read on this connection met.
    pub(crate) fn note(&self, pooled: &Pooled, error: &Error) {
        self.damage.note(pooled.generation, error);
    }

    /// Stops lending connections, and waits until none is being opened. Returns the idle ones; those in use are closed
    /// when they are returned.
    pub(crate) fn suspend(&self) -> Vec<Connection> {
        let mut state = self.state.lock();
        state.suspended = true;
        while state.opening > 0 {
            self.freed.wait(&mut state);
        }
        self.damage.advance();
        state.open = 0;
        state.idle.drain(..).map(|pooled| pooled.conn).collect()
    }

    /// Lends connections again, to the files that are there now.
    pub(crate) fn resume(&self) {
        self.state.lock().suspended = false;
        self.freed.notify_all();
    }

    pub(crate) fn give_back(&self, pooled: Pooled) {
        // An open transaction would keep the WAL from starting over while the connection is idle.
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

    /// Closes idle connections that are older than their lifetime.
    pub(crate) fn close_expired(&self) {
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

    pub(crate) fn connections(&self) -> Connections {
        let PoolState { ref idle, open, hits, misses, waits, refusals, .. } = *self.state.lock();
        Connections { hits, misses, waits, refusals, open, idle: idle.len() as u32 }
    }
}
