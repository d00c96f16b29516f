//! Where bytes of content go to the disk and come from it: inline bodies, contents of the log, chunks of packs. All
//! that clients send passes through here before it is stored, and all stored content before it is used. Only code that
//! moves stored bytes as they are, or verifies their checksums, bypasses this.

use bytes::Bytes;

use super::Content;
use super::sealing::{OpenBlob, ReadStored, SealingWriter, Unopened};
use orcas_base::block::BLOCK_SIZE;
use orcas_base::error::{Error, Result};
use orcas_catalog::{BlobPlace, StoredBytes};
use orcas_chunks::{ChunkWriter, WrittenChunk};
use orcas_decide::{Body, ChunkPlace, PlacedChunk, Sharing};
use orcas_record::{BlobLocation, Bucket, Encryption, Fingerprint, INLINE_MAX, RefLevel, Seal, Sequence, short_hash};
use orcas_seal::DataKey;
use orcas_store::{Sealing, fingerprint};

impl Content {
    /// A body that is all in memory, at most `record::CONTENT_MAX` bytes. Hashes it.
    pub fn small_body(&self, bucket: &Bucket, bytes: Bytes) -> Body {
        if bytes.len() <= INLINE_MAX {
            return Body::Inline(bytes);
        }
        self.appended_body(bucket, bytes)
    }

    /// A body that is appended to an object: a content, however small it is.
    pub fn appended_body(&self, bucket: &Bucket, bytes: Bytes) -> Body {
        let fingerprint = fingerprint(&self.scope(&bucket.owner), &bytes);
        let sharing = self.content_sharing(bucket, &fingerprint, bytes.len());
        Body::Content { fingerprint, sharing, bytes, seal: None }
    }

    /// A body that is sealed, however small it is. May wait for the data key of its owner.
    ///
    /// # Errors
    /// [`Error::NoKeyring`], or why the data key cannot be used.
    pub fn sealed_body(&self, bucket: &Bucket, sealing: &Sealing, bytes: &[u8]) -> Result<Body> {
        if bytes.is_empty() {
            return Ok(Body::Inline(Bytes::new()));
        }
        let key = self.keys.data_key(bucket, sealing)?;
        let fingerprint = fingerprint(&self.sealed_scope(&key, sealing)?, bytes);
        let sharing = match sealing.is_private() {
            false => self.content_sharing(bucket, &fingerprint, bytes.len()),
            true => Sharing::Off,
        };
        let (stored, seal) = self.seal_whole(&key, bytes)?;
        Ok(Body::Content { fingerprint, sharing, bytes: stored.into(), seal: Some(seal) })
    }

    /// The key of an owner's scope.
    pub(crate) fn scope(&self, owner: &Bytes) -> [u8; 32] {
        *self.scopes.lock().entry(owner.clone()).or_insert_with(|| self.store_keys.scope(owner))
    }

    /// Whether new content of the bucket is looked up.
    pub(crate) fn ref_level(&self, bucket: &Bucket) -> RefLevel {
        bucket.settings.ref_level.unwrap_or(self.ref_level)
    }

    /// The key of fingerprints of sealed content. Those of private content tell nothing, not even that two are equal.
    pub(crate) fn sealed_scope(&self, key: &DataKey, sealing: &Sealing) -> Result<[u8; 32]> {
        if !sealing.is_private() {
            return Ok(*key.fingerprint_key().expose());
        }
        let mut scope = [0; 32];
        self.keys.random.fill(&mut scope)?;
        Ok(scope)
    }

    fn content_sharing(&self, bucket: &Bucket, fingerprint: &Fingerprint, length: usize) -> Sharing {
        // To look up what is this short costs more than to store it again.
        let level = if length <= INLINE_MAX { RefLevel::Off } else { self.ref_level(bucket) };
        self.catalog.prefix_hashes.sharing(level, short_hash(&fingerprint.0))
    }

    /// Reserves space for a chunk of `length` bytes, which are sealed if there is a data key. `scope` is what its
    /// fingerprint is keyed with.
    pub(crate) fn content_writer(&self, length: u32, scope: &[u8; 32], key: Option<&DataKey>) -> Result<ContentWriter> {
        match key {
            None => Ok(ContentWriter::Plain(Box::new(self.packs.reserve(length, scope)?))),
            Some(key) => {
                let chunk = self.packs.reserve(Seal::stored_length(length), scope)?;
                Ok(ContentWriter::Sealing(Box::new(self.sealing_writer(chunk, key, length)?)))
            }
        }
    }

    /// Refuses the blob of an object that is not sealed as the object says: what was sealed must not be taken for
    /// content, and what was not is no content of an encrypted object.
    pub(crate) fn check_seal(&self, place: &BlobPlace, encryption: Option<&Encryption>) -> Result<()> {
        if place.seal.is_some() == encryption.is_some() {
            return Ok(());
        }
        Err(self.error_at(&place.bytes, UNLIKE_ITS_OBJECT))
    }

    /// Bytes of a blob from `start`, verified. Remembers the blob if it is damaged.
    pub(crate) fn read_blob(&self, held: &mut HeldBlob, sealing: &Sealing, start: u32, buf: &mut [u8]) -> Result<()> {
        let HeldBlob { blob, place, open } = held;
        let read = match &place.seal {
            None => self.read_stored(&place.bytes, start, buf),
            Some(seal) => {
                let read = |start, buf: &mut [u8]| self.read_stored(&place.bytes, start, buf).map(|()| true);
                self.read_held(open, (seal, sealing), &place.bytes, &read, start, buf)
                    .map_err(|unopened| self.unopened(unopened, &place.bytes))
            }
        };
        self.noted(*blob, read)
    }

    fn read_held(
        &self,
        open: &mut Option<OpenBlob>,
        under: (&Seal, &Sealing),
        bytes: &StoredBytes,
        read: ReadStored<'_>,
        start: u32,
        buf: &mut [u8],
    ) -> Result<(), Unopened> {
        if bytes.length() <= Seal::stored_length(BLOCK_SIZE as u32) {
            return self.read_sealed(under, bytes.length(), read, start, buf).map(|_| ());
        }
        if open.is_none() {
            *open = self.open_blob(under, bytes.length(), read)?;
        }
        if let Some(blob) = open {
            self.read_opened(blob, read, start, buf)?;
        }
        Ok(())
    }

    /// Like `read_blob`, but `false` when that would wait for the disk.
    pub(crate) fn try_read_blob(
        &self,
        (blob, place): (Sequence, &BlobPlace),
        sealing: &Sealing,
        start: u32,
        buf: &mut [u8],
    ) -> Result<bool> {
        let read = match &place.seal {
            None => self.try_read_stored(&place.bytes, start, buf),
            Some(seal) => {
                let read = |start, buf: &mut [u8]| self.try_read_stored(&place.bytes, start, buf);
                self.read_sealed((seal, sealing), place.bytes.length(), &read, start, buf)
                    .map_err(|unopened| self.unopened(unopened, &place.bytes))
            }
        };
        self.noted(blob, read)
    }

    fn read_stored(&self, bytes: &StoredBytes, start: u32, buf: &mut [u8]) -> Result<()> {
        match bytes {
            StoredBytes::Memory(bytes) => copy_from(bytes, start, buf),
            StoredBytes::At(BlobLocation::Log { at, length }) => self.log_reader.read_content(*at, *length, start, buf),
            StoredBytes::At(BlobLocation::Pack { at, .. }) => self.packs.read(*at, start, buf),
        }
    }

    fn try_read_stored(&self, bytes: &StoredBytes, start: u32, buf: &mut [u8]) -> Result<bool> {
        match bytes {
            StoredBytes::Memory(bytes) => copy_from(bytes, start, buf).map(|()| true),
            StoredBytes::At(BlobLocation::Log { at, length }) => {
                self.log_reader.try_read_content(*at, *length, start, buf)
            }
            StoredBytes::At(BlobLocation::Pack { at, .. }) => self.packs.try_read(*at, start, buf),
        }
    }

    /// The error for sealed content, which names the file and the byte.
    fn unopened(&self, unopened: Unopened, bytes: &StoredBytes) -> Error {
        match unopened {
            Unopened::Read(error) => error,
            Unopened::NotAuthentic => self.error_at(bytes, "sealed content does not match its authentication tag"),
        }
    }

    fn error_at(&self, bytes: &StoredBytes, reason: &'static str) -> Error {
        match bytes {
            StoredBytes::Memory(_) => Error::Record { reason },
            StoredBytes::At(BlobLocation::Log { at, .. }) => self.log_reader.corrupt(*at, reason),
            StoredBytes::At(BlobLocation::Pack { at, .. }) => self.packs.corrupt(*at, reason),
        }
    }

    fn noted<T>(&self, blob: Sequence, read: Result<T>) -> Result<T> {
        if matches!(read, Err(Error::Corrupt { .. })) {
            self.catalog.pins.note_damage(blob);
        }
        read
    }
}

/// A blob that is being read, perhaps in several pieces.
pub(crate) struct HeldBlob {
    blob: Sequence,
    place: BlobPlace,
    /// Prepared with the first piece of a sealed blob.
    open: Option<OpenBlob>,
}

impl HeldBlob {
    pub fn new(blob: Sequence, place: BlobPlace) -> Self {
        Self { blob, place, open: None }
    }

    pub fn is(&self, blob: Sequence) -> bool {
        self.blob == blob
    }
}

/// Writes one chunk into its reserved space. Dropped without `finish`, it was never stored.
pub(crate) enum ContentWriter {
    Plain(Box<ChunkWriter>),
    Sealing(Box<SealingWriter>),
}

impl ContentWriter {
    /// The next bytes, in pieces of any size; in total not more than were reserved.
    pub fn write(&mut self, bytes: &[u8]) -> Result<()> {
        match self {
            Self::Plain(chunk) => chunk.write(bytes),
            Self::Sealing(writer) => writer.write(bytes),
        }
    }

    /// Exactly the reserved length must have been written. Durable once its pack is synced.
    pub fn finish(self) -> Result<(WrittenChunk, Option<Seal>)> {
        match self {
            Self::Plain(chunk) => Ok((chunk.finish()?, None)),
            Self::Sealing(writer) => writer.finish().map(|(chunk, seal)| (chunk, Some(seal))),
        }
    }
}

/// A chunk that was written, with `length` bytes of content.
pub(crate) fn placed(written: &WrittenChunk, length: u32, seal: Option<Seal>, sharing: Sharing) -> PlacedChunk {
    PlacedChunk {
        fingerprint: Fingerprint(written.fingerprint),
        sharing,
        length,
        sealed: seal.is_some(),
        place: ChunkPlace::New { prefix_hash: written.prefix_hash, at: written.at, seal },
        pin: Some(written.pin()),
    }
}

const UNLIKE_ITS_OBJECT: &str = "content is not sealed as its object says";

/// Bytes of an inline extent from `start`; an encrypted object has none.
pub(crate) fn read_inline(stored: &Bytes, sealing: &Sealing, start: u32, buf: &mut [u8]) -> Result<()> {
    if sealing.encryption.is_some() {
        return Err(Error::Record { reason: UNLIKE_ITS_OBJECT });
    }
    copy_from(stored, start, buf)
}

fn copy_from(bytes: &Bytes, start: u32, buf: &mut [u8]) -> Result<()> {
    let wanted = bytes.get(start as usize..).and_then(|rest| rest.get(..buf.len()));
    buf.copy_from_slice(wanted.ok_or(Error::Record { reason: "a manifest reaches beyond its blob" })?);
    Ok(())
}
