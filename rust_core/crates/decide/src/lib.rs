//! Every S3 rule about buckets, objects and uploads: `decide(state, intent) -> outcome + records`. Pure: time and
//! random identifiers come in with the context, state through [`View`]. It runs in the one committer, over index and
//! overlay, so that a precondition and the write it guards are one step.
#![forbid(unsafe_code)]

mod buckets;
mod decision;
mod dispatch;
mod intent;
mod lengths;
mod limits;
mod objects;
mod outcome;
pub mod requirements;
mod upkeep;
mod view;

#[cfg(test)]
mod tests;

pub use buckets::histories::{Layers, find_newest, find_version};
pub use buckets::layers::delete_marker;
pub use buckets::quotas::{Held, Quota};
pub use buckets::snapshots::{layer_name, snapshot_name};
pub use decision::{Context, Decision};
pub use dispatch::decide;
pub use intent::{
    Annotate, AnnotationChange, Body, BucketChange, ChunkPlace, Complete, CompletePart, Copy, CopyEntry, CopyHeaders,
    CopyPart, DeleteEntry, Intent, Move, MovePrefix, ObjectAppend, PlacedChunk, PutObject, PutPart, RequestToken,
    SettingsChange, Sharing, Source, StoredAnnotations, StoredCopy, StoredInto, StoredText, UnderPrefix, UploadPin,
};
pub use lengths::{record_len, records_len};
pub use limits::{
    BUCKETS_MAX, COPIES_MAX, DOCUMENTS_LEN_MAX, LAYERS_MAX, MOVE_RECORDS_LEN_MAX, OBJECT_PARTS_MAX, OBJECT_SIZE_MAX,
    PART_SIZE_MIN, PUT_SIZE_MAX,
};
pub use objects::attributes::{AttributeChange, CopyAttributes, UpdateVersion};
pub use objects::conditions::{EtagMatch, Precondition, SourceConditions, SourceKind, StateConditions, Withheld};
pub use objects::locks::check_object_lock;
pub use objects::writes::{check_copy, check_source};
pub use outcome::{ChecksumRefusal, Completed, Deleted, Expired, Failure, Outcome, Put, QuotaOf, Refusal};
pub use upkeep::expired::{Expire, ExpireEntry, ExpiredPlace};
pub use upkeep::sealed::{SealKey, SealPart, SealStored, SealUpload, SealVersion, Sealed, SealedContent, SealedExtent};
pub use view::View;
