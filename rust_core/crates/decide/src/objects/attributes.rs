//! Changes of the attributes of a version, and the attributes of a copy.

use bytes::Bytes;

use orcas_record::{Annotations, Attributes, BucketId, Encryption, Retention, VersionId};

/// A change of the attributes of one version: of the current one if `version` is `None`.
#[derive(Clone, Debug)]
pub struct UpdateVersion {
    pub bucket: BucketId,
    pub key: Bytes,
    pub version: Option<VersionId>,
    pub change: AttributeChange,
}

#[derive(Clone, Debug)]
pub enum AttributeChange {
    /// Replaces all tags.
    Tags(Vec<(Bytes, Bytes)>),
    /// Replaces the retention, or removes it. `bypass` as in [`Intent::DeleteObject`].
    Retention {
        retention: Option<Retention>,
        bypass: bool,
    },
    LegalHold(bool),
    /// Replaces the access control list `was`, on which it was decided that it may be replaced. Nothing happens to a version
    /// that has another one by now.
    Acl {
        was: Option<Bytes>,
        acl: Option<Bytes>,
    },
}

/// The attributes of a copy. Retention and legal hold of the source do not go with it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyAttributes {
    /// Whether the annotations of the source go with the copy.
    pub annotations: bool,
    /// `Some` for the tagging directive REPLACE.
    pub tags: Option<Vec<(Bytes, Bytes)>>,
    pub retention: Option<Retention>,
    pub legal_hold: Option<bool>,
    /// The encryption that the copy asks for. A copy of an encrypted object is encrypted in any case.
    pub encryption: Option<Encryption>,
    /// The access control list of the copy. That of the source does not go with it.
    pub acl: Option<Bytes>,
}

impl CopyAttributes {
    /// The attributes of the copy of a version with the attributes `source`, made at `now_ms`, in milliseconds since the
    /// Unix epoch.
    pub fn apply_to(&self, source: &Attributes, now_ms: u64) -> Attributes {
        Attributes {
            annotations: if self.annotations { source.annotations.copied_at(now_ms) } else { Annotations::default() },
            tags: self.tags.clone().unwrap_or_else(|| source.tags.clone()),
            retention: self.retention,
            legal_hold: self.legal_hold,
            encryption: self.encryption.clone().or_else(|| source.encryption.clone()),
            acl: self.acl.clone(),
        }
    }
}
