//! Records that have a sequence and are not in the index yet. The committer keeps one overlay for the records of a
//! batch that is not published; the published one is read by everybody. Newer entries replace older ones; trimming
//! removes an entry only if the record that made it is the one that was applied.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashMap};
use std::ops::Bound;
use std::sync::Arc;

use bytes::Bytes;

use super::blob_references::BlobReferences;
use super::key_changes::{Change, KeyChanges};
use crate::buckets::BucketTable;
use orcas_decide::Completed;
use orcas_record::{
    BlobLocation, BucketId, Extent, Fingerprint, Object, PackId, Part, Record, Seal, Sequence, Upload, UploadId,
    Version, VersionId, Versioning,
};

/// The location of the bytes of a blob, and how they are opened if they are sealed.
#[derive(Clone, Debug)]
pub struct BlobPlace {
    pub bytes: StoredBytes,
    pub seal: Option<Box<Seal>>,
}

#[derive(Clone, Debug)]
pub enum StoredBytes {
    Memory(Bytes),
    At(BlobLocation),
}

impl StoredBytes {
    pub fn length(&self) -> u32 {
        match self {
            Self::Memory(bytes) => bytes.len() as u32,
            Self::At(location) => location.length(),
        }
    }
}

impl BlobPlace {
    pub fn new(bytes: StoredBytes, seal: Option<Seal>) -> Self {
        Self { bytes, seal: seal.map(Box::new) }
    }

    pub fn at((location, seal): (BlobLocation, Option<Seal>)) -> Self {
        Self::new(StoredBytes::At(location), seal)
    }
}

type Keys = BTreeMap<Bytes, KeyChanges>;

#[derive(Default)]
pub struct Overlay {
    keys: HashMap<BucketId, Keys>,
    blobs: HashMap<Sequence, BlobPlace>,
    segments: HashMap<Sequence, Arc<[Extent]>>,
    uploads: HashMap<UploadId, Change<Arc<Upload>>>,
    parts: BTreeMap<(UploadId, u16), Change<Arc<Part>>>,
    completed: HashMap<UploadId, Change<Completed>>,
    references: BlobReferences,
    /// Everything up to here may have left, and is in the index.
    trimmed: Sequence,
    /// Prefixes that were moved since the store was opened.
    moves: u64,
    /// Times that versions were moved from a layer to another one since then, or put into theirs again.
    merges: u64,
}

impl Overlay {
    /// How many keys have changes here.
    pub fn keys(&self) -> u64 {
        self.keys.values().map(|keys| keys.len() as u64).sum()
    }

    /// `buckets` are those after the record or later ones.
    pub fn insert(&mut self, sequence: Sequence, record: &Record, buckets: &BucketTable) {
        self.insert_decided(sequence, record, buckets, None);
    }

    /// As `insert`, of a record that is in `decided` as well: a version is kept once for both.
    pub fn insert_decided(
        &mut self,
        sequence: Sequence,
        record: &Record,
        buckets: &BucketTable,
        decided: Option<&Self>,
    ) {
        self.references.insert(sequence, record);
        match record {
            // Buckets and packs have tables of their own, complete in memory.
            Record::CreateBucket(_)
            | Record::UpdateBucket(_)
            | Record::PutDocument { .. }
            | Record::DeleteBucket { .. }
            | Record::CreatePack { .. }
            | Record::RememberUpload { .. }
            | Record::CondemnBlobs { .. }
            | Record::MoveChunks { .. }
            | Record::RetirePack { .. }
            | Record::MoveContents { .. }
            | Record::ReplaceLog { .. } => {}
            Record::Content { bytes, seal, .. } => {
                self.blobs.insert(sequence, BlobPlace::new(StoredBytes::Memory(bytes.clone()), *seal));
            }
            Record::Chunk { at, length, seal, .. } => {
                let location = BlobLocation::Pack { at: *at, length: *length };
                self.blobs.insert(sequence, BlobPlace::at((location, *seal)));
            }
            Record::Segment { extents } => {
                self.segments.insert(sequence, extents.as_slice().into());
            }
            Record::PutVersion(version) => self.put(sequence, version, decided),
            Record::DeleteVersion { bucket, key, version_id } => {
                self.end(sequence, (*bucket, key, *version_id), buckets)
            }
            Record::MoveVersion { from_bucket, from_key, version } => {
                self.end(sequence, (*from_bucket, from_key, version.version_id), buckets);
                self.put(sequence, version, decided);
            }
            Record::UpdateVersion { bucket, key, version_id, version, attributes } => {
                let recent = self.keys.entry(*bucket).or_default().entry(key.clone());
                let recent = recent.or_insert_with(|| KeyChanges::Several(Box::default()));
                recent.update(sequence, *version_id, *version, attributes);
            }
            Record::CreateUpload(upload) => {
                self.uploads.insert(upload.id, Change { sequence, value: Some(Arc::new(upload.clone())) });
            }
            Record::PutPart(part) => {
                let value = Some(Arc::new(part.clone()));
                self.parts.insert((part.upload, part.number), Change { sequence, value });
            }
            Record::AbortUpload { upload } => self.close_upload(sequence, *upload),
            Record::CompleteUpload { upload, request, version } => {
                self.close_upload(sequence, *upload);
                let completed = Completed {
                    request: *request,
                    bucket: version.bucket,
                    key: version.key.clone(),
                    version_id: version.version_id,
                    etag: version.etag,
                    checksum: version.checksum,
                };
                self.completed.insert(*upload, Change { sequence, value: Some(completed) });
                self.put(sequence, version, decided);
            }
        }
    }

    fn put(&mut self, sequence: Sequence, version: &Version, decided: Option<&Self>) {
        let object = decided
            .and_then(|decided| decided.key_changes(version.bucket, &version.key)?.brought_by(sequence).cloned())
            .unwrap_or_else(|| Arc::new(Object { sequence, version: version.clone() }));
        match self.keys.entry(version.bucket).or_default().entry(version.key.clone()) {
            Entry::Occupied(recent) => recent.into_mut().put(object),
            Entry::Vacant(empty) => drop(empty.insert(KeyChanges::Single(Change { sequence, value: Some(object) }))),
        }
    }

    fn end(&mut self, sequence: Sequence, (bucket, key, id): (BucketId, &Bytes, VersionId), buckets: &BucketTable) {
        let only = buckets.by_id(bucket).is_none_or(|bucket| bucket.versioning == Versioning::Unversioned);
        let keys = self.keys.entry(bucket).or_default();
        if only {
            keys.insert(key.clone(), KeyChanges::Single(Change { sequence, value: None }));
        } else {
            keys.entry(key.clone()).or_insert_with(|| KeyChanges::Several(Box::default())).end(sequence, id);
        }
    }

    /// Parts need no entries of their own: nothing asks for the parts of an upload that is gone.
    fn close_upload(&mut self, sequence: Sequence, upload: UploadId) {
        self.uploads.insert(upload, Change { sequence, value: None });
        let parts: Vec<_> = self.parts.range((upload, 0)..=(upload, u16::MAX)).map(|(at, _)| *at).collect();
        for at in parts {
            self.parts.remove(&at);
        }
    }

    /// Removes what `record` put here, unless something newer has replaced it.
    pub fn trim(&mut self, sequence: Sequence, record: &Record) {
        self.trimmed = self.trimmed.max(sequence);
        self.references.trim(sequence, record);
        match record {
            Record::CreateBucket(_)
            | Record::UpdateBucket(_)
            | Record::PutDocument { .. }
            | Record::CreatePack { .. }
            | Record::RememberUpload { .. }
            | Record::CondemnBlobs { .. }
            | Record::MoveChunks { .. }
            | Record::RetirePack { .. }
            | Record::MoveContents { .. }
            | Record::ReplaceLog { .. } => {}
            Record::DeleteBucket { bucket } => {
                self.keys.remove(bucket);
            }
            Record::Content { .. } | Record::Chunk { .. } => {
                self.blobs.remove(&sequence);
            }
            Record::Segment { .. } => {
                self.segments.remove(&sequence);
            }
            Record::PutVersion(version) => self.trim_version(sequence, version),
            Record::DeleteVersion { bucket, key, version_id }
            | Record::UpdateVersion { bucket, key, version_id, .. } => {
                self.trim_key(sequence, *bucket, key, *version_id);
            }
            Record::MoveVersion { from_bucket, from_key, version } => {
                self.trim_key(sequence, *from_bucket, from_key, version.version_id);
                self.trim_version(sequence, version);
            }
            Record::CreateUpload(upload) => self.trim_upload(sequence, upload.id),
            Record::AbortUpload { upload } => self.trim_upload(sequence, *upload),
            Record::PutPart(part) => {
                let at = (part.upload, part.number);
                if self.parts.get(&at).is_some_and(|change| change.sequence == sequence) {
                    self.parts.remove(&at);
                }
            }
            Record::CompleteUpload { upload, version, .. } => {
                self.trim_upload(sequence, *upload);
                self.completed.remove(upload);
                self.trim_version(sequence, version);
            }
        }
    }

    fn trim_version(&mut self, sequence: Sequence, version: &Version) {
        self.trim_key(sequence, version.bucket, &version.key, version.version_id);
    }

    fn trim_key(&mut self, sequence: Sequence, bucket: BucketId, key: &[u8], id: VersionId) {
        let Some(keys) = self.keys.get_mut(&bucket) else { return };
        if keys.get_mut(key).is_some_and(|recent| recent.trim(sequence, id)) {
            keys.remove(key);
            if keys.is_empty() {
                self.keys.remove(&bucket);
            }
        }
    }

    fn trim_upload(&mut self, sequence: Sequence, upload: UploadId) {
        if self.uploads.get(&upload).is_some_and(|change| change.sequence == sequence) {
            self.uploads.remove(&upload);
        }
    }

    pub fn clear(&mut self) {
        let Self { trimmed, moves, merges, .. } = *self;
        *self = Self { trimmed, moves, merges, ..Self::default() };
    }

    /// The records of a moved prefix were inserted.
    pub fn note_move(&mut self) {
        self.moves += 1;
    }

    /// Versions that were moved from a layer to another one, or put into theirs again, were inserted.
    pub fn note_merge(&mut self) {
        self.merges += 1;
    }

    pub fn merges(&self) -> u64 {
        self.merges
    }

    /// Whether a page that is read in pieces may go on: its read transaction sees everything up to `applied`, and
    /// `moves` is what an earlier piece set. A page shows all of a moved prefix where it was or where it is.
    pub fn may_go_on(&self, applied: Sequence, moves: &mut Option<u64>) -> bool {
        self.trimmed <= applied && *moves.get_or_insert(self.moves) == self.moves
    }

    pub fn trimmed(&self) -> Sequence {
        self.trimmed
    }

    /// The changes of a key; `None` when no record here is about a version of it.
    pub fn key_changes(&self, bucket: BucketId, key: &[u8]) -> Option<&KeyChanges> {
        self.keys.get(&bucket)?.get(key)
    }

    pub fn blob(&self, blob: Sequence) -> Option<&BlobPlace> {
        self.blobs.get(&blob)
    }

    /// The newest shared blob with this fingerprint that a record here brings, and its length; perhaps condemned.
    pub fn shared_blob(&self, fingerprint: &Fingerprint) -> Option<(Sequence, u32)> {
        self.references.shared_blob(fingerprint)
    }

    /// The prefix hashes of all shared blobs that records here bring.
    pub fn shared_prefix_hashes(&self) -> impl Iterator<Item = u64> {
        self.references.shared_prefix_hashes()
    }

    /// Whether a record here condemns the blob.
    pub fn is_condemned(&self, blob: Sequence) -> bool {
        self.references.is_condemned(blob)
    }

    /// Whether a record here brings the blob or names it. Whoever also asks the index for its references asks here
    /// first: what leaves this meanwhile is counted there by then.
    pub fn mentions(&self, blob: Sequence) -> bool {
        self.references.mentions(blob)
    }

    /// Whether a record here places a chunk in the pack.
    pub fn pack_in_use(&self, pack: PackId) -> bool {
        self.references.pack_in_use(pack)
    }

    /// The bucket and key of the newest version with this SHA-256 that a record here brings. It may have been replaced
    /// since.
    pub fn with_sha256(&self, sha256: &[u8; 32]) -> Option<(BucketId, &Bytes)> {
        self.references.with_sha256(sha256)
    }

    pub fn segment(&self, segment: Sequence) -> Option<&Arc<[Extent]>> {
        self.segments.get(&segment)
    }

    pub fn upload(&self, id: UploadId) -> Option<&Change<Arc<Upload>>> {
        self.uploads.get(&id)
    }

    pub fn uploads(&self, bucket: BucketId) -> impl Iterator<Item = (UploadId, &Change<Arc<Upload>>)> {
        let of_bucket = move |upload: &Arc<Upload>| upload.bucket == bucket;
        self.uploads
            .iter()
            .filter(move |(_, change)| change.value.as_ref().is_none_or(of_bucket))
            .map(|(id, change)| (*id, change))
    }

    /// Parts of an upload with numbers above `after`, ascending.
    pub fn parts(&self, upload: UploadId, after: u16) -> impl Iterator<Item = &Arc<Part>> {
        let from = (Bound::Excluded((upload, after)), Bound::Included((upload, u16::MAX)));
        self.parts.range(from).filter_map(|(_, change)| change.value.as_ref())
    }

    pub fn completed(&self, upload: UploadId) -> Option<&Completed> {
        self.completed.get(&upload)?.value.as_ref()
    }

    /// Changed keys of a bucket from `from` (or after it), in byte order.
    pub fn range(&self, bucket: BucketId, from: Bound<&[u8]>) -> impl Iterator<Item = (&Bytes, &KeyChanges)> {
        self.keys.get(&bucket).into_iter().flat_map(move |keys| keys.range::<[u8], _>((from, Bound::Unbounded)))
    }

    /// Whether records here have brought versions into the bucket that are still there, delete markers included.
    pub fn has_versions(&self, bucket: BucketId) -> bool {
        self.keys.get(&bucket).is_some_and(|keys| keys.values().any(|recent| recent.live().next().is_some()))
    }
}

/// The keys whose object a record changes.
pub fn keys_of(record: &Record) -> impl Iterator<Item = (BucketId, &Bytes)> {
    let (first, second) = match record {
        Record::PutVersion(version) | Record::CompleteUpload { version, .. } => {
            (Some((version.bucket, &version.key)), None)
        }
        Record::DeleteVersion { bucket, key, .. } | Record::UpdateVersion { bucket, key, .. } => {
            (Some((*bucket, key)), None)
        }
        Record::MoveVersion { from_bucket, from_key, version } => {
            (Some((*from_bucket, from_key)), Some((version.bucket, &version.key)))
        }
        Record::CreateBucket(_)
        | Record::UpdateBucket(_)
        | Record::PutDocument { .. }
        | Record::RememberUpload { .. }
        | Record::CondemnBlobs { .. }
        | Record::MoveChunks { .. }
        | Record::RetirePack { .. }
        | Record::MoveContents { .. }
        | Record::ReplaceLog { .. }
        | Record::DeleteBucket { .. }
        | Record::CreatePack { .. }
        | Record::Content { .. }
        | Record::Chunk { .. }
        | Record::Segment { .. }
        | Record::CreateUpload(_)
        | Record::PutPart(_)
        | Record::AbortUpload { .. } => (None, None),
    };
    first.into_iter().chain(second)
}
