//! Sealing what is stored already: versions and parts get other blobs, with the same bytes, and stay what they are.
//!
//! Invariants. A version changes only if it is still the one whose content was stored again. The sequences of versions
//! are their order, so every newer version of its key is put again behind it, in the same decision: clients see the same
//! versions in the same order before and after. Nothing but the encryption of content and headers changes, so locks do
//! not matter.

use std::sync::Arc;

use bytes::Bytes;

use crate::buckets::creation::live_bucket;
use crate::decision::{Context, Decision};
use crate::intent::Body;
use crate::objects::manifest::Draft;
use crate::objects::writes;
use crate::outcome::{Failure, Outcome};
use crate::upkeep::sealed::{
    SealKey, SealPart, SealStored, SealUpload, SealVersion, Sealed, SealedContent, SealedExtent,
};
use crate::view::View;
use orcas_base::error::{Error, Result};
use orcas_record::{
    Annotation, Annotations, Attributes, BucketId, BucketRole, Encryption, Extent, Object, Part, Record, Sequence,
    Upload, Version,
};

/// `blobs`: sealed contents and chunks, each of them one blob.
pub(crate) fn seal_stored(
    view: &dyn View,
    context: &Context,
    seal: SealStored,
    blobs: Vec<Body>,
) -> Result<Decision, Failure> {
    let SealStored { layer, keys, uploads } = seal;
    let gone =
        view.bucket(layer).is_none_or(|bucket| matches!(bucket.role, BucketRole::Snapshot | BucketRole::Dropped));
    let mut blobs = Blobs { bodies: blobs.into_iter().map(BlobSource::Body).collect() };
    let mut draft = Draft::new(context.next_sequence);
    let mut counts = Sealed::default();
    for SealKey { key, versions } in keys {
        match found(view, layer, &key, &versions)?.filter(|_| !gone) {
            None => counts.changed += 1,
            Some(found) => {
                for (object, entry) in found.iter().zip(versions) {
                    let version = match entry.content {
                        None => object.version.clone(),
                        Some(content) => {
                            counts.versions += 1;
                            counts.bytes += object.version.size;
                            sealed(view, &mut draft, &mut blobs, &object.version, content)?
                        }
                    };
                    draft.push(Record::PutVersion(version));
                }
            }
        }
    }
    for seal in uploads {
        if is_as_found(view, &seal)? {
            counts.uploads += 1;
            counts.bytes += seal.parts.iter().map(|it| it.part.size).sum::<u64>();
            seal_upload(view, &mut draft, &mut blobs, seal)?;
        } else {
            counts.changed += 1;
        }
    }
    Ok(Decision { outcome: Outcome::Sealed(counts), records: draft.into_records() })
}

/// The versions as they are now, if they are what was found, and the last of them is still the newest of its key.
fn found(view: &dyn View, layer: BucketId, key: &Bytes, entries: &[SealVersion]) -> Result<Option<Vec<Arc<Object>>>> {
    let newest = view.layer_newest(layer, key, Sequence::MAX)?.map(|newest| newest.sequence);
    if newest != entries.last().map(|last| last.sequence) {
        return Ok(None);
    }
    let mut found = Vec::with_capacity(entries.len());
    for entry in entries {
        let Some(object) = view.layer_version(layer, key, entry.id)? else { return Ok(None) };
        let attributes = &object.version.attributes;
        let as_found = object.sequence == entry.sequence
            && entry
                .content
                .as_ref()
                .is_none_or(|content| attributes.annotations == content.annotations && attributes.encryption.is_none());
        if !as_found {
            return Ok(None);
        }
        found.push(object);
    }
    Ok(Some(found))
}

/// The version with sealed content. Everything else, attributes included, is what it has now.
fn sealed(
    view: &dyn View,
    draft: &mut Draft,
    blobs: &mut Blobs,
    version: &Version,
    content: SealedContent,
) -> Result<Version> {
    let extents = blobs.extents(view, draft, content.extents, version.size)?;
    let mut annotations = Vec::with_capacity(content.texts.len());
    for (annotation, text) in content.annotations.as_slice().iter().zip(content.texts) {
        let (blob, length) = blobs.stored(view, draft, text)?;
        if u64::from(length) != annotation.size() {
            return Err(UNFIT);
        }
        annotations.push(Annotation { text: Extent::Blob { blob, start: 0, length }, ..annotation.clone() });
    }
    let annotations = Annotations::from_sorted(annotations).ok_or(UNFIT)?;
    let encryption = Some(Encryption::Managed);
    writes::check_headers(&content.headers, encryption.as_ref())?;
    let attributes = Attributes { annotations, encryption, ..version.attributes.clone() };
    Ok(Version { manifest: draft.segmented(extents), attributes, headers: content.headers, ..version.clone() })
}

/// Whether the upload is open and has what was found.
fn is_as_found(view: &dyn View, seal: &SealUpload) -> Result<bool> {
    let SealUpload { upload, parts, .. } = seal;
    let is_open = upload.attributes.encryption.is_none()
        && view.upload(upload.id)?.as_ref() == Some(upload)
        && live_bucket(view, upload.bucket).is_ok();
    Ok(is_open && view.parts(upload.id)?.values().eq(parts.iter().map(|it| &it.part)))
}

/// Everything but the encryption of content and headers stays, also the times of the parts.
fn seal_upload(view: &dyn View, draft: &mut Draft, blobs: &mut Blobs, seal: SealUpload) -> Result<()> {
    let SealUpload { upload, headers, parts } = seal;
    let encryption = Some(Encryption::Managed);
    writes::check_headers(&headers, encryption.as_ref())?;
    let mut sealed = Vec::with_capacity(parts.len());
    for SealPart { part, extents } in parts {
        let extents = blobs.extents(view, draft, extents, part.size)?;
        sealed.push(Part { manifest: draft.segmented(extents), ..Part::clone(&part) });
    }
    let attributes = Attributes { encryption, ..upload.attributes.clone() };
    draft.push(Record::AbortUpload { upload: upload.id });
    draft.push(Record::CreateUpload(Upload { headers, attributes, ..Upload::clone(&upload) }));
    for part in sealed {
        draft.push(Record::PutPart(part));
    }
    Ok(())
}

const UNFIT: Error = Error::Record { reason: "what was stored again is not the content that was found" };

/// The blobs of an intent. Those that nothing needs after all are not recorded.
struct Blobs {
    bodies: Vec<BlobSource>,
}

enum BlobSource {
    Body(Body),
    Stored(Sequence, u32),
}

impl Blobs {
    /// The manifest of content of this size.
    fn extents(
        &mut self,
        view: &dyn View,
        draft: &mut Draft,
        sealed: Vec<SealedExtent>,
        size: u64,
    ) -> Result<Vec<Extent>> {
        let mut extents = Vec::with_capacity(sealed.len());
        for SealedExtent { blob, start, length } in sealed {
            let (blob, whole) = self.stored(view, draft, blob)?;
            if start.checked_add(length).is_none_or(|end| end > whole) {
                return Err(UNFIT);
            }
            extents.push(Extent::Blob { blob, start, length });
        }
        if extents.iter().map(Extent::length).sum::<u64>() != size {
            return Err(UNFIT);
        }
        Ok(extents)
    }

    fn stored(&mut self, view: &dyn View, draft: &mut Draft, at: usize) -> Result<(Sequence, u32)> {
        let place = self.bodies.get_mut(at).ok_or(UNFIT)?;
        let body = match place {
            BlobSource::Stored(blob, length) => return Ok((*blob, *length)),
            BlobSource::Body(body) => std::mem::replace(body, Body::Inline(Bytes::new())),
        };
        match draft.store(view, body, Some(&Encryption::Managed))?[..] {
            [Extent::Blob { blob, start: 0, length }] => {
                *place = BlobSource::Stored(blob, length);
                Ok((blob, length))
            }
            _ => Err(UNFIT),
        }
    }
}
