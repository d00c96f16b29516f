//! What keeps the files of an index in shape beside readers and the writer: checkpoints, vacuum, checks. All of it runs on
//! a connection of its own, which never waits long, so that the writer does not either.

use std::path::Path;

use rusqlite::{Connection, ErrorCode};

use super::checkpoint::WalState;
use super::error::{self, damaged, failure};
use super::index::Index;
use super::layout::PAGE;
use super::pages::find_damaged;
use super::{checkpoint, dump};
use orcas_base::error::{Error, Result};

impl Index {
    /// Moves pages from the WAL into the database, beside readers and the writer. In memory there is nothing to do.
    pub fn checkpoint(&self) -> Result<WalState> {
        self.database.checkpoint()
    }

    /// How much of the WAL waits for a checkpoint. Moves nothing; waits for a checkpoint that is running.
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

    /// Reads the whole database and checks its structure, and that its indexes say what its tables say.
    ///
    /// # Errors
    /// `IndexDamaged` with the first finding.
    pub fn integrity_check(&self) -> Result<()> {
        self.read()?.with(|conn| {
            let finding: String = conn.query_row("PRAGMA integrity_check(1)", [], |row| row.get(0))?;
            if finding == "ok" { Ok(()) } else { Err(damaged(&finding)) }
        })
    }

    /// Looks at so many pages of the file, from the one with this number on, counted from 1. The number of pages that were
    /// looked at, 0 at the end and in memory; whether they are as they were written. If not, `quick_check` tells whether
    /// anything stands on them.
    ///
    /// # Errors
    /// `Io` when the file cannot be read.
    pub fn verify_pages(&self, first: u64, count: u64) -> Result<(u64, bool)> {
        let Some(path) = &self.database.options.path else { return Ok((0, true)) };
        let length = std::fs::metadata(path).map_err(|source| Error::io("look at", path, source))?.len();
        let end = (length / PAGE as u64 + 1).min(first + count);
        Ok((end.saturating_sub(first), find_damaged(path, first..end)?.is_none()))
    }

    /// Gives at most so many free pages of the database file back, in one short transaction; true when there may be
    /// more. When the writer is busy nothing is given back. A checkpoint then shortens the file. In memory there is
    /// nothing to do.
    pub fn vacuum(&self, pages: u32) -> Result<bool> {
        self.database.with_maintenance(|conn| incremental_vacuum(conn, pages)).map(Option::unwrap_or_default)
    }

    /// Empties the WAL and cuts its file, unless a reader or the writer is in the way. In memory there is nothing to do.
    pub fn truncate_wal(&self) -> Result<()> {
        self.database.with_maintenance(checkpoint::truncate).map(drop)
    }

    /// Writes one state of the index, compacted, to `path`, which must not exist. Beside readers and the writer, whose
    /// WAL only grows meanwhile.
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

    /// Every row as a line of text, in key order: equal exactly when two indexes hold the same state.
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
    // Each step of the statement gives one page back.
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
