//! Byte buffers that are used again, for bodies, their pieces and documents.
//!
//! A buffer goes back empty from whatever thread drops it; safe code cannot read a vector beyond its length, so what it
//! held is not seen again. Each thread has a small cache, and what does not fit goes to shelves that all share. Caches
//! belong to the pool, so that a thread which ends keeps nothing. All of it is bounded in bytes, and `trim` gives back
//! what nobody needed. Knows nothing of requests.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

mod room;
mod system;
#[cfg(test)]
mod tests;

pub use room::Room;

/// Smaller ones come from the allocator, which is as fast with them.
const SMALLEST: usize = 1024;
/// Half of the smallest size is asked for at least, so that no buffer is used for less than half.
const ASKED_MIN: usize = SMALLEST / 2 + 1;
/// Powers of two up to 4 MiB, the largest chunk of a store that was told nothing else.
const SIZES: usize = 13;
/// Threads keep the first of these sizes, up to 64 KiB: filling a larger one costs many times what the shelf's lock does.
const CACHED_SIZES: usize = 7;
/// Bytes that one thread may keep.
const CACHE_MAX: u64 = 256 * 1024;
/// Threads beyond so many share caches.
const CACHES: usize = 32;
/// Bytes that may lie on the shelves. With the caches 32 MiB: what the index may be behind the log, twice, since bodies
/// come back when it has followed.
const SHELVES_MAX: u64 = 24 * 1024 * 1024;
/// So many bytes freed by a trim are worth asking the allocator to give them back.
const GIVEN_BACK_MIN: u64 = 1024 * 1024;

/// The pool of one store. Shared by everybody who takes buffers from it.
pub struct Buffers {
    enabled: bool,
    bounds: Bounds,
    /// Bytes on the shelves.
    held: AtomicU64,
    shelves: [Mutex<Shelf>; SIZES],
    /// Locked before a shelf, never after it.
    caches: [Mutex<Cache>; CACHES],
}

#[derive(Clone, Copy)]
struct Bounds {
    cache: u64,
    shelves: u64,
}

/// Unused buffers of one size.
#[derive(Default)]
struct Shelf {
    /// The last one was used last.
    idle: Vec<Vec<u8>>,
    /// The fewest that lay here since the last trim: these were not needed.
    unneeded: usize,
}

/// What one thread keeps, and what it did. On cache lines of its own.
#[derive(Default)]
#[repr(align(128))]
struct Cache {
    shelves: [Shelf; CACHED_SIZES],
    /// Bytes on them.
    held: u64,
    hits: u64,
    misses: u64,
    returned: u64,
    discarded: u64,
    /// Bytes taken minus bytes given back here; by threads that only give back less than none.
    out: i64,
}

/// What became of the buffers of a pool since it was made. Without pooling everything stays 0.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferCounts {
    /// Taken from a cache or a shelf.
    pub hits: u64,
    /// Allocated, because there was none.
    pub misses: u64,
    /// Kept by a cache or a shelf.
    pub returned: u64,
    /// Freed, because there was no room or they had grown.
    pub discarded: u64,
    /// Bytes in caches and on shelves.
    pub held_bytes: u64,
    /// Bytes in use.
    pub out_bytes: u64,
}

/// Bytes that grow like a vector. Dropped, it goes back to where it came from.
pub struct Buffer {
    bytes: Vec<u8>,
    /// The pool, and which size it is there.
    home: Option<(Arc<Buffers>, usize)>,
}

impl Buffers {
    /// Without `enabled` every buffer is allocated when it is taken and freed when it is dropped.
    pub fn new(enabled: bool) -> Arc<Self> {
        Self::bounded(enabled, Bounds { cache: CACHE_MAX, shelves: SHELVES_MAX })
    }

    fn bounded(enabled: bool, bounds: Bounds) -> Arc<Self> {
        let (shelves, caches) = (std::array::from_fn(|_| Mutex::default()), std::array::from_fn(|_| Mutex::default()));
        Arc::new(Self { enabled, bounds, held: AtomicU64::new(0), shelves, caches })
    }

    /// An empty buffer with room for `capacity` bytes.
    pub fn take(self: &Arc<Self>, capacity: usize) -> Buffer {
        let Some(place) = self.place(capacity) else { return Vec::with_capacity(capacity).into() };
        let found = self.find(place);
        let bytes = found.unwrap_or_else(|| Vec::with_capacity(size_at(place)));
        Buffer { bytes, home: Some((Arc::clone(self), place)) }
    }

    fn find(&self, place: usize) -> Option<Vec<u8>> {
        let size = size_at(place) as u64;
        let mut cache = self.own_cache().lock();
        cache.out += size.cast_signed();
        let mut found = cache.shelves.get_mut(place).and_then(Shelf::take);
        if found.is_some() {
            cache.held -= size;
        } else {
            found = self.shelves[place].lock().take();
            if found.is_some() {
                self.held.fetch_sub(size, Ordering::Relaxed);
            }
        }
        *(if found.is_some() { &mut cache.hits } else { &mut cache.misses }) += 1;
        found
    }

    /// A copy of `content` that gives its memory back when the last clone is dropped.
    pub fn copy(self: &Arc<Self>, content: &[u8]) -> Bytes {
        let mut buffer = self.take(content.len());
        buffer.extend_from_slice(content);
        buffer.into()
    }

    /// Frees the buffers that lay unused since the last call, and returns their bytes. Many go back to the operating system.
    pub fn trim(&self) -> u64 {
        let mut freed = 0;
        for cache in &self.caches {
            let mut unneeded = Vec::new();
            let mut cache = cache.lock();
            for place in 0..CACHED_SIZES {
                let count = cache.shelves[place].trim(&mut unneeded);
                let bytes = (count * size_at(place)) as u64;
                cache.held -= bytes;
                freed += bytes;
            }
            // What is unneeded is freed when the lock is given up.
            drop(cache);
        }
        for (place, shelf) in self.shelves.iter().enumerate() {
            let mut unneeded = Vec::new();
            let bytes = (shelf.lock().trim(&mut unneeded) * size_at(place)) as u64;
            self.held.fetch_sub(bytes, Ordering::Relaxed);
            freed += bytes;
        }
        if freed >= GIVEN_BACK_MIN {
            system::give_back();
        }
        freed
    }

    /// Sums over all threads; while they work, of no single moment.
    pub fn counts(&self) -> BufferCounts {
        let mut counts = BufferCounts { held_bytes: self.held.load(Ordering::Relaxed), ..BufferCounts::default() };
        let mut out = 0;
        for cache in &self.caches {
            let cache = cache.lock();
            counts.hits += cache.hits;
            counts.misses += cache.misses;
            counts.returned += cache.returned;
            counts.discarded += cache.discarded;
            counts.held_bytes += cache.held;
            out += cache.out;
        }
        counts.out_bytes = u64::try_from(out).unwrap_or(0);
        counts
    }

    /// The place of buffers of at least this capacity, if there are any.
    fn place(&self, capacity: usize) -> Option<usize> {
        if !self.enabled || !(ASKED_MIN..=size_at(SIZES - 1)).contains(&capacity) {
            return None;
        }
        Some((capacity.next_power_of_two() / SMALLEST).trailing_zeros() as usize)
    }

    fn own_cache(&self) -> &Mutex<Cache> {
        // A thread that is ending has given its number back.
        &self.caches[NUMBER.try_with(|number| number.0).unwrap_or(0) % CACHES]
    }

    fn take_back(&self, mut bytes: Vec<u8>, place: usize) {
        let size = size_at(place) as u64;
        bytes.clear();
        let fits = bytes.capacity() == size_at(place);
        let mut cache = self.own_cache().lock();
        cache.out -= size.cast_signed();
        if fits && place < CACHED_SIZES && cache.held + size <= self.bounds.cache {
            cache.held += size;
            cache.returned += 1;
            cache.shelves[place].idle.push(bytes);
            return;
        }
        let room = |held: u64| Some(held + size).filter(|held| *held <= self.bounds.shelves);
        if fits && self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_ok() {
            cache.returned += 1;
            self.shelves[place].lock().idle.push(bytes);
        } else {
            cache.discarded += 1;
            drop(cache);
            drop(bytes);
        }
    }
}

impl Shelf {
    fn take(&mut self) -> Option<Vec<u8>> {
        let found = self.idle.pop();
        self.unneeded = self.unneeded.min(self.idle.len());
        found
    }

    /// Puts what was not needed into `out`, the oldest, and returns how many these are.
    fn trim(&mut self, out: &mut Vec<Vec<u8>>) -> usize {
        let count = self.unneeded;
        out.extend(self.idle.drain(..count));
        self.unneeded = self.idle.len();
        count
    }
}

/// The number of a thread, the lowest that no other has; free again when the thread ends.
struct Number(usize);

/// Numbers below the second that are free, and the first that nobody has had.
static NUMBERS: Mutex<(BTreeSet<usize>, usize)> = Mutex::new((BTreeSet::new(), 0));

thread_local! {
    static NUMBER: Number = Number::lowest();
}

impl Number {
    fn lowest() -> Self {
        let (free, next) = &mut *NUMBERS.lock();
        Self(free.pop_first().unwrap_or_else(|| {
            *next += 1;
            *next - 1
        }))
    }
}

impl Drop for Number {
    fn drop(&mut self) {
        NUMBERS.lock().0.insert(self.0);
    }
}

/// Bytes of the buffers at a place.
const fn size_at(place: usize) -> usize {
    SMALLEST << place
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some((home, place)) = self.home.take() {
            home.take_back(std::mem::take(&mut self.bytes), place);
        }
    }
}

impl Deref for Buffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Vec<u8> {
        &self.bytes
    }
}

impl DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut Vec<u8> {
        &mut self.bytes
    }
}

impl AsRef<[u8]> for Buffer {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

/// A buffer of no pool.
impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, home: None }
    }
}

impl From<Buffer> for Bytes {
    fn from(mut buffer: Buffer) -> Self {
        match &buffer.home {
            Some(_) => Self::from_owner(buffer),
            None => std::mem::take(&mut buffer.bytes).into(),
        }
    }
}
