//! Who is told of events as the journal takes them.

use super::change::Change;
use orcas_journal::Place;

/// Told of what the journal has taken.
pub trait EventSink: Send + Sync {
    /// Everything that happened up to `place`. Empty while nobody listens.
    fn taken(&self, changes: &[Change], place: Place);
}
