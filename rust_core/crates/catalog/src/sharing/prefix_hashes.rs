//! The filter over the prefix hashes of shared blobs. It has the prefix hash of every shared blob that is not found in
//! the overlay, and may have more: it never says that a known prefix hash is unknown.

use std::sync::Arc;

use super::filter::Filter;
use orcas_base::error::Result;
use orcas_base::sync::RwLock;
use orcas_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use orcas_decide::Sharing;
use orcas_record::RefLevel;

/// Prefix hashes that the filter is made for at first, and at most. Beyond that it only says "maybe" more often. Fewer with
/// assertions, so that tests reach it.
const PREFIX_HASHES_MIN: u64 = if cfg!(debug_assertions) { 1 << 5 } else { 1 << 18 };
const PREFIX_HASHES_MAX: u64 = 1 << 25;

/// The filter over the prefix hashes of shared blobs. Bounded by `PREFIX_HASHES_MAX`.
#[derive(Default)]
pub struct PrefixHashFilter {
    state: RwLock<FilterState>,
    /// A larger filter was asked for.
    wanted: AtomicBool,
}

#[derive(Default)]
struct FilterState {
    progress: Progress,
    /// The next filter, which a scan is filling; takes what is published meanwhile.
    filling: Option<Arc<Counted>>,
}

#[derive(Default)]
enum Progress {
    /// Not every prefix hash is known yet: everything counts as maybe known.
    #[default]
    Loading,
    Ready(Arc<Counted>),
}

struct Counted {
    filter: Filter,
    capacity: u64,
    entries: AtomicU64,
}

impl Counted {
    fn new(capacity: u64) -> Self {
        Self { filter: Filter::with_capacity(capacity), capacity, entries: AtomicU64::new(0) }
    }

    fn insert(&self, prefix_hash: u64) {
        if !self.filter.contains(prefix_hash) {
            self.filter.insert(prefix_hash);
            self.entries.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether a larger one would tell more.
    fn is_over_full(&self) -> bool {
        self.capacity < PREFIX_HASHES_MAX && self.entries.load(Ordering::Relaxed) > self.capacity
    }
}

impl PrefixHashFilter {
    /// False only when no shared blob has this prefix hash.
    pub fn maybe_known(&self, prefix_hash: u64) -> bool {
        match &self.state.read().progress {
            Progress::Loading => true,
            Progress::Ready(counted) => counted.filter.contains(prefix_hash),
        }
    }

    /// How a blob with this prefix hash is looked up and shared.
    pub fn sharing(&self, level: RefLevel, prefix_hash: u64) -> Sharing {
        match level {
            RefLevel::Off => Sharing::Off,
            RefLevel::Full => Sharing::Sought,
            RefLevel::Fast if self.maybe_known(prefix_hash) => Sharing::Sought,
            RefLevel::Fast => Sharing::Offered,
        }
    }

    /// Adds prefix hashes. True, once, when the filter should be refilled with more room.
    pub fn note(&self, prefix_hashes: impl Iterator<Item = u64>) -> bool {
        let state = self.state.read();
        let ready = match &state.progress {
            Progress::Loading => None,
            Progress::Ready(counted) => Some(counted),
        };
        for prefix_hash in prefix_hashes {
            ready.into_iter().chain(&state.filling).for_each(|counted| counted.insert(prefix_hash));
        }
        ready.is_some_and(|counted| counted.is_over_full()) && !self.wanted.swap(true, Ordering::Relaxed)
    }

    /// Fills a new filter: `scan` calls the closure that it gets with every prefix hash there is. Prefix hashes that
    /// are noted meanwhile are added too. To be called by one thread.
    ///
    /// # Errors
    /// What `scan` returns. The filter that was ready stays in use.
    pub fn refill(&self, scan: impl FnMut(&mut dyn FnMut(u64)) -> Result<()>) -> Result<()> {
        let filled = self.fill_next(scan);
        let mut state = self.state.write();
        self.wanted.store(false, Ordering::Relaxed);
        let filling = state.filling.take();
        if filled.is_ok()
            && let Some(filling) = filling
        {
            state.progress = Progress::Ready(filling);
        }
        filled
    }

    fn fill_next(&self, mut scan: impl FnMut(&mut dyn FnMut(u64)) -> Result<()>) -> Result<()> {
        let mut capacity = PREFIX_HASHES_MIN;
        loop {
            let next = Arc::new(Counted::new(capacity));
            self.state.write().filling = Some(Arc::clone(&next));
            let mut found = 0;
            scan(&mut |prefix_hash| {
                found += 1;
                next.insert(prefix_hash);
            })?;
            if found <= capacity || capacity == PREFIX_HASHES_MAX {
                return Ok(());
            }
            // Twice as much as there is, so that it is not refilled soon.
            capacity = (found * 2).min(PREFIX_HASHES_MAX);
        }
    }
}
