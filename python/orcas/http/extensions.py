"""The ASGI extensions by which a connection and the application of S3 spare each other work.

A connection that has them names them in `scope["extensions"]`; Orcas's own is `orcas.http.exchange`. For every other one
`orcas.http.asgi` makes what they bring of standard messages. Knows nothing of S3 and nothing of sockets.
"""

from __future__ import annotations

import ipaddress
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping

    from orcas.http.streaming import Sink

# The type of the message that brings a `ReadyResponse` as its `response`, in place of `http.response.start`. If the
# body comes in pieces, they follow as `http.response.body`; else the exchange is complete.
RESPONSE: Final = "orcas.response"
# In a message of `receive`: the `RestOfBody`, if what is left of the body is known to be long.
REST: Final = "orcas.rest"
# In a message of `receive`: the `Sender`, if more of the body is to come.
MORE: Final = "orcas.more"
# What stands in the scope of a connection that has all three.
EXTENSIONS: Final[dict[str, dict[object, object]]] = {RESPONSE: {}, REST: {}, MORE: {}}

# Clients with an IPv6 address have as many as they like: those of a network of this length are one.
_IPV6_NETWORK_BITS: Final = 64


class ReadyPieces(Protocol):
    """A body in pieces."""

    @property
    def length(self) -> int:
        """Bytes in all."""


class ReadyResponse(Protocol):
    """A response whose maker vouches for it: no header holds a line end, and the body is as long as its head says."""

    @property
    def status(self) -> int:
        """The HTTP status."""

    @property
    def rest(self) -> bytes:
        """What follows Date: header lines, the empty line and, unless it comes in pieces, the body."""

    @property
    def closes(self) -> bool:
        """Whether the connection ends behind it."""

    @property
    def download(self) -> ReadyPieces | None:
        """Whether its body comes in pieces."""


class Sender(Protocol):
    """Who sends a body of which more is to come."""

    @property
    def client(self) -> str:
        """Whose connection it is: an IPv4 address or an IPv6 network, or nothing."""

    def shed(self) -> None:
        """End the body, if it has not come whole: others need its memory. The client is told to try again."""


class RestOfBody(Sender, Protocol):
    """What is left of a long body."""

    @property
    def pieces(self) -> list[bytes]:
        """What has been received already: it comes first, by `receive`."""

    async def stream_into(self, sink: Sink) -> bool:
        """Let more of the body go straight into memory of `sink`, which is ready for a read.

        Returns:
            Whether the body is complete. If not, `sink` must be ready again before this is called again.

        Raises:
            ConnectionError: the client went away, or was too slow.
        """


def split_response(response: ReadyResponse) -> tuple[list[tuple[bytes, bytes]], memoryview]:
    """Headers and body of a response; the body is empty where it comes in pieces."""
    rest = response.rest
    end = rest.index(b"\r\n\r\n")
    headers = [(name, value) for name, _, value in (line.partition(b": ") for line in rest[:end].split(b"\r\n"))]
    return headers, memoryview(rest)[end + 4 :]


def client_of(scope: Mapping[str, Any]) -> str:
    """`Sender.client` of a request."""
    host: str = (scope.get("client") or ("",))[0]
    if ":" not in host:
        return host
    return str(ipaddress.ip_network((host.partition("%")[0], _IPV6_NETWORK_BITS), strict=False))
