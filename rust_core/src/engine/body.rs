//! Bodies on their way in: a small one is held and identified, a large one is cut into chunks that go to the packs
//! while it arrives. Blocking; used on worker threads. What is dropped before it is finished was never stored.

use std::sync::Arc;

use bytes::Bytes;

use super::Shared;
use super::keys::identity;
use crate::chunks::{ChunkWriter, WrittenChunk};
use crate::decide::{Body, ChunkPlace, PlacedChunk, Sharing};
use crate::error::{Error, Result};
use crate::record::{Bucket, INLINE_MAX, Identity};

impl Shared {
    /// A body that is all in memory, at most `record::CONTENT_MAX` bytes.
    pub fn small_body(&self, bucket: &Bucket, bytes: Bytes) -> Body {
        if bytes.len() <= INLINE_MAX {
            return Body::Inline(bytes);
        }
        Body::Content { identity: identity(&self.scope(&bucket.owner), &bytes), sharing: Sharing::Off, bytes }
    }
}

/// Cuts a body of known length into chunks.
pub struct BodyWriter {
    shared: Arc<Shared>,
    scope: [u8; 32],
    chunk_size: u64,
    /// Bytes still to come.
    remaining: u64,
    chunk: Option<(ChunkWriter, u64)>,
    written: Vec<WrittenChunk>,
}

impl BodyWriter {
    pub(super) fn new(shared: Arc<Shared>, bucket: &Bucket, length: u64) -> Self {
        let chunk_size = u64::from(bucket.settings.chunk_size.unwrap_or(shared.options.chunk_size));
        let scope = shared.scope(&bucket.owner);
        Self { shared, scope, chunk_size, remaining: length, chunk: None, written: Vec::new() }
    }

    /// Writes the next bytes.
    ///
    /// # Errors
    /// [`Error::StorageFull`] when the disk has no room, [`Error::Io`], or [`Error::Record`] for more bytes than were
    /// announced.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        while !bytes.is_empty() {
            let (mut chunk, left) = match self.chunk.take() {
                Some(open) => open,
                None => self.next_chunk()?,
            };
            let (now, rest) = bytes.split_at(bytes.len().min(left as usize));
            chunk.write(now)?;
            bytes = rest;
            let left = left - now.len() as u64;
            if left == 0 {
                self.written.push(chunk.finish()?);
            } else {
                self.chunk = Some((chunk, left));
            }
        }
        Ok(())
    }

    fn next_chunk(&mut self) -> Result<(ChunkWriter, u64)> {
        if self.remaining == 0 {
            return Err(Error::Record { reason: "a body is longer than announced" });
        }
        self.shared.check_writable()?;
        self.shared.check_space()?;
        let length = self.remaining.min(self.chunk_size);
        self.remaining -= length;
        Ok((self.shared.packs.reserve(length as u32, &self.scope)?, length))
    }

    /// Makes every chunk durable.
    ///
    /// # Errors
    /// As `write`; also for fewer bytes than were announced. Nothing of the body counts as stored then.
    pub fn finish(self) -> Result<Body> {
        if self.remaining > 0 || self.chunk.is_some() {
            return Err(Error::Record { reason: "a body is shorter than announced" });
        }
        self.shared.packs.sync(&self.written)?;
        let placed = |chunk: &WrittenChunk| PlacedChunk {
            identity: Identity(chunk.identity),
            sharing: Sharing::Off,
            length: chunk.length,
            place: ChunkPlace::New { head: 0, pack: chunk.pack, offset: chunk.offset },
            pin: None,
        };
        Ok(Body::Chunks(self.written.iter().map(placed).collect()))
    }
}
