//! The index: SQLite tables derived from the log, so that reads and lists need not replay it. Sole importer of rusqlite.
//!
//! Holds durable records only, in log order, together with the position they reach to; may be deleted at any time
//! and rebuilt. One writer; readers come from a bounded pool; no read transaction outlives a page. In memory one
//! connection serves everybody. Knows neither the log, nor packs, nor the engine: positions and records are bytes to
//! it. Tables and columns: `docs/format.md`, section Index.
#![allow(
    clippy::disallowed_methods,
    clippy::disallowed_types,
    reason = "these files are SQLite's, and so is the way there"
)]

mod apply;
mod blobs;
mod buckets;
mod columns;
mod damage;
mod digests;
mod dump;
mod error;
mod frames;
mod heads;
mod layout;
mod ledger;
mod maintenance;
mod numbers;
mod packs;
mod pages;
mod pool;
mod reader;
mod rebuild;
mod reclaim;
mod references;
mod replace;
mod scan;
mod schema;
mod tallies;
#[cfg(test)]
mod tests;
mod uploads;
mod versions;

use std::cell::RefCell;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, ReentrantMutex};
use rusqlite::{Connection, MAIN_DB};

pub use apply::Writer;
pub use blobs::BlobLocation;
pub use heads::HeadRow;
pub use layout::PAGE_BYTES;
pub use ledger::Totals;
pub use maintenance::WalState;
pub use packs::{PackUsage, PackedBlob};
pub use pool::Connections;
pub use reader::{Reader, Snapshot};
pub use reclaim::{LogFileRow, LogUsage};
pub use scan::{BlobEntry, RowCounts, UploadPart};
pub use tallies::Counts;
pub use uploads::{Completed, PartRow, UploadFrom, UploadRow};

use damage::Damage;
use error::{IndexError, damaged, failure};
#[cfg(any(test, feature = "testing"))]
pub use frames::room;
use orcas_base::error::{Error, Result};
use orcas_record::{Record, Sequence, head_of};
use pool::Pool;

/// How long a connection waits for another one's lock, and a caller for the one connection of an index in memory.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Clone, Debug)]
pub struct IndexOptions {
    /// The database file; in memory when `None`.
    pub path: Option<PathBuf>,
    /// Readers that may be out or idle at a time; at least one.
    pub max_open: u32,
    /// Readers kept open while nobody uses them.
    pub max_idle: u32,
    /// Age at which a reader is closed when it comes back.
    pub lifetime: Duration,
    /// Never sync: for stores whose durability is `unsafe-none`.
    pub synchronous_off: bool,
}

/// A record on its way into the index.
#[derive(Clone, Copy, Debug)]
pub struct Applied<'a> {
    pub sequence: Sequence,
    /// The record's frame type, returned with its payload by reads.
    pub kind: u8,
    pub record: &'a Record,
    /// The encoded record; stored verbatim for buckets, segments, versions, uploads and parts.
    pub payload: &'a Bytes,
    /// Where the bytes of a content stand; `None` for every other record (a chunk names its place itself).
    pub location: Option<BlobLocation>,
}

/// A record as the index keeps it: `record::decode(kind, &record)` reads it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stored {
    pub sequence: Sequence,
    pub kind: u8,
    pub record: Bytes,
}

/// The database as it is, for tests that change it behind the index's back.
#[cfg(any(test, feature = "testing"))]
pub fn open_by_hand(path: &Path) -> Connection {
    pages::open(path, rusqlite::OpenFlags::SQLITE_OPEN_READ_WRITE).expect("the database opens")
}

enum Backing {
    File {
        pool: Pool,
        /// Runs checkpoints and keeps the WAL alive between writers.
        keeper: Mutex<Connection>,
    },
    Memory(ReentrantMutex<RefCell<Connection>>),
}

struct Shared {
    options: IndexOptions,
    backing: Backing,
    writer_out: AtomicBool,
    damage: Arc<Damage>,
}

/// The index of one store.
pub struct Index {
    shared: Arc<Shared>,
}

impl Index {
    /// Opens or creates the index of the store `store_id`.
    ///
    /// # Errors
    /// `Foreign` when the index belongs to another store. `Index` or `IndexDamaged` when the file is not a database, is
    /// damaged as far as a look at its first pages tells, or has another schema: rebuild it.
    pub fn open(options: IndexOptions, store_id: [u8; 16]) -> Result<Self> {
        let Some(path) = options.path.clone() else {
            return Ok(Self::in_memory(options, schema::create_in_memory(store_id)?));
        };
        if frames::is_broken(&path)? {
            return Err(damaged("its write-ahead log is damaged").into());
        }
        // Without a write-ahead log everything stands in the file itself.
        let alone = frames::is_absent(&path);
        let keeper = schema::open_writable(&path, options.synchronous_off)?;
        if schema::is_empty(&keeper)? {
            schema::create(&keeper, store_id)?;
        } else {
            schema::verify(&keeper, &path, store_id)?;
            if alone {
                pages::verify_roots(&keeper, &path)?;
            }
        }
        keeper.busy_timeout(maintenance::CHECKPOINT_TIMEOUT).map_err(IndexError::from)?;
        let damage = Arc::new(Damage::default());
        let pool = Pool::new(path, &options, Arc::clone(&damage));
        Ok(Self::with_backing(options, Backing::File { pool, keeper: Mutex::new(keeper) }, damage))
    }

    /// An index in memory with the state that `serialize` took.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_serialized(bytes: &[u8], store_id: [u8; 16]) -> Result<Self> {
        let mut conn = schema::open_memory()?;
        conn.deserialize_read_exact(MAIN_DB, bytes, bytes.len(), false).map_err(IndexError::from)?;
        schema::verify(&conn, Path::new(":memory:"), store_id)?;
        let options =
            IndexOptions { path: None, max_open: 1, max_idle: 1, lifetime: Duration::MAX, synchronous_off: true };
        Ok(Self::in_memory(options, conn))
    }

    fn in_memory(options: IndexOptions, conn: Connection) -> Self {
        Self::with_backing(options, Backing::Memory(ReentrantMutex::new(RefCell::new(conn))), Arc::default())
    }

    fn with_backing(options: IndexOptions, backing: Backing, damage: Arc<Damage>) -> Self {
        Self { shared: Arc::new(Shared { options, backing, writer_out: AtomicBool::new(false), damage }) }
    }

    /// Removes the database at `path` with its side files. The database goes first and durably: without it SQLite
    /// discards a WAL, whereas a database without its WAL could be half a checkpoint.
    pub fn destroy(path: &Path) -> Result<()> {
        remove_if_present(path)?;
        sync_directory_of(path)?;
        for suffix in ["-wal", "-shm"] {
            let mut side = path.as_os_str().to_owned();
            side.push(suffix);
            remove_if_present(Path::new(&side))?;
        }
        frames::forget(path);
        Ok(())
    }

    pub fn is_file(&self) -> bool {
        matches!(self.shared.backing, Backing::File { .. })
    }

    /// The applied position that the last `Writer::apply` carried; `None` before the first.
    pub fn position(&self) -> Result<Option<Bytes>> {
        self.read()?.position()
    }

    /// A reader from the pool; it goes back when dropped. Waits while all are out. In memory the reader holds the one
    /// connection, so that other threads and the writer wait until it is dropped.
    ///
    /// # Errors
    /// `Busy` when none became free within ten seconds.
    pub fn read(&self) -> Result<Reader<'_>> {
        match &self.shared.backing {
            Backing::File { pool, .. } => Ok(Reader::pooled(pool.take()?, pool)),
            Backing::Memory(conn) => match conn.try_lock_for(BUSY_TIMEOUT) {
                Some(guard) => Ok(Reader::shared(guard)),
                None => Err(failure("the in-memory index stayed in use").into()),
            },
        }
    }

    /// Closes readers that have idled past their lifetime.
    pub fn tidy(&self) {
        if let Backing::File { pool, .. } = &self.shared.backing {
            pool.tidy();
        }
    }

    pub fn connections(&self) -> Connections {
        match &self.shared.backing {
            Backing::File { pool, .. } => pool.connections(),
            Backing::Memory(_) => Connections::default(),
        }
    }

    /// The writer.
    ///
    /// # Errors
    /// `Index` while another one exists.
    pub fn writer(&self) -> Result<Writer> {
        if self.shared.writer_out.swap(true, Ordering::AcqRel) {
            return Err(failure("the index has a writer already").into());
        }
        let opened = Writer::new(Arc::clone(&self.shared));
        if opened.is_err() {
            self.shared.writer_out.store(false, Ordering::Release);
        }
        opened
    }

    /// The whole state of an index in memory, for `open_serialized`. Not between `begin_bulk` and `end_bulk`.
    ///
    /// # Errors
    /// `Index` when the index is a file, or a reader of this thread is alive.
    pub fn serialize(&self) -> Result<Vec<u8>> {
        let Backing::Memory(conn) = &self.shared.backing else {
            return Err(failure("only an index in memory can be serialized").into());
        };
        let guard = conn.lock();
        let mut conn = guard.try_borrow_mut().map_err(|_| failure("the in-memory index is in use"))?;
        Ok(conn.serialize(MAIN_DB).map_err(IndexError::from)?.to_vec())
    }
}

fn sync_directory_of(path: &Path) -> Result<()> {
    let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let synced = std::fs::File::open(dir).and_then(|dir| dir.sync_all());
    synced.map_err(|source| Error::io("sync", dir, source))
}

fn remove_if_present(path: &Path) -> Result<()> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(Error::io("remove", path, error)),
        _ => Ok(()),
    }
}

/// A number as SQLite stores it. The log never brings one beyond `i64::MAX`; one that is, is refused, not wrapped.
fn stored_int(value: u64) -> error::Result<i64> {
    i64::try_from(value).map_err(|_| failure("a number is too large for the index"))
}

/// A number as SQLite gives it back.
fn loaded_int(value: i64) -> error::Result<u64> {
    u64::try_from(value).map_err(|_| failure("a row holds a negative number"))
}

/// Reads a record from a row that has its sequence and payload in these columns.
fn stored(row: &rusqlite::Row<'_>, sequence: usize, kind: u8, record: usize) -> error::Result<Stored> {
    Ok(Stored { sequence: loaded_int(row.get(sequence)?)?, kind, record: blob_bytes(row, record)? })
}

/// The first eight bytes of a fingerprint or digest, as tables find it by them.
fn beginning(hash: &[u8; 32]) -> i64 {
    head_of(hash).cast_signed()
}

fn blob_bytes(row: &rusqlite::Row<'_>, column: usize) -> error::Result<Bytes> {
    Ok(Bytes::copy_from_slice(row.get_ref(column)?.as_blob().map_err(rusqlite::Error::from)?))
}
