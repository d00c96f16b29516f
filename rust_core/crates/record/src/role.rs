//! The role of a bucket: layers and snapshots are buckets too.

/// The role of a bucket. Clients see those of the role `Bucket` alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BucketRole {
    Bucket,
    /// Holds objects that other buckets show.
    Layer,
    /// Names the layers of a bucket at one moment.
    Snapshot,
    /// A layer that nothing names any more: what it holds is being removed.
    Dropped,
    /// A layer of a bucket with versioning that says what became of versions that the layers below it have: a delete
    /// marker removes the version with its id, and any other version takes the place of that one.
    Amendments,
}

/// The meaning of the versions in a layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayerKind {
    /// A layer from before versioning: a key has one version, and a delete marker hides the key in the layers below.
    Single,
    /// A layer of a bucket with versioning: a key has a history, which goes on in the layers below.
    History,
    /// See [`BucketRole::Amendments`].
    Amendments,
}
