//! What answers say about the copies of an object (`x-amz-replication-status`).

use bytes::Bytes;

use orcas_admission::documents::document;
use orcas_record::{Bucket, DocumentKind, Version};
use orcas_requests::services::Services;
use orcas_responses::response::HeaderBlock;
use orcas_s3::replication::{MARK, Replication, is_replica};

const HEADER: &str = "x-amz-replication-status";

/// Adds the header to what is said of a version, whose metadata of users is `user`: that it is a replica, or how far the
/// copies of a current version are. Costs a load and a branch while no bucket has rules and the object no metadata.
#[inline]
pub fn show_replication(
    services: &Services,
    headers: &mut HeaderBlock,
    bucket: &Bucket,
    (version, is_current): (&Version, bool),
    user: &[(Bytes, Bytes)],
) {
    let is_marked = |(name, value): &(Bytes, Bytes)| name == MARK && is_replica(value, &bucket.name, &version.key);
    if user.iter().any(is_marked) {
        headers.push(HEADER, b"REPLICA");
    } else if is_current && services.engine.has_documents(DocumentKind::Replication) {
        show_status(services, headers, bucket, version);
    }
}

#[cold]
fn show_status(services: &Services, headers: &mut HeaderBlock, bucket: &Bucket, version: &Version) {
    let rules = document::<Replication>(&services.engine, bucket.id);
    if let Some(status) = rules.and_then(|rules| services.replications.status(&rules, bucket.id, version)) {
        headers.push(HEADER, status.as_bytes());
    }
}
