"""Responses to what never becomes an S3 request. Errors of S3 requests are created in Rust.

Each is an S3 error document. None contains input of the client, so nothing needs escaping.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from orcas.telemetry.reports import address, new_request_id, report

if TYPE_CHECKING:
    import logging

    from starlette.types import Scope, Send


@dataclass(frozen=True, slots=True)
class Refusal:
    """A reason to refuse: HTTP status, S3 error code, and the sentence of the document."""

    status: int
    code: str
    message: str

    async def answer(self, log: logging.Logger, scope: Scope, send: Send, *, closes: bool = False) -> None:
        """Answer a request, and report it to `log`. `closes`: the connection ends afterwards."""
        request_id = new_request_id()
        fields = {
            "method": scope["method"], "path": scope.get("raw_path"), "client": address(scope.get("client")),
            "request_id": request_id, "cause": self.message,
        }  # fmt: skip
        report(log, self.status, self.code, lambda: fields)
        document = (
            '<?xml version="1.0" encoding="UTF-8"?>\n'
            f"<Error><Code>{self.code}</Code><Message>{self.message}</Message><RequestId>{request_id}</RequestId></Error>"
        ).encode()
        headers = [
            (b"content-type", b"application/xml"), (b"x-amz-request-id", request_id.encode()),
            (b"content-length", b"%d" % len(document)),
        ]  # fmt: skip
        if closes:
            headers.append((b"connection", b"close"))
        await send({"type": "http.response.start", "status": self.status, "headers": headers})
        await send({"type": "http.response.body", "body": document})


SLOW_DOWN: Final = Refusal(503, "SlowDown", "Please reduce your request rate.")
FAILED: Final = Refusal(500, "InternalError", "We encountered an internal error. Please try again.")
