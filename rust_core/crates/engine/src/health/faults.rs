//! The known faults of an open store: why it stopped writing, and which parts of it are damaged.
//!
//! Whoever finds a fault reports it here, once: [`Faults::stop_writing`] for what ends writing until the store is
//! opened again, [`Faults::note_damage`] for damage. The two are independent: a damaged store may go on taking writes,
//! and a store that stopped writing may be undamaged.

use std::collections::BTreeMap;

// Not one of `orcas_base::sync`: nothing is called while it is held.
use parking_lot::Mutex as Kept;

use orcas_base::error::{Error, Result, StoreFault};
use orcas_base::sync::Mutex;
use orcas_base::sync::atomic::{AtomicBool, Ordering};

/// The part of a store that is damaged. Of each part one cause is kept, the first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StorePart {
    Keys,
    Log,
    Packs,
    Index,
}

/// The faults of an open store.
#[derive(Default)]
pub(crate) struct Faults {
    /// Set after its cause.
    stopped: AtomicBool,
    stop: Mutex<Option<StoreFault>>,
    damage: Kept<BTreeMap<StorePart, StoreFault>>,
}

impl Faults {
    /// Lets the store be read only from now on, until it is opened again. The first cause counts.
    pub fn stop_writing(&self, cause: StoreFault) {
        self.stop.lock().get_or_insert(cause);
        self.stopped.store(true, Ordering::Release);
    }

    /// Something that was stored is damaged. Changes nothing but what `health` says.
    pub fn note_damage(&self, part: StorePart, cause: StoreFault) {
        let known = self.damage.lock().entry(part).or_insert_with(|| cause.clone()).clone();
        if known != cause {
            tracing::error!(part = ?part, %cause, "There is more damage: `orcas fsck` shows what is affected");
        }
    }

    /// The part is whole again.
    pub fn note_repaired(&self, part: StorePart) {
        self.damage.lock().remove(&part);
    }

    pub fn check_writable(&self) -> Result<()> {
        if !self.stopped.load(Ordering::Acquire) {
            return Ok(());
        }
        let stop = self.stop.lock().clone();
        Err(stop.map_or(Error::Closed, |cause| Error::ReadOnly { cause }))
    }

    /// The first damage in the order of the parts.
    pub fn damage(&self) -> Option<StoreFault> {
        self.damage.lock().values().next().cloned()
    }
}
