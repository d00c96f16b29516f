//! How many requests and bytes a second an access key or a user may have: two buckets of tokens, each full after a second.
//! Pure.

use std::sync::Arc;

use orcas_s3::{ErrorCode, S3Error};
use parking_lot::Mutex;

/// A second, and the tokens of a request.
const WHOLE: i64 = 1000;

/// The most of a second; zero means no limit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Rates {
    pub requests: u64,
    pub bytes: u64,
}

/// The limits of one key or user. Tokens are thousandths.
#[derive(Debug)]
pub struct Limit {
    /// The access key, or the ARN of the user.
    of: Arc<str>,
    pub rates: Rates,
    /// Only requests that have a limit take the lock, for a few additions, and a limit leaves more time between them.
    tokens: Mutex<Tokens>,
}

#[derive(Debug)]
struct Tokens {
    at_ms: i64,
    requests: i64,
    bytes: i64,
}

/// Tokens that a second brings.
fn per_second(rate: u64) -> i64 {
    i64::try_from(rate).unwrap_or(i64::MAX).saturating_mul(WHOLE)
}

/// Seconds until so many tokens are there.
fn seconds(missing: i64, rate: u64) -> u32 {
    let seconds = u64::try_from(missing).unwrap_or(0).div_ceil(rate.saturating_mul(WHOLE.unsigned_abs()).max(1));
    u32::try_from(seconds.max(1)).unwrap_or(u32::MAX)
}

impl Limit {
    pub fn new(of: Arc<str>, rates: Rates) -> Self {
        let tokens = Tokens { at_ms: i64::MIN, requests: 0, bytes: 0 };
        Self { of, rates, tokens: Mutex::new(tokens) }
    }

    /// Seconds to wait, if another request is too much now, and what there is too much of.
    fn wait(&self, now_ms: i64) -> Option<(u32, &'static str)> {
        let mut tokens = self.tokens.lock();
        let Rates { requests, bytes } = self.rates;
        // A clock that was set back brings no tokens.
        let passed = now_ms.saturating_sub(tokens.at_ms).max(0);
        let filled = |have: i64, rate: u64| {
            let more = passed.saturating_mul(i64::try_from(rate).unwrap_or(i64::MAX));
            have.saturating_add(more).min(per_second(rate))
        };
        (tokens.requests, tokens.bytes) = (filled(tokens.requests, requests), filled(tokens.bytes, bytes));
        tokens.at_ms = now_ms;
        if requests > 0 && tokens.requests < WHOLE {
            return Some((seconds(WHOLE - tokens.requests, requests), "requests"));
        }
        (bytes > 0 && tokens.bytes <= 0).then(|| (seconds(1 - tokens.bytes, bytes), "bytes"))
    }

    fn take(&self, requests: i64, bytes: u64) {
        let mut tokens = self.tokens.lock();
        tokens.requests = tokens.requests.saturating_sub(requests.saturating_mul(WHOLE));
        tokens.bytes = tokens.bytes.saturating_sub(per_second(bytes));
    }

    /// What is more than full is lost with the next `wait`.
    fn give_back(&self, bytes: u64) {
        let mut tokens = self.tokens.lock();
        tokens.requests = tokens.requests.saturating_add(WHOLE);
        tokens.bytes = tokens.bytes.saturating_add(per_second(bytes));
    }
}

/// Counts a request with so many bytes of its body.
///
/// # Errors
/// `SlowDown`: one of the limits is reached, and none of them counts it.
pub fn admit(limits: &[Arc<Limit>], now_ms: i64, bytes: u64) -> Result<(), S3Error> {
    let reached =
        limits.iter().filter_map(|limit| limit.wait(now_ms).map(|(seconds, what)| (seconds, what, &limit.of)));
    if let Some((seconds, what, of)) = reached.max() {
        let private = Some(format!("the limit of {what} a second of {of} is reached").into());
        return Err(S3Error { retry_after: Some(seconds), private, ..ErrorCode::SlowDown.into() });
    }
    limits.iter().for_each(|limit| limit.take(1, bytes));
    Ok(())
}

/// Takes back what `admit` has counted.
pub fn give_back(limits: &[Arc<Limit>], bytes: u64) {
    limits.iter().for_each(|limit| limit.give_back(bytes));
}

/// Counts the bytes of an answer, which may be more than there is left: what follows waits longer.
pub fn charge(limits: &[Arc<Limit>], bytes: u64) {
    limits.iter().for_each(|limit| limit.take(0, bytes));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limits(requests: u64, bytes: u64) -> Vec<Arc<Limit>> {
        vec![Arc::new(Limit::new("KEY".into(), Rates { requests, bytes }))]
    }

    fn waits(limits: &[Arc<Limit>], now_ms: i64, bytes: u64) -> Option<u32> {
        admit(limits, now_ms, bytes).err().map(|error| {
            assert_eq!(error.code, ErrorCode::SlowDown);
            error.retry_after.expect("a time")
        })
    }

    #[test]
    fn requests_of_a_second() {
        let two = limits(2, 0);
        assert_eq!([1_000, 1_000, 1_000, 1_499].map(|now| waits(&two, now, 1 << 40)), [None, None, Some(1), Some(1)]);
        assert_eq!([1_500, 1_500].map(|now| waits(&two, now, 0)), [None, Some(1)]);
        // A long pause saves up no more than a second's.
        assert_eq!([99_000, 99_000, 99_000].map(|now| waits(&two, now, 0)), [None, None, Some(1)]);
        // Nor does a clock that was set back.
        assert_eq!(waits(&two, 0, 0), Some(1));
    }

    #[test]
    fn bytes_of_a_second_may_be_owed() {
        let hundred = limits(0, 100);
        assert_eq!(waits(&hundred, 0, 250), None);
        assert_eq!(waits(&hundred, 0, 0), Some(2));
        charge(&hundred, 100);
        assert_eq!([0, 2_500, 2_501].map(|now| waits(&hundred, now, 0)), [Some(3), Some(1), None]);
    }

    #[test]
    fn what_is_given_back_can_be_used_again() {
        let one = limits(1, 100);
        for _ in 0..3 {
            assert_eq!(waits(&one, 0, 250), None);
            give_back(&one, 250);
        }
        // But no more than a second brings.
        give_back(&one, 0);
        assert_eq!([0, 0].map(|now| waits(&one, now, 0)), [None, Some(1)]);
    }

    #[test]
    fn the_log_learns_which_limit_is_reached() {
        for (what, limits) in [("requests", limits(1, 100)), ("bytes", limits(9, 100))] {
            admit(&limits, 0, 100).unwrap();
            let cause = admit(&limits, 0, 0).unwrap_err().private;
            assert_eq!(cause.as_deref(), Some(&*format!("the limit of {what} a second of KEY is reached")));
        }
    }

    #[test]
    fn what_one_limit_refuses_none_counts() {
        let both = [limits(1, 0), limits(5, 0)].concat();
        assert_eq!([0, 0, 0, 0].map(|now| waits(&both, now, 0)), [None, Some(1), Some(1), Some(1)]);
        assert_eq!([0, 0, 0, 0, 0].map(|now| waits(&both[1..], now, 0)), [None, None, None, None, Some(1)]);
    }

    #[test]
    fn rates_beyond_all_bounds_are_none() {
        let endless = limits(u64::MAX, u64::MAX);
        assert_eq!([0, 0, i64::MAX].map(|now| waits(&endless, now, u64::MAX)), [None, Some(1), None]);
    }
}
