//! Which layers can be merged: two that are in the same stacks, one right above the other, and above the same layers.
//! One layer could show what they show together.
//!
//! Invariants. Two layers that can be merged stay so until nothing names them, because new stacks are made of old ones.
//! Both are frozen, so nothing but the merge changes what is in them. This knows nothing of objects.

use std::collections::BTreeMap;

use super::buckets::BucketTable;
use orcas_base::planted::{self, Bug};
use orcas_record::{Bucket, BucketId, BucketRole};

/// What the upper layer has goes to the lower one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LayerMerge {
    pub upper: BucketId,
    pub lower: BucketId,
}

/// What the stacks tell of a layer.
#[derive(Default)]
struct Places<'b> {
    /// Stacks that have it.
    stacks: usize,
    below: &'b [BucketId],
    /// It takes writes, or not the same layers are below it everywhere.
    stays: bool,
}

/// The layers of a bucket of clients or of a snapshot; whether the first of them takes writes.
fn stack_of(bucket: &Bucket) -> Option<(&[BucketId], bool)> {
    match bucket.role {
        BucketRole::Bucket => Some((bucket.stack(), true)),
        BucketRole::Snapshot => Some((&bucket.layers, false)),
        BucketRole::Layer | BucketRole::Amendments | BucketRole::Dropped => None,
    }
}

impl BucketTable {
    /// Two layers that can be merged. The oldest upper one is chosen, so that nothing is moved twice.
    pub fn mergeable(&self) -> Option<LayerMerge> {
        let mut places: BTreeMap<BucketId, Places<'_>> = BTreeMap::new();
        for (stack, is_written) in self.of_any_role().filter_map(|bucket| stack_of(bucket)) {
            for (at, layer) in stack.iter().enumerate() {
                let below = &stack[at + 1..];
                let place = places.entry(*layer).or_default();
                place.stays |= is_written && at == 0 || place.stacks > 0 && place.below != below;
                place.stacks += 1;
                place.below = below;
            }
        }
        let merge = |(upper, place): (&BucketId, &Places<'_>)| {
            let lower = *place.below.first().filter(|_| !place.stays)?;
            let alike = planted::is(Bug::MergeOfSharedLayers)
                || places.get(&lower).is_some_and(|below| below.stacks == place.stacks);
            let is_layer = self.by_id(*upper).is_some_and(|bucket| bucket.role == BucketRole::Layer);
            (alike && is_layer && self.by_id(lower).is_some()).then_some(LayerMerge { upper: *upper, lower })
        };
        places.iter().find_map(merge)
    }

    /// Whether two layers can be merged.
    pub fn can_merge(&self, merge: LayerMerge) -> bool {
        let mut below: Option<&[BucketId]> = None;
        for (stack, is_written) in self.of_any_role().filter_map(|bucket| stack_of(bucket)) {
            let upper = stack.iter().position(|layer| *layer == merge.upper);
            let lower = stack.iter().position(|layer| *layer == merge.lower);
            match (upper, lower) {
                (None, None) => {}
                (Some(upper), Some(lower))
                    if upper + 1 == lower
                        && !(is_written && upper == 0)
                        && **below.get_or_insert(&stack[lower..]) == stack[lower..] => {}
                _ if planted::is(Bug::MergeOfSharedLayers) => {}
                _ => return false,
            }
        }
        let is_layer = |bucket: &Bucket| bucket.role == BucketRole::Layer;
        below.is_some()
            && self.by_id(merge.upper).is_some_and(|upper| is_layer(upper))
            && self.by_id(merge.lower).is_some()
    }

    /// The buckets and snapshots that have a layer in their stack.
    pub fn with_layer(&self, layer: BucketId) -> impl Iterator<Item = &Bucket> {
        self.of_any_role().map(|bucket| &**bucket).filter(move |bucket| bucket.layers.contains(&layer))
    }

    /// The layers below this one.
    pub fn below(&self, layer: BucketId) -> &[BucketId] {
        let stack = self.with_layer(layer).next().map(|bucket| &bucket.layers[..]).unwrap_or_default();
        let at = stack.iter().position(|other| *other == layer);
        at.map(|at| &stack[at + 1..]).unwrap_or_default()
    }
}
