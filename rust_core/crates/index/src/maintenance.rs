//! What keeps the files of an index in shape beside readers and the writer: checkpoints, vacuum, checks. All of it runs on
//! a connection of its own, which never waits long, so that the writer does not either.

use rusqlite::{Connection, ErrorCode};

use super::layout::PAGE;
use super::pages::find_damaged;
use super::{Backing, Index, Shared, damaged, dump, error};
use orcas_base::error::{Error, Result};
use std::time::Duration;

/// How long a checkpoint holds the writer up while it waits for readers. Far below what the writer waits.
pub(super) const CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(1);

/// A WAL of more pages than this (64 MiB) starts over after `checkpoint`, even if the writer has to wait for it.
pub(super) const WAL_PAGES_MAX: u64 = 16_384;

/// What a checkpoint left behind.
#[derive(Default, Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalState {
    /// Pages in the WAL file since it was last restarted.
    pub pages: u64,
    /// Of these, the ones not yet in the database file.
    pub pending: u64,
}

impl Shared {
    pub(super) fn checkpoint(&self) -> Result<WalState> {
        let checkpoint = |keeper: &Connection| {
            let state = wal_checkpoint(keeper, "PRAGMA wal_checkpoint(PASSIVE)")?;
            if state.pages <= WAL_PAGES_MAX {
                return Ok(state);
            }
            // The WAL starts over only when all of it was moved, and a busy writer is always a few pages ahead: with
            // little left to move, let it wait this once, or the file grows without end.
            wal_checkpoint(keeper, "PRAGMA wal_checkpoint(RESTART)")
        };
        self.keep(checkpoint).map(Option::unwrap_or_default)
    }

    /// Runs something on the connection for upkeep; `None` in memory, where there is nothing to keep.
    fn keep<T>(&self, run: impl FnOnce(&Connection) -> error::Result<T>) -> Result<Option<T>> {
        let Backing::File { keeper, .. } = &self.backing else { return Ok(None) };
        let keeper = keeper.lock();
        let done = run(&keeper).map_err(Error::from);
        if let Err(error) = &done {
            // The files are not replaced while the lock is held.
            self.damage.note(self.damage.generation(), error);
        }
        done.map(Some)
    }
}

impl Index {
    /// Moves pages from the WAL into the database, beside readers and the writer. In memory there is nothing to do.
    pub fn checkpoint(&self) -> Result<WalState> {
        self.shared.checkpoint()
    }

    /// How much of the WAL waits for a checkpoint. Moves nothing; waits for a checkpoint that is running.
    pub fn wal_state(&self) -> Result<WalState> {
        let state = self.shared.keep(|keeper| wal_checkpoint(keeper, "PRAGMA wal_checkpoint(NOOP)"))?;
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

    /// Looks at so many pages of the file, from the one with this number on, counted from 1. The number of pages that were
    /// looked at, 0 at the end and in memory; whether they are as they were written. If not, `quick_check` tells whether
    /// anything stands on them.
    ///
    /// # Errors
    /// `Io` when the file cannot be read.
    pub fn look_at_pages(&self, first: u64, count: u64) -> Result<(u64, bool)> {
        let Some(path) = &self.shared.options.path else { return Ok((0, true)) };
        let length = std::fs::metadata(path).map_err(|source| Error::io("look at", path, source))?.len();
        let end = (length / PAGE as u64 + 1).min(first + count);
        Ok((end.saturating_sub(first), find_damaged(path, first..end)?.is_none()))
    }

    /// Gives at most so many free pages of the database file back, in one short transaction; true when there may be
    /// more. When the writer is busy nothing is given back. A checkpoint then shortens the file. In memory there is
    /// nothing to do.
    pub fn vacuum(&self, pages: u32) -> Result<bool> {
        self.shared.keep(|keeper| give_back(keeper, pages)).map(Option::unwrap_or_default)
    }

    /// Empties the WAL and cuts its file, unless a reader or the writer is in the way. In memory there is nothing to do.
    pub fn truncate_wal(&self) -> Result<()> {
        self.shared.keep(|keeper| wal_checkpoint(keeper, "PRAGMA wal_checkpoint(TRUNCATE)")).map(drop)
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

fn give_back(keeper: &Connection, pages: u32) -> error::Result<bool> {
    if free_pages(keeper)? == 0 {
        return Ok(false);
    }
    // Each step of the statement gives one page back.
    let mut statement = keeper.prepare(&format!("PRAGMA incremental_vacuum({})", pages.max(1)))?;
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
    Ok(free_pages(keeper)? > 0)
}

fn free_pages(conn: &Connection) -> error::Result<i64> {
    Ok(conn.query_row("PRAGMA freelist_count", [], |row| row.get(0))?)
}

/// Runs one form of `PRAGMA wal_checkpoint`, whose row is (busy, pages in the WAL, pages moved).
fn wal_checkpoint(conn: &Connection, pragma: &str) -> error::Result<WalState> {
    let (pages, moved): (i64, i64) =
        conn.prepare_cached(pragma)?.query_row([], |row| Ok((row.get(1)?, row.get(2)?)))?;
    // Both are -1 when there is no WAL yet.
    let (pages, moved) = (u64::try_from(pages).unwrap_or(0), u64::try_from(moved).unwrap_or(0));
    Ok(WalState { pages, pending: pages.saturating_sub(moved) })
}
