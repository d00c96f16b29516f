//! Which requests are traced: those whose caller traces them (W3C trace context), and a share of those that say nothing.
//!
//! A request that is not traced costs a look at its headers. Must not know where traces go.

use std::sync::atomic::{AtomicU64, Ordering};

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
}

impl Traces {
    /// `ratio` is from 0 to 1.
    pub fn new(ratio: f64) -> Self {
        let mut seed = [0; 8];
        // Without randomness, the same requests are drawn after every start.
        let _ = getrandom::fill(&mut seed);
        let share = (ratio.clamp(0.0, 1.0) * (1u64 << 32) as f64) as u64;
        Self { share, drawn: AtomicU64::new(u64::from_ne_bytes(seed)) }
    }

    /// The ids of a request with these headers, if it is traced.
    pub fn begin(&self, headers: &Headers<'_>) -> Option<Box<Trace>> {
        let (trace_id, parent) = match headers.get("traceparent").and_then(caller) {
            Some(Caller { sampled: false, .. }) => return None,
            Some(Caller { trace_id, span_id, .. }) => (Some(trace_id), Some(span_id)),
            None if self.draw() => (None, None),
            None => return None,
        };
        let mut random = [0; 24];
        getrandom::fill(&mut random).ok()?;
        let (first, last) = random.split_at(16);
        let span_id = last.try_into().ok()?;
        Some(Box::new(Trace { trace_id: trace_id.or_else(|| first.try_into().ok())?, span_id, parent }))
    }

    fn draw(&self) -> bool {
        let mut drawn = self.drawn.fetch_add(STEP, Ordering::Relaxed);
        drawn = (drawn ^ (drawn >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        drawn = (drawn ^ (drawn >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (drawn >> 32) < self.share
    }
}

#[derive(Debug, PartialEq, Eq)]
struct Caller {
    trace_id: [u8; 16],
    span_id: [u8; 8],
    sampled: bool,
}

/// What a `traceparent` header says; nothing if it is not valid. <https://www.w3.org/TR/trace-context/>
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
    use super::*;

    const VALID: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";

    fn begun(ratio: f64, header: Option<&str>) -> Option<Box<Trace>> {
        let list: Vec<(&[u8], &[u8])> = header.iter().map(|header| (&b"traceparent"[..], header.as_bytes())).collect();
        Traces::new(ratio).begin(&Headers::new(&list))
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
        let traces = Traces::new(0.1);
        let drawn = (0..100_000).filter(|_| traces.draw()).count();
        assert!((9_000..11_000).contains(&drawn), "{drawn}");
        let all = Traces::new(1.0);
        assert!((0..1000).all(|_| all.draw()));
    }
}
