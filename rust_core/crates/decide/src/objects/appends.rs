//! Object appends: the new version names the content of the one before, and what was sent.

use crate::buckets::creation::live_bucket;
use crate::buckets::layers;
use crate::decision::{Context, Decision};
use crate::intent::{Body, ObjectAppend, PutObject};
use crate::limits::{OBJECT_PARTS_MAX, OBJECT_SIZE_MAX};
use crate::objects::locks;
use crate::objects::manifest::Draft;
use crate::objects::versions;
use crate::objects::writes::{self, evaluate};
use crate::outcome::{ChecksumRefusal, Failure, Refusal};
use crate::view::View;
use orcas_base::planted::{self, Bug};
use orcas_checksum::ObjectChecksum;
use orcas_record::{Attributes, Encryption, Extent, INLINE_MAX, Version};

/// The body of an object append is a content, however small it is: only a content can become part of a segment.
pub(crate) fn append(view: &dyn View, context: &Context, append: ObjectAppend) -> Result<Decision, Failure> {
    let ObjectAppend { put, offset, user_metadata, .. } = &append;
    let bucket = live_bucket(view, put.bucket)?;
    let current = layers::object(view, &bucket, &put.key)?;
    evaluate(current.as_deref(), &put.precondition)?;
    let size = current.as_ref().map_or(0, |current| current.version.size);
    if *offset != size && !planted::is(Bug::AppendOnStaleLength) {
        return Err(Refusal::InvalidWriteOffset { size }.into());
    }
    let Some(current) = current else {
        let body = inline_if_small(append.put.body);
        return writes::put(view, context, PutObject { body, ..append.put });
    };
    locks::check_new(&bucket, &put.attributes, context.now_ms)?;
    let before = &current.version;
    check_metadata(put, *user_metadata, before)?;
    let size = before.size.saturating_add(put.size);
    if size > OBJECT_SIZE_MAX {
        return Err(Refusal::EntityTooLarge { size }.into());
    }
    let parts = before.etag.parts.max(1);
    if parts >= OBJECT_PARTS_MAX {
        return Err(Refusal::TooManyParts.into());
    }
    let checksum = joined(before, &append)?;
    let PutObject { key, md5, attributes, body, .. } = append.put;
    let mut draft = Draft::new(context.next_sequence);
    let manifest = match short(&before.manifest, &body) {
        Some(manifest) => manifest,
        None => {
            let next = draft.store(view, body, before.attributes.encryption.as_ref())?;
            draft.appended(view, &before.manifest, next)?
        }
    };
    let version = Version {
        bucket: bucket.top(),
        key,
        version_id: versions::new_id(&bucket, context, draft.next_sequence()),
        delete_marker: false,
        modified_ms: context.now_ms,
        size,
        etag: before.etag.appended(&md5),
        sha256: None,
        checksum,
        headers: before.headers.clone(),
        // A lock does not go with the content, as it does not go with a copy.
        attributes: Attributes {
            tags: before.attributes.tags.clone(),
            annotations: before.attributes.annotations.clone(),
            encryption: before.attributes.encryption.clone(),
            ..attributes
        },
        parts: Vec::new(),
        manifest,
    };
    Ok(writes::put_version(context, &bucket, draft, version))
}

/// The metadata, the tags and the encryption of an object stay what they are.
fn check_metadata(put: &PutObject, user_metadata: bool, before: &Version) -> Result<(), Refusal> {
    // The object was sealed while the body arrived.
    if put.attributes.encryption.is_none() && before.attributes.encryption == Some(Encryption::Managed) {
        return Err(Refusal::SourceChanged);
    }
    let reason = if !Encryption::shares(put.attributes.encryption.as_ref(), before.attributes.encryption.as_ref()) {
        "The encryption of what is appended must be that of the object."
    } else if user_metadata {
        "Cannot specify both a write offset value and user-defined object metadata for existing objects."
    } else if !put.attributes.tags.is_empty() {
        "Cannot specify both a write offset value and tags for existing objects."
    } else {
        return Ok(());
    };
    Err(Refusal::InvalidRequest { reason })
}

fn inline_if_small(body: Body) -> Body {
    match body {
        Body::Content { bytes, seal: None, .. } if bytes.len() <= INLINE_MAX => Body::Inline(bytes),
        body => body,
    }
}

/// The manifest of content that is short enough to be copied into it.
fn short(before: &[Extent], body: &Body) -> Option<Vec<Extent>> {
    let (Body::Content { bytes, seal: None, .. } | Body::Inline(bytes)) = body else { return None };
    let start = match before {
        [] => &[][..],
        [Extent::Inline(start)] => start,
        _ => return None,
    };
    (start.len() + bytes.len() <= INLINE_MAX).then(|| vec![Extent::Inline([start, bytes].concat().into())])
}

/// The checksum of the whole. As in S3, one that the client declares has the algorithm of the object's. `None` if the
/// object has none that covers it, or one that does not follow from those of its parts.
fn joined(before: &Version, append: &ObjectAppend) -> Result<Option<ObjectChecksum>, Refusal> {
    let Some(whole) = before.checksum.filter(|whole| whole.parts == 0) else { return Ok(None) };
    let expected = whole.checksum.algorithm();
    if let Some(actual) = append.declared.filter(|declared| *declared != expected) {
        return Err(ChecksumRefusal::Algorithm { expected, actual: Some(actual) }.into());
    }
    if !expected.joins() {
        return Ok(None);
    }
    // Computed in the algorithm that the object had when the request came.
    let next = append.put.checksum.filter(|next| next.algorithm() == expected).ok_or(Refusal::SourceChanged)?;
    Ok(whole.checksum.join(&next, append.put.size).map(ObjectChecksum::full))
}
