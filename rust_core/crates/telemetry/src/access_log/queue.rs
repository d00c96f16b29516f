//! Lines on their way to a file. Bounded in bytes: a line that finds no room is dropped and counted.

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::{Condvar, Mutex};

/// Bytes that may wait: at a million lines of 400 bytes a minute, a disk may stand still for a second.
const BYTES_MAX: usize = 8 << 20;
/// Bytes that are worth a write of their own. Whoever writes them has to be woken, and takes the GIL several times: at tens
/// of thousands of lines a second, that costs more than the writing.
const WORTH_WRITING: usize = 512 << 10;
/// Memory that is kept for more lines. Only a disk that stood still has needed more.
const CAPACITY_KEPT: usize = 2 * WORTH_WRITING;

thread_local! {
    /// The line of a thread that writes one. Its memory is kept, so that a line costs no allocation, and the threads of
    /// all requests share no more than the copying of finished lines.
    static LINE: RefCell<Vec<u8>> = const { RefCell::new(Vec::new()) };
}

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

    /// Adds the line, with its end, that `write` appends. Waits for no writer.
    pub fn push(&self, write: impl FnOnce(&mut Vec<u8>)) {
        if self.is_open() {
            LINE.with_borrow_mut(|line| {
                line.clear();
                write(line);
                self.add(line);
            });
        }
    }

    fn add(&self, line: &[u8]) {
        let mut lines = self.lines.lock();
        if !self.is_open() {
            return;
        }
        let before = lines.waiting.len();
        let after = before + line.len();
        if after > BYTES_MAX {
            lines.dropped += 1;
            return;
        }
        lines.waiting.extend_from_slice(line);
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

    /// Waits until there are lines, and for `gather` for more of them. Then `taken` has them instead of what it had: none
    /// when closed.
    pub fn take(&self, gather: Duration, taken: &mut Vec<u8>) {
        taken.clear();
        taken.shrink_to(CAPACITY_KEPT);
        let mut lines = self.lines.lock();
        self.changed.wait_while(&mut lines, |lines| self.is_open() && lines.waiting.is_empty());
        let few = |lines: &mut Lines| self.is_open() && lines.waiting.len() < WORTH_WRITING;
        self.changed.wait_while_for(&mut lines, few, gather);
        std::mem::swap(&mut lines.waiting, taken);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn add(queue: &LineQueue, line: &[u8]) {
        queue.push(|out| out.extend_from_slice(line));
    }

    fn taken(queue: &LineQueue, gather: Duration) -> Vec<u8> {
        let mut taken = b"of an earlier call".to_vec();
        queue.take(gather, &mut taken);
        taken
    }

    #[test]
    fn what_finds_no_room_is_counted() {
        let queue = LineQueue::default();
        add(&queue, b"nobody listens\n");
        queue.open();
        let line = [b'x'; 1 << 20];
        (0..10).for_each(|_| add(&queue, &line));
        assert_eq!((taken(&queue, Duration::ZERO).len(), queue.dropped()), (8 << 20, 2));
        add(&queue, b"y\n");
        queue.close();
        add(&queue, b"z\n");
        assert_eq!(taken(&queue, Duration::from_secs(60)), b"y\n");
        assert_eq!(taken(&queue, Duration::from_secs(60)), b"");
        queue.add_dropped(1);
        assert_eq!(queue.dropped(), 3);
    }

    #[test]
    fn memory_is_kept_for_more_lines_but_not_all_of_it() {
        let queue = LineQueue::default();
        queue.open();
        let mut taken = Vec::new();
        for (len, kept) in [(1 << 10, 1 << 10), (BYTES_MAX, CAPACITY_KEPT)] {
            add(&queue, &vec![b'x'; len]);
            queue.take(Duration::ZERO, &mut taken);
            assert_eq!(taken.len(), len);
            add(&queue, b"y");
            queue.take(Duration::ZERO, &mut taken);
            assert_eq!(taken, b"y");
            assert_eq!(queue.lines.lock().waiting.capacity(), kept);
        }
    }

    #[test]
    fn lines_are_gathered() {
        let queue = LineQueue::default();
        queue.open();
        std::thread::scope(|scope| {
            let gathered = scope.spawn(|| taken(&queue, Duration::from_secs(60)));
            add(&queue, b"a\n");
            add(&queue, &[b'b'; WORTH_WRITING]);
            assert_eq!(gathered.join().unwrap().len(), WORTH_WRITING + 2);
        });
    }
}
