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
mod clock;
mod closed;
mod commit;
mod content;
mod copy;
mod encrypting;
mod events;
mod faults;
mod handle;
mod health;
mod index_rebuild;
mod instant;
mod lifecycle;
mod lookups;
mod maintenance;
mod metrics;
mod moves;
mod open;
mod options;
mod publish;
mod queue;
mod quotas;
mod reads;
mod reclaim;
mod recover;
mod repair;
mod requirements;
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
mod usage;
mod view;
mod waiter;
mod worker;

#[cfg(test)]
mod tests;

pub use backup::{BackupPin, PinnedFile};
pub use body::{BodyObserver, BodyWriter};
pub use clock::{Clock, SystemClock};
pub use copy::{CopyKeys, CopyPartRequest, CopyRequest, run_copy};
pub use encrypting::key_arn;
pub use events::{Change, ChangeKind, EventOptions, EventReader, EventSink, EventsRead, EventsState};
pub use faults::StorePart;
pub use handle::Handle;
pub use health::{Condition, Health, Pools, Space};
pub use lifecycle::{AbandonedReport, LifecycleOptions, LifecycleProgress, LifecycleReport};
pub use metrics::EngineMetrics;
pub use open::Engine;
pub use options::{EngineOptions, Environment, IndexPlace};
pub use orcas_journal::{JournalCursor, Place};
pub use queue::{LAG_BYTES_MAX, LAG_RECORDS_MAX};
pub use quotas::Addition;
pub use reads::ObjectReader;
pub use reclaim::{Effort, ReclaimLimits, ReclaimProgress, Reclaimed, Step};
pub use recover::Replayed;
pub use repair::{Repaired, repair_store};
pub use round::RoundTimes;
pub use salvage::{SalvageReport, SalvageSource, salvage_store};
pub use scrub::{ScrubDamage, ScrubProgress};
pub use seal_stored::{Left, SealProgress, SealReport};
pub use stepper::Stepper;
pub use usage::{BucketUsage, FilesUsage, Usage};
pub use waiter::{CompletionSink, Waiter};
