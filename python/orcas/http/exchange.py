"""One request and its response: the ASGI `receive` and `send` of one exchange on a connection.

Invariants: at most one task waits in `receive` or `stream_into`; a body that came in one read is passed on without a copy;
the head and the beginning of the body are sent in one write; a response that is shorter than its Content-Length ends the
connection. A response is either standard ASGI messages or ready-made bytes (`orcas.http.extensions`), before which only the
status line, Date and Connection are written. Must not know S3; `orcas.http.protocol` owns the connection and its limits.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any, Final, Protocol

from starlette.requests import ClientDisconnect

from orcas.http.extensions import ENDLESS, GONE, MORE, REFUSED, RESPONSE, REST, ConnectionDropped, client_of
from orcas.http.refusals import COUNTS, FAILED, SLOW_DOWN, STOPPING
from orcas.http.status import START_LINES
from orcas.settings.config import KIB

if TYPE_CHECKING:
    from starlette.types import Message, Scope

    from orcas.http.extensions import ReadyResponse
    from orcas.http.flow import FlowControl
    from orcas.http.refusals import Refusal
    from orcas.http.streaming import Sink

# Reading pauses when more bytes than this wait for the application. One more read may follow.
HIGH_WATER: Final = 64 * KIB
# Up to this size, copying a body behind its head is cheaper than a second write.
_JOIN_BYTES: Final = 16 * KIB
_CONTINUE: Final = b"HTTP/1.1 100 Continue\r\n\r\n"
_CLOSE: Final = b"connection: close\r\n"
_DISCONNECT: Final[Message] = {"type": "http.disconnect"}
_FRAMING: Final = frozenset((b"content-length", b"transfer-encoding", b"connection"))
# The least rate of a body, against clients that send slowly on purpose (slowloris); see `falls_behind`.
BODY_BYTES_PER_SECOND: Final = KIB

log = logging.getLogger("orcas.http")


class Connection(Protocol):
    """What an exchange needs of its connection."""

    app: Any
    loop: asyncio.AbstractEventLoop
    transport: asyncio.Transport
    half_closed: bool
    flow: FlowControl
    # Whether it has carried a response without an end of its own.
    endless: bool
    # Of all connections. A server that stops waits for them.
    tasks: set[asyncio.Task[None]]

    def exchange_done(self, exchange: Exchange) -> None:
        """The response is written."""

    def fail(self, exchange: Exchange, refusal: Refusal) -> None:
        """The application failed: send `refusal` if no response has begun, else close the connection."""

    def refuse_body(self, exchange: Exchange, refusal: Refusal) -> None:
        """End the exchange, whose body is incomplete."""

    def begin_streaming(self, exchange: Exchange, sink: Sink) -> None:
        """Read the rest of the body into memory of `sink`."""

    def end_streaming(self) -> None:
        """Stop reading it, unless it is complete."""

    def body_streamed(self, exchange: Exchange) -> None:
        """It is complete."""


class Exchange:
    """Made when a request head is complete; runs the application once."""

    __slots__ = (
        "behind", "bodiless", "chunked", "connection", "disconnected", "ended", "expects", "head", "keep_alive", "length",
        "more_body", "pieces", "received", "remaining", "response_complete", "response_started", "scope", "seen",
        "size", "task", "waiter",
    )  # fmt: skip

    def __init__(
        self,
        connection: Connection,
        scope: Scope,
        *,
        length: int | None,
        expects: bool,
        keep_alive: bool,
    ) -> None:
        self.connection = connection
        self.scope = scope
        # Bytes of the body, if the head says how many.
        self.length = length
        self.expects = expects
        self.keep_alive = keep_alive
        # Request.
        self.pieces: list[bytes] = []
        self.size = 0
        self.received = 0
        self.more_body = True
        self.ended = False
        self.waiter: asyncio.Future[None] | None = None
        self.disconnected = False
        # Seconds by which the sender was behind the least rate when `seen` bytes had arrived.
        self.behind: float = 0
        self.seen = 0
        # Response.
        self.head: bytes | None = None
        self.chunked = False
        self.bodiless = False
        self.remaining: int | None = None
        self.response_started = False
        self.response_complete = False
        self.task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Run the application in a task of its own."""
        self.task = self.connection.loop.create_task(self._run())
        self.connection.tasks.add(self.task)

    async def _run(self) -> None:
        """Run the application, and end the exchange if the application did not."""
        try:
            await self.connection.app(self.scope, self.receive, self.send)
        except asyncio.CancelledError:
            is_cut = self.response_started and self.head is None and not self.response_complete
            self._give_up(STOPPING)
            if is_cut:
                # A client that reads nothing would keep the connection for as long as it has unsent bytes.
                self.connection.transport.abort()
            raise
        except ConnectionDropped:
            # What was sent before arrives.
            self.disconnected = True
            self.connection.transport.close()
        except Exception as error:
            # That the client has gone is no failure. Anything else is, even if nobody waits for the answer.
            if not (self.disconnected and isinstance(error, (ConnectionError, ClientDisconnect))):
                log.exception("%s %r failed", self.scope["method"], self.scope["raw_path"])
            self._give_up(FAILED)
        else:
            if not self.response_complete and not self.disconnected:
                log.error("%s %r was left without a complete response", self.scope["method"], self.scope["raw_path"])
                self._give_up(FAILED)
        finally:
            # A callback of the task would cost a turn of the event loop.
            if self.task is not None:
                self.connection.tasks.discard(self.task)

    def _give_up(self, refusal: Refusal) -> None:
        if not self.disconnected and not self.response_complete:
            self.disconnected = True
            self.connection.fail(self, refusal)

    # Request side, called by the connection.

    def feed(self, piece: bytes) -> bool:
        """Add a piece of the body. True: pause reading until the application has received it."""
        self.pieces.append(piece)
        self.received += len(piece)
        self.size += len(piece)
        if self.waiter is not None:
            self.wake()
        return self.size > HIGH_WATER

    def end_body(self) -> None:
        """The body is complete."""
        self.more_body = False
        if self.waiter is not None:
            self.wake()

    def disconnect(self) -> None:
        """The connection is over: tell the application."""
        self.disconnected = True
        self.wake()

    def bytes_streamed(self, count: int, *, admitted: bool) -> None:
        """`count` bytes of the body were read without the parser; `admitted`: the sink has room for more."""
        self.received += count
        if not self.missing:
            self.connection.body_streamed(self)
        elif not admitted:
            self.connection.flow.pause_reading()
            self.wake()

    def wake(self) -> None:
        """Wake the task that waits in `receive`."""
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)

    @property
    def awaits_body(self) -> bool:
        """Whether the application waits for the sender, and only for the sender."""
        return self.waiter is not None and self.more_body

    @property
    def outlasts_client(self) -> bool:
        """Whether the response goes on when the client sends nothing more: it has an end of its own, and is being sent."""
        return self.response_started and not self.chunked

    @property
    def silent(self) -> bool:
        """Whether nothing of the body has arrived since the last call of `falls_behind`."""
        return self.seen == self.received

    def falls_behind(self, seconds: float, patience: float) -> bool:
        """Account for `seconds` more. Whether the sender is then more than `patience` seconds behind the least rate."""
        # Each KiB is worth a second. Nothing is saved up, so a fast start does not make up for a stall.
        earned = (self.received - self.seen) / BODY_BYTES_PER_SECOND
        self.seen = self.received
        self.behind = max(0, self.behind - earned) + seconds
        return self.behind > patience

    def close_after(self) -> None:
        """Close the connection after the response."""
        self.keep_alive = False

    async def receive(self) -> Message:
        """The ASGI callable."""
        self._send_continue()
        while True:
            if self.disconnected or self.response_complete:
                return _DISCONNECT
            if self.pieces or (not self.more_body and not self.ended):
                break
            if self.connection.half_closed and not self.outlasts_client:
                return _DISCONNECT
            if self.waiter is not None:
                raise RuntimeError("another task is waiting in receive()")
            self.waiter = self.connection.loop.create_future()
            try:
                await self.waiter
            finally:
                self.waiter = None
        message: Message = {"type": "http.request", "body": self._take_pieces(), "more_body": self.more_body}
        self.ended = not self.more_body
        if self.more_body:
            self.connection.flow.resume_reading()
            message[MORE] = self
            if self.missing > HIGH_WATER:
                message[REST] = self
        return message

    @property
    def client(self) -> str:
        """The client, as in `Sender`."""
        return client_of(self.scope)

    def shed(self) -> None:
        """End this body if it is incomplete: its memory is needed for others."""
        self.connection.refuse_body(self, SLOW_DOWN)

    @property
    def missing(self) -> int:
        """Bytes of the body that have not arrived; 0 if its length is unknown."""
        return 0 if self.length is None else self.length - self.received

    async def stream_into(self, sink: Sink) -> bool:
        """Read more of the body into memory of `sink`, as in `RestOfBody`."""
        if self.more_body and not self.pieces and not self.disconnected:
            self.waiter = self.connection.loop.create_future()
            self.connection.begin_streaming(self, sink)
            try:
                await self.waiter
            finally:
                self.waiter = None
                self.connection.end_streaming()
        if self.disconnected:
            raise ConnectionError
        self.ended = not self.more_body and not self.pieces
        return self.ended

    def _take_pieces(self) -> bytes:
        pieces, self.pieces = self.pieces, []
        self.size = 0
        return pieces[0] if len(pieces) == 1 else b"".join(pieces)

    def _send_continue(self) -> None:
        """Send the 100 (Continue) that the client asked for, once.

        It is sent even if the body is empty or already here. botocore would take a final response in place of the 100
        for the response to its next request as well, so a connection that stays open must have had the 100.
        """
        if self.expects and not self.response_started and not self.disconnected:
            self.connection.transport.write(_CONTINUE)
        self.expects = False

    # Response side.

    async def send(self, message: Message) -> None:
        """The ASGI callable."""
        flow = self.connection.flow
        if flow.write_paused and not self.disconnected:
            await flow.drain()
        if self.disconnected:
            self.scope[GONE] = True
            return
        if not self.response_started:
            if message["type"] == RESPONSE:
                self._send_ready(message["response"])
                return
            if message["type"] != "http.response.start":
                raise RuntimeError(f"expected http.response.start, not {message['type']}")
            self._begin_response()
            self.head = self._make_head(message["status"], message.get("headers", ()))
            if ENDLESS in message:
                self.connection.endless = True
            self.response_started = True
            return
        if self.response_complete or message["type"] != "http.response.body":
            raise RuntimeError(f"unexpected {message['type']}")
        self._write(message.get("body", b""), more=message.get("more_body", False))

    def _begin_response(self) -> None:
        """A response begins: decide what happens to the rest of the request."""
        if self.more_body:
            # The rest of the body will not be read, so it must not be parsed as a request.
            self.keep_alive = False
        elif self.expects:
            self._send_continue()

    def _send_ready(self, response: ReadyResponse) -> None:
        self._begin_response()
        if response.closes:
            self.keep_alive = False
        start = START_LINES[response.status]
        if not self.keep_alive:
            start += _CLOSE
        rest = response.rest
        self.response_started = True
        if response.download is not None:
            self.head = start + rest
            self.remaining = response.download.length
            return
        transport = self.connection.transport
        if len(rest) <= _JOIN_BYTES:
            transport.write(start + rest)
        else:
            transport.write(start)
            transport.write(rest)
        self._complete()

    def _make_head(self, status: int, headers: Any) -> bytes:
        start = START_LINES[status]
        parts = [start]
        has_close = False
        for name, value in headers:
            if name in _FRAMING:
                if name == b"content-length":
                    self.remaining = int(value)
                elif name == b"connection":
                    has_close = has_close or b"close" in value.lower()
            parts += (name, b": ", value, b"\r\n")
        # Line ends: of the status line and Date, of each header (four pieces in `parts`), and of the empty line.
        lines = start.count(b"\n") + len(parts) // 4 + 1
        if has_close:
            self.keep_alive = False
        self.bodiless = self.scope["method"] == "HEAD" or status in (204, 304)
        if self.remaining is None and not self.bodiless:
            self.chunked = self.scope["http_version"] == "1.1"
            if self.chunked:
                parts.append(b"transfer-encoding: chunked\r\n")
                lines += 1
            else:
                self.keep_alive = False
        if not self.keep_alive and not has_close:
            parts.append(_CLOSE)
            lines += 1
        parts.append(b"\r\n")
        head = b"".join(parts)
        if head.count(b"\n") != lines or head.count(b"\r") != lines or b"\0" in head:
            raise RuntimeError("a response header has a line end or a NUL in it")
        return head

    def _write(self, body: bytes | memoryview, *, more: bool) -> None:
        before, after = self.head or b"", b""
        self.head = None
        if self.bodiless:
            body = b""
        elif self.remaining is not None:
            self.remaining -= len(body)
            if self.remaining < 0 or (self.remaining and not more):
                raise RuntimeError("the response body does not have its Content-Length")
        elif self.chunked:
            if body:
                before += b"%x\r\n" % len(body)
                after = b"\r\n"
            if not more:
                after += b"0\r\n\r\n"
        if (before or after) and len(body) <= _JOIN_BYTES:
            before, body, after = b"", b"".join((before, body, after)), b""
        for part in (before, body, after):
            if part:
                self.connection.transport.write(part)
        if not more:
            self._complete()

    def _complete(self) -> None:
        self.response_complete = True
        self.wake()
        self.connection.exchange_done(self)


def note_refusal(refusal: Refusal, exchange: Exchange | None) -> None:
    """Count an answer of the connection: as that of its request, if there is one."""
    if exchange is None:
        COUNTS[refusal.code] += 1
    else:
        exchange.scope[REFUSED] = refusal.status, refusal.code
