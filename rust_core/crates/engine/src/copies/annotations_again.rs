//! Annotations that a copy takes along when its bytes are stored again: the texts are read, and stored as the copy is
//! encrypted. Blocking.
//!
//! Invariant: a text is one blob, or inline. Neither memory nor a batch holds more than a few MiB of them.

use bytes::Bytes;

use crate::content::Content;
use crate::content::stored::placed;
use crate::handle::Handle;
use orcas_base::error::{Error, Result};
use orcas_catalog::PinnedObject;
use orcas_checksum::{ChecksumAlgorithm, Hasher, Md5Hasher};
use orcas_chunks::WrittenChunk;
use orcas_decide::{Body, Failure, Refusal, StoredAnnotations, StoredText};
use orcas_record::{Bucket, Extent, Version};
use orcas_store::Sealing;

/// Bytes of texts that a copy brings into the log. What is beyond goes to packs.
const LOG_BYTES_MAX: usize = 8 << 20;
/// Bytes of the longest text in the record of its version, which each change of an annotation writes anew.
const RECORD_TEXT_MAX: usize = 64;

/// Bytes of the texts of all annotations.
pub(crate) fn texts_size(version: &Version) -> u64 {
    version.attributes.annotations.extents().map(Extent::length).sum()
}

impl Handle {
    /// Stores the texts of the annotations of `source` again. What goes to packs is durable.
    ///
    /// # Errors
    /// [`Refusal::AnnotationsNotCopied`] if the copy is encrypted with a customer's key: nobody could read them. As of
    /// reads and writes otherwise.
    pub(crate) fn annotations_again(
        &self,
        (bucket, sealing): (&Bucket, &Sealing),
        source: &PinnedObject,
    ) -> Result<StoredAnnotations, Failure> {
        let found = source.object.version.attributes.annotations.clone();
        if found.is_empty() {
            return Ok(StoredAnnotations::default());
        }
        if sealing.is_private() {
            return Err(Refusal::AnnotationsNotCopied.into());
        }
        let mut texts = Vec::with_capacity(found.as_slice().len());
        let mut reencryption =
            Reencryption { content: self.content(), bucket, sealing, log_bytes: 0, written: Vec::new() };
        for annotation in found.as_slice() {
            let text = source.annotation(&annotation.name).ok_or(Error::Record { reason: "an annotation is gone" })?;
            let bytes = self.text(&text)?;
            let algorithm = annotation.checksum.map_or(ChecksumAlgorithm::DEFAULT, |checksum| checksum.algorithm());
            let mut hasher = Hasher::new(algorithm);
            hasher.update(&bytes);
            let md5 = self.keys().hidden_md5(sealing.encryption.as_ref())?.unwrap_or_else(|| Md5Hasher::digest(&bytes));
            texts.push(StoredText { md5, checksum: Some(hasher.finish()), body: reencryption.store(bytes)? });
        }
        self.shared.packs.sync(&reencryption.written)?;
        Ok(StoredAnnotations { found, texts })
    }

    fn text(&self, text: &PinnedObject) -> Result<Bytes> {
        let length = text.object.version.size;
        let (mut bytes, mut at) = (vec![0; length as usize], 0);
        let mut reader = self.content().reader(text, 0, length.saturating_sub(1));
        while at < bytes.len() {
            match reader.read(&mut bytes[at..])? {
                0 => return Err(Error::Record { reason: "an annotation is shorter than its record says" }),
                read => at += read,
            }
        }
        Ok(bytes.into())
    }
}

struct Reencryption<'a> {
    content: &'a Content,
    bucket: &'a Bucket,
    sealing: &'a Sealing,
    log_bytes: usize,
    written: Vec<WrittenChunk>,
}

impl Reencryption<'_> {
    fn store(&mut self, bytes: Bytes) -> Result<Body> {
        self.content.faults.check_writable()?;
        self.content.space.check()?;
        if self.log_bytes + bytes.len() > LOG_BYTES_MAX {
            return self.store_in_pack(&bytes);
        }
        self.log_bytes += bytes.len();
        match self.sealing.encryption {
            Some(_) => self.content.sealed_body(self.bucket, self.sealing, &bytes),
            None if bytes.len() <= RECORD_TEXT_MAX => Ok(Body::Inline(bytes)),
            None => Ok(self.content.appended_body(self.bucket, bytes)),
        }
    }

    fn store_in_pack(&mut self, bytes: &[u8]) -> Result<Body> {
        let length = bytes.len() as u32;
        let key = match self.sealing.encryption {
            Some(_) => Some(self.content.keys.data_key(self.bucket, self.sealing)?),
            None => None,
        };
        let scope = match &key {
            Some(key) => self.content.sealed_scope(key, self.sealing)?,
            None => self.content.scope(&self.bucket.owner),
        };
        let mut writer = self.content.content_writer(length, &scope, key.as_deref())?;
        writer.write(bytes)?;
        let (written, seal) = writer.finish()?;
        let sharing =
            self.content.catalog.prefix_hashes.sharing(self.content.ref_level(self.bucket), written.prefix_hash);
        let chunk = placed(&written, length, seal, sharing);
        self.written.push(written);
        Ok(Body::Chunks(vec![chunk]))
    }
}
