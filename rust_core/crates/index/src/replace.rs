//! Puts a database that was built beside the index in its place, also under readers.
//!
//! Invariants. No connection is being opened while the files change hands: one that opened the database before and its
//! write-ahead log afterwards would read a mixture. At every moment the directory holds a whole index or none, never a
//! database with the write-ahead log of another one. Connections to the old files may live on; they never touch what
//! stands under the names now, since SQLite looks whether its database is still there before it closes its log.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::checkpoint::CHECKPOINT_TIMEOUT;
use super::database::Backing;
use super::error::{IndexError, failure};
use super::index::{Index, sync_directory_of};
use super::{frames, schema};
use orcas_base::error::{Error, Result};

impl Index {
    /// Closes an index that nobody else has, all of it in its one file, for `put_in_place`.
    ///
    /// # Errors
    /// `StorageFull`, `Index`.
    pub fn close(self) -> Result<()> {
        self.truncate_wal()
    }

    /// Moves the database at `from`, which was closed, to `to`. A crash leaves the one, none or the other there.
    ///
    /// # Errors
    /// `Index` when something has it open, `Io`. Then there may be none.
    pub fn put_in_place(from: &Path, to: &Path) -> Result<()> {
        if !frames::is_absent(from) {
            return Err(failure("the index that was built has a write-ahead log").into());
        }
        Self::destroy(to)?;
        std::fs::rename(from, to).map_err(|source| Error::io("rename", from, source))?;
        sync_directory_of(to)
    }

    /// Goes on with the database at `rebuilt`, which nobody has open and which says the same as this one. Who has a
    /// reader keeps it; the next one reads the new files. The writer must be gone.
    ///
    /// # Errors
    /// `Io` or `Index`, after which there may be no index that can be read.
    pub fn replace(&self, rebuilt: &Path) -> Result<()> {
        let database = &self.database;
        let (Backing::File { pool, maintenance }, Some(path)) = (&database.backing, &database.options.path) else {
            return Err(failure("only an index in a file can be replaced").into());
        };
        if database.has_writer.load(Ordering::Acquire) {
            return Err(failure("an index with a writer cannot be replaced").into());
        }
        // While it is open, the last reader to close does not take the write-ahead log away.
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

    /// Calls `listener` whenever the files are found damaged, once until they are replaced, on the thread that met it.
    pub fn on_damage(&self, listener: impl Fn(&Arc<str>) + Send + Sync + 'static) {
        self.database.damage.listen(Box::new(listener));
    }

    /// What was found to be damaged.
    pub fn damage(&self) -> Option<Arc<str>> {
        self.database.damage.found()
    }
}
