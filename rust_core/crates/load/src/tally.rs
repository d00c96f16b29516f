//! Counts, latencies and errors of each kind of operation. Pure.

use std::collections::BTreeMap;
use std::fmt;

use super::histogram::Histogram;
use super::plan::Operation;

/// Wrong responses that are described one by one.
const EXAMPLES_MAX: usize = 8;
/// Different errors that are counted separately; further ones are counted as `other`.
const ERRORS_MAX: usize = 64;

/// Why an operation failed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The status and error code of the response.
    Refused { status: u16, code: Option<String> },
    /// There was no response, for this reason.
    ConnectionError(String),
    /// The request was not sent, for this reason.
    NotSent(String),
    /// There was no object that the operation could use.
    NoObject,
}

impl Failure {
    /// Whether the operation has certainly not taken effect.
    pub fn is_refusal(&self) -> bool {
        matches!(self, Self::Refused { status: 400..=499 | 503, .. } | Self::NotSent(_) | Self::NoObject)
    }
}

/// The name under which the failure is counted.
impl fmt::Display for Failure {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused { status, code: Some(code) } => write!(out, "{status} {code}"),
            Self::Refused { status, code: None } => write!(out, "{status}"),
            Self::ConnectionError(what) | Self::NotSent(what) => out.write_str(what),
            Self::NoObject => out.write_str("no object left"),
        }
    }
}

/// How an operation ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// A success that transferred this many bytes of content.
    Done(u64),
    /// A response about an object that changed meanwhile, so it can be neither right nor wrong.
    Raced,
    Failed(Failure),
    /// The server reported success, but the response is wrong.
    Wrong(String),
}

/// The results of one kind of operation.
#[derive(Clone, Debug, Default)]
pub struct Counts {
    pub done: u64,
    /// Bytes of content, in both directions.
    pub bytes: u64,
    pub raced: u64,
    pub wrong: u64,
    pub errors: BTreeMap<String, u64>,
    /// Nanoseconds, of successful operations.
    pub latencies: Histogram,
}

/// The results of one thread, or of all of them.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    operations: [Counts; Operation::ALL.len()],
    pub wrong_examples: Vec<String>,
    /// Connections that were opened again after the server had closed them.
    pub reconnects: u64,
    /// Clients that were given up because they could not connect.
    pub given_up: u64,
}

fn add_error(errors: &mut BTreeMap<String, u64>, name: &str, count: u64) {
    let known = errors.contains_key(name) || errors.len() < ERRORS_MAX;
    *errors.entry(if known { name } else { "other" }.to_owned()).or_default() += count;
}

impl Tally {
    pub fn of(&self, operation: Operation) -> &Counts {
        &self.operations[operation as usize]
    }

    /// Counts an operation that took `took_ns` nanoseconds.
    pub fn record(&mut self, operation: Operation, outcome: Outcome, took_ns: u64) {
        let counts = &mut self.operations[operation as usize];
        match outcome {
            Outcome::Done(bytes) => {
                counts.done += 1;
                counts.bytes += bytes;
                counts.latencies.record(took_ns);
            }
            Outcome::Raced => counts.raced += 1,
            Outcome::Failed(failure) => add_error(&mut counts.errors, &failure.to_string(), 1),
            Outcome::Wrong(what) => {
                counts.wrong += 1;
                self.tell(what);
            }
        }
    }

    fn tell(&mut self, what: String) {
        if self.wrong_examples.len() < EXAMPLES_MAX {
            self.wrong_examples.push(what);
        }
    }

    pub fn merge(&mut self, other: Self) {
        for (mine, theirs) in self.operations.iter_mut().zip(other.operations) {
            mine.done += theirs.done;
            mine.bytes += theirs.bytes;
            mine.raced += theirs.raced;
            mine.wrong += theirs.wrong;
            theirs.errors.iter().for_each(|(name, count)| add_error(&mut mine.errors, name, *count));
            mine.latencies.merge(&theirs.latencies);
        }
        other.wrong_examples.into_iter().for_each(|what| self.tell(what));
        self.reconnects += other.reconnects;
        self.given_up += other.given_up;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn merging_adds_and_keeps_within_bounds() {
        let mut all = Tally::default();
        for round in 0..100 {
            let mut one = Tally::default();
            one.record(Operation::Put, Outcome::Done(10), round);
            one.record(Operation::Get, Outcome::Failed(Failure::ConnectionError(format!("error {round}"))), 1);
            one.record(Operation::Get, Outcome::Wrong(format!("wrong {round}")), 1);
            one.record(Operation::Get, Outcome::Raced, 1);
            one.reconnects = 2;
            all.merge(one);
        }
        let (puts, gets) = (all.of(Operation::Put), all.of(Operation::Get));
        assert_eq!((puts.done, puts.bytes, puts.latencies.count(), puts.latencies.max()), (100, 1000, 100, 99));
        assert_eq!((gets.done, gets.wrong, gets.raced, gets.latencies.count()), (0, 100, 100, 0));
        assert_eq!(gets.errors.values().sum::<u64>(), 100);
        assert_eq!((gets.errors.len(), gets.errors["other"]), (ERRORS_MAX + 1, 100 - ERRORS_MAX as u64));
        assert_eq!((all.wrong_examples.len(), all.reconnects), (EXAMPLES_MAX, 200));
    }
}
