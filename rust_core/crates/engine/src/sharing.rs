//! Which content the store has already, and what keeps a hit in its place: pins by fingerprint, the filter over the heads
//! of shared blobs, and the memory that chunks may wait in.
//!
//! A worker pins a fingerprint before it looks it up and asks afterwards whether what it found is condemned; the
//! sequencer condemns nothing that is pinned. So either the worker sees the condemnation or the sequencer the pin. The
//! filter holds the head of every shared blob that is not found in the overlay, and may hold more: it never says that
//! a known head is unknown.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use super::mentions::shared_head;
use super::queue::Sequenced;
use super::{Shared, Task};
use orcas_base::error::Result;
use orcas_base::planted::{self, Bug};
use orcas_base::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use orcas_base::sync::{Mutex, RwLock};
use orcas_decide::Pin;
use orcas_dedup::filter::Filter;
use orcas_record::{Bucket, CONTENT_MAX, Fingerprint, RefLevel, Sequence, head_of};

/// Damaged blobs that are remembered. A store with more has other worries.
const DAMAGED_MAX: usize = 1 << 16;

/// Fingerprints that somebody has found or is about to look up, and blobs that are condemned.
#[derive(Default)]
pub(super) struct Pins {
    state: Mutex<PinState>,
}

#[derive(Default)]
struct PinState {
    held: HashMap<Fingerprint, usize>,
    condemned: HashSet<Sequence>,
    /// Blobs that a read found damaged.
    damaged: HashSet<Sequence>,
    /// Counts the calls of `forget`.
    forgotten: u64,
}

/// One hold of a fingerprint.
struct Held {
    pins: Arc<Pins>,
    fingerprint: Fingerprint,
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut state = self.pins.state.lock();
        if let Some(count) = state.held.get_mut(&self.fingerprint) {
            *count -= 1;
            if *count == 0 {
                state.held.remove(&self.fingerprint);
            }
        }
    }
}

impl Pins {
    /// While the pin lives, no blob with this fingerprint is condemned.
    pub fn hold(self: &Arc<Self>, fingerprint: Fingerprint) -> Pin {
        *self.state.lock().held.entry(fingerprint).or_default() += 1;
        Arc::new(Held { pins: Arc::clone(self), fingerprint })
    }

    /// Called by the sequencer before it condemns: false when somebody holds the fingerprint; else remembers the blob as
    /// condemned.
    pub fn condemn(&self, fingerprint: Fingerprint, blob: Sequence) -> bool {
        let mut state = self.state.lock();
        (!state.held.contains_key(&fingerprint) || planted::is(Bug::PinForgotten)) && {
            state.condemned.insert(blob);
            true
        }
    }

    /// Whether `blob` is condemned.
    #[cfg(test)]
    pub fn is_condemned(&self, blob: Sequence) -> bool {
        self.state.lock().condemned.contains(&blob)
    }

    /// A read of `blob` has met damage: content that is uploaded again is stored again instead of referring to it.
    pub fn note_damage(&self, blob: Sequence) {
        let mut state = self.state.lock();
        if state.damaged.len() < DAMAGED_MAX {
            state.damaged.insert(blob);
        }
    }

    /// Whether `blob` must not be referred to any more.
    fn is_out_of_use(&self, blob: Sequence) -> bool {
        let state = self.state.lock();
        state.condemned.contains(&blob) || state.damaged.contains(&blob)
    }

    /// The blobs are gone from the index, or were not condemned after all.
    pub fn forget(&self, blobs: &[Sequence]) {
        let mut state = self.state.lock();
        for blob in blobs {
            state.condemned.remove(blob);
        }
        state.forgotten += 1;
    }

    /// Fingerprints held and blobs remembered as condemned.
    #[cfg(feature = "shuttle")]
    pub fn sizes(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.held.len(), state.condemned.len())
    }

    /// Changes whenever condemnations are forgotten: a lookup during which it changed may have found a row that was
    /// condemned before and is gone now.
    fn forgotten(&self) -> u64 {
        self.state.lock().forgotten
    }
}

/// Heads that the filter is made for at first, and at most. Beyond that it only says "maybe" more often.
const HEADS_MIN: u64 = if cfg!(any(test, feature = "testing")) { 1 << 5 } else { 1 << 18 };
const HEADS_MAX: u64 = 1 << 25;

/// The filter over the heads of shared blobs. Bounded by `HEADS_MAX`.
#[derive(Default)]
pub(super) struct Heads {
    state: RwLock<HeadState>,
    /// A larger filter was asked for.
    wanted: AtomicBool,
}

#[derive(Default)]
struct HeadState {
    progress: Progress,
    /// The next filter, which a scan is filling; takes what is published meanwhile.
    filling: Option<Arc<Counted>>,
}

#[derive(Default)]
enum Progress {
    /// Not every head is known yet: everything counts as maybe known.
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

    fn insert(&self, head: u64) {
        if !self.filter.contains(head) {
            self.filter.insert(head);
            self.entries.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Whether a larger one would tell more.
    fn is_over_full(&self) -> bool {
        self.capacity < HEADS_MAX && self.entries.load(Ordering::Relaxed) > self.capacity
    }
}

impl Heads {
    /// False only when no shared blob has this head.
    pub fn maybe_known(&self, head: u64) -> bool {
        match &self.state.read().progress {
            Progress::Loading => true,
            Progress::Ready(counted) => counted.filter.contains(head),
        }
    }

    /// Takes heads in. True, once, when the filter should be made anew.
    fn note(&self, heads: impl Iterator<Item = u64>) -> bool {
        let state = self.state.read();
        let ready = match &state.progress {
            Progress::Loading => None,
            Progress::Ready(counted) => Some(counted),
        };
        for head in heads {
            ready.into_iter().chain(&state.filling).for_each(|counted| counted.insert(head));
        }
        ready.is_some_and(|counted| counted.is_over_full()) && !self.wanted.swap(true, Ordering::Relaxed)
    }
}

/// Fills the filter from the overlay and the index, beside everything else. To be called once after opening and when
/// [`Task::Heads`] asks for it; by one thread.
///
/// # Errors
/// When the index cannot be read. What was ready stays in use.
pub(super) fn fill(shared: &Shared) -> Result<()> {
    let filled = fill_next(shared);
    let mut state = shared.heads.state.write();
    shared.heads.wanted.store(false, Ordering::Relaxed);
    let filling = state.filling.take();
    if filled.is_ok()
        && let Some(filling) = filling
    {
        state.progress = Progress::Ready(filling);
    }
    filled
}

fn fill_next(shared: &Shared) -> Result<()> {
    let mut capacity = HEADS_MIN;
    loop {
        let next = Arc::new(Counted::new(capacity));
        // In this order: what is published from now on is taken in, what was published before stands in the overlay,
        // and what has left the overlay stands in the index.
        shared.heads.state.write().filling = Some(Arc::clone(&next));
        let recent: Vec<u64> = shared.overlay.read().shared_heads().collect();
        let mut found = recent.len() as u64;
        recent.into_iter().for_each(|head| next.insert(head));
        shared.index.read()?.scan_heads_of_shared(&mut |head| {
            found += 1;
            next.insert(head);
        })?;
        if found <= capacity || capacity == HEADS_MAX {
            return Ok(());
        }
        // Twice as much as there is, so that it is not made anew soon.
        capacity = (found * 2).min(HEADS_MAX);
    }
}

/// Bytes of chunks that may be held in memory until it is known whether the store has them.
const HELD_MAX: u64 = 64 << 20;

/// Counts the bytes of held chunks.
#[derive(Default)]
pub(super) struct HeldBytes {
    taken: AtomicU64,
}

/// Room for a held chunk; given back when dropped.
pub(super) struct Room {
    of: Arc<HeldBytes>,
    bytes: u64,
}

impl HeldBytes {
    /// Room for `bytes`; `None` when too much is held.
    pub fn take(self: &Arc<Self>, bytes: u64) -> Option<Room> {
        let mut room = Room { of: Arc::clone(self), bytes: 0 };
        room.grow(bytes).then_some(room)
    }

    #[cfg(test)]
    pub fn taken(&self) -> u64 {
        self.taken.load(Ordering::Relaxed)
    }

    /// Room for a chunk that cannot go on without, even when too much is held.
    pub fn take_anyway(self: &Arc<Self>, bytes: u64) -> Room {
        self.taken.fetch_add(bytes, Ordering::Relaxed);
        Room { of: Arc::clone(self), bytes }
    }
}

impl Room {
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

impl Drop for Room {
    fn drop(&mut self) {
        self.of.taken.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Times a lookup is repeated because condemnations were forgotten meanwhile.
const LOOKUPS_MAX: usize = 8;

impl Shared {
    /// Whether new content of the bucket is looked up.
    pub fn ref_level(&self, bucket: &Bucket) -> RefLevel {
        bucket.settings.ref_level.unwrap_or(self.options.ref_level)
    }

    /// A published blob with this fingerprint, `length` bytes long, that is not condemned, neither by what is published
    /// nor as `condemned` has it. `head` is that of the blob, if it is known.
    pub fn published_blob(
        &self,
        fingerprint: &Fingerprint,
        length: u32,
        head: Option<u64>,
        condemned: &dyn Fn(Sequence) -> bool,
    ) -> Result<Option<Sequence>> {
        for _ in 0..LOOKUPS_MAX {
            let forgotten = self.pins.forgotten();
            let Some(found) = self.find_blob(fingerprint, length, head, condemned)? else { return Ok(None) };
            if self.pins.forgotten() == forgotten {
                return Ok(Some(found));
            }
        }
        // To take it for unknown costs space, never content.
        Ok(None)
    }

    fn find_blob(
        &self,
        fingerprint: &Fingerprint,
        length: u32,
        head: Option<u64>,
        condemned: &dyn Fn(Sequence) -> bool,
    ) -> Result<Option<Sequence>> {
        let counts = |(blob, found): (Sequence, u32)| {
            let gone = condemned(blob) || self.pins.is_out_of_use(blob) || self.overlay.read().is_condemned(blob);
            (found == length && (!gone || planted::is(Bug::HitOnCondemned))).then_some(blob)
        };
        // The overlay first: what it loses meanwhile is in the index by then.
        let recent = self.overlay.read().shared_blob(fingerprint);
        if let Some(blob) = recent.and_then(counts) {
            return Ok(Some(blob));
        }
        // The head of a content is that of its fingerprint, however long it is.
        let as_content = length as usize <= CONTENT_MAX && self.heads.maybe_known(head_of(&fingerprint.0));
        if !as_content && head.is_some_and(|head| !self.heads.maybe_known(head)) {
            return Ok(None);
        }
        Ok(self.index.read()?.shared_blob(fingerprint)?.and_then(counts))
    }

    /// A blob with this fingerprint, if there is one, with a pin on it.
    pub fn pin_known(&self, fingerprint: Fingerprint, length: u32, head: u64) -> Result<Option<(Sequence, Pin)>> {
        let pin = self.pins.hold(fingerprint);
        Ok(self.published_blob(&fingerprint, length, Some(head), &|_| false)?.map(|blob| (blob, pin)))
    }

    /// Tells the filter of shared blobs that are being published.
    pub fn note_heads(&self, records: &[Arc<Sequenced>]) {
        let heads = records.iter().filter_map(|record| shared_head(&record.record));
        if self.heads.note(heads) {
            self.request(Task::Heads);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_fingerprint_is_not_condemned_and_a_condemned_blob_is_remembered() {
        let pins = Arc::new(Pins::default());
        let (one, two) = (Fingerprint([1; 32]), Fingerprint([2; 32]));
        let holds = [pins.hold(one), pins.hold(one)];
        for hold in holds {
            assert!(!pins.condemn(one, 7));
            assert!(!pins.is_condemned(7));
            drop(hold);
        }
        assert!(pins.condemn(one, 7));
        let _held = pins.hold(two);
        // Whoever comes later sees it.
        let _late = pins.hold(one);
        assert!(pins.is_condemned(7) && !pins.is_condemned(8));
        let before = pins.forgotten();
        pins.forget(&[7, 9]);
        assert!(!pins.is_condemned(7));
        assert_ne!(pins.forgotten(), before);
    }

    /// Either the worker learns that the blob is condemned or the sequencer that it is held.
    #[test]
    fn a_worker_and_the_sequencer_never_both_have_their_way() {
        let fingerprint = Fingerprint([3; 32]);
        for blob in 0..2_000 {
            let pins = Arc::new(Pins::default());
            let (taken, condemned) = std::thread::scope(|scope| {
                let worker = scope.spawn(|| {
                    let pin = pins.hold(fingerprint);
                    (!pins.is_condemned(blob)).then_some(pin)
                });
                let condemned = pins.condemn(fingerprint, blob);
                (worker.join().unwrap().is_some(), condemned)
            });
            assert!(!(taken && condemned), "blob {blob}");
        }
    }
}
