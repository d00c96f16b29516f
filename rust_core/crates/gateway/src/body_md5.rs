//! The MD5 of a body on its way in. It may lag behind what came, so that it is computed beside the MD5s of other bodies.
//!
//! Whatever is owed is paid in its order, so neither the digest nor what is remembered of beginnings depends on when.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::{Buf as _, Bytes, BytesMut};
use sha2::Sha256;

use super::prefixes::{Prefix, PrefixName, Prefixes};
use orcas_checksum::Md5Hasher;

/// Bytes under which what is owed is joined, and not hashed side by side: a body in the smallest of frames takes no
/// memory for each of them, and does not hold up its company.
const SHORT: usize = 1024;

pub struct BodyMd5 {
    /// Has seen everything that is not owed.
    hasher: Md5Hasher,
    owed: VecDeque<Owed>,
    /// Owed after all that: short runs of bytes.
    joined: BytesMut,
    prefixes: Arc<Prefixes>,
}

enum Owed {
    /// To be hashed.
    Bytes(Bytes),
    /// What came so far is to be remembered, with the state of its SHA-256.
    Beginning(PrefixName, Option<Sha256>),
}

impl BodyMd5 {
    pub fn new(prefixes: Arc<Prefixes>) -> Self {
        Self { hasher: Md5Hasher::new(), owed: VecDeque::new(), joined: BytesMut::new(), prefixes }
    }

    /// The next bytes, hashed now.
    pub fn update(&mut self, bytes: &[u8]) {
        self.settle();
        self.hasher.update(bytes);
    }

    /// The next bytes, hashed later.
    pub fn owe(&mut self, bytes: Bytes) {
        if bytes.len() < SHORT {
            self.joined.extend_from_slice(&bytes);
        } else {
            self.end_joined();
            self.owed.push_back(Owed::Bytes(bytes));
        }
    }

    /// What came so far has this name.
    pub fn remember(&mut self, name: PrefixName, sha256: Option<Sha256>) {
        self.end_joined();
        self.owed.push_back(Owed::Beginning(name, sha256));
        self.pass_beginnings();
    }

    /// `hasher` has seen what came so far.
    pub fn continue_from(&mut self, hasher: Md5Hasher) {
        // A longer beginning is known than those that were still to be remembered.
        self.owed.clear();
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

    /// Pays what several bodies owe, side by side.
    pub fn settle_all(bodies: &mut [&mut Self]) {
        bodies.iter_mut().for_each(|body| body.end_joined());
        loop {
            bodies.iter_mut().for_each(|body| body.pay_short());
            // As far as the shortest goes: then it brings its next bytes, and stays beside the others.
            let Some(length) = bodies.iter().filter_map(|body| body.next_owed()).map(Bytes::len).min() else { return };
            let work = bodies.iter_mut().filter_map(|body| match body.owed.front() {
                Some(Owed::Bytes(bytes)) => Some((&mut body.hasher, &bytes[..length])),
                _ => None,
            });
            Md5Hasher::update_all(work);
            bodies.iter_mut().for_each(|body| body.paid(length));
        }
    }

    fn end_joined(&mut self) {
        if !self.joined.is_empty() {
            self.owed.push_back(Owed::Bytes(self.joined.split().freeze()));
        }
    }

    /// Pays what comes next as long as it is short.
    fn pay_short(&mut self) {
        while let Some(Owed::Bytes(bytes)) = self.owed.front()
            && bytes.len() < SHORT
        {
            let length = bytes.len();
            self.hasher.update(bytes);
            self.paid(length);
        }
    }

    /// The bytes to be hashed next. No beginning is to be remembered before them.
    fn next_owed(&self) -> Option<&Bytes> {
        match self.owed.front()? {
            Owed::Bytes(bytes) => Some(bytes),
            Owed::Beginning(..) => None,
        }
    }

    fn paid(&mut self, length: usize) {
        if let Some(Owed::Bytes(bytes)) = self.owed.front_mut() {
            bytes.advance(length);
            if bytes.is_empty() {
                self.owed.pop_front();
            }
        }
        self.pass_beginnings();
    }

    fn pass_beginnings(&mut self) {
        while matches!(self.owed.front(), Some(Owed::Beginning(..))) {
            if let Some(Owed::Beginning(name, sha256)) = self.owed.pop_front() {
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
        body.owe(Bytes::from_static(b"later "));
        body.remember(name(1), None);
        body.owe(Bytes::from_static(b"and later"));
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
        body.owe(Bytes::from_static(b"anything"));
        body.continue_from(known);
        body.owe(Bytes::from_static(b" and new"));
        assert_eq!(body.finish(), Md5Hasher::digest(b"known and new"));
    }

    /// What may happen to a body: bytes now or later, a beginning.
    #[derive(Clone, Debug)]
    enum Event {
        Now(Vec<u8>),
        Later(Vec<u8>),
        Beginning,
    }

    fn event() -> impl Strategy<Value = Event> {
        let bytes = || prop_oneof![0..300usize, 0..3 * SHORT].prop_flat_map(|length| vec![any::<u8>(); length]);
        prop_oneof![
            bytes().prop_map(Event::Now),
            bytes().prop_map(Event::Later),
            bytes().prop_map(Event::Later),
            Just(Event::Beginning)
        ]
    }

    proptest! {
        #[test]
        fn it_does_not_matter_when_a_debt_is_paid(
            histories in proptest::collection::vec(proptest::collection::vec(event(), 0..12), 0..20),
            settles in 1..5usize,
        ) {
            let prefixes: Vec<Arc<Prefixes>> = histories.iter().map(|_| Arc::default()).collect();
            let mut bodies: Vec<_> = prefixes.iter().map(|prefixes| BodyMd5::new(Arc::clone(prefixes))).collect();
            for round in 0..12 {
                for (history, body) in std::iter::zip(&histories, &mut bodies) {
                    match history.get(round) {
                        Some(Event::Now(bytes)) => body.update(bytes),
                        Some(Event::Later(bytes)) => body.owe(bytes.clone().into()),
                        Some(Event::Beginning) => body.remember(name(round as u8), None),
                        None => {}
                    }
                }
                if round % settles == 0 {
                    BodyMd5::settle_all(&mut bodies.iter_mut().collect::<Vec<_>>());
                }
            }
            for ((history, body), prefixes) in histories.iter().zip(bodies).zip(&prefixes) {
                let (digest, mut whole) = (body.finish(), Md5Hasher::new());
                for (round, event) in history.iter().enumerate() {
                    match event {
                        Event::Now(bytes) | Event::Later(bytes) => whole.update(bytes),
                        Event::Beginning => {
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
