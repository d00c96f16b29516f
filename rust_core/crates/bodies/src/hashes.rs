//! The digests of an arriving body: MD5, SHA-256 and the checksums of other algorithms, all computed while a block is in
//! the processor's cache. The MD5 can be left for later.

use std::sync::Arc;

use bytes::Bytes;
use sha2::{Digest as _, Sha256};

use super::body_md5::BodyMd5;
use super::prefixes::{PrefixName, Prefixes};
use orcas_checksum::Hasher;
use orcas_engine::BodyObserver;
use orcas_record::{Fingerprint, HASHED_PREFIX};

/// When the MD5 of bytes is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Md5Hashing {
    Immediate,
    /// Deferred, as far as the bytes can be kept until `BodyMd5::settle_all`.
    Deferred,
}

/// The digests of a body while it arrives. Digests of a known prefix are not computed again.
pub struct Hashes {
    pub md5: BodyMd5,
    /// The piece that is being processed, if its MD5 is deferred.
    pub lent: Option<Bytes>,
    pub sha256: Option<Sha256>,
    /// The digests of the other algorithms.
    pub checksums: [Option<Hasher>; 2],
    prefixes: Arc<Prefixes>,
    /// The name of the prefix that ends with the last complete chunk.
    name: PrefixName,
}

/// Bytes that are no part of a piece are copied to be hashed later, up to the beginning of a chunk that is held until
/// its prefix hash is known.
const COPIED_MAX: usize = HASHED_PREFIX;

impl Hashes {
    pub fn new(prefixes: Arc<Prefixes>, sha256: bool) -> Self {
        Self {
            md5: BodyMd5::new(Arc::clone(&prefixes)),
            lent: None,
            sha256: sha256.then(Sha256::new),
            checksums: [None, None],
            prefixes,
            name: PrefixName::default(),
        }
    }

    /// Hashes block by block, so that every hash function reads a block while it is in the processor's cache.
    fn update(&mut self, content: &[u8], md5: bool, sha256: bool) {
        const BLOCK: usize = 16 * 1024;
        let later = if md5 { self.kept(content) } else { None };
        let md5 = md5 && later.is_none();
        for block in content.chunks(BLOCK) {
            if md5 {
                self.md5.update(block);
            }
            if let (true, Some(sha256)) = (sha256, &mut self.sha256) {
                sha256.update(block);
            }
            for checksum in self.checksums.iter_mut().flatten() {
                checksum.update(block);
            }
        }
        if let Some(later) = later {
            self.md5.defer(later);
        }
    }

    /// The bytes of `content` in a form that can be hashed later, if there is one.
    fn kept(&self, content: &[u8]) -> Option<Bytes> {
        let lent = self.lent.as_ref()?;
        let (piece, part) = (lent.as_ptr_range(), content.as_ptr_range());
        if piece.start <= part.start && part.end <= piece.end {
            return Some(lent.slice_ref(content));
        }
        (content.len() <= COPIED_MAX).then(|| Bytes::copy_from_slice(content))
    }
}

impl BodyObserver for Hashes {
    fn bytes(&mut self, bytes: &[u8]) {
        self.update(bytes, true, true);
    }

    fn chunk_ended(&mut self, fingerprint: &Fingerprint) {
        self.name = self.name.and(fingerprint);
        self.md5.remember(self.name, self.sha256.clone());
    }

    fn chunk(&mut self, fingerprint: &Fingerprint, bytes: &[u8]) {
        let Some(known) = self.prefixes.get(&self.name.and(fingerprint)) else {
            self.bytes(bytes);
            return self.chunk_ended(fingerprint);
        };
        self.md5.continue_from(known.md5);
        match (&mut self.sha256, known.sha256) {
            (Some(ours), Some(known)) => *ours = known,
            (Some(_), None) => {
                self.update(bytes, false, true);
                return self.chunk_ended(fingerprint);
            }
            (None, _) => {}
        }
        self.update(bytes, false, false);
        self.name = self.name.and(fingerprint);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use orcas_checksum::Md5Hasher;

    #[test]
    fn what_is_known_of_a_beginning_is_not_computed_again() {
        let prefixes = Arc::<Prefixes>::default();
        let (first, second) = (Fingerprint([1; 32]), Fingerprint([2; 32]));
        let hashes = |sha256: bool| Hashes::new(Arc::clone(&prefixes), sha256);
        let mut through = hashes(false);
        through.bytes(b"chunk ");
        through.bytes(b"one");
        through.chunk_ended(&first);
        // These bytes differ, and are not read.
        let mut held = hashes(true);
        held.chunk(&first, b"nonsense!");
        // But a SHA-256 of the beginning had not been computed.
        assert_eq!(held.sha256.clone().unwrap().finalize(), Sha256::digest(b"nonsense!"));
        held.chunk(&second, b"chunk two");
        assert_eq!(held.md5.finish(), Md5Hasher::digest(b"chunk onechunk two"));
        let mut again = hashes(true);
        again.chunk(&first, b"");
        again.chunk(&second, b"");
        again.bytes(b"end");
        assert_eq!(again.md5.finish(), Md5Hasher::digest(b"chunk onechunk twoend"));
        assert_eq!(again.sha256.unwrap().finalize(), Sha256::digest(b"nonsense!chunk twoend"));
    }
}
