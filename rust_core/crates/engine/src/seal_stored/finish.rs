//! The end of a run: the files of the store are rewritten without the unsealed content, and what is left is counted.

use std::time::Duration;

use bytes::Bytes;

use super::super::handle::Handle;
use super::super::reclaim::Effort;
use super::report::{SealProgress, SealReport};
use super::uploads::PAGE;
use orcas_base::error::{Error, Result};
use orcas_base::sync::{Receiver, TryRecvError};
use orcas_catalog::ListUploads;

/// Between two looks at another thread.
const RETRY_INTERVAL: Duration = Duration::from_millis(20);

impl Handle {
    /// Rewrites the log, punches the gaps out of all packs, and builds the index anew: its free pages have short content.
    /// The report says what could not be done.
    pub(super) fn erase_unsealed(&self, report: &mut SealReport, progress: &SealProgress) -> Result<()> {
        (report.left.files, report.left.index) = (true, true);
        let shared = &self.shared;
        match self.awaited(&shared.reclaim.push(Effort::Renew)?, progress) {
            Ok(_) => report.left.files = shared.reclaim.has_left_files(),
            Err(
                error @ (Error::Corrupt { .. } | Error::Missing { .. } | Error::Record { .. } | Error::StorageFull),
            ) => {
                tracing::warn!(%error, "Files of the store could not be rewritten without unsealed content");
            }
            Err(error) => return Err(error),
        }
        // From the new log.
        let built = match shared.catalog.index.is_file() {
            true => self.awaited(&shared.index_rebuild.renew()?, progress),
            false => Ok(()),
        };
        match built {
            Ok(()) => report.left.index = false,
            Err(Error::Closed) => return Err(Error::Closed),
            Err(error) => {
                tracing::warn!(%error, "The index could not be built anew: it may have parts of unsealed content");
            }
        }
        Ok(())
    }

    /// The answer of another thread, which goes on with its work if the run is cancelled.
    pub(super) fn awaited<T>(&self, answer: &Receiver<Result<T>>, progress: &SealProgress) -> Result<T> {
        loop {
            match answer.try_recv() {
                Ok(answer) => return answer,
                Err(TryRecvError::Disconnected) => return Err(Error::Closed),
                Err(TryRecvError::Empty) => {}
            }
            if progress.is_cancelled() || !self.shared.lifecycle.queue.sleep(RETRY_INTERVAL) {
                return Err(Error::Closed);
            }
        }
    }

    pub(super) fn count_unsealed(&self, report: &mut SealReport) -> Result<()> {
        let last = self.barrier()?;
        self.shared.applies.wait_for(last)?;
        (report.left.blobs, report.left.bytes) = self.shared.catalog.index.read()?.unsealed_blobs()?;
        for bucket in self.buckets() {
            let mut list = ListUploads::first(bucket.id, Bytes::new(), PAGE);
            loop {
                let page = self.list_uploads(&list)?;
                for upload in &page.entries {
                    let upload = self.shared.catalog.open_upload(upload.id)?;
                    let is_plain = upload.is_some_and(|upload| upload.attributes.encryption.is_none());
                    report.left.uploads += u64::from(is_plain);
                }
                if !list.advance(&page) {
                    break;
                }
            }
        }
        Ok(())
    }
}
