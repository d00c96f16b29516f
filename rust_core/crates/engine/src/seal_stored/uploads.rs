//! The uploads that are not completed: their parts and their headers.

use std::sync::Arc;

use bytes::Bytes;

use super::reencryption::{NotStored, Reencryption};
use super::run::Run;
use orcas_base::error::{Error, Result};
use orcas_catalog::{ListParts, ListUploads};
use orcas_record::{Part, Upload, UploadId};

/// Uploads and parts that are read at a time.
pub(super) const PAGE: usize = if cfg!(test) { 3 } else { 1_000 };

impl<'a> Run<'a> {
    /// Seals those of all buckets, for the owners of the buckets.
    pub(super) fn uploads(&mut self) -> Result<()> {
        for bucket in self.engine.buckets() {
            let mut reencryption: Option<Reencryption<'a>> = None;
            let mut list = ListUploads::first(bucket.id, Bytes::new(), PAGE);
            loop {
                let (found, more) = self.plain_uploads(&mut list)?;
                for upload in found {
                    let reencryption = match &mut reencryption {
                        Some(reencryption) => reencryption,
                        none => none.insert(Reencryption::of(self.engine, self.progress, &bucket, bucket.id)?),
                    };
                    if let Err(error) = self.store_upload(reencryption, upload) {
                        self.without_room(error, 1)?;
                        self.commit(reencryption)?;
                        self.make_room()?;
                    } else if reencryption.is_full(self.pace.batch(self.shared())) {
                        self.commit(reencryption)?;
                    }
                }
                if !more {
                    break;
                }
            }
            reencryption.as_mut().map_or(Ok(()), |reencryption| self.commit(reencryption))?;
        }
        Ok(())
    }

    /// The uploads of a page that are not encrypted, and whether there is another page, with which the list then
    /// begins.
    pub(super) fn plain_uploads(&self, list: &mut ListUploads) -> Result<(Vec<Arc<Upload>>, bool)> {
        let mut page = self.engine.list_uploads(list)?;
        let more = list.advance(&page);
        page.entries.retain(|upload| upload.attributes.encryption.is_none());
        Ok((page.entries, more))
    }

    /// Stores the content of an upload again. What cannot be read stays as it is.
    pub(super) fn store_upload(&mut self, reencryption: &mut Reencryption<'_>, upload: Arc<Upload>) -> Result<()> {
        if self.progress.is_cancelled() {
            return Err(Error::Closed);
        }
        // Before the parts are looked up: what they refer to stays while it is read.
        let pin = self.engine.pin_epoch();
        let parts = self.parts(upload.id)?;
        let stored = reencryption.upload(upload, parts);
        drop(pin);
        match stored {
            Ok(upload) => reencryption.push_upload(upload),
            Err(NotStored::TooLong) => self.report.too_long += 1,
            Err(NotStored::Failed(Error::Corrupt { .. } | Error::Missing { .. } | Error::Record { .. })) => {
                self.report.unreadable += 1;
            }
            Err(NotStored::Failed(error)) => return Err(error),
        }
        Ok(())
    }

    fn parts(&self, upload: UploadId) -> Result<Vec<Arc<Part>>> {
        let mut parts: Vec<Arc<Part>> = Vec::new();
        loop {
            let after = parts.last().map_or(0, |part| part.number);
            let page = self.engine.list_parts(ListParts { upload, after, max_parts: PAGE })?;
            parts.extend(page.entries);
            if !page.truncated {
                return Ok(parts);
            }
        }
    }
}
