//! From a request that is done to its line in the access log, and to the log of its bucket.

use std::borrow::Cow;

use crate::finish::Done;
use crate::gateway::Gateway;
use crate::logs::access_log::{AccessEntry, began_ms};
use orcas_admission::decision_log::LoggedDecisions;
use orcas_http::{RequestHead, hex, lossy_text};
use orcas_requests::request::Request;
use orcas_telemetry::access_log::note::Ended;
use orcas_telemetry::metrics::requests::Finished;

/// A request that is done, for the logs.
pub struct Logged<'a> {
    pub done: &'a Done<'a>,
    pub finished: &'a Finished,
    /// Address of the client, empty if it is unknown.
    pub remote: &'a str,
}

/// The log fields of a request whose head has to be read again, because it was refused or has no note.
#[derive(Clone, Copy)]
pub struct FromHead {
    line: bool,
    record: bool,
}

impl Logged<'_> {
    fn request_id(&self) -> Cow<'_, str> {
        match (self.done.request(), self.done.response) {
            (_, Some(response)) => lossy_text(&response.request_id),
            (Some(request), None) => request.envelope().request_id().into(),
            (None, None) => Cow::default(),
        }
    }

    fn trace_id(&self) -> Option<String> {
        self.done.admission.trace().map(|trace| hex(&trace.trace_id))
    }
}

impl Gateway {
    /// Whether anybody wants to hear of requests.
    pub fn logs_requests(&self) -> bool {
        self.observation.access_lines.is_open() || self.engine.logs_buckets()
    }

    /// Adds the line of a request that has a note. `Some`: `log_head` has to follow.
    pub fn log_noted(&self, logged: &Logged<'_>) -> Option<FromHead> {
        let Logged { finished, remote, .. } = *logged;
        let note = logged.done.request().and_then(Request::note);
        let (lines, logs) = (self.observation.access_lines.is_open(), self.engine.logs_buckets());
        if let Some(note) = note.filter(|_| lines) {
            let (request_id, trace_id) = (&*logged.request_id(), logged.trace_id());
            let (trace_id, began_ms) = (trace_id.as_deref(), began_ms(finished));
            let decisions = &*logged.done.judged().map(LoggedDecisions::lines).unwrap_or_default();
            let ended = Ended { remote, request_id, trace_id, decisions, finished, began_ms };
            self.observation.access_lines.push(|out| note.write_line(&ended, out));
        }
        let bucket = note.and_then(|note| note.bucket.as_deref());
        let record = logs && bucket.is_none_or(|bucket| self.is_logged(bucket));
        let line = lines && note.is_none();
        (line || record).then_some(FromHead { line, record })
    }

    /// Adds the line and the record for the bucket. `mount_length` as of `Ingress`.
    pub fn log_head(
        &self,
        logged: &Logged<'_>,
        FromHead { line, record }: FromHead,
        head: &RequestHead<'_>,
        http_version: &str,
        mount_length: usize,
    ) {
        let Logged { done, finished, remote } = *logged;
        let (request_id, trace_id) = (&*logged.request_id(), logged.trace_id());
        let seen = AccessEntry { remote, http_version, mount_length, request_id, trace_id: trace_id.as_deref() };
        let made = self.access_record(head, done, finished, &seen);
        if line {
            self.observation.access_lines.push(|out| made.write_line(out));
        }
        if record {
            self.log_to_bucket(&made);
        }
    }
}
