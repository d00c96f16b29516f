//! Copies that failed, told to the targets of notifications.
//!
//! They are no changes of the store, so the journal does not have them. Whoever copies keeps them, and tells them again
//! after a restart, under the same ids.

use std::sync::Arc;

use bytes::Bytes;

use orcas_base::error::Result;
use orcas_checksum::Md5Hasher;
use orcas_engine::Place;
use orcas_events::{Event, EventName, FailedCopy, Object};
use orcas_http::hex;
use orcas_record::{Bucket, BucketId, DocumentKind, Object as Stored};
use orcas_s3::documents::BucketDocument as _;
use orcas_s3::notification::Notification;
use orcas_s3::replication::Replication;
use orcas_s3::versions::{VersionName, version_id, version_name};

use super::deliveries::Delivery;
use super::failed::Told;
use super::streams::EventStreams;

impl EventStreams {
    /// Tells the targets of notifications that `key` could not be copied, since when, and what is known of the failure:
    /// destination, operation and reason. `version`: as clients call it; empty for the current one. Blocking.
    ///
    /// # Errors
    /// What reading the index ran into.
    pub fn tell_failed_copy(
        &self,
        bucket: BucketId,
        key: Bytes,
        version: &str,
        since_ms: u64,
        mut failed: FailedCopy,
    ) -> Result<()> {
        let buckets = self.engine.buckets();
        let Some(bucket) = buckets.iter().find(|known| known.id == bucket) else { return Ok(()) };
        let document = self.engine.document(bucket.id, DocumentKind::Notification);
        let notifications = document.and_then(|document| document.parsed(Vec::<Notification>::load));
        let is_wanted = |one: &Notification| one.names.contains(EventName::ReplicationFailed);
        if !notifications.is_some_and(|all| all.iter().any(is_wanted)) {
            return Ok(());
        }
        let found = self.copied(bucket, &key, version)?;
        let found = found.as_ref().map(|found| &found.version);
        let rules = self.engine.document(bucket.id, DocumentKind::Replication);
        if let Some(rules) = rules.and_then(|document| document.parsed(Replication::load)) {
            let applying = rules.applying(&key, found.map_or(&[][..], |version| &version.attributes.tags[..]));
            let rule = applying.into_iter().find(|rule| rule.destination == failed.destination);
            failed.rule = rule.map(|rule| rule.id.clone()).unwrap_or_default();
        }
        failed.requested_ms = found.map_or(since_ms, |version| version.modified_ms);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let content = found.filter(|version| !version.delete_marker);
        let object = Object {
            key: key.to_vec(),
            size: content.map(|version| version.size),
            etag: content.map(|version| version.etag.to_string()).unwrap_or_default(),
            version_id: found
                .map_or_else(|| version.to_owned(), |version| version_name(version.version_id).to_string()),
        };
        let sequence = found.and_then(|version| version.version_id.first_sequence()).unwrap_or_default();
        let event = Event {
            name: EventName::ReplicationFailed,
            place: Place::after(sequence),
            time_ms: since_ms,
            bucket: orcas_events::Bucket { name: text(&bucket.name), owner: text(&bucket.owner), id: bucket.id.0 },
            object: Some(object),
            principal: String::new(),
            request_id: String::new(),
            source_address: String::new(),
        };
        let (number, destination) = (bucket.id.0, &failed.destination);
        let of = format!("{number}/{destination}/{since_ms}/{version}/");
        let id = hex(&Md5Hasher::digest(&[of.as_bytes(), &key].concat()));
        self.failed.push(Told { id, event, failed });
        Ok(())
    }

    /// The version that was to be copied, if it is still there.
    fn copied(&self, bucket: &Bucket, key: &Bytes, version: &str) -> Result<Option<Arc<Stored>>> {
        let found = match VersionName::parse("versionId", version.as_bytes()) {
            Ok(name) => self.engine.version_in(bucket, key, version_id(name)),
            Err(_) => self.engine.object_in(bucket, key),
        };
        Ok(found?.map(|found| found.object))
    }

    /// What notifications send of the next failures to a target, and whether some before them are gone.
    pub(super) fn failed_deliveries(&self, heard: &mut u64, target: &str) -> (Vec<Delivery>, bool) {
        let (told, lost) = self.failed.next(heard);
        let delivery = |told: &Arc<Told>| {
            let notification = self.notification(&told.event, target)?;
            Some(self.delivery(told.id.clone(), &told.event, Some(&told.failed), &notification))
        };
        (told.iter().filter_map(delivery).collect(), lost)
    }
}
