//! Copies of several objects that happen together: one decision, and so one batch of the log.

use std::collections::HashSet;

use crate::buckets::creation::live_bucket;
use crate::decision::{Context, Decision};
use crate::intent::{Copy, CopyEntry, CopyHeaders};
use crate::lengths::records_len;
use crate::limits::{COPIES_MAX, COPIES_RECORDS_LEN_MAX, KEY_LEN_MAX};
use crate::objects::attributes::CopyAttributes;
use crate::objects::conditions::{EtagMatch, Precondition, SourceConditions};
use crate::objects::writes::copy;
use crate::outcome::{Failure, Outcome, Refusal};
use crate::view::View;
use orcas_checksum::Etag;
use orcas_record::BucketId;

/// Each entry is decided as a CopyObject on what there was before all of them. The first one that is refused refuses all.
pub(crate) fn copy_objects(
    view: &dyn View,
    context: &Context,
    (source, bucket): (BucketId, BucketId),
    entries: Vec<CopyEntry>,
) -> Result<Decision, Failure> {
    // Owners share no content.
    if live_bucket(view, source)?.owner != live_bucket(view, bucket)?.owner {
        let reason = "Objects can be copied together only between buckets of one owner.";
        return Err(Refusal::InvalidRequest { reason }.into());
    }
    let too_many = || Err(Refusal::TooManyObjects { limit: COPIES_MAX }.into());
    if entries.len() > COPIES_MAX {
        return too_many();
    }
    let mut keys = HashSet::with_capacity(entries.len());
    let mut records = Vec::with_capacity(entries.len());
    let mut bytes = 0;
    for CopyEntry { from, etag, key, replaces } in entries {
        if key.len() > KEY_LEN_MAX {
            return Err(Refusal::KeyTooLong.into());
        }
        if !keys.insert(key.clone()) {
            let reason = "Of objects that are copied together, no two can have the same key.";
            return Err(Refusal::InvalidRequest { reason }.into());
        }
        let wanted = |etag: Etag| Some(EtagMatch::List(vec![etag]));
        let one = Copy {
            source: (source, from, None),
            source_conditions: SourceConditions { if_match: wanted(etag), ..SourceConditions::default() },
            bucket,
            key,
            modified_ms: None,
            precondition: Precondition {
                if_none_match_any: replaces.is_none(),
                if_match: replaces.and_then(wanted),
                state: None,
            },
            headers: CopyHeaders::default(),
            attributes: CopyAttributes { annotations: true, ..CopyAttributes::default() },
            checksum: None,
        };
        let next_sequence = context.next_sequence + records.len() as u64;
        let decided = copy(view, &Context { next_sequence, ..*context }, one)?.records;
        bytes += records_len(&decided);
        if bytes > COPIES_RECORDS_LEN_MAX {
            return too_many();
        }
        records.extend(decided);
    }
    Ok(Decision { outcome: Outcome::Done, records })
}
