"""The only way in which pages do anything: requests signed with the key of who has signed in, to this server itself.

They go through the whole application in this process, with the address of the browser, so they are decided, counted and
logged as if the browser had sent them. An answer that is an error raises `CallError`. Must not know pages.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import secrets
import xml.etree.ElementTree as ET
from collections.abc import AsyncIterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote, unquote

from orcas.http.signing import encode_query, presign, sign

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message

    from orcas.console.sessions import Session

# Bytes of an answer that is kept in memory.
ANSWER_MAX: Final = 16 * 1024 * 1024
# Pieces of an answer that wait for the reader.
_PIECES_MAX: Final = 4
# Bytes of the key of an object.
_KEY_MAX: Final = 1024
# Seconds for which a request of the browser is presigned: enough for one part on a slow line.
PRESIGN_SECONDS: Final = 3600
_ADMIN: Final = "/_orcas/admin/"
_CATALOG: Final = "/_orcas/iceberg/"
# What the catalog of tables calls refusals that all others call so.
_OF_CATALOG: Final = {"ForbiddenException": "AccessDenied", "NotAuthorizedException": "InvalidToken"}
_VERSIONS: Final = {"iam": "2010-05-08", "sts": "2011-06-15"}
# What answers without a document say.
_SAID: Final = {
    403: ("AccessDenied", "Access denied."),
    404: ("NotFound", "There is no such object or bucket."),
    412: ("PreconditionFailed", "It has changed meanwhile: reload the page."),
    503: ("ServiceUnavailable", "The server is not available now."),
}


# Parameters of a request; those that are None are left out.
Query = Mapping[str, str | None]


class CallError(Exception):
    """The server refused or failed. `code`: of S3, the admin API or IAM; `message`: what it said."""

    def __init__(self, status: int, code: str, message: str) -> None:
        super().__init__(message)
        self.status = status
        self.code = code
        self.message = message


@dataclass(frozen=True, slots=True)
class Visit:
    """One request of a browser: who has signed in, and whence.

    Args:
        session: of the person.
        server: the whole application of Orcas.
        region: of the store.
        client: address and port of the browser.
        scheme: `http` or `https`.
        host: the Host header.
        root: the path under which the server is mounted; empty if it is not.
        agent: the browser.
    """

    session: Session
    server: ASGIApp = field(repr=False)
    region: str
    client: tuple[str, int] | None
    scheme: str
    host: str
    root: str = ""
    agent: str = ""

    @property
    def endpoint(self) -> str:
        """The URL of the S3 API, as the browser reaches it."""
        return f"{self.scheme}://{self.host}{self.root}"


@dataclass(frozen=True, slots=True)
class Answer:
    """An answer that is no error. Names of headers are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: bytes = b""

    def xml(self) -> ET.Element:
        """The document, without namespaces."""
        return _xml(self.body)

    def json(self) -> Any:
        """The document."""
        return json.loads(self.body)


@dataclass(slots=True)
class Stream:
    """An answer that arrives in pieces."""

    status: int
    headers: Mapping[str, str]
    pieces: AsyncIterator[bytes]

    async def read(self, limit: int) -> bytes:
        """The rest of the body.

        Raises:
            CallError: it is longer than `limit`.
        """
        body = bytearray()
        async for piece in self.pieces:
            body += piece
            if len(body) > limit:
                raise CallError(502, "AnswerTooLong", f"The answer has more than {limit} bytes.")
        return bytes(body)


def object_path(bucket: str, key: str | None = None) -> str:
    """The raw path of a bucket, or of an object in it, path-style.

    Raises:
        CallError: nothing can have that name. With an empty key, the path would be that of the bucket, so a form that
            deletes an object would delete the bucket.
    """
    if not bucket:
        raise CallError(400, "InvalidRequest", "A bucket has a name: choose one from the list of buckets.")
    if key is None:
        return f"/{quote(bucket, safe='')}"
    if not 1 <= len(key.encode("utf-8", "surrogateescape")) <= _KEY_MAX:
        raise CallError(
            400,
            "InvalidRequest",
            f"The key of an object has 1 to {_KEY_MAX:,} bytes: choose an object from its bucket.",
        )
    return f"/{quote(bucket, safe='')}/{quote(key, safe='/~')}"


async def call(
    visit: Visit,
    method: str,
    path: str,
    query: Query | None = None,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
) -> Answer:
    """The answer to a signed S3 request. `path` is raw: `object_path` makes it.

    Raises:
        CallError: the answer is an error, or longer than `ANSWER_MAX`.
    """
    async with stream(visit, method, path, query, headers, body) as answer:
        return Answer(answer.status, answer.headers, await answer.read(ANSWER_MAX))


async def admin(
    visit: Visit,
    method: str,
    path: str,
    order: Mapping[str, Any] | None = None,
    query: Query | None = None,
) -> Any:
    """The JSON answer of the admin API; `path` comes after `/_orcas/admin/` and is raw.

    Raises:
        CallError: the answer is an error.
    """
    body = b"" if order is None else json.dumps(order).encode()
    headers = {"content-type": "application/json"} if body else {}
    if method != "GET":
        # What changes something is accepted once; the nonce tells two requests of one second apart.
        headers["x-amz-orcas-nonce"] = secrets.token_hex(16)
    return (await call(visit, method, _ADMIN + path, query, headers, body)).json()


async def catalog(
    visit: Visit, method: str, path: str, query: Query | None = None, order: Mapping[str, Any] | None = None
) -> Any:
    """The JSON answer of the catalog of tables; `path` comes after `/_orcas/iceberg/` and is raw.

    Raises:
        CallError: the answer is an error.
        RecursionError: it has the metadata of a table, as somebody has written it, and this is nested too deeply.
        ValueError: it is no JSON, likewise.
    """
    body = b"" if order is None else json.dumps(order).encode()
    return await asyncio.to_thread((await call(visit, method, _CATALOG + path, query, {}, body)).json)


async def iam(
    visit: Visit, action: str, parameters: Mapping[str, str] | None = None, service: str = "iam"
) -> ET.Element:
    """The result of an action of IAM or STS by AWS's query protocol: the element `<ACTION>Result`, or an empty one.

    Raises:
        CallError: the answer is an error.
    """
    form = {"Action": action, "Version": _VERSIONS[service], **(parameters or {})}
    headers = {
        "content-type": "application/x-www-form-urlencoded",
        "x-amz-orcas-nonce": secrets.token_hex(16),
    }
    async with stream(visit, "POST", "/", None, headers, encode_query(form).encode(), service) as answer:
        root = _xml(await answer.read(ANSWER_MAX))
    found = root.find(f"{action}Result")
    return ET.Element(f"{action}Result") if found is None else found


@contextlib.asynccontextmanager
async def stream(
    visit: Visit,
    method: str,
    path: str,
    query: Query | None = None,
    headers: Mapping[str, str] | None = None,
    body: bytes = b"",
    service: str = "s3",
) -> AsyncIterator[Stream]:
    """As `call`, with a body of any length; leaving the block ends the request.

    Raises:
        CallError: the answer is an error.
    """
    text = encode_query(_given(query))
    sent = [("host", visit.host), *(headers or {}).items()]
    if visit.agent:
        sent.append(("user-agent", visit.agent))
    payload = hashlib.sha256(body).hexdigest()
    # As Iceberg's clients do, and those of all services but S3.
    covered = quote(path, safe="/~") if path.startswith(_CATALOG) else path
    sent += sign(visit.session.keys, visit.region, service, (method, covered, text), sent, payload)
    if body or method in ("POST", "PUT"):
        sent.append(("content-length", str(len(body))))
    scope = {
        "type": "http", "asgi": {"version": "3.0", "spec_version": "2.3"}, "http_version": "1.1", "method": method,
        "scheme": visit.scheme, "path": unquote(path), "raw_path": path.encode(), "query_string": text.encode(),
        "root_path": "", "headers": [(name.encode(), _bytes(value)) for name, value in sent], "client": visit.client,
        "server": None, "extensions": {},
    }  # fmt: skip
    exchange = _Exchange(body)
    task = asyncio.create_task(exchange.run(visit.server, scope))
    try:
        start = await exchange.start()
        given = {name.decode("latin-1").lower(): value.decode("utf-8", "replace") for name, value in start["headers"]}
        answer = Stream(start["status"], given, exchange.pieces())
        if answer.status >= 300 and answer.status != 304:
            raise _error(answer.status, await answer.read(ANSWER_MAX))
        yield answer
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def presigned(
    visit: Visit,
    method: str,
    path: str,
    query: Query | None = None,
    *,
    headers: Mapping[str, str] | None = None,
    seconds: int = PRESIGN_SECONDS,
    host: str | None = None,
) -> str:
    """The URL of a presigned S3 request, beginning with a slash; `headers` must be sent with it."""
    raw = quote(visit.root, safe="/~%") + path
    signed = [("host", host or visit.host), *(headers or {}).items()]
    return f"{raw}?{presign(visit.session.keys, visit.region, (method, raw, _given(query)), signed, seconds)}"


async def caller(visit: Visit) -> str:
    """The ARN of who has the keys of the session.

    Raises:
        CallError: the server does not know the keys, or the secret is another one.
    """
    try:
        found = (await iam(visit, "GetCallerIdentity", service="sts")).findtext("Arn")
    except CallError as error:
        if error.status == 403 or error.code == "Throttling":
            raise
        # A store that is open for salvage has no STS, and only the root identity.
        await call(visit, "GET", "/")
        found = None
    return found or f"arn:aws:iam:::{visit.session.keys.access_key}"


class _Exchange:
    """Receives and sends for one request in this process. What is sent waits until it is taken."""

    def __init__(self, body: bytes) -> None:
        self._body: bytes | None = body
        self._sent: asyncio.Queue[Message | BaseException] = asyncio.Queue(_PIECES_MAX)

    async def run(self, server: ASGIApp, scope: dict[str, Any]) -> None:
        """Send the request, and pass on what is answered."""
        try:
            await server(scope, self._receive, self._sent.put)
        except Exception as error:  # noqa: BLE001 - passed on to whom waits
            await self._sent.put(error)
        else:
            await self._sent.put(EOFError())

    async def start(self) -> Message:
        """The head of the answer."""
        message = await self._sent.get()
        if isinstance(message, BaseException):
            raise CallError(500, "InternalError", "The server did not answer: its log says why.") from message
        return message

    async def pieces(self) -> AsyncIterator[bytes]:
        """The body of the answer."""
        more = True
        while more:
            message = await self._sent.get()
            if isinstance(message, BaseException):
                raise CallError(500, "InternalError", "The answer was cut off: the server's log says why.") from message
            more = message.get("more_body", False)
            yield message.get("body", b"")

    async def _receive(self) -> Message:
        if self._body is None:
            # Nobody disconnects: leaving the block cancels the task.
            await asyncio.Event().wait()
        body, self._body = self._body or b"", None
        return {"type": "http.request", "body": body, "more_body": False}


def _given(query: Query | None) -> dict[str, str]:
    return {name: value for name, value in (query or {}).items() if value is not None}


def _error(status: int, body: bytes) -> CallError:
    code, message = _SAID.get(status, ("Error", f"The server answered with status {status}."))
    if body.startswith(b"{"):
        said = json.loads(body).get("error", {})
        kind = said.get("type")
        code, message = _OF_CATALOG.get(kind, kind) or said.get("code", code), said.get("message", message)
    elif body:
        with contextlib.suppress(ET.ParseError):
            root = _xml(body)
            of = root if root.tag == "Error" else root.find("Error")
            if of is not None:
                code, message = of.findtext("Code") or code, of.findtext("Message") or message
    return CallError(status, code, message)


def _xml(body: bytes) -> ET.Element:
    root = ET.fromstring(body)  # noqa: S314 - of this server itself; expat bounds the growth of entities
    for element in root.iter():
        element.tag = element.tag.rpartition("}")[2]
    return root


def _bytes(value: str) -> bytes:
    return value.encode("utf-8", "surrogateescape")
