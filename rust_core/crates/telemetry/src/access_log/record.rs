//! The log record of a completed request. It is read from the head again, so that requests pay for it only if somebody
//! wants it. The sender is the verified one; the access key is the one that the request names.

use std::time::Duration;

use super::note::{AccessDecision, Asked, Auth, Ended, Note, without_query};
use crate::metrics::requests::Finished;
use orcas_http::RequestHead;
use orcas_s3::Operation;

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
    /// The sender is root, who may do everything.
    pub is_root: bool,
    pub decisions: Vec<AccessDecision<'a>>,
    pub operation: Option<Operation>,
    pub bucket: Option<String>,
    pub key: Option<String>,
    pub access_key: Option<String>,
    pub version_id: Option<Vec<u8>>,
    pub auth: Auth,
    pub finished: &'a Finished,
    /// Milliseconds since 1970 at which the head had arrived.
    pub began_ms: i64,
    /// Bytes of the whole object, if the response says so.
    pub object_size: Option<u64>,
}

impl<'a> AccessRecord<'a> {
    /// Appends the line of the access log, with its end.
    pub fn write_line(&self, out: &mut Vec<u8>) {
        let asked = Asked {
            principal: self.principal,
            is_root: self.is_root,
            decisions: &self.decisions,
            access_key: self.access_key.as_deref(),
            auth: self.auth,
            operation: self.operation.map(Operation::name),
            method: self.head.method,
            bucket: self.bucket.as_deref(),
            key: self.key.as_deref().map(str::as_bytes),
            version_id: self.version_id.as_deref(),
            host: self.header("host"),
            user_agent: self.header("user-agent"),
            referer: self.referer(),
        };
        let Self { remote, request_id, trace_id, finished, began_ms, .. } = *self;
        Note::new(&asked).write_line(&Ended { remote, request_id, trace_id, decisions: &[], finished, began_ms }, out);
    }

    pub fn header(&self, name: &str) -> Option<&'a [u8]> {
        self.head.headers.get(name)
    }

    /// The page that the request came from, without its query, which may be that of a presigned URL.
    pub fn referer(&self) -> Option<&'a [u8]> {
        self.header("referer").map(without_query)
    }
}

pub fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}
