"""`orcas.events`: follow the changes of a store with any boto3 client.

`listen` is an iterator for threads, `alisten` one for asyncio. Both connect again when a connection ends, and continue
after the last event that they have returned. Requests, answers and waiting times are decided in `_Subscription`, which
does no I/O; the two iterators move its bytes. Must not import boto3 or botocore before it is given a client.
"""

from __future__ import annotations

import asyncio
import inspect
import json
import socket
import ssl
import threading
import urllib.parse
from collections import deque
from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from types import TracebackType
from typing import Any, Final, Literal, Self

import httptools

from orcas._core import EventParser, parse_event_records
from orcas.errors import OrcasError
from orcas.process.backoff import backoff

_PATH: Final = "/_orcas/events"
_PIECE: Final = 65_536
_CONNECT_TIMEOUT_SEC: Final = 10.0
# Several times the silence that a server allows itself.
_IDLE_TIMEOUT_SEC: Final = 60.0
# The time before the first new attempt unless the server says another, and the most before any.
_RETRY_SEC: Final = 1.0
_RETRY_MAX_SEC: Final = 30.0
_RETRY_ASKED_MAX_SEC: Final = 300.0
# Bytes of an answer that refuses.
_REFUSAL_MAX: Final = 65_536
# Types in the stream. Others are of no concern here.
_EVENT: Final = "s3"
_GAP: Final = "gap"
_OK: Final = 200
_NO_CONTENT: Final = 204
_TOO_MANY: Final = 429
_SERVER_ERROR: Final = 500


class ListenError(OrcasError):
    """The server refused to send events. `code` is that of its answer."""

    def __init__(self, message: str, code: str) -> None:
        super().__init__(message)
        self.code = code


class EventsLostError(ListenError):
    """Events are gone: the server does not keep them any more. To continue with what is left, listen after `after`."""

    def __init__(self, message: str, after: str) -> None:
        super().__init__(message, "EventsLost")
        self.after = after


@dataclass(frozen=True, slots=True)
class Event:
    """A change of a bucket or an object. What it does not have is empty or None.

    Attributes:
        id: what to give as `after` in order to continue after this event.
        name: such as `ObjectCreated:Put`.
        time: when it happened, in UTC.
        bucket: the name of the bucket.
        key: the key of the object; None if the event is about the bucket.
        size: bytes of the object.
        etag: the entity tag, without quotes.
        version_id: the version, in buckets that have versions.
        sequencer: of two events of one key, the later one has the greater text.
        owner: the id of the account that owns the bucket.
        principal: the id of the identity whose request it was.
        request_id: that of the request.
        source_address: the address of the client that sent the request.
        region: the region of the store.
        configuration_id: the id of the notification by which it was sent.
    """

    id: str
    name: str
    time: datetime
    bucket: str
    key: str | None
    size: int | None
    etag: str
    version_id: str
    sequencer: str
    owner: str
    principal: str
    request_id: str
    source_address: str
    region: str
    configuration_id: str


def parse(message: str, *, id: str = "") -> list[Event]:  # noqa: A002 - as in the event
    """The events of a message in S3's structure, such as the body that a webhook receives.

    Raises:
        ValueError: it is no such message.
    """
    events = []
    for record in parse_event_records(message):
        fields: dict[str, Any] = dict(record)
        time = datetime.fromtimestamp(fields.pop("time_ms") / 1000, UTC)
        events.append(Event(id=id or record["sequencer"], time=time, **fields))
    return events


def listen(
    client: Any,
    *,
    buckets: Sequence[str] = (),
    events: Sequence[str] = (),
    prefix: str = "",
    suffix: str = "",
    after: str | None = None,
    start: datetime | Literal["now", "oldest"] = "now",
) -> Listener:
    """Iterate over events as they happen. It ends when it is closed, or when the server says that there are no more.

    Args:
        client: a boto3 S3 client with the root key; its endpoint, credentials and certificates are used, but no proxy.
        buckets: only events of these buckets.
        events: only these names or patterns, such as `s3:ObjectCreated:*`.
        prefix: only keys that begin with it.
        suffix: only keys that end with it.
        after: the `id` of an event; those after it come first.
        start: without `after`, where to begin: with new events, with the oldest that the server has, or at a time.

    Raises:
        ListenError: while iterating, the server refused. Failures that may pass are not raised: it connects again.
        EventsLostError: while iterating, events that were asked for are gone.
    """
    return Listener(_Subscription(client, _filters(buckets, events, prefix, suffix), after, start))


async def alisten(
    client: Any,
    *,
    buckets: Sequence[str] = (),
    events: Sequence[str] = (),
    prefix: str = "",
    suffix: str = "",
    after: str | None = None,
    start: datetime | Literal["now", "oldest"] = "now",
) -> AsyncIterator[Event]:
    """Iterate over events as `listen` does, for asyncio. Cancel the task or close the generator to end it."""
    subscription = _Subscription(client, _filters(buckets, events, prefix, suffix), after, start)
    while True:
        writer = None
        try:
            signed = await asyncio.to_thread(subscription.sign)
            if inspect.isawaitable(signed):
                await signed
            async with asyncio.timeout(_CONNECT_TIMEOUT_SEC):
                reader, writer = await asyncio.open_connection(
                    subscription.host, subscription.port, ssl=tls_of(subscription.client)
                )
            writer.write(subscription.request())
            while not subscription.ended:
                async with asyncio.timeout(_IDLE_TIMEOUT_SEC):
                    data = await reader.read(_PIECE)
                for event in subscription.receive(data):
                    yield event
                if subscription.error is not None:
                    raise subscription.error
        except ssl.SSLCertVerificationError:
            raise
        except (OSError, TimeoutError):
            subscription.lost()
        finally:
            if writer is not None:
                writer.close()
        if (delay := subscription.delay()) is None:
            return
        await asyncio.sleep(delay)


class Listener:
    """The iterator that `listen` returns. `close` may be called from any thread."""

    def __init__(self, subscription: _Subscription) -> None:
        self._subscription = subscription
        self._ready: deque[Event] = deque()
        self._socket: socket.socket | None = None
        self._closed = threading.Event()
        self._iterating = threading.Lock()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        with self._iterating:
            return self._next()

    def _next(self) -> Event:
        while not self._closed.is_set():
            if self._ready:
                return self._ready.popleft()
            if (error := self._subscription.error) is not None:
                self._end()
                raise error
            if self._subscription.ended:
                self._disconnect()
                if (delay := self._subscription.delay()) is None:
                    break
                self._closed.wait(delay)
                continue
            try:
                self._receive()
            except ssl.SSLCertVerificationError:
                self._end()
                raise
            except OSError:
                self._subscription.lost()
        self._end()
        raise StopIteration

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the iteration, also one that waits for an event in another thread."""
        self._closed.set()
        open_socket = self._socket
        if open_socket is not None:
            _shut_down(open_socket)
        # A thread that is about to connect closes the connection itself.
        if self._iterating.acquire(blocking=False):
            self._disconnect()
            self._iterating.release()

    def _receive(self) -> None:
        if self._socket is None:
            subscription = self._subscription
            subscription.sign()
            place = (subscription.host, subscription.port)
            self._socket = socket.create_connection(place, timeout=_CONNECT_TIMEOUT_SEC)
            if (tls := tls_of(subscription.client)) is not None:
                self._socket = tls.wrap_socket(self._socket, server_hostname=subscription.host)
            self._socket.settimeout(_IDLE_TIMEOUT_SEC)
            self._socket.sendall(subscription.request())
            if self._closed.is_set():
                return
        self._ready.extend(self._subscription.receive(self._socket.recv(_PIECE)))

    def _end(self) -> None:
        self._closed.set()
        self._disconnect()

    def _disconnect(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None


def _shut_down(open_socket: socket.socket) -> None:
    try:
        open_socket.shutdown(socket.SHUT_RDWR)
    except OSError:
        # It is closed, or was never connected.
        return


def tls_of(client: Any) -> ssl.SSLContext | None:
    """The TLS context of a boto3 client: the CAs that it trusts, and the certificate that it shows. None without TLS."""
    if urllib.parse.urlsplit(client.meta.endpoint_url).scheme != "https":
        return None
    from botocore.httpsession import get_cert_path

    session = client._endpoint.http_session
    verify = session._verify
    context = ssl.create_default_context(cafile=get_cert_path(verify) if verify else None)
    if not verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    if session._cert_file:
        context.load_cert_chain(session._cert_file, session._key_file)
    return context


def _filters(buckets: Sequence[str], events: Sequence[str], prefix: str, suffix: str) -> list[tuple[str, str]]:
    pairs = [("bucket", bucket) for bucket in buckets] + [("event", event) for event in events]
    return pairs + [(name, value) for name, value in (("prefix", prefix), ("suffix", suffix)) if value]


class _Subscription:
    """A subscription: its filter, the place where it continues, and the meaning of answers. One connection at a time."""

    def __init__(self, client: Any, filters: list[tuple[str, str]], after: str | None, start: datetime | str) -> None:
        url = urllib.parse.urlsplit(client.meta.endpoint_url)
        self.client = client
        self._filters = filters
        self._start = start
        self._url = f"{client.meta.endpoint_url.rstrip('/')}{_PATH}"
        self._is_tls = url.scheme == "https"
        self.host = url.hostname or ""
        self.port = url.port or (443 if self._is_tls else 80)
        self._after = after or ""
        self._retry_sec = _RETRY_SEC
        # Attempts since a stream began.
        self._failures = 0
        self._over = False
        self.error: ListenError | None = None
        self._request: Any = None
        self._reset()

    def _reset(self) -> None:
        self.ended = False
        self._parser = EventParser()
        self._response = httptools.HttpResponseParser(self)
        self._is_stream = False
        self._type = ""
        self._events: list[Event] = []
        self._refusal = b""

    def sign(self) -> Any:
        """Prepare the next request; to be awaited if the client is one for asyncio."""
        from botocore.awsrequest import AWSRequest

        headers = {"Accept": "text/event-stream", "Cache-Control": "no-cache"}
        pairs = list(self._filters)
        if self._after:
            headers["Last-Event-ID"] = self._after
        elif isinstance(self._start, datetime):
            time = self._start.astimezone(UTC).isoformat(timespec="milliseconds")
            pairs.append(("start", time.replace("+00:00", "Z")))
        else:
            pairs.append(("start", self._start))
        query = urllib.parse.urlencode(pairs, quote_via=urllib.parse.quote, safe="")
        self._request = AWSRequest(method="GET", url=f"{self._url}{'?' if query else ''}{query}", headers=headers)
        # The client's own signer: its credentials and region.
        return self.client._request_signer.sign("ListBuckets", self._request)

    def request(self) -> bytes:
        """The head of the signed request."""
        prepared = self._request.prepare()
        url = urllib.parse.urlsplit(prepared.url)
        host = url.netloc.rpartition("@")[2]
        default = {"http": ":80", "https": ":443"}[url.scheme]
        lines = [f"GET {url.path}{'?' if url.query else ''}{url.query} HTTP/1.1", f"Host: {host.removesuffix(default)}"]
        for name, value in prepared.headers.items():
            lines.append(f"{name}: {value.decode() if isinstance(value, bytes) else value}")
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def receive(self, data: bytes) -> list[Event]:
        """Take bytes of the answer, none at its end, and return the events that they complete.

        `error` is to be raised after them: the server refuses for good.
        """
        if not data:
            self.lost()
            return []
        try:
            self._response.feed_data(data)
        except httptools.HttpParserCallbackError as error:
            cause = error.__context__
            self.error = cause if isinstance(cause, ListenError) else None
            self.lost()
        except httptools.HttpParserError:
            self.lost()
        events, self._events = self._events, []
        return events

    def lost(self) -> None:
        """The connection is of no more use."""
        self.ended = True

    def delay(self) -> float | None:
        """Forget the connection. Seconds until the next attempt; None if the server has no more to say."""
        if self._over:
            return None
        self._reset()
        self._failures += 1
        longest = max(_RETRY_MAX_SEC, self._retry_sec)
        return backoff(self._failures, self._retry_sec, longest)

    # What httptools calls.

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called by httptools for each header."""
        if name.lower() == b"content-type":
            self._type = value.partition(b";")[0].strip().decode("latin-1")

    def on_headers_complete(self) -> None:
        """Called by httptools after the head."""
        status = self._response.get_status_code()
        self._is_stream = status == _OK and self._type == "text/event-stream"
        if status == _OK and not self._is_stream:
            raise ListenError(f"{self._url} is not a stream of events: is this server Orcas?", "NoStream")

    def on_body(self, body: bytes) -> None:
        """Called by httptools for each piece of the body."""
        if not self._is_stream:
            self._refusal = (self._refusal + body)[:_REFUSAL_MAX]
            return
        self._failures = 0
        try:
            messages = self._parser.push(body)
        except ValueError as error:
            raise ListenError(
                f"The server sent something other than a stream of events: {error}.", "NoStream"
            ) from None
        if (retry_ms := self._parser.retry_ms) is not None:
            self._retry_sec = min(retry_ms / 1000, _RETRY_ASKED_MAX_SEC)
        for id, kind, data in messages:  # noqa: A001 - as in the event
            self._take(id, kind, data)
        self._after = self._parser.last_id or self._after

    def _take(self, id: str, kind: str, data: str) -> None:  # noqa: A002 - as in the event
        if kind == _GAP:
            raise EventsLostError("Events are gone: the server does not keep them any more.", id)
        if kind == _EVENT:
            try:
                self._events += parse(data, id=id)
            except ValueError as error:
                raise ListenError(f"The server sent an event that cannot be read: {error}.", "NoStream") from None

    def on_message_complete(self) -> None:
        """Called by httptools at the end of the answer."""
        self.ended = True
        status = self._response.get_status_code()
        if status == _NO_CONTENT:
            self._over = True
        elif status != _OK and status != _TOO_MANY and status < _SERVER_ERROR:
            code, message = _refused(status, self._refusal)
            raise ListenError(f"The server refused: {message}", code)


def _refused(status: int, body: bytes) -> tuple[str, str]:
    """The code and the message of an error document."""
    try:
        error = json.loads(body)["error"]
        return str(error["code"]), str(error["message"])
    except (ValueError, KeyError, TypeError):
        return str(status), f"HTTP status {status}"
