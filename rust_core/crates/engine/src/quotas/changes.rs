//! The changes that records make to the bytes and versions under the ids of buckets, by the same rules as the counts of
//! the index.

use std::collections::{HashMap, HashSet};

use bytes::Bytes;

use crate::commit::view::CommitterView;
use orcas_base::error::Result;
use orcas_decide::{Held, View};
use orcas_record::{Attributes, BucketId, Extent, Part, Record, UploadId, Version, VersionId};

/// Bytes of a version: of its manifest, and of its annotations.
#[derive(Clone, Copy)]
pub(super) struct Lengths {
    content: u64,
    annotations: u64,
}

/// The changes of one decision. `counts`: whether somebody wants to know of this bucket or layer.
pub(super) struct Changes<'a> {
    view: &'a CommitterView<'a>,
    counts: &'a dyn Fn(BucketId) -> bool,
    /// The place to which versions move is empty.
    vacant: bool,
    /// Versions as the records so far leave them.
    versions: HashMap<(BucketId, Bytes, VersionId), Option<Lengths>>,
    /// Uploads that the records so far have ended. One that is sealed begins anew.
    ended: HashSet<UploadId>,
    pub held: HashMap<BucketId, Held>,
}

impl<'a> Changes<'a> {
    pub fn new(view: &'a CommitterView<'a>, counts: &'a dyn Fn(BucketId) -> bool, vacant: bool) -> Self {
        Self { view, counts, vacant, versions: HashMap::new(), ended: HashSet::new(), held: HashMap::new() }
    }

    pub fn add(&mut self, record: &Record) -> Result<()> {
        match record {
            Record::PutVersion(version) => self.put(version),
            Record::MoveVersion { from_bucket, version, .. } if self.vacant => {
                self.moves(*from_bucket, version);
                Ok(())
            }
            Record::MoveVersion { from_bucket, from_key, version } => {
                // What moves is what was there, so it is not looked up once more.
                if (self.counts)(*from_bucket) {
                    let name = (*from_bucket, from_key.clone(), version.version_id);
                    self.versions.entry(name).or_insert_with(|| Some(Lengths::of(version)));
                }
                self.replace(*from_bucket, from_key, version.version_id, |_| None)?;
                self.put(version)
            }
            Record::DeleteVersion { bucket, key, version_id } => self.replace(*bucket, key, *version_id, |_| None),
            Record::UpdateVersion { bucket, key, version_id, attributes, .. } => {
                let annotations = annotations(attributes);
                self.replace(*bucket, key, *version_id, |former| former.map(|it| Lengths { annotations, ..it }))
            }
            Record::PutPart(part) => self.put_part(part),
            Record::AbortUpload { upload } => self.end_upload(*upload),
            Record::CompleteUpload { upload, version, .. } => {
                self.put(version)?;
                self.end_upload(*upload)
            }
            _ => Ok(()),
        }
    }

    /// Counts a version that moves. It is the one that was there, and replaces nothing, so neither has to be looked up.
    fn moves(&mut self, from: BucketId, version: &Version) {
        if from == version.bucket {
            return;
        }
        let bytes = Lengths::of(version).sum().cast_signed();
        for (bucket, sign) in [(from, -1), (version.bucket, 1)] {
            if (self.counts)(bucket) {
                self.change(bucket, Held { bytes: sign * bytes, versions: sign });
            }
        }
    }

    fn put(&mut self, version: &Version) -> Result<()> {
        self.replace(version.bucket, &version.key, version.version_id, |_| Some(Lengths::of(version)))
    }

    fn replace(
        &mut self,
        bucket: BucketId,
        key: &Bytes,
        id: VersionId,
        by: impl FnOnce(Option<Lengths>) -> Option<Lengths>,
    ) -> Result<()> {
        if !(self.counts)(bucket) {
            return Ok(());
        }
        let name = (bucket, key.clone(), id);
        let former = match self.versions.get(&name) {
            Some(former) => *former,
            None => self.view.layer_version(bucket, key, id)?.map(|object| Lengths::of(&object.version)),
        };
        let now = by(former);
        let bytes = |it: Option<Lengths>| it.map_or(0, |it| it.sum().cast_signed());
        let versions = i64::from(now.is_some()) - i64::from(former.is_some());
        self.change(bucket, Held { bytes: bytes(now) - bytes(former), versions });
        self.versions.insert(name, now);
        Ok(())
    }

    fn put_part(&mut self, part: &Part) -> Result<()> {
        let Some(bucket) = self.bucket_of(part.upload)? else { return Ok(()) };
        let former = match self.ended.contains(&part.upload) {
            true => 0,
            false => self.view.part(part.upload, part.number)?.map_or(0, |part| length(&part.manifest)),
        };
        self.change(bucket, Held { bytes: (length(&part.manifest) - former), versions: 0 });
        Ok(())
    }

    /// The parts of an upload go.
    fn end_upload(&mut self, upload: UploadId) -> Result<()> {
        let Some(bucket) = self.bucket_of(upload)? else { return Ok(()) };
        self.ended.insert(upload);
        let parts: i64 = self.view.parts(upload)?.values().map(|part| length(&part.manifest)).sum();
        self.change(bucket, Held { bytes: -parts, versions: 0 });
        Ok(())
    }

    /// The bucket of an upload, if it counts.
    fn bucket_of(&self, upload: UploadId) -> Result<Option<BucketId>> {
        let upload = self.view.upload(upload)?;
        Ok(upload.map(|upload| upload.bucket).filter(|bucket| (self.counts)(*bucket)))
    }

    fn change(&mut self, bucket: BucketId, by: Held) {
        // Amendments are no versions of their own.
        let versions = if self.view.buckets.is_amendments(bucket) { 0 } else { by.versions };
        *self.held.entry(bucket).or_default() += Held { versions, ..by };
    }
}

impl Lengths {
    pub fn of(version: &Version) -> Self {
        let content = version.manifest.iter().map(Extent::length).sum();
        Self { content, annotations: annotations(&version.attributes) }
    }

    pub fn sum(self) -> u64 {
        self.content + self.annotations
    }
}

fn annotations(attributes: &Attributes) -> u64 {
    attributes.annotations.extents().map(Extent::length).sum()
}

fn length(manifest: &[Extent]) -> i64 {
    manifest.iter().map(Extent::length).sum::<u64>().cast_signed()
}
