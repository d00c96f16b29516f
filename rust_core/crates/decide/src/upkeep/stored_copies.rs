//! Copies whose bytes were stored again: between owners, and where source and copy are not encrypted alike. They count
//! only if the source is still what was read.

use crate::decision::{Context, Decision};
use crate::intent::{PutObject, StoredAnnotations, StoredCopy, StoredInto};
use crate::objects::annotations::in_one_piece;
use crate::objects::manifest::Draft;
use crate::objects::uploads;
use crate::objects::writes::{self, source};
use crate::outcome::{Failure, Refusal};
use crate::view::View;
use orcas_base::error::{Error, Result};
use orcas_record::{Annotation, Annotations, Encryption};

pub(crate) fn stored_copy(view: &dyn View, context: &Context, copy: StoredCopy) -> Result<Decision, Failure> {
    let source = source(view, &copy.source, &copy.source_conditions)?;
    if source.sequence != copy.source_sequence {
        return Err(Refusal::SourceChanged.into());
    }
    match copy.into {
        StoredInto::Object { put, attributes, annotations: stored } => {
            let of_source = &source.version.attributes;
            let mut attributes = attributes.apply_to(of_source, context.now_ms);
            let mut draft = Draft::new(context.next_sequence);
            if !attributes.annotations.is_empty() {
                // Annotations change without their version.
                if of_source.annotations != stored.found {
                    return Err(Refusal::SourceChanged.into());
                }
                let (encryption, now_ms) = (attributes.encryption.as_ref(), context.now_ms);
                attributes.annotations = annotations(view, &mut draft, stored, encryption, now_ms)?;
            }
            writes::put_with(view, context, draft, PutObject { attributes, ..*put })
        }
        StoredInto::Part(part) => uploads::put_part(view, context, *part),
    }
}

fn annotations(
    view: &dyn View,
    draft: &mut Draft,
    stored: StoredAnnotations,
    encryption: Option<&Encryption>,
    modified_ms: u64,
) -> Result<Annotations> {
    const UNFIT: Error = Error::Record { reason: "what was stored again is not the annotations of its version" };
    let StoredAnnotations { found, texts } = stored;
    if found.as_slice().len() != texts.len() {
        return Err(UNFIT);
    }
    let mut list = Vec::with_capacity(texts.len());
    for (annotation, stored) in found.as_slice().iter().zip(texts) {
        let text = in_one_piece(draft.store(view, stored.body, encryption)?)?;
        if text.length() != annotation.size() {
            return Err(UNFIT);
        }
        let checksum = Encryption::storable(encryption, stored.checksum);
        list.push(Annotation { name: annotation.name.clone(), modified_ms, md5: stored.md5, checksum, text });
    }
    Annotations::from_sorted(list).ok_or(UNFIT)
}
