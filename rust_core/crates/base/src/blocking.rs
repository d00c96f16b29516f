//! Where nothing may block: a thread that serves many connections must not wait for a disk. What may wait for one asks here
//! first. Builds with assertions only, in which a wait in the wrong place is a panic; others pay nothing.

use std::cell::Cell;

thread_local! {
    /// This thread must not block.
    static FORBIDDEN: Cell<bool> = const { Cell::new(false) };
}

/// Does `work`, which must not block.
pub fn without<T>(work: impl FnOnce() -> T) -> T {
    if !cfg!(debug_assertions) {
        return work();
    }
    let before = FORBIDDEN.replace(true);
    let done = work();
    FORBIDDEN.set(before);
    done
}

/// To be called before anything that may wait for a disk.
pub fn check() {
    debug_assert!(!FORBIDDEN.get(), "a thread that serves connections would wait for the disk");
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::catch_unwind;

    #[test]
    fn a_wait_where_nothing_may_block_is_found() {
        check();
        assert!(without(|| std::thread::spawn(check).join().is_ok()));
        check();
        assert_eq!(catch_unwind(|| without(check)).is_err(), cfg!(debug_assertions));
    }
}
