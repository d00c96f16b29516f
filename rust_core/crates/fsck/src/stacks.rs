//! The layers of buckets, as repairs and salvages infer them from the buckets that a damaged log still has.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;

use orcas_base::error::Result;
use orcas_decide::{delete_marker, layer_name};
use orcas_index::Index;
use orcas_record::{Bucket, BucketId, BucketRole, BucketSettings, LayerKind, Record, Version, VersionId, Versioning};

/// A bucket of which nothing is known but these: the record that created it is lost.
pub fn bare_bucket(id: BucketId, name: Bytes, owner: Bytes, role: BucketRole) -> Bucket {
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

/// What the versions under an id tell of what they are in.
#[derive(Clone, Copy, Default)]
pub(super) struct Traces {
    /// Some have names that were given since the id was: only a history has them.
    histories: bool,
    /// Some are older than the id: only amendments are.
    amendments: bool,
}

impl Traces {
    /// To be called with each version that is put there.
    pub fn see(&mut self, version: &Version) {
        match version.version_id.first_sequence() {
            Some(first) if first < version.bucket.0 => self.amendments = true,
            Some(_) => self.histories = true,
            None => {}
        }
    }
}

/// What is known when records that created layers are lost.
pub(super) struct KnownLayers<'b> {
    /// All that are there, of any role.
    pub buckets: BTreeMap<BucketId, &'b Bucket>,
    /// Tells buckets that were created as layers from those of clients.
    pub created: &'b dyn Fn(BucketId) -> bool,
}

impl KnownLayers<'_> {
    /// A layer whose record is lost; `None` if nothing tells that it was one.
    ///
    /// The two layers that take what is written are created together, that of amendments first. So their ids differ by
    /// one, and either tells what the other is. For other layers, the buckets that name them do.
    pub fn lost_layer(&self, id: BucketId, traces: Traces) -> Option<Bucket> {
        let created = |id: u64| self.buckets.get(&BucketId(id)).filter(|layer| (self.created)(layer.id));
        let is_top = |layer: &&&Bucket| {
            matches!(layer.role, BucketRole::Layer | BucketRole::Dropped) && layer.layer_kind() == LayerKind::History
        };
        if let Some(top) = created(id.0.saturating_add(1)).filter(is_top) {
            return Some(beside(top, id, BucketRole::Amendments));
        }
        if let Some(amendments) = created(id.0.saturating_sub(1)).filter(|layer| layer.role == BucketRole::Amendments) {
            return Some(beside(amendments, id, BucketRole::Layer));
        }
        let named_by: Vec<&&Bucket> = self.buckets.values().filter(|bucket| bucket.layers.contains(&id)).collect();
        let is_second = named_by.iter().any(|bucket| is_below_its_top(&bucket.layers, id));
        let role = if traces.amendments || is_second { BucketRole::Amendments } else { BucketRole::Layer };
        let Some(named) = named_by.first() else {
            let owner = self.buckets.values().next_back().map(|bucket| bucket.owner.clone()).unwrap_or_default();
            return traces.amendments.then(|| bare_bucket(id, lost_layer_name(id), owner, role));
        };
        let is_single = named_by.iter().any(|bucket| bucket.versioning == Versioning::Unversioned);
        let versioning = if is_single && !traces.histories { Versioning::Unversioned } else { Versioning::Enabled };
        Some(Bucket { versioning, ..bare_bucket(id, lost_layer_name(id), named.owner.clone(), role) })
    }
}

/// The other of two layers that were created together.
fn beside(layer: &Bucket, id: BucketId, role: BucketRole) -> Bucket {
    let made_for = layer.name.rsplitn(2, |byte| *byte == b'#').nth(1).unwrap_or_default();
    Bucket { id, name: layer_name(made_for, id), role, layers: Vec::new(), ..layer.clone() }
}

/// Whether the layer is the second of two that were created together. What a third one is, the ids do not tell.
fn is_below_its_top(layers: &[BucketId], id: BucketId) -> bool {
    let above = layers.iter().rev().skip_while(|layer| **layer != id).skip(1);
    above.zip(id.0.saturating_add(1)..).take_while(|(layer, next)| layer.0 == *next).count() == 1
}

/// The empty layers that take what is written to a bucket, in the order of their records. `first`: the id of the first.
pub(super) fn fresh_layers(bucket: &Bucket, first: BucketId) -> Vec<Bucket> {
    let roles: &[BucketRole] = match bucket.versioning {
        Versioning::Unversioned => &[BucketRole::Layer],
        Versioning::Enabled | Versioning::Suspended => &[BucketRole::Amendments, BucketRole::Layer],
    };
    let layer = |(id, role): (u64, &BucketRole)| {
        let id = BucketId(id);
        Bucket { id, name: layer_name(&bucket.name, id), role: *role, layers: Vec::new(), ..bucket.clone() }
    };
    (first.0..).zip(roles).map(layer).collect()
}

/// The layers that a bucket or snapshot gets.
pub(super) struct RepairedStack {
    pub bucket: BucketId,
    pub layers: Vec<BucketId>,
    pub versioning: Versioning,
    /// A layer that takes what is written is lost: the bucket needs empty ones above these before it is written to.
    pub needs_top: bool,
}

/// The buckets whose records do not tell their layers any more. `buckets` are all that are there, of any role.
///
/// The record that puts new layers on top of a bucket may be lost. Then nothing names them, but their own names say which
/// bucket they were made for, and their ids that they are newer than the others: so amendments come back to their place,
/// right below the layer that was created after them. The record that gives layers up, or removes one that was merged,
/// may be there and another one be lost: then a bucket or a snapshot names layers that are gone.
pub(super) fn repaired_stacks<'b>(buckets: impl IntoIterator<Item = &'b Bucket>) -> Vec<RepairedStack> {
    let buckets: BTreeMap<BucketId, &Bucket> = buckets.into_iter().map(|bucket| (bucket.id, bucket)).collect();
    let mut named: BTreeMap<BucketId, usize> = BTreeMap::new();
    for layer in buckets.values().flat_map(|bucket| &bucket.layers) {
        *named.entry(*layer).or_default() += 1;
    }
    let is_layer = |bucket: &Bucket| matches!(bucket.role, BucketRole::Layer | BucketRole::Amendments);
    let is_lone = |bucket: &&&Bucket| is_layer(bucket) && !named.contains_key(&bucket.id);
    let lone: Vec<&Bucket> = buckets.values().filter(is_lone).copied().collect();
    let there = |layer: &BucketId| buckets.get(layer).is_some_and(|bucket| bucket.role != BucketRole::Dropped);
    let mut repaired = Vec::new();
    let is_stack = |role| matches!(role, BucketRole::Bucket | BucketRole::Snapshot);
    for bucket in buckets.values().filter(|bucket| is_stack(bucket.role)) {
        let mut layers: Vec<BucketId> = bucket.stack().iter().copied().filter(there).collect();
        let newest = layers.iter().copied().max().max(Some(bucket.id));
        let is_of = |layer: &&&Bucket| Some(layer.id) > newest && layer.name == layer_name(&bucket.name, layer.id);
        let is_written = bucket.role == BucketRole::Bucket;
        let above: Vec<&Bucket> = lone.iter().filter(|layer| is_written && is_of(layer)).copied().rev().collect();
        layers.splice(0..0, above.iter().map(|layer| layer.id));
        // The record that gave it layers for histories also gave it versioning.
        let has_histories = above.iter().any(|layer| layer.layer_kind() != LayerKind::Single);
        let versioning = match bucket.versioning {
            Versioning::Unversioned if has_histories => Versioning::Enabled,
            versioning => versioning,
        };
        let alone = |layer: &BucketId| {
            let by_itself = usize::from(bucket.layers.contains(layer));
            named.get(layer).copied().unwrap_or_default() == by_itself
        };
        let is_written_alone = |layer: Option<&BucketId>, role| {
            layer.is_some_and(|layer| alone(layer) && buckets.get(layer).is_some_and(|found| found.role == role))
        };
        let has_top = match versioning {
            _ if layers == [bucket.id] && bucket.layers.is_empty() => alone(&bucket.id),
            Versioning::Unversioned => is_written_alone(layers.first(), BucketRole::Layer),
            Versioning::Enabled | Versioning::Suspended => {
                is_written_alone(layers.first(), BucketRole::Layer)
                    && is_written_alone(layers.get(1), BucketRole::Amendments)
            }
        };
        let needs_top = is_written && !has_top;
        if layers != bucket.stack() || needs_top {
            repaired.push(RepairedStack { bucket: bucket.id, layers, versioning, needs_top });
        }
    }
    repaired
}

/// The records that take a version out of what is shown. `buckets` are all that are there, of any role.
///
/// In a history, an older version of the key is shown then, as in a bucket without layers. No other state of the same
/// version may take its place: below a layer from before versioning, below amendments, and for a null version, which
/// replaced that of the layers below, a delete marker sees to that.
///
/// # Errors
/// When the index cannot be read.
pub fn removal_of_lost<'b>(
    index: &Index,
    buckets: impl IntoIterator<Item = &'b Bucket>,
    (layer, key, id): (BucketId, &Bytes, VersionId),
) -> Result<Vec<Record>> {
    let buckets: BTreeMap<BucketId, &Bucket> = buckets.into_iter().map(|bucket| (bucket.id, bucket)).collect();
    let kind = |layer| buckets.get(&layer).map_or(LayerKind::History, |layer: &&Bucket| layer.layer_kind());
    let is_bucket = |layer| buckets.get(&layer).is_none_or(|bucket: &&Bucket| bucket.role == BucketRole::Bucket);
    let removed = |bucket| Record::DeleteVersion { bucket, key: key.clone(), version_id: id };
    let hidden = |bucket| Record::PutVersion(delete_marker(bucket, key.clone(), id, 0));
    match kind(layer) {
        LayerKind::Amendments => return Ok(vec![hidden(layer)]),
        // The lowest layer needs no marker.
        LayerKind::Single if !is_bucket(layer) => return Ok(vec![hidden(layer)]),
        LayerKind::Single | LayerKind::History => {}
    }
    let mut records = vec![removed(layer)];
    if id != VersionId::Null {
        return Ok(records);
    }
    let in_stack = buckets.values().map(|bucket| &bucket.layers[..]).find(|layers| layers.contains(&layer));
    let below = in_stack.and_then(|layers| layers.split(|other| *other == layer).next_back()).unwrap_or_default();
    let is_shared = |other: &BucketId| {
        buckets.values().any(|bucket| bucket.layers.contains(other) && !bucket.layers.contains(&layer))
    };
    for (at, other) in below.iter().enumerate().take_while(|(_, other)| !is_shared(other)) {
        match kind(*other) {
            LayerKind::Amendments => {
                if has(index, &below[at..], key, id)? {
                    records.push(hidden(*other));
                }
                return Ok(records);
            }
            _ if !has(index, &[*other], key, id)? => {}
            LayerKind::Single if !is_bucket(*other) => {
                records.push(hidden(*other));
                return Ok(records);
            }
            // Nothing shows what the layer above had replaced.
            LayerKind::History | LayerKind::Single => records.push(removed(*other)),
        }
    }
    Ok(records)
}

fn has(index: &Index, layers: &[BucketId], key: &[u8], id: VersionId) -> Result<bool> {
    let reader = index.read()?;
    for layer in layers {
        if reader.version(*layer, key, id)?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The layers that no bucket and no snapshot has, also once these stacks are repaired: the record of a fork is lost, say.
/// Their objects need a bucket to be seen. Those of amendments do not: they concern versions that other layers have,
/// and each of these layers is in a stack or gets a bucket itself. `buckets` are all that are there, of any role.
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

/// A bucket for a layer that nothing else shows. `layers` are its stack.
pub(super) fn bucket_of_lost(layer: &Bucket, id: BucketId, layers: Vec<BucketId>) -> Bucket {
    let (versioning, object_lock) = (layer.versioning, layer.object_lock);
    let bare = bare_bucket(id, lost_bucket_name(layer.id).into(), layer.owner.clone(), BucketRole::Bucket);
    Bucket { versioning, object_lock, layers, ..bare }
}

/// The names of buckets of any role in reports. A layer has the name of the bucket or snapshot that shows it: before all
/// others, of the bucket that it is the top layer of.
pub fn reported_names<'b>(buckets: impl IntoIterator<Item = &'b Bucket>) -> BTreeMap<BucketId, String> {
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
