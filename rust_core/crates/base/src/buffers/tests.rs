//! The pool compared with a model of where every buffer is, on one thread and on many.

use std::collections::HashMap;
use std::sync::mpsc::sync_channel;

use proptest::prelude::*;

use super::*;

const KIB: usize = 1024;
/// So small that the cache and the free lists become full.
const BOUNDS: Bounds = Bounds { cache: 100 * KIB as u64, shared: 512 * KIB as u64 };

fn size_for(capacity: usize) -> Option<u64> {
    let sizes = (10..=22).map(|power| 1usize << power);
    sizes.filter(|size| *size >= capacity && capacity > KIB / 2).map(|size| size as u64).next()
}

#[derive(Clone, Debug)]
enum Step {
    Take(usize),
    /// Drops one of the buffers in use, after growing it beyond its size if the flag is set.
    Drop(usize, bool),
    /// Turns one of the buffers in use into shared bytes and drops them.
    Share(usize),
    Trim,
}

fn step() -> impl Strategy<Value = Step> {
    let edges: &'static [usize] =
        &[KIB / 2, KIB / 2 + 1, KIB, KIB + 1, 64 * KIB, 64 * KIB + 1, 4096 * KIB, 4096 * KIB + 1];
    let capacity = prop_oneof![20 => 0..200 * KIB, 1 => prop::sample::select(edges)];
    prop_oneof![
        5 => capacity.prop_map(Step::Take),
        4 => (any::<usize>(), prop::bool::weighted(0.1)).prop_map(|(which, grown)| Step::Drop(which, grown)),
        1 => any::<usize>().prop_map(Step::Share),
        1 => Just(Step::Trim),
    ]
}

/// The expected counts of a pool that one thread uses.
#[derive(Default)]
struct Model {
    counts: BufferCounts,
    cache: Place,
    shared: Place,
}

/// By size: the number of unused buffers, and its minimum since the last trim.
#[derive(Default)]
struct Place(HashMap<u64, (u64, u64)>);

impl Place {
    fn held(&self) -> u64 {
        self.0.iter().map(|(size, (idle, _))| size * idle).sum()
    }

    fn take(&mut self, size: u64) -> bool {
        let (idle, fewest) = self.0.entry(size).or_default();
        let found = *idle > 0;
        *idle -= u64::from(found);
        *fewest = (*fewest).min(*idle);
        found
    }

    fn put(&mut self, size: u64, bound: u64) -> bool {
        let fits = self.held() + size <= bound;
        self.0.entry(size).or_default().0 += u64::from(fits);
        fits
    }

    fn trim(&mut self) -> u64 {
        let mut freed = 0;
        for (size, (idle, fewest)) in &mut self.0 {
            freed += size * *fewest;
            *idle -= *fewest;
            *fewest = *idle;
        }
        freed
    }
}

impl Model {
    fn take(&mut self, capacity: usize) {
        let Some(size) = size_for(capacity) else { return };
        let found = self.cache.take(size) || self.shared.take(size);
        *(if found { &mut self.counts.hits } else { &mut self.counts.misses }) += 1;
        self.counts.out_bytes += size;
    }

    fn give_back(&mut self, size: u64, grown: bool) {
        self.counts.out_bytes -= size;
        let cached = size <= 64 * KIB as u64;
        let kept = !grown && (cached && self.cache.put(size, BOUNDS.cache) || self.shared.put(size, BOUNDS.shared));
        *(if kept { &mut self.counts.returned } else { &mut self.counts.discarded }) += 1;
    }

    fn trim(&mut self) -> u64 {
        self.cache.trim() + self.shared.trim()
    }

    fn counts(&self) -> BufferCounts {
        BufferCounts { held_bytes: self.cache.held() + self.shared.held(), ..self.counts }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn a_pool_does_what_its_model_does(steps in prop::collection::vec(step(), 1..120)) {
        let buffers = Buffers::bounded(true, BOUNDS);
        let mut model = Model::default();
        let mut out: Vec<(Buffer, usize)> = Vec::new();
        for step in steps {
            match step {
                Step::Take(capacity) => {
                    let mut buffer = buffers.take(capacity);
                    model.take(capacity);
                    prop_assert!(buffer.is_empty() && buffer.capacity() >= capacity);
                    let mine = buffer.as_ptr();
                    prop_assert!(capacity == 0 || out.iter().all(|(other, _)| other.as_ptr() != mine));
                    // The content of earlier users is not visible, however the buffer is filled.
                    buffer.resize(capacity, 0);
                    prop_assert!(buffer.iter().all(|byte| *byte == 0));
                    buffer.fill(0xa5);
                    out.push((buffer, capacity));
                }
                Step::Drop(which, grown) if !out.is_empty() => {
                    let (mut buffer, capacity) = out.swap_remove(which % out.len());
                    if grown {
                        let more = buffer.capacity() + 1;
                        buffer.resize(more, 0xa5);
                    }
                    drop(buffer);
                    if let Some(size) = size_for(capacity) {
                        model.give_back(size, grown);
                    }
                }
                Step::Share(which) if !out.is_empty() => {
                    let (buffer, capacity) = out.swap_remove(which % out.len());
                    let shared = Bytes::from(buffer);
                    let part = shared.slice(capacity / 2..);
                    drop(shared);
                    prop_assert!(part.iter().all(|byte| *byte == 0xa5));
                    prop_assert_eq!(buffers.counts(), model.counts());
                    drop(part);
                    if let Some(size) = size_for(capacity) {
                        model.give_back(size, false);
                    }
                }
                Step::Drop(..) | Step::Share(_) => {}
                Step::Trim => prop_assert_eq!(buffers.trim(), model.trim()),
            }
            let counts = buffers.counts();
            prop_assert_eq!(counts, model.counts());
            prop_assert!(counts.held_bytes <= BOUNDS.cache + BOUNDS.shared);
            prop_assert_eq!(model.shared.held(), buffers.held.load(Ordering::Relaxed));
        }
        drop(out);
        prop_assert_eq!(buffers.counts().out_bytes, 0);
        buffers.trim();
        buffers.trim();
        prop_assert_eq!(buffers.counts().held_bytes, 0);
    }
}

#[test]
fn without_pooling_nothing_is_kept_or_counted() {
    let buffers = Buffers::new(false);
    for capacity in [0, 16 * KIB, 256 * KIB, 4096 * KIB] {
        let buffer = buffers.take(capacity);
        // Exactly the requested capacity, not rounded up to a size of the pool.
        assert_eq!(buffer.capacity(), capacity);
        drop(buffer);
        drop(buffers.copy(&vec![1; capacity]));
    }
    assert_eq!(buffers.trim(), 0);
    assert_eq!(buffers.counts(), BufferCounts::default());
}

#[test]
fn a_copy_comes_back_with_its_last_clone() {
    let buffers = Buffers::new(true);
    let copy = buffers.copy(&[7; 64 * KIB]);
    let clone = copy.slice(100..);
    drop(copy);
    assert_eq!(buffers.counts().held_bytes, 0);
    assert_eq!(&clone[..], &[7; 64 * KIB - 100]);
    drop(clone);
    assert_eq!(buffers.counts().held_bytes, 64 * KIB as u64);
    // Content that is smaller than any size of the pool is copied as well.
    assert_eq!(&buffers.copy(b"small")[..], b"small");
    assert_eq!(buffers.counts().misses, 1);
}

/// Some threads fill buffers, and others drop them and end. Every byte received is the one that was sent.
#[test]
fn threads_that_end_keep_no_buffers() {
    const SENDERS: usize = 4;
    const EACH: usize = 3_000;
    let bounds = Bounds { cache: 64 * KIB as u64, shared: 2 << 20 };
    let buffers = Buffers::bounded(true, bounds);
    let (sender, receiver) = sync_channel::<(u8, Buffer)>(8);
    let senders: Vec<_> = (0..SENDERS as u8)
        .map(|mark| {
            let (buffers, sender) = (Arc::clone(&buffers), sender.clone());
            std::thread::spawn(move || {
                for n in 0..EACH {
                    let length = (3 * KIB) << (n % 7);
                    let mut buffer = buffers.take(length);
                    assert!(buffer.is_empty());
                    buffer.resize(length, mark);
                    match n % 3 {
                        // Dropped by another thread or by this one.
                        0 | 1 => sender.send((mark, buffer)).unwrap(),
                        _ => drop(buffer),
                    }
                    if n % 500 == 0 {
                        buffers.trim();
                    }
                    let held = buffers.held.load(Ordering::Relaxed);
                    assert!(held <= bounds.shared && buffers.caches.iter().all(|c| c.lock().held <= bounds.cache));
                }
            })
        })
        .collect();
    drop(sender);
    let receiving = std::thread::spawn(move || {
        for (mark, buffer) in receiver {
            assert!(buffer.iter().all(|byte| *byte == mark));
        }
    });
    senders.into_iter().for_each(|thread| thread.join().unwrap());
    receiving.join().unwrap();
    let counts = buffers.counts();
    assert_eq!(counts.out_bytes, 0);
    assert_eq!(counts.hits + counts.misses, (SENDERS * EACH) as u64);
    assert_eq!(counts.returned + counts.discarded, (SENDERS * EACH) as u64);
    assert!(counts.hits > 0);
    let cached: u64 = buffers.caches.iter().map(|cache| cache.lock().held).sum();
    assert_eq!(buffers.held.load(Ordering::Relaxed) + cached, counts.held_bytes);
    buffers.trim();
    buffers.trim();
    assert_eq!(buffers.counts().held_bytes, 0);
}

/// A thread gets back what is in its cache, and other threads what did not fit into it.
#[test]
fn threads_keep_little_and_share_the_rest() {
    let buffers = Buffers::new(true);
    let fill = |count: usize| drop((0..count).map(|_| buffers.take(64 * KIB)).collect::<Vec<_>>());
    // Four fit into the cache of this thread, two overflow.
    fill(6);
    let cache = || std::ptr::from_ref(buffers.own_cache()) as usize;
    let mine = cache();
    // While other tests run many threads, one of them may share the cache of this one.
    let elsewhere = || {
        let other = cache() != mine;
        other.then(|| fill(6)).is_some()
    };
    while !std::thread::scope(|scope| scope.spawn(elsewhere).join().unwrap()) {}
    let counts = buffers.counts();
    assert_eq!((counts.hits, counts.misses), (2, 6 + 4));
    let held = |cache: &Mutex<Cache>| cache.lock().held;
    assert!(buffers.caches.iter().all(|cache| held(cache) <= CACHE_MAX));
    assert_eq!(buffers.caches.iter().filter(|cache| held(cache) == CACHE_MAX).count(), 2);
    // The second thread has ended. The next one gets its buffers, or they are freed.
    buffers.trim();
    assert_eq!(buffers.trim(), 10 * 64 * KIB as u64);
    assert_eq!(buffers.counts().held_bytes, 0);
}

/// More threads than there are caches share them.
#[test]
fn there_may_be_more_threads_than_caches() {
    let buffers = Buffers::new(true);
    let threads = 2 * CACHES + 3;
    let all = std::sync::Barrier::new(threads);
    std::thread::scope(|scope| {
        for mark in 0..threads as u8 {
            let (buffers, all) = (&buffers, &all);
            scope.spawn(move || {
                all.wait();
                for length in [700, 5_000, 70_000].repeat(20) {
                    let mut buffer = buffers.take(length);
                    buffer.resize(length, mark);
                    assert!(buffer.iter().all(|byte| *byte == mark));
                }
            });
        }
    });
    let counts = buffers.counts();
    assert_eq!(counts.out_bytes, 0);
    assert_eq!(counts.hits + counts.misses, 60 * threads as u64);
    assert_eq!(counts.returned + counts.discarded, 60 * threads as u64);
}
