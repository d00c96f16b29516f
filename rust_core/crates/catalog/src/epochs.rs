//! Epochs: which readers may still be reading data from where it was before.
//!
//! Invariants. A reader pins the present epoch before its first lookup and keeps the pin until its last byte. Before
//! data is removed, no new lookup may lead to it; then the epoch ends, and the data is destroyed when no pin of that
//! epoch or an earlier one is left.

use std::sync::Arc;

use orcas_base::per_thread::PerThread;
use orcas_base::sync::Mutex;
use orcas_base::sync::atomic::{AtomicU64, Ordering};

#[derive(Default)]
pub struct Epochs {
    present: AtomicU64,
    /// Every read takes a pin, so each group of threads has its own. Whoever asks whether an epoch that has ended is over
    /// asks the groups one after the other. A reader that found the epoch still present had the lock of its group from
    /// then until its pin was counted: either the pin is seen, or the reader locked later and found the next epoch.
    pins: PerThread<Mutex<Pins>>,
}

/// The pins of a group of threads: epochs with their numbers of pins, the oldest first. No number is zero.
#[derive(Default)]
struct Pins(Vec<(u64, usize)>);

impl Pins {
    fn add(&mut self, epoch: u64) {
        match self.0.iter_mut().rfind(|(pinned, _)| *pinned == epoch) {
            Some((_, count)) => *count += 1,
            None => self.0.push((epoch, 1)),
        }
    }

    fn remove(&mut self, epoch: u64) {
        if let Some(at) = self.0.iter().rposition(|(pinned, _)| *pinned == epoch) {
            self.0[at].1 -= 1;
            if self.0[at].1 == 0 {
                self.0.remove(at);
            }
        }
    }
}

impl Epochs {
    pub fn pin(self: &Arc<Self>) -> EpochPin {
        let mine = self.pins.mine();
        let mut pins = mine.lock();
        // Read under the lock, so that epochs are counted in their order.
        let epoch = self.present.load(Ordering::SeqCst);
        pins.add(epoch);
        drop(pins);
        EpochPin { group: mine.group, epochs: Arc::clone(self), epoch }
    }

    /// Ends the present epoch and returns it.
    pub fn end(&self) -> u64 {
        self.present.fetch_add(1, Ordering::SeqCst)
    }

    /// The number of pinned epochs, of all groups of threads together.
    #[cfg(feature = "shuttle")]
    pub fn pinned(&self) -> usize {
        self.pins.all().map(|pins| pins.lock().0.len()).sum()
    }

    /// Whether no pin of `epoch` or an earlier one is left.
    pub fn is_over(&self, epoch: u64) -> bool {
        self.pins.all().all(|pins| pins.lock().0.first().is_none_or(|(oldest, _)| *oldest > epoch))
    }
}

/// Keeps everything that could be looked up when it was taken in its place.
pub struct EpochPin {
    epochs: Arc<Epochs>,
    epoch: u64,
    /// The group of the thread that took the pin.
    group: usize,
}

impl Clone for EpochPin {
    /// Counted beside the first one: there, no look at the groups can miss both.
    fn clone(&self) -> Self {
        self.epochs.pins.of(self.group).lock().add(self.epoch);
        Self { epochs: Arc::clone(&self.epochs), epoch: self.epoch, group: self.group }
    }
}

impl Drop for EpochPin {
    fn drop(&mut self) {
        self.epochs.pins.of(self.group).lock().remove(self.epoch);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_is_over_when_its_pins_and_all_older_ones_are_gone() {
        let epochs = Arc::new(Epochs::default());
        let first = epochs.pin();
        let ended = epochs.end();
        let second = epochs.pin();
        assert!(!epochs.is_over(ended));
        let again = first.clone();
        drop(first);
        assert!(!epochs.is_over(ended));
        drop(again);
        assert!(epochs.is_over(ended));
        let later = epochs.end();
        assert!(!epochs.is_over(later));
        drop(second);
        assert!(epochs.is_over(later));
    }
    #[test]
    fn a_pin_counts_wherever_it_was_taken_and_is_dropped() {
        let epochs = Arc::new(Epochs::default());
        let pins = std::thread::scope(|scope| {
            let threads: Vec<_> = (0..20).map(|_| scope.spawn(|| epochs.pin())).collect();
            threads.into_iter().map(|thread| thread.join().unwrap()).collect::<Vec<_>>()
        });
        let ended = epochs.end();
        for pin in pins {
            let again = pin.clone();
            drop(pin);
            assert!(!epochs.is_over(ended));
            drop(again);
        }
        assert!(epochs.is_over(ended));
    }
}
