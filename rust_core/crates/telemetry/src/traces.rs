//! Which requests are traced: those whose caller traces them (W3C trace context), and a share of those that say
//! nothing. The number of requests traced because their callers say so is bounded. Nobody needs a key to say so:
//! requests without a verified sender therefore have a bound of their own, and take no room from those of verified
//! senders.
//!
//! A request that is not traced costs a look at its headers. Must not know where traces go.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use orcas_http::{Headers, parse_hex};

/// Steps of the drawing below, as splitmix64 has them.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The ids of a traced request. `parent` is the span of the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Trace {
    pub trace_id: [u8; 16],
    pub span_id: [u8; 8],
    pub parent: Option<[u8; 8]>,
}

/// Decides for each request.
pub struct Traces {
    /// Requests of 2^32 that are traced without being asked for.
    share: u64,
    drawn: AtomicU64,
    started: Instant,
    /// The allowance for verified senders who ask for traces.
    asked: Allowance,
    /// All of other senders.
    unverified: Allowance,
}

impl Traces {
    /// `ratio` is from 0 to 1, `per_second` how many requests are traced in a second because their callers ask for it, and
    /// how many of senders that are not verified.
    pub fn new(ratio: f64, per_second: u32) -> Self {
        let mut seed = [0; 8];
        // Without randomness, the same requests are drawn after every start.
        let _ = getrandom::fill(&mut seed);
        let share = (ratio.clamp(0.0, 1.0) * (1u64 << 32) as f64) as u64;
        let drawn = AtomicU64::new(u64::from_ne_bytes(seed));
        let (asked, unverified) = (Allowance::new(per_second), Allowance::new(per_second));
        Self { share, drawn, started: Instant::now(), asked, unverified }
    }

    /// The ids of a request with these headers that began at `began`, if it is traced. `verified`: its sender is known, and
    /// it is not refused.
    pub fn begin(&self, headers: &Headers<'_>, began: Instant, verified: bool) -> Option<Box<Trace>> {
        let (trace_id, parent) = match headers.get("traceparent").and_then(caller) {
            Some(Caller { sampled: false, .. }) => return None,
            Some(Caller { trace_id, span_id, .. }) => (Some(trace_id), Some(span_id)),
            None if self.draw() => (None, None),
            None => return None,
        };
        let second = began.saturating_duration_since(self.started).as_secs() as u32;
        let taken = match (verified, parent) {
            (false, _) => self.unverified.take(second),
            (true, Some(_)) => self.asked.take(second),
            // What the server draws is bounded by its share.
            (true, None) => true,
        };
        if !taken {
            return None;
        }
        let mut random = [0; 24];
        getrandom::fill(&mut random).ok()?;
        let (first, last) = random.split_at(16);
        let span_id = last.try_into().ok()?;
        Some(Box::new(Trace { trace_id: trace_id.or_else(|| first.try_into().ok())?, span_id, parent }))
    }

    /// Requests that would have been traced, had there not been so many: of verified senders, and of others.
    pub fn declined(&self) -> (u64, u64) {
        (self.asked.declined.load(Ordering::Relaxed), self.unverified.declined.load(Ordering::Relaxed))
    }

    fn draw(&self) -> bool {
        let mut drawn = self.drawn.fetch_add(STEP, Ordering::Relaxed);
        drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (drawn >> 32) < self.share
    }
}

/// How many may be taken in each second.
struct Allowance {
    per_second: u32,
    /// The second, and below it how many were taken in it.
    taken: AtomicU64,
    declined: AtomicU64,
}

impl Allowance {
    fn new(per_second: u32) -> Self {
        Self { per_second, taken: AtomicU64::new(0), declined: AtomicU64::new(0) }
    }

    fn take(&self, second: u32) -> bool {
        let next = |taken: u64| match (taken >> 32, taken as u32) {
            (now, count) if now == u64::from(second) && count >= self.per_second => None,
            (now, _) if now == u64::from(second) => Some(taken + 1),
            _ if self.per_second == 0 => None,
            _ => Some(u64::from(second) << 32 | 1),
        };
        let taken = self.taken.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next).is_ok();
        self.declined.fetch_add(u64::from(!taken), Ordering::Relaxed);
        taken
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Caller {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    sampled: bool,
}

/// The caller in a `traceparent` header; nothing if it is not valid. <https://www.w3.org/TR/trace-context/>
fn caller(header: &[u8]) -> Option<Caller> {
    let mut fields = header.trim_ascii().split(|byte| *byte == b'-');
    let [version, trace_id, span_id, flags] = [fields.next()?, fields.next()?, fields.next()?, fields.next()?];
    let lower = |field: &[u8]| !field.iter().any(u8::is_ascii_uppercase);
    let [version]: [u8; 1] = parse_hex(version).filter(|_| lower(version))?;
    // Later versions may have more fields.
    if version == 0xff
        || (version == 0 && fields.next().is_some())
        || ![trace_id, span_id, flags].into_iter().all(lower)
    {
        return None;
    }
    let (trace_id, span_id) = (parse_hex::<16>(trace_id)?, parse_hex::<8>(span_id)?);
    let [flags]: [u8; 1] = parse_hex(flags)?;
    (trace_id != [0; 16] && span_id != [0; 8]).then_some(Caller { trace_id, span_id, sampled: flags & 1 == 1 })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn begun(ratio: f64, header: Option<&str>) -> Option<Box<Trace>> {
        asked(&Traces::new(ratio, 100), header, Duration::ZERO, true)
    }

    fn asked(traces: &Traces, header: Option<&str>, after: Duration, verified: bool) -> Option<Box<Trace>> {
        let list: Vec<(&[u8], &[u8])> = header.iter().map(|header| (&b"traceparent"[..], header.as_bytes())).collect();
        traces.begin(&Headers::new(&list), traces.started + after, verified)
    }

    #[test]
    fn what_clients_ask_for_is_bounded_and_strangers_take_no_place_of_others() {
        let traces = Traces::new(1.0, 3);
        let count = |header, after, verified| {
            (0..10).filter(|_| asked(&traces, header, Duration::from_secs(after), verified).is_some()).count()
        };
        assert_eq!(count(Some(VALID), 0, false), 3);
        assert_eq!(count(None, 0, false), 0, "what is drawn of strangers is bounded as well");
        assert_eq!(count(Some(VALID), 0, true), 3);
        assert_eq!(count(None, 0, true), 10, "the share of the server is its own");
        assert_eq!(traces.declined(), (7, 17));
        assert_eq!((count(Some(VALID), 1, true), count(Some(VALID), 1, false)), (3, 3), "the next second");
        let none = Traces::new(0.0, 0);
        assert!((0..3).all(|after| asked(&none, Some(VALID), Duration::from_secs(after), true).is_none()));
    }

    #[test]
    fn the_caller_decides() {
        let trace = begun(0.0, Some(VALID)).unwrap();
        assert_eq!(trace.trace_id[..2], [0x4b, 0xf9]);
        assert_eq!(trace.parent.unwrap()[1], 0xf0);
        assert_ne!(trace.span_id, trace.parent.unwrap());
        assert_eq!(begun(1.0, Some(&VALID.replace("-01", "-00"))), None);
        assert_eq!(begun(0.0, None), None);
        assert_eq!(begun(1.0, None).unwrap().parent, None);
    }

    #[test]
    fn what_is_no_trace_context_counts_as_none() {
        assert!(caller(VALID.as_bytes()).is_some());
        assert!(caller(VALID.replacen("00-", "cc-", 1).as_bytes()).is_some());
        assert!(caller(format!("{}-more", VALID.replacen("00-", "01-", 1)).as_bytes()).is_some());
        for bad in [
            String::new(),
            VALID[..54].to_owned(),
            format!("{VALID}-more"),
            VALID.to_uppercase(),
            VALID.replacen("00-", "ff-", 1),
            VALID.replace("00f067aa0ba902b7", "0000000000000000"),
            VALID.replace("4bf92f3577b34da6a3ce929d0e0e4736", "00000000000000000000000000000000"),
            VALID.replace('f', "g"),
        ] {
            assert_eq!(caller(bad.as_bytes()), None, "{bad}");
        }
    }

    #[test]
    fn a_share_of_the_others_is_drawn() {
        let traces = Traces::new(0.1, 0);
        let drawn = (0..100_000).filter(|_| traces.draw()).count();
        assert!((9_000..11_000).contains(&drawn), "{drawn}");
        let all = Traces::new(1.0, 0);
        assert!((0..1000).all(|_| all.draw()));
    }
}
