//! When the committer did what in a round, for those who wait for its answers. Its times are those that the round is timed
//! with anyway: they cost nothing more.

use std::time::Duration;

/// On the clock of the engine ([`super::Handle::monotonic`]). What the round did not do, or not yet, is missing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RoundTimes {
    /// Since when the committer waited for the index before it took the intents.
    pub awaited_index: Option<Duration>,
    /// The intents were taken.
    pub began: Duration,
    /// All of them were decided, and the round had something to write.
    pub decided: Option<Duration>,
    /// What was decided was appended to the log, at the latest when its sync began.
    pub appended: bool,
    /// A sync of the log began and ended.
    pub sync: Option<(Duration, Duration)>,
}
