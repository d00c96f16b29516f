//! The counts of a request: when it began, and the bytes of its body and of the response.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use orcas_http::Headers;
use orcas_telemetry::stopwatch::Stopwatch;
use orcas_telemetry::traces::{Trace, Traces};

/// Settings for watching requests.
pub struct Watch {
    /// Requests that take as long are reported.
    pub slow: Option<Duration>,
    /// Requests are counted.
    pub counts: bool,
    traces: Option<Traces>,
}

impl Watch {
    /// `traces`: the share of requests that are traced, and how many a second because their callers ask for it.
    pub fn new(slow: Option<Duration>, counts: bool, traces: Option<(f64, u32)>) -> Self {
        Self { slow, counts, traces: traces.map(|(ratio, per_second)| Traces::new(ratio, per_second)) }
    }

    /// The tally of a request that is accepted now. `verified`: somebody has signed it.
    #[inline]
    pub fn tally(&self, began: Instant, headers: &Headers<'_>, verified: bool) -> Tally {
        let trace = self.trace(began, headers, verified);
        let watch = (trace.is_some() || self.slow.is_some()).then(|| (Instant::now(), Arc::default()));
        let (accepted, stopwatch) = watch.unzip();
        Tally { accepted, stopwatch, trace, ..Tally::new(began) }
    }

    /// The ids of a request, if it is traced. `verified`: somebody has signed it, and it is not refused.
    #[inline]
    pub fn trace(&self, began: Instant, headers: &Headers<'_>, verified: bool) -> Option<Box<Trace>> {
        self.traces.as_ref().and_then(|traces| traces.begin(headers, began, verified))
    }

    /// Requests that are not traced because there are too many of them: of verified senders, and of others.
    pub fn declined(&self) -> (u64, u64) {
        self.traces.as_ref().map_or((0, 0), Traces::declined)
    }
}

/// The arriving side.
pub struct Tally {
    pub began: Instant,
    /// When the sender was known, if somebody wants to know.
    pub accepted: Option<Instant>,
    /// The steps from then on, if somebody wants to know.
    pub stopwatch: Option<Arc<Stopwatch>>,
    pub trace: Option<Box<Trace>>,
    received: AtomicU64,
    /// When the body had arrived.
    complete: OnceLock<Instant>,
}

impl Tally {
    pub fn new(began: Instant) -> Self {
        Self {
            began,
            accepted: None,
            stopwatch: None,
            trace: None,
            received: AtomicU64::new(0),
            complete: OnceLock::new(),
        }
    }

    /// Bytes of the body have arrived.
    pub fn add(&self, bytes: usize) {
        self.received.fetch_add(bytes as u64, Ordering::Relaxed);
    }

    /// The body has arrived, or there is none.
    pub fn end(&self) {
        self.complete.get_or_init(Instant::now);
        if let Some(stopwatch) = &self.stopwatch {
            stopwatch.begin();
        }
    }

    /// When it had.
    pub fn ended(&self) -> Option<Instant> {
        self.complete.get().copied()
    }

    pub fn received(&self) -> u64 {
        self.received.load(Ordering::Relaxed)
    }
}

/// A response body that leaves in pieces.
pub struct Delivery {
    sent: AtomicU64,
    first: OnceLock<Instant>,
    broken: Arc<AtomicBool>,
}

impl Delivery {
    /// `broken`: whether what is to be sent cannot be read to its end.
    pub fn new(broken: &Arc<AtomicBool>) -> Self {
        Self { sent: AtomicU64::new(0), first: OnceLock::new(), broken: Arc::clone(broken) }
    }

    pub fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Relaxed)
    }

    /// Bytes were handed to the socket.
    pub fn add(&self, bytes: u64) {
        self.first.get_or_init(Instant::now);
        self.sent.fetch_add(bytes, Ordering::Relaxed);
    }

    pub fn sent(&self) -> u64 {
        self.sent.load(Ordering::Relaxed)
    }

    /// When the first of them were.
    pub fn first(&self) -> Option<Instant> {
        self.first.get().copied()
    }
}
