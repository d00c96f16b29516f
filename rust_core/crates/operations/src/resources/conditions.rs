//! Conversion of preconditions from the S3 form to the form of the engine.

use bytes::Bytes;

use orcas_bodies::problem::Problem;
use orcas_checksum::Etag;
use orcas_decide::{EtagMatch, Precondition, SourceConditions, SourceKind, StateConditions, Withheld};
use orcas_engine::Handle;
use orcas_record::Bucket;
use orcas_s3::conditions::{DeleteCondition, ETagList, ReadConditions, RenameCondition, WriteCondition};
use orcas_s3::{ErrorCode, S3Error};

/// The condition on the destination of a write.
pub fn precondition(condition: &WriteCondition) -> Precondition {
    let if_match = match condition {
        WriteCondition::Always | WriteCondition::Absent => None,
        WriteCondition::Present => Some(EtagMatch::Any),
        WriteCondition::Matches(etag) => Some(EtagMatch::List(vec![*etag])),
        WriteCondition::MatchesNothing => Some(EtagMatch::List(Vec::new())),
    };
    Precondition { if_match, if_none_match_any: *condition == WriteCondition::Absent, state: None }
}

/// Refuses a write whose condition fails already, before its body is sent. The engine checks the condition again.
pub fn check_early(engine: &Handle, condition: &WriteCondition, bucket: &Bucket, key: &Bytes) -> Result<(), Problem> {
    if *condition == WriteCondition::Always {
        return Ok(());
    }
    let Some(found) = engine.try_object_in(bucket, key) else { return Ok(()) };
    let etag = found.as_ref().map(|found| &found.object.version.etag);
    condition.judge(etag).map_err(|code| match (code, condition) {
        (ErrorCode::PreconditionFailed, WriteCondition::Absent) => S3Error::precondition("If-None-Match").into(),
        (ErrorCode::PreconditionFailed, _) => S3Error::precondition("If-Match").into(),
        (code, _) => Problem::from(code),
    })
}

/// The conditions on an object that is to be deleted.
pub fn of_deletion(condition: &DeleteCondition) -> Precondition {
    let DeleteCondition { tag, modified, size } = condition;
    let state = StateConditions { modified_s: modified.map(seconds), size: *size, ..StateConditions::default() };
    with_state(tag, state)
}

/// The conditions on the destination of a rename.
pub fn of_rename(condition: &RenameCondition) -> Precondition {
    let RenameCondition { tag, if_modified_since, if_unmodified_since } = condition;
    let state = StateConditions {
        if_modified_since_s: if_modified_since.map(seconds),
        if_unmodified_since_s: if_unmodified_since.map(seconds),
        ..StateConditions::default()
    };
    with_state(tag, state)
}

fn with_state(tag: &WriteCondition, state: StateConditions) -> Precondition {
    let state = (state != StateConditions::default()).then(|| Box::new(state));
    Precondition { state, ..precondition(tag) }
}

/// Nothing here is older than the epoch.
fn seconds(time: i64) -> u64 {
    u64::try_from(time).unwrap_or(0)
}

/// The conditions on the source of a copy or move.
pub fn source_conditions(conditions: &ReadConditions) -> SourceConditions {
    let tags = |tags: &ETagList, weak_counts: bool| match tags {
        ETagList::Any => EtagMatch::Any,
        ETagList::List(list) => EtagMatch::List(
            list.iter().filter(|(weak, _)| weak_counts || !weak).filter_map(|(_, tag)| Etag::parse(tag)).collect(),
        ),
    };
    let time = |time: i64| seconds(time) * 1000;
    SourceConditions {
        kind: SourceKind::Copy,
        if_match: conditions.if_match.as_ref().map(|list| tags(list, false)),
        if_none_match: conditions.if_none_match.as_ref().map(|list| tags(list, true)),
        if_modified_since_ms: conditions.if_modified_since.map(time),
        if_unmodified_since_ms: conditions.if_unmodified_since.map(time),
        withheld: Withheld::default(),
    }
}
