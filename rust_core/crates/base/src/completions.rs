//! The one way back from engine and worker threads to an event loop: a queue, and a descriptor that becomes readable.
//!
//! The descriptor is written only when the queue turns from empty to non-empty, so a burst of completions costs one
//! wake-up. `drain` clears the descriptor before it takes the queue: an entry pushed in between wakes the loop again
//! and is never lost. Two vectors take turns, one being filled while the other is worked on, so that a turn of the loop
//! allocates nothing. Knows nothing about its entries.

use std::io;
use std::ops::{Deref, DerefMut};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use parking_lot::Mutex;

/// Entries that a vector keeps room for, at most, from turn to turn; what a burst needed beyond that goes back.
const KEPT_MAX: usize = 256;

/// Called once, from some thread and without locks held: whoever waits goes on.
pub type Resume = Box<dyn FnOnce() + Send>;

/// A many-producer queue with one consumer that waits on a descriptor.
pub struct Completions<T> {
    entries: Mutex<Vec<T>>,
    /// Empty; takes the place of `entries` at the next drain. A lock of its own, because no producer needs it.
    spare: Mutex<Vec<T>>,
    wake: Wake,
}

impl<T> Completions<T> {
    pub fn new() -> io::Result<Self> {
        Ok(Self { entries: Mutex::default(), spare: Mutex::default(), wake: Wake::new()? })
    }

    /// Readable while `drain` has something to return.
    pub fn raw_fd(&self) -> RawFd {
        self.wake.raw_fd()
    }

    pub fn push(&self, entry: T) {
        if self.push_quietly(entry) {
            self.wake();
        }
    }

    /// True: this entry, and those pushed behind it, are seen when `wake` is called, which must not be left undone.
    #[must_use]
    pub fn push_quietly(&self, entry: T) -> bool {
        let mut entries = self.entries.lock();
        entries.push(entry);
        entries.len() == 1
    }

    pub fn wake(&self) {
        self.wake.signal();
    }

    /// Everything pushed since the last call, in order. Holds up no producer while it is worked on.
    pub fn drain(&self) -> Drained<'_, T> {
        self.wake.clear();
        let mut entries = std::mem::take(&mut *self.spare.lock());
        std::mem::swap(&mut *self.entries.lock(), &mut entries);
        Drained { entries, spare: &self.spare }
    }
}

/// The entries of one drain. Dropping it returns its memory and drops entries that were not taken.
pub struct Drained<'a, T> {
    entries: Vec<T>,
    spare: &'a Mutex<Vec<T>>,
}

impl<T> Deref for Drained<'_, T> {
    type Target = Vec<T>;

    fn deref(&self) -> &Vec<T> {
        &self.entries
    }
}

impl<T> DerefMut for Drained<'_, T> {
    fn deref_mut(&mut self) -> &mut Vec<T> {
        &mut self.entries
    }
}

impl<T> Drop for Drained<'_, T> {
    fn drop(&mut self) {
        self.entries.clear();
        self.entries.shrink_to(KEPT_MAX);
        *self.spare.lock() = std::mem::take(&mut self.entries);
    }
}

/// An eventfd on Linux, a pipe elsewhere.
struct Wake {
    read: OwnedFd,
    #[cfg(not(target_os = "linux"))]
    write: OwnedFd,
}

#[cfg(target_os = "linux")]
impl Wake {
    fn new() -> io::Result<Self> {
        use rustix::event::{EventfdFlags, eventfd};
        Ok(Self { read: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)? })
    }

    fn signal(&self) {
        // Fails only when the counter is full, and then the descriptor is readable already.
        let _ = rustix::io::write(&self.read, &1u64.to_ne_bytes());
    }
}

#[cfg(not(target_os = "linux"))]
impl Wake {
    fn new() -> io::Result<Self> {
        let (read, write) = rustix::pipe::pipe()?;
        for end in [&read, &write] {
            rustix::io::fcntl_setfd(end, rustix::io::FdFlags::CLOEXEC)?;
            rustix::io::ioctl_fionbio(end, true)?;
        }
        Ok(Self { read, write })
    }

    fn signal(&self) {
        // Fails only when the pipe is full, and then it is readable already.
        let _ = rustix::io::write(&self.write, &[1]);
    }
}

impl Wake {
    fn raw_fd(&self) -> RawFd {
        self.read.as_raw_fd()
    }

    /// One read empties an eventfd; a pipe holds at most one byte for each drain.
    fn clear(&self) {
        let mut counter = [0; 8];
        // Not readable means that there was nothing to clear.
        let _ = rustix::io::read(&self.read, &mut counter);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    use std::sync::Arc;

    fn readable(completions: &Completions<u64>) -> bool {
        let mut fds = [PollFd::new(&completions.wake.read, PollFlags::IN)];
        poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })).unwrap() == 1
    }

    #[test]
    fn readable_exactly_while_entries_wait() {
        let completions = Completions::new().unwrap();
        assert!(!readable(&completions));
        completions.push(1);
        completions.push(2);
        assert!(readable(&completions));
        assert_eq!(*completions.drain(), [1, 2]);
        assert!(!readable(&completions));
        assert!(completions.drain().is_empty());
    }

    #[test]
    fn quiet_entries_are_seen_when_the_last_has_come() {
        let completions = Completions::new().unwrap();
        assert!(completions.push_quietly(1));
        assert!(!completions.push_quietly(2));
        assert!(!readable(&completions));
        completions.wake();
        assert!(readable(&completions));
        assert_eq!(*completions.drain(), [1, 2]);
        assert!(completions.push_quietly(3), "every drain begins anew");
    }

    #[test]
    fn two_vectors_take_turns() {
        let completions = Completions::new().unwrap();
        let turn = |entries: u64| {
            (0..entries).for_each(|entry| completions.push(entry));
            let drained = completions.drain();
            assert_eq!(drained.len() as u64, entries, "what was left of the last turn does not come back");
            drained.as_ptr()
        };
        let (one, other) = (turn(3), turn(4));
        assert_ne!(one, other);
        assert_eq!((turn(1), turn(2)), (one, other));
    }

    #[test]
    fn a_burst_leaves_no_more_memory_than_may_be_kept() {
        let completions = Completions::new().unwrap();
        for _ in 0..3 {
            (0..10 * KEPT_MAX as u64).for_each(|entry| completions.push(entry));
            assert!(completions.drain().capacity() >= 10 * KEPT_MAX);
            assert_eq!(completions.spare.lock().capacity(), KEPT_MAX);
            assert!(completions.entries.lock().capacity() <= KEPT_MAX);
        }
    }

    #[test]
    fn a_consumer_that_only_waits_for_the_descriptor_sees_every_entry() {
        const PRODUCERS: u64 = 4;
        const EACH: u64 = 2_000;
        let completions = Arc::new(Completions::new().unwrap());
        let threads: Vec<_> = (0..PRODUCERS)
            .map(|producer| {
                let completions = Arc::clone(&completions);
                std::thread::spawn(move || (0..EACH).for_each(|n| completions.push(producer * EACH + n)))
            })
            .collect();
        let mut seen = Vec::new();
        while seen.len() < (PRODUCERS * EACH) as usize {
            let mut fds = [PollFd::new(&completions.wake.read, PollFlags::IN)];
            let ready = poll(&mut fds, Some(&Timespec { tv_sec: 10, tv_nsec: 0 })).unwrap();
            assert_eq!(ready, 1, "entries wait but the descriptor is silent");
            seen.append(&mut completions.drain());
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        seen.sort_unstable();
        assert_eq!(seen, (0..PRODUCERS * EACH).collect::<Vec<_>>());
    }
}
