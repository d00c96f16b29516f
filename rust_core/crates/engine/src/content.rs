//! Where bytes of content go to the disk and come from it: inline bodies, contents of the log, chunks of packs. What
//! clients send passes through here before it is stored, what is stored passes through here before anything is made of
//! it. Only what moves stored bytes as they are, or verifies their checksums, bypasses this.

use bytes::Bytes;

use super::handle::Handle;
use super::keys::fingerprint;
use super::overlay::BlobPlace;
use super::state::EngineState;
use orcas_base::error::{Error, Result};
use orcas_chunks::{ChunkWriter, WrittenChunk};
use orcas_decide::Body;
use orcas_log::LogReader;
use orcas_record::{BlobLocation, Bucket, Fingerprint, INLINE_MAX, LogLocation, RefLevel, Sequence, head_of};

impl Handle {
    /// A body that is all in memory, at most `record::CONTENT_MAX` bytes. Hashes it.
    pub fn small_body(&self, bucket: &Bucket, bytes: Bytes) -> Body {
        self.shared.small_body(bucket, bytes)
    }

    /// The same for a body that is appended to an object: a content, however small it is.
    pub fn appended_body(&self, bucket: &Bucket, bytes: Bytes) -> Body {
        self.shared.content_body(bucket, bytes)
    }
}

impl EngineState {
    fn small_body(&self, bucket: &Bucket, bytes: Bytes) -> Body {
        if bytes.len() <= INLINE_MAX {
            return Body::Inline(bytes);
        }
        self.content_body(bucket, bytes)
    }

    fn content_body(&self, bucket: &Bucket, bytes: Bytes) -> Body {
        let fingerprint = fingerprint(&self.scope(&bucket.owner), &bytes);
        // To look up what is this short costs more than to store it again.
        let level = if bytes.len() <= INLINE_MAX { RefLevel::Off } else { self.ref_level(bucket) };
        let sharing = self.sharing(level, head_of(&fingerprint.0));
        Body::Content { fingerprint, sharing, bytes }
    }

    /// Reserves space for a chunk of `length` bytes.
    pub fn content_writer(&self, length: u32, scope: &[u8; 32]) -> Result<ContentWriter> {
        Ok(ContentWriter { chunk: self.packs.reserve(length, scope)? })
    }

    /// Returns when all `chunks` are durable. After an error, at least one of them never will be.
    pub fn sync_content(&self, chunks: &[WrittenChunk]) -> Result<()> {
        self.packs.sync(chunks)
    }

    /// Bytes of a blob from `start`, verified. Remembers the blob if it is damaged.
    pub fn read_blob(&self, blob: Sequence, place: &BlobPlace, start: u32, buf: &mut [u8]) -> Result<()> {
        let read = match place {
            BlobPlace::Memory(bytes) => copy_from(bytes, start, buf),
            BlobPlace::At(BlobLocation::Log { at, length }) => {
                read_content(&self.log_reader, (*at, *length), start, buf)
            }
            BlobPlace::At(BlobLocation::Pack { at, .. }) => self.packs.read(*at, start, buf),
        };
        self.noted(blob, read)
    }

    /// Like `read_blob`, but `false` when that would wait for the disk.
    pub fn try_read_blob(&self, blob: Sequence, place: &BlobPlace, start: u32, buf: &mut [u8]) -> Result<bool> {
        let read = match place {
            BlobPlace::Memory(bytes) => copy_from(bytes, start, buf).map(|()| true),
            BlobPlace::At(BlobLocation::Log { at, length }) => {
                self.log_reader.try_read_content(*at, *length, start, buf)
            }
            BlobPlace::At(BlobLocation::Pack { at, .. }) => self.packs.try_read(*at, start, buf),
        };
        self.noted(blob, read)
    }

    fn noted<T>(&self, blob: Sequence, read: Result<T>) -> Result<T> {
        if matches!(read, Err(Error::Corrupt { .. })) {
            self.pins.note_damage(blob);
        }
        read
    }
}

/// Writes one chunk into its reserved space. Dropped without `finish`, it was never stored.
pub(super) struct ContentWriter {
    chunk: ChunkWriter,
}

impl ContentWriter {
    /// The next bytes, in pieces of any size; in total not more than were reserved.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.chunk.write(bytes)
    }

    /// Exactly the reserved length must have been written. Durable after `sync_content`.
    pub fn finish(self) -> Result<WrittenChunk> {
        self.chunk.finish()
    }
}

/// Bytes of an inline extent from `start`.
pub(super) fn read_inline(stored: &Bytes, start: u32, buf: &mut [u8]) -> Result<()> {
    copy_from(stored, start, buf)
}

/// Bytes from `start` of a content in the log, which has a length; verified.
pub(super) fn read_content(
    log: &LogReader,
    (at, length): (LogLocation, u32),
    start: u32,
    buf: &mut [u8],
) -> Result<()> {
    log.read_content(at, length, start, buf)
}

/// Computes the fingerprint of a chunk from what is stored of it.
pub(super) struct StoredHasher {
    hasher: blake3::Hasher,
}

impl StoredHasher {
    pub fn new(scope: &[u8; 32]) -> Self {
        Self { hasher: blake3::Hasher::new_keyed(scope) }
    }

    /// The next blocks.
    pub fn update(&mut self, stored: &[u8]) {
        self.hasher.update(stored);
    }

    pub fn finish(self) -> Fingerprint {
        Fingerprint(*self.hasher.finalize().as_bytes())
    }
}

/// Whether what is stored of a content has this fingerprint in a scope.
pub(super) fn has_fingerprint(stored: &[u8], scope: &[u8; 32], expected: &Fingerprint) -> bool {
    fingerprint(scope, stored) == *expected
}

fn copy_from(bytes: &Bytes, start: u32, buf: &mut [u8]) -> Result<()> {
    let wanted = bytes.get(start as usize..).and_then(|rest| rest.get(..buf.len()));
    buf.copy_from_slice(wanted.ok_or(Error::Record { reason: "a manifest reaches beyond its blob" })?);
    Ok(())
}
