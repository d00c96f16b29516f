//! Records of completed requests: what the head says, which bucket wants them, and which targets are accepted. Documents
//! are looked up in memory.

use crate::describe::Description;
use crate::finish::Done;
use crate::gateway::Gateway;
use orcas_admission::decision_log::LoggedDecisions;
use orcas_admission::documents::document;
use orcas_admission::ingress::now_ms;
use orcas_http::{Query, RequestHead};
use orcas_record::DocumentKind;
use orcas_requests::request::Request;
use orcas_s3::Operation;
use orcas_s3::bucket_logging::BucketLogging;
use orcas_sigv4::claims_nobody;
use orcas_telemetry::access_log::batches::Destination;
use orcas_telemetry::access_log::note::Auth;
use orcas_telemetry::access_log::record::{AccessRecord, millis};
use orcas_telemetry::metrics::requests::Finished;

const DAY_MS: i64 = 86_400_000;

/// The fields of a line that only the connection knows.
pub struct AccessEntry<'a> {
    pub remote: &'a str,
    pub http_version: &'a str,
    /// Bytes of the path that name neither bucket nor key.
    pub mount_length: usize,
    pub request_id: &'a str,
    pub trace_id: Option<&'a str>,
}

/// When the head of a request had arrived that is done now.
pub fn began_ms(finished: &Finished) -> i64 {
    now_ms() - millis(finished.time)
}

impl Gateway {
    /// The record of a request that is done.
    pub fn access_record<'a>(
        &self,
        head: &'a RequestHead<'a>,
        done: &Done<'a>,
        finished: &'a Finished,
        seen: &AccessEntry<'a>,
    ) -> AccessRecord<'a> {
        let Description { operation, bucket, key, access_key } = self.describe(head, seen.mount_length);
        let judged = done.judged();
        let requester = done.request().map(Request::requester).or(judged.map(|judged| &judged.requester));
        let verified = requester.map(|requester| requester.access_key.clone()).filter(|key| !key.is_empty());
        let is_form = finished.operation == Some(Operation::PostObject);
        let query = Query::parse(head.query);
        let auth = match () {
            () if is_form => Auth::Form,
            () if head.headers.get("authorization").is_some() => Auth::Header,
            () if query.as_ref().is_some_and(|query| claims_nobody(&head.headers, query)) => Auth::Anonymous,
            () => Auth::Query,
        };
        AccessRecord {
            head,
            http_version: seen.http_version,
            remote: seen.remote,
            request_id: seen.request_id,
            trace_id: seen.trace_id,
            principal: requester.map_or("", |requester| requester.log_name()),
            is_root: requester.is_some_and(|requester| requester.is_root),
            decisions: judged.map(LoggedDecisions::lines).unwrap_or_default(),
            operation: finished.operation.or(operation),
            bucket,
            key,
            access_key: verified.or(access_key),
            version_id: query.and_then(|query| query.get("versionId").map(<[u8]>::to_vec)),
            auth,
            finished,
            began_ms: began_ms(finished),
            object_size: done.response.and_then(|response| response.object_size),
        }
    }

    /// Whether requests to the bucket with this name are logged.
    pub fn is_logged(&self, bucket: &str) -> bool {
        let bucket = self.engine.bucket(bucket.as_bytes());
        bucket.is_some_and(|bucket| self.engine.document(bucket.id, DocumentKind::Logging).is_some())
    }

    /// Keeps the record if its bucket is logged.
    pub fn log_to_bucket(&self, record: &AccessRecord<'_>) {
        let Some(bucket) = record.bucket.as_deref().and_then(|name| self.engine.bucket(name.as_bytes())) else {
            return;
        };
        let Some(logging) = document::<BucketLogging>(&self.engine, bucket.id) else { return };
        let owner = String::from_utf8_lossy(&bucket.owner).into_owned();
        let line = record.server_log_line(&owner, &self.services.ids.host_id);
        let day_ms = logging.by_event().then(|| record.began_ms - record.began_ms.rem_euclid(DAY_MS));
        let region = self.access().options.region_of(&bucket).to_owned();
        let destination = Destination {
            bucket: String::from_utf8_lossy(&bucket.name).into_owned(),
            owner,
            region,
            logging: BucketLogging::clone(&logging),
            day_ms,
        };
        self.observation.deliveries.add(destination, line.as_bytes());
    }
}
