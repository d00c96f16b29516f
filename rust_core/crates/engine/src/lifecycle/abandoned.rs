//! Uploads that nobody goes on with: aborted when nothing of them has come for a while, whatever the rules of their
//! bucket say. Runs on the thread of whoever asks, and decides one upload at a time.

use super::super::handle::Handle;
use super::super::uploads::{ListParts, ListUploads, UploadEntry};
use orcas_base::error::{Error, Result};
use orcas_decide::{Failure, Intent, Refusal};
use orcas_record::BucketId;

/// Uploads or parts that are read at a time.
const PAGE: usize = 1_000;

/// What one run did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AbandonedReport {
    /// Uploads that were looked at.
    pub seen: u64,
    /// Uploads that were aborted.
    pub aborted: u64,
    /// Uploads that somebody went on with, or ended, after they were looked at.
    pub changed: u64,
}

impl Handle {
    /// Aborts all uploads of which nothing has come for so many days, neither a part nor the upload itself. Blocking.
    ///
    /// # Errors
    /// `Closed` when the store closes, and the first error that the run met. What one bucket ran into does not keep the
    /// others.
    pub fn abort_abandoned(&self, days: u32) -> Result<AbandonedReport> {
        let idle_ms = u64::from(days).saturating_mul(self.lifecycle_day_ms());
        self.abort_idle(self.shared.clock.now_ms().saturating_sub(idle_ms))
    }

    /// Aborts the uploads of which nothing has come since then.
    pub(crate) fn abort_idle(&self, since_ms: u64) -> Result<AbandonedReport> {
        let mut report = AbandonedReport::default();
        let mut ended = Ok(());
        for bucket in self.buckets() {
            match self.abort_idle_in(bucket.id, since_ms, &mut report) {
                Err(Error::Closed) => return Err(Error::Closed),
                Err(error) if ended.is_ok() => ended = Err(error),
                _ => {}
            }
        }
        if report.aborted > 0 {
            let AbandonedReport { seen, aborted, changed } = report;
            tracing::info!(seen, aborted, changed, "Abandoned uploads were aborted");
        }
        ended.map(|()| report)
    }

    fn abort_idle_in(&self, bucket: BucketId, since_ms: u64, report: &mut AbandonedReport) -> Result<()> {
        let mut list = ListUploads {
            bucket,
            prefix: "".into(),
            delimiter: None,
            after_key: None,
            after_upload: None,
            max_uploads: PAGE,
        };
        loop {
            let page = self.list_uploads(&list)?;
            for upload in page.entries {
                if self.shared.lifecycle.queue.is_stopped() {
                    return Err(Error::Closed);
                }
                report.seen += 1;
                if self.is_idle(&upload, since_ms)? {
                    self.abort(&upload, since_ms, report)?;
                }
            }
            match page.last {
                Some((key, upload)) if page.truncated => (list.after_key, list.after_upload) = (Some(key), upload),
                _ => return Ok(()),
            }
        }
    }

    /// Spares the committer most of the uploads that are in use.
    fn is_idle(&self, upload: &UploadEntry, since_ms: u64) -> Result<bool> {
        if upload.initiated_ms >= since_ms {
            return Ok(false);
        }
        let mut list = ListParts { upload: upload.id, after: 0, max_parts: PAGE };
        loop {
            let page = self.list_parts(list)?;
            if page.entries.iter().any(|part| part.modified_ms >= since_ms) {
                return Ok(false);
            }
            match page.entries.last() {
                Some(last) if page.truncated => list.after = last.number,
                _ => return Ok(true),
            }
        }
    }

    /// The committer looks again: a part may have come meanwhile.
    fn abort(&self, upload: &UploadEntry, since_ms: u64, report: &mut AbandonedReport) -> Result<()> {
        let (bucket, key) = (upload.bucket, upload.key.clone());
        match self.execute(Intent::AbortUpload { bucket, key, upload: upload.id, idle_since_ms: Some(since_ms) }) {
            Ok(_) => report.aborted += 1,
            Err(Failure::Refused(
                Refusal::NoSuchUpload | Refusal::NoSuchBucket | Refusal::PreconditionFailed { .. },
            )) => report.changed += 1,
            Err(Failure::Refused(_)) => return Err(Error::Record { reason: "an upload could not be aborted" }),
            Err(Failure::Engine(error)) => return Err(error),
        }
        Ok(())
    }
}
