//! Content-defined chunk boundaries: FastCDC (Xia et al., 2016 and 2020). Pure.
//!
//! A chunk ends where the top bits of a gear hash over the bytes are zero. Below the average length more bits must be
//! zero than above it (normalized chunking, level 2), and the beginning of a chunk is skipped. The hash depends only on
//! the last 64 bytes, so after an insertion or a removal the boundaries soon fall on the same content as before.
//! Boundaries are not part of the format: they may differ between versions.

use std::sync::LazyLock;

use orcas_base::block::CHUNK_LENGTH_MAX;

/// Bytes that the gear hash depends on.
const WINDOW: usize = 64;
const AVERAGE_MIN: u32 = 4 * WINDOW as u32;
/// With a larger average, most chunks would end at `CHUNK_LENGTH_MAX` instead of at a content-defined boundary.
const AVERAGE_MAX: u32 = CHUNK_LENGTH_MAX / 2;
/// Bits that are added below the average length and removed above it.
const NORMALIZATION: u32 = 2;

/// Random numbers of verifiable origin: the XOF of BLAKE3 over this name, little-endian.
static GEAR: LazyLock<[u64; 256]> = LazyLock::new(|| {
    let mut stream = blake3::Hasher::new().update(b"orcas chunker v1 gear").finalize_xof();
    std::array::from_fn(|_| {
        let mut number = [0; 8];
        stream.fill(&mut number);
        u64::from_le_bytes(number)
    })
});

/// Splits a stream of bytes, which may arrive in any pieces, into chunks.
#[derive(Clone)]
pub struct Chunker {
    gear: &'static [u64; 256],
    shortest: usize,
    average: usize,
    longest: usize,
    /// Bits that are zero at a boundary below the average length.
    mask_before: u64,
    mask_after: u64,
    /// Bytes of the current chunk so far.
    length: usize,
    hash: u64,
}

impl Chunker {
    /// Makes chunks of about `average` bytes, which is limited to 256 and half of `CHUNK_LENGTH_MAX`. Each has at least a
    /// quarter of it, except the last one, and at most four times it or `CHUNK_LENGTH_MAX`.
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

    /// Takes the next bytes of the stream. `Some(n)` if a chunk ends after the first `n`; the others must be passed again.
    /// `None` if no chunk ends in them.
    pub fn next(&mut self, bytes: &[u8]) -> Option<usize> {
        let mut taken = self.until(self.shortest - WINDOW, bytes).len();
        self.length += taken;
        // The hash starts 64 bytes before the first possible boundary, so that it is the same as at any other.
        let warming = self.until(self.shortest - 1, &bytes[taken..]);
        self.hash = warming.iter().fold(self.hash, |hash, byte| step(self.gear, hash, *byte));
        taken += warming.len();
        self.length += warming.len();
        for (until, mask) in [(self.average, self.mask_before), (self.longest, self.mask_after)] {
            let rest = self.until(until, &bytes[taken..]);
            let cut = self.scan(rest, mask);
            let passed = cut.unwrap_or(rest.len());
            taken += passed;
            self.length += passed;
            if cut.is_some() || self.length == self.longest {
                (self.length, self.hash) = (0, 0);
                return Some(taken);
            }
        }
        None
    }

    /// The length of the longest chunk in bytes.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// The first of `bytes`, as many as fit into a chunk of `length` bytes.
    fn until<'a>(&self, length: usize, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[..length.saturating_sub(self.length).min(bytes.len())]
    }

    /// The number of bytes after which the chunk may end.
    fn scan(&mut self, bytes: &[u8], mask: u64) -> Option<usize> {
        let (mut hash, gear) = (self.hash, self.gear);
        for (at, byte) in bytes.iter().enumerate() {
            hash = step(gear, hash, *byte);
            if hash & mask == 0 {
                return Some(at + 1);
            }
        }
        self.hash = hash;
        None
    }
}

fn step(gear: &[u64; 256], hash: u64, byte: u8) -> u64 {
    (hash << 1).wrapping_add(gear[usize::from(byte)])
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Random bytes that follow from the seed.
    fn noise(seed: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
        bytes
    }

    /// Lengths of the chunks when the bytes arrive in pieces of these sizes, repeatedly. The last is that of the rest.
    fn lengths(average: u32, bytes: &[u8], pieces: &[usize]) -> Vec<usize> {
        let mut chunker = Chunker::new(average);
        let (mut lengths, mut length, mut rest) = (Vec::new(), 0, bytes);
        for piece in pieces.iter().cycle() {
            let (mut now, later) = rest.split_at(rest.len().min(*piece));
            while let Some(end) = chunker.next(now) {
                lengths.push(length + end);
                (length, now) = (0, &now[end..]);
            }
            length += now.len();
            rest = later;
            if rest.is_empty() {
                lengths.extend((length > 0).then_some(length));
                return lengths;
            }
        }
        lengths
    }

    fn chunks(average: u32, bytes: &[u8]) -> impl Iterator<Item = &[u8]> {
        let mut rest = bytes;
        lengths(average, bytes, &[bytes.len()]).into_iter().map(move |length| {
            let (chunk, later) = rest.split_at(length);
            rest = later;
            chunk
        })
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]
        #[test]
        fn boundaries_do_not_depend_on_how_the_bytes_arrive(
            seed: u64,
            average in 256u32..4096,
            pieces in prop::collection::vec(1usize..5000, 1..20),
            dull in 0usize..30_000,
        ) {
            let mut bytes = noise(seed, 40_000);
            bytes[5_000..5_000 + dull].fill(0);
            let whole = lengths(average, &bytes, &[bytes.len()]);
            prop_assert_eq!(&lengths(average, &bytes, &[1]), &whole);
            prop_assert_eq!(&lengths(average, &bytes, &pieces), &whole);
            prop_assert_eq!(whole.iter().sum::<usize>(), bytes.len());
        }

        #[test]
        fn no_chunk_is_too_long_or_too_short(seed: u64, average in 0u32..20_000, dull in 0usize..100_000) {
            let mut bytes = noise(seed, 200_000);
            bytes[50_000..50_000 + dull].fill(seed as u8);
            let counted = average.max(256) as usize;
            let found = lengths(average, &bytes, &[bytes.len()]);
            prop_assert_eq!(Chunker::new(average).longest(), counted * 4);
            prop_assert!(found.iter().all(|length| *length <= counted * 4));
            prop_assert!(found[..found.len() - 1].iter().all(|length| *length >= counted / 4));
        }
    }

    #[test]
    fn the_average_length_is_about_as_requested() {
        for (seed, average) in
            [1 << 10, 3000, 1 << 14, 23_170, 46_340, 100_000, 1 << 18, 1 << 20].into_iter().enumerate()
        {
            let bytes = noise(seed as u64, 200 * average);
            let found = lengths(average as u32, &bytes, &[bytes.len()]);
            let mean = bytes.len() as f64 / found.len() as f64 / average as f64;
            println!("average {average}: {mean:.3} of it, longest {:?}", found.iter().max());
            assert!((0.7..=1.6).contains(&mean), "{average}: {mean}");
        }
    }

    #[test]
    fn after_an_insertion_the_chunks_are_the_same_again() {
        let (seed, average) = (7, 1 << 20);
        let bytes = noise(seed, 64 << 20);
        let insertion = noise(seed + 1, 1 << 20);
        let known: std::collections::HashSet<&[u8]> = chunks(average, &bytes).collect();
        for at in [0, 1000, 20 << 20] {
            let changed = [&bytes[..at], &insertion, &bytes[at..]].concat();
            let new: Vec<usize> =
                chunks(average, &changed).filter(|chunk| !known.contains(chunk)).map(<[u8]>::len).collect();
            println!("at {at}: {new:?}");
            assert!(new.iter().sum::<usize>() <= insertion.len() + 4 * average as usize, "{at}: {new:?}");
            // They are adjacent, and everything after them is unchanged.
            let unknown: Vec<bool> = chunks(average, &changed).map(|chunk| !known.contains(chunk)).collect();
            let first = unknown.iter().position(|new| *new).unwrap();
            assert!(unknown[first + new.len()..].iter().all(|new| !*new));
        }
    }

    #[test]
    fn extreme_averages_are_limited() {
        for average in [0, 1, u32::MAX] {
            let chunker = Chunker::new(average);
            assert!(chunker.shortest >= WINDOW && chunker.longest <= CHUNK_LENGTH_MAX as usize);
            assert!(chunker.shortest < chunker.average && chunker.average < chunker.longest);
        }
    }

    /// If these changed, content that is already stored would be stored again.
    #[test]
    fn boundaries_are_those_of_earlier_builds() {
        assert_eq!(GEAR[0], 12_605_729_912_631_156_668);
        let found = lengths(4096, &noise(1, 40_000), &[40_000]);
        assert_eq!(found, [4303, 5090, 1750, 5154, 4636, 3263, 4570, 4332, 4687, 2215]);
    }

    #[test]
    #[ignore = "a figure, not a test"]
    fn speed() {
        let bytes = noise(1, 256 << 20);
        for average in [64 << 10, 1 << 20, 4 << 20] {
            let start = std::time::Instant::now();
            let found = lengths(average, &bytes, &[1 << 20]).len();
            let seconds = start.elapsed().as_secs_f64();
            println!("average {average}: {:.2} GB/s, {found} chunks", bytes.len() as f64 / seconds / 1e9);
        }
    }
}
