//! The bounded pool of read connections: at most `max_open` exist, `max_idle` of them unused, none used past its
//! lifetime. The most recently used goes out first, so that the others age and close.

use std::path::PathBuf;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use rusqlite::Connection;

use super::{BUSY_TIMEOUT, IndexOptions, failure, schema};
use crate::error::Result;

pub(super) struct Pooled {
    pub(super) conn: Connection,
    born: Instant,
}

struct State {
    idle: Vec<Pooled>,
    /// Connections that exist or are being opened.
    open: u32,
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
            state: Mutex::new(State { idle: Vec::new(), open: 0 }),
            freed: Condvar::new(),
        }
    }

    pub(super) fn take(&self) -> Result<Pooled> {
        let mut expired = Vec::new();
        let deadline = Instant::now() + BUSY_TIMEOUT;
        let mut state = self.state.lock();
        loop {
            while let Some(pooled) = state.idle.pop() {
                if pooled.born.elapsed() < self.lifetime {
                    return Ok(pooled);
                }
                state.open -= 1;
                expired.push(pooled);
            }
            if state.open < self.max_open {
                break;
            }
            if self.freed.wait_until(&mut state, deadline).timed_out() && state.idle.is_empty() {
                return Err(failure("no read connection became free"));
            }
        }
        state.open += 1;
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

    #[cfg(test)]
    pub(super) fn sizes(&self) -> (u32, usize) {
        let state = self.state.lock();
        (state.open, state.idle.len())
    }
}
