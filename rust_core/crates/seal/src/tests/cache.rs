use std::collections::VecDeque;

use proptest::prelude::*;

use crate::{CacheCounts, CacheLimits, Kdf, KeyCache, MasterCache, MasterSecret, ScryptParams};

const LIFETIME_MS: u64 = 100;

fn limits(entries: usize) -> CacheLimits {
    CacheLimits { entries, lifetime_ms: LIFETIME_MS }
}

fn made(cache: &KeyCache<u32, u32>, key: u32, now_ms: u64) -> bool {
    let mut made = false;
    let value = cache.get_or_make(&key, now_ms, || {
        made = true;
        Ok::<_, ()>(key * 2)
    });
    assert_eq!(*value.unwrap(), key * 2);
    made
}

/// Entries with the time at which they were made, the most recently used first.
#[derive(Default)]
struct Model {
    entries: VecDeque<(u32, u64)>,
    counts: CacheCounts,
}

impl Model {
    fn made(&mut self, key: u32, now_ms: u64, capacity: usize) -> bool {
        let found = self.entries.iter().position(|(other, _)| *other == key);
        let entry = found.and_then(|at| self.entries.remove(at)).filter(|(_, made_ms)| now_ms - made_ms < LIFETIME_MS);
        self.entries.push_front(entry.unwrap_or((key, now_ms)));
        self.entries.truncate(capacity);
        *(if entry.is_some() { &mut self.counts.hits } else { &mut self.counts.misses }) += 1;
        entry.is_none()
    }
}

#[derive(Clone, Debug)]
enum Step {
    Use(u32),
    Wait(u64),
    RemoveAbove(u32),
    Trim,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        8 => (0u32..8).prop_map(Step::Use),
        2 => (0u64..60).prop_map(Step::Wait),
        1 => (0u32..8).prop_map(Step::RemoveAbove),
        1 => Just(Step::Trim),
    ];
    prop::collection::vec(step, 0..200)
}

proptest! {
    #[test]
    fn the_cache_behaves_like_a_list(capacity in 1usize..6, steps in steps()) {
        let cache = KeyCache::new(limits(capacity));
        let mut model = Model::default();
        let mut now_ms = 0;
        for step in steps {
            match step {
                Step::Use(key) => prop_assert_eq!(made(&cache, key, now_ms), model.made(key, now_ms, capacity)),
                Step::Wait(ms) => now_ms += ms,
                Step::RemoveAbove(limit) => {
                    cache.remove_if(|key, value| *key > limit && *value == 2 * *key);
                    model.entries.retain(|(key, _)| *key <= limit);
                }
                Step::Trim => {
                    cache.trim(now_ms);
                    model.entries.retain(|(_, made_ms)| now_ms - made_ms < LIFETIME_MS);
                }
            }
            model.counts.entries = model.entries.len();
            prop_assert_eq!(cache.counts(), model.counts);
        }
    }
}

#[test]
fn entries_end_with_their_lifetime_however_often_they_are_used() {
    let cache = KeyCache::new(limits(2));
    assert!(made(&cache, 1, 0));
    assert!(!made(&cache, 1, 60));
    assert!(!made(&cache, 1, 99));
    assert!(made(&cache, 1, 100));
    assert_eq!(cache.get(&1, 150).as_deref(), Some(&2));
    assert_eq!(cache.get(&1, 200), None);
    assert_eq!(cache.counts(), CacheCounts { hits: 3, misses: 3, entries: 0 });
}

#[test]
fn an_error_is_not_cached() {
    let cache = KeyCache::<u32, u32>::new(limits(2));
    assert_eq!(cache.get_or_make(&1, 0, || Err("no")).unwrap_err(), "no");
    assert_eq!(cache.counts(), CacheCounts { hits: 0, misses: 1, entries: 0 });
}

#[test]
fn what_is_removed_while_it_is_made_is_not_kept() {
    let cache = KeyCache::<u32, u32>::new(limits(2));
    let value = cache.get_or_make(&1, 0, || {
        cache.remove_if(|_, _| true);
        Ok::<_, ()>(5)
    });
    assert_eq!(*value.unwrap(), 5);
    assert_eq!(cache.get(&1, 0), None);
}

#[test]
fn scrypt_runs_once_for_a_passphrase_and_a_header() {
    let cache = MasterCache::new(limits(2));
    let params = ScryptParams::new(10, 1, 1).unwrap();
    let (one, two) = (Kdf::Scrypt { params, salt: [1; 32] }, Kdf::Scrypt { params, salt: [2; 32] });
    let secret = MasterSecret::from_passphrase(b"correct horse").unwrap();
    let first = cache.derive(&secret, one, 0).unwrap();
    assert!(std::sync::Arc::ptr_eq(&first, &cache.derive(&secret, one, 1).unwrap()));
    assert!(!std::sync::Arc::ptr_eq(&first, &cache.derive(&secret, two, 1).unwrap()));
    // Another passphrase never gets the key of this one.
    let wrong = MasterSecret::from_passphrase(b"wrong horse").unwrap();
    assert!(!std::sync::Arc::ptr_eq(&first, &cache.derive(&wrong, one, 1).unwrap()));
}
