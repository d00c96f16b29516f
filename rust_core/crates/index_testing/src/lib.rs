//! What tests do to the index behind its back: full disks, and rows changed by hand. No released crate depends on this
//! one. It knows SQLite and the name of the index's VFS, and not the index.
#![allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "SQLite accesses its files itself")]

pub mod full_disk;

use std::path::Path;

use rusqlite::{Connection, OpenFlags};

/// A connection to the database at `path` that bypasses the index.
///
/// # Panics
/// When no index was opened before, since that registers the VFS, or when there is no such database.
pub fn open_raw(path: &Path) -> Connection {
    Connection::open_with_flags_and_vfs(path, OpenFlags::SQLITE_OPEN_READ_WRITE, c"orcas-pages")
        .expect("the database opens")
}
