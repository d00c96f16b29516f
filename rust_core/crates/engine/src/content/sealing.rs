//! Sealing content and headers on their way to the disk and opening them on their way back. Data keys come from outside.
//!
//! What is stored of a sealed blob: its content, sealed by block, an authentication tag for each block, and the seal. A
//! block verifies before any of its bytes is given out. Each act of sealing has a seal id of its own, under which
//! nothing else is sealed: the same headers that are stored twice look different, and those of another version do not
//! open in their place. Must not know how data keys are kept, who asks for encryption, or which headers there are.

use std::borrow::Cow;
use std::sync::Arc;

use super::Content;
use crate::metrics::EngineMetrics;
use orcas_base::block::{BLOCK_SIZE, block_count};
use orcas_base::buffers::Buffer;
use orcas_base::error::{Error, Result};
use orcas_base::planted::{self, Bug};
use orcas_base::verifying::verifying;
use orcas_catalog::PinnedObject;
use orcas_chunks::{ChunkWriter, WrittenChunk};
use orcas_record::{Bucket, ObjectHeaders, Seal, SealedHeaders, encode_headers};
use orcas_seal::{AUTH_TAG_LENGTH, Algorithm, AuthTag, BlobKey, BlobSealer, DataKey, FreshId, block_range};
use orcas_store::{Sealing, is_authentic, open_headers};

/// Bytes that a writer of large content seals and writes at once.
const PIECE: usize = 4 * BLOCK_SIZE;

impl Content {
    /// A sealer for a blob of `length` bytes, or for metadata, under a new seal id.
    pub(crate) fn sealer(&self, key: &DataKey, length: u64) -> Result<(BlobSealer, Seal)> {
        let mut drawn = Ok(());
        let id = FreshId::draw(&mut |bytes| {
            drawn = self.seal_ids.fill(&*self.keys.random, bytes);
            Ok(())
        });
        drawn?;
        let id = id.map_err(|_| Error::Record { reason: "no seal id could be drawn" })?;
        let sealer = key.sealer(Algorithm::preferred(), id, length);
        let (algorithm, id) = (sealer.algorithm().code(), sealer.id().0);
        Ok((sealer, Seal { data_key: key.id().0, id, algorithm }))
    }

    /// The sealed form of `content`, at most 64 MiB, and its seal.
    pub(crate) fn seal_whole(&self, key: &DataKey, content: &[u8]) -> Result<(Vec<u8>, Seal)> {
        let (mut sealer, seal) = self.sealer(key, content.len() as u64)?;
        let mut stored = Vec::with_capacity(Seal::stored_length(content.len() as u32) as usize);
        stored.extend_from_slice(content);
        let algorithm = sealer.algorithm();
        self.metrics.sealed.timed(algorithm, content.len(), || seal_blocks(&mut sealer, &mut stored))?;
        stored.extend_from_slice(&seal.encode());
        Ok((stored, seal))
    }

    /// Seals what is written into a chunk that has room for what is stored of `length` bytes.
    pub(crate) fn sealing_writer(&self, chunk: ChunkWriter, key: &DataKey, length: u32) -> Result<SealingWriter> {
        let (sealer, seal) = self.sealer(key, u64::from(length))?;
        let block = self.buffers.take(PIECE.min(length as usize));
        let (tags, metrics) = (Vec::with_capacity(block_count(length as usize)), Arc::clone(&self.metrics));
        Ok(SealingWriter { chunk, sealer, seal, block, tags, metrics })
    }

    /// The headers as an object of the bucket stores them that is encrypted like this. May wait for the data key of the
    /// owner of the bucket, unless it is at hand or content was just sealed.
    ///
    /// # Errors
    /// [`Error::NoKeyring`], or why the data key cannot be used.
    pub fn sealed_headers(&self, bucket: &Bucket, sealing: &Sealing, headers: ObjectHeaders) -> Result<ObjectHeaders> {
        if sealing.encryption.is_none() || !headers.has_unsealed() {
            return Ok(headers);
        }
        self.seal_headers(&*self.keys.data_key(bucket, sealing)?, headers)
    }

    /// The headers as an object stores them that is encrypted with `key`.
    pub(crate) fn seal_headers(&self, key: &DataKey, headers: ObjectHeaders) -> Result<ObjectHeaders> {
        if !headers.has_unsealed() {
            return Ok(headers);
        }
        let (hidden, visible) = headers.split();
        let (mut sealer, seal) = self.sealer(key, 0)?;
        let mut bytes = encode_headers(&hidden);
        let tag = sealer.seal_metadata(&mut bytes);
        bytes.extend_from_slice(&tag.map_err(|_| Error::Record { reason: "headers are too long to be sealed" })?);
        let sealed = SealedHeaders { seal, bytes: bytes.into() };
        Ok(ObjectHeaders { sealed: Some(Box::new(sealed)), ..visible })
    }

    /// The headers of an object in the clear. Never waits.
    ///
    /// # Errors
    /// Why the key cannot be used, [`Error::NoCustomerKey`], or [`Error::Record`] if they are not what was sealed.
    pub fn headers<'a>(&self, found: &'a PinnedObject) -> Result<Cow<'a, ObjectHeaders>> {
        let headers = &found.object.version.headers;
        let Some(sealed) = &headers.sealed else { return Ok(Cow::Borrowed(headers)) };
        let opened = open_headers(&*self.keys.blob_key(&sealed.seal, &found.sealing())?, sealed)?;
        let (storage_class, website_redirect) = (headers.storage_class.clone(), headers.website_redirect.clone());
        Ok(Cow::Owned(ObjectHeaders { storage_class, website_redirect, ..opened }))
    }
}

/// Seals the blocks in `bytes` and appends their tags.
fn seal_blocks(sealer: &mut BlobSealer, bytes: &mut Vec<u8>) -> Result<()> {
    let mut tags = vec![[0; AUTH_TAG_LENGTH]; block_count(bytes.len())];
    sealer.seal_in_place(bytes, &mut tags).map_err(|_| UNFIT)?;
    bytes.extend_from_slice(tags.as_flattened());
    Ok(())
}

const UNFIT: Error = Error::Record { reason: "blocks do not fit their sealed blob" };

/// Writes one chunk of sealed content.
pub(crate) struct SealingWriter {
    chunk: ChunkWriter,
    sealer: BlobSealer,
    seal: Seal,
    /// Content that is not sealed yet.
    block: Buffer,
    tags: Vec<AuthTag>,
    metrics: Arc<EngineMetrics>,
}

impl SealingWriter {
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<()> {
        self.chunk.hash(bytes);
        while !bytes.is_empty() {
            let (now, later) = bytes.split_at(bytes.len().min(PIECE - self.block.len()));
            self.block.extend_from_slice(now);
            bytes = later;
            if self.block.len() == PIECE {
                self.flush()?;
            }
        }
        Ok(())
    }

    fn flush(&mut self) -> Result<()> {
        let first = self.tags.len();
        self.tags.resize(first + block_count(self.block.len()), [0; AUTH_TAG_LENGTH]);
        let Self { sealer, block, tags, metrics, .. } = self;
        let (algorithm, bytes) = (sealer.algorithm(), block.len());
        let sealed = metrics.sealed.timed(algorithm, bytes, || sealer.seal_in_place(block, &mut tags[first..]));
        sealed.map_err(|_| UNFIT)?;
        self.chunk.store(&self.block)?;
        self.block.clear();
        Ok(())
    }

    pub fn finish(mut self) -> Result<(WrittenChunk, Seal)> {
        if !self.block.is_empty() {
            self.flush()?;
        }
        self.sealer.finish().map_err(|_| UNFIT)?;
        self.chunk.store(self.tags.as_flattened())?;
        self.chunk.store(&self.seal.encode())?;
        Ok((self.chunk.finish()?, self.seal))
    }
}

/// Reads stored bytes of one blob from an offset on; `false` if that would wait.
pub(crate) type ReadStored<'a> = &'a dyn Fn(u32, &mut [u8]) -> Result<bool>;

/// Why sealed bytes were not opened: reading failed, or what was read is not what was sealed.
pub(crate) enum Unopened {
    Read(Error),
    NotAuthentic,
}

impl From<Error> for Unopened {
    fn from(error: Error) -> Self {
        Self::Read(error)
    }
}

/// A sealed blob that is being read.
pub(crate) struct OpenBlob {
    key: Arc<BlobKey>,
    /// Bytes of content.
    length: u32,
    /// The authentication tags of all blocks.
    tags: Vec<AuthTag>,
}

impl Content {
    /// Prepares for reading the blob, of which `stored` bytes are stored. `None` if that would wait.
    pub(crate) fn open_blob(
        &self,
        (seal, sealing): (&Seal, &Sealing),
        stored: u32,
        read: ReadStored<'_>,
    ) -> Result<Option<OpenBlob>, Unopened> {
        let length = content_length(stored)?;
        let mut tags = vec![[0; AUTH_TAG_LENGTH]; block_count(length as usize).max(1)];
        if !read(length, tags.as_flattened_mut())? {
            return Ok(None);
        }
        let key = self.keys.blob_key(&named_seal(seal, stored, read)?, sealing)?;
        Ok(Some(OpenBlob { key, length, tags }))
    }

    /// Content of a blob from `start`. `false` if that would wait.
    pub(crate) fn read_sealed(
        &self,
        (seal, sealing): (&Seal, &Sealing),
        stored: u32,
        read: ReadStored<'_>,
        start: u32,
        buf: &mut [u8],
    ) -> Result<bool, Unopened> {
        let length = content_length(stored)?;
        if length as usize > BLOCK_SIZE {
            let Some(blob) = self.open_blob((seal, sealing), stored, read)? else { return Ok(false) };
            return self.read_opened(&blob, read, start, buf);
        }
        // Its one block and its tag are read at once.
        let end = length as usize + AUTH_TAG_LENGTH;
        let mut sealed = self.buffers.take(end);
        sealed.resize(end, 0);
        if !read(0, &mut sealed)? {
            return Ok(false);
        }
        let (content, tag) = sealed.split_at_mut(length as usize);
        let tag = AuthTag::try_from(&*tag).map_err(|_| UNFIT)?;
        let key = self.keys.blob_key(&named_seal(seal, stored, read)?, sealing)?;
        let open = || key.open_in_place(0, u64::from(length), content, &[tag]);
        authentic(verifying(|| self.metrics.opened.timed(key.algorithm(), length as usize, open)))?;
        copy_from(content, start as usize, buf)?;
        Ok(true)
    }

    /// Reads from a blob that was prepared.
    pub(crate) fn read_opened(
        &self,
        blob: &OpenBlob,
        read: ReadStored<'_>,
        start: u32,
        buf: &mut [u8],
    ) -> Result<bool, Unopened> {
        let length = u64::from(blob.length);
        let range = u64::from(start)..u64::from(start) + buf.len() as u64;
        let (blocks, bytes) = block_range(range.clone(), length).map_err(|_| BEYOND)?;
        let tags = blob.tags.get(blocks.start as usize..blocks.end as usize).ok_or(UNFIT)?;
        let open = |sealed: &mut [u8]| {
            let (algorithm, bytes) = (blob.key.algorithm(), sealed.len());
            let open = || blob.key.open_in_place(blocks.start, length, sealed, tags);
            authentic(verifying(|| self.metrics.opened.timed(algorithm, bytes, open)))
        };
        if bytes == range {
            if !read(start, buf)? {
                return Ok(false);
            }
            if !buf.is_empty() {
                open(buf).inspect_err(|_| buf.fill(0))?;
            }
            return Ok(true);
        }
        let whole = (bytes.end - bytes.start) as usize;
        let mut sealed = self.buffers.take(whole);
        sealed.resize(whole, 0);
        if !read(bytes.start as u32, &mut sealed)? {
            return Ok(false);
        }
        open(&mut sealed)?;
        copy_from(&sealed, (range.start - bytes.start) as usize, buf)?;
        Ok(true)
    }
}

/// The seal with which a blob is opened: that of its record, not the one that is stored beside it.
fn named_seal(seal: &Seal, stored: u32, read: ReadStored<'_>) -> Result<Seal> {
    let mut beside = [0; Seal::LENGTH];
    if planted::is(Bug::SealTakenFromDisk) && read(stored - Seal::LENGTH as u32, &mut beside)? {
        return Ok(Seal::decode(&beside).unwrap_or(*seal));
    }
    Ok(*seal)
}

fn authentic<T, E>(opened: Result<T, E>) -> Result<(), Unopened> {
    if is_authentic(opened) { Ok(()) } else { Err(Unopened::NotAuthentic) }
}

const BEYOND: Error = Error::Record { reason: "a manifest reaches beyond its blob" };

fn content_length(stored: u32) -> Result<u32> {
    Seal::content_length(stored).ok_or(Error::Record { reason: "no sealed content is so long" })
}

fn copy_from(content: &[u8], start: usize, buf: &mut [u8]) -> Result<()> {
    let wanted = content.get(start..).and_then(|rest| rest.get(..buf.len()));
    buf.copy_from_slice(wanted.ok_or(BEYOND)?);
    Ok(())
}
