//! What answers say about the expiration of an object (`x-amz-expiration`) or of an upload (`x-amz-abort-…`).

use bytes::Bytes;

use orcas_admission::documents::document;
use orcas_catalog::initiated_ms;
use orcas_engine::Handle;
use orcas_lifecycle::{EntryFacts, EntryState, Rules};
use orcas_record::{BucketId, UploadId, Version};
use orcas_responses::response::HeaderBlock;
use orcas_s3::lifecycle::{due_date, due_rule, expiration};

/// A current version, as far as rules ask about it.
#[derive(Clone, Copy)]
pub struct Expiring<'a> {
    pub bucket: BucketId,
    pub key: &'a [u8],
    pub size: u64,
    pub modified_ms: u64,
    pub tags: &'a [(Bytes, Bytes)],
}

impl<'a> Expiring<'a> {
    pub fn of(bucket: BucketId, version: &'a Version) -> Self {
        Self {
            bucket,
            key: &version.key,
            size: version.size,
            modified_ms: version.modified_ms,
            tags: &version.attributes.tags,
        }
    }
}

/// Adds the header if a rule applies. Costs one load and a branch while no bucket has rules.
#[inline]
pub fn show_expiration<'a>(engine: &Handle, headers: &mut HeaderBlock, expiring: impl FnOnce() -> Expiring<'a>) {
    if engine.has_lifecycle_rules()
        && let Some(value) = expiration_of(engine, &expiring())
    {
        headers.push("x-amz-expiration", &value);
    }
}

#[cold]
fn expiration_of(engine: &Handle, expiring: &Expiring<'_>) -> Option<Vec<u8>> {
    let rules = document::<Rules>(engine, expiring.bucket)?;
    let Expiring { key, size, modified_ms, tags, .. } = *expiring;
    let facts = EntryFacts { key, size, modified_ms, tags };
    let due = rules.due(&facts, EntryState::Current, engine.lifecycle_day_ms())?;
    Some(expiration(&due))
}

/// Adds the headers of an upload that a rule will abort. As cheap as `show_expiration`.
#[inline]
pub fn show_abort(engine: &Handle, headers: &mut HeaderBlock, bucket: BucketId, key: &[u8], upload: UploadId) {
    if engine.has_lifecycle_rules() {
        abort(engine, headers, bucket, key, upload);
    }
}

#[cold]
fn abort(engine: &Handle, headers: &mut HeaderBlock, bucket: BucketId, key: &[u8], upload: UploadId) {
    let Some(rules) = document::<Rules>(engine, bucket) else { return };
    let facts = EntryFacts { key, size: 0, modified_ms: initiated_ms(upload), tags: &[] };
    if let Some(due) = rules.due(&facts, EntryState::Upload, engine.lifecycle_day_ms()) {
        headers.push("x-amz-abort-date", &due_date(&due));
        headers.push("x-amz-abort-rule-id", &due_rule(&due));
    }
}
