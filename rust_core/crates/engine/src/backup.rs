//! Backup pins: the files of one moment stay in place, so that they can be copied while reads and writes go on.
//!
//! Invariants. The files of a pin, cut at their lengths, are what a power cut could have left: the log up to a durable
//! position, which includes everything acknowledged before (in the weaker modes too: taking a pin syncs it), and every
//! pack, whose chunks are durable before the log names them. Reclamation pauses while a pin lives, so no file goes, no
//! hole is punched and no compacted file is finished; files grow, which changes no listed byte that the listed log
//! leads to.

use std::time::{Duration, Instant};

use super::handle::Handle;
use super::state::EngineState;
use orcas_base::error::{Error, Result};
use orcas_base::sync::atomic::Ordering;
use orcas_catalog::{Catalog, EpochPin, PauseGuard};
use orcas_fs::Open;
use orcas_log::{Continuation, LogPosition, files_up_to};
use orcas_record::Sequence;
use orcas_store::KEY_FILES;

/// Between two looks at the applier, which is due after a quarter of a second at the latest.
const RETRY_INTERVAL: Duration = Duration::from_millis(2);

/// A file of a backup, up to the length that belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PinnedFile {
    /// Relative to the directory of the store, with `/`.
    pub name: String,
    pub length: u64,
}

/// The files of one moment, kept in place until this is dropped.
pub struct BackupPin {
    pub store_id: [u8; 16],
    /// The sequence of the last record in the files.
    pub sequence: Sequence,
    pub files: Vec<PinnedFile>,
    _pause: PauseGuard,
    _pin: EpochPin,
}

impl Handle {
    /// Makes everything acknowledged durable and keeps the files of that moment in place. Blocking.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Closed`], [`Error::StorageFull`] and [`Error::IndexDamaged`] when
    /// the index cannot follow, or what looking at the files ran into.
    pub fn pin_for_backup(&self) -> Result<BackupPin> {
        let shared = &self.shared;
        let pause = shared.catalog.reclaim_pause.begin();
        let pin = shared.catalog.epochs.pin();
        // The index holds durable batches only, so the position it has applied is a durable one.
        self.wait_until_applied()?;
        let end = durable_position(&shared.catalog)?;
        let files = pinned_files(shared, &end)?;
        Ok(BackupPin { store_id: shared.keys.store_id, sequence: end.sequence, files, _pause: pause, _pin: pin })
    }

    /// Whether the log of this store continues the copy of a standby that ends at `at`. Blocking.
    ///
    /// # Errors
    /// When a file cannot be read, and [`Error::Closed`] for a store that only reads.
    pub fn continues(&self, at: &LogPosition) -> Result<Continuation> {
        let logs = self.shared.logs.as_ref().ok_or(Error::Closed)?;
        logs.continues(at, &self.shared.applies.applied_to())
    }

    /// The log is not rewritten beyond the record that this standby has, for ten minutes.
    pub fn hold_log_for(&self, standby: String, has: Sequence) {
        self.shared.reclaim.hold_for(standby, has, self.shared.clock.monotonic());
    }

    /// The last record in the index.
    pub fn applied_sequence(&self) -> Sequence {
        self.shared.applies.applied_to().sequence
    }

    /// The last record that readers see.
    pub fn published_sequence(&self) -> Sequence {
        self.shared.catalog.published.load(Ordering::Acquire)
    }

    /// Waits until everything acknowledged is durable and in the index. Blocking.
    ///
    /// # Errors
    /// As of [`Handle::pin_for_backup`].
    pub fn wait_until_applied(&self) -> Result<()> {
        self.catch_up(Duration::MAX).map(drop)
    }

    /// As [`Handle::wait_until_applied`], but not much longer than `limit`. Whether the index has everything.
    ///
    /// # Errors
    /// As of [`Handle::pin_for_backup`].
    pub fn catch_up(&self, limit: Duration) -> Result<bool> {
        let shared = &self.shared;
        let started = Instant::now();
        let last = self.barrier()?;
        shared.applies.hurry();
        while !shared.applies.has(last) {
            shared.faults.check_writable()?;
            if let Some(stall) = shared.applies.stalled() {
                return Err(stall);
            }
            if started.elapsed() >= limit {
                return Ok(false);
            }
            std::thread::sleep(RETRY_INTERVAL);
        }
        Ok(true)
    }
}

fn durable_position(catalog: &Catalog) -> Result<LogPosition> {
    match catalog.index.position()? {
        // No batch yet.
        None => Ok(LogPosition::ORIGIN),
        Some(position) => LogPosition::decode(&position)
            .ok_or(Error::Record { reason: "the index holds a position that cannot be read" }),
    }
}

fn pinned_files(shared: &EngineState, end: &LogPosition) -> Result<Vec<PinnedFile>> {
    let data = &shared.options.data;
    let mut files = Vec::new();
    for name in KEY_FILES {
        let length = shared.fs.open(&data.join(name), Open::Read)?.len()?;
        files.push(PinnedFile { name: name.to_owned(), length });
    }
    for (name, length) in files_up_to(&*shared.fs, &data.join("log"), end)? {
        files.push(PinnedFile { name: format!("log/{name}"), length });
    }
    for file in shared.packs.files()? {
        let path = shared.packs.path(file.pack);
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        files.push(PinnedFile { name: format!("chunks/{name}"), length: file.length });
    }
    Ok(files)
}
