//! Every S3 rule about buckets, objects and uploads: `decide(state, intent) -> verdict + records`. Pure: time and
//! random identifiers come in with the context, state through [`View`]. It runs in the one sequencer, over index and
//! overlay, so that a precondition and the write it guards are one step.
#![forbid(unsafe_code)]

mod buckets;
mod intent;
mod manifest;
mod objects;
mod reclaim;
mod uploads;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;
use std::sync::Arc;

use orcas_base::error::{Error, Result};
use orcas_record::{Bucket, BucketId, Extent, Fingerprint, Object, Part, Record, Sequence, Upload, UploadId};

pub use intent::{
    Body, ChunkPlace, Complete, CompletePart, Completed, Copy, CopyPart, DeleteEntry, EtagMatch, Intent, Move, Outcome,
    Pin, PlacedChunk, Precondition, Put, PutObject, PutPart, Refusal, ReplaceLog, Sharing, SourceConditions,
};
pub use objects::{check_copy, check_source};
pub use uploads::PART_SIZE_MIN;

/// Largest object that one PUT, one part or one copy may bring: 5 GiB (Amazon S3 user guide, quotas).
pub const PUT_SIZE_MAX: u64 = 5 << 30;
/// Largest object: 50 TiB (Amazon S3 user guide, quotas).
pub const OBJECT_SIZE_MAX: u64 = 50 << 40;
/// Buckets in one store; all of them are kept in memory.
pub const BUCKETS_MAX: usize = 10_000;

/// The state that a decision rests on: everything sequenced so far.
pub trait View {
    fn bucket(&self, id: BucketId) -> Option<Arc<Bucket>>;
    fn bucket_by_name(&self, name: &[u8]) -> Option<Arc<Bucket>>;
    fn bucket_count(&self) -> usize;
    fn bucket_is_empty(&self, id: BucketId) -> Result<bool>;
    fn object(&self, bucket: BucketId, key: &[u8]) -> Result<Option<Arc<Object>>>;
    fn segment(&self, segment: Sequence) -> Result<Arc<[Extent]>>;
    /// The blob that a body of `length` bytes with this fingerprint may name. `head` is that of the body, when it is known:
    /// a hint that spares a look.
    fn shared_blob(&self, fingerprint: &Fingerprint, length: u32, head: Option<u64>) -> Result<Option<Sequence>>;
    /// Whether nothing refers to `blob` or asks for it, and nothing has since it was chosen. If so nothing ever will.
    fn condemn(&self, blob: Sequence) -> Result<bool>;
    /// Whether the bytes of `blob` stand in `pack`.
    fn chunk_is_in(&self, blob: Sequence, pack: u64) -> Result<bool>;
    /// Whether `pack` exists, holds nothing that counts, and nothing is on its way into it.
    fn pack_is_free(&self, pack: u64) -> Result<bool>;
    fn upload(&self, id: UploadId) -> Result<Option<Arc<Upload>>>;
    fn parts(&self, id: UploadId) -> Result<BTreeMap<u16, Arc<Part>>>;
    /// How `id` was completed, while that is remembered.
    fn completed(&self, id: UploadId) -> Result<Option<Completed>>;
}

/// What a decision may use besides the state.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// Milliseconds since the Unix epoch.
    pub now_ms: u64,
    /// The sequence that the first record of the decision gets; the others follow it.
    pub next_sequence: Sequence,
    /// Random, used when the intent creates an upload.
    pub upload_id: UploadId,
}

/// A verdict with the records that make it true, in the order of their sequences.
#[derive(Debug)]
pub struct Decision {
    pub outcome: Outcome,
    pub records: Vec<Record>,
}

impl Decision {
    fn without_records(outcome: Outcome) -> Self {
        Self { outcome, records: Vec::new() }
    }
}

/// Why an intent did not happen.
#[derive(Clone, Debug)]
pub enum Failure {
    /// S3 says no. Nothing was written.
    Refused(Refusal),
    /// The store could not tell or could not write.
    Engine(Error),
}

impl Failure {
    /// For intents that S3 has no say in.
    pub fn into_error(self) -> Error {
        match self {
            Self::Engine(error) => error,
            Self::Refused(_) => Error::Record { reason: "an intent of the store itself was refused" },
        }
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        Self::Engine(error)
    }
}

impl From<Refusal> for Failure {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(refusal)
    }
}

/// Turns an intent into its verdict and records.
///
/// # Errors
/// [`Failure::Refused`] by a rule of S3, [`Failure::Engine`] when the state could not be read.
pub fn decide(view: &dyn View, context: &Context, intent: Intent) -> Result<Decision, Failure> {
    match intent {
        Intent::CreateBucket { name, owner, location, settings } => {
            buckets::create(view, context, buckets::NewBucket { name, owner, location, settings })
        }
        Intent::DeleteBucket { bucket } => buckets::delete(view, bucket),
        Intent::UpdateBucket { bucket, settings } => buckets::update(view, bucket, settings),
        Intent::PutObject(put) => objects::put(view, context, *put),
        Intent::DeleteObject { bucket, key, precondition } => objects::delete(view, bucket, key, &precondition),
        Intent::DeleteObjects { bucket, entries } => objects::delete_many(view, bucket, entries),
        Intent::CopyObject(copy) => objects::copy(view, context, *copy),
        Intent::MoveObject(moved) => objects::move_object(view, *moved),
        Intent::CreateUpload { bucket, key, headers, checksum } => {
            uploads::create(view, context, bucket, key, headers, checksum)
        }
        Intent::PutPart(put) => uploads::put_part(view, context, *put),
        Intent::CopyPart(copy) => uploads::copy_part(view, context, *copy),
        Intent::AbortUpload { bucket, key, upload } => uploads::abort(view, bucket, &key, upload),
        Intent::CompleteUpload(complete) => uploads::complete(view, context, *complete),
        Intent::Barrier { .. } => Ok(reclaim::barrier(context)),
        Intent::CondemnBlobs { blobs } => Ok(reclaim::condemn(view, context, blobs)?),
        Intent::MoveChunks { from, moves, .. } => Ok(reclaim::move_chunks(view, context, from, moves)?),
        Intent::RetirePack { pack } => Ok(reclaim::retire_pack(view, context, pack)?),
        Intent::ReplaceLog(replacement) => Ok(reclaim::replace_log(context, *replacement)),
    }
}

/// The bucket an intent was authorised for, unless it has gone meanwhile.
fn live_bucket(view: &dyn View, id: BucketId) -> Result<Arc<Bucket>, Failure> {
    view.bucket(id).ok_or(Failure::Refused(Refusal::NoSuchBucket))
}
