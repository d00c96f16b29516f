//! Digests of the prefixes of recent bodies, so that content that is uploaded again is not hashed again for its entity
//! tag and payload hash.
//!
//! A prefix is named by the keyed fingerprints of its chunks, in order. The fingerprints are computed each time, so a
//! digest from here was computed over the same bytes. In memory only, and bounded.

use std::collections::{HashMap, VecDeque};

use parking_lot::Mutex;
use sha2::Sha256;

use orcas_checksum::Md5Hasher;
use orcas_record::Fingerprint;

/// Entries: about 5 MiB of memory, for 64 GiB of bodies in chunks of the default size.
const ENTRIES_MAX: usize = 16 * 1024;

/// The name of a prefix that ends where a chunk ends.
#[derive(Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct PrefixName([u8; 32]);

impl PrefixName {
    /// The name of this prefix extended by one chunk.
    #[must_use]
    pub fn and(self, chunk: &Fingerprint) -> Self {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&self.0).update(&chunk.0);
        Self(hasher.finalize().into())
    }
}

/// The states of the hash functions after a prefix.
#[derive(Clone)]
pub struct Prefix {
    pub md5: Md5Hasher,
    pub sha256: Option<Sha256>,
}

#[derive(Default)]
pub struct Prefixes {
    known: Mutex<Known>,
}

#[derive(Default)]
struct Known {
    prefixes: HashMap<PrefixName, Prefix>,
    /// Oldest first.
    order: VecDeque<PrefixName>,
}

impl Prefixes {
    pub fn get(&self, name: &PrefixName) -> Option<Prefix> {
        self.known.lock().prefixes.get(name).cloned()
    }

    pub fn insert(&self, name: PrefixName, prefix: Prefix) {
        let mut known = self.known.lock();
        if let Some(earlier) = known.prefixes.get_mut(&name) {
            if earlier.sha256.is_none() {
                earlier.sha256 = prefix.sha256;
            }
            return;
        }
        if known.order.len() == ENTRIES_MAX
            && let Some(oldest) = known.order.pop_front()
        {
            known.prefixes.remove(&oldest);
        }
        known.order.push_back(name);
        known.prefixes.insert(name, prefix);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(number: usize) -> PrefixName {
        let mut fingerprint = [0; 32];
        fingerprint[..8].copy_from_slice(&number.to_le_bytes());
        PrefixName::default().and(&Fingerprint(fingerprint))
    }

    fn prefix(content: &[u8], sha256: bool) -> Prefix {
        use sha2::Digest as _;
        let mut md5 = Md5Hasher::new();
        md5.update(content);
        Prefix { md5, sha256: sha256.then(|| Sha256::new_with_prefix(content)) }
    }

    #[test]
    fn the_oldest_goes_when_there_are_too_many() {
        let prefixes = Prefixes::default();
        (0..ENTRIES_MAX + 10).for_each(|number| prefixes.insert(name(number), prefix(b"a", false)));
        assert!(prefixes.get(&name(9)).is_none());
        assert!(prefixes.get(&name(10)).is_some());
        assert_eq!(prefixes.known.lock().prefixes.len(), ENTRIES_MAX);
    }

    #[test]
    fn what_is_learned_later_is_added() {
        let prefixes = Prefixes::default();
        prefixes.insert(name(1), prefix(b"a", false));
        prefixes.insert(name(1), prefix(b"a", true));
        prefixes.insert(name(1), prefix(b"a", false));
        let known = prefixes.get(&name(1)).unwrap();
        assert_eq!(known.md5.finish(), Md5Hasher::digest(b"a"));
        assert!(known.sha256.is_some());
    }

    #[test]
    fn the_order_of_chunks_counts() {
        let (a, b) = (Fingerprint([1; 32]), Fingerprint([2; 32]));
        assert!(PrefixName::default().and(&a).and(&b) != PrefixName::default().and(&b).and(&a));
        assert!(PrefixName::default().and(&a) != PrefixName::default().and(&a).and(&a));
    }
}
