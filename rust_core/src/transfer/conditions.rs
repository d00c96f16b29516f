//! Preconditions on their way from the request to the decision: the S3 grammar on one side, the engine's on the other.

use crate::decide::{EtagMatch, Precondition};
use crate::s3::conditions::WriteCondition;

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
