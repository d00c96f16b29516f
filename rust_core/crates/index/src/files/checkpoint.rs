//! Checkpoints: moving pages from the write-ahead log (WAL) into the database file.

use std::time::Duration;

use rusqlite::Connection;

use crate::error::Result;

/// How long a checkpoint holds the writer up while it waits for readers. Far below what the writer waits.
pub(crate) const CHECKPOINT_TIMEOUT: Duration = Duration::from_secs(1);

/// A WAL of more pages than this (64 MiB) starts over after a checkpoint, even if the writer has to wait for it.
pub(crate) const WAL_PAGES_MAX: u64 = 16_384;

/// The WAL after a checkpoint.
#[derive(Default, Clone, Copy, Debug, PartialEq, Eq)]
pub struct WalState {
    /// Pages in the WAL file since it was last restarted.
    pub pages: u64,
    /// Pages of the WAL file that are not yet in the database file.
    pub pending: u64,
}

/// Moves what it can without waiting. A WAL that has grown too long is restarted, which may wait.
pub(crate) fn run(conn: &Connection) -> Result<WalState> {
    let state = wal_checkpoint(conn, "PRAGMA wal_checkpoint(PASSIVE)")?;
    if state.pages <= WAL_PAGES_MAX {
        return Ok(state);
    }
    // The WAL starts over only when all of it was moved, and a busy writer is always a few pages ahead. Now that
    // little is left to move, the writer waits this once; otherwise the file would grow without end.
    wal_checkpoint(conn, "PRAGMA wal_checkpoint(RESTART)")
}

/// Moves nothing.
pub(crate) fn state(conn: &Connection) -> Result<WalState> {
    wal_checkpoint(conn, "PRAGMA wal_checkpoint(NOOP)")
}

/// Moves everything and truncates the file, unless a reader or the writer is active.
pub(crate) fn truncate(conn: &Connection) -> Result<()> {
    wal_checkpoint(conn, "PRAGMA wal_checkpoint(TRUNCATE)").map(drop)
}

/// Runs one form of `PRAGMA wal_checkpoint`, whose row is (busy, pages in the WAL, pages moved).
fn wal_checkpoint(conn: &Connection, pragma: &str) -> Result<WalState> {
    let (pages, moved): (i64, i64) =
        conn.prepare_cached(pragma)?.query_row([], |row| Ok((row.get(1)?, row.get(2)?)))?;
    // Both are -1 when there is no WAL yet.
    let (pages, moved) = (u64::try_from(pages).unwrap_or(0), u64::try_from(moved).unwrap_or(0));
    Ok(WalState { pages, pending: pages.saturating_sub(moved) })
}
