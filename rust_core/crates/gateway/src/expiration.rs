//! What answers say about the expiration of an object (`x-amz-expiration`) or of an upload (`x-amz-abort-…`).

use bytes::Bytes;

use super::lane::Lane;
use super::response::HeaderBlock;
use orcas_catalog::initiated_ms;
use orcas_lifecycle::{Facts, Place, Rules};
use orcas_record::{BucketId, DocumentKind, UploadId, Version};
use orcas_s3::lifecycle::{due_date, due_rule, expiration, rules};

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

impl Lane {
    /// Adds the header if a rule applies. Costs one load and a branch while no bucket has rules.
    #[inline]
    pub fn show_expiration<'a>(&self, headers: &mut HeaderBlock, expiring: impl FnOnce() -> Expiring<'a>) {
        if self.engine.has_lifecycle_rules()
            && let Some(value) = self.expiration(&expiring())
        {
            headers.push("x-amz-expiration", &value);
        }
    }

    #[cold]
    fn expiration(&self, expiring: &Expiring<'_>) -> Option<Vec<u8>> {
        let document = self.engine.document(expiring.bucket, DocumentKind::Lifecycle)?;
        let parsed = document.parsed(rules)?;
        let Expiring { key, size, modified_ms, tags, .. } = *expiring;
        let facts = Facts { key, size, modified_ms, tags };
        let due = parsed.as_ref().as_ref()?.due(&facts, Place::Current, self.engine.lifecycle_day_ms())?;
        Some(expiration(&due))
    }

    /// Adds the headers of an upload that a rule will abort. As cheap as `show_expiration`.
    #[inline]
    pub fn show_abort(&self, headers: &mut HeaderBlock, bucket: BucketId, key: &[u8], upload: UploadId) {
        if self.engine.has_lifecycle_rules() {
            self.abort(headers, bucket, key, upload);
        }
    }

    #[cold]
    fn abort(&self, headers: &mut HeaderBlock, bucket: BucketId, key: &[u8], upload: UploadId) {
        let Some(document) = self.engine.document(bucket, DocumentKind::Lifecycle) else { return };
        let Some(parsed) = document.parsed(rules) else { return };
        let facts = Facts { key, size: 0, modified_ms: initiated_ms(upload), tags: &[] };
        let of_upload = |rules: &Rules| {
            let due = rules.due(&facts, Place::Upload, self.engine.lifecycle_day_ms())?;
            Some((due_date(&due), due_rule(&due)))
        };
        if let Some((date, rule)) = parsed.as_ref().as_ref().and_then(of_upload) {
            headers.push("x-amz-abort-date", &date);
            headers.push("x-amz-abort-rule-id", &rule);
        }
    }
}
