//! Blobs that were seen without references and wait for their condemnation. A record that names one removes it here.

use std::collections::HashSet;

use orcas_base::sync::Mutex;
use orcas_base::sync::atomic::{AtomicBool, Ordering};
use orcas_record::{Extent, Record, Sequence};

#[derive(Default)]
pub(crate) struct Candidates {
    blobs: Mutex<HashSet<Sequence>>,
    /// Whether there are any, so that a write asks for no lock when nothing is dead.
    any: AtomicBool,
}

impl Candidates {
    pub fn choose(&self, blobs: impl Iterator<Item = Sequence>) {
        let mut set = self.blobs.lock();
        set.extend(blobs);
        self.any.store(!set.is_empty(), Ordering::Release);
    }

    pub fn drop(&self, blobs: impl Iterator<Item = Sequence>) {
        let mut set = self.blobs.lock();
        for blob in blobs {
            set.remove(&blob);
        }
        self.any.store(!set.is_empty(), Ordering::Release);
    }

    /// Called by the committer for every record before anybody can see it.
    pub fn mentioned(&self, record: &Record) {
        let mut extents = record.extents().peekable();
        if extents.peek().is_none() || !self.any.load(Ordering::Acquire) {
            return;
        }
        let mut set = self.blobs.lock();
        for extent in extents {
            if let Extent::Blob { blob, .. } = extent {
                set.remove(blob);
            }
        }
        self.any.store(!set.is_empty(), Ordering::Release);
    }

    #[cfg(feature = "shuttle")]
    pub fn count(&self) -> usize {
        self.blobs.lock().len()
    }

    pub fn contains(&self, blob: Sequence) -> bool {
        self.blobs.lock().contains(&blob)
    }
}
