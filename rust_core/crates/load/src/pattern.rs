//! The content of objects. It follows from the seed of the load, the object and its generation, so every byte of every
//! response can be verified without keeping any content.
//!
//! Each 4 KiB block is a fixed block XORed with a word of its own. So content does not repeat or compress, and to
//! generate or compare it costs about as much as to copy it. The first 8 bytes encode the generation. Pure.

/// Words of the fixed block.
const WORDS: usize = 512;
const BLOCK: usize = WORDS * 8;
const MARK: usize = 8;
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The finaliser of SplitMix64 (Steele, Lea, Flood 2014): every bit of the result depends on every bit of `value`.
pub fn mix(value: u64) -> u64 {
    let mut value = value.wrapping_add(GOLDEN);
    value = (value ^ value >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    value = (value ^ value >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    value ^ value >> 31
}

/// The content of one generation of an object. `object` is unique among all objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Content {
    pub object: u64,
    pub generation: u32,
    /// Bytes.
    pub length: u64,
}

/// The bytes of all objects of a run.
pub struct Pattern {
    base: Box<[u64; WORDS]>,
    seed: u64,
    identical: bool,
}

impl Pattern {
    /// With `identical`, objects of the same length have the same content.
    pub fn new(seed: u64, identical: bool) -> Self {
        let base = Box::new(std::array::from_fn(|word| mix(mix(seed) ^ word as u64)));
        Self { base, seed, identical }
    }

    /// Whether the first bytes of an object encode its generation.
    fn is_marked(&self, length: u64) -> bool {
        !self.identical && length >= MARK as u64
    }

    fn mask(&self, object: u64) -> u64 {
        mix(mix(self.seed ^ 1) ^ object)
    }

    fn key(&self, content: &Content) -> u64 {
        match (self.identical, self.is_marked(content.length)) {
            (true, _) => 0,
            (false, true) => mix(self.mask(content.object) ^ u64::from(content.generation)),
            (false, false) => self.mask(content.object),
        }
    }

    fn mark(&self, content: &Content) -> [u8; MARK] {
        (self.mask(content.object) ^ u64::from(content.generation)).to_le_bytes()
    }

    /// Fills `out` with the bytes that begin at `offset`.
    pub fn fill(&self, content: &Content, offset: u64, out: &mut [u8]) {
        let key = self.key(content);
        let mut at = 0;
        while at < out.len() {
            let (block, within) = place(offset + at as u64);
            let word = mix(key ^ block);
            let length = (BLOCK - within).min(out.len() - at);
            let target = &mut out[at..at + length];
            if length == BLOCK {
                write(&self.base[..], word, target);
            } else {
                let mut scratch = [0; BLOCK];
                let words = (within + length).div_ceil(8);
                write(&self.base[..words], word, &mut scratch[..words * 8]);
                target.copy_from_slice(&scratch[within..within + length]);
            }
            at += length;
        }
        if offset < MARK as u64 && self.is_marked(content.length) {
            let from = offset as usize;
            let length = (MARK - from).min(out.len());
            out[..length].copy_from_slice(&self.mark(content)[from..from + length]);
        }
    }

    /// The offset of the first byte that differs from `content`; `bytes` begin at `offset`. The mark is not compared.
    fn mismatch(&self, content: &Content, offset: u64, bytes: &[u8]) -> Option<u64> {
        let key = self.key(content);
        let mut at = 0;
        while at < bytes.len() {
            let start = offset + at as u64;
            let (block, within) = place(start);
            let length = (BLOCK - within).min(bytes.len() - at);
            let found = &bytes[at..at + length];
            if length < BLOCK || differences(&self.base, mix(key ^ block), found) != 0 {
                let mut wanted = [0; BLOCK];
                self.fill(content, start, &mut wanted[..length]);
                if let Some(first) = found.iter().zip(&wanted).position(|(a, b)| a != b) {
                    return Some(start + first as u64);
                }
            }
            at += length;
        }
        None
    }
}

/// The number of the block that contains `offset`, and the offset within it.
fn place(offset: u64) -> (u64, usize) {
    (offset / BLOCK as u64, (offset % BLOCK as u64) as usize)
}

fn write(base: &[u64], word: u64, out: &mut [u8]) {
    for (bytes, base) in out.chunks_exact_mut(8).zip(base) {
        bytes.copy_from_slice(&(base ^ word).to_le_bytes());
    }
}

/// All bits in which a whole block differs, combined into one word. There is no early exit, so that the compiler can
/// vectorise the loop.
fn differences(base: &[u64; WORDS], word: u64, found: &[u8]) -> u64 {
    let (words, _) = found.as_chunks::<8>();
    words.iter().zip(base).fold(0, |all, (bytes, base)| all | (u64::from_le_bytes(*bytes) ^ base ^ word))
}

/// How content differs from what is expected.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wrong {
    /// The first byte that differs.
    Byte(u64),
    /// The length in bytes, which is wrong.
    Length(u64),
}

/// Compares content that arrives in pieces with what is expected.
pub struct Checker {
    /// The generation is valid once the mark was read.
    content: Content,
    marked: bool,
    mark: [u8; MARK],
    at: u64,
    wrong: Option<Wrong>,
}

impl Checker {
    /// For any generation of an object of `length` bytes.
    pub fn new(pattern: &Pattern, object: u64, length: u64) -> Self {
        let content = Content { object, generation: 0, length };
        Self { content, marked: pattern.is_marked(length), mark: [0; MARK], at: 0, wrong: None }
    }

    pub fn feed(&mut self, pattern: &Pattern, mut bytes: &[u8]) {
        if self.marked && self.at < MARK as u64 {
            let from = self.at as usize;
            let length = (MARK - from).min(bytes.len());
            self.mark[from..from + length].copy_from_slice(&bytes[..length]);
            self.at += length as u64;
            bytes = &bytes[length..];
            if self.at == MARK as u64 {
                self.read_mark(pattern);
            }
        }
        if self.wrong.is_none() && !bytes.is_empty() {
            let end = self.content.length;
            let counted = end.saturating_sub(self.at).min(bytes.len() as u64) as usize;
            self.wrong = pattern.mismatch(&self.content, self.at, &bytes[..counted]).map(Wrong::Byte);
        }
        self.at += bytes.len() as u64;
    }

    fn read_mark(&mut self, pattern: &Pattern) {
        let generation = u64::from_le_bytes(self.mark) ^ pattern.mask(self.content.object);
        match u32::try_from(generation) {
            Ok(generation) => self.content.generation = generation,
            Err(_) => self.wrong = Some(Wrong::Byte(0)),
        }
    }

    /// After the last byte: the generation, if the content encodes it.
    pub fn finish(self) -> Result<Option<u32>, Wrong> {
        match self.wrong {
            Some(wrong) => Err(wrong),
            None if self.at != self.content.length => Err(Wrong::Length(self.at)),
            None => Ok(self.marked.then_some(self.content.generation)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn bytes_of(pattern: &Pattern, content: &Content) -> Vec<u8> {
        let mut bytes = vec![0; content.length as usize];
        pattern.fill(content, 0, &mut bytes);
        bytes
    }

    fn checked(pattern: &Pattern, object: u64, length: u64, pieces: &[&[u8]]) -> Result<Option<u32>, Wrong> {
        let mut checker = Checker::new(pattern, object, length);
        pieces.iter().for_each(|piece| checker.feed(pattern, piece));
        checker.finish()
    }

    #[test]
    fn every_length_verifies_and_no_other_object_does() {
        for identical in [false, true] {
            let pattern = Pattern::new(7, identical);
            for length in [0, 1, 7, 8, 9, 4095, 4096, 4097, 12_288, 70_001] {
                let content = Content { object: 3, generation: 5, length };
                let bytes = bytes_of(&pattern, &content);
                let generation = (!identical && length >= 8).then_some(5);
                assert_eq!(checked(&pattern, 3, length, &[&bytes]), Ok(generation), "{length}");
                if length > 0 && !identical {
                    assert!(checked(&pattern, 4, length, &[&bytes]).is_err(), "{length}");
                }
                assert!(checked(&pattern, 3, length + 1, &[&bytes]).is_err(), "{length}");
                let longer = [&bytes[..], b"x"].concat();
                assert_eq!(checked(&pattern, 3, length, &[&longer]), Err(Wrong::Length(length + 1)), "{length}");
            }
        }
    }

    #[test]
    fn identical_objects_are_the_same_and_unique_ones_share_no_block() {
        let two = [(1, 1), (2, 9)].map(|(object, generation)| Content { object, generation, length: 20_000 });
        let same = two.map(|content| bytes_of(&Pattern::new(1, true), &content));
        assert_eq!(same[0], same[1]);
        let others = two.map(|content| bytes_of(&Pattern::new(1, false), &content));
        let again = bytes_of(&Pattern::new(1, false), &Content { generation: 2, ..two[0] });
        for (a, b) in [(&others[0], &others[1]), (&others[0], &again)] {
            assert!(a.chunks(64).zip(b.chunks(64)).all(|(a, b)| a != b));
        }
        assert_ne!(others[0][4096..8192], others[0][8192..12_288], "blocks of one object");
    }

    proptest! {
        #[test]
        fn any_part_is_a_part_of_the_whole(length in 0..20_000u64, from in 0..20_000u64, until in 0..20_000u64) {
            let pattern = Pattern::new(11, false);
            let content = Content { object: 9, generation: 3, length };
            let (from, until) = (from.min(until).min(length) as usize, until.max(from).min(length) as usize);
            let mut part = vec![0; until - from];
            pattern.fill(&content, from as u64, &mut part);
            prop_assert_eq!(&part[..], &bytes_of(&pattern, &content)[from..until]);
        }

        #[test]
        fn pieces_do_not_matter_and_every_flipped_bit_is_found(
            length in 1..20_000u64, cuts in proptest::collection::vec(any::<prop::sample::Index>(), 0..6),
            flipped in any::<prop::sample::Index>(), bit in 0..8u8, identical in any::<bool>(),
        ) {
            let pattern = Pattern::new(5, identical);
            let content = Content { object: 77, generation: 1, length };
            let mut bytes = bytes_of(&pattern, &content);
            let mut cuts: Vec<usize> = cuts.iter().map(|cut| cut.index(bytes.len())).collect();
            cuts.extend([0, bytes.len()]);
            cuts.sort_unstable();
            let pieces = |bytes: &[u8]| {
                let pieces: Vec<&[u8]> = cuts.windows(2).map(|cut| &bytes[cut[0]..cut[1]]).collect();
                checked(&pattern, 77, length, &pieces)
            };
            prop_assert_eq!(pieces(&bytes).map(|_| ()), Ok(()));
            let at = flipped.index(bytes.len());
            bytes[at] ^= 1u8 << bit;
            let found = pieces(&bytes);
            if identical || length < 8 || at >= 8 {
                prop_assert_eq!(found, Err(Wrong::Byte(at as u64)));
            } else {
                // In the mark it means another generation, whose other bytes differ if there are any.
                let found_out = match found {
                    Err(Wrong::Byte(first)) => first == 0 || first >= 8,
                    Err(Wrong::Length(_)) => false,
                    Ok(generation) => generation != Some(1),
                };
                prop_assert!(found_out);
            }
        }
    }
}
