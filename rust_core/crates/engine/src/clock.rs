//! The time as the engine sees it: from the machine, or from a test.

use std::sync::atomic::{AtomicI64, Ordering};
use std::time::Duration;

pub trait Clock: Send + Sync {
    /// Milliseconds since the Unix epoch.
    fn now_ms(&self) -> u64;
    /// Never goes back.
    fn monotonic(&self) -> Duration;

    /// How far `now_ms` is ahead of the time of the machine, in milliseconds; negative if it is behind.
    fn ahead_ms(&self) -> i64 {
        0
    }
}

/// The clock of the machine. A test may set it ahead or back.
pub struct SystemClock {
    started: std::time::Instant,
    ahead_ms: AtomicI64,
}

impl SystemClock {
    #[expect(clippy::new_without_default, reason = "a clock is asked for, never defaulted")]
    pub fn new() -> Self {
        Self { started: std::time::Instant::now(), ahead_ms: AtomicI64::new(0) }
    }

    /// Shows the time of the machine and so many milliseconds from now on, at least 1970. Durations stay what they are.
    pub fn set_ahead(&self, ms: i64) {
        self.ahead_ms.store(ms, Ordering::Relaxed);
    }
}

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "the clock that is handed to the engine")]
    fn now_ms(&self) -> u64 {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        since.map_or(0, |since| since.as_millis() as u64).saturating_add_signed(self.ahead_ms())
    }

    fn monotonic(&self) -> Duration {
        self.started.elapsed()
    }

    fn ahead_ms(&self) -> i64 {
        self.ahead_ms.load(Ordering::Relaxed)
    }
}
