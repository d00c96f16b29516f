//! Readers and read transactions: a connection from the pool, with every read of the index as a method. The queries are
//! in the files of their tables (`heads`, `versions`, `blobs`, `uploads`, `buckets`).

use std::cell::{Ref, RefCell};
use std::collections::HashMap;
use std::ops::{Bound, Deref};

use bytes::Bytes;
use parking_lot::ReentrantMutexGuard;
use rusqlite::{Connection, OptionalExtension};

use super::error::{self, failure};
use super::files::{Pool, Pooled};
use super::records::Stored;
use super::tables::heads::{self, ListedRow};
use super::tables::history::{self, VersionFrom, VersionRow};
use super::tables::packs::{self, PackUsage, PackedBlob};
use super::tables::uploads::{self, Completed, PartRow, UploadFrom, UploadRow};
use super::tables::{blobs, buckets, digests, documents, loaded_int, stored_int, versions};
use super::writer::counters::{self, Totals};
use super::writer::reclaim::{self, LogFileRow, LogUsage};
use super::writer::{Counts, all_counts};
use orcas_base::error::{Error, Result};
use orcas_record::placement::codec;
use orcas_record::{
    BlobLocation, BucketId, ChunkLocation, DocumentKind, Fingerprint, PackId, Seal, Sequence, UploadId, VersionId,
};

enum ReaderConnection<'i> {
    /// `None` only while being dropped.
    Pooled(Option<Pooled>, &'i Pool),
    Shared(ReentrantMutexGuard<'i, RefCell<Connection>>),
}

enum BorrowedConnection<'r> {
    Pooled(&'r Connection),
    Shared(Ref<'r, Connection>),
}

impl Deref for BorrowedConnection<'_> {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        match self {
            Self::Pooled(conn) => conn,
            Self::Shared(conn) => conn,
        }
    }
}

/// Point reads and scans, each in a read transaction of its own; `begin` gives several reads one state.
pub struct Reader<'i> {
    lease: ReaderConnection<'i>,
}

impl Drop for Reader<'_> {
    fn drop(&mut self) {
        if let ReaderConnection::Pooled(pooled, pool) = &mut self.lease
            && let Some(pooled) = pooled.take()
        {
            pool.give_back(pooled);
        }
    }
}

impl<'i> Reader<'i> {
    pub(super) fn pooled(pooled: Pooled, pool: &'i Pool) -> Self {
        Self { lease: ReaderConnection::Pooled(Some(pooled), pool) }
    }

    pub(super) fn shared(guard: ReentrantMutexGuard<'i, RefCell<Connection>>) -> Self {
        Self { lease: ReaderConnection::Shared(guard) }
    }

    pub(super) fn with<T>(&self, run: impl FnOnce(&Connection) -> error::Result<T>) -> Result<T> {
        // The writer may commit between two reads.
        orcas_base::sync::scheduling_point();
        let lent = match &self.lease {
            ReaderConnection::Pooled(Some(pooled), _) => BorrowedConnection::Pooled(&pooled.conn),
            ReaderConnection::Pooled(None, _) => return Err(failure("the reader was given back").into()),
            ReaderConnection::Shared(guard) => BorrowedConnection::Shared(guard.borrow()),
        };
        let done = run(&lent).map_err(Error::from);
        if let (Err(error), ReaderConnection::Pooled(Some(pooled), pool)) = (&done, &self.lease) {
            pool.note(pooled, error);
        }
        done
    }

    /// Starts a read transaction: until it is dropped, every read through it sees the same state. Meanwhile checkpoints
    /// cannot empty the WAL, so it must not outlive a page of results.
    pub fn begin(&mut self) -> Result<ReadTransaction<'_, 'i>> {
        // In memory the reader itself excludes the writer.
        let is_open = matches!(self.lease, ReaderConnection::Pooled(..));
        if is_open {
            self.with(|conn| Ok(conn.prepare_cached("BEGIN")?.execute([])?))?;
        }
        let transaction = ReadTransaction { reader: self, is_open };
        // SQLite fixes the state with the first read, not with BEGIN.
        transaction.position()?;
        Ok(transaction)
    }

    /// The log position up to which records are applied.
    pub fn position(&self) -> Result<Option<Bytes>> {
        self.with(|conn| {
            let mut statement = conn.prepare_cached("SELECT value FROM meta WHERE name = 'position'")?;
            Ok(statement.query_row([], |row| Ok(Bytes::copy_from_slice(row.get_ref(0)?.as_blob()?))).optional()?)
        })
    }

    /// The current row of a key: what a listing shows of it.
    pub fn current(&self, bucket: BucketId, key: &[u8]) -> Result<Option<ListedRow<'static>>> {
        self.with(|conn| heads::current(conn, bucket, key))
    }

    /// The record of a key's current version; `None` when there is none or it is a delete marker.
    pub fn object(&self, bucket: BucketId, key: &[u8]) -> Result<Option<Stored>> {
        self.with(|conn| versions::object(conn, bucket, key))
    }

    /// The records of current versions from a key on, at most `limit`, in the order of the keys.
    pub fn objects(&self, bucket: BucketId, from: Bound<&[u8]>, limit: usize) -> Result<Vec<Stored>> {
        self.with(|conn| versions::objects(conn, bucket, from, limit))
    }

    /// The record of one version, current or not.
    pub fn version(&self, bucket: BucketId, key: &[u8], id: VersionId) -> Result<Option<Stored>> {
        self.with(|conn| versions::version(conn, bucket, key, id))
    }

    /// Whether the version with this id is a delete marker; `None` if there is none. Cheaper than its record.
    pub fn is_marker(&self, bucket: BucketId, key: &[u8], id: VersionId) -> Result<Option<bool>> {
        self.with(|conn| history::is_marker(conn, bucket, key, id))
    }

    /// Versions of a key with sequences below `below`, newest first, at most `limit` or until `visit` returns false.
    /// The cost grows with the number visited.
    pub fn versions_of_key(
        &self,
        name: (BucketId, &[u8]),
        below: Sequence,
        limit: usize,
        visit: &mut dyn FnMut(VersionRow<'_>) -> bool,
    ) -> Result<()> {
        self.with(|conn| history::of_key(conn, name, below, limit, visit))
    }

    /// Versions of a bucket in byte order of their keys, of each key the newest first, at most `limit` or until `visit`
    /// returns false. The cost grows with the number visited.
    pub fn scan_versions(
        &self,
        bucket: BucketId,
        from: VersionFrom<'_>,
        limit: usize,
        visit: &mut dyn FnMut(VersionRow<'_>) -> bool,
    ) -> Result<()> {
        self.with(|conn| history::scan(conn, bucket, from, limit, visit))
    }

    /// Versions of a bucket in the reverse byte order of their keys, of each key the oldest first, at most `limit` or
    /// until `visit` returns false. The cost grows with the number visited.
    pub fn oldest_versions(
        &self,
        bucket: BucketId,
        limit: usize,
        visit: &mut dyn FnMut(VersionRow<'_>) -> bool,
    ) -> Result<()> {
        self.with(|conn| history::oldest(conn, bucket, limit, visit))
    }

    /// Every version of a bucket, in no particular order, until `visit` returns false.
    pub fn every_version(&self, bucket: BucketId, visit: &mut dyn FnMut(VersionRow<'_>) -> bool) -> Result<()> {
        self.with(|conn| history::every(conn, bucket, visit))
    }

    /// The version that the record `sequence` added, if it still exists.
    pub fn version_record(&self, sequence: Sequence) -> Result<Option<Stored>> {
        self.with(|conn| history::record(conn, sequence))
    }

    /// Whether the version that the record `sequence` added still exists, current or not.
    pub fn has_version(&self, sequence: Sequence) -> Result<bool> {
        self.with(|conn| versions::exists(conn, sequence))
    }

    /// How many blobs are not sealed, with references or without, and their bytes.
    ///
    /// # Errors
    /// When the rows cannot be read.
    pub fn unsealed_blobs(&self) -> Result<(u64, u64)> {
        self.with(|conn| {
            let select = "SELECT count(*), ifnull(sum(length), 0) FROM blobs WHERE seal IS NULL";
            let (blobs, bytes): (i64, i64) = conn.query_row(select, [], |row| Ok((row.get(0)?, row.get(1)?)))?;
            Ok((loaded_int(blobs)?, loaded_int(bytes)?))
        })
    }

    /// The sequence of the newest UpdateVersion record of the version that the record `version` added.
    pub fn version_updated(&self, version: Sequence) -> Result<Option<Sequence>> {
        self.with(|conn| versions::updated(conn, version))
    }

    /// Versions of at least `INSTANT_SIZE_MIN` bytes that have this SHA-256, oldest first.
    pub fn versions_by_sha256(&self, sha256: &[u8; 32], limit: usize) -> Result<Vec<Stored>> {
        self.with(|conn| digests::find(conn, sha256, limit))
    }

    /// The location of the bytes of a content or chunk.
    pub fn blob(&self, blob: Sequence) -> Result<Option<BlobLocation>> {
        self.with(|conn| blobs::blob(conn, blob))
    }

    /// The location of a blob's bytes, and how the blob is sealed, if it is.
    pub fn sealed_blob(&self, blob: Sequence) -> Result<Option<(BlobLocation, Option<Seal>)>> {
        self.with(|conn| blobs::sealed_blob(conn, blob))
    }

    /// The newest shared blob with this fingerprint, and its length in bytes. It may have no references. The newest,
    /// because an older one may have been found damaged.
    pub fn shared_blob(&self, fingerprint: &Fingerprint) -> Result<Option<(Sequence, u32)>> {
        self.with(|conn| blobs::shared(conn, fingerprint))
    }

    /// The number of references to a blob; `None` when it does not exist.
    pub fn blob_refs(&self, blob: Sequence) -> Result<Option<u64>> {
        self.with(|conn| blobs::refs(conn, blob))
    }

    /// `None` when the blob does not exist or is not shared.
    pub fn blob_fingerprint(&self, blob: Sequence) -> Result<Option<Fingerprint>> {
        self.with(|conn| blobs::fingerprint(conn, blob))
    }

    /// Blobs after `after` that have no references, ascending.
    pub fn dead_blobs(&self, after: Sequence, limit: usize) -> Result<Vec<(Sequence, BlobLocation)>> {
        self.with(|conn| blobs::dead(conn, after, limit))
    }

    /// Calls `visit` with the prefix hash of every shared blob. Reads in pages, each a transaction of its own unless in a
    /// read transaction.
    pub fn scan_prefix_hashes(&self, visit: &mut dyn FnMut(u64)) -> Result<()> {
        let mut from = Some(0);
        while let Some(after) = from {
            from = self.with(|conn| blobs::prefix_hashes_page(conn, after, visit))?;
        }
        Ok(())
    }

    /// Chunks of a pack in their order in it, from the first or the one after `after` on.
    pub fn blobs_in_pack(&self, pack: PackId, after: Option<ChunkLocation>, limit: usize) -> Result<Vec<PackedBlob>> {
        self.with(|conn| packs::blobs(conn, pack, after, limit))
    }

    /// Every pack that exists, ascending, including empty ones.
    pub fn pack_usage(&self) -> Result<Vec<PackUsage>> {
        self.with(packs::usage)
    }

    /// Location and length of content of the last chunk in a pack.
    pub fn last_chunk(&self, pack: PackId) -> Result<Option<(ChunkLocation, u32)>> {
        self.with(|conn| packs::last_chunk(conn, pack))
    }

    pub fn has_pack(&self, pack: PackId) -> Result<bool> {
        self.with(|conn| packs::exists(conn, stored_int(codec::pack_number(pack))?))
    }

    /// The pack with the highest number that any ever had, including retired ones.
    pub fn highest_pack(&self) -> Result<Option<PackId>> {
        self.with(packs::highest)
    }

    /// How many of the records `first..=last` are still needed. The cost grows with their number.
    pub fn log_usage(&self, first: Sequence, last: Sequence) -> Result<LogUsage> {
        self.with(|conn| reclaim::log_usage(conn, first, last))
    }

    /// The compacted log files in force, in the order of their records.
    pub fn log_files(&self) -> Result<Vec<LogFileRow>> {
        self.with(reclaim::log_files)
    }

    pub fn has_segment(&self, segment: Sequence) -> Result<bool> {
        self.with(|conn| blobs::has_segment(conn, stored_int(segment)?))
    }

    /// The payload of a segment record.
    pub fn segment(&self, segment: Sequence) -> Result<Option<Bytes>> {
        self.with(|conn| blobs::segment(conn, segment))
    }

    /// The packs that exist, ascending.
    pub fn packs(&self) -> Result<Vec<PackId>> {
        self.with(packs::all)
    }

    /// All buckets, in the order of their ids.
    pub fn buckets(&self) -> Result<Vec<Stored>> {
        self.with(buckets::all)
    }

    /// The PutDocument records of the documents that exist or were removed.
    pub fn documents(&self) -> Result<Vec<Stored>> {
        self.with(documents::all)
    }

    /// The sequence of the newest record of a document; `None` when the bucket never had one of this kind.
    pub fn document_sequence(&self, bucket: BucketId, kind: DocumentKind) -> Result<Option<Sequence>> {
        self.with(|conn| documents::sequence(conn, bucket, kind))
    }

    /// Exact counts of a bucket; `None` when it does not exist.
    pub fn counts(&self, bucket: BucketId) -> Result<Option<Counts>> {
        self.with(|conn| buckets::counts(conn, bucket))
    }

    /// Exact counts of all buckets, by their ids.
    pub fn all_counts(&self) -> Result<HashMap<BucketId, Counts>> {
        self.with(all_counts)
    }

    /// The sequence of a bucket's newest record; `None` when the bucket does not exist.
    pub fn bucket_sequence(&self, bucket: BucketId) -> Result<Option<Sequence>> {
        self.with(|conn| buckets::sequence(conn, bucket))
    }

    /// Exact sizes of the store.
    pub fn totals(&self) -> Result<Totals> {
        self.with(counters::totals)
    }

    /// Whether a bucket holds no version of any kind, delete markers included. Uploads do not count.
    pub fn bucket_is_empty(&self, bucket: BucketId) -> Result<bool> {
        Ok(self.counts(bucket)?.is_none_or(|counts| counts.objects == 0 && counts.history == 0))
    }

    pub fn upload(&self, upload: UploadId) -> Result<Option<Stored>> {
        self.with(|conn| uploads::upload(conn, upload))
    }

    pub fn part(&self, upload: UploadId, number: u16) -> Result<Option<PartRow>> {
        self.with(|conn| uploads::part(conn, upload, number))
    }

    /// Parts with numbers above `after`, ascending, at most `limit`.
    pub fn parts(&self, upload: UploadId, after: u16, limit: usize) -> Result<Vec<PartRow>> {
        self.with(|conn| uploads::parts(conn, upload, after, limit))
    }

    /// The answer to the request that completed an upload. Only the newest 10,000 are kept.
    pub fn completed(&self, upload: UploadId) -> Result<Option<Completed>> {
        self.with(|conn| uploads::completed(conn, upload))
    }

    /// Current rows of a bucket in byte order of their keys, from `from` (`inclusive` or after it) to before `until`,
    /// at most `limit` or until `visit` returns false. The cost grows with the number visited.
    pub fn scan_current(
        &self,
        bucket: BucketId,
        from: &[u8],
        inclusive: bool,
        until: Option<&[u8]>,
        limit: usize,
        visit: &mut dyn FnMut(ListedRow<'_>) -> bool,
    ) -> Result<()> {
        self.with(|conn| heads::scan(conn, bucket, from, inclusive, until, limit, visit))
    }

    /// Uploads of a bucket ordered by key, initiation and id, to before the key `until`, at most `limit` or until
    /// `visit` returns false.
    pub fn scan_uploads(
        &self,
        bucket: BucketId,
        from: UploadFrom<'_>,
        until: Option<&[u8]>,
        limit: usize,
        visit: &mut dyn FnMut(UploadRow<'_>) -> bool,
    ) -> Result<()> {
        self.with(|conn| uploads::scan(conn, bucket, from, until, limit, visit))
    }
}

/// One state of the index, read through the methods of `Reader`.
pub struct ReadTransaction<'r, 'i> {
    reader: &'r Reader<'i>,
    /// In SQLite, too.
    is_open: bool,
}

impl<'i> Deref for ReadTransaction<'_, 'i> {
    type Target = Reader<'i>;

    fn deref(&self) -> &Reader<'i> {
        self.reader
    }
}

impl Drop for ReadTransaction<'_, '_> {
    fn drop(&mut self) {
        if self.is_open {
            // If this fails, the pool closes the connection instead of keeping it.
            let _ = self.reader.with(|conn| Ok(conn.prepare_cached("COMMIT")?.execute([])?));
        }
    }
}
