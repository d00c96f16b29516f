//! Answers to what never becomes a request: broken framing, slow senders, a server that stops.
//!
//! Each is an S3 error document with `Connection: close`, because afterwards client and server may disagree about where
//! the next request begins. None contains input of the client, so nothing needs escaping.

/// A reason to end a connection: status, S3 error code, and the sentence of the document.
#[derive(Debug, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    pub code: &'static str,
    pub message: &'static str,
}

pub static MALFORMED: Refusal = bad_request("The request is not well-formed HTTP/1.1.");
pub static BAD_HOST: Refusal = bad_request("The request must have exactly one Host header.");
pub static BAD_CODING: Refusal = bad_request("The only transfer coding is chunked, once, in HTTP/1.1.");
pub static BAD_LENGTH: Refusal = bad_request("A request has either Content-Length or Transfer-Encoding.");
pub static NO_TLS: Refusal = bad_request("This port speaks TLS: use https:// in place of http://.");
pub static UNEXPECTED_TLS: Refusal = bad_request("This port does not speak TLS: use http:// in place of https://.");
pub static BAD_TARGET: Refusal = Refusal {
    status: 400,
    code: "InvalidURI",
    message: "The request target must be a path, or an http or https URL without user information and fragment.",
};
pub static HEAD_TOO_LARGE: Refusal = Refusal {
    status: 431,
    code: "RequestHeaderSectionTooLarge",
    message: "Your request header and query parameters exceed the maximum allowed size.",
};
pub static SLOW_HEAD: Refusal = Refusal {
    status: 408,
    code: "RequestTimeout",
    message: "The request head did not arrive within the timeout period.",
};
pub static SLOW_BODY: Refusal = Refusal {
    status: 400,
    code: "RequestTimeout",
    message: "Your socket connection to the server was not read from or written to within the timeout period.",
};
pub static SLOW_DOWN: Refusal = Refusal { status: 503, code: "SlowDown", message: "Please reduce your request rate." };
pub static FAILED: Refusal =
    Refusal { status: 500, code: "InternalError", message: "We encountered an internal error. Please try again." };
pub static STOPPING: Refusal =
    Refusal { status: 503, code: "ServiceUnavailable", message: "The server is stopping. Please try again." };
pub static NO_OWNER: Refusal = unavailable("No node of the cluster takes this request at present. Please try again.");
pub static OWNER_UNREACHED: Refusal =
    unavailable("The node of the cluster that takes this request cannot be reached at present. Please try again.");
pub static NO_LONGER_OWNER: Refusal =
    unavailable("This node does not take requests of other nodes at present. Please try again.");
pub static OUTCOME_UNKNOWN: Refusal = Refusal {
    status: 500,
    code: "InternalError",
    message: "The node of the cluster that takes this request was lost. Whether it was carried out is not known.",
};

const fn unavailable(message: &'static str) -> Refusal {
    Refusal { status: 503, code: "ServiceUnavailable", message }
}

const fn bad_request(message: &'static str) -> Refusal {
    Refusal { status: 400, code: "BadRequest", message }
}

impl Refusal {
    pub fn document(&self, request_id: &str) -> String {
        let Self { code, message, .. } = self;
        format!(
            "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<Error><Code>{code}</Code><Message>{message}</Message>\
             <RequestId>{request_id}</RequestId></Error>"
        )
    }

    /// The whole answer in HTTP/1.1. `date` is the value of its header; that to a HEAD is `bodiless`.
    pub fn response(&self, request_id: &str, date: &str, bodiless: bool) -> Vec<u8> {
        let document = self.document(request_id);
        let reason = http::StatusCode::from_u16(self.status).ok().and_then(|status| status.canonical_reason());
        let head = format!(
            "HTTP/1.1 {} {}\r\ndate: {date}\r\ncontent-type: application/xml\r\nconnection: close\r\n\
             x-amz-request-id: {request_id}\r\ncontent-length: {}\r\n\r\n",
            self.status,
            reason.unwrap_or_default(),
            document.len()
        );
        let mut response = head.into_bytes();
        if !bodiless {
            response.extend_from_slice(document.as_bytes());
        }
        response
    }
}
