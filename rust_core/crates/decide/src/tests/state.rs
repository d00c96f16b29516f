//! The state that decisions are tested on.

use std::cell::Cell;
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use bytes::Bytes;

use super::{BUCKET, create_bucket};
use crate::*;
use orcas_base::error::{Error, Result};
use orcas_record::{
    Bucket, BucketId, BucketRole, DocumentKind, Extent, Fingerprint, Object, Part, Record, Sequence, Upload, UploadId,
    Version, VersionId,
};

/// The time of decisions that are given none.
pub const NOW_MS: u64 = 1_700_000_000_000;

/// Applies what is decided, as the overlay would.
#[derive(Default)]
pub struct TestView {
    pub buckets: HashMap<BucketId, Arc<Bucket>>,
    /// The versions of each object, the newest last.
    objects: BTreeMap<(BucketId, Bytes), Vec<Arc<Object>>>,
    documents: HashMap<(BucketId, DocumentKind), Bytes>,
    pub segments: HashMap<Sequence, Arc<[Extent]>>,
    pub uploads: HashMap<UploadId, Arc<Upload>>,
    pub parts: BTreeMap<(UploadId, u16), Arc<Part>>,
    pub completed: HashMap<UploadId, Completed>,
    pub shared: HashMap<Fingerprint, (Sequence, u32)>,
    /// The digests of requests by their tokens.
    pub requests: HashMap<[u8; 32], [u8; 32]>,
    pub updates: u64,
    /// How often the newest version of a layer was looked for.
    pub newest_asked: Cell<usize>,
    pub sequence: Sequence,
}

impl View for TestView {
    fn bucket(&self, id: BucketId) -> Option<Arc<Bucket>> {
        self.buckets.get(&id).cloned()
    }
    fn bucket_by_name(&self, name: &[u8]) -> Option<Arc<Bucket>> {
        self.of_role(BucketRole::Bucket).find(|bucket| bucket.name == name).cloned()
    }
    fn bucket_count(&self) -> usize {
        self.of_role(BucketRole::Bucket).count()
    }
    fn snapshot(&self, name: &[u8]) -> Option<Arc<Bucket>> {
        self.of_role(BucketRole::Snapshot).find(|bucket| bucket.name == name).cloned()
    }
    fn snapshot_count(&self) -> usize {
        self.of_role(BucketRole::Snapshot).count()
    }
    fn has_snapshots(&self, bucket: &Bucket) -> bool {
        let begin = snapshot_name(&bucket.name, b"");
        self.of_role(BucketRole::Snapshot).any(|snapshot| snapshot.name.starts_with(&begin))
    }
    fn is_named_beside(&self, layer: BucketId, by: BucketId) -> bool {
        self.buckets.values().any(|bucket| bucket.id != by && bucket.layers.contains(&layer))
    }
    fn shows_nothing(&self, bucket: &Bucket) -> Result<bool> {
        let mut keys = self.objects.keys().filter(|(layer, _)| bucket.layers.contains(layer)).map(|(_, key)| key);
        Ok(keys.all(|key| crate::buckets::layers::newest(self, bucket, key).expect("a map").is_none()))
    }
    fn document(&self, bucket: BucketId, kind: DocumentKind) -> Option<Bytes> {
        self.documents.get(&(bucket, kind)).cloned()
    }
    fn documents_len(&self) -> usize {
        self.documents.values().map(Bytes::len).sum()
    }
    fn bucket_is_empty(&self, id: BucketId) -> Result<bool> {
        Ok(!self.objects.iter().any(|((bucket, _), versions)| *bucket == id && !versions.is_empty()))
    }
    fn layer_object(&self, bucket: BucketId, key: &[u8]) -> Result<Option<Arc<Object>>> {
        Ok(self.layer_newest(bucket, key, Sequence::MAX)?.filter(|object| !object.version.delete_marker))
    }
    fn layer_version(&self, bucket: BucketId, key: &[u8], id: VersionId) -> Result<Option<Arc<Object>>> {
        Ok(self.versions(bucket, key).find(|object| object.version.version_id == id).cloned())
    }
    fn layer_newest(&self, bucket: BucketId, key: &[u8], before: Sequence) -> Result<Option<Arc<Object>>> {
        self.newest_asked.set(self.newest_asked.get() + 1);
        Ok(self.versions(bucket, key).rfind(|object| object.sequence < before).cloned())
    }
    fn pass_hidden_in(&self, _: &[BucketId], _: BucketId, _: &[u8], hidden: Sequence) -> Result<Sequence> {
        Ok(hidden)
    }
    fn segment(&self, segment: Sequence) -> Result<Arc<[Extent]>> {
        self.segments.get(&segment).cloned().ok_or(Error::Record { reason: "no such segment" })
    }
    fn shared_blob(
        &self,
        fingerprint: &Fingerprint,
        length: u32,
        _prefix_hash: Option<u64>,
    ) -> Result<Option<Sequence>> {
        Ok(self.shared.get(fingerprint).filter(|(_, found)| *found == length).map(|(blob, _)| *blob))
    }
    fn upload(&self, id: UploadId) -> Result<Option<Arc<Upload>>> {
        Ok(self.uploads.get(&id).cloned())
    }
    fn parts(&self, id: UploadId) -> Result<BTreeMap<u16, Arc<Part>>> {
        Ok(self.parts.range((id, 0)..=(id, u16::MAX)).map(|((_, number), part)| (*number, part.clone())).collect())
    }
    fn each_object(
        &self,
        bucket: BucketId,
        prefix: &[u8],
        visit: &mut dyn FnMut(&[u8], Sequence) -> bool,
    ) -> Result<bool> {
        let live = self
            .objects
            .iter()
            .filter(|((of, key), versions)| *of == bucket && key.starts_with(prefix) && !versions.is_empty());
        let mut live = live.filter_map(|((_, key), versions)| Some((key, versions.last()?.sequence)));
        Ok(live.all(|(key, sequence)| visit(key, sequence)))
    }
    fn updates(&self) -> u64 {
        self.updates
    }
    fn request_of(&self, token: &[u8; 32]) -> Option<[u8; 32]> {
        self.requests.get(token).copied()
    }
    fn completed(&self, id: UploadId) -> Result<Option<Completed>> {
        Ok(self.completed.get(&id).cloned())
    }
}

impl TestView {
    fn of_role(&self, role: BucketRole) -> impl Iterator<Item = &Arc<Bucket>> {
        self.buckets.values().filter(move |bucket| bucket.role == role)
    }

    pub fn with_bucket() -> Self {
        let mut state = Self::default();
        state.run(create_bucket("photos")).unwrap();
        state
    }

    /// What the view shows of an object, the newest last.
    pub fn versions(&self, bucket: BucketId, key: &[u8]) -> impl DoubleEndedIterator<Item = &Arc<Object>> {
        self.objects.get(&(bucket, Bytes::copy_from_slice(key))).into_iter().flatten()
    }

    /// How many objects have versions.
    pub fn keys(&self) -> usize {
        self.objects.values().filter(|versions| !versions.is_empty()).count()
    }

    pub fn run(&mut self, intent: Intent) -> Result<Outcome, Failure> {
        self.run_at(NOW_MS, intent)
    }

    pub fn run_at(&mut self, now_ms: u64, intent: Intent) -> Result<Outcome, Failure> {
        let upload_id = UploadId([self.sequence as u8; 16]);
        let context = Context { now_ms, next_sequence: self.sequence + 1, upload_id, version_key: [7; 32] };
        let decision = decide(self, &context, intent)?;
        for record in decision.records {
            self.sequence += 1;
            self.apply(record);
        }
        Ok(decision.outcome)
    }

    pub fn apply(&mut self, record: Record) {
        let sequence = self.sequence;
        match record {
            Record::CreateBucket(bucket) | Record::UpdateBucket(bucket) => {
                drop(self.buckets.insert(bucket.id, Arc::new(bucket)));
            }
            Record::Content { fingerprint, shared: true, bytes, .. } => {
                self.shared.insert(fingerprint, (sequence, bytes.len() as u32));
            }
            Record::Chunk { fingerprint, shared: true, length, .. } => {
                self.shared.insert(fingerprint, (sequence, length));
            }
            Record::DeleteBucket { bucket } => drop(self.buckets.remove(&bucket)),
            Record::PutDocument { bucket, kind, document } => drop(self.documents.insert((bucket, kind), document)),
            Record::Segment { extents } => drop(self.segments.insert(sequence, extents.into())),
            Record::PutVersion(version) => self.put(version),
            Record::DeleteVersion { bucket, key, version_id } => {
                assert!(self.remove(bucket, &key, version_id), "only what is there is deleted");
            }
            Record::MoveVersion { from_bucket, from_key, version } => {
                self.remove(from_bucket, &from_key, VersionId::Null);
                self.put(version);
            }
            Record::UpdateVersion { bucket, key, version_id, version, attributes } => {
                let versions = self.objects.get_mut(&(bucket, key)).expect("an object");
                let found =
                    versions.iter_mut().find(|object| object.version.version_id == version_id).expect("a version");
                assert_eq!(found.sequence, version);
                Arc::make_mut(found).version.attributes = attributes;
                self.updates += 1;
            }
            Record::CreateUpload(upload) => drop(self.uploads.insert(upload.id, Arc::new(upload))),
            Record::PutPart(part) => drop(self.parts.insert((part.upload, part.number), Arc::new(part))),
            Record::AbortUpload { upload } => drop(self.uploads.remove(&upload)),
            Record::CompleteUpload { upload, request, version } => {
                self.uploads.remove(&upload);
                let (bucket, key, version_id) = (version.bucket, version.key.clone(), version.version_id);
                let (etag, checksum) = (version.etag, version.checksum);
                self.completed.insert(upload, Completed { request, bucket, key, version_id, etag, checksum });
                self.put(version);
            }
            // What decisions never ask about.
            _ => {}
        }
    }

    fn put(&mut self, version: Version) {
        let (bucket, key) = (version.bucket, version.key.clone());
        self.remove(bucket, &key, version.version_id);
        let object = Object { sequence: self.sequence, version };
        self.objects.entry((bucket, key)).or_default().push(Arc::new(object));
    }

    fn remove(&mut self, bucket: BucketId, key: &Bytes, id: VersionId) -> bool {
        let versions = self.objects.entry((bucket, key.clone())).or_default();
        let before = versions.len();
        versions.retain(|object| object.version.version_id != id);
        versions.len() < before
    }

    /// The newest version of an object.
    pub fn version(&self, key: &'static str) -> Version {
        self.versions(BUCKET, key.as_bytes()).last().expect("a version").version.clone()
    }
}
