"""Requests from ASGI servers: provides `orcas.http.extensions` on top of standard ASGI messages.

uvicorn, hypercorn, granian, httpx and test clients differ in how large their messages are, which fields they leave out, and
whether they wait for a client that is refused while it sends. This module hides these differences. Must not know S3 or
which server it is.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from typing import TYPE_CHECKING, Final
from urllib.parse import quote, unquote_to_bytes

from orcas.http.extensions import MORE, REFUSED, RESPONSE
from orcas.http.refusals import SLOW_DOWN
from orcas.settings.config import KIB, MIB

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import Message, Receive, Scope, Send

    from orcas.http.extensions import ReadyResponse

# Most bytes of a body in one message, in either direction.
PIECE_MAX: Final = 256 * KIB
# Some clients read a refusal only after they have sent their whole body. Servers close the connection right after the
# response, which would reset it before such a client has read the response. So this much of the body is still received
# first: bytes, seconds, and seconds between two pieces. Some servers close as soon as the response has its
# Content-Length, so the body of the response is sent afterwards.
DRAIN_BYTES_MAX: Final = 16 * MIB
DRAIN_SECONDS_MAX: Final = 5
_SILENT_SECONDS_MAX: Final = 1

_DISCONNECT: Final[Message] = {"type": "http.disconnect"}

log = logging.getLogger("orcas.http")


class HostedExchange:
    """A request of a server, with `scope`, `receive` and `send` as on a connection that has the extensions."""

    def __init__(self, scope: Scope, receive: Receive, send: Send) -> None:
        self.scope = _complete(scope)
        # Length in bytes of the path prefix under which the application is mounted.
        self.mount_length = _mount_length(self.scope["raw_path"], scope.get("root_path", ""))
        self._receive = receive
        self._send_to_server = send
        # What the server has raised from `send`.
        self._gone: OSError | None = None
        # What was received and not passed on yet, and whether more is to come.
        self._held = memoryview(b"")
        self._more_body = True
        self._shed = False
        self._asked = self._started = False
        # The timeout of the current wait for the server.
        self._waiting: asyncio.Timeout | None = None

    async def run(self, application: Callable[[Scope, Receive, Send], Awaitable[None]]) -> None:
        """Run an application that uses the extensions."""
        try:
            await application(self.scope, self.receive, self.send)
            if self._shed and not self._started:
                closes = self.scope["http_version"].startswith("1")
                await SLOW_DOWN.answer(log, self.scope, self._send, closes=closes)
        except OSError as error:
            # Servers raise it from `send` when the client has disconnected. Then there is nobody to answer.
            if error is not self._gone:
                raise

    # Request.

    async def receive(self) -> Message:
        """The ASGI callable."""
        while not self._held:
            if self._shed:
                return _DISCONNECT
            self._asked = True
            try:
                async with asyncio.timeout(None) as self._waiting:
                    message = await self._receive()
            except TimeoutError:
                # A TimeoutError of the server itself is passed on.
                if self._waiting is None or not self._waiting.expired():
                    raise
                return _DISCONNECT
            finally:
                self._waiting = None
            if message["type"] != "http.request":
                return message
            self._more_body = message.get("more_body", False)
            body = message.get("body", b"")
            if len(body) <= PIECE_MAX:
                if body or not self._more_body:
                    return self._request(body, more=self._more_body)
            else:
                self._held = memoryview(body)
        piece, self._held = bytes(self._held[:PIECE_MAX]), self._held[PIECE_MAX:]
        return self._request(piece, more=bool(self._held) or self._more_body)

    def _request(self, body: bytes, *, more: bool) -> Message:
        message: Message = {"type": "http.request", "body": body, "more_body": more}
        if more:
            message[MORE] = self
        return message

    @property
    def client(self) -> str:
        """The client, as in `Sender`."""
        host: str = (self.scope.get("client") or ("",))[0]
        return host

    def shed(self) -> None:
        """End this body if it is incomplete: its memory is needed for others."""
        self._shed = True
        self.scope[REFUSED] = SLOW_DOWN.status, SLOW_DOWN.code
        self._held = memoryview(b"")
        if self._waiting is not None:
            self._waiting.reschedule(asyncio.get_running_loop().time())

    # Response.

    async def send(self, message: Message) -> None:
        """The ASGI callable."""
        self._started = True
        if message["type"] == RESPONSE:
            await self._respond(message["response"])
        elif message["type"] == "http.response.body":
            await self._send_body(message.get("body", b""), more=message.get("more_body", False))
        else:
            await self._send(message)

    async def _send(self, message: Message) -> None:
        try:
            await self._send_to_server(message)
        except OSError as error:
            self._gone = error
            raise

    async def _respond(self, response: ReadyResponse) -> None:
        headers = list(response.headers)
        # HTTP/2 has no such header: there, each stream ends by itself.
        if response.closes and self.scope["http_version"].startswith("1"):
            headers.append((b"connection", b"close"))
        await self._send({"type": "http.response.start", "status": response.status, "headers": headers})
        if response.download is None:
            if response.closes and self._more_body and not self._awaits_continue():
                await self._drain()
            await self._send_body(response.body, more=False)

    async def _send_body(self, body: bytes | memoryview, *, more: bool) -> None:
        view = memoryview(body)
        while len(view) > PIECE_MAX:
            await self._send({"type": "http.response.body", "body": bytes(view[:PIECE_MAX]), "more_body": True})
            view = view[PIECE_MAX:]
        await self._send({"type": "http.response.body", "body": bytes(view), "more_body": more})

    def _awaits_continue(self) -> bool:
        """Whether the client waits for a 100 (Continue) that was not sent."""
        return not self._asked and any(name == b"expect" for name, _ in self.scope["headers"])

    async def _drain(self) -> None:
        """Receive the rest of the body, within the limits above."""
        left = DRAIN_BYTES_MAX
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(DRAIN_SECONDS_MAX):
                while left > 0 and self._more_body:
                    async with asyncio.timeout(_SILENT_SECONDS_MAX):
                        message = await self._receive()
                    if message["type"] != "http.request":
                        break
                    self._more_body = message.get("more_body", False)
                    left -= len(message.get("body", b""))


def _complete(scope: Scope) -> Scope:
    """`scope` with the fields that ASGI lets a server omit, and headers in the form that Rust expects."""
    raw_path = scope.get("raw_path")
    if raw_path is None:
        # The client's own encoding is lost. This is how S3 specifies it, and what SDKs do.
        raw_path = quote(scope["path"], safe="/~").encode()
    headers = [(bytes(name).lower(), bytes(value)) for name, value in scope["headers"]]
    given = {"raw_path": raw_path, "headers": headers}
    return {**scope, **given, "extensions": {}, "query_string": scope.get("query_string", b"")}


def _mount_length(raw_path: bytes, root_path: str) -> int:
    """The length in bytes of the prefix of `raw_path` that decodes to `root_path`; 0 if it does not begin with it.

    Servers differ in whether the path that they pass on includes the root path.
    """
    wanted = root_path.rstrip("/").encode()
    at = 0
    for byte in wanted:
        taken = 3 if raw_path[at : at + 1] == b"%" else 1
        if unquote_to_bytes(raw_path[at : at + taken]) != bytes((byte,)):
            return 0
        at += taken
    return at if raw_path[at : at + 1] in (b"/", b"") else 0
