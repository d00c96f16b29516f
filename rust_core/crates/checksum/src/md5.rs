//! MD5 (RFC 1321), for entity tags and Content-MD5: one message, or several at once.
//!
//! In one message each step depends on the step before, so most of the processor is idle. Steps of other messages use
//! that time: two or three messages take hardly longer than one, and with vector instructions eight about as long as
//! two. A digest does not depend on what else was hashed at the same time.

mod lanes;
mod steps;
#[cfg(target_arch = "x86_64")]
mod vectors;

use lanes::Vectors;
use steps::{Block, Lane, State};

/// Bytes of a block of the compression function.
const BLOCK: usize = 64;
/// RFC 1321, 3.3.
const START: State = [0x6745_2301, 0xefcd_ab89, 0x98ba_dcfe, 0x1032_5476];

/// A running MD5.
#[derive(Clone)]
pub struct Md5Hasher {
    state: State,
    /// Bytes so far.
    length: u64,
    /// The block that is not complete yet.
    open: Block,
}

impl Default for Md5Hasher {
    fn default() -> Self {
        Self { state: START, length: 0, open: [0; BLOCK] }
    }
}

impl Md5Hasher {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn update(&mut self, bytes: &[u8]) {
        let lane = self.begin(bytes);
        lanes::one(lane.state, lane.blocks);
    }

    /// Updates each hasher with its bytes, all at the same time.
    pub fn update_all<'a>(messages: impl IntoIterator<Item = (&'a mut Md5Hasher, &'a [u8])>) {
        Self::update_all_with(Vectors::of_this_machine(), messages);
    }

    fn update_all_with<'a>(vectors: Vectors, messages: impl IntoIterator<Item = (&'a mut Md5Hasher, &'a [u8])>) {
        let lanes = messages.into_iter().map(|(hasher, bytes)| hasher.begin(bytes)).collect();
        lanes::all(vectors, lanes);
    }

    pub fn finish(mut self) -> [u8; 16] {
        let bits = self.length.wrapping_mul(8);
        let used = self.used();
        // RFC 1321, 3.1 and 3.2: a one, zeros, and the length in the last eight bytes of a block.
        let zeros = if used < BLOCK - 8 { BLOCK - 8 - used } else { 2 * BLOCK - 8 - used };
        let mut padding = [0; 2 * BLOCK];
        padding[0] = 0x80;
        padding[zeros..zeros + 8].copy_from_slice(&bits.to_le_bytes());
        self.update(&padding[..zeros + 8]);
        let mut digest = [0; 16];
        for (bytes, word) in digest.chunks_exact_mut(4).zip(self.state) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        digest
    }

    pub fn digest(bytes: &[u8]) -> [u8; 16] {
        let mut hasher = Self::new();
        hasher.update(bytes);
        hasher.finish()
    }

    /// Bytes in the open block.
    fn used(&self) -> usize {
        (self.length % BLOCK as u64) as usize
    }

    /// Takes bytes in, except for the whole blocks among them, which the caller must compress.
    fn begin<'a>(&'a mut self, bytes: &'a [u8]) -> Lane<'a> {
        let used = self.used();
        self.length = self.length.wrapping_add(bytes.len() as u64);
        let mut rest = bytes;
        if used > 0 {
            let (first, later) = bytes.split_at(bytes.len().min(BLOCK - used));
            self.open[used..used + first.len()].copy_from_slice(first);
            rest = later;
            if used + first.len() < BLOCK {
                return Lane { state: &mut self.state, blocks: &[] };
            }
            lanes::one(&mut self.state, std::slice::from_ref(&self.open));
        }
        let (blocks, tail) = rest.as_chunks();
        self.open[..tail.len()].copy_from_slice(tail);
        Lane { state: &mut self.state, blocks }
    }
}

#[cfg(test)]
mod tests;
