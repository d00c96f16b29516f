//! The times of the committer's steps in a round, for those who wait for its answers. The committer takes these times
//! anyway, so they cost nothing more.

use std::time::Duration;

/// Times of a round, on the clock of the engine ([`crate::Handle::monotonic`]). What the round did not do, or not yet,
/// is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTimes {
    /// Since when the committer waited for the index before it took the intents.
    pub awaited_index: Option<Duration>,
    /// The intents were taken.
    pub began: Duration,
    /// All of them were decided, and the round had something to write.
    pub decided: Option<Duration>,
    /// The decided records were appended to the log, at the latest when its sync began.
    pub appended: bool,
    /// A sync of the log began and ended.
    pub sync: Option<(Duration, Duration)>,
}
