"""A small S3 client over plain sockets, for tests that need to see, and to get wrong, what other clients hide.

It signs as AWS documents Signature Version 4 ("Authenticating Requests: Using the Authorization Header", and "Signature
calculations ... for a chunked upload"), follows no redirects, and never retries.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import hashlib
import hmac
import re
import socket
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import orcas

UNSIGNED = "UNSIGNED-PAYLOAD"
STREAMING = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"
STREAMING_TRAILER = "STREAMING-AWS4-HMAC-SHA256-PAYLOAD-TRAILER"
STREAMING_UNSIGNED_TRAILER = "STREAMING-UNSIGNED-PAYLOAD-TRAILER"
EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()

Header = tuple[str, str]


def _hmac(key: bytes, text: str) -> bytes:
    return hmac.new(key, text.encode(), hashlib.sha256).digest()


def _target(path: str, query: Sequence[Header]) -> str:
    """Path and query as they stand in a request line: encoded as AWS encodes them."""
    uri = quote(path, safe="/-_.~")
    arguments = "&".join(f"{quote(k, safe='-_.~')}={quote(v, safe='-_.~')}" for k, v in query)
    return f"{uri}?{arguments}" if arguments else uri


@dataclass
class Signed:
    """A signed request head, and what its chunk signatures continue from."""

    method: str
    target: str
    headers: list[Header]
    signature: str
    key: bytes
    scope: str
    stamp: str

    def head(self, extra: Iterable[Header] = ()) -> bytes:
        """The head as bytes; `extra` headers are not signed."""
        lines = [f"{self.method} {self.target} HTTP/1.1"]
        lines += [f"{name}: {value}" for name, value in [*self.headers, *extra]]
        return "\r\n".join([*lines, "", ""]).encode("latin-1")

    def chunk_signature(self, previous: str, data: bytes) -> str:
        """The signature of one chunk of a streaming body."""
        digest = hashlib.sha256(data).hexdigest()
        lines = ["AWS4-HMAC-SHA256-PAYLOAD", self.stamp, self.scope, previous, EMPTY_SHA256, digest]
        return hmac.new(self.key, "\n".join(lines).encode(), hashlib.sha256).hexdigest()

    def trailer_signature(self, previous: str, trailers: bytes) -> str:
        """The signature of the trailers, given as `name:value` lines that end in LF."""
        lines = ["AWS4-HMAC-SHA256-TRAILER", self.stamp, self.scope, previous, hashlib.sha256(trailers).hexdigest()]
        return hmac.new(self.key, "\n".join(lines).encode(), hashlib.sha256).hexdigest()

    def chunks(self, pieces: Sequence[bytes]) -> list[bytes]:
        """`pieces` and the empty one that ends a body, framed and signed."""
        framed = []
        previous = self.signature
        for piece in [*pieces, b""]:
            previous = self.chunk_signature(previous, piece)
            framed.append(b"%x;chunk-signature=%s\r\n%s\r\n" % (len(piece), previous.encode(), piece))
        return framed


@dataclass(frozen=True)
class Signer:
    """Whose requests, for which server."""

    host: str
    port: int
    access_key: str
    secret_key: str = field(repr=False)
    region: str = "us-east-1"
    # Seconds by which its clock is ahead.
    skew: float = 0

    @classmethod
    def of(cls, server: orcas.Server, secret_key: str | None = None) -> Signer:
        """The root of a running server; with another `secret_key`, somebody who only knows its name."""
        host, _, port = server.endpoint.removeprefix("http://").rpartition(":")
        return cls(host, int(port), server.access_key, secret_key or server.secret_key, server.region)

    def sign(
        self,
        method: str,
        path: str,
        query: Sequence[Header] = (),
        headers: Iterable[Header] = (),
        payload: str | bytes = UNSIGNED,
    ) -> Signed:
        """Sign a request. `path` is decoded, e.g. `/bucket/a key`; `payload` a body to hash, or the hash to declare."""
        digest = hashlib.sha256(payload).hexdigest() if isinstance(payload, bytes) else payload
        stamp = self._stamp()
        own = [("host", f"{self.host}:{self.port}"), ("x-amz-content-sha256", digest), ("x-amz-date", stamp)]
        all_headers = [*own, *headers]
        signature, names, key = self._signature(method, path, query, all_headers, digest, stamp)
        scope = f"{stamp[:8]}/{self.region}/s3/aws4_request"
        authorization = (
            f"AWS4-HMAC-SHA256 Credential={self.access_key}/{scope},SignedHeaders={names},Signature={signature}"
        )
        target = _target(path, query)
        return Signed(method, target, [*all_headers, ("authorization", authorization)], signature, key, scope, stamp)

    def presign(self, method: str, path: str, query: Sequence[Header] = (), expires: str = "300") -> Signed:
        """A request that is signed in its query, as a presigned URL is. `expires` in seconds."""
        stamp = self._stamp()
        scope = f"{stamp[:8]}/{self.region}/s3/aws4_request"
        arguments = [
            *query,
            ("X-Amz-Algorithm", "AWS4-HMAC-SHA256"),
            ("X-Amz-Credential", f"{self.access_key}/{scope}"),
            ("X-Amz-Date", stamp),
            ("X-Amz-Expires", expires),
            ("X-Amz-SignedHeaders", "host"),
        ]
        headers = [("host", f"{self.host}:{self.port}")]
        signature, _, key = self._signature(method, path, arguments, headers, UNSIGNED, stamp)
        target = _target(path, [*arguments, ("X-Amz-Signature", signature)])
        return Signed(method, target, headers, signature, key, scope, stamp)

    def _stamp(self) -> str:
        now = dt.datetime.now(dt.UTC) + dt.timedelta(seconds=self.skew)
        return now.strftime("%Y%m%dT%H%M%SZ")

    def _signature(
        self, method: str, path: str, query: Sequence[Header], headers: list[Header], digest: str, stamp: str
    ) -> tuple[str, str, bytes]:
        """The signature, the names of the headers that it covers, and the key that made it."""
        # Framing is between two hops, so clients leave it unsigned.
        covered = sorted({name.lower() for name, _ in headers} - {"content-length", "transfer-encoding", "expect"})
        uri, _, arguments = _target(path, sorted(query)).partition("?")
        lines = [method, uri, arguments]
        for name in covered:
            values = [re.sub("[ \t]+", " ", value.strip()) for other, value in headers if other.lower() == name]
            lines.append(f"{name}:{','.join(values)}")
        names = ";".join(covered)
        canonical = "\n".join([*lines, "", names, digest]).encode("latin-1")
        scope = f"{stamp[:8]}/{self.region}/s3/aws4_request"
        text = "\n".join(["AWS4-HMAC-SHA256", stamp, scope, hashlib.sha256(canonical).hexdigest()])
        key = f"AWS4{self.secret_key}".encode()
        for part in scope.split("/"):
            key = _hmac(key, part)
        return hmac.new(key, text.encode(), hashlib.sha256).hexdigest(), names, key

    def request(
        self,
        method: str,
        path: str,
        query: Sequence[Header] = (),
        headers: Iterable[Header] = (),
        body: bytes = b"",
        payload: str | bytes | None = None,
    ) -> bytes:
        """A whole request as bytes, with its Content-Length; the body is hashed unless `payload` says otherwise."""
        signed = self.sign(method, path, query, headers, body if payload is None else payload)
        return signed.head([("content-length", str(len(body)))] if body or method in ("PUT", "POST") else []) + body

    def put(self, path: str, declared: int, headers: Iterable[Header] = (), payload: str | bytes = UNSIGNED) -> bytes:
        """The head of a PUT that declares `declared` bytes to come."""
        return self.sign("PUT", path, headers=headers, payload=payload).head([("content-length", str(declared))])

    def connect(self, timeout: float = 10.0) -> Connection:
        """Open a connection to the server."""
        return Connection(socket.create_connection((self.host, self.port), timeout=timeout))

    def roundtrip(self, request: bytes, method: str = "GET") -> Response:
        """One request on a connection of its own."""
        with self.connect() as connection:
            connection.send(request)
            return connection.response(method)


@dataclass(frozen=True)
class Response:
    """One response. `headers` have lower-case names; a repeated one keeps its last value."""

    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def code(self) -> str:
        """The code of an S3 error document, or nothing."""
        found = re.search(rb"<Code>([^<]*)</Code>", self.body)
        return found[1].decode() if found else ""

    @property
    def closes(self) -> bool:
        """Whether the server said that it closes the connection."""
        return self.headers.get("connection", "").lower() == "close"


class EndOfConnectionError(Exception):
    """The server closed or reset before a whole response was there. `received` is what came."""

    def __init__(self, received: bytes) -> None:
        super().__init__(f"connection ended after {received[:200]!r}")
        self.received = received


class Connection:
    """One connection, one response after the other."""

    def __init__(self, sock: socket.socket) -> None:
        self.sock = sock
        self.buffer = b""

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *_: object) -> None:
        self.sock.close()

    def send(self, data: bytes) -> None:
        """Send all of it.

        Raises:
            OSError: the server went away.
        """
        self.sock.sendall(data)

    def push(self, data: bytes) -> bool:
        """Send as much as the server takes; whether that was all."""
        try:
            self.sock.sendall(data)
        except (BrokenPipeError, ConnectionResetError):
            return False
        return True

    def response(self, method: str = "GET") -> Response:
        """Read one response; an interim one (100) is passed over.

        Raises:
            EndOfConnectionError: the connection ended first.
        """
        while True:
            while b"\r\n\r\n" not in self.buffer:
                self._more()
            head, _, self.buffer = self.buffer.partition(b"\r\n\r\n")
            lines = head.decode("latin-1").split("\r\n")
            status = int(lines[0].split(" ")[1])
            if status >= 200:
                break
        headers = {name.lower(): value.strip() for name, _, value in (line.partition(":") for line in lines[1:])}
        if method == "HEAD" or status in (204, 304):
            return Response(status, headers, b"")
        assert "transfer-encoding" not in headers, "every response of Orcas has its length"
        length = int(headers["content-length"])
        body = bytearray(self.buffer[:length])
        self.buffer = self.buffer[length:]
        while len(body) < length:
            try:
                piece = self.sock.recv(min(length - len(body), 1 << 20))
            except ConnectionResetError:
                piece = b""
            if not piece:
                raise EndOfConnectionError(head + b"\r\n\r\n" + body)
            body += piece
        return Response(status, headers, bytes(body))

    def ended(self, timeout: float = 10.0) -> bool:
        """Whether the server ends the connection, without another byte, within `timeout` seconds."""
        self.sock.settimeout(timeout)
        try:
            return not self.buffer and self.sock.recv(1) == b""
        except ConnectionResetError:
            return not self.buffer
        except TimeoutError:
            return False

    def rest(self, timeout: float = 10.0) -> bytes:
        """All that comes until the server ends the connection.

        Raises:
            TimeoutError: it does not.
        """
        self.sock.settimeout(timeout)
        with contextlib.suppress(ConnectionResetError):
            while piece := self.sock.recv(1 << 16):
                self.buffer += piece
        return self.buffer

    def _more(self) -> None:
        try:
            piece = self.sock.recv(1 << 18)
        except ConnectionResetError:
            piece = b""
        if not piece:
            raise EndOfConnectionError(self.buffer)
        self.buffer += piece


def content(name: object, size: int) -> bytes:
    """`size` bytes that no other name has."""
    return hashlib.shake_128(str(name).encode()).digest(size)


def boto(server: orcas.Server, **options: Any) -> Any:
    """A boto3 client that never retries: a retry would hide what a test looks for."""
    from botocore.config import Config

    settings: dict[str, Any] = {"retries": {"total_max_attempts": 1}, "s3": {"addressing_style": "path"}} | options
    return server.client(config=Config(**settings))
