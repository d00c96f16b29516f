//! Objects that were recently read from the index. Bounded by the number of entries and by the bytes of their records.
//! An entry never outlives its object: a publication removes it, and a reader that looked the object up before that
//! publication cannot insert it (the generation of the shard has changed).

use std::collections::HashMap;
use std::hash::BuildHasher;
use std::sync::Arc;

use bytes::Bytes;

use super::recent::overlay::BlobPlace;
use orcas_base::per_thread::PerThread;
use orcas_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use orcas_base::sync::{RandomState, RwLock};
use orcas_record::{Annotation, BucketId, Encryption, Extent, Object};

const SHARDS: usize = 16;
/// Bytes all shards together may hold.
const CAPACITY_BYTES: usize = 32 << 20;
/// An object with a larger record is not worth its place.
const ENTRY_BYTES_MAX: usize = 64 << 10;

/// Lookups in the object cache, and what it holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CacheCounts {
    pub hits: u64,
    pub misses: u64,
    pub entries: u64,
    pub bytes: u64,
}

/// An object with the place of its content when that is a single blob.
#[derive(Clone)]
pub struct LocatedObject {
    pub object: Arc<Object>,
    pub place: Option<BlobPlace>,
}

pub struct ObjectCache {
    shards: Vec<RwLock<Shard>>,
    hasher: RandomState,
    lookups: PerThread<Lookups>,
}

#[derive(Default)]
struct Lookups {
    hits: AtomicU64,
    misses: AtomicU64,
}

#[derive(Default)]
struct Shard {
    generation: u64,
    bytes: usize,
    entries: HashMap<(BucketId, Bytes), Entry>,
    /// Keys in the order of their insertion; an entry that was used since gets a second chance.
    order: std::collections::VecDeque<(BucketId, Bytes)>,
}

struct Entry {
    placed: LocatedObject,
    bytes: usize,
    used: AtomicBool,
}

/// The state of the cache before a lookup, in the overlay as well as in the index. `insert` needs it.
#[derive(Clone, Copy)]
pub struct Ticket {
    shard: usize,
    generation: u64,
}

impl Default for ObjectCache {
    fn default() -> Self {
        Self {
            shards: (0..SHARDS).map(|_| RwLock::default()).collect(),
            hasher: RandomState::default(),
            lookups: PerThread::default(),
        }
    }
}

impl ObjectCache {
    fn shard(&self, bucket: BucketId, key: &[u8]) -> usize {
        self.hasher.hash_one((bucket, key)) as usize % SHARDS
    }

    pub fn get(&self, bucket: BucketId, key: &Bytes) -> Result<LocatedObject, Ticket> {
        let at = self.shard(bucket, key);
        let shard = self.shards[at].read();
        let lookups = self.lookups.mine();
        match shard.entries.get(&(bucket, key.clone())) {
            Some(entry) => {
                // Written only once, because other threads read beside it.
                if !entry.used.load(Ordering::Relaxed) {
                    entry.used.store(true, Ordering::Relaxed);
                }
                lookups.hits.fetch_add(1, Ordering::Relaxed);
                Ok(entry.placed.clone())
            }
            None => {
                lookups.misses.fetch_add(1, Ordering::Relaxed);
                Err(Ticket { shard: at, generation: shard.generation })
            }
        }
    }

    pub fn counts(&self) -> CacheCounts {
        let mut counts = CacheCounts::default();
        for Lookups { hits, misses } in self.lookups.all() {
            counts.hits += hits.load(Ordering::Relaxed);
            counts.misses += misses.load(Ordering::Relaxed);
        }
        for shard in &self.shards {
            let shard = shard.read();
            counts.entries += shard.entries.len() as u64;
            counts.bytes += shard.bytes as u64;
        }
        counts
    }

    pub fn insert(&self, ticket: Ticket, placed: &LocatedObject) {
        let bytes = cost(&placed.object);
        if bytes > ENTRY_BYTES_MAX {
            return;
        }
        let mut shard = self.shards[ticket.shard].write();
        if shard.generation != ticket.generation {
            return;
        }
        let at = (placed.object.version.bucket, placed.object.version.key.clone());
        shard.bytes += bytes;
        match shard.entries.insert(at.clone(), Entry { placed: placed.clone(), bytes, used: AtomicBool::new(false) }) {
            Some(replaced) => shard.bytes -= replaced.bytes,
            None => shard.order.push_back(at),
        }
        shard.evict();
    }

    /// Called when bytes have moved: every place in here may be an old one.
    pub fn clear(&self) {
        for shard in &self.shards {
            let mut shard = shard.write();
            *shard = Shard { generation: shard.generation + 1, ..Shard::default() };
        }
    }

    /// Called for every key that a publication changes, after the overlay has the change.
    pub fn remove(&self, bucket: BucketId, key: &Bytes) {
        let mut shard = self.shards[self.shard(bucket, key)].write();
        shard.generation += 1;
        if let Some(entry) = shard.entries.remove(&(bucket, key.clone())) {
            shard.bytes -= entry.bytes;
        }
    }
}

impl Shard {
    fn evict(&mut self) {
        while self.bytes > CAPACITY_BYTES / SHARDS || self.order.len() > 2 * self.entries.len() + 64 {
            let Some(at) = self.order.pop_front() else { return };
            match self.entries.get_mut(&at) {
                Some(entry) if entry.used.load(Ordering::Relaxed) => {
                    *entry.used.get_mut() = false;
                    self.order.push_back(at);
                }
                Some(entry) => {
                    self.bytes -= entry.bytes;
                    self.entries.remove(&at);
                }
                // Removed by a publication since.
                None => {}
            }
        }
    }
}

/// The annotation, and its part of the record that it is made of slices of.
fn annotation_cost(annotation: &Annotation) -> usize {
    let inline = if let Extent::Inline(bytes) = &annotation.text { bytes.len() } else { 0 };
    size_of::<Annotation>() + 64 + annotation.name.len() + inline
}

/// Roughly the bytes an object keeps alive.
fn cost(object: &Object) -> usize {
    let version = &object.version;
    let metadata = version.headers.metadata_len(64);
    let annotations = version.attributes.annotations.as_slice().iter();
    let annotations: usize = annotations.map(annotation_cost).sum();
    let tags: usize = version.attributes.tags.iter().map(|(name, value)| name.len() + value.len() + 64).sum();
    let context = match &version.attributes.encryption {
        Some(Encryption::Named(named)) => named.context.len(),
        Some(Encryption::Managed | Encryption::Customer(_)) | None => 0,
    };
    let attributes = annotations + tags + context;
    512 + version.key.len() * 2 + metadata + version.parts.len() * 64 + version.manifest.len() * 48 + attributes
}
