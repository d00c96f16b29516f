//! The intents that the engine submits to its own committer, and their results.

use std::sync::Arc;

use bytes::Bytes;

use orcas_catalog::LayerMerge;
use orcas_decide::UploadPin;
use orcas_record::{BucketId, ChunkMove, ContentMove, LogFileId, Object, PackId, Sequence, VersionId};

/// A mutation that no client asked for. It changes where content is and what is kept, never what clients see.
pub(crate) enum MaintenanceIntent {
    /// Changes nothing. When it is answered, everything decided before is durable, or is void for good if it failed.
    /// With `roll` the log continues in a new file.
    Barrier {
        roll: bool,
    },
    /// Gives up blobs that nothing seems to refer to.
    CondemnBlobs {
        blobs: Vec<Sequence>,
    },
    /// Chunks of one pack that are now durable in others.
    MoveChunks {
        from: PackId,
        moves: Vec<ChunkMove>,
        pins: Vec<UploadPin>,
    },
    /// Ends a pack that nothing seems to need.
    RetirePack {
        pack: PackId,
    },
    ReplaceLog(Box<ReplaceLog>),
    /// Removes versions of a layer that was dropped, and the layer itself when none is left.
    RemoveLayer {
        layer: BucketId,
        versions: Vec<(Bytes, VersionId)>,
    },
    /// Merges these versions of the upper layer into what is below it. Without any, it removes the upper layer if that has none
    /// left.
    MergeLayers {
        merge: LayerMerge,
        versions: Vec<MergedVersion>,
    },
}

/// A version of the upper layer, as it was found while nothing but a merge could change it.
pub(crate) struct MergedVersion {
    pub found: Arc<Object>,
    /// The layers from which the version with its id is removed first.
    pub removed_from: Vec<BucketId>,
    pub fate: MergeFate,
}

/// The fate of a version of the upper layer.
pub(crate) enum MergeFate {
    /// The version goes to this layer, and replaces what that has under its id.
    Moves(BucketId),
    /// The version ends: nothing is left that it hides or changes.
    Ends,
    /// The version with its id in the lower layer, which has this sequence, gets its attributes.
    Amends(Sequence),
    /// The version replaces the one with its id in the lower layer, which has the sequence `former` there. The `newer`
    /// ones are put again behind it.
    Replaces { former: Sequence, newer: Vec<Arc<Object>> },
}

/// A compacted log file that replaces the records `first..=last`.
pub(crate) struct ReplaceLog {
    pub file: LogFileId,
    pub first: Sequence,
    pub last: Sequence,
    /// The locations of contents in the compacted file.
    pub moves: Vec<ContentMove>,
}

impl MaintenanceIntent {
    /// Packs that chunks are moved to.
    pub fn new_packs(&self) -> Vec<PackId> {
        match self {
            Self::MoveChunks { moves, .. } => moves.iter().map(|entry| entry.to.pack()).collect(),
            Self::Barrier { .. }
            | Self::CondemnBlobs { .. }
            | Self::RetirePack { .. }
            | Self::ReplaceLog(_)
            | Self::RemoveLayer { .. }
            | Self::MergeLayers { .. } => Vec::new(),
        }
    }
}

/// The result of a maintenance intent.
#[derive(Clone, Debug)]
pub(crate) struct MaintenanceOutcome {
    /// The blobs that were given up or moved.
    pub blobs: Vec<Sequence>,
    /// Whether a record was made.
    pub changed: bool,
    /// Sequence of the last record; one less than the next when there was none.
    pub last: Sequence,
}
