//! The result of a run, and its progress.

use orcas_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// The result of a run, and what it has left.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SealReport {
    /// Versions that were looked at, delete markers among them.
    pub seen: u64,
    /// Versions that were sealed.
    pub versions: u64,
    /// Incomplete uploads that were sealed.
    pub uploads: u64,
    /// Bytes of the content of both.
    pub bytes: u64,
    /// Bytes that were stored again for them. Less where content is shared.
    pub stored_bytes: u64,
    /// Keys and uploads that stay unsealed because clients kept changing them.
    pub changed: u64,
    /// Keys and uploads that stay unsealed because there was no room for their content, even after reclamation.
    pub no_room: u64,
    /// Versions and uploads that stay unsealed because they are too long for one change, and keys with too many
    /// versions, of which the oldest stay as they are.
    pub too_long: u64,
    /// Versions and uploads that stay unsealed because their content cannot be read.
    pub unreadable: u64,
    pub left: Left,
    /// The run was cancelled. The work that it did counts.
    pub cancelled: bool,
}

/// Content that is not sealed at the end of a run, or may still be found in the files of the store.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Left {
    /// Contents and chunks that are not sealed: of versions that were left, of those that came meanwhile, of uploads.
    pub blobs: u64,
    pub bytes: u64,
    /// Incomplete uploads that will be objects without encryption: new ones, and those that were left.
    pub uploads: u64,
    /// Replaced content may still be in log files or packs: a reader or a backup held them, or they are damaged.
    pub files: bool,
    /// Short content may still be in free parts of the index, which could not be built anew.
    pub index: bool,
}

/// How far a run is. Any thread may look, or end it.
#[derive(Debug, Default)]
pub struct SealProgress {
    pub seen: AtomicU64,
    pub versions: AtomicU64,
    pub bytes: AtomicU64,
    pub stored_bytes: AtomicU64,
    /// All versions were seen, and files are rewritten.
    pub finishing: AtomicBool,
    pub cancelled: AtomicBool,
}

impl SealProgress {
    pub fn is_cancelled(&self) -> bool {
        self.cancelled.load(Ordering::Relaxed)
    }

    pub(super) fn show(&self, report: &SealReport) {
        self.seen.store(report.seen, Ordering::Relaxed);
        self.versions.store(report.versions, Ordering::Relaxed);
        self.bytes.store(report.bytes, Ordering::Relaxed);
    }
}
