//! The layers of buckets, as repairs and salvages infer them from the buckets that a damaged log still has.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use orcas_decide::layer_name;
use orcas_record::{Bucket, BucketId, BucketRole, BucketSettings, Versioning};

/// A bucket of which nothing is known but these: the record that created it is lost.
pub(super) fn bare_bucket(id: BucketId, name: Bytes, owner: Bytes, role: BucketRole) -> Bucket {
    Bucket {
        id,
        name,
        owner,
        created_ms: 0,
        location: Bytes::new(),
        versioning: Versioning::Unversioned,
        object_lock: None,
        settings: BucketSettings::default(),
        role,
        layers: Vec::new(),
    }
}

/// The name of a bucket that is made up: for the objects under this id.
pub(super) fn lost_bucket_name(id: BucketId) -> String {
    format!("lost-bucket-{}", id.0)
}

/// The name of a layer whose record is lost, which no client sees.
pub(super) fn lost_layer_name(id: BucketId) -> Bytes {
    layer_name(b"lost-layer", id)
}

/// The layers that a bucket or snapshot gets.
pub(super) struct RepairedStack {
    pub bucket: BucketId,
    pub layers: Vec<BucketId>,
    /// The top layer is lost: the bucket needs an empty one above these before it is written to.
    pub needs_top: bool,
}

/// The buckets whose records do not tell their layers any more. `buckets` are all that are there, of any role.
///
/// The record that puts a new layer on top of a bucket may be lost. Then nothing names the layer, but its own name says
/// which bucket it was made for, and its id that it is newer than the others. The record that gives layers up, or removes
/// one that was merged, may be there and another one be lost: then a bucket or a snapshot names layers that are gone.
pub(super) fn repaired_stacks<'b>(buckets: impl IntoIterator<Item = &'b Bucket>) -> Vec<RepairedStack> {
    let buckets: BTreeMap<BucketId, &Bucket> = buckets.into_iter().map(|bucket| (bucket.id, bucket)).collect();
    let named: BTreeSet<BucketId> = buckets.values().flat_map(|bucket| bucket.layers.iter().copied()).collect();
    let is_lone = |bucket: &&&Bucket| bucket.role == BucketRole::Layer && !named.contains(&bucket.id);
    let lone: Vec<&Bucket> = buckets.values().filter(is_lone).copied().collect();
    let there = |layer: &BucketId| buckets.get(layer).is_some_and(|bucket| bucket.role != BucketRole::Dropped);
    let mut repaired = Vec::new();
    let is_stack = |role| matches!(role, BucketRole::Bucket | BucketRole::Snapshot);
    for bucket in buckets.values().filter(|bucket| is_stack(bucket.role)) {
        let mut layers: Vec<BucketId> = bucket.stack().iter().copied().filter(there).collect();
        let newest = layers.iter().copied().max().max(Some(bucket.id));
        let is_of = |layer: &&&Bucket| Some(layer.id) > newest && layer.name == layer_name(&bucket.name, layer.id);
        let is_written = bucket.role == BucketRole::Bucket;
        let above: Vec<BucketId> =
            lone.iter().filter(|layer| is_written && is_of(layer)).map(|layer| layer.id).rev().collect();
        if above.is_empty() && layers.len() == bucket.stack().len() {
            continue;
        }
        let needs_top = is_written && above.is_empty() && layers.first() != Some(&bucket.top());
        layers.splice(0..0, above);
        repaired.push(RepairedStack { bucket: bucket.id, layers, needs_top });
    }
    repaired
}

/// The layers that no bucket and no snapshot has, also once these stacks are repaired: the record of a fork is lost, say.
/// Their objects need a bucket to be seen. `buckets` are all that are there, of any role.
pub(super) fn lost_layers<'b>(
    buckets: impl IntoIterator<Item = &'b Bucket>,
    repaired: &[RepairedStack],
    has_objects: impl Fn(BucketId) -> bool,
) -> Vec<&'b Bucket> {
    let buckets: Vec<&Bucket> = buckets.into_iter().collect();
    let named = buckets.iter().flat_map(|bucket| &bucket.layers);
    let named: BTreeSet<BucketId> = named.chain(repaired.iter().flat_map(|stack| &stack.layers)).copied().collect();
    let is_lost =
        |bucket: &&Bucket| bucket.role == BucketRole::Layer && !named.contains(&bucket.id) && has_objects(bucket.id);
    let mut lost: Vec<&Bucket> = buckets.into_iter().filter(is_lost).collect();
    lost.sort_unstable_by_key(|layer| layer.id);
    lost
}

/// The names of buckets of any role in reports. A layer has the name of the bucket or snapshot that shows it: before all
/// others, of the bucket that it is the top layer of.
pub(super) fn reported_names<'b>(buckets: impl IntoIterator<Item = &'b Bucket>) -> BTreeMap<BucketId, String> {
    let buckets: Vec<&Bucket> = buckets.into_iter().collect();
    let name_of = |bucket: &Bucket| String::from_utf8_lossy(&bucket.name).into_owned();
    let mut names: BTreeMap<_, _> = buckets.iter().map(|bucket| (bucket.id, name_of(bucket))).collect();
    let of_role = |role| buckets.iter().filter(move |bucket| bucket.role == role);
    let below = of_role(BucketRole::Snapshot).chain(of_role(BucketRole::Bucket));
    let below = below.flat_map(|bucket| bucket.layers.iter().map(move |layer| (*layer, bucket)));
    let top = of_role(BucketRole::Bucket).map(|bucket| (bucket.top(), bucket));
    for (layer, bucket) in below.chain(top) {
        if let Some(name) = names.get_mut(&layer) {
            *name = name_of(bucket);
        }
    }
    // What has a name of its own keeps it.
    names.extend(of_role(BucketRole::Bucket).map(|bucket| (bucket.id, name_of(bucket))));
    names
}
