//! The 64 KiB blocks of stored content and their checksums. Pure.
//!
//! Every checksum on disk is mixed with the salt of its file, so that bytes of other files, old bytes and content chosen
//! by a client do not pass for valid data. The checksums detect damage; they do not prove who wrote the bytes.

use crc_fast::{CrcAlgorithm, Digest};

/// Bytes of a block.
pub const BLOCK_SIZE: usize = 64 * 1024;

/// Bytes of the longest chunk. This bounds what a reader allocates for a damaged length.
pub const CHUNK_LENGTH_MAX: u32 = 64 * 1024 * 1024;

/// CRC-32C (iSCSI) of `bytes`, without salt.
pub fn block_crc(bytes: &[u8]) -> u32 {
    crc_fast::crc32_iscsi(bytes)
}

/// Number of blocks of `length` bytes.
pub const fn block_count(length: usize) -> usize {
    length.div_ceil(BLOCK_SIZE)
}

/// Checksums of consecutive blocks of a stream that arrives in pieces of any size.
pub struct BlockCrcs {
    digest: Digest,
    filled: usize,
    crcs: Vec<u32>,
}

impl BlockCrcs {
    pub fn with_capacity(blocks: usize) -> Self {
        Self { digest: Digest::new(CrcAlgorithm::Crc32Iscsi), filled: 0, crcs: Vec::with_capacity(blocks) }
    }

    pub fn update(&mut self, mut bytes: &[u8]) {
        while !bytes.is_empty() {
            if self.filled == 0 && bytes.len() >= BLOCK_SIZE {
                self.crcs.push(block_crc(&bytes[..BLOCK_SIZE]));
                bytes = &bytes[BLOCK_SIZE..];
                continue;
            }
            let (now, rest) = bytes.split_at(bytes.len().min(BLOCK_SIZE - self.filled));
            self.digest.update(now);
            self.filled += now.len();
            if self.filled == BLOCK_SIZE {
                self.close();
            }
            bytes = rest;
        }
    }

    /// The checksums of all blocks, in order; the last block may be short.
    pub fn finish(mut self) -> Vec<u32> {
        if self.filled > 0 {
            self.close();
        }
        self.crcs
    }

    fn close(&mut self) {
        self.crcs.push(self.digest.finalize_reset() as u32);
        self.filled = 0;
    }
}

/// The `N` bytes at `offset`.
///
/// # Panics
/// When `bytes` ends before.
pub fn field<const N: usize>(bytes: &[u8], offset: usize) -> [u8; N] {
    let mut out = [0; N];
    out.copy_from_slice(&bytes[offset..offset + N]);
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_size_give_the_same_checksums() {
        let bytes: Vec<u8> = (0..3 * BLOCK_SIZE + 17).map(|i| (i * 7 % 251) as u8).collect();
        let whole: Vec<u32> = bytes.chunks(BLOCK_SIZE).map(block_crc).collect();
        for piece in [1000, BLOCK_SIZE - 1, BLOCK_SIZE, BLOCK_SIZE + 1, bytes.len()] {
            let mut crcs = BlockCrcs::with_capacity(4);
            bytes.chunks(piece).for_each(|piece| crcs.update(piece));
            assert_eq!(crcs.finish(), whole, "pieces of {piece}");
        }
    }

    #[test]
    fn the_published_check_value() {
        assert_eq!(block_crc(b"123456789"), 0xe306_9283);
    }
}
