//! Requests to the admin API that were accepted before, so that a captured one has no effect when it is sent again.
//!
//! A signature is remembered until its date is too old to be accepted. Nothing is known about the time before the server
//! started, so requests that were signed before are refused.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use thiserror::Error;

use orcas_sigv4::{SKEW_MAX_MS, Stamp};

/// Requests remembered at a time, 40 bytes each. Only root makes them.
const ORDERS_MAX: usize = 16_384;

pub struct Replays(Mutex<Taken>);

struct Taken {
    /// In the order of their dates.
    orders: BTreeSet<Stamp>,
    /// Requests dated before this are refused: their signatures are not remembered.
    known_since_ms: i64,
}

/// Why a request is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum NotAdmitted {
    #[error("This request was accepted before; sign it again, with another x-amz-orcas-nonce within the same second.")]
    Replayed,
    #[error("By the server's clock, the request was signed before the server started; sign it again.")]
    Unknown,
    #[error("More requests arrived within half an hour than the server can remember; try again later.")]
    Full,
}

impl Replays {
    pub fn new(now_ms: i64) -> Self {
        // Dates of requests are whole seconds.
        Self(Mutex::new(Taken { orders: BTreeSet::new(), known_since_ms: now_ms - now_ms.rem_euclid(1000) }))
    }

    /// Accepts a request with a valid signature, once.
    pub fn admit(&self, stamp: Stamp, now_ms: i64) -> Result<(), NotAdmitted> {
        let mut taken = self.0.lock();
        taken.forget(now_ms.saturating_sub(SKEW_MAX_MS));
        if stamp.signed_at_ms < taken.known_since_ms {
            return Err(NotAdmitted::Unknown);
        }
        if taken.orders.contains(&stamp) {
            return Err(NotAdmitted::Replayed);
        }
        if taken.orders.len() >= ORDERS_MAX {
            return Err(NotAdmitted::Full);
        }
        taken.orders.insert(stamp);
        Ok(())
    }
}

impl Taken {
    /// Forgets requests dated before `oldest_ms`. They stay refused even if the clock is set back.
    fn forget(&mut self, oldest_ms: i64) {
        if self.orders.first().is_none_or(|first| first.signed_at_ms >= oldest_ms) {
            return;
        }
        self.orders = self.orders.split_off(&Stamp { signed_at_ms: oldest_ms, signature: [0; 32] });
        self.known_since_ms = self.known_since_ms.max(oldest_ms);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW_MS: i64 = 1_767_323_045_678;

    fn stamp(signed_at_ms: i64, order: u16) -> Stamp {
        let mut signature = [0; 32];
        signature[..2].copy_from_slice(&order.to_be_bytes());
        Stamp { signed_at_ms, signature }
    }

    #[test]
    fn an_order_is_taken_once_for_as_long_as_it_could_come() {
        let replays = Replays::new(NOW_MS);
        let (first, second) = (stamp(NOW_MS + 1000, 1), stamp(NOW_MS + 1000, 2));
        assert_eq!(replays.admit(first, NOW_MS), Ok(()));
        assert_eq!(replays.admit(second, NOW_MS), Ok(()));
        for later in [0, 1000, SKEW_MAX_MS, SKEW_MAX_MS + 1000] {
            assert_eq!(replays.admit(first, NOW_MS + later), Err(NotAdmitted::Replayed), "{later}");
        }
        // Too old to pass the check of its date, and refused though the clock goes back.
        for now_ms in [NOW_MS + SKEW_MAX_MS + 1001, NOW_MS] {
            assert_eq!(replays.admit(first, now_ms), Err(NotAdmitted::Unknown));
        }
    }

    #[test]
    fn what_was_signed_before_the_start_is_refused() {
        let replays = Replays::new(NOW_MS);
        assert_eq!(replays.admit(stamp(NOW_MS - 678, 1), NOW_MS), Ok(()), "in the second of the start");
        assert_eq!(replays.admit(stamp(NOW_MS - 1678, 1), NOW_MS), Err(NotAdmitted::Unknown));
    }

    #[test]
    fn memory_is_bounded_and_given_back() {
        let replays = Replays::new(NOW_MS);
        for order in 0..ORDERS_MAX {
            let order = u16::try_from(order).unwrap();
            assert_eq!(replays.admit(stamp(NOW_MS, order), NOW_MS), Ok(()));
        }
        assert_eq!(replays.admit(stamp(NOW_MS, u16::MAX), NOW_MS), Err(NotAdmitted::Full));
        let later = NOW_MS + SKEW_MAX_MS + 1;
        assert_eq!(replays.admit(stamp(later, 0), later), Ok(()));
        assert_eq!(replays.0.lock().orders.len(), 1);
    }
}
