//! The memory that chunks may use while they wait to be looked up.

use std::sync::Arc;

use orcas_base::sync::atomic::{AtomicU64, Ordering};

/// Bytes of chunks that may be held in memory until it is known whether the store has them.
const HELD_MAX: u64 = 64 << 20;

/// Counts the bytes of held chunks.
#[derive(Default)]
pub(crate) struct HeldBytes {
    taken: AtomicU64,
}

/// Room for a held chunk; given back when dropped.
pub(crate) struct HeldMemory {
    of: Arc<HeldBytes>,
    bytes: u64,
}

impl HeldBytes {
    /// Room for `bytes`; `None` when too much is held.
    pub fn take(self: &Arc<Self>, bytes: u64) -> Option<HeldMemory> {
        let mut memory = HeldMemory { of: Arc::clone(self), bytes: 0 };
        memory.grow(bytes).then_some(memory)
    }

    #[cfg(test)]
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Memory for a chunk that cannot do without, even when too much is held.
    pub fn take_anyway(self: &Arc<Self>, bytes: u64) -> HeldMemory {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
        HeldMemory { of: Arc::clone(self), bytes }
    }
}

impl HeldMemory {
    /// Makes it room for `bytes` in all. False, with nothing changed, when too much is held.
    pub fn grow(&mut self, bytes: u64) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        let fits = |taken: u64| taken.checked_add(more).filter(|sum| *sum <= HELD_MAX);
        let grown = self.of.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok();
        if grown {
            self.bytes += more;
        }
        grown
    }
}

impl Drop for HeldMemory {
    fn drop(&mut self) {
        self.of.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
