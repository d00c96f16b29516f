//! Requests that were slow or are traced; the traced ones on their way to whoever sends their spans. Nothing waits for
//! that: one that finds no room is dropped, and its spans are counted. Requests without a verified sender leave half of
//! the room to others.

use std::collections::VecDeque;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use parking_lot::{Condvar, Mutex};

use orcas_s3::{ErrorCode, Operation};
use orcas_telemetry::diagnostics::bounded;
use orcas_telemetry::traces::Trace;

/// Requests that may wait, and those of them without a verified sender.
const WAITING_MAX: usize = 2048;
const UNVERIFIED_MAX: usize = WAITING_MAX / 2;
/// Requests that are taken at once.
const BATCH_MAX: usize = 256;

/// Seconds of a request: all of it, until its sender was known, its body had arrived, its response was ready, and that was
/// sent. The steps in between: the stage that each belongs to, its name, when it began, and how long it took. Then what
/// became of it.
pub struct Stages {
    pub total: f64,
    pub authenticate: f64,
    pub receive: f64,
    pub execute: f64,
    pub send: f64,
    pub steps: Vec<(&'static str, &'static str, f64, f64)>,
    /// By its head: it has no steps, and of the stages only the first and the last.
    pub refused: bool,
    /// The request was signed by a known sender, and was not refused by its head.
    pub verified: bool,
    pub status: Option<u16>,
    pub code: Option<ErrorCode>,
    pub slow: bool,
    pub trace: Option<Trace>,
}

impl Stages {
    /// The spans that show it: its own, and those of its stages and steps.
    pub fn spans(&self) -> u64 {
        let stages = if self.refused { 2 } else { 4 };
        1 + stages + self.steps.len() as u64
    }
}

/// The fields of the span of a request.
pub struct Traced {
    /// Nanoseconds since 1970.
    pub ended_ns: u64,
    pub stages: Stages,
    pub operation: Option<Operation>,
    pub bucket: Option<String>,
    pub key: Option<String>,
    pub method: String,
    /// Address and port of the client.
    pub client: Option<String>,
}

impl Traced {
    /// A request that ends now. Texts that are longer than any key are cut off.
    pub fn new(
        stages: Stages,
        (operation, bucket, key): (Option<Operation>, Option<String>, Option<String>),
        method: &[u8],
        client: Option<String>,
    ) -> Self {
        let text = |text: String| bounded(format_args!("{text}"));
        Self {
            ended_ns: now_ns(),
            stages,
            operation,
            bucket: bucket.map(text),
            key: key.map(text),
            method: text(String::from_utf8_lossy(method).into_owned()),
            client,
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "receivers of spans have the time of the system")]
fn now_ns() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64
}

#[derive(Default)]
pub struct TracedQueue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Traced>,
    /// Spans of requests that found no room.
    dropped: u64,
    ended: bool,
}

impl TracedQueue {
    pub fn push(&self, request: Traced) {
        let mut state = self.state.lock();
        let room = if request.stages.verified { WAITING_MAX } else { UNVERIFIED_MAX };
        if state.waiting.len() >= room {
            state.dropped += request.stages.spans();
            return;
        }
        state.waiting.push_back(request);
        // To wake the thread for each request would cost more than to hand it over.
        if matches!(state.waiting.len(), 1 | BATCH_MAX) {
            self.changed.notify_one();
        }
    }

    /// Waits for requests, and for `gather` until they are a whole batch. None after `end`, once all are taken.
    pub fn take(&self, gather: Duration) -> Vec<Traced> {
        let mut state = self.state.lock();
        self.changed.wait_while(&mut state, |state| state.waiting.is_empty() && !state.ended);
        self.changed.wait_while_for(&mut state, |state| state.waiting.len() < BATCH_MAX && !state.ended, gather);
        let count = state.waiting.len().min(BATCH_MAX);
        state.waiting.drain(..count).collect()
    }

    /// Ends the wait for more requests.
    pub fn end(&self) {
        self.state.lock().ended = true;
        self.changed.notify_all();
    }

    /// Spans that found no room.
    pub fn dropped(&self) -> u64 {
        self.state.lock().dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LONG: Duration = Duration::from_secs(60);

    fn request(verified: bool) -> Traced {
        let stages = Stages {
            total: 0.0,
            authenticate: 0.0,
            receive: 0.0,
            execute: 0.0,
            send: 0.0,
            steps: vec![("execute", "queue", 0.0, 0.0)],
            refused: !verified,
            verified,
            status: None,
            code: None,
            slow: false,
            trace: None,
        };
        let key = Some("k".repeat(5000));
        Traced::new(stages, (None, None, key), b"GET", None)
    }

    #[test]
    fn what_finds_no_room_is_counted_and_strangers_leave_room_for_others() {
        let queue = TracedQueue::default();
        (0..UNVERIFIED_MAX + 2).for_each(|_| queue.push(request(false)));
        assert_eq!(queue.dropped(), 2 * 4);
        (0..WAITING_MAX - UNVERIFIED_MAX + 3).for_each(|_| queue.push(request(true)));
        assert_eq!(queue.dropped(), 2 * 4 + 3 * 6);
        queue.end();
        let mut taken = 0;
        while let Some(request) = queue.take(LONG).last() {
            assert!(request.key.as_ref().is_some_and(|key| key.len() < 3000));
            taken += BATCH_MAX;
        }
        assert_eq!(taken, WAITING_MAX);
    }

    #[test]
    fn a_whole_batch_does_not_wait_for_more_and_the_end_waits_for_nothing() {
        let queue = TracedQueue::default();
        (0..=BATCH_MAX).for_each(|_| queue.push(request(true)));
        assert_eq!(queue.take(LONG).len(), BATCH_MAX);
        std::thread::scope(|scope| {
            let rest = scope.spawn(|| (queue.take(LONG).len(), queue.take(LONG).len()));
            queue.end();
            assert_eq!(rest.join().unwrap(), (1, 0));
        });
    }
}
