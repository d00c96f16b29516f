//! Verifies the authentication tags of sealed blobs and headers with the data keys that seal them, and counts what was
//! verified.
//!
//! A blob names its data key, but not the encryption context that may bind it: a blob that does not open without one
//! waits until the contexts of all versions and uploads were tried. A blob that nothing refers to any more is not
//! judged. Must not know how keys are kept, or where blobs are.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

use bytes::Bytes;
use parking_lot::Mutex;

use crate::AuthTagCounts;
use crate::collect::Collector;
use crate::manifests::{each_part, each_version};
use orcas_base::block::{BLOCK_SIZE, block_count};
use orcas_base::error::{Error, Result};
use orcas_index::Index;
use orcas_record::{self as record, BlobLocation, Encryption, Extent, Seal, SealedHeaders, Sequence};
use orcas_seal::{AUTH_TAG_LENGTH, AuthTag, BlobKey};
use orcas_store::{ContentKeys, key_of_blob, open_headers, upload_of};

/// Blobs at most that wait for a context.
const WAITING_MAX: usize = 1 << 20;
/// The data key that a blob names which a customer's key seals.
const CUSTOMERS: [u8; 16] = [0; 16];

pub(crate) struct AuthTagCheck<'a> {
    keys: Option<&'a dyn ContentKeys>,
    verified: AtomicU64,
    of_customers: AtomicU64,
    without_key: AtomicU64,
    waiting: Mutex<BTreeMap<Sequence, Waiting>>,
}

/// A blob that did not open.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub location: BlobLocation,
    pub seal: Seal,
}

/// Reads what is stored of a blob to the given function, in order; `false` if it is damaged or gone.
pub(crate) type ReadBlob<'a> = &'a mut dyn FnMut(Sequence, &Waiting, &mut dyn FnMut(&[u8])) -> Result<bool>;

impl<'a> AuthTagCheck<'a> {
    pub fn new(keys: Option<&'a dyn ContentKeys>) -> Self {
        let count = || AtomicU64::new(0);
        Self { keys, verified: count(), of_customers: count(), without_key: count(), waiting: Mutex::default() }
    }

    pub fn counts(&self) -> AuthTagCounts {
        let load = |count: &AtomicU64| count.load(Ordering::Relaxed);
        AuthTagCounts {
            verified: load(&self.verified),
            of_customers: load(&self.of_customers),
            without_key: load(&self.without_key),
        }
    }

    /// Begins with a blob of which so many bytes are stored; `None` if nothing here opens it, which is counted.
    pub fn opening(&self, seal: &Seal, stored: u32) -> Option<Opening> {
        if seal.data_key == CUSTOMERS {
            self.of_customers.fetch_add(1, Ordering::Relaxed);
            return None;
        }
        let key = self.keys.map(|keys| key_of_blob(keys, seal, &[]));
        match key {
            Some(Ok(key)) => Some(Opening::new(Some(key), stored)),
            // An algorithm that nobody has written.
            Some(Err(Error::Record { .. })) => Some(Opening::new(None, stored)),
            _ => {
                self.without_key.fetch_add(1, Ordering::Relaxed);
                None
            }
        }
    }

    /// Whether headers open that are encrypted like this, or nothing here could open them, which is counted.
    pub fn headers_may_open(&self, sealed: &SealedHeaders, encryption: Option<&Encryption>) -> bool {
        if sealed.seal.data_key == CUSTOMERS {
            self.of_customers.fetch_add(1, Ordering::Relaxed);
            return true;
        }
        let context = context_of(encryption).unwrap_or_default();
        match self.keys.map(|keys| key_of_blob(keys, &sealed.seal, &context)) {
            Some(Ok(key)) => {
                let authentic = open_headers(&key, sealed).is_ok();
                self.verified.fetch_add(u64::from(authentic), Ordering::Relaxed);
                authentic
            }
            // An algorithm that nobody has written.
            Some(Err(Error::Record { .. })) => false,
            _ => {
                self.without_key.fetch_add(1, Ordering::Relaxed);
                true
            }
        }
    }

    /// Takes the result of an opening that was given everything.
    pub fn judge(&self, blob: Sequence, waiting: Waiting, opening: Opening) {
        if opening.finish() {
            self.verified.fetch_add(1, Ordering::Relaxed);
            return;
        }
        let mut all = self.waiting.lock();
        if all.len() < WAITING_MAX {
            all.insert(blob, waiting);
        } else {
            self.without_key.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Tries the contexts of what refers to blobs that wait. Returns those that open with none.
    ///
    /// # Errors
    /// When the index cannot be read, and those of `read` and of a check that was cancelled.
    pub fn resolve(
        &self,
        index: &Index,
        collector: &Collector<'_>,
        read: ReadBlob<'_>,
    ) -> Result<BTreeMap<Sequence, Waiting>> {
        let mut waiting = std::mem::take(&mut *self.waiting.lock());
        let reader = index.read()?;
        let mut referred = BTreeMap::new();
        for (blob, it) in std::mem::take(&mut waiting) {
            if reader.blob_entry(blob)?.is_some_and(|entry| entry.refs > 0 && entry.location == it.location) {
                referred.insert(blob, it);
            }
        }
        drop(reader);
        if referred.is_empty() {
            return Ok(referred);
        }
        let go_on = || collector.go_on();
        let mut opened = |context: &[u8], extents: &mut dyn Iterator<Item = &Extent>| {
            let mut blobs = Vec::new();
            blobs_of(index, extents, &mut blobs)?;
            for blob in blobs {
                if let Some(it) = referred.get(&blob)
                    && self.opens(blob, it, context, read)?
                {
                    referred.remove(&blob);
                }
            }
            Ok(())
        };
        each_version(index, &go_on, &mut |_, version| {
            let Ok(version) = version else { return Ok(()) };
            match context_of(version.attributes.encryption.as_ref()) {
                None => Ok(()),
                Some(context) => {
                    opened(&context, &mut version.manifest.iter().chain(version.attributes.annotations.extents()))
                }
            }
        })?;
        each_part(index, &go_on, &mut |found, part| {
            let upload = index.read()?.upload(found.upload)?;
            let upload = upload.and_then(|stored| upload_of(stored.kind, &stored.record).ok());
            match (upload.and_then(|upload| context_of(upload.attributes.encryption.as_ref())), part) {
                (Some(context), Ok(part)) => opened(&context, &mut part.manifest.iter()),
                _ => Ok(()),
            }
        })?;
        Ok(referred)
    }

    fn opens(&self, blob: Sequence, waiting: &Waiting, context: &[u8], read: ReadBlob<'_>) -> Result<bool> {
        let Some(Ok(key)) = self.keys.map(|keys| key_of_blob(keys, &waiting.seal, context)) else { return Ok(false) };
        let mut opening = Opening::new(Some(key), waiting.location.length());
        let mut stored = Vec::new();
        if !read(blob, waiting, &mut |piece| stored.extend_from_slice(piece))? {
            return Ok(false);
        }
        opening.take_tags(&stored);
        opening.update(&stored);
        let authentic = opening.finish();
        self.verified.fetch_add(u64::from(authentic), Ordering::Relaxed);
        Ok(authentic)
    }
}

/// The context that binds content; `None` if there is none.
fn context_of(encryption: Option<&Encryption>) -> Option<Bytes> {
    match encryption {
        Some(Encryption::Named(named)) if !named.context.is_empty() => Some(Bytes::copy_from_slice(&named.context)),
        _ => None,
    }
}

/// Appends the blobs of a manifest, those of its segments included.
fn blobs_of(index: &Index, extents: &mut dyn Iterator<Item = &Extent>, into: &mut Vec<Sequence>) -> Result<()> {
    for extent in extents {
        match extent {
            Extent::Inline(_) => {}
            Extent::Blob { blob, .. } => into.push(*blob),
            Extent::Segment { segment, .. } => {
                let payload = index.read()?.segment(*segment)?;
                // One that cannot be read is a finding of its own.
                let Some(Ok(extents)) = payload.map(|payload| record::decode_extents(&payload)) else { continue };
                blobs_of(index, &mut extents.iter(), into)?;
            }
        }
    }
    Ok(())
}

/// A blob whose blocks are opened as they are read.
pub(crate) struct Opening {
    /// `None` where nothing can open it.
    key: Option<BlobKey>,
    /// Bytes of content.
    length: u32,
    /// Blobs of the data key that were not seen yet.
    left: u32,
    tags: Vec<AuthTag>,
    block: Vec<u8>,
    number: usize,
    authentic: bool,
}

impl Opening {
    fn new(key: Option<BlobKey>, stored: u32) -> Self {
        let length = Seal::content_length(stored);
        let authentic = key.is_some() && length.is_some();
        let length = length.unwrap_or_default();
        Self { key, length, left: length, tags: Vec::new(), block: Vec::new(), number: 0, authentic }
    }

    /// Bytes with which what is stored ends: the tags and the seal.
    pub fn end_length(&self) -> usize {
        block_count(self.length as usize).max(1) * AUTH_TAG_LENGTH + Seal::LENGTH
    }

    /// The tags, from the end of what is stored. To be called first.
    pub fn take_tags(&mut self, stored: &[u8]) {
        let end = stored.len().checked_sub(self.end_length()).and_then(|from| stored.get(from..));
        let tags = end.and_then(|end| end.get(..end.len() - Seal::LENGTH)).unwrap_or_default();
        self.tags = tags.as_chunks().0.to_vec();
    }

    /// The next bytes of what is stored.
    pub fn update(&mut self, stored: &[u8]) {
        let mut content = &stored[..stored.len().min(self.left as usize)];
        while !content.is_empty() {
            let (now, later) = content.split_at(content.len().min(BLOCK_SIZE - self.block.len()));
            self.block.extend_from_slice(now);
            self.left -= now.len() as u32;
            content = later;
            if self.block.len() == BLOCK_SIZE || self.left == 0 {
                self.open();
            }
        }
    }

    fn open(&mut self) {
        let (Some(key), Some(tag)) = (&self.key, self.tags.get(self.number)) else {
            self.authentic = false;
            self.block.clear();
            return;
        };
        let opened = key.open_in_place(self.number as u64, u64::from(self.length), &mut self.block, &[*tag]);
        self.authentic &= opened.is_ok();
        self.number += 1;
        self.block.clear();
    }

    fn finish(mut self) -> bool {
        if self.length == 0 {
            self.open();
        }
        self.authentic && self.left == 0
    }
}
