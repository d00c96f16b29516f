//! Conversion of preconditions from the S3 form to the form of the engine.

use orcas_checksum::Etag;
use orcas_decide::{EtagMatch, Precondition, SourceConditions};
use orcas_s3::conditions::{ReadConditions, Tags, WriteCondition};

/// The condition on the destination of a write.
pub fn precondition(condition: &WriteCondition) -> Precondition {
    match condition {
        WriteCondition::Always => Precondition::default(),
        WriteCondition::Absent => Precondition { if_match: None, if_none_match_any: true },
        WriteCondition::Present => Precondition { if_match: Some(EtagMatch::Any), if_none_match_any: false },
        WriteCondition::Matches(etag) => {
            Precondition { if_match: Some(EtagMatch::List(vec![*etag])), if_none_match_any: false }
        }
        WriteCondition::MatchesNothing => {
            Precondition { if_match: Some(EtagMatch::List(Vec::new())), if_none_match_any: false }
        }
    }
}

/// The conditions on the source of a copy or move.
pub fn source_conditions(conditions: &ReadConditions) -> SourceConditions {
    let tags = |tags: &Tags, weak_counts: bool| match tags {
        Tags::Any => EtagMatch::Any,
        Tags::List(list) => EtagMatch::List(
            list.iter().filter(|(weak, _)| weak_counts || !weak).filter_map(|(_, tag)| Etag::parse(tag)).collect(),
        ),
    };
    let time = |seconds: i64| u64::try_from(seconds).unwrap_or(0) * 1000;
    SourceConditions {
        if_match: conditions.if_match.as_ref().map(|list| tags(list, false)),
        if_none_match: conditions.if_none_match.as_ref().map(|list| tags(list, true)),
        if_modified_since_ms: conditions.if_modified_since.map(time),
        if_unmodified_since_ms: conditions.if_unmodified_since.map(time),
    }
}
