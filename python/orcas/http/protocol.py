"""One HTTP/1.1 connection, which uvicorn's server creates: a protocol over httptools that has limits.

Limits the size of a head, the number of its headers and the time it takes, the rate of a body, the time that a connection is
idle, and what is received after a refusal. Refuses every framing that two parsers could read differently; drops trailers.
The server calls `tick` once a second for each connection, so a request needs no timer. Of S3 it knows only the form of an
error document.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections import deque
from typing import TYPE_CHECKING, Any, ClassVar, Final
from urllib.parse import unquote

import httptools

from orcas.http import refusals
from orcas.http.exchange import HIGH_WATER, Exchange, note_refusal
from orcas.http.extensions import EXTENSIONS
from orcas.http.flow import FlowControl
from orcas.http.parsers import CHUNK_FRAMING, FEED_BYTES, FRAMING, HEADERS_MAX, new_parser, origin_form, parser_of_body
from orcas.http.proxies import Proxies
from orcas.http.refusals import Refusal
from orcas.http.streaming import Sink, StreamProtocol
from orcas.settings.config import MIB, Settings
from orcas.telemetry.reports import address, new_request_id, report

if TYPE_CHECKING:
    from uvicorn import Config
    from uvicorn.server import ServerState

TICK_SECONDS: Final = 1
# What is still received after a refusal: some clients read it only when they have sent everything, and closing at once
# would reset their connection.
DRAIN_BYTES_MAX: Final = 16 * MIB
DRAIN_SECONDS_MAX: Final = 5
# Most requests of a pipeline that wait to be answered; meanwhile nothing more is read or parsed.
PIPELINE_MAX: Final = 64

log = logging.getLogger("orcas.http")

# As numbers: looking for bytes in bytes raises and catches an exception first.
_H: Final = ord("H")
_HASH: Final = ord("#")
# What a client that speaks TLS sends first, and no other does.
_TLS_HANDSHAKE: Final = b"\x16"


class LimitedProtocol(asyncio.Protocol):
    """Made by `limited_protocol`, which binds the limits."""

    limits: ClassVar[Settings]

    def __init__(
        self,
        config: Config,
        server_state: ServerState,
        app_state: dict[str, Any],
        _loop: asyncio.AbstractEventLoop | None = None,
    ) -> None:
        self.app = config.loaded_app
        self.loop = _loop or asyncio.get_running_loop()
        self.connections: set[Any] = server_state.connections
        self.tasks = server_state.tasks
        self.parser = new_parser(self)
        self.transport: asyncio.Transport
        self.flow: FlowControl
        self.client: tuple[str, int] | None = None
        self.url = b""
        self.headers: list[tuple[bytes, bytes]] = []
        self.expect_100_continue = False
        # The exchange being answered, the one whose body is being parsed, and those between.
        self.running: Exchange | None = None
        self.reading: Exchange | None = None
        self.queue: deque[Exchange] = deque()
        # Bytes that were read but are parsed only when the queue has been answered. Empty if the queue is.
        self.backlog = b""
        # Seconds since the present stage began, counted by ticks.
        self.age = 0
        self.in_head = False
        self.head_bytes = self.framing_bytes = 0
        # `fed` is the read being parsed, `line` the reads that contain the request line, and `head_bound` the length of the
        # reads that contain the head, so an upper bound of its size.
        self.head_bound = 0
        self.fed: bytes | memoryview = b""
        self.line: bytes | memoryview = b""
        self.hosts = 0
        self.body_follows = False
        # The exchange whose head asks for another protocol (Upgrade), while its body has not been parsed.
        self.upgraded: Exchange | None = None
        self.refusal: Refusal | None = None
        # The length of the body that follows, if the head says it.
        self.body_length: int | None = None
        self.stream: StreamProtocol | None = None
        # Bytes of a streamed body that have not arrived and will not be parsed.
        self.unparsed = 0
        # Set when parsing has ended, for good or while a body is streamed: input is dropped, or counted while draining.
        self.ignores_input = False
        self.draining = self.endless = self.half_closed = False
        self.drained_bytes = 0
        self.write_pauses = self.write_pauses_seen = 0

    # Transport callbacks.

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.connections.add(self)
        self.transport = transport
        self.flow = FlowControl(transport)
        self.client = _address(transport.get_extra_info("peername"))
        # Of all requests. `on_headers_complete` fills in a copy, which costs half of what a new dictionary does.
        self.blank_scope: dict[str, Any] = {
            "type": "http",
            "asgi": {"version": "3.0", "spec_version": "2.3"},
            "http_version": "",
            "server": _address(transport.get_extra_info("sockname")),
            "client": self.client,
            # Of the connection: nothing that a client sends is taken for it.
            "scheme": "http" if transport.get_extra_info("sslcontext") is None else "https",
            "method": "",
            "root_path": "",
            "path": "",
            "raw_path": b"",
            "query_string": b"",
            "headers": [],
            "extensions": EXTENSIONS,
        }
        if self.refusal is not None:
            self._answer(self.refusal)

    def connection_lost(self, exc: Exception | None) -> None:
        self.connections.discard(self)
        self.ignores_input = True
        self.queue.clear()
        self.backlog = b""
        for exchange in (self.running, self.reading):
            if exchange is not None:
                exchange.disconnect()
        self.flow.resume_writing()
        self.parser = None  # type: ignore[assignment]  # breaks the reference cycle

    def eof_received(self) -> bool:
        """The client sends nothing more. A request that it has sent whole is answered; True keeps the connection for it.

        What waits to hear that the client has gone hears it now: nothing tells a client that only sends no more from one
        that has gone, and a download learns the difference when it sends.
        """
        running = self.running
        last = self.queue[-1] if self.queue else running
        if running is None or last is None or self.draining or self.transport.is_closing() or last.more_body:
            return False
        if running.more_body or not (running.waiter is None or running.outlasts_client):
            return False
        self.half_closed = self.ignores_input = True
        last.close_after()
        return True

    def pause_writing(self) -> None:
        self.write_pauses += 1
        self.flow.pause_writing()

    def resume_writing(self) -> None:
        self.flow.resume_writing()

    def data_received(self, data: bytes) -> None:
        if self.draining:
            self._drain(data)
            return
        if self.ignores_input:
            return
        if self.backlog:
            # Reading is paused, but the transport may have read more before.
            self.backlog += data
        elif len(data) <= FEED_BYTES:
            self._feed(data)
        else:
            self._feed_pieces(data)

    def _feed_pieces(self, data: bytes) -> None:
        """Parse `data` until `PIPELINE_MAX` requests wait, and keep the rest."""
        rest = memoryview(data)
        while rest and not self.ignores_input and not self.draining:
            if len(self.queue) >= PIPELINE_MAX:
                self.flow.pause_reading()
                self.backlog = bytes(rest)
                return
            size = FEED_BYTES if self.reading is None else max(FEED_BYTES, self.reading.missing)
            self._feed(rest[:size])
            rest = rest[size:]

    def _feed(self, data: bytes | memoryview) -> None:
        self.fed = data
        began_in_head = self.in_head
        if began_in_head:
            self.head_bound += len(data)
            if not self.headers:
                self.line = bytes(self.line) + data
        reading = self.reading
        received = reading.received if reading is not None else 0
        try:
            try:
                self.parser.feed_data(data)
            except httptools.HttpParserUpgrade as upgrade:
                self._ignore_upgrade(data[upgrade.args[0] :])
            self.fed = b""
        except httptools.HttpParserError:
            is_tls = data[:1] == _TLS_HANDSHAKE
            self._refuse(self.refusal or (refusals.UNEXPECTED_TLS if is_tls else refusals.MALFORMED))
        else:
            if self.in_head:
                # The read in which the head began may contain bytes before it: `on_headers_complete` counts that part.
                self.head_bytes += len(data) if began_in_head else 0
                if self.head_bytes > self.limits.max_head_size:
                    self._refuse(refusals.HEAD_TOO_LARGE)
            elif reading is not None and self.reading is reading:
                # Chunk extensions and trailers: llhttp does not limit them.
                self.framing_bytes = max(0, self.framing_bytes + len(data) - (reading.received - received))
                if self.framing_bytes > self.limits.max_head_size:
                    self._refuse(refusals.TRAILER_TOO_LARGE)

    # Parser callbacks.

    def on_message_begin(self) -> None:
        self.url = b""
        self.headers = []
        self.in_head = True
        self.age = self.head_bytes = self.hosts = 0
        self.line = self.fed
        self.head_bound = len(self.fed)
        self.body_follows = False
        self.body_length = None
        self.expect_100_continue = False

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        name = name.lower()
        if name in FRAMING:
            value = self._framing_header(name, value)
        self.headers.append((name, value))

    def on_headers_complete(self) -> None:
        self.in_head = False
        self.framing_bytes = 0
        # From here on `self.headers` gets trailers, which are ignored: only the head was signed.
        headers, self.headers = self.headers, []
        url = self.url
        target = url if url.startswith(b"/") else origin_form(url, headers)
        if not target or _HASH in target:
            self._reject(refusals.BAD_TARGET)
        if self.hosts != 1:
            self._reject(refusals.BAD_HOST)
        # A head of any size is complete at once if it came in one read. Most reads are too short to need counting.
        if len(headers) > HEADERS_MAX or (
            self.head_bound > self.limits.max_head_size
            and len(url) + sum(len(name) + len(value) + 4 for name, value in headers) > self.limits.max_head_size
        ):
            self._reject(refusals.HEAD_TOO_LARGE)
        parser = self.parser
        version, method = parser.get_http_version(), parser.get_method()
        # The parser also accepts RTSP/ and ICE/ in place of HTTP/. Usually the request line is where the read begins.
        line, at = self.line, len(method) + len(url) + 2
        if (at >= len(line) or line[at] != _H) and b"%b %b HTTP/" % (method, url) not in bytes(line):
            self._reject(refusals.MALFORMED)
        is_current = version == "1.1"
        if not is_current and version != "1.0":
            self._reject(refusals.MALFORMED)
        self.line = b""
        raw_path, _, query = target.partition(b"?")
        path = raw_path.decode("ascii", "replace")
        scope = self.blank_scope.copy()
        scope["http_version"] = version
        scope["method"] = method.decode("ascii")
        scope["path"] = unquote(path) if "%" in path else path
        scope["raw_path"] = raw_path
        scope["query_string"] = query
        scope["headers"] = headers
        exchange = Exchange(
            self,
            scope,
            length=self.body_length,
            # In HTTP/1.0 it must be ignored (RFC 9110, section 10.1.1).
            expects=self.expect_100_continue and is_current,
            keep_alive=is_current and parser.should_keep_alive(),
        )
        self.reading = exchange
        if parser.should_upgrade():
            if method == b"CONNECT":
                self._reject(refusals.BAD_TARGET)
            if self.body_follows:
                self.reading, self.upgraded = None, exchange
        if self.running is None:
            self._start(exchange)
        else:
            self.flow.pause_reading()
            self.queue.append(exchange)

    def on_chunk_header(self) -> None:
        self.framing_bytes -= CHUNK_FRAMING

    def on_body(self, body: bytes) -> None:
        if self.reading is not None and not self.draining and self.reading.feed(body):
            self.flow.pause_reading()

    def on_message_complete(self) -> None:
        exchange = self.reading
        if exchange is not None:
            self.reading = None
            exchange.end_body()
        if self.draining:
            self.transport.close()

    def _ignore_upgrade(self, rest: bytes | memoryview) -> None:
        """Parse what follows a head that asks for another protocol as if it did not (RFC 9110, section 7.8)."""
        while True:
            exchange, self.upgraded = self.upgraded, None
            if exchange is not None:
                self.reading = exchange
                self.parser = parser_of_body(self, exchange.length)
            try:
                self.parser.feed_data(rest)
                return
            except httptools.HttpParserUpgrade as upgrade:
                rest = rest[upgrade.args[0] :]

    # Streamed bodies.

    def begin_streaming(self, exchange: Exchange, sink: Sink) -> None:
        """Read the rest of the body of `exchange` into memory of `sink`."""
        self.ignores_input = True
        self.stream = StreamProtocol(self, exchange, sink)
        self.transport.set_protocol(self.stream)
        self.flow.resume_reading()

    def end_streaming(self) -> None:
        """Stop reading the body, unless it is complete."""
        if self.stream is not None:
            self.flow.pause_reading()
            self._leave_streaming()

    def body_streamed(self, exchange: Exchange) -> None:
        """The body is complete. What follows is parsed by a new parser: the old one still expects the body."""
        self._leave_streaming()
        self.parser = new_parser(self)
        self.ignores_input = not exchange.keep_alive
        self.on_message_complete()

    def _leave_streaming(self) -> None:
        if self.stream is not None:
            self.unparsed = self.stream.body.missing
            self.stream = None
            if not self.transport.is_closing():
                self.transport.set_protocol(self)

    # Requests.

    def exchange_done(self, exchange: Exchange) -> None:
        """The response of the running exchange is written: go on with the next request, or end the connection."""
        self.running = None
        self.age = 0
        if self.transport.is_closing():
            return
        if not exchange.keep_alive:
            self._end(unread=exchange.more_body)
        elif self.queue:
            following = self.queue.popleft()
            self._start(following)
            if self.backlog and not self.queue:
                backlog, self.backlog = self.backlog, b""
                self._feed_pieces(backlog)
            # Reading was paused when its head had been parsed, so its body may not have been read.
            if not self.queue and self.refusal is None and following.size <= HIGH_WATER:
                self.flow.resume_reading()
        elif self.refusal is not None:
            self._answer(self.refusal)
        else:
            self.flow.resume_reading()

    def refuse_body(self, exchange: Exchange, refusal: Refusal) -> None:
        """End a request whose body is incomplete."""
        if self.reading is exchange and self.running is exchange and not self.transport.is_closing():
            self._refuse(refusal)

    def fail(self, exchange: Exchange, refusal: Refusal) -> None:
        """The application failed: send `refusal` if no response has begun, else close the connection."""
        if self.transport.is_closing():
            return
        if exchange.response_started and exchange.head is None:
            self.transport.close()
        else:
            self._answer(refusal, exchange)

    def shutdown(self) -> None:
        """The server is stopping: finish what runs, then close."""
        if self.running is not None:
            self.running.close_after()
        elif not self.draining:
            self.transport.close()

    def tick(self) -> None:
        """Called every `TICK_SECONDS`: end what has taken too long."""
        self.age += TICK_SECONDS
        running = self.running
        if self.draining:
            if self.age > DRAIN_SECONDS_MAX:
                self.transport.abort()
        elif self.flow.write_paused or self.transport.is_closing():
            # A client that reads slowly may take as long as it makes any progress.
            if self.write_pauses != self.write_pauses_seen:
                self.write_pauses_seen = self.write_pauses
                self.age = 0
            elif self.age > self.limits.body_timeout_sec:
                self.transport.abort()
        elif running is not None:
            self.age = 0
            if running.awaits_body:
                self._tick_body(running)
        elif self.in_head:
            if self.age > self.limits.head_timeout_sec:
                self._answer(refusals.SLOW_HEAD)
        elif self.age > self.limits.idle_timeout_sec:
            self.transport.close()

    # Internals.

    def _tick_body(self, exchange: Exchange) -> None:
        if self.stream is not None and exchange.silent:
            self.stream.rest()
        if exchange.falls_behind(TICK_SECONDS, self.limits.body_timeout_sec):
            self._refuse(refusals.SLOW_BODY)

    def _start(self, exchange: Exchange) -> None:
        self.running = exchange
        exchange.start()

    def _framing_header(self, name: bytes, value: bytes) -> bytes:
        if not self.in_head:
            return value
        if name == b"host":
            self.hosts += 1
        elif name == b"content-length":
            value = value.strip()
            self.body_follows = value != b"0"
            # The parser refuses a value that is not a number, and Content-Length together with Transfer-Encoding.
            self.body_length = int(value) if value.isdigit() else None
        elif name == b"transfer-encoding":
            self.body_follows = True
            if value.strip().lower() != b"chunked" or self.parser.get_http_version() != "1.1":
                self._reject(refusals.BAD_CODING)
        elif value.lower() == b"100-continue":
            self.expect_100_continue = True
        return value

    def _reject(self, refusal: Refusal) -> None:
        """Leave the parser from inside a callback."""
        self.refusal = refusal
        raise ValueError(refusal.code)

    def _refuse(self, refusal: Refusal) -> None:
        """Stop parsing, and answer `refusal` when all earlier requests are answered."""
        self.ignores_input = True
        reading, self.reading = self.reading, None
        running = self.running
        if running is None:
            self._answer(refusal)
        elif reading is running:
            running.disconnect()
            if running.response_started and running.head is None:
                self.transport.close()
            else:
                self._answer(refusal, running)
        else:
            if reading is not None and self.queue and self.queue[-1] is reading:
                self.queue.pop()
            self.refusal = refusal
            self.flow.pause_reading()

    def _answer(self, refusal: Refusal, exchange: Exchange | None = None) -> None:
        method = exchange.scope["method"] if exchange is not None else ""
        self.ignores_input = self.ignores_input or exchange is None
        request_id = new_request_id()
        note_refusal(refusal, exchange)
        fields = {
            "method": method or None, "path": exchange.scope["raw_path"] if exchange is not None else None,
            "client": address(self.client), "request_id": request_id, "cause": refusal.message,
        }  # fmt: skip
        report(log, refusal.status, refusal.code, lambda: fields)
        self.transport.write(refusal.response(request_id, bodiless=method == "HEAD"))
        self.running = None
        self.queue.clear()
        self.backlog = b""
        self._end(unread=exchange is None or exchange.more_body)

    def _end(self, *, unread: bool) -> None:
        """Close the connection when the client has had time to read what was written."""
        if not unread or self.transport.is_closing():
            self.transport.close()
            return
        self.draining = True
        self.age = 0
        self._leave_streaming()
        self.flow.resume_reading()
        # The client may have reset the connection already.
        with contextlib.suppress(OSError):
            self.transport.write_eof()

    def _drain(self, data: bytes) -> None:
        self.drained_bytes += len(data)
        if self.drained_bytes > DRAIN_BYTES_MAX or 0 < self.unparsed <= self.drained_bytes:
            self.transport.close()
        elif not self.ignores_input:
            try:
                self.parser.feed_data(data)
            except (httptools.HttpParserError, httptools.HttpParserUpgrade):
                self.transport.close()


class ForwardedProtocol(LimitedProtocol):
    """The same if there are trusted proxies, whose headers say where a request comes from."""

    proxies: ClassVar[Proxies]

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self.peer = self.client
        self.peer_scheme = self.blank_scope["scheme"]
        self.is_proxy = self.peer is not None and self.proxies.trusts(self.peer[0])

    def on_headers_complete(self) -> None:
        if self.is_proxy and self.peer is not None:
            host, scheme = self.proxies.origin(self.peer[0], self.headers)
            # The port of a client is not known.
            self.client = self.peer if host == self.peer[0] else (host, 0)
            self.blank_scope["client"] = self.client
            self.blank_scope["scheme"] = scheme or self.peer_scheme
        super().on_headers_complete()


def _address(name: Any) -> tuple[str, int] | None:
    """Host and port of the name of a socket, which a connection that was reset at once does not have."""
    return (name[0], name[1]) if isinstance(name, tuple) else None


def limited_protocol(settings: Settings) -> type[LimitedProtocol]:
    """The protocol class for uvicorn's `http` option, with the limits and the proxies of `settings`."""
    if settings.trusted_proxies:
        own = {"limits": settings, "proxies": Proxies(settings.trusted_proxies)}
        return type("ForwardedProtocol", (ForwardedProtocol,), own)
    return type("LimitedProtocol", (LimitedProtocol,), {"limits": settings})
