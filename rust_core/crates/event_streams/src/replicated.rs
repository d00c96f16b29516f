//! Changes of the objects of one bucket, for whoever copies them: read from the journal after a place.
//!
//! A reader is no listener: the journal takes writes as often as it does without it, so that a rule costs them nothing.

use std::sync::Arc;
use std::time::{Duration, Instant};

use orcas_base::error::Result;
use orcas_engine::Place;
use orcas_events::EventName;
use orcas_record::{BucketId, DocumentKind};
use orcas_s3::replication::Replication;

use super::follower::Follower;
use super::names::event_of;
use super::streams::EventStreams;

/// Changes after which a look ends, and events of other buckets that it passes over at most.
const CHANGES_AT_ONCE: usize = 64;
const EVENTS_AT_ONCE: usize = 4_096;

/// A change of an object.
pub struct ReplicatedChange {
    pub key: Vec<u8>,
    pub name: EventName,
    /// As clients call it.
    pub version_id: String,
    pub time_ms: u64,
    pub size: u64,
}

/// The changes that one look brings.
pub struct ReplicatedChanges {
    pub found: Vec<ReplicatedChange>,
    /// The id of the place behind them, and its sequence.
    pub after: String,
    pub sequence: u64,
    /// Changes before them are gone.
    pub lost: bool,
}

/// Follows the journal for one bucket. For one thread.
pub struct BucketReader {
    bucket: BucketId,
    follower: Follower,
}

impl BucketReader {
    /// Begins behind the place `after`; without one, behind the sequence `begins_after`. `None` if the server keeps no
    /// events.
    pub fn open(streams: &Arc<EventStreams>, bucket: u64, after: Option<&str>, begins_after: u64) -> Option<Self> {
        Some(Self { bucket: BucketId(bucket), follower: Follower::open(streams, after, Place::after(begins_after))? })
    }

    /// The next changes of keys that an enabled rule may be about. Waits for a time if there are none. `None` if the store
    /// is closed.
    ///
    /// # Errors
    /// What reading the journal ran into.
    pub fn next(&mut self, wait: Duration) -> Result<Option<ReplicatedChanges>> {
        let until = Instant::now() + wait;
        loop {
            let left = until.saturating_duration_since(Instant::now());
            let Some(streams) = self.follower.wait(left)? else { return Ok(None) };
            let found = self.take(&streams);
            let (lost, place) = (self.follower.take_lost(), self.follower.place());
            if !found.is_empty() || lost || Instant::now() >= until {
                return Ok(Some(ReplicatedChanges { found, after: streams.id(place), sequence: place.sequence, lost }));
            }
        }
    }

    /// The bucket, and where failed copies are told. `None` if the store is closed.
    pub fn streams(&self) -> Option<(Arc<EventStreams>, BucketId)> {
        Some((self.follower.streams()?, self.bucket))
    }

    fn take(&mut self, streams: &EventStreams) -> Vec<ReplicatedChange> {
        // Looked up after changes were read, so that it holds for what came after it was stored.
        let document = streams.engine.document(self.bucket, DocumentKind::Replication);
        let rules = document.and_then(|document| document.parsed(Replication::load));
        let mut found = Vec::new();
        for _ in 0..EVENTS_AT_ONCE {
            if found.len() == CHANGES_AT_ONCE {
                break;
            }
            let Some(change) = self.follower.take() else { break };
            if change.bucket != self.bucket || !rules.as_ref().is_some_and(|rules| rules.may_apply(&change.key)) {
                continue;
            }
            let Some(event) = event_of(&change) else { continue };
            let Some(object) = event.object else { continue };
            let (name, time_ms, size) = (event.name, event.time_ms, object.size.unwrap_or_default());
            found.push(ReplicatedChange { key: object.key, name, version_id: object.version_id, time_ms, size });
        }
        found
    }
}
