//! Pins on fingerprints: an upload that has found a blob by its fingerprint keeps it from being condemned.
//!
//! A worker pins a fingerprint before it looks it up and asks afterwards whether what it found is condemned; the
//! committer condemns nothing that is pinned. So either the worker sees the condemnation or the committer sees the pin.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use orcas_base::planted::{self, Bug};
use orcas_base::sync::Mutex;
use orcas_decide::UploadPin;
use orcas_record::{Fingerprint, Sequence};

/// Damaged blobs that are remembered. A store with more has other worries.
const DAMAGED_MAX: usize = 1 << 16;

/// Fingerprints that uploads have found or are about to look up, and blobs that are condemned.
#[derive(Default)]
pub struct FingerprintPins {
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

/// Counts as one pin until it is dropped.
struct PinnedFingerprint {
    pins: Arc<FingerprintPins>,
    fingerprint: Fingerprint,
}

impl Drop for PinnedFingerprint {
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

impl FingerprintPins {
    /// While the pin lives, no blob with this fingerprint is condemned.
    pub fn hold(self: &Arc<Self>, fingerprint: Fingerprint) -> UploadPin {
        *self.state.lock().held.entry(fingerprint).or_default() += 1;
        Arc::new(PinnedFingerprint { pins: Arc::clone(self), fingerprint })
    }

    /// Called by the committer before it condemns: false when the fingerprint is pinned; else remembers the blob as
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
    pub fn is_out_of_use(&self, blob: Sequence) -> bool {
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
    pub fn forgotten(&self) -> u64 {
        self.state.lock().forgotten
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_held_fingerprint_is_not_condemned_and_a_condemned_blob_is_remembered() {
        let pins = Arc::new(FingerprintPins::default());
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

    /// Either the worker learns that the blob is condemned or the committer that it is held.
    #[test]
    fn a_worker_and_the_committer_never_both_have_their_way() {
        let fingerprint = Fingerprint([3; 32]);
        for blob in 0..2_000 {
            let pins = Arc::new(FingerprintPins::default());
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
