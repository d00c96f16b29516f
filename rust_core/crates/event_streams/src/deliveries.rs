//! Events for targets: what the notifications of buckets send to each, read from the journal after a place, and copies
//! that failed.
//!
//! The configuration of a bucket at the time of reading decides. So a notification that was removed sends nothing more,
//! and the events of a bucket that is gone go nowhere.

use std::sync::Arc;
use std::time::Duration;

use orcas_base::error::Result;
use orcas_checksum::{Etag, Md5Hasher};
use orcas_engine::{Change, ChangeKind};
use orcas_events::json::{Context, test_message, write_failed_copy, write_records};
use orcas_events::{Event, FailedCopy};
use orcas_record::{BucketId, DocumentKind};
use orcas_s3::documents::BucketDocument as _;
use orcas_s3::notification::Notification;

use super::follower::Follower;
use super::names::{event_of, request_id};
use super::streams::EventStreams;

/// Deliveries after which a look ends.
const DELIVERIES_AT_ONCE: usize = 64;

/// An event, and which notification sends it.
pub struct Delivery {
    /// The id of the event, the same whenever it is delivered.
    pub id: String,
    /// When it happened.
    pub time_ms: u64,
    pub bucket: String,
    pub key: Vec<u8>,
    /// JSON in S3's structure.
    pub message: Vec<u8>,
    /// No event: it only tells that a configuration names the target.
    pub is_test: bool,
}

/// The deliveries that one look brings.
pub struct Deliveries {
    pub found: Vec<Delivery>,
    /// The id of the place behind them.
    pub after: String,
    /// Events before them are gone.
    pub lost: bool,
}

/// Follows the journal for one target. For one thread.
pub struct DeliveryReader {
    target: String,
    follower: Follower,
    /// Failed copies that it has heard of.
    heard: u64,
}

impl DeliveryReader {
    /// Begins behind the place `after`, or now. `None` if the server keeps no events.
    pub fn open(streams: &Arc<EventStreams>, target: &str, after: Option<&str>) -> Option<Self> {
        let target = target.to_owned();
        Some(Self { target, follower: Follower::open(streams, after, streams.engine.events_now())?, heard: 0 })
    }

    /// The id of the place behind everything that was returned. `None` if the store is closed.
    pub fn after(&self) -> Option<String> {
        self.follower.after()
    }

    /// The next deliveries. Waits for a time if there is nothing new. `None` if the store is closed.
    ///
    /// # Errors
    /// What reading the journal ran into.
    pub fn next(&mut self, wait: Duration) -> Result<Option<Deliveries>> {
        let Some(streams) = self.follower.wait(wait)? else { return Ok(None) };
        let (mut found, failed_lost) = streams.failed_deliveries(&mut self.heard, &self.target);
        while found.len() < DELIVERIES_AT_ONCE
            && let Some(change) = self.follower.take()
        {
            if change.kind == ChangeKind::Configured {
                found.extend(streams.test_delivery(&change, &self.target));
            } else if let Some(event) = event_of(&change)
                && let Some(notification) = streams.notification(&event, &self.target)
            {
                found.push(streams.delivery(streams.id(event.place), &event, None, &notification));
            }
        }
        let lost = self.follower.take_lost() || failed_lost;
        Ok(Some(Deliveries { found, after: streams.id(self.follower.place()), lost }))
    }
}

impl EventStreams {
    /// The notification of the bucket that sends the event to the target.
    pub(super) fn notification(&self, event: &Event, target: &str) -> Option<Notification> {
        let document = self.engine.document(BucketId(event.bucket.id), DocumentKind::Notification)?;
        document
            .parsed(Vec::<Notification>::load)?
            .iter()
            .find(|one| one.goes_to(target) && one.matches(event))
            .cloned()
    }

    /// What S3 sends to the topics and queues of a configuration when it is stored. Nothing if it is another one by now.
    fn test_delivery(&self, change: &Change, target: &str) -> Option<Delivery> {
        let document = self.engine.document(change.bucket, DocumentKind::Notification)?;
        if change.content.map(|(_, etag)| etag) != Some(Etag::simple(Md5Hasher::digest(&document.bytes))) {
            return None;
        }
        let of_bucket = document.parsed(Vec::<Notification>::load)?;
        let is_told = |one: &Notification| one.is_tested && one.goes_to(target);
        if !of_bucket.iter().any(is_told) {
            return None;
        }
        let bucket = String::from_utf8_lossy(&change.bucket_name).into_owned();
        let request_id = request_id(&change.cause);
        let message = test_message(change.time_ms, &bucket, &request_id, &self.host_id);
        Some(Delivery {
            id: self.id(change.place),
            time_ms: change.time_ms,
            bucket,
            key: Vec::new(),
            message,
            is_test: true,
        })
    }

    pub(super) fn delivery(
        &self,
        id: String,
        event: &Event,
        failed: Option<&FailedCopy>,
        notification: &Notification,
    ) -> Delivery {
        let context = Context {
            region: &self.region,
            host_id: &self.host_id,
            configuration_id: &notification.id,
            name_prefix: "",
        };
        let mut message = Vec::with_capacity(1024);
        match failed {
            Some(failed) => write_failed_copy(&mut message, context, event, failed),
            None => write_records(&mut message, context, [event]),
        }
        Delivery {
            id,
            time_ms: event.time_ms,
            bucket: event.bucket.name.clone(),
            key: event.object.as_ref().map(|object| object.key.clone()).unwrap_or_default(),
            message,
            is_test: false,
        }
    }
}
