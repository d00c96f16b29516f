//! Looking objects up. A lookup asks the overlay first: an entry leaves it only after the index has it.

use std::sync::Arc;

use bytes::Bytes;

use super::Catalog;
use super::cache::{LocatedObject, Ticket};
use super::epochs::EpochPin;
use super::recent::key_changes::{Current, KeyChanges, NewerChanges};
use super::recent::overlay::{BlobPlace, Overlay};
use orcas_base::error::{Error, Result};
use orcas_base::planted::{self, Bug};
use orcas_checksum::{Etag, ObjectChecksum};
use orcas_decide::Completed;
use orcas_record::{
    self as record, Attributes, BucketId, Extent, Object, ObjectHeaders, Sequence, Upload, UploadId, Version,
};
use orcas_store::{RequestKey, Sealing, upload_of, version_of};

/// An object as it was found. While this lives, everything that the object refers to stays readable.
#[derive(Clone)]
pub struct PinnedObject {
    pub object: Arc<Object>,
    place: Option<BlobPlace>,
    /// The key of the request that opens the object, if it needs one.
    key: Option<RequestKey>,
    pin: EpochPin,
}

impl PinnedObject {
    pub fn of(located: LocatedObject, pin: EpochPin) -> Self {
        Self { object: located.object, place: located.place, key: None, pin }
    }

    /// An object that was looked up some other way while `pin` was held.
    pub fn new(object: Arc<Object>, pin: EpochPin) -> Self {
        Self { object, place: None, key: None, pin }
    }

    /// This object, to be opened with the key of a request.
    pub fn with_key(self, key: Option<RequestKey>) -> Self {
        Self { key, ..self }
    }

    /// The place of the content, if it is a single blob and the place is known.
    pub fn place(&self) -> Option<&BlobPlace> {
        self.place.as_ref()
    }

    /// The pin that keeps the content readable.
    pub fn pin(&self) -> &EpochPin {
        &self.pin
    }

    pub fn sealing(&self) -> Sealing {
        Sealing { encryption: self.object.version.attributes.encryption.clone(), key: self.key.clone() }
    }
}

impl PinnedObject {
    /// The text of an annotation as an object of its own, which can be read like any other.
    pub fn annotation(&self, name: &[u8]) -> Option<Self> {
        let Object { sequence, version } = &*self.object;
        let annotation = version.attributes.annotations.get(name)?;
        let text = Version {
            modified_ms: annotation.modified_ms,
            size: annotation.size(),
            etag: Etag { md5: annotation.md5, parts: 0 },
            sha256: None,
            checksum: annotation.checksum.map(ObjectChecksum::full),
            headers: ObjectHeaders::default(),
            attributes: Attributes { encryption: version.attributes.encryption.clone(), ..Attributes::default() },
            parts: Vec::new(),
            manifest: vec![annotation.text.clone()],
            key: version.key.clone(),
            ..*version
        };
        let object = Arc::new(Object { sequence: *sequence, version: text });
        Some(Self { object, place: None, key: self.key.clone(), pin: self.pin.clone() })
    }
}

/// The blob that holds all of a small object's content.
pub fn single_blob(version: &Version) -> Option<Sequence> {
    match version.manifest.as_slice() {
        [Extent::Blob { blob, .. }] => Some(*blob),
        _ => None,
    }
}

enum InMemory {
    Known(Option<LocatedObject>),
    /// The index has it, or nobody.
    Unknown(Ticket),
}

pub fn in_overlay(overlay: &Overlay, object: &Arc<Object>) -> LocatedObject {
    let place = single_blob(&object.version).and_then(|blob| overlay.blob(blob)).cloned();
    LocatedObject { object: Arc::clone(object), place }
}

impl Catalog {
    /// Under one id, of a bucket or a layer: from memory, or `None` when the index must be asked or a publication is under way.
    pub fn try_object(&self, bucket: BucketId, key: &Bytes) -> Option<Option<PinnedObject>> {
        let pin = self.epochs.pin();
        {
            let overlay = self.overlay.try_read()?;
            match overlay.key_changes(bucket, key).map(KeyChanges::current) {
                Some(Current::Object(object)) => {
                    return Some(Some(PinnedObject::of(in_overlay(&overlay, object), pin)));
                }
                Some(Current::None) => return Some(None),
                Some(Current::Below) => return None,
                None => {}
            }
        }
        self.cache.get(bucket, key).ok().map(|located| Some(PinnedObject::of(located, pin)))
    }

    /// May read the index from the disk.
    pub fn object(&self, bucket: BucketId, key: &Bytes) -> Result<Option<PinnedObject>> {
        let pin = self.epochs.pin();
        Ok(self.lookup(bucket, key)?.map(|located| PinnedObject::of(located, pin)))
    }

    fn lookup(&self, bucket: BucketId, key: &Bytes) -> Result<Option<LocatedObject>> {
        match self.in_memory(bucket, key)? {
            InMemory::Known(located) => Ok(located),
            InMemory::Unknown(ticket) => self.lookup_stored(ticket, bucket, key),
        }
    }

    /// As `lookup`, after the layers above were asked. A merge may have moved the key down meanwhile: what was in the
    /// cache before then is no answer any more.
    pub fn lookup_layer(&self, layer: BucketId, key: &Bytes) -> Result<Option<LocatedObject>> {
        loop {
            let cached = self.cache.get(layer, key);
            if let Some(recent) = self.lookup_recent(layer, key)? {
                return Ok(recent);
            }
            match cached {
                Ok(located) if planted::is(Bug::HitBeforeOverlay) => return Ok(Some(located)),
                // A change leaves the cache before it leaves the overlay. So what the cache has now, no change that
                // is gone from the overlay has replaced.
                Ok(_) => {
                    if let Ok(located) = self.cache.get(layer, key) {
                        return Ok(Some(located));
                    }
                }
                Err(ticket) => return self.lookup_stored(ticket, layer, key),
            }
        }
    }

    /// The object as the overlay has it; `None` when the cache or the index must be asked.
    fn lookup_recent(&self, bucket: BucketId, key: &Bytes) -> Result<Option<Option<LocatedObject>>> {
        let overlay = self.overlay.read();
        match overlay.key_changes(bucket, key).map(KeyChanges::current) {
            Some(Current::Object(object)) => Ok(Some(Some(in_overlay(&overlay, object)))),
            Some(Current::None) => Ok(Some(None)),
            Some(Current::Below) => {
                drop(overlay);
                let newest = self.newest_below(bucket, key, Sequence::MAX, NewerChanges::default())?;
                Ok(Some(newest.filter(|located| !located.object.version.delete_marker)))
            }
            None => Ok(None),
        }
    }

    /// Looks an object up in the index, for the cache as well.
    fn lookup_stored(&self, ticket: Ticket, bucket: BucketId, key: &Bytes) -> Result<Option<LocatedObject>> {
        let reader = self.index.read()?;
        let Some(stored) = reader.object(bucket, key)? else { return Ok(None) };
        let version = version_of(&stored)?;
        let place = match single_blob(&version) {
            Some(blob) => reader.sealed_blob(blob)?.map(BlobPlace::at),
            None => None,
        };
        let located = LocatedObject { object: Arc::new(Object { sequence: stored.sequence, version }), place };
        self.cache.insert(ticket, &located);
        Ok(Some(located))
    }

    /// The object, for a decision: without the place of its content, and without taking the place of another one in the
    /// cache, because what is decided about often ends with the decision.
    pub fn object_to_decide(&self, bucket: BucketId, key: &Bytes) -> Result<Option<Arc<Object>>> {
        if let InMemory::Known(located) = self.in_memory(bucket, key)? {
            return Ok(located.map(|located| located.object));
        }
        let Some(stored) = self.index.read()?.object(bucket, key)? else { return Ok(None) };
        Ok(Some(Arc::new(Object { sequence: stored.sequence, version: version_of(&stored)? })))
    }

    /// The object as far as the cache and the overlay know it.
    fn in_memory(&self, bucket: BucketId, key: &Bytes) -> Result<InMemory> {
        // Before the overlay is asked: a change that is published after that look must make the ticket void, or what
        // the index still has would stay in the cache when the change has left the overlay.
        let cached = self.cache.get(bucket, key);
        if let Some(recent) = self.lookup_recent(bucket, key)? {
            return Ok(InMemory::Known(recent));
        }
        Ok(cached.map_or_else(InMemory::Unknown, |located| InMemory::Known(Some(located))))
    }

    pub fn segment(&self, segment: Sequence) -> Result<Arc<[Extent]>> {
        if let Some(extents) = self.overlay.read().segment(segment) {
            return Ok(Arc::clone(extents));
        }
        // In this order: it is kept before it leaves the index.
        let indexed = self.index.read()?.segment(segment)?;
        let payload = indexed.or_else(|| self.retired_segments.segment(segment));
        let payload = payload.ok_or(Error::Record { reason: "a manifest names a segment that is not there" })?;
        Ok(record::decode_extents(&payload)?.into())
    }

    pub fn open_upload(&self, id: UploadId) -> Result<Option<Arc<Upload>>> {
        if let Some(change) = self.overlay.read().upload(id) {
            return Ok(change.value.clone());
        }
        let stored = self.index.read()?.upload(id)?;
        stored.map(|stored| upload_of(stored.kind, &stored.record).map(Arc::new)).transpose()
    }

    /// An open upload of this bucket and key.
    ///
    /// # Errors
    /// When the index cannot be read.
    pub fn upload(&self, bucket: BucketId, key: &[u8], id: UploadId) -> Result<Option<Arc<Upload>>> {
        Ok(self.open_upload(id)?.filter(|upload| upload.bucket == bucket && upload.key == key))
    }

    pub fn completed(&self, id: UploadId) -> Result<Option<Completed>> {
        if let Some(completed) = self.overlay.read().completed(id) {
            return Ok(Some(completed.clone()));
        }
        let completed = self.index.read()?.completed(id)?;
        Ok(completed.map(|row| Completed {
            request: row.request,
            bucket: row.bucket,
            key: row.key,
            version_id: row.version_id,
            etag: row.etag,
            checksum: row.checksum,
        }))
    }

    pub fn place(&self, blob: Sequence) -> Result<BlobPlace> {
        if let Some(place) = self.overlay.read().blob(blob) {
            return Ok(place.clone());
        }
        let found = self.index.read()?.sealed_blob(blob)?;
        found.map(BlobPlace::at).ok_or(Error::Record { reason: "a manifest names a blob that is not there" })
    }
}
