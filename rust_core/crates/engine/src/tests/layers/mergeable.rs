//! Which layers are merged, by the stacks that name them.

use std::collections::BTreeSet;
use std::sync::Arc;

use bytes::Bytes;

use orcas_catalog::BucketTable;
use orcas_catalog::LayerMerge;
use orcas_fsck::bare_bucket;
use orcas_record::{Bucket, BucketId, BucketRole};

fn table(stacks: &[(u64, BucketRole, &[u64])]) -> BucketTable {
    let mut table = BucketTable::default();
    let bucket = |id: u64, role, layers: &[u64]| Bucket {
        layers: layers.iter().copied().map(BucketId).collect(),
        ..bare_bucket(BucketId(id), format!("{id}").into(), Bytes::new(), role)
    };
    for (id, role, layers) in stacks {
        for layer in layers.iter().filter(|layer| !stacks.iter().any(|(id, ..)| id == *layer)) {
            table.insert(Arc::new(bucket(*layer, BucketRole::Layer, &[])));
        }
        table.insert(Arc::new(bucket(*id, *role, layers)));
    }
    table
}

#[test]
fn layers_are_merged_that_are_in_the_same_stacks() {
    use BucketRole::{Bucket, Snapshot};
    let merge = |upper, lower| Some(LayerMerge { upper: BucketId(upper), lower: BucketId(lower) });
    type Stacks<'s> = &'s [(u64, BucketRole, &'s [u64])];
    let cases: &[(Stacks<'_>, Option<LayerMerge>)] = &[
        (&[], None),
        (&[(1, Bucket, &[])], None),
        // What takes writes stays.
        (&[(1, Bucket, &[5, 1])], None),
        (&[(1, Bucket, &[6, 5, 1])], merge(5, 1)),
        // The oldest first.
        (&[(1, Bucket, &[8, 7, 6, 5, 1])], merge(5, 1)),
        // A snapshot needs what is below apart from what is above.
        (&[(1, Bucket, &[6, 5, 1]), (2, Snapshot, &[1])], None),
        (&[(1, Bucket, &[6, 5, 1]), (2, Snapshot, &[5, 1])], merge(5, 1)),
        (&[(1, Bucket, &[7, 6, 5, 1]), (2, Snapshot, &[5, 1])], merge(5, 1)),
        (&[(1, Bucket, &[7, 6, 5, 1]), (2, Snapshot, &[5, 1]), (3, Snapshot, &[1])], None),
        (&[(1, Bucket, &[8, 7, 6, 5, 1]), (2, Snapshot, &[5, 1]), (3, Snapshot, &[1])], merge(7, 6)),
        // Forks that share layers, and one that has only the lowest.
        (&[(1, Bucket, &[6, 5, 1]), (2, Bucket, &[7, 5, 1]), (3, Bucket, &[8, 5, 1])], merge(5, 1)),
        (&[(1, Bucket, &[6, 5, 1]), (2, Bucket, &[7, 5, 1]), (3, Bucket, &[8, 1])], None),
        // A restored bucket left the layer of a fork that another stack has below it.
        (&[(1, Bucket, &[9, 1]), (2, Bucket, &[7, 5, 1]), (3, Snapshot, &[5, 1])], None),
        // After damage the same layer may be above different ones.
        (&[(1, Bucket, &[6, 5, 4, 1]), (2, Bucket, &[7, 5, 4])], None),
        (&[(1, Bucket, &[6, 5, 4]), (2, Bucket, &[7, 5, 3, 4])], None),
    ];
    for (stacks, expected) in cases {
        let table = table(stacks);
        assert_eq!(table.mergeable(&BTreeSet::new()), *expected, "{stacks:?}");
        for upper in 1..10 {
            for lower in 1..10 {
                let merge = LayerMerge { upper: BucketId(upper), lower: BucketId(lower) };
                assert!(table.mergeable(&BTreeSet::new()) != Some(merge) || table.can_merge(merge));
                let together = stacks.iter().all(|(_, _, layers)| layers.contains(&upper) == layers.contains(&lower));
                assert!(together || !table.can_merge(merge), "{stacks:?}: {merge:?}");
            }
        }
    }
}
