//! A set of known hashes: a blocked Bloom filter. Pure; for any thread.
//!
//! `contains` may return true for an unknown hash, but never false for a hash whose `insert` has returned. All bits of a
//! hash are in one block of 64 bytes, so a lookup touches one cache line.

use std::sync::atomic::{AtomicU64, Ordering};

const WORDS: usize = 8;
const BITS_PER_ENTRY: u64 = 12;
/// 1 GiB, enough for 700 million entries. With more, false positives become frequent.
const BLOCKS_MAX: u64 = 1 << 24;

/// Words of a block. A hash sets one bit in each.
#[derive(Default)]
#[repr(align(64))]
struct Block([AtomicU64; WORDS]);

/// A set of hashes that may contain more than was inserted.
pub struct Filter {
    blocks: Box<[Block]>,
}

impl Filter {
    /// With up to `entries` different hashes, at most 2 % of lookups are false positives.
    pub fn with_capacity(entries: u64) -> Self {
        Self { blocks: (0..blocks_for(entries)).map(|_| Block::default()).collect() }
    }

    pub fn insert(&self, hash: u64) {
        let (block, masks) = self.place(hash);
        for (word, mask) in block.0.iter().zip(masks) {
            // The bits guard no other memory, so no ordering is needed.
            if word.load(Ordering::Relaxed) & mask == 0 {
                word.fetch_or(mask, Ordering::Relaxed);
            }
        }
    }

    pub fn contains(&self, hash: u64) -> bool {
        let (block, masks) = self.place(hash);
        block.0.iter().zip(masks).all(|(word, mask)| word.load(Ordering::Relaxed) & mask != 0)
    }

    /// Bytes of memory that the filter uses.
    #[cfg(test)]
    fn bytes(&self) -> usize {
        std::mem::size_of_val(&*self.blocks)
    }

    /// The block of a hash and its bit in each word. The hash is mixed first, because hashes may have any bits in common.
    fn place(&self, hash: u64) -> (&Block, [u64; WORDS]) {
        let spread = mix(hash);
        let block = (u128::from(spread) * self.blocks.len() as u128) >> 64;
        let bits = mix(spread ^ 0x9e37_79b9_7f4a_7c15);
        (&self.blocks[block as usize], std::array::from_fn(|word| 1 << (bits >> (6 * word) & 63)))
    }
}

fn blocks_for(entries: u64) -> u64 {
    entries.saturating_mul(BITS_PER_ENTRY).div_ceil(64 * WORDS as u64).clamp(1, BLOCKS_MAX)
}

/// The finalizer of MurmurHash3: each bit of the input changes each bit of the output with probability 1/2.
fn mix(mut hash: u64) -> u64 {
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    hash = (hash ^ (hash >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    hash ^ (hash >> 33)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wrong(filter: &Filter, others: impl Iterator<Item = u64>) -> f64 {
        let (mut asked, mut wrong) = (0u32, 0u32);
        for hash in others {
            asked += 1;
            wrong += u32::from(filter.contains(hash));
        }
        f64::from(wrong) / f64::from(asked)
    }

    #[test]
    fn a_full_filter_contains_all_entries_and_little_else() {
        for entries in [100u64, 10_000, 1_000_000] {
            // Hashes with a common lower or upper half work as well as random ones.
            for hash in [mix, |i| i, |i| i << 40] as [fn(u64) -> u64; 3] {
                let filter = Filter::with_capacity(entries);
                assert_eq!(wrong(&filter, (0..1000).map(hash)), 0.0, "an empty filter knows nothing");
                (0..entries).for_each(|i| filter.insert(hash(i)));
                assert!((0..entries).all(|i| filter.contains(hash(i))));
                let rate = wrong(&filter, (entries..entries + 200_000).map(hash));
                println!("{entries} entries: {:.3} %", rate * 100.0);
                assert!(rate <= 0.02, "{entries}: {rate}");
            }
        }
    }

    #[test]
    fn what_one_thread_has_inserted_all_others_find() {
        let filter = Filter::with_capacity(40_000);
        let (sender, inserted) = crossbeam_channel::unbounded();
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (filter, sender) = (&filter, sender.clone());
                scope.spawn(move || {
                    for hash in (0..10_000).map(|i| mix(thread << 32 | i)) {
                        filter.insert(hash);
                        sender.send(hash).unwrap();
                    }
                });
            }
            drop(sender);
            for _ in 0..2 {
                let (filter, inserted) = (&filter, inserted.clone());
                scope.spawn(move || inserted.iter().for_each(|hash| assert!(filter.contains(hash))));
            }
        });
        assert!((0..4).flat_map(|thread| (0..10_000).map(move |i| thread << 32 | i)).all(|i| filter.contains(mix(i))));
    }

    #[test]
    fn its_size_follows_from_the_capacity_and_is_bounded() {
        assert_eq!(Filter::with_capacity(0).bytes(), 64);
        assert_eq!(Filter::with_capacity(1_000_000).bytes(), 1_500_032);
        assert_eq!(std::mem::align_of::<Block>(), 64);
        assert_eq!(blocks_for(u64::MAX), BLOCKS_MAX);
        let filter = Filter::with_capacity(0);
        (0..10_000).for_each(|hash| filter.insert(hash));
        assert!((0..20_000).all(|hash| filter.contains(hash)), "too full, it takes everything for known");
    }
}
