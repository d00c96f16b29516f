//! Snapshots, forks and restores of buckets, and their deletion, which gives up layers. A layer is frozen by being
//! named in a second place, so none of these costs more for a bucket with many objects.

use std::sync::Arc;

use bytes::Bytes;

use crate::buckets::creation::{check_name_is_free, live_bucket};
use crate::decision::{Context, Decision};
use crate::limits::{DOCUMENTS_LEN_MAX, LAYERS_MAX, SNAPSHOT_NAME_LEN_MAX, SNAPSHOTS_MAX};
use crate::outcome::{Failure, Outcome, Refusal};
use crate::view::View;
use orcas_base::error::Result;
use orcas_base::planted::{self, Bug};
use orcas_record::{Bucket, BucketId, BucketRole, DocumentKind, Record, Versioning};

/// The name under which a snapshot is kept. No bucket of clients has one like it.
pub fn snapshot_name(bucket: &[u8], snapshot: &[u8]) -> Bytes {
    [bucket, b"@", snapshot].concat().into()
}

/// The name of a layer: that of the bucket it was made for, and its number. Repairs tell from it where a layer belongs.
pub fn layer_name(bucket: &[u8], id: BucketId) -> Bytes {
    [bucket, b"#", id.0.to_string().as_bytes()].concat().into()
}

/// Records of a decision, each with the sequence that it gets.
struct Records<'a> {
    context: &'a Context,
    records: Vec<Record>,
}

impl Records<'_> {
    /// The id of the bucket that the next record creates.
    fn next_id(&self) -> BucketId {
        BucketId(self.context.next_sequence + self.records.len() as u64)
    }

    fn push_layer(&mut self, bucket: &Bucket, role: BucketRole) -> BucketId {
        let id = self.next_id();
        self.records.push(Record::CreateBucket(Bucket {
            id,
            name: layer_name(&bucket.name, id),
            created_ms: self.context.now_ms,
            role,
            layers: Vec::new(),
            ..bucket.clone()
        }));
        id
    }

    /// Creates the empty layers that take what is written to `bucket`. Returns them with those `below`.
    fn push_layers(&mut self, bucket: &Bucket, below: &[BucketId]) -> Vec<BucketId> {
        let amendments = match bucket.versioning {
            Versioning::Unversioned => None,
            Versioning::Enabled | Versioning::Suspended => Some(self.push_layer(bucket, BucketRole::Amendments)),
        };
        let top = self.push_layer(bucket, BucketRole::Layer);
        std::iter::once(top).chain(amendments).chain(below.iter().copied()).collect()
    }

    /// Gives `bucket` empty layers above `below`.
    fn push_stack(&mut self, bucket: &Bucket, below: &[BucketId]) -> Bucket {
        let bucket = Bucket { layers: self.push_layers(bucket, below), ..bucket.clone() };
        self.records.push(Record::UpdateBucket(bucket.clone()));
        bucket
    }

    /// Drops those of `layers` that nothing but the bucket or snapshot `by`, which gives them up, names.
    fn push_drops(&mut self, view: &dyn View, by: BucketId, layers: &[BucketId]) {
        let is_named = |layer: &BucketId| view.is_named_beside(*layer, by) && !planted::is(Bug::SharedLayerDropped);
        for layer in layers.iter().filter(|layer| !is_named(layer)).filter_map(|id| view.bucket(*id)) {
            if matches!(layer.role, BucketRole::Layer | BucketRole::Amendments) {
                self.records.push(Record::UpdateBucket(Bucket { role: BucketRole::Dropped, ..Bucket::clone(&layer) }));
            }
        }
    }

    /// Freezes what `bucket` shows now, and returns the layers that show it.
    fn push_freeze(&mut self, view: &dyn View, bucket: &Bucket) -> Result<Vec<BucketId>, Failure> {
        if !bucket.lower().is_empty() && are_empty(view, bucket.written())? {
            // Nothing has changed since the last time.
            return Ok(bucket.lower().to_vec());
        }
        let frozen = bucket.stack().to_vec();
        check_depth(view, &frozen)?;
        if !planted::is(Bug::SnapshotWithoutFreeze) {
            self.push_stack(bucket, &frozen);
        }
        Ok(frozen)
    }
}

pub(crate) fn create(view: &dyn View, context: &Context, bucket: BucketId, name: &[u8]) -> Result<Decision, Failure> {
    let bucket = live_bucket(view, bucket)?;
    check_snapshot_name(name)?;
    let full_name = snapshot_name(&bucket.name, name);
    if view.snapshot(&full_name).is_some() {
        return Err(Refusal::SnapshotAlreadyExists.into());
    }
    if view.snapshot_count() >= SNAPSHOTS_MAX {
        return Err(Refusal::InvalidRequest { reason: "There are as many snapshots as are allowed." }.into());
    }
    let mut made = Records { context, records: Vec::new() };
    let layers = made.push_freeze(view, &bucket)?;
    let snapshot = Bucket {
        id: made.next_id(),
        name: full_name,
        created_ms: context.now_ms,
        role: BucketRole::Snapshot,
        layers,
        ..Bucket::clone(&bucket)
    };
    made.records.push(Record::CreateBucket(snapshot.clone()));
    Ok(Decision { outcome: Outcome::Bucket(Arc::new(snapshot)), records: made.records })
}

/// Layers that nothing else names go with it.
pub(crate) fn delete(view: &dyn View, context: &Context, bucket: BucketId, name: &[u8]) -> Result<Decision, Failure> {
    let bucket = live_bucket(view, bucket)?;
    let snapshot = snapshot_of(view, &bucket, name)?;
    let mut made = Records { context, records: vec![Record::DeleteBucket { bucket: snapshot.id }] };
    made.push_drops(view, snapshot.id, &snapshot.layers);
    Ok(Decision { outcome: Outcome::Done, records: made.records })
}

/// Only an empty bucket goes.
pub(crate) fn delete_bucket(view: &dyn View, context: &Context, bucket: BucketId) -> Result<Decision, Failure> {
    let bucket = bucket_to_delete(view, bucket)?;
    let is_empty = match bucket.layers.is_empty() {
        true => view.bucket_is_empty(bucket.id)?,
        false => view.shows_nothing(&bucket)?,
    };
    if !is_empty {
        return Err(Refusal::BucketNotEmpty.into());
    }
    if !bucket.layers.is_empty() {
        return Ok(give_up(view, context, &bucket));
    }
    Ok(Decision { outcome: Outcome::Done, records: vec![Record::DeleteBucket { bucket: bucket.id }] })
}

/// The bucket goes with all that it has, at once: reclamation empties it.
pub(crate) fn drop_bucket(view: &dyn View, context: &Context, bucket: BucketId) -> Result<Decision, Failure> {
    Ok(give_up(view, context, &*bucket_to_delete(view, bucket)?))
}

fn bucket_to_delete(view: &dyn View, bucket: BucketId) -> Result<Arc<Bucket>, Failure> {
    let bucket = live_bucket(view, bucket)?;
    if view.has_snapshots(&bucket) {
        let reason = "The bucket has snapshots: delete them first.";
        return Err(Refusal::InvalidBucketState { reason }.into());
    }
    Ok(bucket)
}

/// Turns the bucket into a layer that goes, with its own ones. What others show of it stays.
fn give_up(view: &dyn View, context: &Context, bucket: &Bucket) -> Decision {
    let mut made = Records { context, records: Vec::new() };
    let role = if view.is_named_beside(bucket.id, bucket.id) { BucketRole::Layer } else { BucketRole::Dropped };
    let name = layer_name(&bucket.name, bucket.id);
    made.records.push(Record::UpdateBucket(Bucket { name, role, layers: Vec::new(), ..bucket.clone() }));
    made.push_drops(view, bucket.id, &bucket.layers);
    Decision { outcome: Outcome::Done, records: made.records }
}

/// The fork gets the settings and the documents that the bucket has now, also as a fork of a snapshot.
pub(crate) fn fork(
    view: &dyn View,
    context: &Context,
    bucket: BucketId,
    snapshot: Option<Bytes>,
    name: Bytes,
) -> Result<Decision, Failure> {
    let bucket = live_bucket(view, bucket)?;
    check_name_is_free(view, &name, &bucket.owner)?;
    let mut made = Records { context, records: Vec::new() };
    let below = match snapshot {
        Some(snapshot) => snapshot_of(view, &bucket, &snapshot)?.layers.clone(),
        None => made.push_freeze(view, &bucket)?,
    };
    let fork = Bucket { name, created_ms: context.now_ms, ..Bucket::clone(&bucket) };
    let layers = made.push_layers(&fork, &below);
    let id = made.next_id();
    let fork = Bucket { id, layers, ..fork };
    made.records.push(Record::CreateBucket(fork.clone()));
    let mut documents_len = view.documents_len();
    // The copies of the bucket are not those of its fork.
    for kind in DocumentKind::ALL.into_iter().filter(|kind| *kind != DocumentKind::Replication) {
        if let Some(document) = view.document(bucket.id, kind) {
            documents_len += document.len();
            made.records.push(Record::PutDocument { bucket: id, kind, document });
        }
    }
    if documents_len > DOCUMENTS_LEN_MAX {
        return Err(Refusal::TooManyDocuments.into());
    }
    Ok(Decision { outcome: Outcome::Bucket(Arc::new(fork)), records: made.records })
}

/// What the bucket shows now goes, unless a snapshot or a fork shows it too.
pub(crate) fn restore(view: &dyn View, context: &Context, bucket: BucketId, name: &[u8]) -> Result<Decision, Failure> {
    let bucket = live_bucket(view, bucket)?;
    if bucket.object_lock.is_some() {
        let reason = "A restore would remove what was written since, which Object Lock forbids: fork the snapshot.";
        return Err(Refusal::InvalidBucketState { reason }.into());
    }
    let snapshot = snapshot_of(view, &bucket, name)?;
    let mut made = Records { context, records: Vec::new() };
    let restored = made.push_stack(&bucket, &snapshot.layers);
    let given_up: Vec<BucketId> =
        bucket.layers.iter().filter(|layer| !restored.layers.contains(layer)).copied().collect();
    made.push_drops(view, bucket.id, &given_up);
    Ok(Decision { outcome: Outcome::Bucket(Arc::new(restored)), records: made.records })
}

/// Gives a bucket with layers its first versioning, which `bucket` says. From now on it has histories, which do not
/// go into a layer from before.
pub(crate) fn begin_histories(view: &dyn View, context: &Context, bucket: &Bucket) -> Result<Decision, Failure> {
    let mut made = Records { context, records: Vec::new() };
    check_depth(view, &bucket.layers)?;
    let bucket = made.push_stack(bucket, &bucket.layers);
    Ok(Decision { outcome: Outcome::Bucket(Arc::new(bucket)), records: made.records })
}

fn are_empty(view: &dyn View, layers: &[BucketId]) -> Result<bool> {
    for layer in layers {
        if !view.bucket_is_empty(*layer)? {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Whether there may be one more layer above these. Those of amendments do not count.
fn check_depth(view: &dyn View, layers: &[BucketId]) -> Result<(), Refusal> {
    let counts = |layer: &&BucketId| view.bucket(**layer).is_none_or(|layer| layer.role != BucketRole::Amendments);
    if layers.iter().filter(counts).count() < LAYERS_MAX {
        return Ok(());
    }
    let reason = "The bucket has changed between too many snapshots and forks: delete some and wait for their layers.";
    Err(Refusal::InvalidBucketState { reason })
}

fn snapshot_of(view: &dyn View, bucket: &Bucket, name: &[u8]) -> Result<Arc<Bucket>, Refusal> {
    view.snapshot(&snapshot_name(&bucket.name, name)).ok_or(Refusal::NoSuchSnapshot)
}

fn check_snapshot_name(name: &[u8]) -> Result<(), Refusal> {
    // One that began with a hyphen would be an option on the command line, and . and .. are no segments of a path.
    let begins = name.first().is_some_and(u8::is_ascii_alphanumeric);
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    if begins && name.len() <= SNAPSHOT_NAME_LEN_MAX && name.iter().all(allowed) {
        return Ok(());
    }
    let reason = "The name of a snapshot has 1 to 63 letters, digits, periods, underscores and hyphens, and begins with \
                  a letter or a digit.";
    Err(Refusal::InvalidRequest { reason })
}
