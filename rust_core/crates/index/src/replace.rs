//! Replaces the database of an index by one that was built beside it, even while readers are open.
//!
//! Invariants. No connection is being opened while the files are exchanged: it could open the old database and the new
//! write-ahead log. At every moment the directory holds a whole index or none, never a database with the write-ahead
//! log of another one. Connections to the old files may stay open. They never touch the new files, because SQLite
//! checks that its database file is still in place before it deletes the write-ahead log.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::error::{IndexError, failure};
use super::files::checkpoint::CHECKPOINT_TIMEOUT;
use super::files::{Backing, frames, schema};
use super::index::{Index, sync_directory_of};
use orcas_base::error::{Error, Result};

impl Index {
    /// Closes an index that nobody else uses, with all of it in the database file, for `put_in_place`.
    ///
    /// # Errors
    /// `StorageFull`, `Index`.
    pub fn close(self) -> Result<()> {
        self.truncate_wal()
    }

    /// Moves the database at `from`, which was closed, to `to`. After a crash, the old database, the new one or none is
    /// there.
    ///
    /// # Errors
    /// `Index` when `from` is open, `Io`. Then there may be no database at `to`.
    pub fn put_in_place(from: &Path, to: &Path) -> Result<()> {
        if !frames::is_absent(from) {
            return Err(failure("the index that was built has a write-ahead log").into());
        }
        Self::destroy(to)?;
        std::fs::rename(from, to).map_err(|source| Error::io("rename", from, source))?;
        sync_directory_of(to)
    }

    /// Switches to the database at `rebuilt`, which nobody has open and which has the same content as this one.
    /// Existing readers keep the old files, new ones read the new files. There must be no writer.
    ///
    /// # Errors
    /// `Io` or `Index`. Afterwards there may be no readable index.
    pub fn replace(&self, rebuilt: &Path) -> Result<()> {
        let database = &self.database;
        let (Backing::File { pool, maintenance }, Some(path)) = (&database.backing, &database.options.path) else {
            return Err(failure("only an index in a file can be replaced").into());
        };
        if database.has_writer.load(Ordering::Acquire) {
            return Err(failure("an index with a writer cannot be replaced").into());
        }
        // While this connection is open, SQLite does not delete the write-ahead log with the last reader.
        let mut maintenance = maintenance.lock();
        drop(pool.suspend());
        let opened = Self::put_in_place(rebuilt, path).and_then(|()| {
            let conn = schema::open_writable(path, database.options.synchronous_off)?;
            conn.busy_timeout(CHECKPOINT_TIMEOUT).map_err(IndexError::from)?;
            Ok(conn)
        });
        let replaced = opened.map(|conn| {
            database.damage.clear();
            *maintenance = conn;
        });
        pool.resume();
        replaced
    }

    /// Calls `listener` when the files are found damaged, on the thread that found it, and at most once until they are
    /// replaced.
    pub fn on_damage(&self, listener: impl Fn(&Arc<str>) + Send + Sync + 'static) {
        self.database.damage.listen(Box::new(listener));
    }

    /// The first damage found in the current files.
    pub fn damage(&self) -> Option<Arc<str>> {
        self.database.damage.found()
    }
}
