//! What of a version may change after it was stored: tags, annotations, retention, legal hold and encryption. And the
//! Object Lock of a bucket.

use bytes::Bytes;

use super::annotations::Annotations;

/// The attributes of a version. Most versions have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Keys and values, in the order sent; no key twice.
    pub tags: Vec<(Bytes, Bytes)>,
    pub retention: Option<Retention>,
    /// On or off; `None` if there never was one.
    pub legal_hold: Option<bool>,
    pub annotations: Annotations,
    /// How its content is encrypted at rest, if it is. Then all its blobs are sealed.
    pub encryption: Option<Encryption>,
}

/// Whose keys encrypt content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// Keys of the server (SSE-S3).
    Managed,
}

/// Until when a version must be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    pub mode: RetentionMode,
    /// Milliseconds since the Unix epoch.
    pub until_ms: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RetentionMode {
    /// May be bypassed by who is allowed to.
    Governance,
    Compliance,
}

/// The Object Lock configuration of a bucket that has it enabled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ObjectLock {
    /// For new versions that state no retention of their own.
    pub default: Option<DefaultRetention>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DefaultRetention {
    pub mode: RetentionMode,
    pub period: Period,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Period {
    Days(u32),
    Years(u32),
}
