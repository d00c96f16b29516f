//! Memory that somebody fills who knows it by its address: a read from a socket.

#![allow(unsafe_code, reason = "memory is written through its address, and read while its owner may be elsewhere")]

use std::ptr::NonNull;
use std::slice;
use std::sync::Arc;

use bytes::Bytes;

use super::Buffer;

/// Room for one read. Its memory goes back to the pool when this, every clone and all bytes made of it are gone.
#[derive(Clone)]
pub struct Room {
    memory: Arc<Memory>,
    length: usize,
}

struct Memory {
    start: NonNull<u8>,
    /// Never touched: it has the memory from `start` on, and is as empty as it was.
    _buffer: Buffer,
}

// SAFETY: the memory belongs to the buffer, which may go to any thread; who writes to it is bound by `filled`.
unsafe impl Send for Memory {}
// SAFETY: as above; what is shared of it is only read.
unsafe impl Sync for Memory {}

impl Room {
    /// `length` bytes of the memory of `buffer`, which is empty and has as many.
    pub fn new(mut buffer: Buffer, length: usize) -> Self {
        assert!(buffer.is_empty() && length <= buffer.capacity(), "room beyond its buffer");
        // A vector's pointer is never null.
        let start = NonNull::new(buffer.as_mut_ptr()).unwrap_or(NonNull::dangling());
        Self { memory: Arc::new(Memory { start, _buffer: buffer }), length }
    }

    /// Where to write, at most `length` bytes.
    pub fn start(&self) -> NonNull<u8> {
        self.memory.start
    }

    pub fn length(&self) -> usize {
        self.length
    }

    /// The first `count` bytes.
    ///
    /// # Safety
    /// They have been written, and nobody will write to this room again.
    pub unsafe fn filled(self, count: usize) -> Bytes {
        assert!(count <= self.length, "more was read than there was room for");
        Bytes::from_owner(Filled { memory: self.memory, length: count })
    }
}

struct Filled {
    memory: Arc<Memory>,
    length: usize,
}

impl AsRef<[u8]> for Filled {
    fn as_ref(&self) -> &[u8] {
        // SAFETY: `filled` was promised that so many bytes are written and that they stay as they are; the memory lives
        // as long as this.
        unsafe { slice::from_raw_parts(self.memory.start.as_ptr(), self.length) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffers::Buffers;

    #[test]
    fn what_was_written_is_read_and_the_memory_comes_back_once() {
        let buffers = Buffers::new(true);
        let room = Room::new(buffers.take(4096), 3000);
        let stale = room.clone();
        let start = room.start();
        // SAFETY: three bytes of the 3,000 there is room for, and nobody else knows them.
        unsafe { start.copy_from_nonoverlapping(NonNull::from(b"abc").cast(), 3) };
        // SAFETY: they have just been written, by the only one who does.
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
    #[should_panic(expected = "more was read than there was room for")]
    fn no_more_is_read_than_there_was_room_for() {
        let room = Room::new(Buffers::new(true).take(4096), 1);
        // SAFETY: it panics before it looks at anything.
        let _ = unsafe { room.filled(2) };
    }
}
