//! A whole response: status, header list, body. Built in one step; whoever sends it adds nothing.
//!
//! Every answer names its request (`x-amz-request-id`, `x-amz-id-2`). Date and Server are the HTTP server's.

use std::borrow::Cow;
use std::sync::Arc;

use super::download::Download;
use super::problem::Problem;
pub use crate::s3::headers::HeaderList;

pub struct Answer {
    pub status: u16,
    pub headers: HeaderList,
    pub body: AnswerBody,
    /// For the log: why the server is at fault.
    pub fault: Option<String>,
}

pub enum AnswerBody {
    /// Also the body of every HEAD, whatever Content-Length says.
    Empty,
    Bytes(Vec<u8>),
    Pieces(Arc<Download>),
}

impl Answer {
    /// Ends the connection after this answer, because it leaves a body unread.
    #[must_use]
    pub fn closing(mut self) -> Self {
        push(&mut self.headers, "connection", b"close".to_vec());
        self
    }
}

/// What every answer to one request needs to know of it.
#[derive(Clone, Debug)]
pub struct Envelope {
    /// 16 hexadecimal digits in upper case.
    pub request_id: [u8; 16],
    pub host_id: Arc<str>,
    /// The path as it stood in the request line.
    pub resource: Vec<u8>,
    /// A HEAD request: errors have no document.
    pub headless: bool,
}

impl Envelope {
    pub fn request_id(&self) -> &str {
        std::str::from_utf8(&self.request_id).unwrap_or_default()
    }

    /// An answer without a body.
    pub fn empty(&self, status: u16, mut headers: HeaderList) -> Answer {
        // RFC 9110, section 8.6: neither a 204 nor a 304 carries one here, and a HEAD would promise a GET's.
        if status != 204 && status != 304 && !self.headless {
            push(&mut headers, "content-length", b"0".to_vec());
        }
        self.complete(status, headers, AnswerBody::Empty)
    }

    /// An answer that is an XML document.
    pub fn document(&self, status: u16, mut headers: HeaderList, document: Vec<u8>) -> Answer {
        push(&mut headers, "content-type", b"application/xml".to_vec());
        push(&mut headers, "content-length", itoa::Buffer::new().format(document.len()).as_bytes().to_vec());
        self.complete(status, headers, AnswerBody::Bytes(document))
    }

    /// The error document, or the bare status of a HEAD.
    pub fn problem(&self, problem: Problem) -> Answer {
        self.problem_with(problem, HeaderList::new())
    }

    /// As `problem`, with headers that go with the error.
    pub fn problem_with(&self, problem: Problem, headers: HeaderList) -> Answer {
        let error = &problem.error;
        let status = error.code.status();
        let mut answer = if self.headless {
            self.empty(status, headers)
        } else {
            let document = error.document(&self.resource, self.request_id(), &self.host_id);
            self.document(status, headers, document)
        };
        answer.fault = problem.fault;
        answer
    }

    /// Names the request and joins the parts.
    pub fn complete(&self, status: u16, mut headers: HeaderList, body: AnswerBody) -> Answer {
        push(&mut headers, "x-amz-request-id", self.request_id.to_vec());
        push(&mut headers, "x-amz-id-2", self.host_id.as_bytes().to_vec());
        Answer { status, headers, body, fault: None }
    }
}

pub fn push(headers: &mut HeaderList, name: &'static str, value: Vec<u8>) {
    headers.push((Cow::Borrowed(name.as_bytes()), value));
}
