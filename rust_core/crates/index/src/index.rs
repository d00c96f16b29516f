//! The index: opens the database, and gives out its one writer and its readers.

use std::cell::RefCell;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use bytes::Bytes;
use parking_lot::{Mutex, ReentrantMutex};
use rusqlite::{Connection, MAIN_DB};

use super::damage::Damage;
use super::error::{IndexError, damaged, failure};
use super::files::checkpoint::CHECKPOINT_TIMEOUT;
use super::files::schema::{self, BUSY_TIMEOUT};
use super::files::{Backing, Connections, Database, Pool, frames, pages};
use super::options::IndexOptions;
use super::reader::Reader;
use super::writer::Writer;
use orcas_base::blocking;
use orcas_base::error::{Error, Result};

/// The index of one store.
pub struct Index {
    pub(super) database: Arc<Database>,
}

impl Index {
    /// Opens or creates the index of the store `store_id`.
    ///
    /// # Errors
    /// `Foreign` when the index belongs to another store. `Index` or `IndexDamaged` when the file is not a database,
    /// has another schema, or its first pages are damaged: the index must be rebuilt.
    pub fn open(options: IndexOptions, store_id: [u8; 16]) -> Result<Self> {
        let Some(path) = options.path.clone() else {
            return Ok(Self::in_memory(options, schema::create_in_memory(store_id)?));
        };
        if frames::is_broken(&path)? {
            return Err(damaged("its write-ahead log is damaged").into());
        }
        // Without a write-ahead log everything is in the file itself.
        let alone = frames::is_absent(&path);
        let conn = schema::open_writable(&path, options.synchronous_off)?;
        if schema::is_empty(&conn)? {
            schema::create(&conn, store_id)?;
        } else {
            schema::verify(&conn, &path, store_id)?;
            if alone {
                pages::verify_roots(&conn, &path)?;
            }
        }
        conn.busy_timeout(CHECKPOINT_TIMEOUT).map_err(IndexError::from)?;
        let damage = Arc::new(Damage::default());
        let pool = Pool::new(path, &options, Arc::clone(&damage));
        Ok(Self::with_backing(options, Backing::File { pool, maintenance: Mutex::new(conn) }, damage))
    }

    /// An index in memory with the content that `serialize` returned.
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
        Self { database: Arc::new(Database::new(options, backing, damage)) }
    }

    /// Deletes the database at `path` and its side files. The database is deleted first, durably: SQLite discards a WAL
    /// without a database, but a database without its WAL could be the result of half a checkpoint.
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
        matches!(self.database.backing, Backing::File { .. })
    }

    /// The position that the last `Writer::apply` set; `None` before the first.
    pub fn position(&self) -> Result<Option<Bytes>> {
        self.read()?.position()
    }

    /// A reader, whose connection returns to the pool when it is dropped. Waits while all connections are in use. In
    /// memory the reader holds the one connection, so other threads and the writer wait until it is dropped.
    ///
    /// # Errors
    /// `Busy` when no connection was returned within ten seconds.
    pub fn read(&self) -> Result<Reader<'_>> {
        blocking::check();
        match &self.database.backing {
            Backing::File { pool, .. } => Ok(Reader::pooled(pool.take()?, pool)),
            Backing::Memory(conn) => match conn.try_lock_for(BUSY_TIMEOUT) {
                Some(guard) => Ok(Reader::shared(guard)),
                None => Err(failure("the index in memory stayed in use").into()),
            },
        }
    }

    /// Closes idle read connections that are older than their lifetime.
    pub fn close_expired_readers(&self) {
        if let Backing::File { pool, .. } = &self.database.backing {
            pool.close_expired();
        }
    }

    pub fn connections(&self) -> Connections {
        match &self.database.backing {
            Backing::File { pool, .. } => pool.connections(),
            Backing::Memory(_) => Connections::default(),
        }
    }

    /// Opens the writer.
    ///
    /// # Errors
    /// `Index` while another one exists.
    pub fn writer(&self) -> Result<Writer> {
        if self.database.has_writer.swap(true, Ordering::AcqRel) {
            return Err(failure("the index has a writer already").into());
        }
        let opened = Writer::new(Arc::clone(&self.database));
        if opened.is_err() {
            self.database.has_writer.store(false, Ordering::Release);
        }
        opened
    }

    /// The whole content of an index in memory, for `open_serialized`. Not to be called between `begin_bulk` and
    /// `end_bulk`.
    ///
    /// # Errors
    /// `Index` when the index is a file, or a reader of this thread is alive.
    pub fn serialize(&self) -> Result<Vec<u8>> {
        let Backing::Memory(conn) = &self.database.backing else {
            return Err(failure("only an index in memory can be serialized").into());
        };
        let guard = conn.lock();
        let mut conn = guard.try_borrow_mut().map_err(|_| failure("the index in memory is in use"))?;
        Ok(conn.serialize(MAIN_DB).map_err(IndexError::from)?.to_vec())
    }
}

pub(super) fn sync_directory_of(path: &Path) -> Result<()> {
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
