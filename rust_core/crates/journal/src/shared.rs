//! The journal as its writer and all readers share it.

use std::sync::Arc;

use orcas_base::error::Result;

use super::segments::Segments;
use super::{JournalOptions, segment_names};
use orcas_events::Place;

/// The files of the journal. Empty until a writer has opened them.
#[derive(Clone)]
pub struct JournalFiles {
    pub(super) options: Arc<JournalOptions>,
    pub(super) segments: Arc<Segments>,
}

impl JournalFiles {
    pub fn new(options: JournalOptions) -> Self {
        Self { options: Arc::new(options), segments: Arc::default() }
    }

    /// Random, chosen when the journal was begun: places of another journal mean nothing in this one.
    pub fn id(&self) -> u64 {
        self.segments.journal()
    }

    /// Whether the store has no journal.
    ///
    /// # Errors
    /// What listing the directory ran into.
    pub fn is_absent(&self) -> Result<bool> {
        Ok(segment_names(&*self.options.fs, &self.options.dir)?.is_empty())
    }

    /// Bytes of all segments.
    pub fn bytes(&self) -> u64 {
        self.segments.bytes()
    }

    /// The place behind which all events are here. `None` if there is no journal yet.
    pub fn oldest(&self) -> Option<Place> {
        self.segments.oldest().map(|segment| segment.after)
    }
}
