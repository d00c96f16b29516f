//! How long a thread verifies what it reads, if somebody wants to know. Otherwise a check costs a look at a variable of its
//! thread, and no clock is read. What is verified, and what for, is known to the callers only.

use std::cell::Cell;
use std::time::{Duration, Instant};

thread_local! {
    /// Spent so far, while somebody wants to know.
    static SPENT: Cell<Option<Duration>> = const { Cell::new(None) };
}

/// Does `work`. Returns as well how much of its time passed in checks on this thread.
pub fn with_time<T>(work: impl FnOnce() -> T) -> (T, Duration) {
    SPENT.set(Some(Duration::ZERO));
    let done = work();
    (done, SPENT.take().unwrap_or_default())
}

/// Does a check of bytes that were read.
pub fn verifying<T>(check: impl FnOnce() -> T) -> T {
    let Some(spent) = SPENT.get() else { return check() };
    let began = Instant::now();
    let checked = check();
    SPENT.set(Some(spent + began.elapsed()));
    checked
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_checks_count_and_only_while_somebody_wants_to_know() {
        let check = || verifying(|| std::thread::sleep(Duration::from_millis(2)));
        check();
        let ((), spent) = with_time(|| {
            check();
            std::thread::sleep(Duration::from_millis(20));
            check();
        });
        assert!(spent >= Duration::from_millis(4) && spent < Duration::from_millis(20), "{spent:?}");
        check();
        assert_eq!(with_time(|| ()).1, Duration::ZERO);
    }
}
