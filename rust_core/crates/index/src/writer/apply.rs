//! The writer: applies the records of durable batches in one transaction, together with the log position that they
//! reach. The same records give the same rows however they are grouped. After a failed apply the writer refuses more
//! records, so that none is skipped. A record that contradicts the rows fails the apply; only a rebuild ignores
//! references to what log compaction dropped.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rusqlite::Connection;

use super::changes::Changes;
use super::{rebuild, reclaim, references};
use crate::error::{self, failure};
use crate::files::{Backing, Database, schema};
use crate::records::Applied;
use crate::tables::blobs::{self, StoredLocation};
use crate::tables::uploads::{self, NewCompletedUpload};
use crate::tables::versions::VersionWriter;
use crate::tables::{buckets, documents, packs, stored_int};
use orcas_base::error::{Error, Result};
use orcas_record::{BlobLocation, BucketId, BucketRole, Record, Version, short_hash};

/// Records in one transaction of a rebuild: enough that a page is written once for many of its rows.
const BULK_RECORDS: usize = 400_000;
/// Page cache of the writer during a rebuild, KiB: keys come in any order, so many leaves of `heads` should stay in
/// it. Twice as much makes a rebuild a tenth faster.
const BULK_CACHE_KIB: u32 = 32 * 1024;

/// Applies records. Only one exists at a time.
pub struct Writer {
    database: Arc<Database>,
    /// The writing connection; `None` in memory, where everybody uses the one connection.
    conn: Option<Connection>,
    /// How often the files had been replaced when `conn` was opened.
    generation: u64,
    changes: Changes,
    /// Rows in `completed_uploads`.
    completed: u64,
    bulk: Option<Bulk>,
    failed: bool,
}

struct Bulk {
    /// Records in the open transaction; 0 when none is open.
    pending: usize,
    /// Records after which the transaction is committed.
    limit: usize,
    /// Whether the index is marked as unfinished.
    marked: bool,
}

impl Drop for Writer {
    fn drop(&mut self) {
        // In memory others use this connection, so an open bulk transaction must end.
        if self.bulk.as_ref().is_some_and(|bulk| bulk.pending > 0) {
            let undone = with(&self.database, self.conn.as_ref(), |conn| Ok(conn.execute_batch("ROLLBACK")?));
            let _ = undone.inspect_err(|error| tracing::warn!(%error, "A transaction of the index stayed open"));
        }
        self.database.has_writer.store(false, Ordering::Release);
    }
}

fn with<T>(
    database: &Database,
    own: Option<&Connection>,
    run: impl FnOnce(&Connection) -> error::Result<T>,
) -> Result<T> {
    let done = match (own, &database.backing) {
        (Some(conn), _) => run(conn),
        (None, Backing::Memory(conn)) => {
            let guard = conn.lock();
            let conn: &RefCell<Connection> = &guard;
            run(&conn.borrow())
        }
        (None, Backing::File { .. }) => Err(failure("the writer has no connection")),
    };
    Ok(done?)
}

impl Writer {
    pub(crate) fn new(database: Arc<Database>) -> Result<Self> {
        let conn = match &database.options.path {
            Some(path) => Some(schema::open_writable(path, database.options.synchronous_off)?),
            None => None,
        };
        let completed = with(&database, conn.as_ref(), |conn| {
            rebuild::refuse_unfinished(conn)?;
            uploads::completed_count(conn)
        })?;
        let generation = database.damage.generation();
        Ok(Self { database, conn, generation, changes: Changes::default(), completed, bulk: None, failed: false })
    }

    /// Calls `callback` with the sequence and the record of every segment that a transaction removes, before the
    /// transaction commits.
    pub fn on_segment_removal(&mut self, callback: references::OnSegmentRemoval) {
        self.changes.on_segment_removal(callback);
    }

    /// Applies `records`, the next ones in the log, and sets the position. Atomic.
    ///
    /// # Errors
    /// `StorageFull`: outside of a rebuild nothing has changed, and the same records may be applied again. `Index` and
    /// `IndexDamaged`: nothing has changed either, but this writer refuses all further records, and the index must be
    /// rebuilt.
    pub fn apply(&mut self, records: &[Applied<'_>], position: &[u8]) -> Result<()> {
        if self.failed {
            return Err(failure("the index stopped after a failed apply").into());
        }
        let Self { database, conn, changes, completed, bulk, .. } = self;
        let applied = with(database, conn.as_ref(), |conn| {
            let begun = bulk.as_ref().is_some_and(|bulk| bulk.pending > 0);
            if !begun {
                conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            }
            let mut apply = Apply { conn, changes, completed };
            let commit = match bulk {
                None => true,
                Some(bulk) => {
                    if !bulk.marked {
                        rebuild::mark(conn)?;
                        bulk.marked = true;
                    }
                    bulk.pending += records.len();
                    bulk.pending >= bulk.limit
                }
            };
            let outcome =
                apply.apply_all(records, position).and_then(|()| if commit { apply.commit() } else { Ok(()) });
            if outcome.is_err() && !conn.is_autocommit() {
                conn.execute_batch("ROLLBACK")?;
            }
            outcome
        });
        self.failed = applied.is_err();
        if let Err(error) = &applied {
            self.database.damage.note(self.generation, error);
        }
        if matches!(applied, Err(Error::StorageFull)) && self.bulk.is_none() {
            self.failed = self.discard_attempt().is_err();
        }
        if let Some(bulk) = &mut self.bulk
            && (self.failed || bulk.pending >= bulk.limit)
        {
            bulk.pending = 0;
            if !self.failed {
                self.checkpoint_bulk()?;
            }
        }
        applied
    }

    /// Lets the database grow to at most `pages` pages, as a disk of that size would.
    #[cfg(test)]
    pub(crate) fn limit_pages(&self, pages: u32) -> Result<()> {
        with(&self.database, self.conn.as_ref(), |conn| Ok(conn.pragma_update(None, "max_page_count", pages)?))
    }

    /// Discards what a transaction that was rolled back has changed in memory.
    fn discard_attempt(&mut self) -> Result<()> {
        let Self { database, conn, changes, completed, .. } = self;
        changes.discard();
        *completed = with(database, conn.as_ref(), uploads::completed_count)?;
        Ok(())
    }

    /// Starts a rebuild, a replay of the log from its beginning into an empty index. Until `end_bulk`, transactions
    /// span many `apply` calls, the page cache is larger, and records may name what log compaction dropped. If a crash
    /// interrupts the rebuild, `Index::open` refuses the index, or finds it empty if no transaction was committed.
    pub fn begin_bulk(&mut self) -> Result<()> {
        self.begin_bulk_of(BULK_RECORDS)
    }

    /// `begin_bulk` for a log that may lack any record, to be ended by `end_salvage`. Records of buckets apply whatever
    /// came before: UpdateBucket also sets the name, and DeleteBucket also deletes all versions left in the bucket.
    ///
    /// # Errors
    /// As `begin_bulk`.
    pub fn begin_salvage(&mut self) -> Result<()> {
        self.begin_bulk()?;
        if let Some(rebuild) = &mut self.changes.counters.rebuild {
            rebuild.salvage = true;
        }
        Ok(())
    }

    /// `begin_bulk` with at least `limit` records in each transaction but the last.
    pub(crate) fn begin_bulk_of(&mut self, limit: usize) -> Result<()> {
        if self.bulk.is_some() {
            return Ok(());
        }
        with(&self.database, self.conn.as_ref(), |conn| schema::set_cache(conn, BULK_CACHE_KIB))?;
        self.changes.counters.rebuild = Some(rebuild::Rebuild::default());
        self.bulk = Some(Bulk { pending: 0, limit, marked: false });
        Ok(())
    }

    /// Ends the rebuild. From now on each `apply` is one transaction.
    ///
    /// # Errors
    /// As `apply`; also `Index` when a record names something that does not exist at the end of the log.
    pub fn end_bulk(&mut self) -> Result<()> {
        self.end_bulk_of(true).map(drop)
    }

    /// `end_bulk` for a log that may lack records: if a record names something that does not exist, that error is
    /// returned as a value. Such an index is only for reading.
    ///
    /// # Errors
    /// As `apply`.
    pub fn end_salvage(&mut self) -> Result<Option<Error>> {
        self.end_bulk_of(false)
    }

    fn end_bulk_of(&mut self, strict: bool) -> Result<Option<Error>> {
        let Some(bulk) = self.bulk.take() else { return Ok(None) };
        if self.failed {
            return Err(failure("the index stopped after a failed apply").into());
        }
        let Self { database, conn, changes, completed, .. } = self;
        let mut missing = None;
        let ended = with(database, conn.as_ref(), |conn| {
            if bulk.marked {
                if bulk.pending == 0 {
                    conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
                }
                let outcome = Apply { conn, changes, completed }.finish(strict);
                if outcome.is_err() && !conn.is_autocommit() {
                    conn.execute_batch("ROLLBACK")?;
                }
                missing = outcome?;
            }
            changes.counters.rebuild = None;
            schema::restore_cache(conn)
        });
        self.failed |= ended.is_err();
        ended?;
        self.checkpoint_bulk()?;
        Ok(missing)
    }

    /// Without this, the WAL would grow to the size of the index during a rebuild, and page lookups in it would be
    /// slow.
    fn checkpoint_bulk(&self) -> Result<()> {
        self.database.checkpoint().map(drop)
    }
}

struct Apply<'w> {
    conn: &'w Connection,
    changes: &'w mut Changes,
    completed: &'w mut u64,
}

impl Apply<'_> {
    fn apply_all(&mut self, records: &[Applied<'_>], position: &[u8]) -> error::Result<()> {
        let mut versions = VersionWriter::new(self.conn)?;
        for applied in records {
            self.apply_one(&mut versions, applied)?;
            if self.changes.is_full() {
                self.changes.write_references(self.conn)?;
            }
        }
        let mut set = self.conn.prepare_cached("INSERT OR REPLACE INTO meta (name, value) VALUES ('position', ?1)")?;
        set.execute([position])?;
        Ok(())
    }

    fn apply_one(&mut self, versions: &mut VersionWriter<'_>, applied: &Applied<'_>) -> error::Result<()> {
        let (conn, sequence) = (self.conn, applied.sequence);
        match applied.record {
            Record::CreateBucket(bucket) => buckets::create(conn, applied, bucket),
            Record::UpdateBucket(bucket) if self.is_gone(bucket.id)? => Ok(()),
            Record::UpdateBucket(bucket) if bucket.role != BucketRole::Bucket => {
                buckets::make_layer(conn, self.changes, applied, bucket)
            }
            Record::UpdateBucket(bucket) if self.is_salvage() => buckets::replace(conn, applied, bucket),
            Record::UpdateBucket(bucket) => buckets::update(conn, applied, bucket),
            Record::DeleteBucket { bucket } if self.is_gone(*bucket)? => Ok(()),
            Record::DeleteBucket { bucket } => {
                if self.is_salvage() {
                    versions.clear(self.changes, *bucket)?;
                }
                buckets::delete(conn, self.changes, *bucket)
            }
            Record::PutDocument { bucket, .. } if self.is_gone(*bucket)? => Ok(()),
            Record::PutDocument { bucket, kind, .. } => {
                self.changes.counters.buckets.of(conn, stored_int(bucket.0)?)?;
                documents::put(conn, applied, *bucket, *kind)
            }
            Record::CreatePack { pack } => packs::create(conn, &mut self.changes.counters.rebuild, sequence, *pack),
            Record::Content { .. } | Record::Chunk { .. } => self.blob(applied),
            Record::Segment { .. } => blobs::put_segment(conn, sequence, applied.payload),
            Record::PutVersion(version) => self.put(versions, applied, version),
            Record::DeleteVersion { bucket, .. } if self.is_gone(*bucket)? => Ok(()),
            Record::DeleteVersion { bucket, key, version_id } => {
                versions.delete(self.changes, *bucket, key, *version_id)
            }
            Record::UpdateVersion { version, attributes, .. } => {
                versions.update(self.changes, applied, *version, attributes)
            }
            Record::MoveVersion { from_bucket, from_key, version } => {
                if !self.is_gone(*from_bucket)? {
                    versions.delete(self.changes, *from_bucket, from_key, version.version_id)?;
                }
                self.put(versions, applied, version)
            }
            Record::CreateUpload(upload) if self.is_gone(upload.bucket)? => Ok(()),
            Record::CreateUpload(upload) => {
                self.changes.counters.buckets.of(conn, stored_int(upload.bucket.0)?)?;
                uploads::create(conn, applied, upload)
            }
            Record::PutPart(part) => uploads::put_part(conn, self.changes, applied, part),
            Record::AbortUpload { upload } => uploads::delete(conn, self.changes, *upload),
            Record::CompleteUpload { upload, request, version } => {
                // The version's references to the parts' blobs are added before those of the parts are removed.
                self.put(versions, applied, version)?;
                self.end_upload(&NewCompletedUpload {
                    sequence,
                    upload: *upload,
                    request,
                    bucket: version.bucket,
                    key: &version.key,
                    version_id: version.version_id,
                    etag: version.etag,
                    checksum: version.checksum.as_ref(),
                })
            }
            Record::RememberUpload { upload, request, bucket, key, version_id, etag, checksum } => {
                self.end_upload(&NewCompletedUpload {
                    sequence,
                    upload: *upload,
                    request,
                    bucket: *bucket,
                    key,
                    version_id: *version_id,
                    etag: *etag,
                    checksum: checksum.as_ref(),
                })
            }
            Record::CondemnBlobs { blobs } => reclaim::condemn(conn, self.changes, blobs),
            Record::MoveChunks { moves } => reclaim::move_chunks(conn, self.changes, moves),
            Record::RetirePack { pack } => reclaim::retire_pack(conn, self.changes, *pack),
            Record::MoveContents { moves, .. } => reclaim::move_contents(conn, self.changes, moves),
            Record::ReplaceLog { file, first, last } => {
                reclaim::replace_log(conn, self.changes, *file, (*first, *last))
            }
        }
    }

    fn is_salvage(&self) -> bool {
        self.changes.counters.rebuild.as_ref().is_some_and(|rebuild| rebuild.salvage)
    }

    /// Whether this is a rebuild and the bucket does not exist: then records about it are ignored.
    fn is_gone(&mut self, bucket: BucketId) -> error::Result<bool> {
        if self.changes.counters.rebuild.is_none() {
            return Ok(false);
        }
        Ok(self.changes.counters.buckets.find(self.conn, stored_int(bucket.0)?)?.is_none())
    }

    fn blob(&mut self, applied: &Applied<'_>) -> error::Result<()> {
        let (location, fingerprint, shared, prefix_hash, seal) = match applied.record {
            Record::Content { fingerprint, shared, seal, .. } => {
                let location = applied.location.ok_or_else(|| failure("a content comes without its place"))?;
                (location, fingerprint, *shared, short_hash(&fingerprint.0), *seal)
            }
            Record::Chunk { fingerprint, shared, prefix_hash, at, length, seal } => {
                (BlobLocation::Pack { at: *at, length: *length }, fingerprint, *shared, *prefix_hash, *seal)
            }
            _ => return Err(failure("a record brings no blob")),
        };
        let dedup = shared.then_some(blobs::DedupKey { fingerprint: *fingerprint, prefix_hash });
        let keys = blobs::BlobKeys { dedup, seal };
        self.changes.add_blob(stored_int(applied.sequence)?, StoredLocation::new(location)?, keys)
    }

    fn put(&mut self, versions: &mut VersionWriter<'_>, applied: &Applied<'_>, version: &Version) -> error::Result<()> {
        if self.is_gone(version.bucket)? { Ok(()) } else { versions.put(self.changes, applied, version) }
    }

    fn end_upload(&mut self, completed: &NewCompletedUpload<'_>) -> error::Result<()> {
        uploads::delete(self.conn, self.changes, completed.upload)?;
        uploads::insert_completed(self.conn, self.completed, completed)
    }

    fn commit(&mut self) -> error::Result<()> {
        self.changes.write(self.conn)?;
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    /// Checks that everything that a record names exists.
    ///
    /// # Errors
    /// `Index` with the first thing that is missing.
    fn verify(&self, rebuild: &rebuild::Rebuild) -> error::Result<()> {
        rebuild.verify()?;
        reclaim::verify_log_files(self.conn)
    }

    /// The last transaction of a rebuild.
    fn finish(&mut self, strict: bool) -> error::Result<Option<Error>> {
        self.changes.write(self.conn)?;
        references::drop_unheld_segments(self.conn)?;
        let rebuild = self.changes.counters.rebuild.as_ref();
        let missing = rebuild.and_then(|rebuild| self.verify(rebuild).err()).map(Error::from);
        if let (Some(error), true) = (&missing, strict) {
            return Err(error.clone().into());
        }
        rebuild::unmark(self.conn)?;
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        Ok(missing)
    }
}
