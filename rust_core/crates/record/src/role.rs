//! What a bucket is for: layers and snapshots are buckets too.

/// What a bucket is for. Clients see those of the role `Bucket` alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketRole {
    Bucket,
    /// Holds objects that other buckets show.
    Layer,
    /// Names the layers of a bucket at one moment.
    Snapshot,
    /// A layer that nothing names any more: what it holds is being removed.
    Dropped,
}
