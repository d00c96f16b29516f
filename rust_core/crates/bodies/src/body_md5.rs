//! The MD5 of an arriving body. Hashing can be deferred, so that the MD5s of several bodies are computed side by side.
//!
//! Deferred bytes are hashed in the order in which they arrived, so the digests do not depend on when that happens.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Buf as _, Bytes, BytesMut};
use sha2::Sha256;

use super::prefixes::{Prefix, PrefixName, Prefixes};
use orcas_checksum::Md5Hasher;

/// Pieces shorter than this, in bytes, are joined and not hashed side by side, so that a body in tiny frames takes no
/// memory for each frame and does not delay the other bodies.
const SHORT: usize = 1024;

pub struct BodyMd5 {
    /// The digest of everything that is not deferred.
    hasher: Md5Hasher,
    deferred: VecDeque<Deferred>,
    /// Short pieces that were deferred last, joined.
    joined: BytesMut,
    prefixes: Arc<Prefixes>,
}

enum Deferred {
    /// Bytes to hash.
    Bytes(Bytes),
    /// The digests of everything before this are to be stored under a name; with the SHA-256 state, if there is one.
    Prefix(PrefixName, Option<Sha256>),
}

impl BodyMd5 {
    pub fn new(prefixes: Arc<Prefixes>) -> Self {
        Self { hasher: Md5Hasher::new(), deferred: VecDeque::new(), joined: BytesMut::new(), prefixes }
    }

    /// The next bytes, hashed now.
    pub fn update(&mut self, bytes: &[u8]) {
        self.settle();
        self.hasher.update(bytes);
    }

    /// The next bytes, hashed later.
    pub fn defer(&mut self, bytes: Bytes) {
        if bytes.len() < SHORT {
            self.joined.extend_from_slice(&bytes);
        } else {
            self.end_joined();
            self.deferred.push_back(Deferred::Bytes(bytes));
        }
    }

    /// Stores the digests of everything so far under `name`.
    pub fn remember(&mut self, name: PrefixName, sha256: Option<Sha256>) {
        self.end_joined();
        self.deferred.push_back(Deferred::Prefix(name, sha256));
        self.store_prefixes();
    }

    /// Replaces the digest of everything so far by `hasher`.
    pub fn continue_from(&mut self, hasher: Md5Hasher) {
        // A longer prefix is known than those that were still to be stored.
        self.deferred.clear();
        self.joined.clear();
        self.hasher = hasher;
    }

    pub fn finish(mut self) -> [u8; 16] {
        self.settle();
        self.hasher.finish()
    }

    fn settle(&mut self) {
        Self::settle_all(&mut [self]);
    }

    /// Hashes the deferred bytes of several bodies, side by side.
    pub fn settle_all(bodies: &mut [&mut Self]) {
        bodies.iter_mut().for_each(|body| body.end_joined());
        loop {
            bodies.iter_mut().for_each(|body| body.hash_short());
            // All are hashed up to the end of the shortest run of bytes, which is then followed by its next one.
            let Some(length) = bodies.iter().filter_map(|body| body.next_deferred()).map(Bytes::len).min() else {
                return;
            };
            let work = bodies.iter_mut().filter_map(|body| match body.deferred.front() {
                Some(Deferred::Bytes(bytes)) => Some((&mut body.hasher, &bytes[..length])),
                _ => None,
            });
            Md5Hasher::update_all(work);
            bodies.iter_mut().for_each(|body| body.hashed(length));
        }
    }

    fn end_joined(&mut self) {
        if !self.joined.is_empty() {
            self.deferred.push_back(Deferred::Bytes(self.joined.split().freeze()));
        }
    }

    /// Hashes the next deferred pieces as long as they are short.
    fn hash_short(&mut self) {
        while let Some(Deferred::Bytes(bytes)) = self.deferred.front()
            && bytes.len() < SHORT
        {
            let length = bytes.len();
            self.hasher.update(bytes);
            self.hashed(length);
        }
    }

    /// The bytes to hash next; `None` if a prefix is to be stored first.
    fn next_deferred(&self) -> Option<&Bytes> {
        match self.deferred.front()? {
            Deferred::Bytes(bytes) => Some(bytes),
            Deferred::Prefix(..) => None,
        }
    }

    fn hashed(&mut self, length: usize) {
        if let Some(Deferred::Bytes(bytes)) = self.deferred.front_mut() {
            bytes.advance(length);
            if bytes.is_empty() {
                self.deferred.pop_front();
            }
        }
        self.store_prefixes();
    }

    fn store_prefixes(&mut self) {
        while matches!(self.deferred.front(), Some(Deferred::Prefix(..))) {
            if let Some(Deferred::Prefix(name, sha256)) = self.deferred.pop_front() {
                self.prefixes.insert(name, Prefix { md5: self.hasher.clone(), sha256 });
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orcas_record::Fingerprint;
    use proptest::prelude::*;

    fn name(number: u8) -> PrefixName {
        PrefixName::default().and(&Fingerprint([number; 32]))
    }

    #[test]
    fn a_beginning_is_remembered_once_it_is_hashed() {
        let prefixes = Arc::<Prefixes>::default();
        let mut body = BodyMd5::new(Arc::clone(&prefixes));
        body.update(b"now ");
        body.remember(name(0), None);
        assert_eq!(prefixes.get(&name(0)).unwrap().md5.finish(), Md5Hasher::digest(b"now "));
        body.defer(Bytes::from_static(b"later "));
        body.remember(name(1), None);
        body.defer(Bytes::from_static(b"and later"));
        assert!(prefixes.get(&name(1)).is_none());
        body.update(b"!");
        assert_eq!(prefixes.get(&name(1)).unwrap().md5.finish(), Md5Hasher::digest(b"now later "));
        assert_eq!(body.finish(), Md5Hasher::digest(b"now later and later!"));
    }

    #[test]
    fn what_is_known_is_not_owed_any_more() {
        let mut known = Md5Hasher::new();
        known.update(b"known");
        let mut body = BodyMd5::new(Arc::default());
        body.defer(Bytes::from_static(b"anything"));
        body.continue_from(known);
        body.defer(Bytes::from_static(b" and new"));
        assert_eq!(body.finish(), Md5Hasher::digest(b"known and new"));
    }

    /// A step of the life of a body: bytes that are hashed now or later, or a known beginning.
    #[derive(Clone, Debug)]
    enum Step {
        Now(Vec<u8>),
        Later(Vec<u8>),
        Beginning,
    }

    fn step() -> impl Strategy<Value = Step> {
        let bytes = || prop_oneof![0..300usize, 0..3 * SHORT].prop_flat_map(|length| vec![any::<u8>(); length]);
        prop_oneof![
            bytes().prop_map(Step::Now),
            bytes().prop_map(Step::Later),
            bytes().prop_map(Step::Later),
            Just(Step::Beginning)
        ]
    }

    proptest! {
        #[test]
        fn it_does_not_matter_when_a_debt_is_paid(
            histories in proptest::collection::vec(proptest::collection::vec(step(), 0..12), 0..20),
            settles in 1..5usize,
        ) {
            let prefixes: Vec<Arc<Prefixes>> = histories.iter().map(|_| Arc::default()).collect();
            let mut bodies: Vec<_> = prefixes.iter().map(|prefixes| BodyMd5::new(Arc::clone(prefixes))).collect();
            for round in 0..12 {
                for (history, body) in std::iter::zip(&histories, &mut bodies) {
                    match history.get(round) {
                        Some(Step::Now(bytes)) => body.update(bytes),
                        Some(Step::Later(bytes)) => body.defer(bytes.clone().into()),
                        Some(Step::Beginning) => body.remember(name(round as u8), None),
                        None => {}
                    }
                }
                if round % settles == 0 {
                    BodyMd5::settle_all(&mut bodies.iter_mut().collect::<Vec<_>>());
                }
            }
            for ((history, body), prefixes) in histories.iter().zip(bodies).zip(&prefixes) {
                let (digest, mut whole) = (body.finish(), Md5Hasher::new());
                for (round, step) in history.iter().enumerate() {
                    match step {
                        Step::Now(bytes) | Step::Later(bytes) => whole.update(bytes),
                        Step::Beginning => {
                            let known = prefixes.get(&name(round as u8)).map(|prefix| prefix.md5.finish());
                            prop_assert_eq!(known, Some(whole.clone().finish()));
                        }
                    }
                }
                prop_assert_eq!(digest, whole.finish());
            }
        }
    }
}
