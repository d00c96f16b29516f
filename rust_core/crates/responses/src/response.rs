//! A whole response: status, headers, body. Built in one step; whoever sends it adds nothing.
//!
//! Every answer names its request (`x-amz-request-id`, `x-amz-id-2`). Date, Server and Connection are the HTTP server's.

use std::sync::Arc;

use orcas_base::buffers::Buffer;
use orcas_bodies::download::Download;
use orcas_bodies::problem::Problem;
use orcas_http::{hex, parse_hex};
use orcas_s3::cors::Lines;
use orcas_s3::header_block::DELETE_MARKER;
pub use orcas_s3::header_block::HeaderBlock;
use orcas_s3::{ErrorCode, S3Error, website};
use orcas_sigv4::{Diagnosis, Explanation};

/// Bytes of each further element of an error that go to the log.
const EXTRA_LEN_MAX: usize = 256;

/// Header lines about the origin of a request, for the answers to it; most requests have none.
pub type CorsLines = Option<Box<Lines>>;

pub struct Response {
    pub status: u16,
    pub headers: HeaderBlock,
    pub body: ResponseBody,
    /// The connection ends after it.
    pub closes: bool,
    /// The error for the log, if it is one that is logged.
    pub error: Option<Box<ErrorNote>>,
    pub request_id: [u8; 16],
    /// If this is an error.
    pub code: Option<ErrorCode>,
}

/// What the log says about an error. There is none for the ordinary questions of clients: whether an object or a
/// configuration exists, and whether an object has changed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ErrorNote {
    pub request_id: [u8; 16],
    pub code: ErrorCode,
    pub cause: String,
    /// Why a signature was refused, if a diagnosis was made.
    pub likely_cause: Option<String>,
    /// Whether the server is at fault, and not the client.
    pub at_fault: bool,
}

pub enum ResponseBody {
    /// No body; also that of every HEAD, whatever Content-Length says.
    Empty,
    Bytes(Buffer),
    Pieces(Arc<Download>),
}

impl Response {
    /// The object that was asked for, in its current version, does not exist, and was not deleted.
    pub fn lacks_object(&self) -> bool {
        self.code == Some(ErrorCode::NoSuchKey) && !self.headers.iter().any(|(name, _)| name == DELETE_MARKER)
    }

    /// Ends the connection after this answer, because it leaves a body unread.
    #[must_use]
    pub fn closing(mut self) -> Self {
        self.closes = true;
        self
    }

    /// Why this cannot be sent as an answer to a HEAD (`is_head`) or to another request: a header that would have
    /// been two, or a body without its length. Either is a mistake of this program.
    fn flaw(&self, is_head: bool) -> Option<&'static str> {
        let length = match &self.body {
            ResponseBody::Empty => 0,
            ResponseBody::Bytes(bytes) => bytes.len() as u64,
            ResponseBody::Pieces(download) => download.length(),
        };
        let framed = match self.headers.content_length() {
            _ if is_head => length == 0,
            // RFC 9110, section 8.6.
            None => length == 0 && matches!(self.status, 204 | 304),
            Some(declared) => length == declared,
        };
        if self.headers.is_flawed() {
            Some("a response header has a line end or a NUL in it")
        } else if !framed {
            Some("a response body does not have its Content-Length")
        } else {
            None
        }
    }
}

/// What every response to one request needs to know of the request.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// 16 hexadecimal digits in upper case.
    pub request_id: [u8; 16],
    pub host_id: Arc<str>,
    /// The path as it stood in the request line.
    pub resource: Vec<u8>,
    /// A HEAD request: errors have no document.
    pub is_head: bool,
    /// Errors are pages for a browser instead of XML documents, and the log hears only of those of the server.
    pub for_browsers: bool,
    /// What the answer says about the origin of the request.
    pub cors: CorsLines,
}

impl Envelope {
    /// The number whose hexadecimal digits are the request id.
    pub fn request_number(&self) -> u64 {
        parse_hex(&self.request_id).map_or(0, u64::from_be_bytes)
    }

    #[must_use]
    pub fn with_cors(mut self, cors: CorsLines) -> Self {
        self.cors = cors;
        self
    }

    pub fn request_id(&self) -> &str {
        std::str::from_utf8(&self.request_id).unwrap_or_default()
    }

    /// An answer without a body.
    pub fn empty(&self, status: u16, mut headers: HeaderBlock) -> Response {
        // RFC 9110, section 8.6: neither a 204 nor a 304 carries one here, and a HEAD would show that of a GET.
        if status != 204 && status != 304 && !self.is_head {
            headers.set_content_length(0);
        }
        self.complete(status, headers, ResponseBody::Empty)
    }

    /// An answer that is an XML document.
    pub fn document(&self, status: u16, mut headers: HeaderBlock, document: impl Into<Buffer>) -> Response {
        let document = document.into();
        headers.push("content-type", b"application/xml");
        headers.set_content_length(document.len() as u64);
        self.complete(status, headers, ResponseBody::Bytes(document))
    }

    /// An answer in JSON.
    pub fn json(&self, status: u16, document: impl Into<Buffer>) -> Response {
        let (document, mut headers) = (document.into(), HeaderBlock::new());
        headers.push("content-type", b"application/json");
        headers.set_content_length(document.len() as u64);
        self.complete(status, headers, ResponseBody::Bytes(document))
    }

    /// The error document, or the bare status of a HEAD.
    pub fn problem(&self, problem: Problem) -> Response {
        self.problem_with(problem, HeaderBlock::new())
    }

    /// As `problem`, with headers that go with the error.
    pub fn problem_with(&self, problem: Problem, mut headers: HeaderBlock) -> Response {
        let error = &problem.error;
        let status = error.code.status();
        if let Some(allowed) = &error.allowed {
            headers.push("allow", allowed.as_bytes());
        }
        if let Some(seconds) = error.retry_after {
            headers.push("retry-after", seconds.to_string().as_bytes());
        }
        let mut answer = if self.for_browsers {
            self.error_page(error, headers)
        } else if self.is_head {
            self.empty(status, headers)
        } else {
            let document = error.document(&self.resource, self.request_id(), &self.host_id);
            self.document(status, headers, document)
        };
        answer.code = Some(error.code);
        answer.error = self.note(problem).map(Box::new);
        answer
    }

    fn error_page(&self, error: &S3Error, mut headers: HeaderBlock) -> Response {
        let page = website::error_page(error, self.request_id(), &self.host_id);
        website::error_headers(error).iter().for_each(|(name, value)| headers.push(name, value));
        headers.push("content-type", b"text/html; charset=utf-8");
        if self.is_head {
            return self.empty(error.code.status(), headers);
        }
        headers.set_content_length(page.len() as u64);
        self.complete(error.code.status(), headers, ResponseBody::Bytes(page.into()))
    }

    /// As `problem`, with what a client needs in order to find out what is wrong with its signature.
    pub fn explained(&self, problem: Problem, diagnosis: Diagnosis) -> Response {
        let note = self.note(problem.clone());
        let Diagnosis { cause, explanation } = diagnosis;
        let mut error = problem.error;
        if let Some(cause) = &cause {
            error = error.field("LikelyCause", cause.as_bytes());
        }
        if let Some(Explanation { canonical_request, string_to_sign }) = explanation {
            error = error.field("StringToSignBytes", spaced_hex(&string_to_sign)).field("StringToSign", string_to_sign);
            if let Some(request) = canonical_request {
                error = error.field("CanonicalRequestBytes", spaced_hex(&request)).field("CanonicalRequest", request);
            }
        }
        let mut answer = self.problem(Problem { error, fault: problem.fault });
        answer.error = note.map(|note| Box::new(ErrorNote { likely_cause: cause, ..note }));
        answer
    }

    fn note(&self, problem: Problem) -> Option<ErrorNote> {
        let Problem { error, fault } = problem;
        let code = error.code;
        let at_fault = fault.is_some();
        let expected = code.is_ordinary() || (self.for_browsers && !at_fault);
        let cause = || fault.unwrap_or_else(|| cause_of(&error));
        (!expected).then(|| ErrorNote {
            request_id: self.request_id,
            code,
            cause: cause(),
            likely_cause: None,
            at_fault,
        })
    }

    /// Names the request and joins the parts.
    pub fn complete(&self, status: u16, mut headers: HeaderBlock, body: ResponseBody) -> Response {
        headers.push("x-amz-request-id", &self.request_id);
        headers.push("x-amz-id-2", self.host_id.as_bytes());
        if let Some(lines) = &self.cors {
            lines.iter().for_each(|(name, value)| headers.push(name, value));
        }
        let request_id = self.request_id;
        Response { status, headers, body, closes: false, error: None, request_id, code: None }
    }

    /// The response, or an internal error if it cannot be sent as it is.
    pub fn checked(&self, answer: Response) -> Response {
        match answer.flaw(self.is_head) {
            None => answer,
            Some(flaw) => self.problem(Problem::internal(flaw)),
        }
    }
}

/// Bytes as S3 shows them beside the text that they are: two digits each, with spaces between.
fn spaced_hex(bytes: &[u8]) -> String {
    // One allocation for each of the two texts: anyone can cause this, on the event loop.
    let mut text = String::with_capacity(3 * bytes.len());
    for pair in hex(bytes).as_bytes().chunks_exact(2) {
        if !text.is_empty() {
            text.push(' ');
        }
        text.extend(pair.iter().copied().map(char::from));
    }
    text
}

/// The message of an error and what belongs to it, such as the name of an argument. A signature is not for the log: that
/// of a presigned URL opens what it was made for.
fn cause_of(error: &S3Error) -> String {
    let mut text = error.message.to_string();
    for (name, value) in error.extra.iter().filter(|(name, _)| *name != "SignatureProvided") {
        let value = String::from_utf8_lossy(&value[..value.len().min(EXTRA_LEN_MAX)]);
        text.push_str(&format!(" {name}={value}"));
    }
    if let Some(private) = &error.private {
        text.push_str(&format!(" ({private})"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn envelope(is_head: bool) -> Envelope {
        let (host_id, resource) = ("host".into(), b"/b/k".to_vec());
        Envelope { request_id: *b"0123456789ABCDEF", host_id, resource, is_head, for_browsers: false, cors: None }
    }

    fn declaring(length: u64) -> HeaderBlock {
        let mut block = HeaderBlock::new();
        block.set_content_length(length);
        block
    }

    #[test]
    fn answers_are_as_long_as_they_say() {
        let bytes = |length: usize| ResponseBody::Bytes(vec![0; length].into());
        for (status, is_head, declared, body, fit) in [
            (200, false, Some(3), bytes(3), true),
            (200, false, Some(3), bytes(2), false),
            (200, false, Some(3), ResponseBody::Empty, false),
            (200, false, Some(0), ResponseBody::Empty, true),
            (200, false, None, ResponseBody::Empty, false),
            (200, false, None, bytes(1), false),
            (304, false, None, ResponseBody::Empty, true),
            (204, false, None, ResponseBody::Empty, true),
            (204, false, None, bytes(1), false),
            (200, true, Some(3), ResponseBody::Empty, true),
            (404, true, None, ResponseBody::Empty, true),
            (200, true, Some(3), bytes(3), false),
        ] {
            let envelope = envelope(is_head);
            let headers = declared.map_or_else(HeaderBlock::new, declaring);
            let answer = envelope.checked(envelope.complete(status, headers, body));
            assert_eq!(answer.status, if fit { status } else { 500 }, "{status} {is_head} {declared:?}");
            assert_eq!(answer.error.is_none(), fit);
            assert_eq!(answer.flaw(is_head), None);
        }
    }

    #[test]
    fn the_log_hears_of_errors_but_not_of_what_is_asked_as_a_matter_of_course() {
        let note = |problem: Problem| envelope(true).problem(problem).error.map(|note| (note.cause, note.at_fault));
        for expected in [ErrorCode::NoSuchKey, ErrorCode::PreconditionFailed, ErrorCode::NoSuchCORSConfiguration] {
            assert_eq!(note(expected.into()), None);
        }
        assert!(note(ErrorCode::NoSuchBucket.into()).is_some());
        assert_eq!(note(Problem::internal("a reason")), Some(("a reason".into(), true)));
        let argument = S3Error::argument("no", "x", &[b'v'; 1000]);
        let (cause, at_fault) = note(argument.into()).unwrap();
        assert!(!at_fault && cause.starts_with("no ArgumentName=x ArgumentValue=vvv") && cause.len() < 400, "{cause}");
        let forged = S3Error::with(ErrorCode::SignatureDoesNotMatch, "no").field("SignatureProvided", "0f");
        assert_eq!(note(forged.into()), Some(("no".into(), false)));
    }

    #[test]
    fn a_header_that_would_be_two_is_a_failure_and_not_sent() {
        let envelope = envelope(false);
        let mut headers = declaring(0);
        headers.push("location", b"/b\r\nx-evil: 1");
        let answer = envelope.checked(envelope.complete(200, headers, ResponseBody::Empty));
        assert_eq!(answer.status, 500);
        assert!(answer.headers.iter().all(|(name, _)| name != "x-evil" && name != "location"));
    }
}
