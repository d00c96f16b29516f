//! The writer: records of durable batches in, one transaction with the position they reach to. The same records give
//! the same rows however they are grouped. A failed apply ends the writer, so that no position is ever skipped.
//! A record that does not fit the rows fails the apply; only a rebuild passes over what refers to something that log
//! compaction dropped.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use rusqlite::Connection;

use super::blobs::{self, BlobLocation, Placed};
use super::references::{self, Gathered};
use super::uploads::Answer;
use super::versions::VersionWriter;
use super::{Applied, Backing, Shared, buckets, error, failure, packs, rebuild, reclaim, schema, stored_int, uploads};
use orcas_base::error::{Error, Result};
use orcas_record::{BucketId, Record, Version, head_of};

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
    /// How often the files had been replaced when it was opened.
    generation: u64,
    gathered: Gathered,
    /// Rows in `completed_uploads`.
    answers: u64,
    bulk: Option<Bulk>,
    failed: bool,
}

struct Bulk {
    /// Records in the open transaction; there is none when 0.
    pending: usize,
    /// Records in one transaction.
    limit: usize,
    /// The index says that it is unfinished.
    marked: bool,
}

impl Drop for Writer {
    fn drop(&mut self) {
        // An open bulk transaction must not stay behind on a connection that others use.
        if self.bulk.as_ref().is_some_and(|bulk| bulk.pending > 0) {
            let undone = with(&self.shared, self.conn.as_ref(), |conn| Ok(conn.execute_batch("ROLLBACK")?));
            let _ = undone.inspect_err(|error| tracing::warn!(%error, "A transaction of the index stayed open"));
        }
        self.shared.writer_out.store(false, Ordering::Release);
    }
}

fn with<T>(shared: &Shared, own: Option<&Connection>, run: impl FnOnce(&Connection) -> error::Result<T>) -> Result<T> {
    let done = match (own, &shared.backing) {
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
    pub(super) fn new(shared: Arc<Shared>) -> Result<Self> {
        let conn = match &shared.options.path {
            Some(path) => Some(schema::open_writable(path, shared.options.synchronous_off)?),
            None => None,
        };
        let answers = with(&shared, conn.as_ref(), |conn| {
            rebuild::refuse_unfinished(conn)?;
            uploads::completed_count(conn)
        })?;
        let generation = shared.damage.generation();
        Ok(Self { shared, conn, generation, gathered: Gathered::default(), answers, bulk: None, failed: false })
    }

    /// `leaving` is told of every segment, and its record, that a transaction removes, before that commits.
    pub fn on_leaving_segments(&mut self, leaving: super::references::Leaving) {
        self.gathered.on_leaving(leaving);
    }

    /// Applies `records`, which follow what was applied before without a gap, and sets the position. Atomic.
    ///
    /// # Errors
    /// `StorageFull`: outside of a rebuild nothing has changed, and the same records may be applied again. `Index` and
    /// `IndexDamaged`: nothing has changed either, but this writer refuses everything from now on. Rebuild the index.
    pub fn apply(&mut self, records: &[Applied<'_>], position: &[u8]) -> Result<()> {
        if self.failed {
            return Err(failure("the index stopped after a failed apply").into());
        }
        let Self { shared, conn, gathered, answers, bulk, .. } = self;
        let applied = with(shared, conn.as_ref(), |conn| {
            let begun = bulk.as_ref().is_some_and(|bulk| bulk.pending > 0);
            if !begun {
                conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
            }
            let mut apply = Apply { conn, gathered, answers };
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
            let outcome = apply.all(records, position).and_then(|()| if commit { apply.commit() } else { Ok(()) });
            if outcome.is_err() && !conn.is_autocommit() {
                conn.execute_batch("ROLLBACK")?;
            }
            outcome
        });
        self.failed = applied.is_err();
        if let Err(error) = &applied {
            self.shared.damage.note(self.generation, error);
        }
        if matches!(applied, Err(Error::StorageFull)) && self.bulk.is_none() {
            self.failed = self.forget_attempt().is_err();
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

    /// Lets the database grow to so many pages, as a disk of that size would.
    #[cfg(test)]
    pub(super) fn limit_pages(&self, pages: u32) -> Result<()> {
        with(&self.shared, self.conn.as_ref(), |conn| Ok(conn.pragma_update(None, "max_page_count", pages)?))
    }

    /// Takes back in memory what a transaction did that was rolled back.
    fn forget_attempt(&mut self) -> Result<()> {
        let Self { shared, conn, gathered, answers, .. } = self;
        *gathered = Gathered::default();
        *answers = with(shared, conn.as_ref(), uploads::completed_count)?;
        Ok(())
    }

    /// Starts a rebuild, a replay of the log from its beginning into an empty index: transactions span many `apply` calls
    /// and a larger page cache is in use until `end_bulk`. Records may name what log compaction dropped. An index that a
    /// crash leaves in the middle is refused by `Index::open`; before the first transaction was written it is empty.
    pub fn begin_bulk(&mut self) -> Result<()> {
        self.begin_bulk_of(BULK_RECORDS)
    }

    /// `begin_bulk` for a log that may lack any record, to be ended by `end_salvage`. Records of buckets count whatever
    /// was there before: a name is taken over, and a bucket goes with all that is left in it.
    ///
    /// # Errors
    /// As `begin_bulk`.
    pub fn begin_salvage(&mut self) -> Result<()> {
        self.begin_bulk()?;
        if let Some(rebuild) = &mut self.gathered.ledger.rebuild {
            rebuild.salvage = true;
        }
        Ok(())
    }

    /// The same with so many records in one transaction.
    pub(super) fn begin_bulk_of(&mut self, limit: usize) -> Result<()> {
        if self.bulk.is_some() {
            return Ok(());
        }
        with(&self.shared, self.conn.as_ref(), |conn| schema::set_cache(conn, BULK_CACHE_KIB))?;
        self.gathered.ledger.rebuild = Some(rebuild::Rebuild::default());
        self.bulk = Some(Bulk { pending: 0, limit, marked: false });
        Ok(())
    }

    /// Commits what is open and goes back to one transaction an `apply`.
    ///
    /// # Errors
    /// As `apply`; `Index` too when something that is named is not there, although the log was replayed to its end.
    pub fn end_bulk(&mut self) -> Result<()> {
        self.end_bulk_of(true).map(drop)
    }

    /// `end_bulk` for a log that may lack records: what is named and is not there is returned, not refused. Such an index
    /// is for looking at only.
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
        let Self { shared, conn, gathered, answers, .. } = self;
        let mut lacking = None;
        let ended = with(shared, conn.as_ref(), |conn| {
            if bulk.marked {
                if bulk.pending == 0 {
                    conn.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
                }
                let outcome = Apply { conn, gathered, answers }.finish(strict);
                if outcome.is_err() && !conn.is_autocommit() {
                    conn.execute_batch("ROLLBACK")?;
                }
                lacking = outcome?;
            }
            gathered.ledger.rebuild = None;
            schema::restore_cache(conn)
        });
        self.failed |= ended.is_err();
        ended?;
        self.checkpoint_bulk()?;
        Ok(lacking)
    }

    /// A WAL that grows over a whole rebuild would be slow to look pages up in, and as large as the index.
    fn checkpoint_bulk(&self) -> Result<()> {
        self.shared.checkpoint().map(drop)
    }
}

struct Apply<'w> {
    conn: &'w Connection,
    gathered: &'w mut Gathered,
    answers: &'w mut u64,
}

impl Apply<'_> {
    fn all(&mut self, records: &[Applied<'_>], position: &[u8]) -> error::Result<()> {
        let mut versions = VersionWriter::new(self.conn)?;
        for applied in records {
            self.one(&mut versions, applied)?;
            if self.gathered.is_full() {
                self.gathered.write_references(self.conn)?;
            }
        }
        let mut set = self.conn.prepare_cached("INSERT OR REPLACE INTO meta (name, value) VALUES ('position', ?1)")?;
        set.execute([position])?;
        Ok(())
    }

    fn one(&mut self, versions: &mut VersionWriter<'_>, applied: &Applied<'_>) -> error::Result<()> {
        let (conn, sequence) = (self.conn, applied.sequence);
        match applied.record {
            Record::CreateBucket(bucket) => buckets::create(conn, applied, bucket),
            Record::UpdateBucket(bucket) if self.is_gone(bucket.id)? => Ok(()),
            Record::UpdateBucket(bucket) if self.is_salvage() => buckets::replace(conn, applied, bucket),
            Record::UpdateBucket(bucket) => buckets::update(conn, applied, bucket),
            Record::DeleteBucket { bucket } if self.is_gone(*bucket)? => Ok(()),
            Record::DeleteBucket { bucket } => {
                if self.is_salvage() {
                    versions.clear(self.gathered, *bucket)?;
                }
                buckets::delete(conn, self.gathered, *bucket)
            }
            Record::CreatePack { pack } => packs::create(conn, &mut self.gathered.ledger.rebuild, sequence, *pack),
            Record::Content { .. } | Record::Chunk { .. } => self.blob(applied),
            Record::Segment { .. } => blobs::put_segment(conn, sequence, applied.payload),
            Record::PutVersion(version) => self.put(versions, applied, version),
            Record::DeleteVersion { bucket, .. } if self.is_gone(*bucket)? => Ok(()),
            Record::DeleteVersion { bucket, key, version_id } => {
                versions.delete(self.gathered, *bucket, key, *version_id)
            }
            Record::MoveVersion { from_bucket, from_key, version } => {
                if !self.is_gone(*from_bucket)? {
                    versions.delete(self.gathered, *from_bucket, from_key, version.version_id)?;
                }
                self.put(versions, applied, version)
            }
            Record::CreateUpload(upload) if self.is_gone(upload.bucket)? => Ok(()),
            Record::CreateUpload(upload) => {
                self.gathered.ledger.buckets.of(conn, stored_int(upload.bucket.0)?)?;
                uploads::create(conn, applied, upload)
            }
            Record::PutPart(part) => uploads::put_part(conn, self.gathered, applied, part),
            Record::AbortUpload { upload } => uploads::delete(conn, self.gathered, *upload),
            Record::CompleteUpload { upload, request, version } => {
                // What the version takes from the parts is counted up before it is counted down.
                self.put(versions, applied, version)?;
                self.end_upload(&Answer {
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
                self.end_upload(&Answer {
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
            Record::CondemnBlobs { blobs } => reclaim::condemn(conn, self.gathered, blobs),
            Record::MoveChunks { moves } => reclaim::move_chunks(conn, self.gathered, moves),
            Record::RetirePack { pack } => reclaim::retire_pack(conn, self.gathered, *pack),
            Record::MoveContents { file, moves } => reclaim::move_contents(conn, self.gathered, *file, moves),
            Record::ReplaceLog { file, first, last } => {
                reclaim::replace_log(conn, self.gathered, *file, (*first, *last))
            }
        }
    }

    fn is_salvage(&self) -> bool {
        self.gathered.ledger.rebuild.as_ref().is_some_and(|rebuild| rebuild.salvage)
    }

    /// Whether this is a rebuild and the bucket is not there: then what a record says about it is passed over.
    fn is_gone(&mut self, bucket: BucketId) -> error::Result<bool> {
        if self.gathered.ledger.rebuild.is_none() {
            return Ok(false);
        }
        Ok(self.gathered.ledger.buckets.find(self.conn, stored_int(bucket.0)?)?.is_none())
    }

    fn blob(&mut self, applied: &Applied<'_>) -> error::Result<()> {
        let (location, fingerprint, shared, head) = match applied.record {
            Record::Content { fingerprint, shared, .. } => {
                let location = applied.location.ok_or_else(|| failure("a content comes without its place"))?;
                (location, fingerprint, *shared, head_of(&fingerprint.0))
            }
            Record::Chunk { fingerprint, shared, head, pack, offset, length } => {
                (BlobLocation::Pack { pack: *pack, offset: *offset, length: *length }, fingerprint, *shared, *head)
            }
            _ => return Err(failure("a record brings no blob")),
        };
        let shared = shared.then_some(blobs::Shared { fingerprint: *fingerprint, head });
        self.gathered.add_blob(stored_int(applied.sequence)?, Placed::new(location)?, shared)
    }

    fn put(&mut self, versions: &mut VersionWriter<'_>, applied: &Applied<'_>, version: &Version) -> error::Result<()> {
        if self.is_gone(version.bucket)? { Ok(()) } else { versions.put(self.gathered, applied, version) }
    }

    fn end_upload(&mut self, answer: &Answer<'_>) -> error::Result<()> {
        uploads::delete(self.conn, self.gathered, answer.upload)?;
        uploads::keep_answer(self.conn, self.answers, answer)
    }

    fn commit(&mut self) -> error::Result<()> {
        self.gathered.write(self.conn)?;
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        Ok(())
    }

    /// Whether everything that is named is there.
    ///
    /// # Errors
    /// `Index` with the first finding.
    fn verify(&self, rebuild: &rebuild::Rebuild) -> error::Result<()> {
        rebuild.finish()?;
        reclaim::verify_log_files(self.conn)
    }

    /// The last transaction of a rebuild.
    fn finish(&mut self, strict: bool) -> error::Result<Option<Error>> {
        self.gathered.write(self.conn)?;
        references::drop_unheld_segments(self.conn)?;
        let rebuild = self.gathered.ledger.rebuild.as_ref();
        let lacking = rebuild.and_then(|rebuild| self.verify(rebuild).err()).map(Error::from);
        if let (Some(error), true) = (&lacking, strict) {
            return Err(error.clone().into());
        }
        rebuild::unmark(self.conn)?;
        self.conn.prepare_cached("COMMIT")?.execute([])?;
        Ok(lacking)
    }
}
