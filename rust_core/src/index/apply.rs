//! The writer: records of durable batches in, one transaction with the position they reach to. The same records give
//! the same rows however they are grouped. A failed apply ends the writer, so that no position is ever skipped.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rusqlite::Connection;

use super::blobs::{BlobLocation, BlobWriter};
use super::buckets::{self, Tallies};
use super::versions::VersionWriter;
use super::{Applied, Backing, Shared, failure, schema, uploads};
use crate::error::Result;
use crate::record::Record;

/// Records in one transaction of a rebuild: enough that a page is written once for many of its rows.
const BULK_RECORDS: usize = 400_000;
/// Page cache of the writer during a rebuild, KiB: keys come in any order, so many leaves of `heads` should stay in it.
/// Twice as much gains a tenth.
const BULK_CACHE_KIB: u32 = 32 * 1024;

/// Applies records. One exists at a time.
pub struct Writer {
    shared: Arc<Shared>,
    /// `None` in memory, where the one connection serves.
    conn: Option<Connection>,
    tallies: Tallies,
    /// Rows in `completed_uploads`.
    answers: u64,
    bulk: Option<Bulk>,
    failed: bool,
}

#[derive(Default)]
struct Bulk {
    /// Records in the open transaction; there is none when 0.
    pending: usize,
}

impl Drop for Writer {
    fn drop(&mut self) {
        // An open bulk transaction must not stay behind on a connection that others use.
        if self.bulk.as_ref().is_some_and(|bulk| bulk.pending > 0) {
            let _ = with(&self.shared, self.conn.as_ref(), |conn| Ok(conn.execute_batch("ROLLBACK")?));
        }
        self.shared.writer_out.store(false, Ordering::Release);
    }
}

fn with<T>(shared: &Shared, own: Option<&Connection>, run: impl FnOnce(&Connection) -> Result<T>) -> Result<T> {
    match (own, &shared.backing) {
        (Some(conn), _) => run(conn),
        (None, Backing::Memory(conn)) => {
            let guard = conn.lock();
            let conn: &RefCell<Connection> = &guard;
            run(&conn.borrow())
        }
        (None, Backing::File { .. }) => Err(failure("the writer has no connection")),
    }
}

impl Writer {
    pub(super) fn new(shared: Arc<Shared>) -> Result<Self> {
        let conn = match &shared.options.path {
            Some(path) => Some(schema::open_writable(path, shared.options.synchronous_off)?),
            None => None,
        };
        let answers = with(&shared, conn.as_ref(), uploads::completed_count)?;
        Ok(Self { shared, conn, tallies: Tallies::default(), answers, bulk: None, failed: false })
    }

    /// Applies `records`, which follow what was applied before without a gap, and sets the position. Atomic.
    ///
    /// # Errors
    /// `StorageFull`, or `Index`; after either, this writer refuses everything: make the store read-only.
    pub fn apply(&mut self, records: &[Applied<'_>], position: &[u8]) -> Result<()> {
        if self.failed {
            return Err(failure("the index stopped after a failed apply"));
        }
        let Self { shared, conn, tallies, answers, bulk, .. } = self;
        let applied = with(shared, conn.as_ref(), |conn| {
            let begun = bulk.as_ref().is_some_and(|bulk| bulk.pending > 0);
            if !begun {
                conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            }
            let mut apply = Apply { conn, tallies, answers };
            let commit = match bulk {
                None => true,
                Some(bulk) => {
                    bulk.pending += records.len();
                    bulk.pending >= BULK_RECORDS
                }
            };
            let outcome = apply.all(records, position).and_then(|()| if commit { apply.commit() } else { Ok(()) });
            if outcome.is_err() && !conn.is_autocommit() {
                conn.execute_batch("ROLLBACK")?;
            }
            outcome
        });
        self.failed = applied.is_err();
        if let Some(bulk) = &mut self.bulk
            && (self.failed || bulk.pending >= BULK_RECORDS)
        {
            bulk.pending = 0;
            if !self.failed {
                self.checkpoint_bulk()?;
            }
        }
        applied
    }

    /// Starts a rebuild: transactions span many `apply` calls and a larger page cache is in use until `end_bulk`. What
    /// a crash leaves is an earlier position, as always.
    pub fn begin_bulk(&mut self) -> Result<()> {
        with(&self.shared, self.conn.as_ref(), |conn| schema::set_cache(conn, BULK_CACHE_KIB))?;
        self.bulk.get_or_insert_default();
        Ok(())
    }

    /// Commits what is open and goes back to one transaction an `apply`.
    ///
    /// # Errors
    /// As `apply`.
    pub fn end_bulk(&mut self) -> Result<()> {
        let Some(bulk) = self.bulk.take() else { return Ok(()) };
        let Self { shared, conn, tallies, answers, .. } = self;
        let ended = with(shared, conn.as_ref(), |conn| {
            if bulk.pending > 0 {
                let outcome = Apply { conn, tallies, answers }.commit();
                if outcome.is_err() && !conn.is_autocommit() {
                    conn.execute_batch("ROLLBACK")?;
                }
                outcome?;
            }
            schema::restore_cache(conn)
        });
        self.failed |= ended.is_err();
        ended?;
        self.checkpoint_bulk()
    }

    /// A WAL that grows over a whole rebuild would be slow to look pages up in, and as large as the index.
    fn checkpoint_bulk(&self) -> Result<()> {
        self.shared.checkpoint().map(drop)
    }
}

struct Apply<'w> {
    conn: &'w Connection,
    tallies: &'w mut Tallies,
    answers: &'w mut u64,
}

impl Apply<'_> {
    fn all(&mut self, records: &[Applied<'_>], position: &[u8]) -> Result<()> {
        let mut versions = VersionWriter::new(self.conn)?;
        let mut blobs = BlobWriter::new(self.conn)?;
        for applied in records {
            self.one(&mut versions, &mut blobs, applied)?;
        }
        let mut set = self.conn.prepare_cached("INSERT OR REPLACE INTO meta (name, value) VALUES ('position', ?1)")?;
        set.execute([position])?;
        Ok(())
    }

    fn one(
        &mut self,
        versions: &mut VersionWriter<'_>,
        blobs: &mut BlobWriter<'_>,
        applied: &Applied<'_>,
    ) -> Result<()> {
        let (conn, sequence) = (self.conn, applied.sequence);
        match applied.record {
            Record::CreateBucket(bucket) => buckets::create(conn, applied, bucket),
            Record::UpdateBucket(bucket) => buckets::update(conn, applied, bucket),
            Record::DeleteBucket { bucket } => buckets::delete(conn, self.tallies, *bucket),
            Record::CreatePack { pack } => blobs.create_pack(sequence, *pack),
            Record::Content { .. } => {
                blobs.put(sequence, applied.location.ok_or_else(|| failure("a content comes without its place"))?)
            }
            Record::Chunk { pack, offset, length, .. } => {
                blobs.put(sequence, BlobLocation::Pack { pack: *pack, offset: *offset, length: *length })
            }
            Record::Segment { .. } => blobs.put_segment(sequence, applied.payload),
            Record::PutVersion(version) => versions.put(self.tallies, applied, version),
            Record::DeleteVersion { bucket, key, version_id } => {
                versions.delete(self.tallies, *bucket, key, *version_id)
            }
            Record::MoveVersion { from_bucket, from_key, version } => {
                versions.delete(self.tallies, *from_bucket, from_key, version.version_id)?;
                versions.put(self.tallies, applied, version)
            }
            Record::CreateUpload(upload) => uploads::create(conn, applied, upload),
            Record::PutPart(part) => uploads::put_part(conn, applied, part),
            Record::AbortUpload { upload } => uploads::delete(conn, *upload),
            Record::RememberUpload { .. }
            | Record::CondemnBlobs { .. }
            | Record::MoveChunks { .. }
            | Record::RetirePack { .. }
            | Record::MoveContents { .. }
            | Record::ReplaceLog { .. } => Err(failure("a record of reclamation")),
            Record::CompleteUpload { upload, request, version } => {
                uploads::delete(conn, *upload)?;
                versions.put(self.tallies, applied, version)?;
                uploads::keep_answer(conn, self.answers, sequence, (*upload, *request), version)
            }
        }
    }

    fn commit(&mut self) -> Result<()> {
        self.tallies.flush(self.conn)?;
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }
}
