//! Multipart uploads: create, parts, abort and complete. Complete is decided against abort and re-upload in the same
//! sequence, and is one record.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::buckets::creation::live_bucket;
use crate::buckets::layers;
use crate::decision::{Context, Decision};
use crate::intent::{Complete, CompletePart, CopyPart, PutPart};
use crate::limits::{OBJECT_SIZE_MAX, PART_SIZE_MIN, PUT_SIZE_MAX};
use crate::objects::locks;
use crate::objects::manifest::{Draft, slice};
use crate::objects::versions;
use crate::objects::writes::{check_headers, check_precondition, source};
use crate::outcome::{ChecksumRefusal, Completed, Failure, Outcome, Put, Refusal};
use crate::view::View;
use orcas_checksum::{Checksum, ChecksumAlgorithm, ChecksumType, Etag, ObjectChecksum};
use orcas_record::{Bucket, BucketId, CompletedPart, Encryption, Extent, Part, Record, Upload, UploadId, Version};

const HIDDEN_CHECKSUM: &str = "The checksum of the whole object cannot be compared: with SSE-KMS and SSE-C none of its \
                               parts is stored.";

pub(crate) fn create(view: &dyn View, context: &Context, upload: Upload) -> Result<Decision, Failure> {
    let bucket = live_bucket(view, upload.bucket)?;
    locks::check_new(&bucket, &upload.attributes, context.now_ms)?;
    check_headers(&upload.headers, upload.attributes.encryption.as_ref())?;
    Ok(Decision { outcome: Outcome::Upload(upload.id), records: vec![Record::CreateUpload(upload)] })
}

pub(crate) fn put_part(view: &dyn View, context: &Context, put: PutPart) -> Result<Decision, Failure> {
    let upload = open_upload(view, put.bucket, &put.key, put.upload)?;
    let checksum = part_checksum(&upload, put.checksum, put.computed)?;
    let encryption = upload.attributes.encryption.as_ref();
    if encryption == Some(&Encryption::Managed) && !put.body.is(encryption) && put.body.is(None) {
        return Err(Refusal::UploadSealed.into());
    }
    let shown = Encryption::storable(encryption, put.checksum.or(checksum));
    let mut draft = Draft::new(context.next_sequence);
    let manifest = draft.store(view, put.body, encryption)?;
    let part = Part {
        upload: put.upload,
        number: put.number,
        size: put.size,
        md5: put.md5,
        modified_ms: context.now_ms,
        checksum,
        manifest,
    };
    Ok(put_part_record(draft, part, shown, &upload))
}

/// Refers to the bytes of the source that its digests were computed from, or asks to compute them again.
pub(crate) fn copy_part(view: &dyn View, context: &Context, copy: CopyPart) -> Result<Decision, Failure> {
    let upload = open_upload(view, copy.bucket, &copy.key, copy.upload)?;
    // Computed for the copy, in the place of what a client would have declared.
    let checksum = part_checksum(&upload, copy.checksum, None)?;
    let source = source(view, &copy.source, &copy.source_conditions)?;
    if source.sequence != copy.source_sequence {
        return Err(Refusal::SourceChanged.into());
    }
    let version = &source.version;
    if !Encryption::shares(version.attributes.encryption.as_ref(), upload.attributes.encryption.as_ref()) {
        return Err(Refusal::SourceChanged.into());
    }
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
        checksum,
        manifest,
    };
    Ok(put_part_record(draft, part, checksum, &upload))
}

/// `shown` is the checksum in the answer.
fn put_part_record(mut draft: Draft, part: Part, shown: Option<Checksum>, upload: &Upload) -> Decision {
    let mut answer = Put {
        sequence: 0,
        etag: Etag::simple(part.md5),
        modified_ms: part.modified_ms,
        size: part.size,
        checksum: shown.map(ObjectChecksum::full),
        version_id: None,
        encryption: upload.attributes.encryption.clone(),
    };
    answer.sequence = draft.push(Record::PutPart(part));
    Decision { outcome: Outcome::Part(answer), records: draft.into_records() }
}

/// The checksum that is stored with a part: the declared one, or one that the server computed. Only clients vouch for
/// parts of a composite checksum. It is checked, but not stored, if the encryption hides digests.
fn part_checksum(
    upload: &Upload,
    declared: Option<Checksum>,
    computed: Option<Checksum>,
) -> Result<Option<Checksum>, Refusal> {
    let storable = |checksum| Encryption::storable(upload.attributes.encryption.as_ref(), checksum);
    let Some((algorithm, kind)) = upload.checksum else {
        let is_default = |checksum: &Checksum| checksum.algorithm() == ChecksumAlgorithm::DEFAULT;
        return Ok(storable(declared.into_iter().chain(computed).find(is_default)));
    };
    let checksum = match kind {
        ChecksumType::FullObject => declared.or(computed),
        ChecksumType::Composite => declared,
    };
    let actual = checksum.map(|checksum| checksum.algorithm());
    if actual != Some(algorithm) {
        return Err(ChecksumRefusal::Algorithm { expected: algorithm, actual }.into());
    }
    Ok(storable(checksum))
}

pub(crate) fn abort(
    view: &dyn View,
    bucket: BucketId,
    key: &[u8],
    upload: UploadId,
    idle_since_ms: Option<u64>,
) -> Result<Decision, Failure> {
    let open = match open_upload(view, bucket, key, upload) {
        Err(Failure::Refused(Refusal::NoSuchUpload)) if idle_since_ms.is_none() => {
            // Clients clean up after an answer to CompleteMultipartUpload that they have lost.
            let bucket = live_bucket(view, bucket)?;
            let completed = view.completed(upload)?.filter(|it| it.key == key && belongs(view, &bucket, it));
            completed.ok_or(Refusal::NoSuchUpload)?;
            return Ok(Decision::without_records(Outcome::Done));
        }
        found => found?,
    };
    if let Some(since_ms) = idle_since_ms {
        let parts = view.parts(upload)?;
        let last_ms = parts.values().map(|part| part.modified_ms).fold(open.initiated_ms, u64::max);
        if last_ms >= since_ms {
            return Err(Refusal::PreconditionFailed { condition: "idle" }.into());
        }
    }
    Ok(Decision { outcome: Outcome::Done, records: vec![Record::AbortUpload { upload }] })
}

pub(crate) fn complete(view: &dyn View, context: &Context, complete: Complete) -> Result<Decision, Failure> {
    let bucket = live_bucket(view, complete.bucket)?;
    let request = request_digest(&complete.parts);
    let upload = match open_upload(view, complete.bucket, &complete.key, complete.upload) {
        Ok(upload) => upload,
        Err(Failure::Refused(Refusal::NoSuchUpload)) => return repeated(view, &bucket, &complete, &request),
        Err(failure) => return Err(failure),
    };
    let stored = view.parts(complete.upload)?;
    let chosen = choose_parts(&complete.parts, &stored)?;
    let size = chosen.iter().map(|part| part.size).sum();
    if size > OBJECT_SIZE_MAX {
        return Err(Refusal::EntityTooLarge { size }.into());
    }
    if let Some(expected) = complete.size.filter(|expected| *expected != size) {
        return Err(Refusal::ObjectSize { expected, computed: size }.into());
    }
    let kind = upload.checksum.map(|(_, kind)| kind);
    if complete.checksum_type.is_some_and(|stated| Some(stated) != kind) {
        return Err(Refusal::from(ChecksumRefusal::Type { of_upload: kind }).into());
    }
    let hides = upload.attributes.encryption.as_ref().is_some_and(Encryption::hides_digests);
    let checksum = match upload.checksum {
        // What the client states of a part was compared when the part came, and nothing is left to compare it with.
        _ if hides && complete.checksum.is_some() => {
            return Err(Refusal::InvalidRequest { reason: HIDDEN_CHECKSUM }.into());
        }
        _ if hides => None,
        None => default_checksum(&complete, &chosen)?,
        Some((algorithm, kind)) => Some(object_checksum(algorithm, kind, &complete, &chosen)?),
    };
    check_precondition(view, &bucket, &complete.key, &complete.precondition)?;
    let etag = Etag::multipart(chosen.iter().map(|part| &part.md5)).ok_or(Refusal::InvalidPartOrder)?;
    let mut draft = Draft::new(context.next_sequence);
    let manifests: Vec<&[Extent]> = chosen.iter().map(|part| &part.manifest[..]).collect();
    let manifest = draft.gathered(&manifests)?;
    let mut attributes = upload.attributes.clone();
    locks::apply_default(&bucket, &mut attributes, context.now_ms);
    let version = Version {
        bucket: bucket.top(),
        key: complete.key,
        version_id: versions::new_id(&bucket, context, draft.next_sequence()),
        delete_marker: false,
        modified_ms: context.time_of(complete.modified_ms),
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
    let encryption = version.attributes.encryption.clone();
    draft.push(Record::CompleteUpload { upload: complete.upload, request, version });
    Ok(Decision { outcome: Outcome::Completed(completed, encryption), records: draft.into_records() })
}

/// A client that lost the answer sends the same request again and gets the same answer. If the layer is gone that the
/// object went to, by a merge or a restore, then for as long as the bucket shows what the request made.
fn repeated(view: &dyn View, bucket: &Bucket, complete: &Complete, request: &[u8; 32]) -> Result<Decision, Failure> {
    let completed = view.completed(complete.upload)?;
    let asked = |completed: &Completed| completed.request == *request && completed.key == complete.key;
    let Some(completed) = completed.filter(asked) else { return Err(Refusal::NoSuchUpload.into()) };
    let is_known = bucket.stack().contains(&completed.bucket)
        || belongs(view, bucket, &completed)
            && layers::version(view, bucket, &complete.key, completed.version_id)?
                .is_some_and(|shown| shown.version.etag == completed.etag);
    if is_known {
        Ok(Decision::without_records(Outcome::Completed(completed, None)))
    } else {
        Err(Refusal::NoSuchUpload.into())
    }
}

/// Whether an upload was one of this bucket, into a layer that it has or had.
fn belongs(view: &dyn View, bucket: &Bucket, completed: &Completed) -> bool {
    // A bucket is older than the layers that are made for it, but for the first one of a fork, which is one record older.
    // So the layer was not that of an earlier bucket with the same name.
    let was_its_layer = || view.bucket(completed.bucket).is_none() && completed.bucket.0 + 1 >= bucket.id.0;
    bucket.stack().contains(&completed.bucket) || was_its_layer()
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

/// The first part whose checksum the client states differently.
fn check_stated(complete: &Complete, parts: &[Arc<Part>]) -> Result<(), Refusal> {
    let differs = |stated: &CompletePart, part: &Part| stated.checksum.is_some() && stated.checksum != part.checksum;
    let other = complete.parts.iter().zip(parts).find(|(stated, part)| differs(stated, part));
    other.map_or(Ok(()), |(stated, _)| Err(Refusal::InvalidPart { number: stated.number }))
}

/// Compares with the checksum of the whole that the client expects. A composite value may be sent without its `-N`.
fn check_expected(complete: &Complete, whole: &ObjectChecksum) -> Result<(), Refusal> {
    match &complete.checksum {
        Some(expected) if expected.checksum != whole.checksum || ![0, whole.parts].contains(&expected.parts) => {
            Err(ChecksumRefusal::Object { algorithm: whole.checksum.algorithm() }.into())
        }
        _ => Ok(()),
    }
}

/// The checksum of an object for which the client chose no algorithm; `None` if a part has none. As in S3, a value that
/// the client expects in another algorithm is not compared.
fn default_checksum(complete: &Complete, parts: &[Arc<Part>]) -> Result<Option<ObjectChecksum>, Refusal> {
    check_stated(complete, parts)?;
    let digests: Option<Vec<_>> = parts.iter().map(|part| Some((part.checksum?, part.size))).collect();
    let Some(whole) = digests.and_then(ObjectChecksum::joined) else { return Ok(None) };
    if complete.checksum.is_some_and(|expected| expected.checksum.algorithm() == ChecksumAlgorithm::DEFAULT) {
        check_expected(complete, &whole)?;
    }
    Ok(Some(whole))
}

/// The checksum that the upload's algorithm and type give, compared with what the client states. As in S3, a composite
/// one is first computed from what the client states of the parts.
fn object_checksum(
    algorithm: ChecksumAlgorithm,
    kind: ChecksumType,
    complete: &Complete,
    parts: &[Arc<Part>],
) -> Result<ObjectChecksum, Refusal> {
    let mut digests = Vec::with_capacity(parts.len());
    for (stated, part) in complete.parts.iter().zip(parts) {
        let number = stated.number;
        let missing = ChecksumRefusal::Missing { algorithm, number };
        match (kind, stated.checksum) {
            (_, Some(other)) if other.algorithm() != algorithm => {
                return Err(ChecksumRefusal::Part { algorithm: other.algorithm(), number }.into());
            }
            (ChecksumType::Composite, stated) => digests.push((stated.ok_or(missing)?, part.size)),
            (ChecksumType::FullObject, _) => digests.push((part.checksum.ok_or(missing)?, part.size)),
        }
    }
    let whole = match kind {
        ChecksumType::Composite if !consecutive(&complete.parts) => None,
        ChecksumType::Composite => ObjectChecksum::composite(algorithm, digests.iter().map(|(digest, _)| digest)),
        ChecksumType::FullObject => ObjectChecksum::joined(digests),
    };
    let whole = whole.ok_or(Refusal::InvalidPartOrder)?;
    match kind {
        ChecksumType::Composite => check_expected(complete, &whole).and_then(|()| check_stated(complete, parts))?,
        ChecksumType::FullObject => check_stated(complete, parts).and_then(|()| check_expected(complete, &whole))?,
    }
    Ok(whole)
}

/// Whether the numbers are 1, 2, 3 and so on, as S3 demands of parts with a composite checksum.
fn consecutive(parts: &[CompletePart]) -> bool {
    parts.iter().zip(1..).all(|(part, number)| part.number == number)
}

fn open_upload(view: &dyn View, bucket: BucketId, key: &[u8], id: UploadId) -> Result<Arc<Upload>, Failure> {
    live_bucket(view, bucket)?;
    view.upload(id)?
        .filter(|upload| upload.bucket == bucket && upload.key == key)
        .ok_or(Failure::Refused(Refusal::NoSuchUpload))
}
