//! The receiver of events as the journal takes them.

use super::change::Change;
use orcas_journal::Place;

/// Told of what the journal has taken.
pub trait EventSink: Send + Sync {
    /// Everything that happened up to `place`. `None` if it is in the journal only, or nowhere: whoever is behind has
    /// to look there.
    fn taken(&self, changes: Option<&[Change]>, place: Place);
}
