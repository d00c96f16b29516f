//! What the documents of lists have in common: owners, names and times as they are shown.

use orcas_record::Bucket;
use orcas_s3::xml::lists::Owner;

/// The name shown with an owner's id.
const DISPLAY_NAME: &str = "root";

pub fn owner(id: &str) -> Owner<'_> {
    Owner { id, display_name: DISPLAY_NAME }
}

pub fn owner_of(bucket: &Bucket) -> Owner<'_> {
    owner(std::str::from_utf8(&bucket.owner).unwrap_or_default())
}

pub fn name_of(bucket: &Bucket) -> &str {
    std::str::from_utf8(&bucket.name).unwrap_or_default()
}

/// Milliseconds since the epoch.
pub fn time(ms: u64) -> i64 {
    i64::try_from(ms).unwrap_or(i64::MAX)
}
