//! Where content says that it should be cut: FastCDC (Xia et al., 2016 and 2020). Pure.
//!
//! A gear hash runs over the bytes and a chunk ends where its top bits are zero. Before the average more bits must be
//! zero than after it (normalized chunking, level 2), and the beginning of a chunk is skipped. The hash forgets a byte
//! after 64 more, so whether a place may be a cut depends on the 64 bytes before it alone: after an insertion or a
//! removal the cuts soon fall on the same content as before. Cuts are no format: they may differ between versions.

use std::sync::LazyLock;

use crate::chunks::CHUNK_LENGTH_MAX;

/// Bytes that the gear hash remembers.
const WINDOW: usize = 64;
const AVERAGE_MIN: u32 = 4 * WINDOW as u32;
/// A larger average would leave no room below `CHUNK_LENGTH_MAX` for the content to decide.
const AVERAGE_MAX: u32 = CHUNK_LENGTH_MAX / 2;
/// How many bits more, or fewer, than the average asks for.
const NORMALIZATION: u32 = 2;

/// Random numbers with nothing up the sleeve: the XOF of BLAKE3 over this name, little-endian.
static GEAR: LazyLock<[u64; 256]> = LazyLock::new(|| {
    let mut stream = blake3::Hasher::new().update(b"orcas chunker v1 gear").finalize_xof();
    std::array::from_fn(|_| {
        let mut number = [0; 8];
        stream.fill(&mut number);
        u64::from_le_bytes(number)
    })
});

/// Cuts a stream of bytes, however they arrive, into chunks.
#[derive(Clone)]
pub struct Chunker {
    gear: &'static [u64; 256],
    shortest: usize,
    average: usize,
    longest: usize,
    /// Bits that are zero at a cut before the average.
    mask_before: u64,
    mask_after: u64,
    /// Bytes of the present chunk so far.
    length: usize,
    hash: u64,
}

impl Chunker {
    /// For chunks of about `average` bytes, at least 256 and at most half of `CHUNK_LENGTH_MAX`: not shorter than a
    /// quarter of it, not longer than four times it and than `CHUNK_LENGTH_MAX`; the last one may be shorter.
    pub fn new(average: u32) -> Self {
        let average = average.clamp(AVERAGE_MIN, AVERAGE_MAX);
        let bits = f64::from(average).log2().round() as u32;
        let top = |bits: u32| u64::MAX << (64 - bits);
        Self {
            gear: &GEAR,
            shortest: average as usize / 4,
            average: average as usize,
            longest: (average as usize * 4).min(CHUNK_LENGTH_MAX as usize),
            mask_before: top(bits + NORMALIZATION),
            mask_after: top(bits - NORMALIZATION),
            length: 0,
            hash: 0,
        }
    }

    /// The next bytes of the stream. `Some(n)`: a chunk ends after the first `n` of them; the rest must be given again.
    /// `None`: all were taken and no chunk ends yet.
    pub fn next(&mut self, bytes: &[u8]) -> Option<usize> {
        let before = self.length;
        let mut taken = self.skip(bytes, self.shortest - WINDOW);
        // Warms the hash up, so that the first place that may be a cut has its 64 bytes as any other.
        let _ = self.scan(bytes, &mut taken, self.shortest - 1, u64::MAX, false);
        let found = self.scan(bytes, &mut taken, self.average, self.mask_before, true)
            || self.scan(bytes, &mut taken, self.longest, self.mask_after, true)
            || self.length == self.longest;
        debug_assert_eq!(self.length - before, taken);
        found.then(|| {
            (self.length, self.hash) = (0, 0);
            taken
        })
    }

    /// The longest chunk, bytes.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Passes bytes by while the chunk is shorter than `until`.
    fn skip(&mut self, bytes: &[u8], until: usize) -> usize {
        let taken = until.saturating_sub(self.length).min(bytes.len());
        self.length += taken;
        taken
    }

    /// Hashes on while the chunk is shorter than `until`; `true` when it ends where `mask` says so.
    fn scan(&mut self, bytes: &[u8], taken: &mut usize, until: usize, mask: u64, cuts: bool) -> bool {
        let rest = &bytes[*taken..];
        let rest = &rest[..until.saturating_sub(self.length).min(rest.len())];
        let (mut hash, gear) = (self.hash, self.gear);
        let mut seen = rest.len();
        for (at, byte) in rest.iter().enumerate() {
            hash = (hash << 1).wrapping_add(gear[usize::from(*byte)]);
            if cuts && hash & mask == 0 {
                seen = at + 1;
                self.hash = hash;
                self.length += seen;
                *taken += seen;
                return true;
            }
        }
        self.hash = hash;
        self.length += seen;
        *taken += seen;
        false
    }
}
