//! The log record of a completed request. It is read from the head again, so that requests pay for it only if somebody
//! wants it. The sender is the verified one; the access key is the one that the request names.

use std::time::Duration;

use super::note::{Asked, Auth, Ended, Note, without_query};
use crate::describe::Description;
use crate::lane::{Lane, now_ms};
use crate::metrics::requests::Finished;
use crate::request::Request;
use orcas_http::{Query, RequestHead};
use orcas_sigv4::claims_nobody;

/// One request and what became of it.
pub struct AccessRecord<'a> {
    pub head: &'a RequestHead<'a>,
    pub http_version: &'a str,
    /// Address of the client, empty if it is unknown.
    pub remote: &'a str,
    pub request_id: &'a str,
    /// The id of its trace, if it is traced.
    pub trace_id: Option<&'a str>,
    /// The verified sender. Empty if there is none.
    pub principal: &'a str,
    pub operation: Option<&'static str>,
    pub bucket: Option<String>,
    pub key: Option<String>,
    pub access_key: Option<String>,
    pub version_id: Option<Vec<u8>>,
    pub auth: Auth,
    pub finished: &'a Finished,
    /// Milliseconds since 1970 at which the head had arrived.
    pub began_ms: i64,
    /// Header lines of the response.
    pub answered: &'a [u8],
}

/// What only the connection knows.
pub struct Seen<'a> {
    pub remote: &'a str,
    pub http_version: &'a str,
    /// Bytes of the path that name neither bucket nor key.
    pub root: usize,
    pub request_id: &'a str,
    pub trace_id: Option<&'a str>,
    pub answered: &'a [u8],
}

impl<'a> AccessRecord<'a> {
    /// `request` is missing if the head was refused.
    pub fn new(
        lane: &Lane,
        head: &'a RequestHead<'a>,
        request: Option<&'a dyn Request>,
        finished: &'a Finished,
        seen: &Seen<'a>,
    ) -> Self {
        let Description { operation, bucket, key, access_key } = lane.describe(head, seen.root);
        let principal = request.map(Request::principal);
        let verified = principal.map(|principal| principal.access_key.clone()).filter(|key| !key.is_empty());
        let is_form = finished.operation.is_some_and(|operation| operation.name() == "PostObject");
        let auth = match () {
            () if is_form => Auth::Form,
            () if head.headers.get("authorization").is_some() => Auth::Header,
            () if claims_nobody(head) => Auth::Anonymous,
            () => Auth::Query,
        };
        let query = Query::parse(head.query);
        Self {
            head,
            http_version: seen.http_version,
            remote: seen.remote,
            request_id: seen.request_id,
            trace_id: seen.trace_id,
            principal: principal.map_or("", |principal| principal.owner.as_str()),
            operation: finished.operation.map(|operation| operation.name()).or(operation),
            bucket,
            key,
            access_key: verified.or(access_key),
            version_id: query.and_then(|query| query.get("versionId").map(<[u8]>::to_vec)),
            auth,
            finished,
            began_ms: began_ms(finished),
            answered: seen.answered,
        }
    }

    /// Appends the line of the access log, with its end.
    pub fn write_line(&self, out: &mut Vec<u8>) {
        let asked = Asked {
            principal: self.principal,
            access_key: self.access_key.as_deref(),
            auth: self.auth,
            operation: self.operation,
            method: self.head.method,
            bucket: self.bucket.as_deref(),
            key: self.key.as_deref().map(str::as_bytes),
            version_id: self.version_id.as_deref(),
            host: self.header("host"),
            user_agent: self.header("user-agent"),
            referer: self.referer(),
        };
        let Self { remote, request_id, trace_id, finished, began_ms, .. } = *self;
        Note::new(&asked).write_line(&Ended { remote, request_id, trace_id, finished, began_ms }, out);
    }

    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.head.headers.get(name)
    }

    /// The page that the request came from, without its query, which may be that of a presigned URL.
    pub fn referer(&self) -> Option<&'a [u8]> {
        self.header("referer").map(without_query)
    }

    /// The value of a header line of the response.
    pub fn answered(&self, name: &str) -> Option<&'a [u8]> {
        let lines = self.answered.split(|byte| *byte == b'\n');
        lines.map_while(|line| line.strip_suffix(b"\r").filter(|line| !line.is_empty())).find_map(|line| {
            let (found, value) = line.split_at_checked(name.len())?;
            found.eq_ignore_ascii_case(name.as_bytes()).then(|| value.strip_prefix(b": ")).flatten()
        })
    }
}

/// When the head of a request had arrived that is done now.
pub fn began_ms(finished: &Finished) -> i64 {
    now_ms() - millis(finished.time)
}

pub fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
