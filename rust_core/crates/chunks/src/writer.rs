//! Writes one chunk into its reserved space and computes its fingerprint.
//!
//! The header is written last, so that abandoned space never looks like a chunk.

use std::any::Any;
use std::ops::Range;
use std::sync::Arc;

use orcas_base::block::{BlockCrcs, block_count};
use orcas_base::error::{Error, Result};
use orcas_record::placement::codec;
use orcas_record::{ChunkLocation, HASHED_PREFIX, short_hash};

use super::format::{ChunkHeader, content_start, frame_length};
use super::pack::Pack;

/// Write-back of a chunk is started each time this many more bytes are in the page cache.
const WRITEBACK_STEP: u64 = 1024 * 1024;

/// A chunk whose bytes are all written; durable only after `Packs::sync`.
#[derive(Clone)]
pub struct WrittenChunk {
    pub at: ChunkLocation,
    /// Bytes that are stored.
    pub length: u32,
    /// BLAKE3 of the content, keyed with the scope's key.
    pub fingerprint: [u8; 32],
    /// The hash of the first `record::HASHED_PREFIX` bytes of the content, keyed like the fingerprint; 0 in a copy.
    pub prefix_hash: u64,
    /// Determines which sync of the pack covers it.
    pub(super) ordinal: u64,
    pub(super) file: Arc<Pack>,
}

impl WrittenChunk {
    /// Keeps the pack in use until it is dropped.
    pub fn pin(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::<Pack>::clone(&self.file)
    }
}

impl std::fmt::Debug for WrittenChunk {
    fn fmt(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(out, "WrittenChunk({} bytes at {:?})", self.length, self.at)
    }
}

/// Writes one chunk into its reserved space. If it is dropped without `finish`, the space can be reserved again if it
/// is the last one in its pack, and is dead otherwise.
pub struct ChunkWriter {
    frame: FrameWriter,
    hasher: blake3::Hasher,
    /// Bytes that went into the fingerprint.
    hashed: u64,
    /// Set once `HASHED_PREFIX` bytes were hashed.
    prefix_hash: Option<u64>,
    crcs: BlockCrcs,
}

impl ChunkWriter {
    pub(super) fn new(frame: FrameWriter, scope_key: &[u8; 32]) -> Self {
        let crcs = BlockCrcs::with_capacity(block_count(frame.length as usize));
        Self { frame, hasher: blake3::Hasher::new_keyed(scope_key), hashed: 0, prefix_hash: None, crcs }
    }

    /// Writes the next bytes of the content, in pieces of any size; in total not more than was reserved.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.store(bytes)?;
        self.hash(bytes);
        Ok(())
    }

    /// The next bytes of what is stored, if that is not what the fingerprint is of.
    pub fn store(&mut self, bytes: &[u8]) -> Result<()> {
        self.frame.write(bytes)?;
        self.crcs.update(bytes);
        Ok(())
    }

    /// The next bytes of what the fingerprint is of, if that is not what is stored.
    pub fn hash(&mut self, bytes: &[u8]) {
        let before = self.hashed;
        self.hashed += bytes.len() as u64;
        let mut rest = bytes;
        if self.prefix_hash.is_none() && self.hashed >= HASHED_PREFIX as u64 {
            let (first, later) = bytes.split_at(HASHED_PREFIX - before as usize);
            self.prefix_hash = Some(short_hash(self.hasher.update(first).finalize().as_bytes()));
            rest = later;
        }
        self.hasher.update(rest);
    }

    /// Writes the header. Exactly the reserved length must have been written.
    pub fn finish(self) -> Result<WrittenChunk> {
        let fingerprint = self.hasher.finalize().into();
        let prefix_hash = self.prefix_hash.unwrap_or_else(|| short_hash(&fingerprint));
        self.frame.finish(fingerprint, prefix_hash, &self.crcs.finish())
    }
}

/// Writes a frame. Its caller supplies fingerprint and checksums.
pub(super) struct FrameWriter {
    pack: Arc<Pack>,
    offset: u64,
    length: u32,
    written: u64,
    /// Bytes of content whose write-back was started.
    written_back: u64,
    finished: bool,
}

impl FrameWriter {
    pub fn new(pack: Arc<Pack>, offset: u64, length: u32) -> Self {
        Self { pack, offset, length, written: 0, written_back: 0, finished: false }
    }

    /// Writes the next bytes of the content.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        if self.written + bytes.len() as u64 > u64::from(self.length) {
            return Err(Error::Record { reason: "more bytes than were reserved for the chunk" });
        }
        let content = self.offset + content_start(self.length);
        self.pack.write(content + self.written, bytes)?;
        self.written += bytes.len() as u64;
        if self.written - self.written_back >= WRITEBACK_STEP {
            self.pack.file.start_writeback(content + self.written_back, self.written - self.written_back);
            self.written_back = self.written;
        }
        Ok(())
    }

    /// Writes the header; `crcs` are the unsalted checksums of the content's blocks.
    pub fn finish(mut self, fingerprint: [u8; 32], prefix_hash: u64, crcs: &[u32]) -> Result<WrittenChunk> {
        if self.written != u64::from(self.length) {
            return Err(Error::Record { reason: "fewer bytes than were reserved for the chunk" });
        }
        let header = ChunkHeader::encode(self.length, &fingerprint, crcs, self.pack.crc_salt, self.offset);
        self.pack.write(self.offset, &header)?;
        self.finished = true;
        let ordinal = self.pack.finish(self.range());
        let (file, at, length) = (Arc::clone(&self.pack), codec::chunk(self.pack.number, self.offset), self.length);
        Ok(WrittenChunk { at, length, fingerprint, prefix_hash, ordinal, file })
    }

    fn range(&self) -> Range<u64> {
        self.offset..self.offset + frame_length(self.length)
    }
}

impl Drop for FrameWriter {
    fn drop(&mut self) {
        if !self.finished {
            self.pack.release(&self.range());
        }
    }
}
