//! Completed requests, counted by operation, status and error code. A request adds to a dozen numbers, and takes no
//! lock. Whatever clients send, there are no more numbers than operations, statuses and codes.

use std::time::Duration;

use super::documents::DocumentTimes;
use orcas_metrics::{Counter, Exemplar, Histogram, Scale};
use orcas_s3::{ErrorCode, Operation};

/// The statuses that are told apart. The last three stand for any other, for a response that the client did not take to its
/// end, and for one that could not be finished.
const STATUSES: [u16; 29] = [
    200, 204, 404, 206, 304, 412, 403, 400, 503, 500, 501, 201, 301, 302, 303, 307, 308, 405, 408, 409, 411, 413, 416,
    415, 431, 509, OTHER, INCOMPLETE, BROKEN,
];
const OTHER: u16 = 1;
const INCOMPLETE: u16 = 0;
const BROKEN: u16 = 2;

/// The kinds of results.
pub const RESULTS: [&str; 7] = ["2xx", "3xx", "4xx", "5xx", "other", "incomplete", "broken"];

/// The operations, and what stands for requests that were refused before theirs was known.
pub fn operation_names() -> impl Iterator<Item = &'static str> {
    Operation::ALL.iter().map(|operation| operation.name()).chain(["none"])
}

/// A request that is done.
#[derive(Clone, Copy, Debug)]
pub struct Finished {
    /// `None` if the request was refused before that was known.
    pub operation: Option<Operation>,
    /// `None` if the client disconnected before the end of the response, or the response could not be finished.
    pub status: Option<u16>,
    pub code: Option<ErrorCode>,
    /// The time from the head to the last byte of the response that was handed to the socket.
    pub time: Duration,
    /// The time to the first byte.
    pub first_byte: Duration,
    /// Bytes of the body as sent, and bytes of the body of the response.
    pub received: u64,
    pub sent: u64,
    /// The body could not be read to its end.
    pub broken: bool,
}

struct OfOperation {
    statuses: [Counter; STATUSES.len()],
    times: Histogram,
    first_bytes: Histogram,
    received: Counter,
    sent: Counter,
}

impl OfOperation {
    fn new() -> Self {
        Self {
            statuses: std::array::from_fn(|_| Counter::default()),
            times: Histogram::new(&Scale::TIME),
            first_bytes: Histogram::new(&Scale::TIME),
            received: Counter::default(),
            sent: Counter::default(),
        }
    }
}

pub struct RequestMetrics {
    pub documents: DocumentTimes,
    begun: Counter,
    done: Counter,
    /// One more than there are operations, for requests of none.
    operations: Box<[OfOperation]>,
    codes: Box<[Counter]>,
}

/// The requests of one operation.
pub struct OperationPart<'a> {
    pub name: &'static str,
    of: &'a OfOperation,
}

impl Default for RequestMetrics {
    fn default() -> Self {
        Self {
            documents: DocumentTimes::default(),
            begun: Counter::default(),
            done: Counter::default(),
            operations: (0..=Operation::ALL.len()).map(|_| OfOperation::new()).collect(),
            codes: ErrorCode::ALL.iter().map(|_| Counter::default()).collect(),
        }
    }
}

impl RequestMetrics {
    /// A request has begun; `finish` or `pass_on` follows.
    pub fn begin(&self) {
        self.begun.add(1);
    }

    /// The request begins anew, and counts then.
    pub fn pass_on(&self) {
        self.done.add(1);
    }

    pub fn finish(&self, request: &Finished) {
        self.done.add(1);
        let operation = request.operation.map_or(Operation::ALL.len(), |operation| operation as usize);
        if let Some(of) = self.operations.get(operation) {
            let status = request.status.unwrap_or(if request.broken { BROKEN } else { INCOMPLETE });
            let known = STATUSES.iter().position(|known| *known == status).unwrap_or(STATUSES.len() - 3);
            of.statuses[known].add(1);
            of.times.record_time(request.time);
            of.first_bytes.record_time(request.first_byte);
            of.received.add(request.received);
            of.sent.add(request.sent);
        }
        if let Some(counter) = request.code.and_then(|code| self.codes.get(code as usize)) {
            counter.add(1);
        }
    }

    /// The durations of a request are those that their buckets show from now on.
    pub fn show(&self, request: &Finished, exemplar: Exemplar) {
        let operation = request.operation.map_or(Operation::ALL.len(), |operation| operation as usize);
        if let Some(of) = self.operations.get(operation) {
            of.times.show_time(request.time, exemplar);
            of.first_bytes.show_time(request.first_byte, exemplar);
        }
    }

    pub fn in_flight(&self) -> u64 {
        let done = self.done.get();
        self.begun.get().saturating_sub(done)
    }

    /// The operations that were asked for, and `none` for requests that were refused before it was known.
    pub fn operations(&self) -> impl Iterator<Item = OperationPart<'_>> {
        let parts = operation_names().zip(&self.operations).map(|(name, of)| OperationPart { name, of });
        parts.filter(|part| !part.of.times.is_empty())
    }

    /// The error codes that were answered, and how often.
    pub fn codes(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let counted = ErrorCode::ALL.iter().zip(&self.codes).map(|(code, counter)| (code.as_str(), counter.get()));
        counted.filter(|(_, count)| *count > 0)
    }

    /// How often each status was answered, as text.
    pub fn statuses(&self) -> impl Iterator<Item = (String, u64)> {
        let count = |place: usize| self.operations.iter().map(move |of| of.statuses[place].get()).sum();
        let counted = STATUSES.iter().enumerate().map(move |(place, status)| {
            let shown = match *status {
                OTHER => "other".to_owned(),
                INCOMPLETE => "incomplete".to_owned(),
                BROKEN => "broken".to_owned(),
                status => status.to_string(),
            };
            (shown, count(place))
        });
        counted.filter(|(_, count)| *count > 0)
    }

    /// The durations of all requests.
    pub fn times(&self) -> Histogram {
        let all = Histogram::new(&Scale::TIME);
        self.operations.iter().for_each(|of| all.merge(&of.times));
        all
    }
}

impl OperationPart<'_> {
    /// How many requests had each kind of result.
    pub fn results(&self) -> impl Iterator<Item = (&'static str, u64)> {
        let mut counts = [0; RESULTS.len()];
        for (status, counter) in STATUSES.iter().zip(&self.of.statuses) {
            let place = match *status {
                200..=299 => 0,
                300..=399 => 1,
                400..=499 => 2,
                500..=599 => 3,
                INCOMPLETE => 5,
                BROKEN => 6,
                _ => 4,
            };
            counts[place] += counter.get();
        }
        RESULTS.into_iter().zip(counts).filter(|(_, count)| *count > 0)
    }

    pub fn times(&self) -> &Histogram {
        &self.of.times
    }

    pub fn first_bytes(&self) -> &Histogram {
        &self.of.first_bytes
    }

    pub fn received(&self) -> u64 {
        self.of.received.get()
    }

    pub fn sent(&self) -> u64 {
        self.of.sent.get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DONE: Finished = Finished {
        operation: Some(Operation::GetObject),
        status: Some(200),
        code: None,
        time: Duration::from_millis(2),
        first_byte: Duration::from_millis(1),
        received: 0,
        sent: 5,
        broken: false,
    };

    #[test]
    fn requests_are_counted_by_operation_result_status_and_code() {
        let metrics = RequestMetrics::default();
        let missing = Finished { status: Some(404), code: Some(ErrorCode::NoSuchKey), sent: 7, received: 3, ..DONE };
        let refused = Finished { operation: None, status: Some(403), code: Some(ErrorCode::AccessDenied), ..DONE };
        let left = Finished { status: None, ..DONE };
        let all = [
            DONE,
            DONE,
            missing,
            refused,
            left,
            Finished { broken: true, ..left },
            Finished { status: Some(299), ..DONE },
        ];
        for request in all {
            metrics.begin();
            metrics.finish(&request);
        }
        metrics.begin();
        assert_eq!(metrics.in_flight(), 1);
        let [get, none] = metrics.operations().collect::<Vec<_>>().try_into().ok().unwrap();
        assert_eq!((get.name, none.name), ("GetObject", "none"));
        let results = [("2xx", 2), ("4xx", 1), ("other", 1), ("incomplete", 1), ("broken", 1)];
        assert_eq!(get.results().collect::<Vec<_>>(), results);
        assert_eq!((get.sent(), get.received(), none.sent()), (32, 3, 5));
        assert_eq!(metrics.codes().collect::<Vec<_>>(), [("AccessDenied", 1), ("NoSuchKey", 1)]);
        let statuses: Vec<_> = metrics.statuses().collect();
        let expected = [("200", 2), ("404", 1), ("403", 1), ("other", 1), ("incomplete", 1), ("broken", 1)];
        assert_eq!(statuses, expected.map(|(status, count)| (status.to_owned(), count)));
    }

    #[test]
    fn every_status_of_an_error_is_told_apart() {
        for code in ErrorCode::ALL {
            assert!(STATUSES.contains(&code.status()), "{}", code.status());
        }
    }
}
