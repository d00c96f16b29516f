"""The messages of the application to itself, beside standard ASGI messages.

`orcas.http.asgi` provides it on top of these, for any ASGI server. Must not know S3 or sockets.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

# The type of the message that brings a `ReadyResponse` as its `response`, in place of `http.response.start`. If the
# body comes in pieces, they follow as `http.response.body`; else the exchange is complete.
RESPONSE: Final = "orcas.response"
# In a message of `receive`: the `Sender`, if more of the body is to come.
MORE: Final = "orcas.more"
# True in `http.response.start`: the response has no end of its own, so a server that stops does not wait until the client
# has read it.
ENDLESS: Final = "orcas.endless"
# Entries of a scope. The certificate that the client has shown (DER), which one of the CAs of clients has signed.
CERTIFICATE: Final = "orcas.certificate"
# The listener counts the body of a sender who is not known yet.
COUNTED: Final = "orcas.counted"
# Status and code, if the request was answered in place of the application.
REFUSED: Final = "orcas.refused"


class ConnectionDropped(Exception):  # noqa: N818 - no error of the server
    """The connection is to end without the rest of the response: a fault that a test asked for."""


class ReadyPieces(Protocol):
    """A body in pieces."""

    @property
    def length(self) -> int:
        """Bytes in all."""


class ReadyResponse(Protocol):
    """A response that is sent unchecked: no header may contain a line end, and the body has the length its head says."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def headers(self) -> Sequence[tuple[bytes, bytes]]:
        """Names in lower case, and values. Date and Connection are the server's."""

    @property
    def body(self) -> bytes:
        """The body; empty if it comes in pieces."""

    @property
    def closes(self) -> bool:
        """Whether the connection is closed after it."""

    @property
    def download(self) -> ReadyPieces | None:
        """The pieces of the body, if it comes in pieces."""


class Sender(Protocol):
    """The sender of a body that is incomplete."""

    @property
    def client(self) -> str:
        """The address of the client; empty if unknown."""

    def shed(self) -> None:
        """End the body if it is incomplete: its memory is needed for others. The client gets 503 `SlowDown`."""
