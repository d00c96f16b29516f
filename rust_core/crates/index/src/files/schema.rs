//! Tables, connection settings, and the check that a file is an index of this store. There are no migrations: an index
//! with another `SCHEMA` is deleted and rebuilt from the log.

use std::ffi::c_int;
use std::path::Path;
use std::sync::Once;
use std::time::Duration;

use parking_lot::Mutex;
use rusqlite::backup::Backup;
use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags, OptionalExtension};

use super::pages;
use crate::error::{Result, failure};
use crate::writer::rebuild;
use orcas_base::error::Error;

/// "ORCI", in the database header.
const APPLICATION_ID: i32 = 0x4f52_4349;
const SCHEMA: i32 = 5;

/// How long a connection waits for another one's lock, and a caller for the one connection of an index in memory.
pub(crate) const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Page cache of the writer, KiB: it holds the inner pages and the leaves that a batch touches. At 1,000,000 objects,
/// twice as much makes no measurable difference.
const WRITER_CACHE_KIB: u32 = 8 * 1024;
/// Page cache of one reader, KiB: inner pages and a listing page; leaves come from the kernel's cache. The file is not
/// mapped into memory, because a bad sector would then end the process with a signal instead of causing an error.
const READER_CACHE_KIB: u32 = 1024;
/// The WAL file is truncated to this size when it starts over, bytes.
const WAL_SIZE_KEPT: u32 = 64 * 1024 * 1024;
/// More than this crate has statements, so that a connection prepares each only once.
const STATEMENTS_CACHED: usize = 128;

const TABLES: &str = "
CREATE TABLE meta (name TEXT PRIMARY KEY, value BLOB NOT NULL) STRICT, WITHOUT ROWID;
CREATE TABLE buckets (
    id INTEGER PRIMARY KEY, name BLOB NOT NULL UNIQUE, sequence INTEGER NOT NULL, kind INTEGER NOT NULL,
    record BLOB NOT NULL, objects INTEGER NOT NULL, bytes INTEGER NOT NULL, history INTEGER NOT NULL,
    logical INTEGER NOT NULL, stored INTEGER NOT NULL
) STRICT;
CREATE TABLE documents (
    bucket INTEGER NOT NULL, document INTEGER NOT NULL, sequence INTEGER NOT NULL, kind INTEGER NOT NULL,
    record BLOB NOT NULL, PRIMARY KEY (bucket, document)
) STRICT, WITHOUT ROWID;
CREATE INDEX documents_in_log ON documents (sequence);
CREATE TABLE totals (
    id INTEGER PRIMARY KEY CHECK (id = 0), logical INTEGER NOT NULL, stored INTEGER NOT NULL, dead INTEGER NOT NULL
) STRICT;
INSERT INTO totals VALUES (0, 0, 0, 0);
CREATE TABLE heads (
    bucket INTEGER NOT NULL, key BLOB NOT NULL, sequence INTEGER NOT NULL, modified_ms INTEGER NOT NULL,
    size INTEGER NOT NULL, etag BLOB NOT NULL, checksum INTEGER, class INTEGER, version_id BLOB,
    PRIMARY KEY (bucket, key)
) STRICT, WITHOUT ROWID;
CREATE TABLE history (
    bucket INTEGER NOT NULL, key BLOB NOT NULL, sequence INTEGER NOT NULL, modified_ms INTEGER NOT NULL,
    size INTEGER NOT NULL, etag BLOB NOT NULL, checksum INTEGER, class INTEGER, version_id BLOB,
    delete_marker INTEGER NOT NULL,
    PRIMARY KEY (bucket, key, sequence DESC)
) STRICT, WITHOUT ROWID;
CREATE INDEX history_by_id ON history (bucket, key, version_id);
CREATE TABLE versions (
    sequence INTEGER PRIMARY KEY, kind INTEGER NOT NULL, record BLOB NOT NULL, updated INTEGER, update_record BLOB
) STRICT;
CREATE INDEX versions_updated ON versions (updated) WHERE updated IS NOT NULL;
CREATE TABLE blobs (
    sequence INTEGER PRIMARY KEY, place INTEGER NOT NULL, file INTEGER NOT NULL, offset INTEGER NOT NULL,
    length INTEGER NOT NULL, refs INTEGER NOT NULL, bucket INTEGER, tag INTEGER, identity BLOB, head INTEGER, seal BLOB
) STRICT;
CREATE INDEX blobs_by_tag ON blobs (tag) WHERE tag IS NOT NULL;
CREATE INDEX blobs_in_packs ON blobs (file, offset) WHERE place = 1;
CREATE INDEX blobs_dead ON blobs (sequence) WHERE refs = 0;
CREATE TABLE holdings (
    blob INTEGER NOT NULL, bucket INTEGER NOT NULL, refs INTEGER NOT NULL, PRIMARY KEY (blob, bucket)
) STRICT, WITHOUT ROWID;
CREATE TABLE segments (sequence INTEGER PRIMARY KEY, record BLOB NOT NULL) STRICT;
CREATE TABLE segment_holdings (
    segment INTEGER NOT NULL, bucket INTEGER NOT NULL, refs INTEGER NOT NULL, PRIMARY KEY (segment, bucket)
) STRICT, WITHOUT ROWID;
CREATE TABLE digests (
    tag INTEGER NOT NULL, sequence INTEGER NOT NULL, PRIMARY KEY (tag, sequence)
) STRICT, WITHOUT ROWID;
CREATE TABLE packs (
    pack INTEGER PRIMARY KEY, sequence INTEGER NOT NULL, blobs INTEGER NOT NULL, live INTEGER NOT NULL,
    dead INTEGER NOT NULL
) STRICT;
CREATE TABLE log_files (file INTEGER PRIMARY KEY, first INTEGER NOT NULL, last INTEGER NOT NULL) STRICT;
CREATE TABLE uploads (
    id BLOB PRIMARY KEY, bucket INTEGER NOT NULL, key BLOB NOT NULL, initiated_ms INTEGER NOT NULL,
    sequence INTEGER NOT NULL, kind INTEGER NOT NULL, record BLOB NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX uploads_in_order ON uploads (bucket, key, initiated_ms, id);
CREATE INDEX uploads_in_log ON uploads (sequence);
CREATE TABLE parts (
    upload BLOB NOT NULL, number INTEGER NOT NULL, sequence INTEGER NOT NULL, kind INTEGER NOT NULL,
    record BLOB NOT NULL, PRIMARY KEY (upload, number)
) STRICT, WITHOUT ROWID;
CREATE INDEX parts_in_log ON parts (sequence);
CREATE TABLE completed_uploads (
    sequence INTEGER PRIMARY KEY, upload BLOB NOT NULL UNIQUE, request BLOB NOT NULL, bucket INTEGER NOT NULL,
    key BLOB NOT NULL, version_id BLOB, etag BLOB NOT NULL, checksum INTEGER, checksum_value BLOB
) STRICT;
";

/// Disables SQLite's memory statistics. Nobody reads them, but every allocation of every connection takes a lock for
/// them.
#[allow(unsafe_code, reason = "rusqlite has no safe wrapper")]
fn disable_memory_statistics() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: this option takes one int. If SQLite is already in use, it refuses and nothing has changed.
        unsafe { rusqlite::ffi::sqlite3_config(rusqlite::ffi::SQLITE_CONFIG_MEMSTATUS, 0 as c_int) };
    });
}

/// A connection that may write: for the writer or for maintenance.
pub(crate) fn open_writable(path: &Path, synchronous_off: bool) -> Result<Connection> {
    disable_memory_statistics();
    let flags = OpenFlags::SQLITE_OPEN_READ_WRITE | OpenFlags::SQLITE_OPEN_CREATE | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = pages::open(path, flags)?;
    configure(&conn, WRITER_CACHE_KIB)?;
    if is_empty(&conn)? {
        // These take effect only before the first page is written.
        pages::reserve(&conn)?;
        conn.pragma_update(None, "auto_vacuum", "INCREMENTAL")?;
    }
    let mode: String = conn.query_row("PRAGMA journal_mode = WAL", [], |row| row.get(0))?;
    if mode != "wal" {
        return Err(failure("the file system cannot hold a write-ahead log"));
    }
    // In WAL mode, NORMAL syncs at checkpoints only. A crash may lose commits, which the log restores, but tears none.
    conn.pragma_update(None, "synchronous", if synchronous_off { "OFF" } else { "NORMAL" })?;
    // Checkpoints run on a connection of their own, never inside a commit.
    conn.query_row("PRAGMA wal_autocheckpoint = 0", [], |_| Ok(()))?;
    conn.query_row(&format!("PRAGMA journal_size_limit = {WAL_SIZE_KEPT}"), [], |_| Ok(()))?;
    Ok(conn)
}

/// A connection of the reader pool.
pub(crate) fn open_reader(path: &Path) -> Result<Connection> {
    disable_memory_statistics();
    let flags = OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let conn = pages::open(path, flags)?;
    configure(&conn, READER_CACHE_KIB)?;
    // SQLite opens the write-ahead log with the first read. It must be open before the files can be replaced.
    conn.query_row("PRAGMA schema_version", [], |_| Ok(()))?;
    Ok(conn)
}

pub(crate) fn open_memory() -> Result<Connection> {
    disable_memory_statistics();
    let conn = Connection::open_in_memory()?;
    configure(&conn, WRITER_CACHE_KIB)?;
    Ok(conn)
}

/// An empty index in memory: a copy of the first one that the process created. Test suites open hundreds of thousands
/// of stores, and creating the tables took a fifth of their time.
pub(crate) fn create_in_memory(store_id: [u8; 16]) -> Result<Connection> {
    static EMPTY: Mutex<Option<Connection>> = Mutex::new(None);
    let mut conn = open_memory()?;
    let mut empty = EMPTY.lock();
    let empty = match &mut *empty {
        Some(empty) => empty,
        none => {
            let made = open_memory()?;
            define(&made)?;
            none.insert(made)
        }
    };
    Backup::new(empty, &mut conn)?.step(-1)?;
    set_store_id(&conn, store_id)?;
    Ok(conn)
}

/// Settings of every connection before it reads a page. A damaged or forged file must not make SQLite run its code.
fn configure(conn: &Connection, cache_kib: u32) -> Result<()> {
    conn.busy_timeout(BUSY_TIMEOUT)?;
    conn.set_prepared_statement_cache_capacity(STATEMENTS_CACHED);
    conn.pragma_update(None, "trusted_schema", false)?;
    conn.pragma_update(None, "cell_size_check", true)?;
    // Without it, SQLite plans a cached statement again when a bound key changes: 7 µs for a seek of 2 µs.
    conn.set_db_config(DbConfig::SQLITE_DBCONFIG_ENABLE_QPSG, true)?;
    set_cache(conn, cache_kib)
}

/// Sets the size of the page cache, KiB.
pub(crate) fn set_cache(conn: &Connection, kib: u32) -> Result<()> {
    // Negative means KiB instead of pages.
    conn.pragma_update(None, "cache_size", -i64::from(kib))?;
    Ok(())
}

/// Sets the writer's page cache back to its usual size, and frees the rest.
pub(crate) fn restore_cache(conn: &Connection) -> Result<()> {
    set_cache(conn, WRITER_CACHE_KIB)?;
    conn.release_memory()?;
    Ok(())
}

/// Whether the database has no tables.
pub(crate) fn is_empty(conn: &Connection) -> Result<bool> {
    let objects: i64 = conn.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    Ok(objects == 0)
}

/// Creates all tables at once, so that a crash leaves either none or all of them.
pub(crate) fn create(conn: &Connection, store_id: [u8; 16]) -> Result<()> {
    conn.execute_batch("BEGIN IMMEDIATE")?;
    let created = define(conn).and_then(|()| set_store_id(conn, store_id));
    conn.execute_batch(if created.is_ok() { "COMMIT" } else { "ROLLBACK" })?;
    created
}

fn define(conn: &Connection) -> Result<()> {
    conn.execute_batch(TABLES)?;
    conn.pragma_update(None, "application_id", APPLICATION_ID)?;
    conn.pragma_update(None, "user_version", SCHEMA)?;
    Ok(())
}

fn set_store_id(conn: &Connection, store_id: [u8; 16]) -> Result<()> {
    conn.execute("INSERT INTO meta VALUES ('store_id', ?1)", [store_id])?;
    Ok(())
}

/// Whether the definitions are those of `TABLES`. SQLite accepts a damaged definition, in which a column may have
/// another name.
fn has_expected_definitions(conn: &Connection) -> Result<bool> {
    let mut select = conn.prepare("SELECT sql FROM sqlite_schema WHERE sql IS NOT NULL")?;
    let mut found: Vec<String> = select.query_map([], |row| row.get(0))?.collect::<Result<_, _>>()?;
    let statements = TABLES.split(';').map(str::trim);
    let mut made: Vec<&str> = statements.filter(|statement| statement.starts_with("CREATE ")).collect();
    found.sort_unstable();
    made.sort_unstable();
    Ok(found == made)
}

/// Refuses a database that is not an index, has another schema, or belongs to another store.
pub(crate) fn verify(conn: &Connection, path: &Path, store_id: [u8; 16]) -> Result<()> {
    let number = |pragma: &str| conn.query_row(pragma, [], |row| row.get::<_, i32>(0));
    if number("PRAGMA application_id")? != APPLICATION_ID {
        return Err(failure("the file is not an Orcas index"));
    }
    if number("PRAGMA user_version")? != SCHEMA {
        return Err(failure("the index has the schema of another version"));
    }
    if !has_expected_definitions(conn)? {
        return Err(failure("the definitions of the index's tables are damaged"));
    }
    let select = "SELECT value FROM meta WHERE name = 'store_id'";
    let found: Option<Vec<u8>> = conn.query_row(select, [], |row| row.get(0)).optional()?;
    match found {
        None => Err(failure("the index has no store id")),
        Some(id) if id == store_id => rebuild::refuse_unfinished(conn),
        Some(_) => Err(Error::Foreign { path: path.to_owned(), reason: "the index was made for another store" }.into()),
    }
}
