//! The engine as its callers see it. What concerns one subject lies in its folder: `copies`, `events`, `health`,
//! `lifecycle`, `quotas`, `reclaim`, `scrub`, `seal_stored`, and `backup`, `lookups` and `moves` beside this file.

use std::sync::Arc;
use std::time::Duration;

use super::content::Content;
use super::content::encrypting::ObjectKeys;
use super::maintenance::MaintenanceIntent;
use super::state::EngineState;
use crate::commit::queue::Submitted;
use crate::commit::waiter::{ChannelSink, Waiter};
use orcas_base::buffers::Buffers;
use orcas_base::error::{Error, Result};
use orcas_catalog::{Document, EpochPin};
use orcas_decide::{Failure, Intent, Outcome};
use orcas_record::{Bucket, BucketId, Cause, DocumentKind, Sequence};

/// The interface of the engine for its callers: everything but opening and closing.
#[derive(Clone)]
pub struct Handle {
    pub(super) shared: Arc<EngineState>,
}

impl Handle {
    /// Random, made with the store.
    pub fn store_id(&self) -> [u8; 16] {
        self.shared.keys.store_id
    }

    /// A code that only nodes of a cluster with this store can make.
    pub fn authenticate(&self, message: &[u8]) -> [u8; 32] {
        self.shared.keys.authenticate(message).into()
    }

    /// Whether this is the code of a message.
    pub fn is_authentic(&self, message: &[u8], code: &[u8]) -> bool {
        self.shared.keys.authenticate(message) == *code
    }

    /// Queues a mutation; never blocks. The waiter is told when it is decided.
    pub fn submit(&self, intent: Intent, cause: Cause, waiter: Waiter) {
        let submitted = Submitted::S3(intent, cause, waiter);
        if let Some(Submitted::S3(_, _, waiter)) = self.shared.intents.push(submitted, &*self.shared.clock) {
            waiter.complete(Err(Failure::Engine(self.shared.refusal())));
        }
    }

    /// The time on the clock of [`super::RoundTimes`].
    pub fn monotonic(&self) -> Duration {
        self.shared.clock.monotonic()
    }

    /// How far the clock of the store is ahead of the time of the machine, in milliseconds: 0 but in a test.
    pub fn clock_ahead_ms(&self) -> i64 {
        self.shared.clock.ahead_ms()
    }

    /// Submits what no request has caused, and waits. For threads that may block.
    ///
    /// # Errors
    /// As [`orcas_decide::decide`], and what the commit ran into.
    pub fn execute(&self, intent: Intent) -> Result<Outcome, Failure> {
        self.execute_for(Cause::Engine, intent)
    }

    /// Submits and waits. For threads that may block.
    ///
    /// # Errors
    /// As of `execute`.
    pub fn execute_for(&self, cause: Cause, intent: Intent) -> Result<Outcome, Failure> {
        let (sink, answer) = ChannelSink::pair();
        self.submit(intent, cause, Waiter::new(sink, 0));
        answer.recv().unwrap_or(Err(Failure::Engine(Error::Closed)))
    }

    /// Waits until everything submitted before is durable, or void for good if it failed. Blocking. Returns the
    /// sequence of the last record.
    ///
    /// # Errors
    /// What the commit ran into, and why nothing is taken on.
    pub fn barrier(&self) -> Result<Sequence> {
        let reply = self.shared.submit_maintenance(MaintenanceIntent::Barrier { roll: false });
        let outcome = reply.ok_or_else(|| self.shared.refusal())?.wait()?;
        Ok(outcome.last)
    }

    /// The bucket of this name, from memory; never blocks.
    pub fn bucket(&self, name: &[u8]) -> Option<Arc<Bucket>> {
        self.shared.catalog.bucket(name)
    }

    /// A document of a bucket, from memory; never blocks. Empty if it was removed, `None` if there never was one.
    pub fn document(&self, bucket: BucketId, kind: DocumentKind) -> Option<Arc<Document>> {
        self.shared.catalog.buckets.load().documents().get(bucket, kind).cloned()
    }

    /// Whether requests to any bucket are to be logged, from memory.
    pub fn logs_buckets(&self) -> bool {
        self.shared.catalog.kinds_in_use.has(DocumentKind::Logging)
    }

    /// Whether any bucket has a document of this kind that is not empty, from memory.
    #[inline]
    pub fn has_documents(&self, kind: DocumentKind) -> bool {
        self.shared.catalog.kinds_in_use.has(kind)
    }

    /// Whether any bucket has default encryption, from memory.
    pub fn has_default_encryption(&self) -> bool {
        self.shared.catalog.kinds_in_use.has(DocumentKind::Encryption)
    }

    /// All buckets in byte order of their names, from memory.
    pub fn buckets(&self) -> Vec<Arc<Bucket>> {
        self.shared.catalog.buckets.load().all().cloned().collect()
    }

    /// The snapshots of the bucket with this name, in byte order of their names, from memory.
    pub fn snapshots(&self, bucket: &[u8]) -> Vec<Arc<Bucket>> {
        self.shared.catalog.buckets.load().snapshots_of(bucket).cloned().collect()
    }

    /// Keeps everything that can be found from now on readable while the pin lives.
    pub fn pin_epoch(&self) -> EpochPin {
        self.shared.catalog.epochs.pin()
    }

    /// Memory for bodies on their way in and out.
    pub fn buffers(&self) -> &Arc<Buffers> {
        &self.shared.content.buffers
    }

    /// The part that stores bodies and reads them.
    pub fn content(&self) -> &Arc<Content> {
        &self.shared.content
    }

    /// The keys that seal content.
    pub fn keys(&self) -> &ObjectKeys {
        &self.shared.content.keys
    }
}
