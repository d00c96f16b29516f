//! The newest copies that failed, for the targets of notifications.

use std::collections::VecDeque;
use std::sync::Arc;

use parking_lot::Mutex;

use orcas_events::{Event, FailedCopy};

/// Failures that are kept for targets that have not heard of them.
const TOLD_MAX: usize = 4_096;
/// Failures that a target hears of in one look.
const TOLD_AT_ONCE: usize = 64;

pub(super) struct Told {
    pub(super) id: String,
    pub(super) event: Event,
    pub(super) failed: FailedCopy,
}

#[derive(Default)]
struct Newest {
    told: VecDeque<Arc<Told>>,
    /// How many came before those.
    gone: u64,
}

/// The newest failures.
#[derive(Default)]
pub(super) struct FailedCopies {
    newest: Mutex<Newest>,
}

impl FailedCopies {
    pub(super) fn push(&self, told: Told) {
        let mut newest = self.newest.lock();
        if newest.told.len() == TOLD_MAX {
            newest.told.pop_front();
            newest.gone += 1;
        }
        newest.told.push_back(Arc::new(told));
    }

    /// The next behind the first `heard`, which are counted then, and whether some of them are gone.
    pub(super) fn next(&self, heard: &mut u64) -> (Vec<Arc<Told>>, bool) {
        let newest = self.newest.lock();
        let first = newest.gone.max(*heard);
        let skipped = usize::try_from(first - newest.gone).unwrap_or(usize::MAX);
        let told: Vec<_> = newest.told.iter().skip(skipped).take(TOLD_AT_ONCE).cloned().collect();
        let lost = *heard < newest.gone;
        *heard = first + told.len() as u64;
        (told, lost)
    }
}

#[cfg(test)]
mod tests {
    use orcas_engine::Place;
    use orcas_events::EventName;

    use super::*;

    fn told(number: usize) -> Told {
        let event = Event {
            name: EventName::ReplicationFailed,
            place: Place::default(),
            time_ms: 0,
            bucket: orcas_events::Bucket::default(),
            object: None,
            principal: String::new(),
            request_id: String::new(),
            source_address: String::new(),
        };
        Told { id: number.to_string(), event, failed: FailedCopy::default() }
    }

    #[test]
    fn each_is_heard_of_once_and_who_is_too_late_is_told_so() {
        let (copies, mut heard) = (FailedCopies::default(), 0);
        let ids = |found: &[Arc<Told>]| found.iter().map(|told| told.id.parse::<usize>().unwrap()).collect::<Vec<_>>();
        (0..TOLD_AT_ONCE + 2).for_each(|number| copies.push(told(number)));
        let (found, lost) = copies.next(&mut heard);
        assert_eq!((ids(&found), lost), ((0..TOLD_AT_ONCE).collect(), false));
        let (found, lost) = copies.next(&mut heard);
        assert_eq!((ids(&found), lost), (vec![TOLD_AT_ONCE, TOLD_AT_ONCE + 1], false));
        assert!(copies.next(&mut heard).0.is_empty());
        // One more than there is room for.
        let first = TOLD_AT_ONCE + 2;
        (first..=first + TOLD_MAX).for_each(|number| copies.push(told(number)));
        let (found, lost) = copies.next(&mut heard);
        assert_eq!((ids(&found)[0], lost), (first + 1, true));
        assert!(!copies.next(&mut heard).1);
    }
}
