//! The storage engine: the only place that joins log, chunks, index and decisions, and the owner of the commit order.
//!
//! A mutation is submitted and completes later: decide, append, sync, publish, acknowledge (`commit`), apply
//! (`apply`). Reads see index and overlay together (`reads`, `list`, `uploads`). Threads only drive steps; clock,
//! randomness, file system and index come from outside. The engine knows neither Python nor HTTP.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests damage files by hand"))]

mod annotations_again;
mod apply;
mod backup;
mod ballast;
mod body;
mod buckets;
mod cache;
mod clock;
mod closed;
mod commit;
mod content;
mod copy;
mod documents;
mod encrypting;
mod epochs;
mod events;
mod faults;
mod handle;
mod health;
mod hidden;
mod index_rebuild;
mod indexed_layers;
mod instant;
mod key_changes;
mod layered_list;
mod layered_versions;
mod layers;
mod lifecycle;
mod list;
mod list_versions;
mod maintenance;
mod mentions;
mod merges;
mod metrics;
mod moves;
mod open;
mod options;
mod overlay;
mod passing;
mod publish;
mod queue;
mod quotas;
mod reads;
mod reclaim;
mod recover;
mod repair;
mod requirements;
mod retired_segments;
mod round;
mod salvage;
#[cfg(feature = "shuttle")]
pub mod scheduled;
mod scrub;
mod seal_ids;
mod seal_stored;
mod sealed_headers;
mod sealing;
mod sharing;
mod space;
mod state;
mod stepper;
mod tokens;
mod upload_ids;
mod uploads;
mod usage;
mod versions;
mod view;
mod waiter;
mod worker;

#[cfg(test)]
mod tests;

pub use backup::{BackupPin, PinnedFile};
pub use body::{BodyObserver, BodyWriter};
pub use clock::{Clock, SystemClock};
pub use copy::{CopyKeys, CopyPartRequest, CopyRequest, run_copy};
pub use documents::Document;
pub use encrypting::{RequestKey, Sealing, key_arn};
pub use epochs::EpochPin;
pub use events::{Change, ChangeKind, EventOptions, EventReader, EventSink, EventsRead, EventsState};
pub use faults::StorePart;
pub use handle::Handle;
pub use health::{Condition, Health, Pools, Space};
pub use lifecycle::{AbandonedReport, LifecycleOptions, LifecycleProgress, LifecycleReport};
pub use list::{ListEntry, ListObjects, ListPage, Listed, PageSink};
pub use list_versions::{ListVersions, ListedVersion, VersionMarker, VersionSink};
pub use metrics::{CacheCounts, EngineMetrics};
pub use open::Engine;
pub use options::{EngineOptions, Environment, IndexPlace};
pub use orcas_journal::{JournalCursor, Place};
pub use queue::{LAG_BYTES_MAX, LAG_RECORDS_MAX};
pub use quotas::Addition;
pub use reads::{ObjectReader, PinnedObject};
pub use reclaim::{Effort, ReclaimLimits, ReclaimProgress, Reclaimed, Step};
pub use recover::Replayed;
pub use repair::{Repaired, repair_store};
pub use round::RoundTimes;
pub use salvage::{SalvageReport, SalvageSource, salvage_store};
pub use scrub::{ScrubDamage, ScrubProgress};
pub use seal_stored::{Left, SealProgress, SealReport};
pub use stepper::Stepper;
pub use uploads::{ListParts, ListUploads, PartEntry, PartPage, UploadEntry, UploadPage, initiated_ms};
pub use usage::{BucketUsage, FilesUsage, Usage};
pub use waiter::{CompletionSink, Waiter};
