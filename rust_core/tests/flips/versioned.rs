//! Buckets whose objects have versions: current ones and others, delete markers, null versions, tags, holds and retention,
//! each of them also changed and removed; and the documents of these buckets.

use std::num::NonZeroU8;

use bytes::Bytes;
use orcas_checksum::Md5Hasher;
use orcas_decide::{AttributeChange, BucketChange, Intent, Outcome, Precondition, PutObject, UpdateVersion};
use orcas_record::{
    Attributes, Bucket, BucketSettings, Cause, DocumentKind, RequestCause, Retention, RetentionMode, VersionId,
    Versioning,
};

use super::machine::NOW_MS;
use super::{Builder, name_of};

const DAY_MS: u64 = 86_400_000;

/// What was ever stored as one version.
#[allow(dead_code)] // Salvage asks for it; flips do not.
#[derive(Clone, Debug, Default)]
pub struct Stored {
    /// The last one is its content now. A delete marker has none.
    pub bytes: Vec<Option<Vec<u8>>>,
    /// The last ones are its attributes now.
    pub attributes: Vec<Attributes>,
    /// It was not deleted.
    pub present: bool,
}

impl Builder {
    pub(super) fn first_versions(&mut self) {
        self.cause = Cause::Request(RequestCause { operation: NonZeroU8::MIN, request: 7, principal: [9; 32] });
        let v = self.locked_bucket("v");
        for (n, length) in [40, 900, 5_000, 25_000].into_iter().enumerate() {
            let bytes = self.noise(length, 800 + n as u64);
            let id = self.put_version(&v, "doc", Some(bytes));
            self.tag(&v, "doc", id, "first");
            if n < 2 {
                self.update(&v, "doc", id, AttributeChange::LegalHold(true));
            }
        }
        let gone = self.put_version(&v, "some", Some(self.noise(700, 810)));
        let kept = self.put_version(&v, "some", Some(self.noise(800, 811)));
        self.retain(&v, "some", kept, RetentionMode::Compliance, 1);
        self.delete_version(&v, "some", gone);
        self.put_version(&v, "hidden", Some(self.noise(900, 812)));
        self.put_version(&v, "hidden", None);
        self.document(&v, DocumentKind::Cors, "<first/>");
        self.document(&v, DocumentKind::Tagging, "<tagging/>");
        self.cause = Cause::Engine;
    }

    pub(super) fn second_versions(&mut self) {
        self.cause = Cause::Request(RequestCause { operation: NonZeroU8::MIN, request: 8, principal: [9; 32] });
        let v = self.handle().bucket(b"v").unwrap();
        let kept = self.newest(&v, "some");
        self.retain(&v, "some", kept, RetentionMode::Compliance, 3);
        let doc = self.newest(&v, "doc");
        self.tag(&v, "doc", doc, "second");
        self.document(&v, DocumentKind::Cors, "<second/>");
        self.document(&v, DocumentKind::Tagging, "");
        // Null versions: one from before there was versioning, and one that took its place.
        let w = self.bucket("w", "root", BucketSettings::default());
        self.put_version(&w, "null", Some(self.noise(600, 820)));
        self.put_version(&w, "old", Some(self.noise(650, 821)));
        self.versioning(&w, Versioning::Enabled);
        self.put_version(&w, "null", Some(self.noise(700, 822)));
        let marker = self.put_version(&w, "old", None);
        self.versioning(&w, Versioning::Suspended);
        self.put_version(&w, "null", Some(self.noise(750, 823)));
        self.put_version(&w, "away", None);
        // What it hid is the current version again.
        self.delete_version(&w, "old", marker);
        self.cause = Cause::Engine;
    }

    /// Behind the last compaction.
    pub(super) fn last_versions(&mut self) {
        let v = self.handle().bucket(b"v").unwrap();
        let late = self.put_version(&v, "late", Some(self.noise(1_200, 830)));
        self.update(&v, "late", late, AttributeChange::LegalHold(false));
        self.retain(&v, "late", late, RetentionMode::Governance, 2);
        self.put_version(&v, "doc", Some(self.noise(300, 831)));
        self.document(&v, DocumentKind::Accelerate, "<last/>");
    }

    pub(super) fn locked_bucket(&mut self, name: &'static str) -> std::sync::Arc<Bucket> {
        let (owner, location) = ("root".into(), Bytes::new());
        let settings = BucketSettings::default();
        match self.run(Intent::CreateBucket {
            name: name.into(),
            owner,
            location,
            settings,
            object_lock: true,
            documents: Vec::new(),
        }) {
            Outcome::Bucket(bucket) => bucket,
            other => panic!("{other:?}"),
        }
    }

    pub(super) fn versioning(&mut self, bucket: &Bucket, versioning: Versioning) {
        let change = BucketChange::Versioning(versioning);
        self.run(Intent::UpdateBucket { bucket: bucket.id, change });
    }

    fn document(&mut self, bucket: &Bucket, kind: DocumentKind, document: &'static str) {
        self.run(Intent::PutDocument { bucket: bucket.id, kind, document: document.into() });
    }

    /// A new version, or a delete marker.
    pub(super) fn put_version(&mut self, bucket: &Bucket, key: &'static str, bytes: Option<Vec<u8>>) -> VersionId {
        let name = name_of(bucket, key);
        let id = match &bytes {
            None => {
                let (key, precondition) = (key.into(), Precondition::default());
                let bucket = bucket.id;
                match self.run(Intent::DeleteObject { bucket, key, version: None, precondition, bypass: false }) {
                    Outcome::DeletedOne(deleted) => deleted.version_id.unwrap(),
                    other => panic!("{other:?}"),
                }
            }
            Some(bytes) => {
                let put = PutObject {
                    bucket: bucket.id,
                    key: key.into(),
                    modified_ms: None,
                    precondition: Precondition::default(),
                    size: bytes.len() as u64,
                    md5: Md5Hasher::digest(bytes),
                    sha256: None,
                    checksum: None,
                    headers: Default::default(),
                    attributes: self.attributes(),
                    body: self.body(bucket, bytes),
                };
                match self.run(Intent::PutObject(Box::new(put))) {
                    Outcome::Put(put) => put.version_id.unwrap_or(VersionId::Null),
                    other => panic!("{other:?}"),
                }
            }
        };
        let attributes = if bytes.is_some() { self.attributes() } else { Attributes::default() };
        let stored = self.versions.entry((name.clone(), id)).or_default();
        stored.bytes.push(bytes);
        stored.attributes.push(attributes);
        stored.present = true;
        self.see(bucket, key);
        id
    }

    pub(super) fn delete_version(&mut self, bucket: &Bucket, key: &'static str, id: VersionId) {
        let (version, precondition) = (Some(id), Precondition::default());
        self.run(Intent::DeleteObject { bucket: bucket.id, key: key.into(), version, precondition, bypass: false });
        self.versions.get_mut(&(name_of(bucket, key), id)).unwrap().present = false;
        self.see(bucket, key);
    }

    /// Notes what the current object is now.
    fn see(&mut self, bucket: &Bucket, key: &'static str) {
        let name = name_of(bucket, key);
        let current = self.handle().object_in(&self.present(bucket), &key.into()).unwrap();
        let bytes = current.map(|found| {
            let id = found.object.version.version_id;
            self.versions[&(name.clone(), id)].bytes.last().unwrap().clone().unwrap()
        });
        match bytes {
            Some(bytes) if self.objects.get(&name) == Some(&bytes) => {}
            Some(bytes) => self.insert(name, bytes),
            None => drop(self.remove(&name)),
        }
    }

    /// With the layers that it has now.
    fn present(&self, bucket: &Bucket) -> std::sync::Arc<Bucket> {
        self.handle().bucket(&bucket.name).unwrap()
    }

    pub(super) fn newest(&self, bucket: &Bucket, key: &'static str) -> VersionId {
        self.handle().object_in(&self.present(bucket), &key.into()).unwrap().unwrap().object.version.version_id
    }

    pub(super) fn tag(&mut self, bucket: &Bucket, key: &'static str, id: VersionId, tag: &'static str) {
        self.update(bucket, key, id, AttributeChange::Tags(vec![("tag".into(), tag.into())]));
    }

    pub(super) fn retain(&mut self, bucket: &Bucket, key: &'static str, id: VersionId, mode: RetentionMode, days: u64) {
        let retention = Some(Retention { mode, until_ms: NOW_MS + days * DAY_MS });
        self.update(bucket, key, id, AttributeChange::Retention { retention, bypass: false });
    }

    pub(super) fn update(&mut self, bucket: &Bucket, key: &'static str, id: VersionId, change: AttributeChange) {
        let update = UpdateVersion { bucket: bucket.id, key: key.into(), version: Some(id), change };
        self.run(Intent::UpdateVersion(Box::new(update)));
        let found = self.handle().version_in(&self.present(bucket), &key.into(), id).unwrap().unwrap();
        let stored = self.versions.get_mut(&(name_of(bucket, key), id)).unwrap();
        stored.attributes.push(found.object.version.attributes.clone());
    }
}
