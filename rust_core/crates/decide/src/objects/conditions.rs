//! Conditions of requests on the object that they read or replace. What they mean is said in `objects`.

use orcas_checksum::Etag;

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

/// What must hold of the destination.
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

/// What must hold of the source of a copy or move.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SourceConditions {
    pub kind: SourceKind,
    pub if_match: Option<EtagMatch>,
    pub if_none_match: Option<EtagMatch>,
    /// Milliseconds since the Unix epoch, whole seconds.
    pub if_modified_since_ms: Option<u64>,
    pub if_unmodified_since_ms: Option<u64>,
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
