//! Maintenance of an index while readers and the writer go on: checkpoints, vacuum, checks, copies. Checkpoints and
//! vacuum use a connection of their own, which never waits long, so that the writer does not have to either.

use std::path::Path;

use rusqlite::{Connection, ErrorCode};

use super::dump;
use super::error::{self, damaged, failure};
use super::files::PAGE;
use super::files::checkpoint::{self, WalState};
use super::files::pages::find_damaged;
use super::index::Index;
use orcas_base::error::{Error, Result};

impl Index {
    /// Moves pages from the WAL into the database while readers and the writer go on. Does nothing in memory.
    pub fn checkpoint(&self) -> Result<WalState> {
        self.database.checkpoint()
    }

    /// The WAL as it is, without moving pages. Waits for a running checkpoint.
    pub fn wal_state(&self) -> Result<WalState> {
        let state = self.database.with_maintenance(checkpoint::state)?;
        Ok(state.unwrap_or_default())
    }

    /// Reads the whole database and checks its structure.
    ///
    /// # Errors
    /// `IndexDamaged` with the first finding.
    pub fn quick_check(&self) -> Result<()> {
        self.read()?.with(|conn| {
            let finding: String = conn.query_row("PRAGMA quick_check(1)", [], |row| row.get(0))?;
            if finding == "ok" { Ok(()) } else { Err(damaged(&finding)) }
        })
    }

    /// Reads the whole database and checks its structure, and that its SQL indexes match its tables.
    ///
    /// # Errors
    /// `IndexDamaged` with the first finding.
    pub fn integrity_check(&self) -> Result<()> {
        self.read()?.with(|conn| {
            let finding: String = conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
            if finding == "ok" { Ok(()) } else { Err(damaged(&finding)) }
        })
    }

    /// Verifies the checksums of up to `count` pages of the file from page `first` on, counted from 1. Returns the
    /// number of pages read, 0 at the end and in memory, and whether all were intact. A damaged page may be unused:
    /// `quick_check` finds only damage that matters.
    ///
    /// # Errors
    /// `Io` when the file cannot be read.
    pub fn verify_pages(&self, first: u64, count: u64) -> Result<(u64, bool)> {
        let Some(path) = &self.database.options.path else { return Ok((0, true)) };
        let length = std::fs::metadata(path).map_err(|source| Error::io("look at", path, source))?.len();
        let end = (length / PAGE as u64 + 1).min(first + count);
        Ok((end.saturating_sub(first), find_damaged(path, first..end)?.is_none()))
    }

    /// Removes up to `pages` free pages from the database, in one short transaction. Returns whether there may be more.
    /// Removes none while the writer is busy. The next checkpoint then shortens the file. Does nothing in memory.
    pub fn vacuum(&self, pages: u32) -> Result<bool> {
        self.database.with_maintenance(|conn| incremental_vacuum(conn, pages)).map(Option::unwrap_or_default)
    }

    /// Empties the WAL and truncates its file, unless a reader or the writer is active. Does nothing in memory.
    pub fn truncate_wal(&self) -> Result<()> {
        self.database.with_maintenance(checkpoint::truncate).map(drop)
    }

    /// Writes a copy of the index, compacted, to `path`, which must not exist. Readers and the writer go on, but
    /// checkpoints cannot empty the WAL meanwhile.
    pub fn copy_to(&self, path: &Path) -> Result<()> {
        let path = path.to_str().ok_or_else(|| failure("the path of a copy is not UTF-8"))?;
        self.read()?.with(|conn| Ok(conn.execute("VACUUM INTO ?1", [path]).map(drop)?))
    }

    /// Every row of every table in key order, for comparing two indexes without holding either in memory.
    pub fn each_row(&self, visit: &mut dyn FnMut(&'static str, &str) -> Result<()>) -> Result<()> {
        self.read()?.begin()?.with(|conn| dump::each_row(conn, visit))
    }

    /// The tables in the order of `each_row`, with the number of columns that their keys have.
    pub fn tables() -> [(&'static str, usize); dump::TABLES.len()] {
        dump::TABLES.map(|(table, key)| (table, key.split(',').count()))
    }

    /// Every row as a line of text, in key order. Two indexes have equal dumps exactly when they have the same rows.
    pub fn dump(&self) -> Result<String> {
        let mut out = String::new();
        self.each_row(&mut |table, row| {
            for piece in [table, " ", row, "\n"] {
                out.push_str(piece);
            }
            Ok(())
        })?;
        Ok(out)
    }
}

fn incremental_vacuum(conn: &Connection, pages: u32) -> error::Result<bool> {
    if free_pages(conn)? == 0 {
        return Ok(false);
    }
    // Each step of the statement removes one page.
    let mut statement = conn.prepare(&format!("PRAGMA incremental_vacuum({})", pages.max(1)))?;
    let mut rows = statement.query([])?;
    loop {
        match rows.next() {
            Ok(Some(_)) => {}
            Ok(None) => break,
            Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => return Ok(true),
            Err(error) => return Err(error.into()),
        }
    }
    drop(rows);
    drop(statement);
    Ok(free_pages(conn)? > 0)
}

fn free_pages(conn: &Connection) -> error::Result<i64> {
    Ok(conn.query_row("PRAGMA freelist_count", [], |row| row.get(0))?)
}
