"""Streams of events over HTTP: `GET /_orcas/events`, and the request by which MinIO's clients listen.

For the root identity, for whoever has the token, and, for one bucket as MinIO's clients do, for whoever is allowed. A
stream ends when its client is gone or no longer allowed, when the client reads too slowly for the connection's limits, and
when the server stops. However many streams there are, one turn of the event loop sends
only a few pieces. Must not know what an event is.
"""

from __future__ import annotations

import asyncio
import hmac
import logging
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qsl
from xml.sax.saxutils import escape

from orcas.admin.guard import RootOnly, refuse
from orcas.engine import Refusal, StoreError
from orcas.http.extensions import ENDLESS, RESPONSE
from orcas.telemetry.reports import note_cause

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from starlette.types import Message, Receive, Scope, Send

    from orcas.engine import Core, EventListener, ListeningPermit

PATH: Final = "/_orcas/events"
_BEARER: Final = b"Bearer "
# A heartbeat is sent after this time without events, so that neither side keeps a dead connection for long.
HEARTBEAT_SECONDS: Final = 15
# Before another look at a journal that cannot be read to its end at present.
_PAUSE_SECONDS: Final = 0.2
# Pieces that all streams together send in one turn of the event loop: less than a millisecond of work.
_PIECES_AT_ONCE: Final = 16
# Threads that read the journal for streams that are behind. Others wait, and the event loop has a processor left.
_READERS: Final = 2
# Most seconds between two messages without an event that a client of MinIO may ask for.
_PING_SECONDS_MAX: Final = 3600
_PARAMETERS: Final = frozenset({"event", "bucket", "prefix", "suffix", "start"})
_STREAM: Final = [
    (b"content-type", b"text/event-stream"),
    (b"cache-control", b"no-store"),
    (b"x-accel-buffering", b"no"),
]
_CORS: Final = [
    (b"access-control-allow-origin", b"*"),
    (b"access-control-allow-methods", b"GET"),
    (b"access-control-allow-headers", b"authorization, last-event-id"),
    (b"access-control-max-age", b"3600"),
]
_NO_RECORDS: Final = b'{"Records":null}\n'

log = logging.getLogger("orcas.events")


class _Turns:
    """Lets a few streams go on in each turn of the event loop, in the order in which they ask."""

    def __init__(self) -> None:
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def next(self) -> None:
        """Wait for a turn."""
        loop = asyncio.get_running_loop()
        if not self._waiting:
            loop.call_soon(self._begin, loop)
        turn = loop.create_future()
        self._waiting.append(turn)
        await turn

    def _begin(self, loop: asyncio.AbstractEventLoop) -> None:
        for _ in range(min(_PIECES_AT_ONCE, len(self._waiting))):
            turn = self._waiting.popleft()
            # It is done if its task was cancelled.
            if not turn.done():
                turn.set_result(None)
        if self._waiting:
            loop.call_soon(self._begin, loop)


@dataclass(frozen=True)
class _Stream:
    """A listener and what its client expects beside events."""

    listener: EventListener
    # Sent at once, so that clients know that the stream has begun. If it is empty, only the head is.
    first: bytes = b":\n\n"
    # Sent when there was no event for so long; None: what the listener says.
    heartbeat: bytes | None = None
    seconds: int | None = None
    # Of whoever is not root.
    permit: ListeningPermit | None = None

    def may_go_on(self) -> bool:
        """Whether its client may still listen."""
        return self.permit is None or self.permit.holds()


class EventStreams:
    """All streams of events of a server."""

    def __init__(self, core: Core, wait: Callable[[EventListener], Awaitable[None]], token: str | None) -> None:
        self._core = core
        self._wait = wait
        self._token = None if token is None else _BEARER + token.encode()
        self._guarded = RootOnly(self._serve, lambda: core)
        self._turns = _Turns()
        self._readers = ThreadPoolExecutor(_READERS, thread_name_prefix="orcas-events")

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for `PATH`."""
        if self._token is None:
            await self._answer(scope, receive, send)
        elif scope["method"] == "OPTIONS":
            # A page of another origin asks whether it may send the token. It gets nothing without it.
            await send({"type": "http.response.start", "status": 204, "headers": _CORS})
            await send({"type": "http.response.body", "body": b""})
        else:
            # Without the header, a page could not see why it is refused.
            await self._answer(scope, receive, _for_pages(send))

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        sent = [value for name, value in scope["headers"] if name == b"authorization"]
        if scope["method"] != "GET":
            await refuse(scope, send, 405, "MethodNotAllowed", "Events are read with GET.")
        elif self._token is None or not (len(sent) == 1 and sent[0].startswith(_BEARER)):
            await self._guarded(scope, receive, send)
        elif hmac.compare_digest(sent[0], self._token):
            await self._serve(scope, receive, send)
        else:
            await refuse(scope, send, 403, "AccessDenied", "The bearer token is not that of ORCAS_EVENTS_TOKEN.")

    def close(self) -> None:
        """End all streams: the server is stopping. Connections whose clients do not read have to be ended in addition."""
        self._core.end_listeners()

    async def _serve(self, scope: Scope, receive: Receive, send: Send) -> None:
        asked = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True, encoding="utf-8")
        unknown = next((name for name, _ in asked if name not in _PARAMETERS and not name.startswith("X-Amz-")), None)
        if unknown is not None:
            await refuse(scope, send, 400, "InvalidArgument", f"There is no parameter {unknown!r}.")
            return
        several: dict[str, list[str]] = {name: [] for name in _PARAMETERS}
        for name, value in asked:
            if name in several:
                several[name].append(value)
        if any(len(several[name]) > 1 for name in ("prefix", "suffix", "start")):
            await refuse(scope, send, 400, "InvalidArgument", "prefix, suffix and start can be given only once.")
            return
        last = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"last-event-id"), None)
        single = {name: several[name][0] if several[name] else "" for name in ("prefix", "suffix")}
        try:
            listener = self._core.listen(
                several["event"],
                several["bucket"],
                single["prefix"].encode(),
                single["suffix"].encode(),
                last,
                several["start"][0] if several["start"] else None,
                lines=False,
            )
        except Refusal as refusal:
            await refuse(scope, send, *refusal.args)
            return
        await self._pump(_Stream(listener), scope, receive, send)

    async def listen(self, scope: Scope, receive: Receive, send: Send, bucket: str | None) -> None:
        """Answer MinIO's ListenBucketNotification, for one bucket or for all."""
        try:
            stream = self._stream_of_lines(scope, bucket)
        except Refusal as refusal:
            await _refuse_xml(scope, send, *refusal.args)
            return
        await self._pump(stream, scope, receive, send)

    def _stream_of_lines(self, scope: Scope, bucket: str | None) -> _Stream:
        permit = self._core.authorize_listener(scope, bucket)
        asked = parse_qsl(scope["query_string"].decode("latin-1"), keep_blank_values=True, encoding="utf-8")
        named: dict[str, list[str]] = {}
        for name, value in asked:
            named.setdefault(name, []).append(value)
        ping = named.get("ping", [""])[0]
        seconds = int(ping) if ping.isascii() and ping.isdigit() and len(ping) < 10 else 0
        if ping and not 0 < seconds <= _PING_SECONDS_MAX:
            known = f"ping is a number of seconds from 1 to {_PING_SECONDS_MAX}."
            raise Refusal(400, "InvalidArgument", known)
        listener = self._core.listen(
            # MinIO's clients may put several into one.
            [name for value in named.get("events", ()) for name in value.split(",") if name],
            [] if bucket is None else [bucket],
            named.get("prefix", [""])[0].encode(),
            named.get("suffix", [""])[0].encode(),
            None,
            None,
            lines=True,
        )
        # Clients parse each line as a message, and skip one without records. Older ones do not ask for it: they get spaces.
        heartbeat = _NO_RECORDS if ping else None
        return _Stream(listener, b"", heartbeat, seconds or None, permit)

    async def _pump(self, stream: _Stream, scope: Scope, receive: Receive, send: Send) -> None:
        loop, listener = asyncio.get_running_loop(), stream.listener
        gone = asyncio.ensure_future(_disconnected(receive))
        gone.add_done_callback(lambda _: listener.wake())
        try:
            await send({"type": "http.response.start", "status": 200, "headers": _STREAM, ENDLESS: True})
            await _piece(scope, send, stream.first)
            is_due = False
            while not gone.done():
                await self._turns.next()
                piece = listener.take()
                if piece is None:
                    piece = await loop.run_in_executor(self._readers, listener.read)
                    if piece is None:
                        break
                    if not piece and (piece := listener.take()) is None:
                        await asyncio.sleep(_PAUSE_SECONDS)
                        continue
                if (piece or is_due) and not stream.may_go_on():
                    break
                if piece:
                    await _piece(scope, send, piece)
                    is_due = False
                elif is_due:
                    await _piece(scope, send, stream.heartbeat or listener.heartbeat())
                    is_due = False
                # Nothing wakes a stream whose client went before it waits.
                elif not gone.done():
                    beat = loop.call_later(stream.seconds or HEARTBEAT_SECONDS, listener.wake)
                    try:
                        await self._wait(listener)
                    finally:
                        beat.cancel()
                    is_due = True
            if not gone.done():
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        except StoreError as error:
            # The client connects again and goes on, or is told what is gone.
            note_cause(scope, "StoreError", f"{error}.")
            log.warning("A stream of events ended: %s", error)
            raise
        finally:
            gone.cancel()


async def _piece(scope: Scope, send: Send, piece: bytes | memoryview) -> None:
    # Only Orcas's own connections take a view of bytes that listeners share.
    body = piece if RESPONSE in (scope.get("extensions") or ()) else bytes(piece)
    await send({"type": "http.response.body", "body": body, "more_body": True})


def _for_pages(send: Send) -> Send:
    """A `send` that lets pages of all origins read the answer."""

    async def allowed(message: Message) -> None:
        if message["type"] == "http.response.start":
            message = {**message, "headers": [*message["headers"], _CORS[0]]}
        await send(message)

    return allowed


async def _disconnected(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def _refuse_xml(scope: Scope, send: Send, status: int, code: str, message: str) -> None:
    """Answer with an error document of S3."""
    note_cause(scope, code, message)
    resource = escape(scope["raw_path"].decode("latin-1"))
    body = (
        '<?xml version="1.0" encoding="UTF-8"?>\n'
        f"<Error><Code>{code}</Code><Message>{escape(message)}</Message><Resource>{resource}</Resource></Error>"
    ).encode()
    headers: list[Any] = [(b"content-type", b"application/xml"), (b"content-length", b"%d" % len(body))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})
