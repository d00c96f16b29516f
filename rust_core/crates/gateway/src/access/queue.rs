//! Lines on their way to a file. Bounded in bytes: a line that finds no room is dropped and counted.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Bytes that may wait: at a million lines of 400 bytes a minute, a disk may stand still for a second.
const BYTES_MAX: usize = 8 << 20;
/// Bytes that are worth a write of their own.
const WORTH_WRITING: usize = 64 << 10;

#[derive(Default)]
pub struct LineQueue {
    /// Whether somebody takes lines. Changed with the lock held.
    open: AtomicBool,
    lines: Mutex<Lines>,
    changed: Condvar,
}

#[derive(Default)]
struct Lines {
    waiting: Vec<u8>,
    dropped: u64,
}

impl LineQueue {
    /// From now on lines are kept.
    pub fn open(&self) {
        let _held = self.lines.lock();
        self.open.store(true, Ordering::Relaxed);
    }

    /// Frees whoever waits; what is there can still be taken, and nothing is added.
    pub fn close(&self) {
        let held = self.lines.lock();
        self.open.store(false, Ordering::Relaxed);
        drop(held);
        self.changed.notify_all();
    }

    pub fn is_open(&self) -> bool {
        self.open.load(Ordering::Relaxed)
    }

    /// Adds one line, with its end. Never waits.
    pub fn push(&self, line: &[u8]) {
        let mut lines = self.lines.lock();
        if !self.is_open() {
            return;
        }
        let before = lines.waiting.len();
        if before + line.len() > BYTES_MAX {
            lines.dropped += 1;
            return;
        }
        lines.waiting.extend_from_slice(line);
        let after = lines.waiting.len();
        drop(lines);
        if before == 0 || (before < WORTH_WRITING && after >= WORTH_WRITING) {
            self.changed.notify_one();
        }
    }

    /// Lines that somebody else could not write.
    pub fn add_dropped(&self, lines: u64) {
        self.lines.lock().dropped += lines;
    }

    /// Lines that were never written.
    pub fn dropped(&self) -> u64 {
        self.lines.lock().dropped
    }

    /// Waits until there are lines, and for `gather` for more of them. Empty when closed.
    pub fn take(&self, gather: Duration) -> Vec<u8> {
        let mut lines = self.lines.lock();
        self.changed.wait_while(&mut lines, |lines| self.is_open() && lines.waiting.is_empty());
        let few = |lines: &mut Lines| self.is_open() && lines.waiting.len() < WORTH_WRITING;
        self.changed.wait_while_for(&mut lines, few, gather);
        std::mem::take(&mut lines.waiting)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_finds_no_room_is_counted() {
        let queue = LineQueue::default();
        queue.push(b"nobody listens\n");
        queue.open();
        let line = [b'x'; 1 << 20];
        (0..10).for_each(|_| queue.push(&line));
        assert_eq!((queue.take(Duration::ZERO).len(), queue.dropped()), (8 << 20, 2));
        queue.push(b"y\n");
        queue.close();
        queue.push(b"z\n");
        assert_eq!(queue.take(Duration::from_secs(60)), b"y\n");
        assert_eq!(queue.take(Duration::from_secs(60)), b"");
        queue.add_dropped(1);
        assert_eq!(queue.dropped(), 3);
    }

    #[test]
    fn lines_are_gathered() {
        let queue = LineQueue::default();
        queue.open();
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| queue.take(Duration::from_secs(60)));
            queue.push(b"a\n");
            queue.push(&[b'b'; WORTH_WRITING]);
            assert_eq!(taken.join().unwrap().len(), WORTH_WRITING + 2);
        });
    }
}
