//! Conditions of requests on the object that they read or replace. What they mean is said in `objects`.

use crate::outcome::Refusal;
use orcas_checksum::Etag;
use orcas_record::Attributes;

/// `If-Match` or `If-None-Match` of a write or of a source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EtagMatch {
    /// `*`
    Any,
    List(Vec<Etag>),
}

impl EtagMatch {
    pub fn matches(&self, etag: &Etag) -> bool {
        match self {
            Self::Any => true,
            Self::List(list) => list.contains(etag),
        }
    }
}

/// The condition on the destination.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Precondition {
    pub if_match: Option<EtagMatch>,
    /// `If-None-Match: *`
    pub if_none_match_any: bool,
    /// Only deletions and renames have such conditions.
    pub state: Option<Box<StateConditions>>,
}

impl Precondition {
    pub fn is_none(&self) -> bool {
        self.if_match.is_none() && !self.if_none_match_any && self.state.is_none()
    }
}

/// Conditions on the size and the time of an object. Times are seconds since the Unix epoch, as HTTP dates carry them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StateConditions {
    /// `x-amz-if-match-last-modified-time`
    pub modified_s: Option<u64>,
    /// `x-amz-if-match-size`, bytes.
    pub size: Option<u64>,
    pub if_modified_since_s: Option<u64>,
    pub if_unmodified_since_s: Option<u64>,
}

/// The parts of its source that the sender of a copy or a move may not hand over: a source that has one is refused.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Withheld {
    pub tags: bool,
    pub annotations: bool,
}

impl Withheld {
    /// # Errors
    /// [`Refusal::Withheld`]
    pub fn check(self, source: &Attributes) -> Result<(), Refusal> {
        match (self.tags && !source.tags.is_empty(), self.annotations && !source.annotations.is_empty()) {
            (false, false) => Ok(()),
            (tags, _) => Err(Refusal::Withheld { tags }),
        }
    }
}

/// The conditions on the source of a copy or move.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceConditions {
    pub kind: SourceKind,
    pub if_match: Option<EtagMatch>,
    pub if_none_match: Option<EtagMatch>,
    /// Milliseconds since the Unix epoch, whole seconds.
    pub if_modified_since_ms: Option<u64>,
    pub if_unmodified_since_ms: Option<u64>,
    pub withheld: Withheld,
}

/// Under which headers the conditions were sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SourceKind {
    /// `x-amz-copy-source-if-…`, also those of the move extension.
    #[default]
    Copy,
    /// `x-amz-rename-source-if-…`
    Rename,
    /// Under none: the source was found by its content, and may be in a layer that clients cannot name.
    Found,
}
