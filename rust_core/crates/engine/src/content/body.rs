//! Large bodies on their way in: they are cut into chunks that are written while they arrive, unless the store has them
//! already. Blocking; used on worker threads. A body that is dropped before it is finished was never stored.
//!
//! A chunk that the store may have is kept in memory until it is complete and can be looked up; a chunk with an unknown
//! prefix hash is written as it arrives. If it was written and turns out to be known, it stays dead space that no record
//! names.

use std::collections::HashMap;
use std::sync::Arc;

use super::Content;
use super::held::HeldMemory;
use super::stored::{ContentWriter, placed};
use orcas_base::buffers::Buffer;
use orcas_base::error::{Error, Result};
use orcas_catalog::pin_known;
use orcas_chunks::WrittenChunk;
use orcas_chunks::chunker::Chunker;
use orcas_decide::{Body, ChunkPlace, PlacedChunk, Sharing};
use orcas_record::{Bucket, Chunking, Fingerprint, HASHED_PREFIX, RefLevel, SEALED_MAX, Seal, short_hash};
use orcas_seal::DataKey;
use orcas_store::Sealing;

/// The longest chunk that content-defined cuts make is four times as long as the average.
const LONGEST_OF_AVERAGE: u32 = 4;

impl Content {
    /// A writer for a body of `length` bytes, which writes while the body arrives. May wait for the data key of its
    /// owner if it is sealed.
    ///
    /// # Errors
    /// [`Error::NoKeyring`], or why the data key cannot be used.
    pub fn body_writer(self: &Arc<Self>, bucket: &Bucket, sealing: &Sealing, length: u64) -> Result<BodyWriter> {
        let (scope, key) = match sealing.encryption {
            None => (self.scope(&bucket.owner), None),
            Some(_) => {
                let key = self.keys.data_key(bucket, sealing)?;
                (self.sealed_scope(&key, sealing)?, Some(key))
            }
        };
        let level = if sealing.is_private() { RefLevel::Off } else { self.ref_level(bucket) };
        Ok(BodyWriter::new(Arc::clone(self), bucket, length, Keyed { scope, key, level }))
    }
}

/// Sees all bytes of a body, once and in their order.
pub trait BodyObserver {
    /// The next bytes.
    fn bytes(&mut self, bytes: &[u8]);
    /// The bytes since the end of the last chunk are a chunk.
    fn chunk_ended(&mut self, fingerprint: &Fingerprint);
    /// The next bytes, all of one chunk.
    fn chunk(&mut self, fingerprint: &Fingerprint, bytes: &[u8]);
}

/// The observer that does nothing.
impl BodyObserver for () {
    fn bytes(&mut self, _: &[u8]) {}
    fn chunk_ended(&mut self, _: &Fingerprint) {}
    fn chunk(&mut self, _: &Fingerprint, _: &[u8]) {}
}

/// Cuts a body of known length into chunks.
pub struct BodyWriter {
    content: Arc<Content>,
    /// The key of fingerprints.
    scope: [u8; 32],
    /// The key under which chunks are sealed, if they are.
    key: Option<Arc<DataKey>>,
    level: RefLevel,
    cuts: Cuts,
    length: u64,
    /// Bytes still to come.
    remaining: u64,
    open: Option<OpenChunk>,
    chunks: Vec<PlacedChunk>,
    written: Vec<WrittenChunk>,
    /// The indices in `chunks` of chunks of this body that can be shared, by prefix hash: nobody else can find them
    /// yet.
    own: HashMap<u64, Vec<usize>>,
}

/// The keys of the chunks of a body, and whether they are shared.
struct Keyed {
    scope: [u8; 32],
    key: Option<Arc<DataKey>>,
    level: RefLevel,
}

/// The rule by which chunks end.
enum Cuts {
    /// Every so many bytes.
    Fixed(u64),
    Content(Box<Chunker>),
}

/// The chunk that is arriving.
enum OpenChunk {
    Held(Box<HeldChunk>),
    /// Written as it comes; `left` bytes are missing.
    Through {
        writer: ContentWriter,
        left: u64,
    },
}

/// A chunk that waits in memory until it is known whether the store has it.
struct HeldChunk {
    bytes: Buffer,
    hasher: blake3::Hasher,
    /// Bytes of the whole chunk; the most it may have with content-defined cuts.
    length: u64,
    /// Once it is known.
    prefix_hash: Option<u64>,
    room: HeldMemory,
}

impl HeldChunk {
    fn new(scope: &[u8; 32], length: u64, room: HeldMemory, bytes: Buffer) -> Self {
        Self { bytes, hasher: blake3::Hasher::new_keyed(scope), length, prefix_hash: None, room }
    }

    fn push(&mut self, bytes: &[u8]) {
        self.hasher.update(bytes);
        self.bytes.extend_from_slice(bytes);
    }
}

impl BodyWriter {
    fn new(content: Arc<Content>, bucket: &Bucket, length: u64, keyed: Keyed) -> Self {
        let Keyed { scope, key, level } = keyed;
        let mut chunk_size = bucket.settings.chunk_size.unwrap_or(content.chunk_size);
        if key.is_some() {
            chunk_size = chunk_size.min(SEALED_MAX);
        }
        let cuts = match bucket.settings.chunking {
            Some(Chunking::ContentDefined) => Cuts::Content(Box::new(Chunker::new(chunk_size / LONGEST_OF_AVERAGE))),
            Some(Chunking::Fixed) | None => Cuts::Fixed(u64::from(chunk_size)),
        };
        Self {
            scope,
            key,
            level,
            content,
            cuts,
            length,
            remaining: length,
            open: None,
            chunks: Vec::new(),
            written: Vec::new(),
            own: HashMap::new(),
        }
    }

    /// Writes the next bytes. The observer has seen all of them when the last one is written; before, those of a chunk
    /// that is held have still to come.
    ///
    /// # Errors
    /// [`Error::StorageFull`] when the disk has no room, [`Error::Io`], or [`Error::Record`] for more bytes than were
    /// announced.
    pub fn write(&mut self, mut bytes: &[u8], observer: &mut dyn BodyObserver) -> Result<()> {
        if bytes.len() as u64 > self.remaining {
            return Err(Error::Record { reason: "a body is longer than announced" });
        }
        while !bytes.is_empty() {
            let open = match self.open.take() {
                Some(open) => open,
                None => self.next_chunk()?,
            };
            let taken = match open {
                OpenChunk::Held(held) => self.hold(held, bytes, observer)?,
                OpenChunk::Through { writer, left } => self.write_through(writer, left, bytes, observer)?,
            };
            self.remaining -= taken as u64;
            bytes = &bytes[taken..];
        }
        if self.remaining == 0
            && let Some(OpenChunk::Held(held)) = self.open.take()
        {
            // Cut by the end of the body, not by its content.
            self.close_held(held, observer)?;
        }
        Ok(())
    }

    fn next_chunk(&self) -> Result<OpenChunk> {
        self.content.faults.check_writable()?;
        self.content.space.check()?;
        let held = |length: u64, room| {
            let bytes = self.content.buffers.take(HASHED_PREFIX.min(length as usize));
            Ok(OpenChunk::Held(Box::new(HeldChunk::new(&self.scope, length, room, bytes))))
        };
        match &self.cuts {
            Cuts::Content(chunker) => {
                let length = self.remaining.min(chunker.longest() as u64);
                // Its place can only be taken once its length is known, so it waits whoever else does.
                held(length, self.content.held.take_anyway(length))
            }
            Cuts::Fixed(size) => {
                let length = self.remaining.min(*size);
                let room = match self.level {
                    RefLevel::Off => None,
                    RefLevel::Full | RefLevel::Fast => self.content.held.take(length.min(HASHED_PREFIX as u64)),
                };
                match room {
                    Some(room) => held(length, room),
                    None => self.through(length),
                }
            }
        }
    }

    fn through(&self, length: u64) -> Result<OpenChunk> {
        let writer = self.content.content_writer(length as u32, &self.scope, self.key.as_deref())?;
        Ok(OpenChunk::Through { writer, left: length })
    }

    /// Returns how many of the bytes were taken.
    fn write_through(
        &mut self,
        mut writer: ContentWriter,
        left: u64,
        bytes: &[u8],
        observer: &mut dyn BodyObserver,
    ) -> Result<usize> {
        let now = &bytes[..bytes.len().min(left as usize)];
        observer.bytes(now);
        writer.write(now)?;
        let left = left - now.len() as u64;
        if left > 0 {
            self.open = Some(OpenChunk::Through { writer, left });
        } else {
            let (written, seal) = writer.finish()?;
            let (fingerprint, prefix_hash) = (Fingerprint(written.fingerprint), written.prefix_hash);
            let length = self.content_length(&written)?;
            observer.chunk_ended(&fingerprint);
            let sharing = self.sharing(prefix_hash);
            match self.known(fingerprint, prefix_hash, length, sharing)? {
                Some(known) => self.chunks.push(known),
                None => self.place(written, length, seal, sharing),
            }
        }
        Ok(now.len())
    }

    /// Returns how many of the bytes were taken.
    fn hold(&mut self, mut held: Box<HeldChunk>, bytes: &[u8], observer: &mut dyn BodyObserver) -> Result<usize> {
        let has = held.bytes.len();
        let until_prefix = HASHED_PREFIX.saturating_sub(has);
        let (limit, ends) = match &mut self.cuts {
            Cuts::Fixed(_) => {
                let left = held.length as usize - has;
                // Its prefix hash decides whether it is held any longer.
                let limit = if until_prefix > 0 && until_prefix < left { until_prefix } else { left };
                (limit.min(bytes.len()), left <= bytes.len() && limit == left)
            }
            Cuts::Content(chunker) => match chunker.next(bytes) {
                Some(end) => (end, true),
                None => (bytes.len(), false),
            },
        };
        let now = &bytes[..limit];
        let (first, later) = now.split_at(until_prefix.min(limit));
        held.push(first);
        let prefix_is_there = held.prefix_hash.is_none() && held.bytes.len() == HASHED_PREFIX;
        if prefix_is_there {
            held.prefix_hash = Some(short_hash(held.hasher.finalize().as_bytes()));
        }
        held.push(later);
        if ends {
            self.close_held(held, observer)?;
        } else {
            self.open = Some(if prefix_is_there { self.hold_on(held, observer)? } else { OpenChunk::Held(held) });
        }
        Ok(limit)
    }

    /// Goes on with a chunk of fixed length whose prefix hash has just become known.
    fn hold_on(&self, mut held: Box<HeldChunk>, observer: &mut dyn BodyObserver) -> Result<OpenChunk> {
        let maybe_known = held.prefix_hash.is_some_and(|prefix_hash| {
            self.content.catalog.prefix_hashes.maybe_known(prefix_hash) || self.own.contains_key(&prefix_hash)
        });
        let fixed = matches!(self.cuts, Cuts::Fixed(_));
        if !fixed || (maybe_known && held.room.grow(held.length)) {
            let mut whole = self.content.buffers.take(held.length as usize);
            whole.extend_from_slice(&held.bytes);
            held.bytes = whole;
            return Ok(OpenChunk::Held(held));
        }
        let OpenChunk::Through { mut writer, left } = self.through(held.length)? else {
            return Err(Error::Record { reason: "a chunk that is written is held" });
        };
        observer.bytes(&held.bytes);
        writer.write(&held.bytes)?;
        Ok(OpenChunk::Through { writer, left: left - held.bytes.len() as u64 })
    }

    /// All bytes of a held chunk are there.
    fn close_held(&mut self, held: Box<HeldChunk>, observer: &mut dyn BodyObserver) -> Result<()> {
        let fingerprint = Fingerprint(*held.hasher.finalize().as_bytes());
        observer.chunk(&fingerprint, &held.bytes);
        let prefix_hash = held.prefix_hash.unwrap_or_else(|| short_hash(&fingerprint.0));
        let length = held.bytes.len() as u32;
        let sharing = self.sharing(prefix_hash);
        if let Some(known) = self.known(fingerprint, prefix_hash, length, sharing)? {
            self.chunks.push(known);
            return Ok(());
        }
        // The writer hashes the bytes again, so that what a frame says of its content was computed from what went into
        // it. Only chunks that looked known and are not pay for that, and those with content-defined cuts.
        let mut writer = self.content.content_writer(length, &self.scope, self.key.as_deref())?;
        writer.write(&held.bytes)?;
        let (written, seal) = writer.finish()?;
        self.place(written, length, seal, sharing);
        Ok(())
    }

    fn sharing(&self, prefix_hash: u64) -> Sharing {
        match self.content.catalog.prefix_hashes.sharing(self.level, prefix_hash) {
            Sharing::Offered if self.own.contains_key(&prefix_hash) => Sharing::Sought,
            sharing => sharing,
        }
    }

    /// A chunk that this body or the store has already.
    fn known(
        &self,
        fingerprint: Fingerprint,
        prefix_hash: u64,
        length: u32,
        sharing: Sharing,
    ) -> Result<Option<PlacedChunk>> {
        if sharing != Sharing::Sought {
            return Ok(None);
        }
        let own = self.own.get(&prefix_hash).into_iter().flatten().map(|at| &self.chunks[*at]);
        if let Some(earlier) = own.into_iter().find(|chunk| chunk.fingerprint == fingerprint) {
            // Sought, so that the decision makes one blob of both places.
            return Ok(Some(PlacedChunk { sharing: Sharing::Sought, ..earlier.clone() }));
        }
        let sealed = self.key.is_some();
        let stored = if sealed { Seal::stored_length(length) } else { length };
        let found = pin_known(&self.content.catalog, fingerprint, stored, prefix_hash)?;
        Ok(found.map(|(blob, pin)| {
            let place = ChunkPlace::Known { blob };
            PlacedChunk { fingerprint, sharing, length, sealed, place, pin: Some(pin) }
        }))
    }

    /// Bytes of content of a chunk that was written.
    fn content_length(&self, written: &WrittenChunk) -> Result<u32> {
        match self.key {
            None => Ok(written.length),
            Some(_) => {
                Seal::content_length(written.length).ok_or(Error::Record { reason: "no sealed content is so long" })
            }
        }
    }

    fn place(&mut self, written: WrittenChunk, length: u32, seal: Option<Seal>, sharing: Sharing) {
        if sharing != Sharing::Off {
            self.own.entry(written.prefix_hash).or_default().push(self.chunks.len());
        }
        self.chunks.push(placed(&written, length, seal, sharing));
        self.written.push(written);
    }

    /// Makes every chunk that was written durable.
    ///
    /// # Errors
    /// As `write`; also for fewer bytes than were announced. Nothing of the body counts as stored then.
    pub fn finish(self) -> Result<Body> {
        let placed: u64 = self.chunks.iter().map(|chunk| u64::from(chunk.length)).sum();
        if placed != self.length {
            return Err(Error::Record { reason: "a body is shorter than announced" });
        }
        self.content.packs.sync(&self.written)?;
        Ok(Body::Chunks(self.chunks))
    }
}
