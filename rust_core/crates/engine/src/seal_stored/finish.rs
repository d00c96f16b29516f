//! The end of a run: the files of the store are rewritten without the unsealed content, and what is left is counted.

use super::super::handle::Handle;
use super::super::reclaim::Effort;
use super::super::uploads::ListUploads;
use super::report::SealReport;
use orcas_base::error::{Error, Result};

/// Uploads that are read at a time.
const PAGE: usize = 1_000;

impl Handle {
    /// Rewrites the log, punches the gaps out of all packs, and builds the index anew: its free pages have short content.
    /// The report says what could not be done.
    pub(super) fn erase_unsealed(&self, report: &mut SealReport) -> Result<()> {
        let shared = &self.shared;
        match self.reclaim(Effort::Renew) {
            Ok(_) => report.left.files = shared.reclaim.has_left_files(),
            Err(error @ (Error::Corrupt { .. } | Error::Missing { .. } | Error::Record { .. } | Error::StorageFull)) => {
                tracing::warn!(%error, "Files of the store could not be rewritten without unsealed content");
                report.left.files = true;
            }
            Err(error) => return Err(error),
        }
        // From the new log.
        if shared.index.is_file() {
            match shared.index_rebuild.renew() {
                Ok(()) => {}
                Err(Error::Closed) => return Err(Error::Closed),
                Err(error) => {
                    tracing::warn!(%error, "The index could not be built anew: it may have parts of unsealed content");
                    report.left.index = true;
                }
            }
        }
        Ok(())
    }

    pub(super) fn count_unsealed(&self, report: &mut SealReport) -> Result<()> {
        (report.left.blobs, report.left.bytes) = self.shared.index.read()?.unsealed_blobs()?;
        for bucket in self.buckets() {
            let mut list = ListUploads {
                bucket: bucket.id,
                prefix: "".into(),
                delimiter: None,
                after_key: None,
                after_upload: None,
                max_uploads: PAGE,
            };
            loop {
                let page = self.list_uploads(&list)?;
                for upload in &page.entries {
                    let upload = self.shared.upload(upload.id)?;
                    let is_plain = upload.is_some_and(|upload| upload.attributes.encryption.is_none());
                    report.left.uploads += u64::from(is_plain);
                }
                match page.last {
                    Some((key, upload)) if page.truncated => (list.after_key, list.after_upload) = (Some(key), upload),
                    _ => break,
                }
            }
        }
        Ok(())
    }
}
