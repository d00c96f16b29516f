//! Every S3 rule about buckets, objects and uploads: `decide(state, intent) -> verdict + records`. Pure: time and
//! random identifiers come in with the context, state through [`View`]. It runs in the one sequencer, over index and
//! overlay, so that a precondition and the write it guards are one step.
#![forbid(unsafe_code)]

mod annotations;
mod appends;
mod attributes;
mod bucket_changes;
mod buckets;
mod conditions;
mod decision;
mod deletions;
mod dispatch;
mod expirations;
mod expired;
mod histories;
mod intent;
mod layers;
mod lengths;
mod limits;
mod locks;
mod manifest;
mod moves;
mod objects;
mod outcome;
mod quotas;
pub mod requirements;
mod sealed;
mod snapshots;
mod stored_copies;
mod stored_sealing;
mod uploads;
mod versions;
mod view;

#[cfg(test)]
mod tests;

pub use attributes::{AttributeChange, CopyAttributes, UpdateVersion};
pub use conditions::{EtagMatch, Precondition, SourceConditions, SourceKind, StateConditions};
pub use decision::{Context, Decision};
pub use dispatch::decide;
pub use expired::{Expire, ExpireEntry, ExpiredPlace};
pub use histories::{Layers, find_newest, find_version};
pub use intent::{
    Annotate, AnnotationChange, Append, Body, BucketChange, ChunkPlace, Complete, CompletePart, Copy, CopyHeaders,
    CopyPart, DeleteEntry, Intent, Move, MovePrefix, Pin, PlacedChunk, PutObject, PutPart, RequestToken,
    SettingsChange, Sharing, Source, StoredAnnotations, StoredCopy, StoredInto, StoredText, UnderPrefix,
};
pub use layers::delete_marker;
pub use lengths::{record_len, records_len};
pub use limits::{
    BUCKETS_MAX, DOCUMENTS_LEN_MAX, LAYERS_MAX, MOVE_RECORDS_LEN_MAX, OBJECT_PARTS_MAX, OBJECT_SIZE_MAX, PART_SIZE_MIN,
    PUT_SIZE_MAX,
};
pub use locks::check_object_lock;
pub use objects::{check_copy, check_source};
pub use outcome::{ChecksumRefusal, Completed, Deleted, Expired, Failure, Outcome, Put, QuotaOf, Refusal};
pub use quotas::{Held, Quota};
pub use sealed::{SealKey, SealPart, SealStored, SealUpload, SealVersion, Sealed, SealedContent, SealedExtent};
pub use snapshots::{layer_name, snapshot_name};
pub use view::View;
