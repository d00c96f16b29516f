//! Holds: a moment of the store whose bytes stay in place, so that they can be copied beside reads and writes.
//!
//! Invariants. The files of a hold, cut at their lengths, are what a power cut could have left: the log up to a durable
//! position, which everything acknowledged before is part of (in the weaker modes too: taking a hold syncs them), and
//! every pack, whose chunks are durable before the log names them. While a hold lives reclamation does not take a step,
//! so no file goes, no hole is punched and no compacted file is finished; files grow, which changes no listed byte that
//! the listed log leads to.

use std::sync::Arc;
use std::time::Duration;

use super::epochs::EpochPin;
use super::keys::NAMES;
use super::{Handle, Shared};
use orcas_base::error::{Error, Result};
use orcas_base::sync::{Mutex, MutexGuard};
use orcas_decide::{Intent, Outcome};
use orcas_fs::Open;
use orcas_log::{LogPosition, files_up_to};
use orcas_record::Sequence;

/// Between two looks at the applier, which is due after a quarter of a second at the latest.
const PATIENCE: Duration = Duration::from_millis(2);

/// How many holds there are.
#[derive(Default)]
pub(super) struct Holds {
    count: Mutex<usize>,
}

impl Holds {
    /// The right to destroy things, for as long as the guard lives; `None` while there is a hold.
    pub fn turn(&self) -> Option<MutexGuard<'_, usize>> {
        let count = self.count.lock();
        (*count == 0).then_some(count)
    }

    /// Waits for the step under way.
    pub fn take(self: &Arc<Self>) -> Rest {
        *self.count.lock() += 1;
        Rest { holds: Arc::clone(self) }
    }
}

/// Reclamation rests while this lives.
pub(super) struct Rest {
    holds: Arc<Holds>,
}

impl Drop for Rest {
    fn drop(&mut self) {
        *self.holds.count.lock() -= 1;
    }
}

/// A file as far as a hold needs it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HeldFile {
    /// Relative to the directory of the store, with `/`.
    pub name: String,
    pub length: u64,
}

/// The bytes of a moment, kept in their place until this is dropped.
pub struct Hold {
    pub store_id: [u8; 16],
    /// Of the last record that the files hold.
    pub sequence: Sequence,
    pub files: Vec<HeldFile>,
    _rest: Rest,
    _pin: EpochPin,
}

impl Handle {
    /// Makes everything acknowledged durable and holds the bytes of that moment. Blocking.
    ///
    /// # Errors
    /// [`Error::ReadOnly`], [`Error::Closed`], [`Error::StorageFull`] and [`Error::IndexDamaged`] when
    /// the index cannot follow, or what looking at the files ran into.
    pub fn hold(&self) -> Result<Hold> {
        let shared = &self.shared;
        let rest = shared.holds.take();
        let pin = shared.epochs.pin();
        let last = match self.execute(Intent::Barrier { seal: false }) {
            Ok(Outcome::Reclaimed { last, .. }) => last,
            Ok(_) => return Err(Error::Record { reason: "a barrier was decided as something else" }),
            Err(failure) => return Err(failure.into_error()),
        };
        // The index holds durable batches only, so the position it has applied is a durable one.
        while !shared.applies.has(last) {
            shared.check_writable()?;
            if let Some(stall) = shared.applies.stalled() {
                return Err(stall);
            }
            std::thread::sleep(PATIENCE);
        }
        let end = shared.durable_position()?;
        let files = shared.files_up_to(&end)?;
        Ok(Hold { store_id: shared.keys.store_id, sequence: end.sequence, files, _rest: rest, _pin: pin })
    }
}

impl Shared {
    fn durable_position(&self) -> Result<LogPosition> {
        match self.index.position()? {
            // No batch yet.
            None => Ok(LogPosition::ORIGIN),
            Some(position) => LogPosition::decode(&position)
                .ok_or(Error::Record { reason: "the index holds a position that cannot be read" }),
        }
    }

    fn files_up_to(&self, end: &LogPosition) -> Result<Vec<HeldFile>> {
        let data = &self.options.data;
        let mut files = Vec::new();
        for name in NAMES {
            let length = self.fs.open(&data.join(name), Open::Read)?.len()?;
            files.push(HeldFile { name: name.to_owned(), length });
        }
        for (name, length) in files_up_to(&*self.fs, &data.join("log"), end)? {
            files.push(HeldFile { name: format!("log/{name}"), length });
        }
        for file in self.packs.files()? {
            let path = self.packs.path(file.pack);
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            files.push(HeldFile { name: format!("chunks/{name}"), length: file.length });
        }
        Ok(files)
    }
}
