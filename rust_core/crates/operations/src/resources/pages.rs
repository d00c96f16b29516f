//! What the documents of lists have in common: owners, names and times as they are shown.

use orcas_admission::senders::identities::{Identities, Requester};
use orcas_record::Bucket;
use orcas_s3::xml::lists::Owner;

/// An owner as lists show it, with the name of its account.
pub fn owner<'a>(id: &'a str, identities: &'a Identities) -> Owner<'a> {
    Owner { id, display_name: identities.owner_name(id).unwrap_or_default() }
}

pub fn owner_of<'a>(bucket: &'a Bucket, identities: &'a Identities) -> Owner<'a> {
    owner(std::str::from_utf8(&bucket.owner).unwrap_or_default(), identities)
}

/// The name of a bucket as the sender of a request knows it.
pub fn shown_name<'a>(bucket: &'a Bucket, requester: &'a Requester) -> &'a str {
    requester.shown(name_of(bucket))
}

pub fn name_of(bucket: &Bucket) -> &str {
    std::str::from_utf8(&bucket.name).unwrap_or_default()
}

/// Milliseconds since the epoch.
pub fn time(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}
