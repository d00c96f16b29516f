//! Which layers can be merged: two that are in the same stacks, one right above the other, and above the same layers.
//! One layer could show what they show together, if their kinds allow that.
//!
//! Invariants. Two layers that can be merged stay so until nothing names them, because new stacks are made of old ones.
//! Both are frozen, so nothing but the merge changes what is in them. This knows nothing of objects.

use std::collections::{BTreeMap, BTreeSet};

use super::buckets::BucketTable;
use orcas_base::planted::{self, Bug};
use orcas_record::{Bucket, BucketId, BucketRole, LayerKind};

/// Two layers to be merged: the contents of the upper one go to the lower one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LayerMerge {
    pub upper: BucketId,
    pub lower: BucketId,
}

/// The place of a layer in all stacks that have it.
#[derive(Default)]
struct Places<'b> {
    /// Stacks that have it.
    stacks: usize,
    below: &'b [BucketId],
    /// The layer takes writes, or the layers below it are not the same everywhere.
    stays: bool,
}

/// The layers of a bucket of clients or of a snapshot, and how many of them take writes.
fn stack_of(bucket: &Bucket) -> Option<(&[BucketId], usize)> {
    match bucket.role {
        BucketRole::Bucket => Some((bucket.stack(), bucket.written().len())),
        BucketRole::Snapshot => Some((&bucket.layers, 0)),
        BucketRole::Layer | BucketRole::Amendments | BucketRole::Dropped => None,
    }
}

impl BucketTable {
    /// Two layers that can be merged, other than those. The oldest upper one is chosen, so that nothing is moved twice.
    pub fn mergeable(&self, kept_apart: &BTreeSet<LayerMerge>) -> Option<LayerMerge> {
        let mut places: BTreeMap<BucketId, Places<'_>> = BTreeMap::new();
        for (stack, written) in self.of_any_role().filter_map(|bucket| stack_of(bucket)) {
            for (at, layer) in stack.iter().enumerate() {
                let below = &stack[at + 1..];
                let place = places.entry(*layer).or_default();
                place.stays |= at < written || place.stacks > 0 && place.below != below;
                place.stacks += 1;
                place.below = below;
            }
        }
        let merge = |(upper, place): (&BucketId, &Places<'_>)| {
            let (lower, below) = place.below.split_first().filter(|_| !place.stays)?;
            let merge = LayerMerge { upper: *upper, lower: *lower };
            let reached = [Some(*lower), self.reached_below(merge, below)];
            let alike = planted::is(Bug::MergeOfSharedLayers)
                || reached.into_iter().flatten().all(|it| places.get(&it).is_some_and(|it| it.stacks == place.stacks));
            (alike && self.are_of_kinds(merge, below) && !kept_apart.contains(&merge)).then_some(merge)
        };
        places.iter().find_map(merge)
    }

    /// Whether two layers can be merged.
    pub fn can_merge(&self, merge: LayerMerge) -> bool {
        let mut from_lower: Option<&[BucketId]> = None;
        let stacks = || self.of_any_role().filter_map(|bucket| stack_of(bucket));
        for (stack, written) in stacks() {
            let upper = stack.iter().position(|layer| *layer == merge.upper);
            let lower = stack.iter().position(|layer| *layer == merge.lower);
            match (upper, lower) {
                (None, None) => {}
                (Some(upper), Some(lower))
                    if upper + 1 == lower
                        && upper >= written
                        && **from_lower.get_or_insert(&stack[lower..]) == stack[lower..] => {}
                _ if planted::is(Bug::MergeOfSharedLayers) => {}
                _ => return false,
            }
        }
        let Some((_, below)) = from_lower.and_then(|layers| layers.split_first()) else { return false };
        let is_alike = |reached| stacks().all(|(stack, _)| stack.contains(&reached) == stack.contains(&merge.lower));
        self.are_of_kinds(merge, below)
            && (planted::is(Bug::MergeOfSharedLayers) || self.reached_below(merge, below).is_none_or(is_alike))
    }

    fn kind(&self, layer: BucketId) -> Option<LayerKind> {
        self.by_id(layer).map(|layer| layer.layer_kind())
    }

    /// The layer below both that gets what the lower one has no place for.
    pub fn reached_below(&self, merge: LayerMerge, below: &[BucketId]) -> Option<BucketId> {
        let is_kind = (self.kind(merge.upper), self.kind(merge.lower));
        below.first().copied().filter(|_| is_kind == (Some(LayerKind::Amendments), Some(LayerKind::History)))
    }

    /// Whether the versions of two layers can be in the lower one. `below` are the layers below both.
    fn are_of_kinds(&self, merge: LayerMerge, below: &[BucketId]) -> bool {
        use LayerKind::{Amendments, History, Single};
        let is_layer = |bucket: &Bucket| matches!(bucket.role, BucketRole::Layer | BucketRole::Amendments);
        let (Some(upper), Some(lower)) = (self.kind(merge.upper), self.kind(merge.lower)) else { return false };
        self.by_id(merge.upper).is_some_and(|upper| is_layer(upper))
            && match (upper, lower) {
                (Single | Amendments, Single) | (History, History) => true,
                // The layer under the own id of a bucket that had layers before it had versioning. So it has objects of
                // one version, and no delete markers.
                (Single, History) => below.is_empty(),
                // The lower layer itself is merged before, if there is another history right below it.
                (Amendments, History) => {
                    below.first().is_none_or(|next| matches!(self.kind(*next), Some(Amendments | Single)))
                }
                (History | Single, Amendments) | (Amendments, Amendments) | (History, Single) => false,
            }
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
