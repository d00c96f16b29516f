//! Memory that is filled through its address, by a read from a socket.

#![allow(unsafe_code, reason = "memory is written through its address and shared between threads")]

use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use bytes::Bytes;

use super::Buffer;

/// Memory for one read. It returns to the pool when all clones, and all bytes made of it, are dropped.
#[derive(Clone)]
pub struct Room {
    memory: Arc<Memory>,
    length: usize,
}

struct Memory {
    start: NonNull<u8>,
    /// Owns the memory at `start`. Not used otherwise, so it stays empty.
    _buffer: Buffer,
}

// SAFETY: the buffer owns the memory and is `Send`. The contract of `filled` excludes writes to memory that is shared.
unsafe impl Send for Memory {}
// SAFETY: shared memory is only read, as above.
unsafe impl Sync for Memory {}

impl Room {
    /// The first `length` bytes of `buffer`, which is empty and has at least this capacity.
    pub fn new(mut buffer: Buffer, length: usize) -> Self {
        assert!(buffer.is_empty() && length <= buffer.capacity(), "the room is larger than its buffer");
        // The pointer of a vector is never null.
        let start = NonNull::new(buffer.as_mut_ptr()).unwrap_or(NonNull::dangling());
        Self { memory: Arc::new(Memory { start, _buffer: buffer }), length }
    }

    /// The address at which at most `length` bytes may be written.
    pub fn start(&self) -> NonNull<u8> {
        self.memory.start
    }

    pub fn length(&self) -> usize {
        self.length
    }

    /// The first `count` bytes.
    ///
    /// # Safety
    /// They were written, and nothing writes to this room again.
    pub unsafe fn filled(self, count: usize) -> Bytes {
        assert!(count <= self.length, "more bytes were read than fit into the room");
        Bytes::from_owner(Filled { memory: self.memory, length: count })
    }
}

struct Filled {
    memory: Arc<Memory>,
    length: usize,
}

impl AsRef<[u8]> for Filled {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: the caller of `filled` guarantees that these bytes were written and do not change. `memory` keeps them
        // alive.
        unsafe { slice::from_raw_parts(self.memory.start.as_ptr(), self.length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::Buffers;

    #[test]
    fn written_bytes_are_read_and_the_memory_returns_once() {
        let buffers = Buffers::new(true);
        let room = Room::new(buffers.take(4096), 3000);
        let stale = room.clone();
        let start = room.start();
        // SAFETY: three of 3,000 bytes, which nothing else uses.
        unsafe { start.copy_from_nonoverlapping(NonNull::from(b"abc").cast(), 3) };
        // SAFETY: they have just been written, and nothing else writes.
        let bytes = unsafe { room.filled(3) };
        assert_eq!(bytes, "abc");
        let part = bytes.slice(1..);
        drop(bytes);
        assert_eq!(part, "bc");
        drop(part);
        assert_eq!((buffers.counts().returned, buffers.counts().out_bytes), (0, 4096));
        drop(stale);
        assert_eq!((buffers.counts().returned, buffers.counts().out_bytes), (1, 0));
        assert_eq!(buffers.take(4096).as_ptr(), start.as_ptr());
    }

    #[test]
    #[should_panic(expected = "more bytes were read than fit into the room")]
    fn filled_checks_the_length() {
        let room = Room::new(Buffers::new(true).take(4096), 1);
        // SAFETY: it panics before it reads anything.
        let _ = unsafe { room.filled(2) };
    }
}
