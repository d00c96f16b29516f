//! Who owns a content or chunk: fingerprints are hashes under the key of their owner's scope, and only buckets say who
//! the owners are.

use std::collections::HashMap;

use bytes::Bytes;
use parking_lot::RwLock;

use orcas_record::{Bucket, BucketId, Fingerprint};
use orcas_store::StoreKeys;

/// The scopes that are known so far.
pub struct Owners {
    keys: StoreKeys,
    state: RwLock<KnownScopes>,
}

#[derive(Default)]
struct KnownScopes {
    of_bucket: HashMap<BucketId, usize>,
    of_owner: HashMap<Bytes, usize>,
    scopes: Vec<[u8; 32]>,
}

impl Owners {
    pub fn new(keys: StoreKeys) -> Self {
        Self { keys, state: RwLock::default() }
    }

    pub fn learn(&self, bucket: &Bucket) {
        let state = &mut *self.state.write();
        let scopes = &mut state.scopes;
        let index = *state.of_owner.entry(bucket.owner.clone()).or_insert_with(|| {
            scopes.push(self.keys.scope(&bucket.owner));
            scopes.len() - 1
        });
        state.of_bucket.insert(bucket.id, index);
    }

    /// The scope to try first.
    pub fn likely(&self, home: Option<BucketId>, hint: usize) -> Option<(usize, [u8; 32])> {
        let state = self.state.read();
        let index = home.and_then(|home| state.of_bucket.get(&home)).copied().unwrap_or(hint);
        state.scopes.get(index).or(state.scopes.first()).map(|scope| (index, *scope))
    }

    pub fn count(&self) -> usize {
        self.state.read().scopes.len()
    }

    pub fn scope(&self, index: usize) -> Option<[u8; 32]> {
        self.state.read().scopes.get(index).copied()
    }

    /// Whether `bytes` have this fingerprint in any scope; the one of the home, then the one that fitted last, are
    /// tried first. `hint` keeps the one that fits.
    pub fn fits(&self, fingerprint: &Fingerprint, bytes: &[u8], home: Option<BucketId>, hint: &mut usize) -> bool {
        let holds = |scope: &[u8; 32]| orcas_store::fingerprint(scope, bytes) == *fingerprint;
        let Some((first, scope)) = self.likely(home, *hint) else { return false };
        if holds(&scope) {
            *hint = first;
            return true;
        }
        let found = (0..self.count())
            .filter(|index| *index != first)
            .find(|index| self.scope(*index).is_some_and(|scope| holds(&scope)));
        if let Some(index) = found {
            *hint = index;
        }
        found.is_some()
    }
}
