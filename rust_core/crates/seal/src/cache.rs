//! A cache of keys that take time to derive or unwrap: bounded, with the least recently used evicted first and no entry
//! older than its lifetime. The caller tells the time. Values are made outside the lock, which is held for one lookup.

use std::collections::HashMap;
use std::fmt;
use std::hash::Hash;
use std::sync::Arc;

use parking_lot::Mutex;

/// Instead of the index of an entry: the end of the list.
const NONE: usize = usize::MAX;

/// Lookups since the cache was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    pub hits: u64,
    pub misses: u64,
    pub entries: usize,
}

/// How much a cache keeps, and how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheLimits {
    /// Most entries: at least one.
    pub entries: usize,
    pub lifetime_ms: u64,
}

impl Default for CacheLimits {
    fn default() -> Self {
        Self { entries: 500, lifetime_ms: 5 * 60 * 1000 }
    }
}

/// Shared values by key. A dropped value is freed, and so overwritten, when its last user is done with it.
pub struct KeyCache<K, V> {
    inner: Mutex<Inner<K, V>>,
    limits: CacheLimits,
}

struct Inner<K, V> {
    places: HashMap<K, usize>,
    entries: Vec<Entry<K, V>>,
    /// Most and least recently used.
    first: usize,
    last: usize,
    hits: u64,
    misses: u64,
    /// Rises with each removal: what was being made before it is not kept.
    generation: u64,
}

struct Entry<K, V> {
    key: K,
    value: Arc<V>,
    made_ms: u64,
    before: usize,
    after: usize,
}

impl<K: Copy + Eq + Hash, V> KeyCache<K, V> {
    pub fn new(limits: CacheLimits) -> Self {
        assert!(limits.entries > 0, "a cache has room");
        let inner = Inner {
            places: HashMap::new(),
            entries: Vec::new(),
            first: NONE,
            last: NONE,
            hits: 0,
            misses: 0,
            generation: 0,
        };
        Self { inner: Mutex::new(inner), limits }
    }

    /// The value, if it is cached and not too old at `now_ms`, of any clock that never goes back.
    pub fn get(&self, key: &K, now_ms: u64) -> Option<Arc<V>> {
        self.look(key, now_ms).ok()
    }

    /// The value, or what `make` makes and the cache keeps. Two threads that miss at once both make one. What was being
    /// made while entries were removed is returned and not kept.
    ///
    /// # Errors
    /// Those of `make`; nothing is cached.
    pub fn get_or_make<E>(&self, key: &K, now_ms: u64, make: impl FnOnce() -> Result<V, E>) -> Result<Arc<V>, E> {
        let generation = match self.look(key, now_ms) {
            Ok(found) => return Ok(found),
            Err(generation) => generation,
        };
        let value = Arc::new(make()?);
        let mut inner = self.inner.lock();
        let old = if inner.generation == generation {
            inner.insert((*key, Arc::clone(&value)), now_ms, self.limits.entries)
        } else {
            None
        };
        drop(inner);
        // Overwriting a key takes time: not under the lock.
        drop(old);
        Ok(value)
    }

    /// The value, or the generation in which it is missing.
    fn look(&self, key: &K, now_ms: u64) -> Result<Arc<V>, u64> {
        let mut inner = self.inner.lock();
        let mut expired = None;
        if let Some(&place) = inner.places.get(key) {
            if now_ms.saturating_sub(inner.entries[place].made_ms) < self.limits.lifetime_ms {
                inner.hits += 1;
                inner.move_first(place);
                return Ok(Arc::clone(&inner.entries[place].value));
            }
            expired = Some(inner.remove(place));
        }
        inner.misses += 1;
        let generation = inner.generation;
        drop(inner);
        drop(expired);
        Err(generation)
    }

    /// Forgets the entries for which `doomed` holds, such as those of a key that was disabled. To be called after
    /// nobody makes such values any more. `doomed` runs under the lock, so it must be short.
    pub fn remove_if(&self, doomed: impl Fn(&K, &V) -> bool) {
        let mut removed = Vec::new();
        let mut inner = self.inner.lock();
        inner.generation += 1;
        for place in (0..inner.entries.len()).rev() {
            if doomed(&inner.entries[place].key, &inner.entries[place].value) {
                removed.push(inner.remove(place));
            }
        }
        drop(inner);
        drop(removed);
    }

    /// Forgets what is too old at `now_ms`, so that unused keys do not stay in memory.
    pub fn trim(&self, now_ms: u64) {
        let mut removed = Vec::new();
        let mut inner = self.inner.lock();
        for place in (0..inner.entries.len()).rev() {
            if now_ms.saturating_sub(inner.entries[place].made_ms) >= self.limits.lifetime_ms {
                removed.push(inner.remove(place));
            }
        }
        drop(inner);
        drop(removed);
    }

    pub fn counts(&self) -> CacheCounts {
        let inner = self.inner.lock();
        CacheCounts { hits: inner.hits, misses: inner.misses, entries: inner.entries.len() }
    }
}

impl<K: Copy + Eq + Hash, V> Inner<K, V> {
    /// Returns what had to go for it.
    fn insert(&mut self, (key, value): (K, Arc<V>), made_ms: u64, capacity: usize) -> Option<Entry<K, V>> {
        let gone = match self.places.get(&key) {
            Some(&place) => Some(self.remove(place)),
            None if self.entries.len() == capacity => Some(self.remove(self.last)),
            None => None,
        };
        let place = self.entries.len();
        self.entries.push(Entry { key, value, made_ms, before: NONE, after: NONE });
        self.places.insert(key, place);
        self.link_first(place);
        gone
    }

    fn move_first(&mut self, place: usize) {
        if self.first != place {
            self.unlink(place);
            self.link_first(place);
        }
    }

    fn link_first(&mut self, place: usize) {
        let second = self.first;
        self.entries[place].before = NONE;
        self.entries[place].after = second;
        self.first = place;
        match self.entries.get_mut(second) {
            Some(entry) => entry.before = place,
            None => self.last = place,
        }
    }

    fn unlink(&mut self, place: usize) {
        let (before, after) = (self.entries[place].before, self.entries[place].after);
        self.link(before, after, (after, before));
    }

    /// What comes after `before`, and before `after`: the ends of the list stand in for missing neighbours.
    fn link(&mut self, before: usize, after: usize, (next, previous): (usize, usize)) {
        match self.entries.get_mut(before) {
            Some(entry) => entry.after = next,
            None => self.first = next,
        }
        match self.entries.get_mut(after) {
            Some(entry) => entry.before = previous,
            None => self.last = previous,
        }
    }

    /// The last entry takes its place.
    fn remove(&mut self, place: usize) -> Entry<K, V> {
        self.unlink(place);
        let removed = self.entries.swap_remove(place);
        self.places.remove(&removed.key);
        if let Some(moved) = self.entries.get(place) {
            let (key, before, after) = (moved.key, moved.before, moved.after);
            self.places.insert(key, place);
            self.link(before, after, (place, place));
        }
        removed
    }
}

impl<K, V> fmt::Debug for KeyCache<K, V> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("KeyCache(..)")
    }
}
