//! Epochs: which readers may still be reading data from where it was before.
//!
//! Invariants. A reader pins the present epoch before its first lookup and keeps the pin until its last byte. Before
//! data is removed, no new lookup may lead to it; then the epoch ends, and the data is destroyed when no pin of that
//! epoch or an earlier one is left.

use std::collections::BTreeMap;
use std::sync::Arc;

use orcas_base::sync::Mutex;

#[derive(Default)]
pub struct Epochs {
    state: Mutex<Pinned>,
}

#[derive(Default)]
struct Pinned {
    present: u64,
    /// Pins by epoch; none is zero.
    pinned: BTreeMap<u64, usize>,
}

impl Epochs {
    pub fn pin(self: &Arc<Self>) -> EpochPin {
        let mut state = self.state.lock();
        let epoch = state.present;
        *state.pinned.entry(epoch).or_default() += 1;
        drop(state);
        EpochPin { epochs: Arc::clone(self), epoch }
    }

    /// Ends the present epoch and returns it.
    pub fn end(&self) -> u64 {
        let mut state = self.state.lock();
        state.present += 1;
        state.present - 1
    }

    /// The number of pinned epochs.
    #[cfg(feature = "shuttle")]
    pub fn pinned(&self) -> usize {
        self.state.lock().pinned.len()
    }

    /// Whether no pin of `epoch` or an earlier one is left.
    pub fn is_over(&self, epoch: u64) -> bool {
        self.state.lock().pinned.first_key_value().is_none_or(|(oldest, _)| *oldest > epoch)
    }
}

/// Keeps everything that could be looked up when it was taken in its place.
pub struct EpochPin {
    epochs: Arc<Epochs>,
    epoch: u64,
}

impl Clone for EpochPin {
    fn clone(&self) -> Self {
        *self.epochs.state.lock().pinned.entry(self.epoch).or_default() += 1;
        Self { epochs: Arc::clone(&self.epochs), epoch: self.epoch }
    }
}

impl Drop for EpochPin {
    fn drop(&mut self) {
        let mut state = self.epochs.state.lock();
        if let Some(count) = state.pinned.get_mut(&self.epoch) {
            *count -= 1;
            if *count == 0 {
                state.pinned.remove(&self.epoch);
            }
        }
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
}
