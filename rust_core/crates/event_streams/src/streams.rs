//! What all streams of a server share: the engine with its journal, the newest events, and what events say of the server.

use std::sync::Arc;

use super::StreamId;
use super::failed::FailedCopies;
use super::hub::Hub;
use orcas_engine::{Handle, JournalCursor, Place};
use orcas_s3::S3Error;

/// One per process.
pub struct EventStreams {
    pub engine: Handle,
    pub hub: Hub,
    pub(super) failed: FailedCopies,
    /// The region that events name.
    pub region: String,
    pub host_id: Arc<str>,
    /// Listeners at a time.
    pub listeners_max: usize,
}

impl EventStreams {
    pub fn new(engine: Handle, region: String, host_id: Arc<str>, listeners_max: usize) -> Arc<Self> {
        Arc::new(Self { engine, hub: Hub::default(), failed: FailedCopies::default(), region, host_id, listeners_max })
    }

    pub(super) fn id(&self, place: Place) -> String {
        StreamId { journal: Some(self.engine.journal_id()), place }.to_string()
    }

    /// Behind an id, and whether events between it and the oldest are gone. `name`: what the client calls the id.
    pub(super) fn named(&self, text: &str, name: &'static str) -> Result<(JournalCursor, bool), S3Error> {
        let wrong = || S3Error::argument("This is not the id of an event.", name, text.as_bytes());
        let StreamId { journal, place } = text.parse().map_err(|()| wrong())?;
        let is_of_another = journal.is_some_and(|journal| journal != self.engine.journal_id());
        // What comes after that is in no journal.
        let is_ahead = place.sequence > self.engine.events_now().sequence;
        Ok(if is_of_another || is_ahead { (JournalCursor::Oldest, true) } else { (JournalCursor::After(place), false) })
    }
}
