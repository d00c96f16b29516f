//! The bounded pool of read connections: at most `max_open` exist, `max_idle` of them unused, none used past its
//! lifetime. The most recently used goes out first, so that the others age and close. Who comes when all are out waits for
//! one, and is refused after `PATIENCE`.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;

use super::{IndexOptions, schema};
use crate::error::{Error, Result};

/// How long a caller waits for a connection while all are out: many times what a page takes to read.
pub(super) const PATIENCE: Duration = Duration::from_secs(if cfg!(test) { 1 } else { 10 });

pub(super) struct Pooled {
    pub(super) conn: Connection,
    born: Instant,
}

struct State {
    /// The last one was used last.
    idle: Vec<Pooled>,
    /// Connections that exist or are being opened.
    open: u32,
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
    state: Mutex<State>,
    freed: Condvar,
}

impl Pool {
    pub(super) fn new(path: PathBuf, options: &IndexOptions) -> Self {
        Self {
            path,
            max_open: options.max_open.max(1),
            max_idle: options.max_idle as usize,
            lifetime: options.lifetime,
            state: Mutex::new(State { idle: Vec::new(), open: 0, hits: 0, misses: 0, waits: 0, refusals: 0 }),
            freed: Condvar::new(),
        }
    }

    pub(super) fn take(&self) -> Result<Pooled> {
        let mut expired = Vec::new();
        let mut deadline = None;
        let mut state = self.state.lock();
        loop {
            while let Some(pooled) = state.idle.pop() {
                if pooled.born.elapsed() < self.lifetime {
                    state.hits += 1;
                    return Ok(pooled);
                }
                state.open -= 1;
                expired.push(pooled);
            }
            if state.open < self.max_open {
                break;
            }
            let deadline = *deadline.get_or_insert_with(|| {
                state.waits += 1;
                Instant::now() + PATIENCE
            });
            let late = self.freed.wait_until(&mut state, deadline).timed_out();
            if late && state.idle.is_empty() && state.open >= self.max_open {
                state.refusals += 1;
                return Err(Error::Busy { connections: self.max_open });
            }
        }
        state.open += 1;
        state.misses += 1;
        drop(state);
        // Closing and opening touch the disk: never under the lock.
        drop(expired);
        match schema::open_reader(&self.path) {
            Ok(conn) => Ok(Pooled { conn, born: Instant::now() }),
            Err(error) => {
                self.forget();
                Err(error)
            }
        }
    }

    pub(super) fn give_back(&self, pooled: Pooled) {
        // A transaction left open would pin the WAL for as long as the connection idles.
        let reusable = pooled.born.elapsed() < self.lifetime && pooled.conn.is_autocommit();
        let mut state = self.state.lock();
        if reusable && state.idle.len() < self.max_idle {
            state.idle.push(pooled);
            drop(state);
            self.freed.notify_one();
            return;
        }
        drop(state);
        drop(pooled);
        self.forget();
    }

    fn forget(&self) {
        self.state.lock().open -= 1;
        self.freed.notify_one();
    }

    /// Closes those that have idled past their lifetime.
    pub(super) fn tidy(&self) {
        let expired: Vec<Pooled> = {
            let mut state = self.state.lock();
            let expired: Vec<Pooled> =
                state.idle.extract_if(.., |pooled| pooled.born.elapsed() >= self.lifetime).collect();
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
        let State { ref idle, open, hits, misses, waits, refusals } = *self.state.lock();
        Connections { hits, misses, waits, refusals, open, idle: idle.len() as u32 }
    }
}
