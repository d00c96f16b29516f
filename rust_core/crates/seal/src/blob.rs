//! Blobs sealed by block: the key of one blob, sealing its blocks in order, opening any of them, and small metadata
//! beside it. Authentication tags stand apart from the blocks, so byte n of a blob is byte n of what is stored.
//!
//! The key of a blob belongs to one store and one [`SealId`]; the nonce is the number of the block, and each tag also
//! covers that number and the length of the blob. An empty blob is one empty block.

use std::ops::Range;

use orcas_base::block::{BLOCK_SIZE, block_count};

use crate::cipher::{Algorithm, AuthTag, Cipher};
use crate::error::{Error, Result};
use crate::id::SealId;

/// Bytes of the longest metadata that is sealed beside a blob.
pub const METADATA_MAX: usize = 1 << 20;

const BLOCK: u64 = BLOCK_SIZE as u64;

/// Number of authentication tags of a blob of `length` bytes.
pub const fn auth_tag_count(length: u64) -> u64 {
    if length == 0 { 1 } else { length.div_ceil(BLOCK) }
}

/// The blocks that have the bytes of `range`, which must end within `length`, and the bytes of those blocks: what has to
/// be read to open the range. An empty range needs no blocks.
///
/// # Errors
/// [`Error::Blocks`] for a range that ends before it begins or after the blob.
pub fn block_range(range: Range<u64>, length: u64) -> Result<(Range<u64>, Range<u64>)> {
    if range.start > range.end || range.end > length {
        return Err(Error::Blocks { reason: "a range ends beyond its blob" });
    }
    if range.is_empty() {
        return Ok((0..0, 0..0));
    }
    let blocks = range.start / BLOCK..range.end.div_ceil(BLOCK);
    let bytes = blocks.start * BLOCK..(blocks.end * BLOCK).min(length);
    Ok((blocks, bytes))
}

/// The part of a store that a key seals. Stored nowhere: it makes nonces differ.
#[derive(Clone, Copy)]
enum Part {
    Content = 0,
    Metadata = 1,
}

fn nonce(part: Part, number: u64) -> [u8; 12] {
    let mut nonce = [0; 12];
    nonce[0] = part as u8;
    nonce[4..].copy_from_slice(&number.to_le_bytes());
    nonce
}

/// The bytes that an authentication tag covers beside its block.
fn bound(number: u64, length: u64) -> [u8; 16] {
    let mut bound = [0; 16];
    bound[..8].copy_from_slice(&number.to_le_bytes());
    bound[8..].copy_from_slice(&length.to_le_bytes());
    bound
}

/// The key of one sealed blob, expanded, for opening. Worth caching between reads of the same blob.
#[derive(Debug)]
pub struct BlobKey {
    cipher: Cipher,
}

impl BlobKey {
    pub(crate) fn new(algorithm: Algorithm, key: &[u8; 32]) -> Self {
        Self { cipher: Cipher::new(algorithm, key) }
    }

    /// Opens whole blocks from number `first`, in place, of a blob of `length` bytes. `tags` are those of these blocks.
    /// After an error the bytes are partly opened, partly zeros; nothing of them may be used.
    ///
    /// # Errors
    /// [`Error::NotAuthentic`], or [`Error::Blocks`] if the bytes are not whole blocks of such a blob.
    pub fn open_in_place(&self, first: u64, length: u64, blocks: &mut [u8], tags: &[AuthTag]) -> Result<()> {
        check(first, length, blocks.len(), tags.len())?;
        for (number, block, tag) in pieces(first, blocks, tags.iter()) {
            self.cipher.open(nonce(Part::Content, number), &bound(number, length), block, tag)?;
        }
        Ok(())
    }

    /// Opens metadata in place. After an error it is zeros.
    ///
    /// # Errors
    /// [`Error::NotAuthentic`].
    pub fn open_metadata(&self, metadata: &mut [u8], tag: &AuthTag) -> Result<()> {
        self.cipher.open(nonce(Part::Metadata, 0), &bound(0, metadata.len() as u64), metadata, tag)
    }

    pub fn algorithm(&self) -> Algorithm {
        self.cipher.algorithm()
    }
}

/// Seals one blob, each block once and in order, so that no nonce repeats.
#[derive(Debug)]
pub struct BlobSealer {
    key: BlobKey,
    id: SealId,
    length: u64,
    next: u64,
    metadata: bool,
}

impl BlobSealer {
    /// `key` must be the one that belongs to `id`, and nothing may have been sealed with it.
    pub(crate) fn new(key: BlobKey, id: SealId, length: u64) -> Self {
        Self { key, id, length, next: 0, metadata: false }
    }

    /// To be stored beside the blob, with its length, the algorithm and the tags.
    pub fn id(&self) -> SealId {
        self.id
    }

    pub fn algorithm(&self) -> Algorithm {
        self.key.algorithm()
    }

    /// Seals the next blocks in place: whole ones, except at the end of the blob. `tags` takes one tag for each.
    ///
    /// # Errors
    /// [`Error::Blocks`]; nothing was sealed.
    pub fn seal_in_place(&mut self, blocks: &mut [u8], tags: &mut [AuthTag]) -> Result<()> {
        check(self.next, self.length, blocks.len(), tags.len())?;
        let count = tags.len() as u64;
        for (number, block, tag) in pieces(self.next, blocks, tags.iter_mut()) {
            *tag = self.key.cipher.seal(nonce(Part::Content, number), &bound(number, self.length), block);
        }
        self.next += count;
        Ok(())
    }

    /// Seals metadata of at most [`METADATA_MAX`] bytes in place, once.
    ///
    /// # Errors
    /// [`Error::Invalid`] for longer metadata, and for the second call.
    pub fn seal_metadata(&mut self, metadata: &mut [u8]) -> Result<AuthTag> {
        if self.metadata || metadata.len() > METADATA_MAX {
            return Err(Error::Invalid { reason: "metadata is sealed once, and has at most 1 MiB" });
        }
        self.metadata = true;
        Ok(self.key.cipher.seal(nonce(Part::Metadata, 0), &bound(0, metadata.len() as u64), metadata))
    }

    /// The key to open what was sealed, once no block is left.
    ///
    /// # Errors
    /// [`Error::Blocks`] when blocks are missing.
    pub fn finish(self) -> Result<BlobKey> {
        if self.next != auth_tag_count(self.length) {
            return Err(Error::Blocks { reason: "the blob is not complete" });
        }
        Ok(self.key)
    }
}

/// The number, bytes and authentication tag of each block. An empty blob has one block without bytes.
fn pieces<T>(
    first: u64,
    blocks: &mut [u8],
    tags: impl Iterator<Item = T>,
) -> impl Iterator<Item = (u64, &mut [u8], T)> {
    let empty = blocks.is_empty().then(<&mut [u8]>::default);
    let blocks = blocks.chunks_mut(BLOCK_SIZE).chain(empty);
    (first..).zip(blocks).zip(tags).map(|((number, block), tag)| (number, block, tag))
}

fn check(first: u64, length: u64, bytes: usize, tags: usize) -> Result<()> {
    let refused = |reason| Err(Error::Blocks { reason });
    let start = first.checked_mul(BLOCK).filter(|start| *start < length || (*start, length) == (0, 0));
    let Some(end) = start.and_then(|start| start.checked_add(bytes as u64)).filter(|end| *end <= length) else {
        return refused("they are beyond its end");
    };
    if !(bytes as u64).is_multiple_of(BLOCK) && end != length {
        return refused("a block is not whole");
    }
    if tags != if length == 0 { 1 } else { block_count(bytes) } {
        return refused("there is not one authentication tag for each");
    }
    Ok(())
}
