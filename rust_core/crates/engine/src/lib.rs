//! The storage engine: the only place that joins log, chunks, index and decisions, and the owner of the commit order.
//!
//! A mutation is submitted and completes later: decide, append, sync, publish, acknowledge, apply (`commit`). Lookups
//! and lists, over index and overlay together, are those of the crate `catalog`; `content` stores and reads bodies.
//! [`Handle`] is what callers have; `opening` puts the parts together, and threads only drive steps. Clock, randomness,
//! file system and index come from outside. The engine knows neither Python nor HTTP.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::disallowed_methods, clippy::disallowed_types, reason = "tests damage files by hand"))]

mod backup;
mod clock;
mod commit;
mod content;
mod copies;
mod events;
mod handle;
mod health;
mod index_rebuild;
mod lifecycle;
mod lookups;
mod maintenance;
mod metrics;
mod moves;
mod opening;
mod options;
mod quotas;
mod reclaim;
mod salvage;
#[cfg(feature = "shuttle")]
pub mod scheduled;
mod scrub;
mod seal_stored;
mod state;
mod stepper;
mod upkeep;
mod worker;

#[cfg(test)]
mod tests;

pub use backup::{BackupPin, PinnedFile};
pub use clock::{Clock, SystemClock};
pub use commit::queue::{LAG_BYTES_MAX, LAG_RECORDS_MAX};
pub use commit::round::RoundTimes;
pub use commit::waiter::{CompletionSink, Waiter};
pub use content::Content;
pub use content::body::{BodyObserver, BodyWriter};
pub use content::encrypting::{ObjectKeys, key_arn};
pub use content::reads::ObjectReader;
pub use copies::copy::{CopyKeys, CopyPartRequest, CopyRequest, run_copy};
pub use events::{Change, ChangeKind, EventOptions, EventReader, EventSink, EventsState};
pub use handle::Handle;
pub use health::condition::{Condition, Health, Pools, Space};
pub use health::faults::StorePart;
pub use health::usage::{BucketUsage, FilesUsage, Usage};
pub use lifecycle::{AbandonedReport, LifecycleOptions, LifecycleProgress, LifecycleReport};
pub use metrics::EngineMetrics;
pub use opening::open::Engine;
pub use opening::recover::Replayed;
pub use opening::repair::{Repaired, repair_store};
pub use opening::standby::{NamedChunks, Standby, chunks_named};
pub use options::{EngineOptions, Environment};
pub use orcas_fsck::SalvageSource;
pub use orcas_index::IndexPlace;
pub use orcas_journal::{JournalCursor, Place};
pub use orcas_log::{Continuation, LogPosition};
pub use orcas_store::closed::is_marked as was_closed;
pub use quotas::Addition;
pub use reclaim::{Effort, ReclaimLimits, ReclaimProgress, Reclaimed, Step};
pub use salvage::{SalvageReport, salvage_store};
pub use scrub::{ScrubDamage, ScrubProgress};
pub use seal_stored::{Left, SealProgress, SealReport};
pub use stepper::Stepper;
