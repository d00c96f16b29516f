//! A pool of byte buffers for bodies, their pieces and documents.
//!
//! A dropped buffer returns to the pool, from any thread, with length 0. Safe code cannot read a vector beyond its
//! length, so no user sees the content of an earlier one. Each thread has a small cache; the rest is in shared free
//! lists. The caches belong to the pool, so a thread that ends keeps nothing. All of them are bounded in bytes, and
//! `trim` frees what was not needed. Must not know requests.

use std::collections::BTreeSet;
use std::ops::{Deref, DerefMut};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

mod system;
#[cfg(test)]
mod tests;

pub use system::release_memory;

/// Bytes of the smallest buffers. The allocator is as fast for smaller ones.
const SMALLEST: usize = 1024;
/// The smallest capacity for which a buffer is pooled, so that at least half of each buffer is used.
const ASKED_MIN: usize = SMALLEST / 2 + 1;
/// Number of sizes: powers of two up to 4 MiB, the default chunk size.
const SIZES: usize = 13;
/// Number of sizes in the caches of threads, up to 64 KiB. To fill a larger buffer costs far more than a shared lock.
const CACHED_SIZES: usize = 7;
/// Most bytes in the cache of a thread.
const CACHE_MAX: u64 = 256 * 1024;
/// Number of caches. If there are more threads, some share a cache.
const CACHES: usize = 32;
/// Most bytes in the shared free lists. Together with the caches these are 32 MiB, twice what the index may be behind the
/// log, because bodies return to the pool once the index has them.
const SHARED_MAX: u64 = 24 * 1024 * 1024;
/// Bytes freed by `trim` from which on it pays to make the allocator return memory.
const RELEASED_MIN: u64 = 1024 * 1024;

/// The buffer pool of a store.
pub struct Buffers {
    enabled: bool,
    bounds: Bounds,
    /// Bytes in `free_lists`.
    held: AtomicU64,
    free_lists: [Mutex<FreeList>; SIZES],
    /// A cache is locked before a free list, never after it.
    caches: [Mutex<Cache>; CACHES],
}

#[derive(Clone, Copy)]
struct Bounds {
    cache: u64,
    shared: u64,
}

/// Unused buffers of one size.
#[derive(Default)]
struct FreeList {
    /// The last one was used most recently.
    idle: Vec<Vec<u8>>,
    /// The smallest length of `idle` since the last trim. So many were not needed.
    unneeded: usize,
}

/// The unused buffers and the counts of one thread, on cache lines of their own.
#[derive(Default)]
#[repr(align(128))]
struct Cache {
    free_lists: [FreeList; CACHED_SIZES],
    /// Bytes in `free_lists`.
    held: u64,
    hits: u64,
    misses: u64,
    returned: u64,
    discarded: u64,
    /// Bytes taken minus bytes returned. Negative for a thread that only returns buffers.
    out: i64,
}

/// Counts of a pool since it was made. All are 0 without pooling.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct BufferCounts {
    /// Buffers taken from a cache or a free list.
    pub hits: u64,
    /// Buffers allocated because there was no unused one.
    pub misses: u64,
    /// Buffers returned to a cache or a free list.
    pub returned: u64,
    /// Buffers freed because the pool was full or they had grown.
    pub discarded: u64,
    /// Bytes in caches and free lists.
    pub held_bytes: u64,
    /// Bytes in use.
    pub out_bytes: u64,
}

/// A growable byte buffer that returns to its pool when dropped.
pub struct Buffer {
    bytes: Vec<u8>,
    /// The pool, and the number of the size in it.
    pool: Option<(Arc<Buffers>, usize)>,
}

impl Buffers {
    /// Unless `enabled`, every buffer is allocated when it is taken and freed when it is dropped.
    pub fn new(enabled: bool) -> Arc<Self> {
        Self::bounded(enabled, Bounds { cache: CACHE_MAX, shared: SHARED_MAX })
    }

    fn bounded(enabled: bool, bounds: Bounds) -> Arc<Self> {
        let (free_lists, caches) =
            (std::array::from_fn(|_| Mutex::default()), std::array::from_fn(|_| Mutex::default()));
        Arc::new(Self { enabled, bounds, held: AtomicU64::new(0), free_lists, caches })
    }

    /// An empty buffer with a capacity of at least `capacity` bytes.
    pub fn take(self: &Arc<Self>, capacity: usize) -> Buffer {
        let Some(place) = self.place(capacity) else { return Vec::with_capacity(capacity).into() };
        let found = self.find(place);
        let bytes = found.unwrap_or_else(|| Vec::with_capacity(size_at(place)));
        Buffer { bytes, pool: Some((Arc::clone(self), place)) }
    }

    fn find(&self, place: usize) -> Option<Vec<u8>> {
        let size = size_at(place) as u64;
        let mut cache = self.own_cache().lock();
        cache.out += size.cast_signed();
        let mut found = cache.free_lists.get_mut(place).and_then(FreeList::take);
        if found.is_some() {
            cache.held -= size;
        } else {
            found = self.free_lists[place].lock().take();
            if found.is_some() {
                self.held.fetch_sub(size, Ordering::Relaxed);
            }
        }
        *(if found.is_some() { &mut cache.hits } else { &mut cache.misses }) += 1;
        found
    }

    /// A copy of `content` whose memory returns to the pool with its last clone.
    pub fn copy(self: &Arc<Self>, content: &[u8]) -> Bytes {
        let mut buffer = self.take(content.len());
        buffer.extend_from_slice(content);
        buffer.into()
    }

    /// Frees the buffers that were unused since the last call. Returns their bytes.
    pub fn trim(&self) -> u64 {
        let mut freed = 0;
        for cache in &self.caches {
            let mut unneeded = Vec::new();
            let mut cache = cache.lock();
            for place in 0..CACHED_SIZES {
                let count = cache.free_lists[place].trim(&mut unneeded);
                let bytes = (count * size_at(place)) as u64;
                cache.held -= bytes;
                freed += bytes;
            }
            // The buffers are freed after the lock is released.
            drop(cache);
        }
        for (place, list) in self.free_lists.iter().enumerate() {
            let mut unneeded = Vec::new();
            let bytes = (list.lock().trim(&mut unneeded) * size_at(place)) as u64;
            self.held.fetch_sub(bytes, Ordering::Relaxed);
            freed += bytes;
        }
        if freed >= RELEASED_MIN {
            system::release_memory();
        }
        freed
    }

    /// Sums over all threads, which are not consistent while the threads work.
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

    /// The number of the smallest size of at least `capacity` bytes, if it is pooled.
    fn place(&self, capacity: usize) -> Option<usize> {
        if !self.enabled || !(ASKED_MIN..=size_at(SIZES - 1)).contains(&capacity) {
            return None;
        }
        Some((capacity.next_power_of_two() / SMALLEST).trailing_zeros() as usize)
    }

    fn own_cache(&self) -> &Mutex<Cache> {
        // A thread that is ending has no number any more.
        &self.caches[NUMBER.try_with(|number| number.0).unwrap_or(0) % CACHES]
    }

    fn put_back(&self, mut bytes: Vec<u8>, place: usize) {
        let size = size_at(place) as u64;
        bytes.clear();
        let fits = bytes.capacity() == size_at(place);
        let mut cache = self.own_cache().lock();
        cache.out -= size.cast_signed();
        if fits && place < CACHED_SIZES && cache.held + size <= self.bounds.cache {
            cache.held += size;
            cache.returned += 1;
            cache.free_lists[place].idle.push(bytes);
            return;
        }
        let room = |held: u64| Some(held + size).filter(|held| *held <= self.bounds.shared);
        if fits && self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_ok() {
            cache.returned += 1;
            self.free_lists[place].lock().idle.push(bytes);
        } else {
            cache.discarded += 1;
            drop(cache);
            drop(bytes);
        }
    }
}

impl FreeList {
    fn take(&mut self) -> Option<Vec<u8>> {
        let found = self.idle.pop();
        self.unneeded = self.unneeded.min(self.idle.len());
        found
    }

    /// Moves the buffers that were not needed to `out`, the oldest first, and returns their number.
    fn trim(&mut self, out: &mut Vec<Vec<u8>>) -> usize {
        let count = self.unneeded;
        out.extend(self.idle.drain(..count));
        self.unneeded = self.idle.len();
        count
    }
}

/// The number of a thread: the lowest that is free. It becomes free again when the thread ends.
struct ThreadNumber(usize);

/// The free numbers, and the lowest number that was never used.
static NUMBERS: Mutex<(BTreeSet<usize>, usize)> = Mutex::new((BTreeSet::new(), 0));

thread_local! {
    static NUMBER: ThreadNumber = ThreadNumber::lowest();
}

impl ThreadNumber {
    fn lowest() -> Self {
        let (free, next) = &mut *NUMBERS.lock();
        Self(free.pop_first().unwrap_or_else(|| {
            *next += 1;
            *next - 1
        }))
    }
}

impl Drop for ThreadNumber {
    fn drop(&mut self) {
        NUMBERS.lock().0.insert(self.0);
    }
}

/// Bytes of the buffers of a size.
const fn size_at(place: usize) -> usize {
    SMALLEST << place
}

impl Drop for Buffer {
    fn drop(&mut self) {
        if let Some((pool, place)) = self.pool.take() {
            pool.put_back(std::mem::take(&mut self.bytes), place);
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

/// A buffer without a pool.
impl From<Vec<u8>> for Buffer {
    fn from(bytes: Vec<u8>) -> Self {
        Self { bytes, pool: None }
    }
}

impl From<Buffer> for Bytes {
    fn from(mut buffer: Buffer) -> Self {
        match &buffer.pool {
            Some(_) => Self::from_owner(buffer),
            None => std::mem::take(&mut buffer.bytes).into(),
        }
    }
}
