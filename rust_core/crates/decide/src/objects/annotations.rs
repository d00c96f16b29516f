//! Annotations: writing and removing one of a version. They are attributes, so a change is decided on what the version
//! has now: none is lost to another change, and the limit on their number is exact.
//!
//! A removal is bound by Object Lock as that of the version is. Writing is not: annotations may be added to a locked
//! version and replaced (DeleteObjectAnnotation and PutObjectAnnotation, Amazon S3 API reference).

use crate::buckets::creation::live_bucket;
use crate::buckets::layers::changed;
use crate::decision::{Context, Decision};
use crate::intent::{Annotate, AnnotationChange};
use crate::objects::locks;
use crate::objects::manifest::Draft;
use crate::objects::versions::{named_for_change, shown};
use crate::outcome::{Failure, Outcome, Refusal};
use crate::view::View;
use orcas_base::error::{Error, Result};
use orcas_checksum::Etag;
use orcas_record::{Annotation, Attributes, Encryption, Extent};

pub(crate) fn annotate(view: &dyn View, context: &Context, annotate: Annotate) -> Result<Decision, Failure> {
    let Annotate { bucket, key, version, name, if_match, change } = annotate;
    let bucket = live_bucket(view, bucket)?;
    let found = named_for_change(view, &bucket, &key, version)?;
    if if_match.is_some_and(|wanted| !wanted.matches(&found.version.etag)) {
        return Err(Refusal::PreconditionFailed { condition: "x-amz-object-if-match" }.into());
    }
    let before = &found.version.attributes;
    let version = shown(&bucket, found.version.version_id);
    let mut draft = Draft::new(context.next_sequence);
    let (outcome, annotations) = match change {
        AnnotationChange::Put { md5, checksum, body, encryption } => {
            if !Encryption::shares(encryption.as_ref(), before.encryption.as_ref()) {
                // Whoever stored the text saw another object.
                return Err(Refusal::EncryptionDiffers.into());
            }
            let text = in_one_piece(draft.store(view, *body, encryption.as_ref())?)?;
            let modified_ms = context.now_ms;
            let checksum = Encryption::storable(encryption.as_ref(), checksum);
            let with = before.annotations.with(Annotation { name, modified_ms, md5, checksum, text });
            let etag = Etag { md5, parts: 0 };
            (Outcome::Annotated { version, etag, checksum }, with.ok_or(Refusal::TooManyAnnotations)?)
        }
        AnnotationChange::Delete { bypass } => {
            let outcome = Outcome::Updated(version);
            if before.annotations.get(&name).is_none() {
                return Ok(Decision::without_records(outcome));
            }
            locks::check_removal(&found.version, bypass, context.now_ms)?;
            (outcome, before.annotations.filtered(|annotation| annotation.name != name))
        }
    };
    draft.push(changed(&bucket, &found, Attributes { annotations, ..before.clone() }));
    Ok(Decision { outcome, records: draft.into_records() })
}

/// The place of a text.
pub(crate) fn in_one_piece(stored: Vec<Extent>) -> Result<Extent> {
    let [text] = <[_; 1]>::try_from(stored)
        .map_err(|_| Error::Record { reason: "the text of an annotation is not in one piece" })?;
    Ok(text)
}
