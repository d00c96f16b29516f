//! The requirements of an intent: room on the disk and in a batch, durability, the birth of packs.

use super::intent::{AnnotationChange, Body, Intent, PlacedChunk, StoredInto, StoredText};
use orcas_record::{BucketId, Durability, PackId};

/// Whether the intent needs room for bytes that were not there before. Copies and deletions go on when the disk is
/// nearly full: they bring records of a few hundred bytes into space that is reserved, unless [`may_be_long`].
pub fn adds_content(intent: &Intent) -> bool {
    matches!(
        intent,
        Intent::PutObject(_)
            | Intent::AppendObject(_)
            | Intent::PutPart(_)
            | Intent::StoredCopy(_)
            | Intent::SealStored(..)
            | Intent::CreateBucket { .. }
            | Intent::CreateUpload { .. }
    ) || annotation(intent).is_some()
}

/// Bytes of records below which a decision needs no room.
pub const SMALL_RECORDS_LEN: usize = 64 << 10;

/// Whether the intent adds no content, but may make records that are as large as some: of an object with many annotations
/// or parts, or of many objects. Deletions are not among these: they make room.
pub fn may_be_long(intent: &Intent) -> bool {
    matches!(
        intent,
        Intent::CopyObject(_)
            | Intent::CopyObjects { .. }
            | Intent::CopyPart(_)
            | Intent::UpdateVersion(_)
            | Intent::MoveObject(_)
            | Intent::MoveOnce { .. }
            | Intent::MovePrefix(..)
    )
}

/// Whether no quota keeps the intent from happening: it removes something, though it may add delete markers, it replaces
/// content by as much, or it only changes attributes, which makes another version of what a frozen layer has.
pub fn frees(intent: &Intent) -> bool {
    matches!(
        intent,
        Intent::DeleteObject { .. }
            | Intent::DeleteObjects { .. }
            | Intent::Expire(_)
            | Intent::AbortUpload { .. }
            | Intent::SealStored(..)
            | Intent::UpdateVersion(_)
    ) || matches!(intent, Intent::Annotate(annotate) if matches!(annotate.change, AnnotationChange::Delete { .. }))
}

/// The bucket in which the intent may add versions or bytes. That of a fork, for the fork itself: it has the same quotas.
pub fn adds_to(intent: &Intent) -> Option<BucketId> {
    match intent {
        Intent::PutObject(put) => Some(put.bucket),
        Intent::AppendObject(append) => Some(append.put.bucket),
        Intent::PutPart(put) => Some(put.bucket),
        Intent::CopyObject(copy) => Some(copy.bucket),
        Intent::CopyObjects { bucket, .. } => Some(*bucket),
        Intent::CopyPart(copy) => Some(copy.bucket),
        Intent::StoredCopy(copy) => Some(match &copy.into {
            StoredInto::Object { put, .. } => put.bucket,
            StoredInto::Part(put) => put.bucket,
        }),
        Intent::CompleteUpload(complete) => Some(complete.bucket),
        Intent::MoveObject(moved) | Intent::MoveOnce { moved, .. } => Some(moved.bucket),
        Intent::MovePrefix(moved, _) => Some(moved.bucket),
        Intent::ForkBucket { bucket, .. } | Intent::RestoreBucket { bucket, .. } => Some(*bucket),
        Intent::Annotate(annotate) => annotation(intent).map(|_| annotate.bucket),
        Intent::CreateBucket { .. }
        | Intent::DeleteBucket { .. }
        | Intent::DropBucket { .. }
        | Intent::UpdateBucket { .. }
        | Intent::PutDocument { .. }
        | Intent::CreateSnapshot { .. }
        | Intent::DeleteSnapshot { .. }
        | Intent::UpdateVersion(_)
        | Intent::DeleteObject { .. }
        | Intent::DeleteObjects { .. }
        | Intent::Expire(_)
        | Intent::SealStored(..)
        | Intent::CreateUpload { .. }
        | Intent::AbortUpload { .. } => None,
    }
}

/// Whether the intent gives buckets other layers.
pub fn reshapes(intent: &Intent) -> bool {
    matches!(intent, Intent::ForkBucket { .. } | Intent::RestoreBucket { .. })
}

/// The text of an annotation that the intent writes.
fn annotation(intent: &Intent) -> Option<&Body> {
    match intent {
        Intent::Annotate(annotate) => match &annotate.change {
            AnnotationChange::Put { body, .. } => Some(body),
            AnnotationChange::Delete { .. } => None,
        },
        _ => None,
    }
}

/// Bytes of body that an intent brings into the log.
pub fn body_bytes(intent: &Intent) -> u64 {
    let of = |body: &Body| match body {
        Body::Inline(bytes) | Body::Content { bytes, .. } => bytes.len() as u64,
        Body::Chunks(_) => 0,
    };
    if let Intent::SealStored(_, blobs) = intent {
        return blobs.iter().map(of).sum();
    }
    body(intent).or_else(|| annotation(intent)).map_or(0, of)
        + texts(intent).iter().map(|text| of(&text.body)).sum::<u64>()
}

/// The texts of the annotations that a copy takes along.
fn texts(intent: &Intent) -> &[StoredText] {
    match intent {
        Intent::StoredCopy(copy) => match &copy.into {
            StoredInto::Object { annotations, .. } => &annotations.texts,
            StoredInto::Part(_) => &[],
        },
        _ => &[],
    }
}

/// The body that becomes content of an object or a part.
fn body(intent: &Intent) -> Option<&Body> {
    match intent {
        Intent::PutObject(put) => Some(&put.body),
        Intent::AppendObject(append) => Some(&append.put.body),
        Intent::PutPart(put) => Some(&put.body),
        Intent::StoredCopy(copy) => Some(match &copy.into {
            StoredInto::Object { put, .. } => &put.body,
            StoredInto::Part(put) => &put.body,
        }),
        _ => None,
    }
}

/// Packs that chunks of the body were written to.
pub fn new_packs(intent: &Intent) -> Vec<PackId> {
    let of = |body: &Body| match body {
        Body::Chunks(chunks) => chunks.iter().filter_map(PlacedChunk::new_pack).collect(),
        Body::Inline(_) | Body::Content { .. } => Vec::new(),
    };
    if let Intent::SealStored(_, blobs) = intent {
        return blobs.iter().flat_map(of).collect();
    }
    body(intent).into_iter().chain(texts(intent).iter().map(|text| &text.body)).flat_map(of).collect()
}

/// How durable the intent must be before it is acknowledged, given the mode of each bucket.
pub fn durability(intent: &Intent, of_bucket: impl Fn(BucketId) -> Durability) -> Durability {
    let of_body = |bucket, body: &Body| match body {
        Body::Chunks(_) => Durability::Sync,
        Body::Inline(_) | Body::Content { .. } => of_bucket(bucket),
    };
    match intent {
        Intent::CreateBucket { .. }
        | Intent::DeleteBucket { .. }
        | Intent::DropBucket { .. }
        | Intent::UpdateBucket { .. }
        | Intent::PutDocument { .. }
        | Intent::CreateSnapshot { .. }
        | Intent::DeleteSnapshot { .. }
        | Intent::ForkBucket { .. }
        | Intent::RestoreBucket { .. }
        | Intent::UpdateVersion(_)
        | Intent::CopyObjects { .. }
        | Intent::MovePrefix(..)
        | Intent::SealStored(..)
        | Intent::CompleteUpload(_) => Durability::Sync,
        Intent::PutObject(put) => of_body(put.bucket, &put.body),
        Intent::AppendObject(append) => of_body(append.put.bucket, &append.put.body),
        Intent::PutPart(put) => of_body(put.bucket, &put.body),
        Intent::Annotate(annotate) => of_bucket(annotate.bucket),
        Intent::DeleteObject { bucket, .. }
        | Intent::DeleteObjects { bucket, .. }
        | Intent::CreateUpload { bucket, .. }
        | Intent::AbortUpload { bucket, .. } => of_bucket(*bucket),
        Intent::Expire(expire) => of_bucket(expire.bucket),
        Intent::CopyObject(copy) => of_bucket(copy.bucket),
        Intent::CopyPart(copy) => of_bucket(copy.bucket),
        Intent::StoredCopy(copy) => match &copy.into {
            StoredInto::Object { put, annotations, .. } => {
                let texts = annotations.texts.iter().map(|text| of_body(put.bucket, &text.body));
                texts.fold(of_body(put.bucket, &put.body), Durability::max)
            }
            StoredInto::Part(put) => of_body(put.bucket, &put.body),
        },
        Intent::MoveObject(moved) | Intent::MoveOnce { moved, .. } => {
            of_bucket(moved.from_bucket).max(of_bucket(moved.bucket))
        }
    }
}
