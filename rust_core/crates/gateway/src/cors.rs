//! Cross-origin requests (CORS): the answer to a preflight, and the headers that every answer to a request with an
//! origin has. Reads only the rules of the bucket. Who sends the request does not matter.

use std::sync::Arc;

use crate::accept::below;
use crate::gateway::Gateway;
use orcas_admission::documents::document;
use orcas_bodies::problem::Problem;
use orcas_http::RequestHead;
use orcas_responses::response::{CorsLines, HeaderBlock, Response};
use orcas_s3::cors::{CorsConfiguration, CrossOrigin, Lines, VARY};
use orcas_s3::{ErrorCode, S3Error, Target};

const NOT_ALLOWED: &str = "CORSResponse: This CORS request is not allowed. This is usually because the evalution of \
                           Origin, request method / Access-Control-Request-Method or Access-Control-Request-Headers \
                           are not whitelisted by the resource's CORS spec.";

impl Gateway {
    /// The CORS headers of answers to this request.
    pub fn cors_lines(&self, head: &RequestHead<'_>, mount_length: usize) -> CorsLines {
        let origin = head.headers.get("origin")?;
        let rules = self.cors_rules(&self.target(head, mount_length)?)?;
        let lines = rules.lines(&CrossOrigin::of_request(origin, head.method, &head.headers));
        // Without a rule for this origin the answer still depends on it, which caches must know.
        Some(Box::new(lines.unwrap_or_else(|| vec![("vary", VARY.as_bytes().to_vec())])))
    }

    /// The answer to an OPTIONS request. It has no signature.
    pub fn preflight(&self, head: &RequestHead<'_>, mount_length: usize) -> Response {
        let envelope = self.envelope(head.method, head.path);
        match self.allowed(head, mount_length) {
            Ok(lines) => envelope.with_cors(Some(Box::new(lines))).empty(200, HeaderBlock::new()),
            Err(problem) => envelope.problem(problem),
        }
    }

    fn allowed(&self, head: &RequestHead<'_>, mount_length: usize) -> Result<Lines, Problem> {
        let asked = CrossOrigin::of_preflight(&head.headers)?;
        let target = self.target(head, mount_length);
        let kind = if target.as_ref().is_some_and(|target| target.key().is_some()) { "OBJECT" } else { "BUCKET" };
        let refused = |error: S3Error| Problem::from(error.field("Method", asked.method).field("ResourceType", kind));
        // The same for a bucket that does not exist: whether it does is not for everybody to know.
        let rules = target.and_then(|target| self.cors_rules(&target));
        let rules = rules.ok_or_else(|| refused(ErrorCode::AccessForbidden.into()))?;
        rules.lines(&asked).ok_or_else(|| refused(S3Error::with(ErrorCode::AccessForbidden, NOT_ALLOWED)))
    }

    fn target(&self, head: &RequestHead<'_>, mount_length: usize) -> Option<Target> {
        if let Some(bucket) = self.website_bucket(head) {
            return Some(Target::Bucket(bucket));
        }
        let host = head.headers.get("host").unwrap_or_default();
        Target::parse(below(head.path, mount_length), host, &self.access().options.domains).ok()
    }

    fn cors_rules(&self, target: &Target) -> Option<Arc<CorsConfiguration>> {
        let bucket = self.engine.bucket(target.bucket()?.as_bytes())?;
        document(&self.engine, bucket.id)
    }
}
