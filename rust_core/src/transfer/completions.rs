//! The one way back from engine and worker threads to an event loop: a queue, and a descriptor that becomes readable.
//!
//! The descriptor is written only when the queue turns from empty to non-empty, so a burst of completions costs one
//! wake-up. `drain` clears the descriptor before it takes the queue: an entry pushed in between wakes the loop again
//! and is never lost. Knows nothing of what travels through it.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd, RawFd};

use parking_lot::Mutex;

/// A many-producer queue with one consumer that waits on a descriptor.
pub struct Completions<T> {
    entries: Mutex<Vec<T>>,
    wake: Wake,
}

impl<T> Completions<T> {
    pub fn new() -> io::Result<Self> {
        Ok(Self { entries: Mutex::new(Vec::new()), wake: Wake::new()? })
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

    /// Everything pushed since the last call, in order.
    pub fn drain(&self) -> Vec<T> {
        self.wake.clear();
        std::mem::take(&mut *self.entries.lock())
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
        assert_eq!(completions.drain(), [1, 2]);
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
        assert_eq!(completions.drain(), [1, 2]);
        assert!(completions.push_quietly(3), "every drain begins anew");
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
            seen.extend(completions.drain());
        }
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        seen.sort_unstable();
        assert_eq!(seen, (0..PRODUCERS * EACH).collect::<Vec<_>>());
    }
}
