//! Where content says that it should be cut: FastCDC (Xia et al., 2016 and 2020). Pure.
//!
//! A gear hash runs over the bytes and a chunk ends where its top bits are zero. Before the average more bits must be
//! zero than after it (normalized chunking, level 2), and the beginning of a chunk is skipped. The hash forgets a byte
//! after 64 more, so whether a place may be a cut depends on the 64 bytes before it alone: after an insertion or a
//! removal the cuts soon fall on the same content as before. Cuts are no format: they may differ between versions.

use std::sync::LazyLock;

use orcas_base::block::CHUNK_LENGTH_MAX;

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
        let mut taken = self.until(self.shortest - WINDOW, bytes).len();
        self.length += taken;
        // Warms the hash up, so that the first place that may be a cut has its 64 bytes like any other.
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

    /// The longest chunk, bytes.
    pub fn longest(&self) -> usize {
        self.longest
    }

    /// Of `bytes` those with which the chunk is not longer than `length`.
    fn until<'a>(&self, length: usize, bytes: &'a [u8]) -> &'a [u8] {
        &bytes[..length.saturating_sub(self.length).min(bytes.len())]
    }

    /// Behind which of the next bytes the chunk may end.
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

    /// Random bytes that repeat with the seed.
    fn noise(seed: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        blake3::Hasher::new().update(&seed.to_le_bytes()).finalize_xof().fill(&mut bytes);
        bytes
    }

    /// Lengths of the chunks when the bytes come in pieces of these sizes, over and over; the last one is what is left.
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
        fn the_cuts_do_not_depend_on_how_the_bytes_arrive(
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
    fn the_average_is_about_what_was_asked_for() {
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
            // All of them stand together: behind them everything is as it was.
            let unknown: Vec<bool> = chunks(average, &changed).map(|chunk| !known.contains(chunk)).collect();
            let first = unknown.iter().position(|new| *new).unwrap();
            assert!(unknown[first + new.len()..].iter().all(|new| !*new));
        }
    }

    #[test]
    fn extreme_averages_are_brought_into_range() {
        for average in [0, 1, u32::MAX] {
            let chunker = Chunker::new(average);
            assert!(chunker.shortest >= WINDOW && chunker.longest <= CHUNK_LENGTH_MAX as usize);
            assert!(chunker.shortest < chunker.average && chunker.average < chunker.longest);
        }
    }

    /// A change of these would make content that is stored already be stored once more.
    #[test]
    fn the_cuts_are_those_of_earlier_builds() {
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
