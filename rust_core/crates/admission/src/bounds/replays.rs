//! Requests to the admin API that were accepted before, so that a captured one has no effect when it is sent again.
//!
//! Signatures are remembered as long as there is room, and at least until their date is too old to be accepted. So those
//! of a time that comes again, because the clock was set back, are refused. Nothing is known about the time before the server
//! started: requests that were signed before are refused, unless the clock was set back to before the start. Then the
//! server knows as much as one that is started now.

use std::collections::BTreeSet;

use parking_lot::Mutex;
use thiserror::Error;

use orcas_sigv4::{SKEW_MAX_MS, Stamp};

/// Requests remembered at a time, 40 bytes each. Only root makes them.
const ORDERS_MAX: usize = 16_384;

pub struct Replays(Mutex<Taken>);

struct Taken {
    /// Orders by their dates.
    orders: BTreeSet<Stamp>,
    /// When the server started, or to when the clock was set back since.
    began_ms: i64,
    /// Signatures of requests dated before this may have been forgotten.
    forgotten_ms: i64,
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
        Self(Mutex::new(Taken { orders: BTreeSet::new(), began_ms: second_of(now_ms), forgotten_ms: i64::MIN }))
    }

    /// Accepts a request with a valid signature, once.
    pub fn admit(&self, stamp: Stamp, now_ms: i64) -> Result<(), NotAdmitted> {
        let mut taken = self.0.lock();
        taken.began_ms = taken.began_ms.min(second_of(now_ms));
        if stamp.signed_at_ms < taken.began_ms.max(taken.forgotten_ms) {
            return Err(NotAdmitted::Unknown);
        }
        if taken.orders.contains(&stamp) {
            return Err(NotAdmitted::Replayed);
        }
        if taken.orders.len() >= ORDERS_MAX {
            taken.forget(now_ms.saturating_sub(SKEW_MAX_MS));
        }
        if taken.orders.len() >= ORDERS_MAX {
            return Err(NotAdmitted::Full);
        }
        taken.orders.insert(stamp);
        Ok(())
    }
}

impl Taken {
    /// Makes room by forgetting the older half of the requests, of those dated before `oldest_ms`. They stay refused even if
    /// the clock is set back.
    fn forget(&mut self, oldest_ms: i64) {
        let middle = self.orders.iter().nth(ORDERS_MAX / 2).map_or(oldest_ms, |stamp| stamp.signed_at_ms);
        // Of the same second, none is kept without the others.
        let before_ms = oldest_ms.min(middle.saturating_add(1));
        self.orders = self.orders.split_off(&Stamp { signed_at_ms: before_ms, signature: [0; 32] });
        self.forgotten_ms = self.forgotten_ms.max(before_ms);
    }
}

/// Dates of requests are whole seconds.
fn second_of(now_ms: i64) -> i64 {
    now_ms - now_ms.rem_euclid(1000)
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
        for now_ms in [NOW_MS + SKEW_MAX_MS + 1001, NOW_MS, NOW_MS - 3_600_000] {
            assert_eq!(replays.admit(first, now_ms), Err(NotAdmitted::Replayed));
        }
    }

    #[test]
    fn a_clock_that_is_set_back_is_followed() {
        let replays = Replays::new(NOW_MS);
        let later = NOW_MS + 6 * 3_600_000;
        let orders: Vec<Stamp> = (0..6).map(|hour| stamp(NOW_MS + i64::from(hour) * 3_600_000, hour)).collect();
        for order in &orders {
            assert_eq!(replays.admit(*order, order.signed_at_ms), Ok(()));
        }
        assert_eq!(replays.admit(stamp(later, 6), later), Ok(()));
        // By five hours, and then to before the start.
        for back in [later - 5 * 3_600_000, NOW_MS - 3_600_000] {
            assert_eq!(replays.admit(stamp(back, 7), back), Ok(()));
            assert_eq!(replays.admit(stamp(back, 7), back), Err(NotAdmitted::Replayed));
        }
        for order in &orders {
            assert_eq!(replays.admit(*order, order.signed_at_ms), Err(NotAdmitted::Replayed), "its time comes again");
        }
        assert_eq!(replays.admit(stamp(NOW_MS - 3_601_678, 8), NOW_MS), Err(NotAdmitted::Unknown));
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
        // What was forgotten stays refused, also if the clock goes back.
        assert_eq!(replays.admit(stamp(NOW_MS, 0), NOW_MS), Err(NotAdmitted::Unknown));
    }
}
