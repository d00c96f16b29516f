//! The queue between the threads that report and the one that writes: bounded, and with a rate for each kind of diagnostic.
//!
//! What exceeds the rate of its kind is counted and told with the next diagnostic of that kind, or when no more of them come.
//! What finds the queue full is counted as well: whoever reports never waits.

use std::collections::{HashMap, VecDeque};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use tracing::Level;

use super::format::{Diagnostic, Kind, Value};

/// Diagnostics that wait to be written.
const DIAGNOSTICS_MAX: usize = 256;
/// As for lines of Python: so many of a kind at once, and then one in each `INTERVAL`.
const BURST: u32 = 50;
const INTERVAL: Duration = Duration::from_secs(1);
/// A flood has ended when nothing of its kind has come for so long.
const QUIET: Duration = Duration::from_secs(10);

#[derive(Default)]
pub(super) struct Queue {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Default)]
struct State {
    waiting: VecDeque<Diagnostic>,
    /// Diagnostics that found the queue full.
    lost: u64,
    kinds: HashMap<Kind, Rate>,
    ended: bool,
}

/// The state of a kind.
struct Rate {
    /// How many may pass now.
    tokens: u32,
    /// Up to when tokens have been added.
    counted: Instant,
    seen: Instant,
    suppressed: u64,
    /// The last one that passed, for the line that counts the others.
    passed: Option<Diagnostic>,
}

impl Queue {
    /// Whether a diagnostic of this kind passes, and how many before it did not. Counts it if not.
    pub fn admit(&self, kind: Kind, now: Instant) -> Option<u64> {
        let mut state = self.state.lock();
        let rate = state.kinds.entry(kind).or_insert_with(|| Rate {
            tokens: BURST,
            counted: now,
            seen: now,
            suppressed: 0,
            passed: None,
        });
        rate.refill(now);
        if rate.tokens == 0 {
            rate.suppressed += 1;
            if rate.suppressed == 1 {
                // It may have to be told before anything else happens.
                self.changed.notify_all();
            }
            return None;
        }
        rate.tokens -= 1;
        Some(std::mem::take(&mut rate.suppressed))
    }

    /// Puts an admitted diagnostic in, if there is room.
    pub fn push(&self, diagnostic: Diagnostic) {
        let mut state = self.state.lock();
        if let Some(rate) = state.kinds.get_mut(&diagnostic.kind()) {
            rate.passed.get_or_insert_with(|| diagnostic.clone());
        }
        if state.waiting.len() < DIAGNOSTICS_MAX {
            state.waiting.push_back(diagnostic);
        } else {
            state.lost += 1;
        }
        drop(state);
        self.changed.notify_all();
    }

    /// Waits until `take` has something. False: the queue has ended.
    pub fn wait(&self) -> bool {
        let mut state = self.state.lock();
        loop {
            if state.ended {
                return false;
            }
            let now = Instant::now();
            let until = state.kinds.values().filter(|rate| rate.suppressed > 0).map(|rate| rate.seen + QUIET).min();
            if !state.waiting.is_empty() || state.lost > 0 || until.is_some_and(|until| until <= now) {
                return true;
            }
            match until {
                Some(until) => drop(self.changed.wait_until(&mut state, until)),
                None => self.changed.wait(&mut state),
            }
        }
    }

    /// Everything that waits, and counts of what was left out.
    pub fn take(&self, now: Instant) -> Vec<Diagnostic> {
        let mut state = self.state.lock();
        let mut diagnostics: Vec<Diagnostic> = state.waiting.drain(..).collect();
        let ended = state.ended;
        for rate in state.kinds.values_mut() {
            if rate.suppressed > 0 && (ended || now.saturating_duration_since(rate.seen) >= QUIET) {
                diagnostics.extend(rate.summary());
            }
        }
        match std::mem::take(&mut state.lost) {
            0 => {}
            lost => diagnostics.push(lost_diagnostic(lost)),
        }
        diagnostics
    }

    /// Nobody waits any more. What comes after this is taken as before.
    pub fn end(&self) {
        self.state.lock().ended = true;
        self.changed.notify_all();
    }
}

impl Rate {
    fn refill(&mut self, now: Instant) {
        self.seen = now;
        let passed = now.saturating_duration_since(self.counted).as_millis() / INTERVAL.as_millis();
        let whole = u32::try_from(passed).unwrap_or(u32::MAX);
        if self.tokens.saturating_add(whole) >= BURST {
            (self.tokens, self.counted) = (BURST, now);
        } else {
            (self.tokens, self.counted) = (self.tokens + whole, self.counted + INTERVAL * whole);
        }
    }

    /// How many were left out, as a diagnostic of the same kind.
    fn summary(&mut self) -> Option<Diagnostic> {
        let passed = self.passed.as_ref()?;
        let suppressed = std::mem::take(&mut self.suppressed);
        let message = format!("{suppressed} more like '{}' were not logged", passed.message);
        let fields = passed.code().map(|code| ("kind", Value::Text(code.to_owned()))).into_iter().collect();
        Some(Diagnostic { message, fields, ..passed.clone() })
    }
}

fn lost_diagnostic(lost: u64) -> Diagnostic {
    Diagnostic {
        level: Level::WARN,
        part: "diagnostics",
        file: file!(),
        line: line!(),
        message: "Lines are missing: the log was written too slowly".to_owned(),
        fields: vec![("lines", Value::Unsigned(lost))],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn diagnostic(line: u32) -> Diagnostic {
        let message = format!("message {line}");
        Diagnostic { level: Level::WARN, part: "engine", file: "a.rs", line, message, fields: Vec::new() }
    }

    /// Reports a diagnostic of this kind; whether it passed.
    fn report(queue: &Queue, line: u32, now: Instant) -> Option<u64> {
        report_this(queue, diagnostic(line), now)
    }

    fn report_this(queue: &Queue, diagnostic: Diagnostic, now: Instant) -> Option<u64> {
        let before = queue.admit(diagnostic.kind(), now)?;
        queue.push(diagnostic);
        Some(before)
    }

    #[test]
    fn a_full_queue_counts_what_it_has_no_room_for_and_nobody_waits() {
        let queue = Queue::default();
        let now = Instant::now();
        for line in 0..DIAGNOSTICS_MAX as u32 + 3 {
            assert_eq!(report(&queue, line, now), Some(0));
        }
        let diagnostics = queue.take(now);
        assert_eq!(diagnostics.len(), DIAGNOSTICS_MAX + 1);
        assert_eq!(diagnostics[DIAGNOSTICS_MAX - 1], diagnostic(DIAGNOSTICS_MAX as u32 - 1));
        assert_eq!(diagnostics[DIAGNOSTICS_MAX].fields, [("lines", Value::Unsigned(3))]);
        assert_eq!(queue.take(now), []);
    }

    #[test]
    fn a_flood_of_one_kind_is_limited_and_hides_no_other() {
        let queue = Queue::default();
        let now = Instant::now();
        let passed = (0..BURST * 3).filter(|_| report(&queue, 1, now).is_some()).count();
        assert_eq!(passed, BURST as usize);
        assert_eq!(report(&queue, 2, now), Some(0));
        assert_eq!(report(&queue, 1, now + INTERVAL), Some(u64::from(BURST) * 2));
        assert_eq!(report(&queue, 1, now + INTERVAL), None);
        assert_eq!(queue.take(now + INTERVAL).len(), BURST as usize + 2);
    }

    #[test]
    fn what_a_place_says_with_one_error_code_hides_none_with_another() {
        let queue = Queue::default();
        let now = Instant::now();
        let coded = |code: &str| {
            let fields = vec![("status", Value::Unsigned(403)), ("code", Value::Text(code.into()))];
            report_this(&queue, Diagnostic { fields, ..diagnostic(1) }, now).is_some()
        };
        assert_eq!((0..BURST * 3).filter(|_| coded("SignatureDoesNotMatch")).count(), BURST as usize);
        assert!(coded("NoSuchBucket"));
        queue.take(now);
        let told = queue.take(now + QUIET);
        assert_eq!(told[0].fields, [("kind", Value::Text("SignatureDoesNotMatch".into()))]);
        assert_eq!(told.len(), 1);
    }

    #[test]
    fn the_end_of_a_flood_is_told_once_nothing_more_comes() {
        let queue = Queue::default();
        let now = Instant::now();
        for _ in 0..BURST + 7 {
            report(&queue, 1, now);
        }
        queue.take(now);
        assert_eq!(queue.take(now + QUIET / 2), []);
        let told = queue.take(now + QUIET);
        assert_eq!(
            told.iter().map(|diagnostic| diagnostic.message.as_str()).collect::<Vec<_>>(),
            ["7 more like 'message 1' were not logged"]
        );
        assert_eq!(queue.take(now + QUIET * 2), []);
    }

    #[test]
    fn the_end_tells_everything_and_frees_who_waits() {
        let queue = Queue::default();
        let now = Instant::now();
        for _ in 0..=BURST {
            report(&queue, 1, now);
        }
        assert!(queue.wait());
        std::thread::scope(|scope| {
            queue.take(now);
            let waiting = scope.spawn(|| queue.wait());
            queue.end();
            assert!(!waiting.join().unwrap());
        });
        assert_eq!(queue.take(now).len(), 1);
    }
}
