//! From an intent to the rules that decide it.

use super::buckets::{changes, creation, snapshots};
use super::decision::{Context, Decision};
use super::intent::{DeleteEntry, Intent};
use super::objects::{annotations, appends, copies, deletions, moves, uploads, versions, writes};
use super::outcome::Failure;
use super::upkeep::{expirations, stored_copies, stored_sealing};
use super::view::View;
use orcas_record::Upload;

/// Turns an intent into its outcome and records.
///
/// # Errors
/// [`Failure::Refused`] by a rule of S3, [`Failure::Engine`] when the state could not be read.
pub fn decide(view: &dyn View, context: &Context, intent: Intent) -> Result<Decision, Failure> {
    match intent {
        Intent::CreateBucket { name, owner, location, settings, object_lock, documents } => {
            let new = creation::NewBucket { name, owner, location, settings, object_lock, documents };
            creation::create(view, context, new)
        }
        Intent::DeleteBucket { bucket } => snapshots::delete_bucket(view, context, bucket),
        Intent::DropBucket { bucket } => snapshots::drop_bucket(view, context, bucket),
        Intent::UpdateBucket { bucket, change } => changes::update(view, context, bucket, change),
        Intent::PutDocument { bucket, kind, document } => creation::put_document(view, bucket, kind, document),
        Intent::CreateSnapshot { bucket, name } => snapshots::create(view, context, bucket, &name),
        Intent::DeleteSnapshot { bucket, name } => snapshots::delete(view, context, bucket, &name),
        Intent::ForkBucket { bucket, snapshot, name } => snapshots::fork(view, context, bucket, snapshot, name),
        Intent::RestoreBucket { bucket, snapshot } => snapshots::restore(view, context, bucket, &snapshot),
        Intent::PutObject(put) => writes::put(view, context, *put),
        Intent::AppendObject(append) => appends::append(view, context, *append),
        Intent::DeleteObject { bucket, key, version, precondition, bypass } => {
            deletions::one(view, context, bucket, DeleteEntry { key, version, precondition, bypass })
        }
        Intent::DeleteObjects { bucket, entries } => deletions::many(view, context, bucket, entries),
        Intent::Expire(expire) => expirations::expire(view, context, *expire),
        Intent::UpdateVersion(update) => versions::update(view, context, *update),
        Intent::Annotate(annotate) => annotations::annotate(view, context, *annotate),
        Intent::CopyObject(copy) => writes::copy(view, context, *copy),
        Intent::CopyObjects { source, bucket, entries } => {
            copies::copy_objects(view, context, (source, bucket), entries)
        }
        Intent::MoveObject(moved) => writes::move_object(view, context, *moved),
        Intent::MoveOnce { moved, token } => writes::move_once(view, context, *moved, &token),
        Intent::MovePrefix(moved, under) => moves::move_prefix(view, &moved, &under),
        Intent::CreateUpload { bucket, key, headers, attributes, checksum } => {
            let id = context.upload_id;
            let upload =
                Upload { id, bucket, key, initiated_ms: context.now_ms, headers: *headers, attributes, checksum };
            uploads::create(view, context, upload)
        }
        Intent::PutPart(put) => uploads::put_part(view, context, *put),
        Intent::CopyPart(copy) => uploads::copy_part(view, context, *copy),
        Intent::StoredCopy(copy) => stored_copies::stored_copy(view, context, *copy),
        Intent::SealStored(seal, blobs) => stored_sealing::seal_stored(view, context, *seal, blobs),
        Intent::AbortUpload { bucket, key, upload, idle_since_ms } => {
            uploads::abort(view, bucket, &key, upload, idle_since_ms)
        }
        Intent::CompleteUpload(complete) => uploads::complete(view, context, *complete),
    }
}
