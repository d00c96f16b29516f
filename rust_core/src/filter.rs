//! Which hashes were seen before: a blocked Bloom filter. Pure; any thread.
//!
//! It may take a hash for known that is not, never the reverse: what `insert` returned from, every later `contains`
//! finds. All bits of a hash stand in one block of 64 bytes, so a question costs one line of the cache.

use std::sync::atomic::{AtomicU64, Ordering};

const WORDS: usize = 8;
const BITS_PER_ENTRY: u64 = 12;
/// 1 GiB, enough for 700 million entries; with more the filter knows too much, and stays right.
const BLOCKS_MAX: u64 = 1 << 24;

/// One bit of each word belongs to a hash.
#[derive(Default)]
#[repr(align(64))]
struct Block([AtomicU64; WORDS]);

pub struct Filter {
    blocks: Box<[Block]>,
}

impl Filter {
    /// Up to `entries` different hashes it takes at most 2 % of the others for known.
    pub fn with_capacity(entries: u64) -> Self {
        let bits = entries.saturating_mul(BITS_PER_ENTRY);
        let blocks = bits.div_ceil(64 * WORDS as u64).clamp(1, BLOCKS_MAX);
        Self { blocks: (0..blocks).map(|_| Block::default()).collect() }
    }

    pub fn insert(&self, hash: u64) {
        let (block, masks) = self.place(hash);
        for (word, mask) in block.0.iter().zip(masks) {
            // Nothing but the bits is handed over, so no order with other memory is needed.
            if word.load(Ordering::Relaxed) & mask == 0 {
                word.fetch_or(mask, Ordering::Relaxed);
            }
        }
    }

    pub fn contains(&self, hash: u64) -> bool {
        let (block, masks) = self.place(hash);
        block.0.iter().zip(masks).all(|(word, mask)| word.load(Ordering::Relaxed) & mask != 0)
    }

    /// Memory that it takes.
    pub fn bytes(&self) -> usize {
        std::mem::size_of_val(&*self.blocks)
    }

    /// The block of a hash and its bit in each word. Both are mixed anew: the caller's hashes may be alike in any bits.
    fn place(&self, hash: u64) -> (&Block, [u64; WORDS]) {
        let spread = mix(hash);
        let block = (u128::from(spread) * self.blocks.len() as u128) >> 64;
        let bits = mix(spread ^ 0x9e37_79b9_7f4a_7c15);
        (&self.blocks[block as usize], std::array::from_fn(|word| 1 << (bits >> (6 * word) & 63)))
    }
}

/// The finalizer of MurmurHash3: every bit of the input changes every bit of the output half of the time.
fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}
