//! A run: all layers, key by key, until no client is in the way any more.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;

use super::super::handle::Handle;
use super::super::lifecycle::Pace;
use super::super::reclaim::Effort;
use super::super::state::EngineState;
use super::reencryption::{NotStored, Reencryption};
use super::report::{SealProgress, SealReport};
use super::walk::{KeyFound, Keys};
use crate::commit::queue::Submitted;
use crate::commit::waiter::{ChannelSink, Waiter};
use orcas_base::error::{Error, Result};
use orcas_base::sync::atomic::Ordering;
#[cfg(test)]
use orcas_catalog::ListUploads;
use orcas_catalog::{NewerChanges, PinnedObject};
use orcas_decide::{Failure, Intent, Outcome, SealKey, SealVersion, record_len};
use orcas_record::{Bucket, BucketId, BucketRole, Cause};

/// Times all layers are walked because clients had changed what was read.
const PASSES_MAX: usize = 4;
/// Bytes of the records of the versions of one key that are changed together, as they are estimated.
const KEY_RECORDS_LEN_MAX: usize = 32 << 20;
/// Bytes that are stored again before the packs that became free are given back.
const RECLAIM_AFTER: u64 = 1 << 30;

impl Handle {
    /// Seals every version and incomplete upload that is not encrypted, under keys of the server (SSE-S3), and rewrites the
    /// files of the store so that nothing of the unsealed content is left in them. Blocking.
    ///
    /// # Errors
    /// [`Error::NoKeyring`], or why a data key cannot be used; `StorageFull` and `UnderReserve` when there is no room
    /// even after reclamation; `ReadOnly`, `Closed`, and what reading the index ran into. What was done before counts,
    /// and the next run goes on from there.
    pub fn seal_stored(&self, progress: &SealProgress) -> Result<SealReport> {
        if !self.keys().can_seal() {
            return Err(Error::NoKeyring);
        }
        self.shared.faults.check_writable()?;
        let mut run = Run::of(self, progress);
        for _ in 0..PASSES_MAX {
            (run.report.seen, run.report.changed, run.report.no_room) = (0, 0, 0);
            (run.report.too_long, run.report.unreadable) = (0, 0);
            match run.pass() {
                Err(Error::Closed) if progress.is_cancelled() => run.report.cancelled = true,
                done => done?,
            }
            let SealReport { cancelled, changed, no_room, .. } = run.report;
            if cancelled || changed + no_room == 0 {
                break;
            }
        }
        run.report.stored_bytes = progress.stored_bytes.load(Ordering::Relaxed);
        if !run.report.cancelled {
            progress.finishing.store(true, Ordering::Relaxed);
            match self.erase_unsealed(&mut run.report, progress) {
                Err(Error::Closed) if progress.is_cancelled() => run.report.cancelled = true,
                done => done?,
            }
        }
        self.count_unsealed(&mut run.report)?;
        let SealReport { versions, uploads, bytes, stored_bytes, changed, no_room, too_long, unreadable, left, .. } =
            run.report;
        tracing::info!(
            versions,
            uploads,
            bytes,
            stored_bytes,
            changed,
            no_room,
            too_long,
            unreadable,
            left_blobs = left.blobs,
            left_uploads = left.uploads,
            "Stored content was sealed"
        );
        Ok(run.report)
    }
}

/// The intent that a run would submit first for a layer, as far as it fits into one batch.
#[cfg(test)]
pub(crate) fn first_batch(engine: &Handle, bucket: &Bucket) -> Result<Option<Intent>> {
    let progress = SealProgress::default();
    let mut run = Run::of(engine, &progress);
    let mut reencryption = Reencryption::of(engine, &progress, bucket, bucket.id)?;
    let mut keys = Keys::of(&engine.shared, bucket.id);
    while let Some(found) = keys.next()? {
        if let Some((found, pinned)) = run.unsealed(bucket.id, found)? {
            run.key(&mut reencryption, &found, &pinned)?;
        }
    }
    for upload in run.plain_uploads(&mut ListUploads::first(bucket.id, Bytes::new(), 1_000))?.0 {
        run.store_upload(&mut reencryption, upload)?;
    }
    Ok(reencryption.take()?.map(|(seal, blobs)| Intent::SealStored(Box::new(seal), blobs)))
}

pub(super) struct Run<'a> {
    pub(super) engine: &'a Handle,
    pub(super) progress: &'a SealProgress,
    pub(super) report: SealReport,
    pub(super) pace: Pace,
    /// The time that the last batch took.
    took: Duration,
    /// The bytes that had been stored again when the space of what they replaced was last given back.
    reclaimed_at: u64,
}

impl<'a> Run<'a> {
    fn of(engine: &'a Handle, progress: &'a SealProgress) -> Self {
        let (report, pace) = (SealReport::default(), Pace::default());
        Self { engine, progress, report, pace, took: Duration::ZERO, reclaimed_at: 0 }
    }

    pub(super) fn shared(&self) -> &'a Arc<EngineState> {
        &self.engine.shared
    }

    fn pass(&mut self) -> Result<()> {
        for (bucket, layer) in self.layers() {
            self.layer(&bucket, layer)?;
        }
        self.uploads()
    }

    /// Every layer that a bucket or a snapshot shows, and who has it: content is sealed for its owner.
    fn layers(&self) -> Vec<(Arc<Bucket>, BucketId)> {
        let table = Arc::clone(&self.shared().catalog.buckets.load());
        let mut layers: Vec<(Arc<Bucket>, BucketId)> = Vec::new();
        for bucket in table.of_any_role() {
            let stack = match bucket.role {
                BucketRole::Bucket => bucket.stack(),
                BucketRole::Snapshot => &bucket.layers[..],
                BucketRole::Layer | BucketRole::Amendments | BucketRole::Dropped => &[],
            };
            layers.extend(stack.iter().map(|layer| (Arc::clone(bucket), *layer)));
        }
        layers.sort_by_key(|(_, layer)| *layer);
        layers.dedup_by_key(|(_, layer)| *layer);
        layers
    }

    fn layer(&mut self, bucket: &Bucket, layer: BucketId) -> Result<()> {
        let engine = self.engine;
        let mut keys = Keys::of(self.shared(), layer);
        // Made when it is needed: an owner without content needs no data key.
        let mut reencryption: Option<Reencryption<'a>> = None;
        while let Some(found) = keys.next()? {
            if self.progress.is_cancelled() {
                return Err(Error::Closed);
            }
            self.report.seen += found.versions.len() as u64;
            self.progress.show(&self.report);
            let Some((found, pinned)) = self.unsealed(layer, found)? else { continue };
            let reencryption = match &mut reencryption {
                Some(reencryption) => reencryption,
                none => none.insert(Reencryption::of(engine, self.progress, bucket, layer)?),
            };
            let stored = self.key(reencryption, &found, &pinned);
            // What is pinned cannot be reclaimed.
            drop(pinned);
            if let Err(error) = stored {
                self.without_room(error, 1)?;
                self.commit(reencryption)?;
                self.make_room()?;
            } else if reencryption.is_full(self.pace.batch(self.shared())) {
                self.commit(reencryption)?;
            }
        }
        reencryption.as_mut().map_or(Ok(()), |reencryption| self.commit(reencryption))
    }

    /// The versions of a key that are not encrypted, if it has some, with those that are newer than the oldest of them;
    /// the oldest first. What they refer to stays while they are in use.
    fn unsealed(
        &mut self,
        layer: BucketId,
        mut found: KeyFound,
    ) -> Result<Option<(KeyFound, Vec<Option<PinnedObject>>)>> {
        let mut pinned = Vec::with_capacity(found.versions.len());
        let (mut records_len, mut changed) = (0, false);
        for row in &found.versions {
            if records_len > KEY_RECORDS_LEN_MAX {
                found.is_cut = true;
                break;
            }
            let pin = self.engine.pin_epoch();
            let located = match row.delete_marker {
                true => None,
                false => self.shared().catalog.version_below(layer, &found.key, row.id, NewerChanges::default())?,
            };
            let located = located.filter(|located| located.object.sequence == row.sequence);
            let located = located.map(|located| PinnedObject::of(located, pin));
            changed |= located.is_none() && !row.delete_marker;
            records_len += located.as_ref().map_or(0, |it| record_len(&it.object.version));
            let is_plain = |it: &PinnedObject| it.object.version.attributes.encryption.is_none();
            pinned.push(located.map(|it| (is_plain(&it), it)));
        }
        if changed {
            self.report.changed += 1;
            return Ok(None);
        }
        // Those that come after stay as they are.
        self.report.too_long += u64::from(found.is_cut);
        let Some(oldest) = pinned.iter().rposition(|it| it.as_ref().is_some_and(|(plain, _)| *plain)) else {
            return Ok(None);
        };
        found.versions.truncate(oldest + 1);
        found.versions.reverse();
        pinned.truncate(oldest + 1);
        pinned.reverse();
        let plain = pinned.into_iter().map(|it| it.and_then(|(plain, it)| plain.then_some(it))).collect();
        Ok(Some((found, plain)))
    }

    /// Stores the content of a key again. What cannot be read stays, and keeps nothing else.
    fn key(
        &mut self,
        reencryption: &mut Reencryption<'_>,
        found: &KeyFound,
        plain: &[Option<PinnedObject>],
    ) -> Result<()> {
        let mut versions = Vec::with_capacity(found.versions.len());
        let (mut too_long, mut unreadable) = (0, 0);
        for (row, plain) in found.versions.iter().zip(plain) {
            let content = match plain.as_ref().map(|plain| reencryption.version(plain)).transpose() {
                Ok(content) => content,
                Err(NotStored::TooLong) => {
                    too_long += 1;
                    None
                }
                Err(NotStored::Failed(Error::Corrupt { .. } | Error::Missing { .. } | Error::Record { .. })) => {
                    unreadable += 1;
                    None
                }
                Err(NotStored::Failed(error)) => return Err(error),
            };
            versions.push(SealVersion { id: row.id, sequence: row.sequence, content });
        }
        self.report.too_long += too_long;
        self.report.unreadable += unreadable;
        // Older versions that stay as they are need no new place.
        let first = versions.iter().position(|version| version.content.is_some());
        if let Some(first) = first {
            reencryption.push(SealKey { key: Bytes::clone(&found.key), versions: versions.split_off(first) });
        }
        Ok(())
    }

    /// Makes durable what was stored, and changes the versions and uploads that are still what they were.
    pub(super) fn commit(&mut self, reencryption: &mut Reencryption<'_>) -> Result<()> {
        let count = reencryption.count() as u64;
        let (seal, blobs) = match reencryption.take() {
            Err(error) => return self.without_room(error, count),
            Ok(None) => return Ok(()),
            Ok(Some(taken)) => taken,
        };
        let shared = self.shared();
        self.pace.before(shared, self.took)?;
        let begun = shared.clock.monotonic();
        let layer = seal.layer;
        let answer = {
            // A merge takes a version as it was found to another layer. So none is found until the change shows.
            let is_layer =
                shared.catalog.buckets.load().by_id(layer).is_none_or(|bucket| bucket.role != BucketRole::Bucket);
            let _pause = is_layer.then(|| shared.catalog.reclaim_pause.begin());
            let (sink, answer) = ChannelSink::pair();
            let submitted =
                Submitted::S3(Intent::SealStored(Box::new(seal), blobs), Cause::Sealing, Waiter::new(sink, 0));
            if shared.intents.push(submitted, &*shared.clock).is_some() {
                return Err(shared.refusal());
            }
            answer.recv().unwrap_or(Err(Failure::Engine(Error::Closed)))
        };
        self.took = shared.clock.monotonic().saturating_sub(begun);
        match answer {
            Ok(Outcome::Sealed(sealed)) => {
                self.report.versions += sealed.versions;
                self.report.uploads += sealed.uploads;
                self.report.bytes += sealed.bytes;
                self.report.changed += sealed.changed;
                self.progress.show(&self.report);
            }
            Err(Failure::Engine(error)) => {
                self.without_room(error, count)?;
                self.make_room()?;
            }
            Ok(_) | Err(Failure::Refused(_)) => {
                return Err(Error::Record { reason: "the sealing of what is stored was answered as something else" });
            }
        }
        let stored = self.progress.stored_bytes.load(Ordering::Relaxed);
        if stored - self.reclaimed_at >= RECLAIM_AFTER {
            self.reclaimed_at = stored;
            self.reclaim(Effort::Collect)?;
        }
        Ok(())
    }

    fn reclaim(&self, effort: Effort) -> Result<()> {
        let answer = self.shared().reclaim.push(effort)?;
        self.engine.awaited(&answer, self.progress).map(drop)
    }

    /// So many keys and uploads wait for the next pass, if that is for lack of room.
    pub(super) fn without_room(&mut self, error: Error, count: u64) -> Result<()> {
        if !matches!(error, Error::StorageFull | Error::UnderReserve { .. }) {
            return Err(error);
        }
        self.report.no_room += count;
        Ok(())
    }

    /// Frees what was replaced.
    ///
    /// # Errors
    /// If there is no room after that.
    pub(super) fn make_room(&self) -> Result<()> {
        self.reclaim(Effort::Compact)?;
        self.shared().space.check()
    }
}
