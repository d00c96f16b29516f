"""The S3 side of the application: one ASGI exchange becomes a verified request, its response, and its end.

No byte of a body is received before the head is verified. The verified request says how its body is received, so operations
need no code here. If stored bytes turn out to be damaged during a response, the connection is closed, so that the client
does not take the response for complete.
Must not know S3 operations, headers or documents.
"""

from __future__ import annotations

import asyncio
import copy
import functools
import logging
from collections import deque
from typing import TYPE_CHECKING, Final, Protocol

from orcas.engine import Form, Postponed, Request, Response
from orcas.errors import UnavailableError
from orcas.http.extensions import REFUSED, RESPONSE
from orcas.http.pages import is_browser, welcome
from orcas.http.refusals import FAILED
from orcas.iam.others import CODE, document, other_service, sentence
from orcas.s3.store import ClientDisconnectedError, DamagedObjectError, Store, disconnected
from orcas.settings.config import KIB, MIB
from orcas.telemetry.reports import address, bounded, report, reporting

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Collection

    from starlette.types import Message, Receive, Scope, Send

    from orcas.engine import Core, Description, Download, ErrorNote, Stages

    # Writes into the audit log who is about to change who may do what: operation, what it is about, ARN, access key and
    # address. Returns what says that this has failed. UnavailableError if it cannot be written.
    Audit = Callable[[str, dict[str, str], str, str | None, str | None], Awaitable[Callable[[], Awaitable[None]]]]

    # Headers and body.
    Page = tuple[list[tuple[bytes, bytes]], bytes]

# Bytes of large bodies that are written to sockets in one turn of the event loop: half a millisecond of copying.
_TURN_BYTES: Final = MIB
_FORBIDDEN: Final = 403
# The client of requests of the server itself.
_ITSELF: Final = ("127.0.0.1", 0)
# Bytes of the body of a request of the server itself that are passed on at once.
_PIECE_BYTES: Final = 256 * KIB

_NOT_AUDITED: Final = (
    "ServiceUnavailable",
    "The change cannot be written to the audit log, because its disk is full or fails. Nothing has been changed.",
)

log = logging.getLogger("orcas.s3")


class Origins(Protocol):
    """The origins of buckets, which have objects that are not here."""

    @property
    def buckets(self) -> Collection[str]:
        """The buckets that have an origin."""

    async def pull(self, bucket: str, key: str) -> tuple[str, str] | bool:
        """Fetch an object. True: it may be here now; False: there is none; otherwise code and message of an answer."""


class Dispatcher:
    """The application of S3 requests, for connections that have `orcas.http.extensions`.

    Made on the event loop that it serves.
    """

    def __init__(
        self,
        core: Core,
        store: Store,
        *,
        audit: Audit | None = None,
        listen: Callable[[Scope, Receive, Send, str | None], Awaitable[None]] | None = None,
        console: bool = False,
        origins: Origins | None = None,
    ) -> None:
        """Answer requests with `store`, which is closed with this.

        Args:
            core: the engine.
            store: the same engine as coroutines.
            audit: writes the audit log.
            listen: answers MinIO's ListenBucketNotification.
            console: whether there is a web console, to which the page for browsers leads.
            origins: fetches objects that are not here.
        """
        self._core = core
        self._mount_length = 0
        self._describe: Callable[..., Description] = core.describe
        self._store = store
        self._listen = listen
        self._audit = audit
        self._console = console
        self._origins = origins
        self._turns = _Turns(asyncio.get_running_loop(), _TURN_BYTES)

    def below(self, mount_length: int) -> Dispatcher:
        """This application for requests whose paths begin with `mount_length` bytes that are signed but not part of the
        key."""
        mounted = copy.copy(self)
        mounted._mount_length = mount_length
        mounted._describe = functools.partial(self._core.describe, mount_length=mount_length)
        return mounted

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one HTTP request."""
        query = scope["query_string"]
        # Not `in`, which raises and catches an exception first.
        if query and query.find(b"events=") >= 0 and await self._listens(scope, receive, send):
            return
        admission = self._core.accept(scope, self._mount_length)
        response: Response | None = None
        sent = False
        try:
            try:
                if isinstance(admission, Postponed):
                    admission = await self._store.accepted(admission)
                if isinstance(admission, Request):
                    response = await self._execute(admission, scope, receive)
                    if response.lacks_object and self._origins is not None:
                        admission, response = await self._pulled(self._origins, admission, response, scope)
                        response = response or await self._answered(admission, receive)
                elif isinstance(admission, Form):
                    execute = functools.partial(self._execute, scope=scope)
                    response = await self._store.submit_form(admission, receive, execute)
                else:
                    response = admission
            except ClientDisconnectedError:
                return
            except Exception as error:  # noqa: BLE001 - reported
                response = self._failure(scope, error, _trace_id(admission))
            else:
                if response.error is not None:
                    # Looked for here, so that requests without an error do not pay for it.
                    response, page = self._instead(scope, response, is_refusal=response is admission)
                    assert response.error is not None
                    self._report(scope, response.status, response.error, trace_id=_trace_id(admission))
                    if page is not None:
                        await send({"type": "http.response.start", "status": response.status, "headers": page[0]})
                        await send({"type": "http.response.body", "body": page[1]})
                        sent = True
                        return
            await send({"type": RESPONSE, "response": response})
            if response.download is not None:
                await self._send_pieces(response.download, scope, receive, send)
            sent = True
        except DamagedObjectError:
            # If nothing was sent yet, the server answers.
            scope.setdefault(REFUSED, (FAILED.status, FAILED.code))
            raise
        finally:
            # What a download has sent is known; another response was sent whole or not at all.
            took = response if sent or response is None or response.download is not None else None
            stages = self._core.finish(admission, took, scope, self._mount_length, scope.get(REFUSED))
            if stages is not None:
                self._report_slow(scope, stages)

    def _instead(self, scope: Scope, response: Response, *, is_refusal: bool) -> tuple[Response, Page | None]:
        """What an error is for whom S3's document is not: a client of another service, or a person with a browser.

        `is_refusal`: the request was not admitted.
        """
        if is_refusal and (other := other_service(scope)) is not None:
            refusal = self._core.refusal(scope["method"], scope["raw_path"], CODE, sentence(other))
            return refusal, document(scope, other)
        if response.status == _FORBIDDEN and scope["raw_path"] == b"/" and _is_visit(scope):
            return response, welcome(response.headers, console=self._console)
        return response, None

    async def _pulled(
        self, origins: Origins, request: Request, missing: Response, scope: Scope
    ) -> tuple[Request | Response, Response | None]:
        """Fetch the object that a request lacks. What is to be answered, and the answer, unless it is what is here now."""
        absent = request.pulled if origins.buckets else None
        if absent is None or absent[0] not in origins.buckets:
            return request, missing
        pulled = await origins.pull(*absent)
        if pulled is False:
            return request, missing
        if pulled is not True:
            return request, self._core.refusal(scope["method"], scope["raw_path"], *pulled)
        # Authorized again, because policies may ask for the tags of what is here now.
        self._core.pass_on(request, scope)
        admission = self._core.accept(scope, self._mount_length)
        assert not isinstance(admission, Form)
        if isinstance(admission, Postponed):
            admission = await self._store.accepted(admission)
        return admission, None

    async def _answered(self, admission: Request | Response, receive: Receive) -> Response:
        return await self._store.execute(admission, receive) if isinstance(admission, Request) else admission

    async def _execute(self, request: Request, scope: Scope, receive: Receive) -> Response:
        """Execute. What changes who may do what is in the audit log first; if it cannot be written, this fails."""
        audited = request.audited
        if audited is None or self._audit is None:
            return await self._store.execute(request, receive)
        client = scope.get("client")
        try:
            address = client[0] if client else None
            failed = await self._audit(request.operation, *audited, address)
        except UnavailableError:
            # The cause is in the log. A client that sends its body first would otherwise see a broken connection.
            while (message := await receive())["type"] == "http.request" and message["more_body"]:
                pass
            return self._core.refusal(scope["method"], scope["raw_path"], *_NOT_AUDITED)
        try:
            response = await self._store.execute(request, receive)
        except ClientDisconnectedError:
            await failed()
            raise
        if response.error is not None:
            await failed()
        return response

    async def perform(
        self, method: str, raw_path: bytes, headers: list[tuple[bytes, bytes]], body: bytes, query: bytes = b""
    ) -> Response:
        """The response to a signed request of the server itself, which is counted, but in no log of requests."""
        scope = {"method": method, "raw_path": raw_path, "query_string": query, "headers": headers, "client": _ITSELF}
        admission = self._core.accept(scope, self._mount_length)
        response: Response | None = None
        try:
            response = await self._perform(admission, scope, body)
        finally:
            self._core.finish(admission, response)
        return response

    async def _perform(self, admission: Request | Form | Response | Postponed, scope: Scope, body: bytes) -> Response:
        if not isinstance(admission, Request):
            if not isinstance(admission, Response):
                raise TypeError("the server sends no forms, and root has signed what it sends")
            return admission
        pieces = [body[at : at + _PIECE_BYTES] for at in range(0, len(body), _PIECE_BYTES)]

        async def receive() -> Message:
            piece = pieces.pop(0) if pieces else b""
            return {"type": "http.request", "body": piece, "more_body": bool(pieces)}

        return await self._execute(admission, scope, receive)

    async def _listens(self, scope: Scope, receive: Receive, send: Send) -> bool:
        """Answer the request if it is MinIO's ListenBucketNotification."""
        names = [pair.partition(b"=")[0] for pair in scope["query_string"].split(b"&")]
        if scope["method"] != "GET" or b"events" not in names or self._listen is None:
            return False
        asked = self._describe(scope)
        # A request for a page of a website is described by its bucket alone.
        if asked["key"] or (asked["operation"] is None and asked["access_key"] is None):
            return False
        await self._listen(scope, receive, reporting(log, scope, send), asked["bucket"])
        return True

    async def _send_pieces(self, download: Download, scope: Scope, receive: Receive, send: Send) -> None:
        """Send a large body; stop when the client disconnects."""
        gone = asyncio.ensure_future(disconnected(receive))
        try:
            left = download.length
            while left and not gone.done():
                piece = await self._store.next_piece(download)
                left -= len(piece)
                await self._turns.take(len(piece))
                await send({"type": "http.response.body", "body": piece, "more_body": left > 0})
                download.sent(len(piece))
        finally:
            gone.cancel()

    def _failure(self, scope: Scope, error: Exception, trace_id: str | None) -> Response:
        """The response to a request that failed. Its log line has the request id that the client sees."""
        response = self._core.failure(scope["method"], scope["raw_path"])
        if response.error is not None:
            self._report(scope, response.status, response.error, error, trace_id=trace_id)
        return response

    def _report(
        self, scope: Scope, status: int, note: ErrorNote, error: Exception | None = None, *, trace_id: str | None = None
    ) -> None:
        """Log an error response. The head is read again for the fields, so that other requests do not pay for them."""

        def fields() -> dict[str, object]:
            asked = self._describe(scope)
            return {
                "operation": asked["operation"], "method": None if asked["operation"] else scope["method"],
                "bucket": asked["bucket"], "key": asked["key"], "path": None if asked["bucket"] else scope["raw_path"],
                "client": address(scope.get("client")), "access_key": asked["access_key"],
                "request_id": note.request_id, "trace_id": trace_id, "cause": note.cause, "likely_cause": note.likely_cause,
            }  # fmt: skip

        report(log, status, note.code, fields, at_fault=note.at_fault or error is not None, error=error)
        self._core.note_cause(scope, note)
        if log.isEnabledFor(logging.DEBUG) and (diagnosis := self._core.diagnose(scope)) is not None:
            known = {
                "request_id": note.request_id, "likely_cause": diagnosis["cause"],
                "string_to_sign": diagnosis["string_to_sign"], "canonical_request": diagnosis["canonical_request"],
            }  # fmt: skip
            log.debug("Signature refused", extra={"orcas": {k: text for k, text in known.items() if text is not None}})

    def _report_slow(self, scope: Scope, stages: Stages) -> None:
        asked, trace = self._describe(scope), stages["trace"]
        known = {
            "operation": asked["operation"], "method": None if asked["operation"] else scope["method"],
            "bucket": asked["bucket"], "key": asked["key"], "client": address(scope.get("client")),
            "trace_id": None if trace is None else trace["trace_id"], "total_sec": stages["total"],
            "authenticate_sec": stages["authenticate"], "receive_sec": stages["receive"],
            "execute_sec": stages["execute"], "send_sec": stages["send"],
            **{f"{name}_sec": took for _, name, _, took in stages["steps"]},
        }  # fmt: skip
        fields = {name: bounded(value) for name, value in known.items() if value is not None}
        log.warning("Slow request", extra={"orcas": fields})

    def close(self) -> None:
        """Stop listening for completions."""
        self._store.close()


def _trace_id(admission: Request | Form | Response | Postponed) -> str | None:
    return None if isinstance(admission, Form | Postponed) else admission.trace_id


def _is_visit(scope: Scope) -> bool:
    """Whether somebody just opened the address in a browser."""
    return scope["method"] == "GET" and not scope["query_string"] and is_browser(scope["headers"])


class _Turns:
    """Limits the bytes of large bodies in each turn of the event loop, so that they do not delay other requests.

    As long as its socket has room, a body could be sent without ever returning to the event loop. When the bytes of a turn
    are used up, bodies wait for the next turn, in order. In between, the loop handles new connections and requests.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, turn_bytes: int) -> None:
        self._loop = loop
        self._turn_bytes = turn_bytes
        self._left = turn_bytes
        self._waiting: deque[tuple[asyncio.Future[None], int]] = deque()

    async def take(self, count: int) -> None:
        """Wait until `count` bytes may be sent; the last piece of a turn may exceed it."""
        if self._left == self._turn_bytes:
            self._loop.call_soon(self._begin_turn)
        if self._left > 0:
            self._left -= count
        else:
            future = self._loop.create_future()
            self._waiting.append((future, count))
            await future

    def _begin_turn(self) -> None:
        self._left = self._turn_bytes
        while self._waiting and self._left > 0:
            future, count = self._waiting.popleft()
            # A cancelled one takes no bytes.
            if not future.done():
                self._left -= count
                future.set_result(None)
        if self._left < self._turn_bytes:
            self._loop.call_soon(self._begin_turn)
