//! The kinds of configuration documents that a bucket can have.

/// The configuration documents that a bucket can have: one of each kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[repr(u8)]
pub enum DocumentKind {
    Cors = 1,
    Tagging = 2,
    RequestPayment = 3,
    OwnershipControls = 4,
    Accelerate = 5,
    PublicAccessBlock = 6,
    Lifecycle = 7,
    Website = 8,
    Encryption = 9,
    Notification = 10,
    Logging = 11,
    /// No S3 operation reads or writes it.
    Quota = 12,
    /// The bucket policy, as JSON. The others are XML.
    Policy = 13,
    Acl = 14,
    Replication = 15,
}

impl DocumentKind {
    pub const ALL: [Self; 15] = [
        Self::Cors,
        Self::Tagging,
        Self::RequestPayment,
        Self::OwnershipControls,
        Self::Accelerate,
        Self::PublicAccessBlock,
        Self::Lifecycle,
        Self::Website,
        Self::Encryption,
        Self::Notification,
        Self::Logging,
        Self::Quota,
        Self::Policy,
        Self::Acl,
        Self::Replication,
    ];

    pub fn code(self) -> u8 {
        self as u8
    }

    pub fn from_code(code: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.code() == code)
    }
}

/// Bytes of the largest configuration document.
pub const DOCUMENT_MAX: usize = 1 << 20;
