//! The permissions of headers: whoever sends a header that stores something, or passes over a lock, needs its action,
//! whichever operation takes it. One list, so that a new operation cannot forget one. Fields of a form and the document of
//! a body count as the headers that they stand for.

use super::extensions::{CHUNK_SIZE, CHUNKING, DURABILITY, KEEP_SHA256, REF_LEVEL, REPLICA_TIME};
use super::operations::{Operation, Subject, manages_permissions};
use super::support::may_give_by_acl;
use crate::objects::object_lock::{HOLD, MODE, UNTIL, asks_to_bypass};
use crate::objects::tags;
use orcas_http::Headers;

/// What stands for the region in the document of a new bucket: no header.
pub const LOCATION: &str = "location-constraint";
/// The headers that a body stands for, in the operations of [`Operation::body_asks`].
pub const OF_A_BODY: [&str; 5] = [tags::HEADER, MODE, UNTIL, HOLD, LOCATION];

/// The actions that a header needs beside those of its operation: of objects, or of a bucket. None for what everybody may
/// send who may do the operation.
pub fn actions_of(name: &[u8], of_bucket: bool) -> &'static [&'static str] {
    let Some(rest) = name.strip_prefix(b"x-amz-") else { return &[] };
    match rest {
        b"tagging" if of_bucket => &["s3:TagResource"],
        b"tagging" => &["s3:PutObjectTagging"],
        b"meta-orcas-replica" if !of_bucket => &["s3:ReplicateObject"],
        _ if name == REPLICA_TIME.as_bytes() && !of_bucket => &["s3:ReplicateObject"],
        b"acl" | b"grant-full-control" | b"grant-read" | b"grant-read-acp" | b"grant-write" | b"grant-write-acp" => {
            if of_bucket {
                &["s3:PutBucketAcl"]
            } else {
                &["s3:PutObjectAcl"]
            }
        }
        b"object-lock-mode" | b"object-lock-retain-until-date" => &["s3:PutObjectRetention"],
        b"object-lock-legal-hold" => &["s3:PutObjectLegalHold"],
        b"bypass-governance-retention" => &["s3:BypassGovernanceRetention"],
        b"bucket-object-lock-enabled" => &["s3:PutBucketObjectLockConfiguration", "s3:PutBucketVersioning"],
        b"object-ownership" => &["s3:PutBucketOwnershipControls"],
        _ if rest.starts_with(b"orcas-")
            && [CHUNK_SIZE, DURABILITY, REF_LEVEL, CHUNKING, KEEP_SHA256].iter().any(|it| it.as_bytes() == name) =>
        {
            &["orcas:PutBucketSettings"]
        }
        _ => &[],
    }
}

impl Operation {
    /// Whether its body says what conditions of policies ask about, or what needs an action of its own. It is authorized
    /// again then, with the headers that its body stands for.
    pub fn body_asks(self) -> bool {
        matches!(
            self,
            Self::CreateBucket | Self::PutObjectTagging | Self::PutObjectRetention | Self::PutObjectLegalHold
        )
    }

    /// The actions that headers need beside those of the row. `counts`: whether the operation takes the header of this
    /// name; S3 passes over others. They are about what the first action of the row is about.
    pub fn actions_of_headers<'h>(
        self,
        headers: &'h Headers<'_>,
        counts: impl Fn(&[u8]) -> bool + 'h,
    ) -> impl Iterator<Item = &'static str> + 'h {
        let permissions = self.spec().permissions;
        let of_bucket = permissions[0].subject == Subject::Bucket;
        let needed = move |name: &[u8]| match actions_of(name, of_bucket) {
            [] => &[],
            // A header that may say that it is not there. One that cannot be read counts.
            ["s3:BypassGovernanceRetention"] if !asks_to_bypass(headers).unwrap_or(true) => &[],
            // A new bucket is private anyway. On S3, an object that is to be private needs the action nevertheless.
            ["s3:PutBucketAcl"] if !may_give_by_acl(headers) => &[],
            // Metadata, which every operation takes that stores an object.
            actions @ ["s3:ReplicateObject"] if name.starts_with(b"x-amz-meta-") => actions,
            actions if counts(name) => actions,
            _ => &[],
        };
        let in_row = move |action: &&str| permissions.iter().any(|it| it.part.is_none() && it.actions.contains(action));
        headers.iter().flat_map(move |(name, _)| needed(name)).copied().filter(move |action| !in_row(action))
    }
    /// Whether it changes who may do what, so that the audit log has it: its row or its headers need an action that manages
    /// permissions. An ACL that gives nobody anything changes nothing. `counts` as of `actions_of_headers`.
    pub fn changes_permissions<'h>(self, headers: &'h Headers<'_>, counts: impl Fn(&[u8]) -> bool + 'h) -> bool {
        let in_row = || self.spec().permissions.iter().any(|it| manages_permissions(it.action(false)));
        let gives = |action: &str| !matches!(action, "s3:PutBucketAcl" | "s3:PutObjectAcl") || may_give_by_acl(headers);
        let in_headers =
            || self.actions_of_headers(headers, counts).any(|action| manages_permissions(action) && gives(action));
        self.changes() && (in_row() || in_headers())
    }
}
