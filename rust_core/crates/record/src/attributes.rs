//! The attributes of a version that may change after it was stored: tags, annotations, retention, legal hold, ACL and
//! encryption. And the Object Lock of a bucket.

use std::sync::Arc;

use bytes::Bytes;

use super::annotations::Annotations;

/// The attributes of a version. Most versions have none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attributes {
    /// Keys and values, in the order sent; no key twice.
    pub tags: Vec<(Bytes, Bytes)>,
    pub retention: Option<Retention>,
    /// The legal hold, on or off; `None` if there never was one.
    pub legal_hold: Option<bool>,
    pub annotations: Annotations,
    /// How its content is encrypted at rest, if it is. Then all its blobs are sealed.
    pub encryption: Option<Encryption>,
    /// The access control list, in the form in which S3 answers it. `None` for most: the owner of the bucket owns the
    /// version, and nobody else is given anything.
    pub acl: Option<Bytes>,
}

/// The keys that encrypt content.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// Keys of the server (SSE-S3).
    Managed,
    /// A named key of the keyring (SSE-KMS).
    Named(Arc<NamedKey>),
    /// A key of the customer, which is not stored (SSE-C).
    Customer(Arc<KeyCheck>),
}

/// Which key of the keyring encrypts content, and what that is bound to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedKey {
    pub id: [u8; 16],
    /// The encryption context, as the client sent it: JSON, or nothing. Content opens only with the very same bytes.
    pub context: Bytes,
    /// Whether the request asked for a bucket key.
    pub bucket_key: bool,
}

/// The check by which the key of a customer is recognised.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyCheck {
    pub salt: [u8; 16],
    pub mac: [u8; 32],
}

impl Encryption {
    /// Whether an object that is encrypted like `this` can name the blobs of one that is encrypted like `other`. Nothing
    /// shares with what a customer's key encrypts.
    pub fn shares(this: Option<&Self>, other: Option<&Self>) -> bool {
        match (this, other) {
            (None, None) | (Some(Self::Managed), Some(Self::Managed)) => true,
            (Some(Self::Named(this)), Some(Self::Named(other))) => this.id == other.id && this.context == other.context,
            _ => false,
        }
    }

    /// Whether nothing that is stored of the content may be a digest of it that anybody could compute.
    pub fn hides_digests(&self) -> bool {
        !matches!(self, Self::Managed)
    }

    /// The part of a checksum that may be stored of content that is encrypted like `this`. Short content follows from
    /// its checksum.
    pub fn storable<T>(this: Option<&Self>, checksum: Option<T>) -> Option<T> {
        checksum.filter(|_| !this.is_some_and(Self::hides_digests))
    }
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
    /// The retention of new versions that state none of their own.
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
