//! Multipart uploads: create, parts, abort and complete. Complete is decided against abort and re-upload in the same
//! sequence, and is one record.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::buckets::live_bucket;
use super::decision::{Context, Decision};
use super::intent::{Complete, CompletePart, CopyPart, PutPart};
use super::limits::{OBJECT_SIZE_MAX, PART_SIZE_MIN, PUT_SIZE_MAX};
use super::manifest::{Draft, slice};
use super::objects::{check_precondition, source};
use super::outcome::{Completed, Failure, Outcome, Put, Refusal};
use super::view::View;
use super::{locks, versions};
use orcas_checksum::{Checksum, ChecksumType, Etag, ObjectChecksum};
use orcas_record::{BucketId, CompletedPart, Extent, Part, Record, Upload, UploadId, Version};

pub(super) fn create(view: &dyn View, context: &Context, upload: Upload) -> Result<Decision, Failure> {
    let bucket = live_bucket(view, upload.bucket)?;
    locks::check_new(&bucket, &upload.attributes, context.now_ms)?;
    Ok(Decision { outcome: Outcome::Upload(upload.id), records: vec![Record::CreateUpload(upload)] })
}

pub(super) fn put_part(view: &dyn View, context: &Context, put: PutPart) -> Result<Decision, Failure> {
    let upload = open_upload(view, put.bucket, &put.key, put.upload)?;
    check_part_checksum(&upload, put.checksum.as_ref())?;
    let mut draft = Draft::new(context.next_sequence);
    let manifest = draft.store(view, put.body)?;
    let part = Part {
        upload: put.upload,
        number: put.number,
        size: put.size,
        md5: put.md5,
        modified_ms: context.now_ms,
        checksum: put.checksum,
        manifest,
    };
    Ok(put_part_record(draft, part))
}

/// Refers to the bytes of the source that its digests were computed from, or asks to compute them again.
pub(super) fn copy_part(view: &dyn View, context: &Context, copy: CopyPart) -> Result<Decision, Failure> {
    let upload = open_upload(view, copy.bucket, &copy.key, copy.upload)?;
    check_part_checksum(&upload, copy.checksum.as_ref())?;
    let source = source(view, &copy.source, &copy.source_conditions)?;
    if source.sequence != copy.source_sequence {
        return Err(Refusal::SourceChanged.into());
    }
    let version = &source.version;
    let (size, manifest) = match copy.range {
        None => (version.size, version.manifest.clone()),
        Some((first, last)) if first <= last && last < version.size => {
            (last - first + 1, slice(view, &version.manifest, first, last)?)
        }
        Some(_) => return Err(Refusal::InvalidRange { size: version.size }.into()),
    };
    if size > PUT_SIZE_MAX {
        return Err(Refusal::EntityTooLarge { size }.into());
    }
    let mut draft = Draft::new(context.next_sequence);
    let manifest = draft.gathered(&[&manifest])?;
    let part = Part {
        upload: copy.upload,
        number: copy.number,
        size,
        md5: copy.md5,
        modified_ms: context.now_ms,
        checksum: copy.checksum,
        manifest,
    };
    Ok(put_part_record(draft, part))
}

fn put_part_record(mut draft: Draft, part: Part) -> Decision {
    let mut answer = Put {
        sequence: 0,
        etag: Etag::simple(part.md5),
        modified_ms: part.modified_ms,
        size: part.size,
        checksum: part.checksum.map(ObjectChecksum::full),
        version_id: None,
    };
    answer.sequence = draft.push(Record::PutPart(part));
    Decision { outcome: Outcome::Part(answer), records: draft.into_records() }
}

fn check_part_checksum(upload: &Upload, checksum: Option<&Checksum>) -> Result<(), Refusal> {
    match (upload.checksum, checksum) {
        (Some((wanted, _)), Some(given)) if wanted != given.algorithm() => Err(Refusal::InvalidRequest {
            reason: "Checksum Type mismatch occurred, the part's checksum algorithm is not the upload's.",
        }),
        (Some(_), None) => Err(Refusal::InvalidRequest { reason: "The upload was created with a checksum algorithm." }),
        _ => Ok(()),
    }
}

pub(super) fn abort(view: &dyn View, bucket: BucketId, key: &[u8], upload: UploadId) -> Result<Decision, Failure> {
    open_upload(view, bucket, key, upload)?;
    Ok(Decision { outcome: Outcome::Done, records: vec![Record::AbortUpload { upload }] })
}

pub(super) fn complete(view: &dyn View, context: &Context, complete: Complete) -> Result<Decision, Failure> {
    let bucket = live_bucket(view, complete.bucket)?;
    let request = request_digest(&complete.parts);
    let upload = match open_upload(view, complete.bucket, &complete.key, complete.upload) {
        Ok(upload) => upload,
        Err(Failure::Refused(Refusal::NoSuchUpload)) => return repeated(view, &complete, &request),
        Err(failure) => return Err(failure),
    };
    let stored = view.parts(complete.upload)?;
    let chosen = choose_parts(&complete.parts, &stored)?;
    let size = chosen.iter().map(|part| part.size).sum();
    if size > OBJECT_SIZE_MAX {
        return Err(Refusal::EntityTooLarge { size }.into());
    }
    if complete.size.is_some_and(|expected| expected != size) {
        return Err(Refusal::InvalidRequest {
            reason: "The provided 'x-amz-mp-object-size' header does not match what was computed.",
        }
        .into());
    }
    // Without an algorithm the checksum that S3 would keep is one of the full object.
    let kind = upload.checksum.map_or(ChecksumType::FullObject, |(_, kind)| kind);
    if complete.checksum_type.is_some_and(|stated| stated != kind) {
        return Err(Refusal::BadDigest { what: "checksum type" }.into());
    }
    let checksum = object_checksum(&upload, &chosen, complete.checksum.as_ref())?;
    check_precondition(view, complete.bucket, &complete.key, &complete.precondition)?;
    let etag = Etag::multipart(chosen.iter().map(|part| &part.md5)).ok_or(Refusal::InvalidPartOrder)?;
    let mut draft = Draft::new(context.next_sequence);
    let manifests: Vec<&[Extent]> = chosen.iter().map(|part| &part.manifest[..]).collect();
    let manifest = draft.gathered(&manifests)?;
    let mut attributes = upload.attributes.clone();
    locks::apply_default(&bucket, &mut attributes, context.now_ms);
    let version = Version {
        bucket: complete.bucket,
        key: complete.key,
        version_id: versions::new_id(&bucket, context, draft.next_sequence()),
        delete_marker: false,
        modified_ms: context.now_ms,
        size,
        etag,
        sha256: None,
        checksum,
        headers: upload.headers.clone(),
        attributes,
        parts: chosen
            .iter()
            .map(|part| CompletedPart { number: part.number, size: part.size, checksum: part.checksum })
            .collect(),
        manifest,
    };
    let completed = Completed {
        request,
        bucket: version.bucket,
        key: version.key.clone(),
        version_id: version.version_id,
        etag,
        checksum: version.checksum,
    };
    draft.push(Record::CompleteUpload { upload: complete.upload, request, version });
    Ok(Decision { outcome: Outcome::Completed(completed), records: draft.into_records() })
}

/// A client that lost the answer sends the same request again and gets the same answer.
fn repeated(view: &dyn View, complete: &Complete, request: &[u8; 32]) -> Result<Decision, Failure> {
    match view.completed(complete.upload)? {
        Some(completed)
            if completed.request == *request
                && completed.bucket == complete.bucket
                && completed.key == complete.key =>
        {
            Ok(Decision::without_records(Outcome::Completed(completed)))
        }
        _ => Err(Refusal::NoSuchUpload.into()),
    }
}

fn request_digest(parts: &[CompletePart]) -> [u8; 32] {
    let mut hasher = blake3::Hasher::new();
    for part in parts {
        hasher.update(&part.number.to_le_bytes());
        hasher.update(&part.md5);
    }
    hasher.finalize().into()
}

/// The stored parts that a completion names, in order.
fn choose_parts(named: &[CompletePart], stored: &BTreeMap<u16, Arc<Part>>) -> Result<Vec<Arc<Part>>, Refusal> {
    if !named.windows(2).all(|pair| pair[0].number < pair[1].number) {
        return Err(Refusal::InvalidPartOrder);
    }
    let mut chosen = Vec::with_capacity(named.len());
    for (position, wanted) in named.iter().enumerate() {
        let part = stored
            .get(&wanted.number)
            .filter(|part| part.md5 == wanted.md5)
            .filter(|part| wanted.checksum.is_none() || wanted.checksum == part.checksum)
            .ok_or(Refusal::InvalidPart { number: wanted.number })?;
        if position + 1 < named.len() && part.size < PART_SIZE_MIN {
            return Err(Refusal::EntityTooSmall { number: part.number, size: part.size });
        }
        chosen.push(Arc::clone(part));
    }
    if chosen.is_empty() {
        return Err(Refusal::InvalidRequest { reason: "You must specify at least one part" });
    }
    Ok(chosen)
}

/// The checksum that the upload's algorithm and type give, compared with the one the client expects.
fn object_checksum(
    upload: &Upload,
    parts: &[Arc<Part>],
    expected: Option<&ObjectChecksum>,
) -> Result<Option<ObjectChecksum>, Refusal> {
    let Some((algorithm, kind)) = upload.checksum else {
        return match expected {
            None => Ok(None),
            Some(_) => Err(Refusal::InvalidRequest { reason: "The upload was created without a checksum algorithm." }),
        };
    };
    let missing = Refusal::InvalidRequest { reason: "A part has no checksum in the upload's algorithm." };
    let digests: Option<Vec<Checksum>> = parts.iter().map(|part| part.checksum).collect();
    let digests = digests.ok_or_else(|| missing.clone())?;
    let whole = match kind {
        ChecksumType::Composite => ObjectChecksum::composite(algorithm, &digests),
        ChecksumType::FullObject => {
            ObjectChecksum::joined(digests.iter().copied().zip(parts.iter().map(|part| part.size)))
        }
    }
    .ok_or(missing)?;
    match expected {
        // A composite value may be sent without its `-N`.
        Some(expected) if expected.checksum != whole.checksum => Err(Refusal::BadDigest { what: algorithm.name() }),
        _ => Ok(Some(whole)),
    }
}

fn open_upload(view: &dyn View, bucket: BucketId, key: &[u8], id: UploadId) -> Result<Arc<Upload>, Failure> {
    live_bucket(view, bucket)?;
    view.upload(id)?
        .filter(|upload| upload.bucket == bucket && upload.key == key)
        .ok_or(Failure::Refused(Refusal::NoSuchUpload))
}
