//! Abandoned uploads: aborted when nothing has arrived for them for a while, whatever the rules of their bucket say.
//! Runs on the caller's thread, decides one upload at a time, and gives way to clients.

use std::time::Duration;

use bytes::Bytes;

use super::super::handle::Handle;
use super::pace::Pace;
use orcas_base::error::{Error, Result};
use orcas_catalog::{ListParts, ListUploads, UploadEntry};
use orcas_decide::{Failure, Intent, Refusal};
use orcas_record::BucketId;

/// Uploads or parts that are read at a time.
const PAGE: usize = 1_000;

/// The result of one run.
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
    /// `Closed` when the store closes, and the first error that the run met. What of a bucket or an upload cannot be read
    /// keeps no others; any other error ends the run.
    pub fn abort_abandoned(&self, days: u32) -> Result<AbandonedReport> {
        let idle_ms = u64::from(days).saturating_mul(self.lifecycle_day_ms());
        self.abort_idle(self.shared.clock.now_ms().saturating_sub(idle_ms))
    }

    /// Aborts the uploads of which nothing has come since then.
    pub(crate) fn abort_idle(&self, since_ms: u64) -> Result<AbandonedReport> {
        let mut sweep = Sweep {
            engine: self,
            since_ms,
            report: AbandonedReport::default(),
            pace: Pace::default(),
            took: Duration::ZERO,
            unreadable: None,
        };
        let ended = self.buckets().iter().try_for_each(|bucket| sweep.bucket(bucket.id));
        let AbandonedReport { seen, aborted, changed } = sweep.report;
        if aborted > 0 {
            tracing::info!(seen, aborted, changed, "Abandoned uploads were aborted");
        }
        ended?;
        sweep.unreadable.map_or(Ok(sweep.report), Err)
    }
}

/// A run through all uploads.
struct Sweep<'a> {
    engine: &'a Handle,
    since_ms: u64,
    report: AbandonedReport,
    pace: Pace,
    /// The time that the last abortion took.
    took: Duration,
    /// The first of what could not be read.
    unreadable: Option<Error>,
}

impl Sweep<'_> {
    fn bucket(&mut self, bucket: BucketId) -> Result<()> {
        let mut list = ListUploads::first(bucket, Bytes::new(), PAGE);
        loop {
            if self.engine.shared.lifecycle.queue.is_stopped() {
                return Err(Error::Closed);
            }
            let page = self.engine.list_uploads(&list);
            let Some(page) = self.readable(page)? else { return Ok(()) };
            for upload in &page.entries {
                self.report.seen += 1;
                let ended = self.upload(upload);
                self.readable(ended)?;
            }
            if !list.advance(&page) {
                return Ok(());
            }
        }
    }

    /// Passes over a bucket or upload that cannot be read, so that it holds up no other. Any other error ends the run.
    fn readable<T>(&mut self, found: Result<T>) -> Result<Option<T>> {
        match found {
            Ok(found) => Ok(Some(found)),
            Err(error @ (Error::Record { .. } | Error::Index { .. } | Error::IndexDamaged { .. })) => {
                self.unreadable.get_or_insert(error);
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    fn upload(&mut self, upload: &UploadEntry) -> Result<()> {
        if self.is_idle(upload)? { self.abort(upload) } else { Ok(()) }
    }

    /// Spares the committer most of the uploads that are in use.
    fn is_idle(&self, upload: &UploadEntry) -> Result<bool> {
        if upload.initiated_ms >= self.since_ms {
            return Ok(false);
        }
        let mut list = ListParts { upload: upload.id, after: 0, max_parts: PAGE };
        loop {
            if self.engine.shared.lifecycle.queue.is_stopped() {
                return Err(Error::Closed);
            }
            let page = self.engine.list_parts(list)?;
            if page.entries.iter().any(|part| part.modified_ms >= self.since_ms) {
                return Ok(false);
            }
            match page.entries.last() {
                Some(last) if page.truncated => list.after = last.number,
                _ => return Ok(true),
            }
        }
    }

    /// The committer looks again: a part may have come meanwhile.
    fn abort(&mut self, upload: &UploadEntry) -> Result<()> {
        let shared = &self.engine.shared;
        // An upload may have thousands of parts, which the committer reads and the index forgets.
        self.pace.before(shared, self.took)?;
        let begun = shared.clock.monotonic();
        let (bucket, key, idle_since_ms) = (upload.bucket, upload.key.clone(), Some(self.since_ms));
        let ended = self.engine.execute(Intent::AbortUpload { bucket, key, upload: upload.id, idle_since_ms });
        self.took = shared.clock.monotonic().saturating_sub(begun);
        match ended {
            Ok(_) => self.report.aborted += 1,
            Err(Failure::Refused(
                Refusal::NoSuchUpload | Refusal::NoSuchBucket | Refusal::PreconditionFailed { .. },
            )) => self.report.changed += 1,
            Err(Failure::Refused(_)) => return Err(Error::Record { reason: "an upload could not be aborted" }),
            Err(Failure::Engine(error)) => return Err(error),
        }
        Ok(())
    }
}
