//! The time as the engine sees it: from the machine, or from a test.

use std::time::Duration;

pub trait Clock: Send + Sync {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;
    /// Never goes back.
    fn monotonic(&self) -> Duration;
}

/// The clock of the machine.
pub struct SystemClock {
    started: std::time::Instant,
}

impl SystemClock {
    #[expect(clippy::new_without_default, reason = "a clock is asked for, never defaulted")]
    pub fn new() -> Self {
        Self { started: std::time::Instant::now() }
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the clock that is handed to the engine")]
    fn now_ms(&self) -> u64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| since.as_millis() as u64)
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }
}
