//! Changes of the objects of one bucket, for whoever copies them: read from the journal after a place.

use std::sync::Arc;
use std::time::Duration;

use orcas_base::error::Result;
use orcas_engine::Place;
use orcas_events::EventName;

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
    bucket: u64,
    follower: Follower,
}

impl BucketReader {
    /// Begins behind the place `after`; without one, behind the sequence `begins_after`. `None` if the server keeps no
    /// events.
    pub fn open(streams: &Arc<EventStreams>, bucket: u64, after: Option<&str>, begins_after: u64) -> Option<Self> {
        let follower = Follower::open(streams, after, Place::after(begins_after))?;
        // As long as somebody copies, changes are heard of at once.
        streams.engine.add_listener();
        Some(Self { bucket, follower })
    }

    /// The next changes. Waits for a time if there is nothing new. `None` if the store is closed.
    ///
    /// # Errors
    /// What reading the journal ran into.
    pub fn next(&mut self, wait: Duration) -> Result<Option<ReplicatedChanges>> {
        let Some(streams) = self.follower.wait(wait)? else { return Ok(None) };
        let mut found = Vec::new();
        for _ in 0..EVENTS_AT_ONCE {
            if found.len() == CHANGES_AT_ONCE {
                break;
            }
            let Some(change) = self.follower.take() else { break };
            let Some(event) = event_of(&change).filter(|event| event.bucket.id == self.bucket) else { continue };
            let Some(object) = event.object else { continue };
            let (name, time_ms, size) = (event.name, event.time_ms, object.size.unwrap_or_default());
            found.push(ReplicatedChange { key: object.key, name, version_id: object.version_id, time_ms, size });
        }
        let (lost, place) = (self.follower.take_lost(), self.follower.place());
        Ok(Some(ReplicatedChanges { found, after: streams.id(place), sequence: place.sequence, lost }))
    }
}

impl Drop for BucketReader {
    fn drop(&mut self) {
        if let Some(streams) = self.follower.streams() {
            streams.engine.remove_listener();
        }
    }
}
