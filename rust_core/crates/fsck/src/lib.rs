//! Checks of a whole store, closed or open; rewriting of a log that is damaged; and the replay of what is left of one.
//!
//! Invariants. Nothing in the store is written, but by `rewrite`: indexes that are built or brought up to date are
//! private copies. Every file is read once, in order, in bounded memory. Damage is never an error: it is a finding, with
//! its place, and each object that it makes unreadable is a loss. An error says that the check itself could not continue.
#![forbid(unsafe_code)]

mod closed;
mod collect;
mod index;
mod journal;
mod logs;
mod losses;
mod manifests;
mod open;
mod owners;
mod packs;
mod present;
mod rewrite;
mod salvage;
mod sealed;
mod stacks;
mod subject;
mod survey;

use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering};

use bytes::Bytes;

pub use closed::{check_formats, check_locked, check_store, lock, places};
pub use collect::gone;
pub use losses::ANNOTATION_DAMAGED;
pub use open::{OpenStore, check_open};
pub use owners::Owners;
pub use packs::{check_live_chunk, chunk_of};
pub use present::INDEX_NAME;
pub use rewrite::{GivenUp, rewrite_log};
pub use salvage::ReplayOutcome;
pub use stacks::{bare_bucket, removal_of_lost, reported_names};
pub use survey::{SalvageSource, Survey};

/// Findings that a report lists.
pub const FINDINGS_MAX: usize = 1_000;
/// Causes that a report lists.
pub const GROUPS_MAX: usize = 64;
/// Objects that a report names of those of which the index does not say what the log says.
pub const AFFECTED_MAX: usize = 1_000;
/// Losses that a report lists.
pub const LOSSES_MAX: usize = 100_000;

/// How a check is done.
#[derive(Clone, Debug)]
pub struct CheckOptions {
    /// Off: blocks of content and fingerprints are left out; the log is verified whole all the same.
    pub read_content: bool,
    /// Threads that read; 0 for one for each processor, at most four.
    pub threads: usize,
    /// Bytes read a second at most; 0 for no bound.
    pub bytes_per_sec: u64,
}

impl CheckOptions {
    fn threads(&self) -> usize {
        match self.threads {
            0 => std::thread::available_parallelism().map_or(1, |count| count.get().min(4)),
            wanted => wanted.min(64),
        }
    }
}

/// How far a check is. The caller may read it at any time, and cancel the check.
#[derive(Debug, Default)]
pub struct CheckProgress {
    pub done_bytes: AtomicU64,
    /// An estimate until the packs are read.
    pub total_bytes: AtomicU64,
    pub phase: AtomicU8,
    /// Set it to end the check, which then fails with `Error::Io` of the kind `Interrupted`.
    pub cancelled: AtomicBool,
}

/// What a check is doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Phase {
    Start,
    Log,
    Index,
    Packs,
    Losses,
    Done,
}

const PHASES: [(Phase, &str); 6] = [
    (Phase::Start, "starting"),
    (Phase::Log, "reading the log"),
    (Phase::Index, "comparing the index"),
    (Phase::Packs, "reading the packs"),
    (Phase::Losses, "looking for what is lost"),
    (Phase::Done, "done"),
];

impl CheckProgress {
    pub fn phase_name(&self) -> &'static str {
        PHASES.get(usize::from(self.phase.load(Ordering::Relaxed))).map_or("done", |(_, name)| *name)
    }

    fn enter(&self, phase: Phase) {
        let index = PHASES.iter().position(|(other, _)| *other == phase).unwrap_or_default();
        self.phase.store(index as u8, Ordering::Relaxed);
    }
}

/// What a finding is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum FindingKind {
    /// A copy of the store's keys.
    Keys,
    /// A log file is missing, its header damaged, or its end not where the next file says.
    LogFile,
    /// A frame, a record or a commit record in a log file.
    LogRecord,
    /// A pack is missing or its header damaged.
    Pack,
    /// The bytes of a content or chunk, or sealed metadata.
    Blob,
    /// A version, part or segment names what is not there.
    Manifest,
    /// The index is damaged or does not say what the log says.
    Index,
    /// A count of references or bytes is not what the manifests add up to.
    Counts,
    /// Not damage by itself, but nothing a clean store has.
    Suspicious,
    /// Harmless: the next start removes it.
    Leftover,
}

impl FindingKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Keys => "keys",
            Self::LogFile => "log-file",
            Self::LogRecord => "log-record",
            Self::Pack => "pack",
            Self::Blob => "blob",
            Self::Manifest => "manifest",
            Self::Index => "index",
            Self::Counts => "counts",
            Self::Suspicious => "suspicious",
            Self::Leftover => "leftover",
        }
    }

    /// Whether the store is not as it should be.
    pub fn is_damage(self) -> bool {
        !matches!(self, Self::Suspicious | Self::Leftover)
    }
}

/// Something that is not as it should be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    pub kind: FindingKind,
    /// File and byte, or table and row.
    pub place: String,
    pub detail: String,
}

/// Findings that have one cause.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub kind: FindingKind,
    /// What kind of place: a table, `log`, `chunks` or a file.
    pub area: String,
    /// What is wrong there; its numbers are those of the first one.
    pub cause: String,
    /// The place of the first one.
    pub first: String,
    pub count: u64,
}

/// A version of an object, or a part of an upload, that cannot be read whole any more, or an upload whose record is gone
/// or whose metadata is damaged.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Loss {
    pub bucket: String,
    pub key: Bytes,
    /// The version id in hexadecimal; `None` for the null version, for uploads and for parts.
    pub version_id: Option<String>,
    /// The upload in hexadecimal; of a part, followed by a slash and the part's number.
    pub upload: Option<String>,
    /// Bytes of the whole version or part; 0 for an upload.
    pub bytes: u64,
    pub reason: String,
}

/// How the index compares with the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum IndexState {
    Equal,
    Different { first: String },
    Absent,
    NotCompared { why: String },
}

/// Sealed contents, chunks and metadata by what is known of their authentication tags.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct AuthTagCounts {
    /// Every authentication tag matches.
    pub verified: u64,
    /// Sealed with keys of customers, which only their requests have.
    pub of_customers: u64,
    /// Blobs whose data key is not there, or cannot be used now.
    pub without_key: u64,
}

/// What a check found.
#[derive(Clone, Debug)]
pub struct CheckReport {
    /// The first `FINDINGS_MAX`.
    pub findings: Vec<Finding>,
    pub findings_total: u64,
    /// All of them by their causes, of which the first `GROUPS_MAX` are counted.
    pub groups: Vec<Group>,
    /// Bucket and key of objects of which the index does not say what the log says: the first `AFFECTED_MAX`.
    pub affected: Vec<String>,
    pub affected_total: u64,
    /// The first `LOSSES_MAX`, ordered by the sequence of their records.
    pub losses: Vec<Loss>,
    pub losses_total: u64,
    /// Contents and chunks that were looked at.
    pub blobs: u64,
    /// Bytes that were read.
    pub bytes: u64,
    pub log_files: u64,
    pub packs: u64,
    /// What `log` and packs have sealed, unless content was not read.
    pub tags: AuthTagCounts,
    pub index: IndexState,
    pub seconds: f64,
}

impl CheckReport {
    /// Nothing is damaged and the index says what the log says, or is not there to say anything.
    pub fn is_clean(&self) -> bool {
        self.losses_total == 0
            && self.findings.iter().all(|finding| !finding.kind.is_damage())
            && matches!(self.index, IndexState::Equal | IndexState::Absent)
    }
}
