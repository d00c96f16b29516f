"""Responses to what never becomes an S3 request: broken framing, slow senders, a failed application.

Each is an S3 error document with `Connection: close`, because afterwards client and server may disagree about where the
next request begins. Errors of S3 requests are created in Rust. No response contains input of the client, so nothing needs
escaping.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Final

from orcas.http.status import START_LINES


@dataclass(frozen=True, slots=True)
class Refusal:
    """One reason to end a connection: HTTP status, S3 error code, and the sentence of the document."""

    status: int
    code: str
    message: str

    def document(self, request_id: str) -> bytes:
        """The body of the response."""
        return (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f"<Error><Code>{self.code}</Code><Message>{self.message}</Message><RequestId>{request_id}</RequestId></Error>"
        ).encode()

    def response(self, request_id: str, *, bodiless: bool) -> bytes:
        """The whole response; `bodiless` answers HEAD."""
        document = self.document(request_id)
        lines = (
            START_LINES[self.status],
            b"content-type: application/xml\r\nconnection: close\r\n",
            b"x-amz-request-id: %b\r\ncontent-length: %d\r\n\r\n" % (request_id.encode(), len(document)),
        )
        return b"".join(lines) if bodiless else b"".join((*lines, document))


# How often connections were ended, by error code. Only the thread of the event loop writes it.
COUNTS: Final[Counter[str]] = Counter()

MALFORMED: Final = Refusal(400, "BadRequest", "The request is not well-formed HTTP/1.1.")
BAD_HOST: Final = Refusal(400, "BadRequest", "The request must have exactly one Host header.")
BAD_TARGET: Final = Refusal(
    400,
    "InvalidURI",
    "The request target must be a path, or an http or https URL without user information and fragment.",
)
NO_TLS: Final = Refusal(400, "BadRequest", "This port speaks TLS: use https:// in place of http://.")
UNEXPECTED_TLS: Final = Refusal(400, "BadRequest", "This port does not speak TLS: use http:// in place of https://.")
BAD_CODING: Final = Refusal(400, "BadRequest", "The only transfer coding is chunked, once, in HTTP/1.1.")
HEAD_TOO_LARGE: Final = Refusal(
    431, "RequestHeaderSectionTooLarge", "Your request header and query parameters exceed the maximum allowed size."
)
TRAILER_TOO_LARGE: Final = Refusal(400, "BadRequest", "The framing of the request body is larger than its content.")
SLOW_HEAD: Final = Refusal(408, "RequestTimeout", "The request head did not arrive within the timeout period.")
SLOW_BODY: Final = Refusal(
    400,
    "RequestTimeout",
    "Your socket connection to the server was not read from or written to within the timeout period.",
)
SLOW_DOWN: Final = Refusal(503, "SlowDown", "Please reduce your request rate.")
FAILED: Final = Refusal(500, "InternalError", "We encountered an internal error. Please try again.")
STOPPING: Final = Refusal(503, "ServiceUnavailable", "The server is stopping. Please try again.")
