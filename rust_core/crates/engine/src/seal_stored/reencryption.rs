//! Content that is stored again, sealed: blob by blob, so that extents keep their places in their blobs and whatever
//! shared a blob shares the sealed one.

use std::collections::HashMap;
use std::sync::Arc;

use bytes::Bytes;

use super::super::handle::Handle;
use super::report::SealProgress;
use crate::content::stored::{HeldBlob, placed};
use orcas_base::error::{Error, Result};
use orcas_base::sync::atomic::Ordering;
use orcas_catalog::{PinnedObject, pin_known};
use orcas_chunks::WrittenChunk;
use orcas_decide::{
    Body, ChunkPlace, PlacedChunk, SealKey, SealPart, SealStored, SealUpload, SealedContent, SealedExtent, Sharing,
};
use orcas_record::{
    Bucket, BucketId, Encryption, Extent, Fingerprint, HASHED_PREFIX, INLINE_MAX, Part, SEALED_MAX, Seal, Sequence,
    Upload, short_hash,
};
use orcas_seal::DataKey;
use orcas_store::Sealing;

/// Bytes up to which a blob is a content of the log, as of copies.
const SMALL_MAX: u32 = 64 * 1024;
/// Extents of one version or upload. Its blobs are recorded in one batch, which stays a few tens of MiB long.
const EXTENTS_MAX: usize = 1 << 18;
/// Bytes of sealed contents that a batch holds in memory. Beyond, short content goes to packs as well.
const CONTENTS_MAX: usize = 8 << 20;
/// A batch ends when it has stored so many blobs, or so many bytes in packs.
const BLOBS_ENOUGH: usize = 4_096;
const BYTES_ENOUGH: u64 = 64 << 20;
/// Blobs whose fingerprints are remembered, so that one that is shared is read once.
const KNOWN_MAX: usize = 1 << 16;

/// Why a version or an upload was not stored again.
pub(super) enum NotStored {
    TooLong,
    Failed(Error),
}

impl From<Error> for NotStored {
    fn from(error: Error) -> Self {
        Self::Failed(error)
    }
}

/// A blob, or a piece of one, once it is sealed.
#[derive(Clone, Copy)]
struct Piece {
    fingerprint: Fingerprint,
    prefix_hash: u64,
    length: u32,
}

/// A layer whose content is stored again, and what was stored since the last batch.
pub(super) struct Reencryption<'a> {
    engine: &'a Handle,
    progress: &'a SealProgress,
    layer: BucketId,
    key: Arc<DataKey>,
    scope: [u8; 32],
    known: HashMap<Sequence, Vec<Piece>>,
    blobs: Vec<Body>,
    /// The places of blobs of the batch, by the unsealed blob and by the fingerprint.
    by_source: HashMap<Sequence, Vec<(usize, u32)>>,
    by_fingerprint: HashMap<Fingerprint, usize>,
    written: Vec<WrittenChunk>,
    keys: Vec<SealKey>,
    uploads: Vec<SealUpload>,
    contents_bytes: usize,
    written_bytes: u64,
}

impl<'a> Reencryption<'a> {
    /// `bucket` has the layer, or is it.
    ///
    /// # Errors
    /// [`Error::NoKeyring`], or why the data key cannot be used.
    pub fn of(engine: &'a Handle, progress: &'a SealProgress, bucket: &Bucket, layer: BucketId) -> Result<Self> {
        let sealing = Sealing::from(Some(Encryption::Managed));
        let key = engine.shared.content.keys.data_key(bucket, &sealing)?;
        let scope = engine.shared.content.sealed_scope(&key, &sealing)?;
        Ok(Self {
            engine,
            progress,
            layer,
            key,
            scope,
            known: HashMap::new(),
            blobs: Vec::new(),
            by_source: HashMap::new(),
            by_fingerprint: HashMap::new(),
            written: Vec::new(),
            keys: Vec::new(),
            uploads: Vec::new(),
            contents_bytes: 0,
            written_bytes: 0,
        })
    }

    /// Stores the content of a version and the texts of its annotations again, and seals its headers. It is pinned, so
    /// its blobs stay.
    ///
    /// # Errors
    /// `Failed` with `StorageFull` or `UnderReserve` for a disk without room, with `Closed` when the run was cancelled.
    pub fn version(&mut self, found: &PinnedObject) -> Result<SealedContent, NotStored> {
        let version = &found.object.version;
        let manifest = self.resolved(&version.manifest)?;
        let mut extents = Vec::with_capacity(manifest.len());
        for extent in &manifest {
            self.extent(extent, &mut extents)?;
        }
        let annotations = version.attributes.annotations.clone();
        let mut texts = Vec::new();
        for text in annotations.extents() {
            let mut sealed = Vec::with_capacity(1);
            self.extent(text, &mut sealed)?;
            let [SealedExtent { blob, start: 0, .. }] = sealed[..] else {
                return Err(Error::Record { reason: "the text of an annotation is not one blob" }.into());
            };
            texts.push(blob);
        }
        let headers = self.engine.shared.content.seal_headers(&self.key, version.headers.clone())?;
        Ok(SealedContent { extents, annotations, texts, headers })
    }

    /// Stores the parts of an upload again, and seals its headers. The caller has pinned what the parts refer to.
    ///
    /// # Errors
    /// As of [`Self::version`].
    pub fn upload(&mut self, upload: Arc<Upload>, parts: Vec<Arc<Part>>) -> Result<SealUpload, NotStored> {
        let mut manifests = Vec::with_capacity(parts.len());
        let mut count = 0;
        for part in &parts {
            let manifest = self.resolved(&part.manifest)?;
            count += manifest.len();
            if count > EXTENTS_MAX {
                return Err(NotStored::TooLong);
            }
            manifests.push(manifest);
        }
        let mut sealed = Vec::with_capacity(parts.len());
        for (part, manifest) in parts.into_iter().zip(manifests) {
            let mut extents = Vec::with_capacity(manifest.len());
            for extent in &manifest {
                self.extent(extent, &mut extents)?;
            }
            sealed.push(SealPart { part, extents });
        }
        let headers = self.engine.shared.content.seal_headers(&self.key, upload.headers.clone())?;
        Ok(SealUpload { upload, headers, parts: sealed })
    }

    /// The versions of a key are complete.
    pub fn push(&mut self, key: SealKey) {
        self.keys.push(key);
    }

    pub fn push_upload(&mut self, upload: SealUpload) {
        self.uploads.push(upload);
    }

    /// How many keys and uploads wait to be committed.
    pub fn count(&self) -> usize {
        self.keys.len() + self.uploads.len()
    }

    /// Whether what was stored should be committed now.
    pub fn is_full(&self, most: usize) -> bool {
        self.count() >= most
            || self.blobs.len() >= BLOBS_ENOUGH
            || self.contents_bytes >= CONTENTS_MAX / 2
            || self.written_bytes >= BYTES_ENOUGH
    }

    /// The content that was stored so far, durable, to be decided. `None` if no key or upload is complete.
    ///
    /// # Errors
    /// When it cannot be made durable. It is dropped then.
    pub fn take(&mut self) -> Result<Option<(SealStored, Vec<Body>)>> {
        self.by_source.clear();
        self.by_fingerprint.clear();
        (self.contents_bytes, self.written_bytes) = (0, 0);
        let (blobs, keys) = (std::mem::take(&mut self.blobs), std::mem::take(&mut self.keys));
        let (uploads, written) = (std::mem::take(&mut self.uploads), std::mem::take(&mut self.written));
        if keys.is_empty() && uploads.is_empty() {
            return Ok(None);
        }
        self.engine.shared.packs.sync(&written)?;
        Ok(Some((SealStored { layer: self.layer, keys, uploads }, blobs)))
    }

    /// A manifest without segments.
    fn resolved(&self, manifest: &[Extent]) -> Result<Vec<Extent>, NotStored> {
        let mut extents = Vec::with_capacity(manifest.len());
        for extent in manifest {
            match extent {
                Extent::Segment { segment, .. } => {
                    extents.extend_from_slice(&self.engine.shared.catalog.segment(*segment)?);
                }
                Extent::Inline(_) | Extent::Blob { .. } => extents.push(extent.clone()),
            }
            if extents.len() > EXTENTS_MAX {
                return Err(NotStored::TooLong);
            }
        }
        Ok(extents)
    }

    fn extent(&mut self, extent: &Extent, sealed: &mut Vec<SealedExtent>) -> Result<()> {
        if self.progress.is_cancelled() {
            return Err(Error::Closed);
        }
        match extent {
            Extent::Segment { .. } => Err(Error::Record { reason: "a segment names a segment" }),
            Extent::Inline(bytes) => {
                let blob = self.store(None, bytes)?;
                sealed.push(SealedExtent { blob, start: 0, length: bytes.len() as u32 });
                Ok(())
            }
            Extent::Blob { blob, start, length } => {
                let (from, end) = (u64::from(*start), u64::from(*start) + u64::from(*length));
                let mut at = 0;
                for (blob, whole) in self.pieces(*blob)? {
                    let (begin, until) = (at, at + u64::from(whole));
                    at = until;
                    let (first, last) = (from.max(begin), end.min(until));
                    if first < last {
                        let (start, length) = ((first - begin) as u32, (last - first) as u32);
                        sealed.push(SealedExtent { blob, start, length });
                    }
                }
                Ok(())
            }
        }
    }

    /// The places in the batch of an unsealed blob, in pieces: the longest chunk is longer than one that is sealed.
    fn pieces(&mut self, source: Sequence) -> Result<Vec<(usize, u32)>> {
        if let Some(there) = self.by_source.get(&source) {
            return Ok(there.clone());
        }
        let pieces = match self.remembered(source)? {
            Some(pieces) => pieces,
            None => self.read_and_store(source)?,
        };
        self.by_source.insert(source, pieces.clone());
        Ok(pieces)
    }

    /// The blob was sealed for an earlier batch, and what it became is still there.
    fn remembered(&mut self, source: Sequence) -> Result<Option<Vec<(usize, u32)>>> {
        let Some(pieces) = self.known.get(&source).cloned() else { return Ok(None) };
        let mut found = Vec::with_capacity(pieces.len());
        for piece in pieces {
            let Some(at) = self.find(piece)? else { return Ok(None) };
            found.push((at, piece.length));
        }
        Ok(Some(found))
    }

    fn read_and_store(&mut self, source: Sequence) -> Result<Vec<(usize, u32)>> {
        let content = &self.engine.shared.content;
        let place = content.catalog.place(source)?;
        content.check_seal(&place, None)?;
        let length = place.bytes.length();
        let mut bytes = content.buffers.take(length as usize);
        bytes.resize(length as usize, 0);
        content.read_blob(&mut HeldBlob::new(source, place), &Sealing::default(), 0, &mut bytes)?;
        let (mut stored, mut known) = (Vec::with_capacity(1), Vec::with_capacity(1));
        for bytes in bytes.chunks(SEALED_MAX as usize) {
            let piece = self.piece(bytes);
            stored.push((self.store(Some(piece), bytes)?, piece.length));
            known.push(piece);
        }
        if self.known.len() >= KNOWN_MAX {
            self.known.clear();
        }
        self.known.insert(source, known);
        Ok(stored)
    }

    fn piece(&self, bytes: &[u8]) -> Piece {
        let hash = |bytes: &[u8]| *blake3::keyed_hash(&self.scope, bytes).as_bytes();
        let fingerprint = hash(bytes);
        let prefix = if bytes.len() <= HASHED_PREFIX { fingerprint } else { hash(&bytes[..HASHED_PREFIX]) };
        Piece { fingerprint: Fingerprint(fingerprint), prefix_hash: short_hash(&prefix), length: bytes.len() as u32 }
    }

    /// A sealed blob that the batch or the store has already, pinned for the batch.
    fn find(&mut self, piece: Piece) -> Result<Option<usize>> {
        let Piece { fingerprint, prefix_hash, length } = piece;
        if let Some(at) = self.by_fingerprint.get(&fingerprint) {
            return Ok(Some(*at));
        }
        let stored = Seal::stored_length(length);
        let Some((blob, pin)) = pin_known(&self.engine.shared.catalog, fingerprint, stored, prefix_hash)? else {
            return Ok(None);
        };
        let (place, sharing) = (ChunkPlace::Known { blob }, Sharing::Sought);
        let chunk = PlacedChunk { fingerprint, sharing, length, sealed: true, place, pin: Some(pin) };
        Ok(Some(self.add(fingerprint, Body::Chunks(vec![chunk]))))
    }

    fn add(&mut self, fingerprint: Fingerprint, body: Body) -> usize {
        self.blobs.push(body);
        self.by_fingerprint.insert(fingerprint, self.blobs.len() - 1);
        self.blobs.len() - 1
    }

    /// Stores bytes sealed, if they are not there. `piece` is known for what was a blob; inline content is too short to
    /// look for, and not shared.
    fn store(&mut self, piece: Option<Piece>, bytes: &[u8]) -> Result<usize> {
        if let Some(piece) = piece
            && bytes.len() > INLINE_MAX
            && let Some(at) = self.find(piece)?
        {
            return Ok(at);
        }
        let content = &self.engine.shared.content;
        content.faults.check_writable()?;
        content.space.check()?;
        let Piece { fingerprint, length, .. } = piece.unwrap_or_else(|| self.piece(bytes));
        let sharing = if bytes.len() > INLINE_MAX { Sharing::Sought } else { Sharing::Off };
        self.progress.stored_bytes.fetch_add(u64::from(length), Ordering::Relaxed);
        let stored = Seal::stored_length(length) as usize;
        if length <= SMALL_MAX && self.contents_bytes + stored <= CONTENTS_MAX {
            let (bytes, seal) = content.seal_whole(&self.key, bytes)?;
            self.contents_bytes += bytes.len();
            let body = Body::Content { fingerprint, sharing, bytes: Bytes::from(bytes), seal: Some(seal) };
            return Ok(self.add(fingerprint, body));
        }
        let mut writer = content.content_writer(length, &self.scope, Some(&self.key))?;
        writer.write(bytes)?;
        let (written, seal) = writer.finish()?;
        self.written_bytes += u64::from(length);
        if seal.is_none() {
            return Err(Error::Record { reason: "a chunk was to be sealed" });
        }
        let chunk = placed(&written, length, seal, sharing);
        self.written.push(written);
        Ok(self.add(fingerprint, Body::Chunks(vec![chunk])))
    }
}
