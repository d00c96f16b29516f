//! Segments that have left the index while readers may still need them for an object that names them.
//!
//! Invariants. A segment is here before the transaction that removes it commits, and until every reader is gone that
//! may have found its object. In memory only: readers end with the process. Bounded: beyond `KEPT_MAX` the oldest are
//! dropped, and a reader that needs one of them gets an error instead of wrong bytes.

use std::collections::{HashMap, VecDeque};

use bytes::Bytes;
// Not the one that a scheduler can drive: inside a transaction of the index nobody else may run, because an index in
// memory would show what is not committed. So nothing that a scheduler drives is called while it is held.
use parking_lot::Mutex;

use super::epochs::Epochs;
use orcas_record::Sequence;

/// Bytes of segments: those of 1 TiB of objects in chunks of the usual size.
const KEPT_MAX: usize = 64 << 20;

#[derive(Default)]
pub struct RetiredSegments {
    state: Mutex<KeptSegments>,
}

#[derive(Default)]
struct KeptSegments {
    segments: HashMap<Sequence, Bytes>,
    /// Oldest first, with the epoch in which they went; none while their transaction is open.
    order: VecDeque<(Sequence, Option<u64>)>,
    bytes: usize,
}

impl KeptSegments {
    fn drop_oldest(&mut self) {
        if let Some((segment, _)) = self.order.pop_front()
            && let Some(payload) = self.segments.remove(&segment)
        {
            self.bytes -= payload.len();
        }
    }
}

impl RetiredSegments {
    /// The transaction under way removes the segment.
    pub fn keep(&self, segment: Sequence, payload: &[u8]) {
        let mut state = self.state.lock();
        // A transaction that found no room is tried again.
        if state.segments.contains_key(&segment) {
            return;
        }
        state.bytes += payload.len();
        state.order.push_back((segment, None));
        state.segments.insert(segment, Bytes::copy_from_slice(payload));
        while state.bytes > KEPT_MAX && state.order.len() > 1 {
            state.drop_oldest();
        }
    }

    /// The transaction is committed: who comes from now on finds no object that names what it removed.
    pub fn committed(&self, epochs: &Epochs) {
        let some_left = self.state.lock().order.back().is_some_and(|(_, epoch)| epoch.is_none());
        if some_left {
            let ended = epochs.end();
            let mut state = self.state.lock();
            state.order.iter_mut().rev().take_while(|(_, epoch)| epoch.is_none()).for_each(|(_, epoch)| {
                *epoch = Some(ended);
            });
        }
        loop {
            let oldest = self.state.lock().order.front().and_then(|(_, epoch)| *epoch);
            match oldest {
                Some(epoch) if epochs.is_over(epoch) => self.state.lock().drop_oldest(),
                _ => return,
            }
        }
    }

    pub fn segment(&self, segment: Sequence) -> Option<Bytes> {
        self.state.lock().segments.get(&segment).cloned()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_segment_stays_until_its_readers_are_gone() {
        let (retired, epochs) = (RetiredSegments::default(), Arc::new(Epochs::default()));
        let reader = epochs.pin();
        retired.keep(7, b"extents");
        retired.committed(&epochs);
        let later = epochs.pin();
        retired.committed(&epochs);
        assert_eq!(retired.segment(7).as_deref(), Some(&b"extents"[..]));
        drop(reader);
        retired.committed(&epochs);
        assert_eq!(retired.segment(7), None);
        assert_eq!(retired.state.lock().bytes, 0);
        drop(later);
    }

    #[test]
    fn a_transaction_that_is_tried_again_keeps_its_segments_once() {
        let (retired, epochs) = (RetiredSegments::default(), Arc::new(Epochs::default()));
        let reader = epochs.pin();
        (0..3).for_each(|_| retired.keep(7, b"extents"));
        let sizes = || {
            let state = retired.state.lock();
            (state.order.len(), state.bytes)
        };
        assert_eq!(sizes(), (1, 7));
        retired.committed(&epochs);
        drop(reader);
        retired.committed(&epochs);
        assert_eq!(sizes(), (0, 0));
    }

    #[test]
    fn the_oldest_go_when_there_are_too_many() {
        let retired = RetiredSegments::default();
        let payload = vec![1; KEPT_MAX / 2];
        (1..=3).for_each(|segment| retired.keep(segment, &payload));
        assert_eq!((retired.segment(1), retired.state.lock().bytes), (None, KEPT_MAX));
        assert!(retired.segment(2).is_some() && retired.segment(3).is_some());
    }
}
