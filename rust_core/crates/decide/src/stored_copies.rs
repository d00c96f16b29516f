//! Copies whose bytes were stored again: between owners, and where only one of source and copy is encrypted. They count
//! only if the source is still what was read.

use super::decision::{Context, Decision};
use super::intent::{PutObject, StoredCopy, StoredInto};
use super::objects::{self, source};
use super::outcome::{Failure, Refusal};
use super::uploads;
use super::view::View;

pub(super) fn stored_copy(view: &dyn View, context: &Context, copy: StoredCopy) -> Result<Decision, Failure> {
    let source = source(view, &copy.source, &copy.source_conditions)?;
    if source.sequence != copy.source_sequence {
        return Err(Refusal::SourceChanged.into());
    }
    match copy.into {
        StoredInto::Object { put, attributes } => {
            let of_source = &source.version.attributes;
            // Their texts were not stored again.
            if attributes.annotations && !of_source.annotations.is_empty() {
                return Err(Refusal::AnnotationsNotCopied.into());
            }
            let attributes = attributes.apply_to(of_source, context.now_ms);
            objects::put(view, context, PutObject { attributes, ..*put })
        }
        StoredInto::Part(part) => uploads::put_part(view, context, *part),
    }
}
