//! The open database of an index, which the index and its writer share. In a file, readers come from a pool and
//! maintenance has a connection of its own; in memory, everybody uses the same connection.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use parking_lot::{Mutex, ReentrantMutex};
use rusqlite::Connection;

use super::checkpoint::{self, WalState};
use super::pool::Pool;
use crate::damage::Damage;
use crate::error;
use crate::options::IndexOptions;
use orcas_base::error::{Error, Result};

pub(crate) enum Backing {
    File {
        pool: Pool,
        /// Runs checkpoints, and keeps the WAL from being deleted while no other connection is open.
        maintenance: Mutex<Connection>,
    },
    Memory(ReentrantMutex<RefCell<Connection>>),
}

pub(crate) struct Database {
    pub(crate) options: IndexOptions,
    pub(crate) backing: Backing,
    pub(crate) has_writer: AtomicBool,
    pub(crate) damage: Arc<Damage>,
}

impl Database {
    pub(crate) fn new(options: IndexOptions, backing: Backing, damage: Arc<Damage>) -> Self {
        Self { options, backing, has_writer: AtomicBool::new(false), damage }
    }

    /// Moves pages from the WAL into the database while readers and the writer go on. Does nothing in memory.
    pub(crate) fn checkpoint(&self) -> Result<WalState> {
        self.with_maintenance(checkpoint::run).map(Option::unwrap_or_default)
    }

    /// Calls `run` with the connection for maintenance; `None` in memory, where there is nothing to maintain.
    pub(crate) fn with_maintenance<T>(&self, run: impl FnOnce(&Connection) -> error::Result<T>) -> Result<Option<T>> {
        let Backing::File { maintenance, .. } = &self.backing else { return Ok(None) };
        let conn = maintenance.lock();
        let done = run(&conn).map_err(Error::from);
        if let Err(error) = &done {
            // The files are not replaced while the lock is held.
            self.damage.note(self.damage.generation(), error);
        }
        done.map(Some)
    }
}
