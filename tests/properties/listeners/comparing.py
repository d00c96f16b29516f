"""Sends one request to two servers, and compares what they answer and what they have stored."""

from __future__ import annotations

import contextlib
import datetime as dt
import re
import socket
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import unquote

from tests.fixtures.signing import Header, Identity, signed_pairs
from tests.fixtures.wire import quote_key

from .known import Known

# Seconds after which a server is taken for hanging.
_HANGS: Final = 120.0
_CONTINUE: Final = b"HTTP/1.1 100"
# Of one answer, or of the connection.
_OF_ONE_ANSWER: Final = {"date", "x-amz-request-id", "x-amz-id-2", "connection", "x-amzn-requestid", "server"}
# Headers and elements whose values each server makes for itself.
_MADE_HEADERS: Final = {"x-amz-version-id", "x-amz-copy-source-version-id", "x-amz-object-version-id"}
_MADE: Final = re.compile(
    rb"<(VersionId|UploadId|NextVersionIdMarker|NextUploadIdMarker|DeleteMarkerVersionId|CopySourceVersionId|"
    rb"NextContinuationToken|AccessKeyId|SecretAccessKey|SessionToken|UserId|Challenge|Nonce)>([^<]+)</"
)
_REQUEST_IDS: Final = re.compile(rb"<(?:RequestId|HostId)>[^<]*</|(?:RequestId|HostId): [^<]*</")
# The default retention in `documents.tsv`.
_RETENTION: Final = dt.timedelta(days=70 * 365)
# Of temporary credentials.
_SESSION: Final = dt.timedelta(seconds=900)
# What was signed, and how.
_ECHOES: Final = re.compile(
    rb"<(SignatureProvided|StringToSign|StringToSignBytes|CanonicalRequest|CanonicalRequestBytes)>[^<]*</"
)
# Of the console's pages.
_NONCES: Final = re.compile(rb"""nonce(?:-|=")[A-Za-z0-9_-]{22}""")
_TIMES: Final = re.compile(rb"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?(?:Z|\+00:00)")
_DATES: Final = re.compile(rb"[A-Z][a-z]{2}, \d\d [A-Z][a-z]{2} \d{4} \d\d:\d\d:\d\d GMT")


@dataclass(frozen=True)
class Reply:
    """One answer, as it came."""

    status: bytes
    headers: list[tuple[str, bytes]]
    body: bytes
    # Whether a 100 (Continue) came before it.
    continued: bool = False

    @property
    def number(self) -> int:
        """The status as a number."""
        return int(self.status[9:12])

    @property
    def is_stream(self) -> bool:
        """Whether it has no end."""
        return self.header("content-type") == b"text/event-stream"

    def header(self, name: str) -> bytes | None:
        """The first header of this name."""
        return next((value for known, value in self.headers if known == name), None)


class Ended(Exception):  # noqa: N818 - no error of the test
    """The connection ended; `rest` came before."""

    def __init__(self, rest: bytes) -> None:
        super().__init__(rest)
        self.rest = rest


@dataclass
class Side:
    """One of the two servers, and a connection to it that is kept."""

    host: str
    port: int
    _sock: socket.socket | None = None
    _buffer: bytes = b""

    @classmethod
    def of(cls, endpoint: str) -> Side:
        host, _, port = endpoint.removeprefix("http://").rpartition(":")
        return cls(host, int(port))

    def close(self) -> None:
        """Close the connection."""
        if self._sock is not None:
            self._sock.close()
        self._sock, self._buffer = None, b""

    def ask(self, raw: bytes, method: str) -> Reply | bytes:
        """The answer, over the connection that is kept; or what came before the connection ended."""
        for is_new in (self._sock is None, True):
            if is_new:
                self.close()
                self._sock = socket.create_connection((self.host, self.port), timeout=_HANGS)
                self._sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            try:
                reply = self._answer(raw, method)
            except Ended as end:
                self.close()
                # The server may have ended it while it was idle.
                if is_new or end.rest:
                    return end.rest
            else:
                # Whoever was not asked for a body and has not sent it cannot send the next request, either.
                is_spent = b"\r\nexpect: 100-continue" in raw and not reply.continued
                closes = (reply.header("connection") or b"").lower() == b"close"
                if closes or is_spent or reply.is_stream or self._buffer:
                    self.close()
                return reply
        raise AssertionError("a new connection answers or ends")

    def _answer(self, raw: bytes, method: str) -> Reply:
        assert self._sock is not None
        head, end, body = raw.partition(b"\r\n\r\n")
        waits = b"\r\nexpect: 100-continue" in head
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            self._sock.sendall(head + end if waits else raw)
        if waits:
            while len(self._buffer) < len(_CONTINUE):
                self._more()
            if self._buffer.startswith(_CONTINUE):
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    self._sock.sendall(body)
        return self._reply(method)

    def _more(self) -> None:
        assert self._sock is not None
        try:
            piece = self._sock.recv(1 << 17)
        except ConnectionResetError:
            piece = b""
        if not piece:
            raise Ended(self._buffer)
        self._buffer += piece

    def _reply(self, method: str) -> Reply:
        continued = False
        while True:
            while (at := self._buffer.find(b"\r\n\r\n")) < 0:
                self._more()
            status, *lines = self._buffer[:at].split(b"\r\n")
            if status[9:10] != b"1":
                break
            self._buffer, continued = self._buffer[at + 4 :], True
        fields = (line.partition(b":") for line in lines)
        headers = [(name.decode("latin-1").lower(), value.strip(b" ")) for name, _, value in fields]
        named = dict(headers)
        at += 4
        if method == "HEAD" or status[9:12] in (b"204", b"304"):
            length = 0
        elif "content-length" in named:
            length = int(named["content-length"])
        else:
            length = -1
        if Reply(status, headers, b"").is_stream:
            # It has no end.
            return Reply(status, headers, b"", continued)
        if length < 0:
            while not self._buffer.endswith(b"0\r\n\r\n"):
                self._more()
            body, self._buffer = self._buffer[at:], b""
            return Reply(status, headers, _joined(body), continued)
        while len(self._buffer) < at + length:
            self._more()
        body, self._buffer = self._buffer[at : at + length], self._buffer[at + length :]
        return Reply(status, headers, body, continued)


def _joined(chunks: bytes) -> bytes:
    body, rest = b"", chunks
    while rest:
        size, _, rest = rest.partition(b"\r\n")
        length = int(size, 16)
        body, rest = body + rest[:length], rest[length + 2 :]
        if not length:
            break
    return body


@dataclass
class Comparison:
    """What two servers answer is the same, but for what each makes for itself."""

    known: Known
    began: dt.datetime = field(default_factory=lambda: dt.datetime.now(dt.UTC) - dt.timedelta(seconds=5))

    def differences(self, first: Reply | bytes, second: Reply | bytes, *, alike: bool = True) -> Iterator[str]:
        """In what they differ. `alike`: both requests were the same, byte for byte."""
        if isinstance(first, bytes) or isinstance(second, bytes):
            if type(first) is not type(second):
                yield "answered by one alone"
            # The answer to a HEAD that is not well-formed has a document, because nobody knows that it is a HEAD.
            elif not self._is_same(first, second):  # type: ignore[arg-type]
                yield "bytes before the end"
            return
        # Versions and phrases are those of the listeners.
        if first.number != second.number:
            yield "status"
        if first.continued != second.continued:
            yield "100 (Continue)"
        yield from self._headers(first, second)
        bodies = first.body, second.body
        if not alike:
            # They are shown what they have sent.
            shown = (_ECHOES.sub(b"", body) for body in bodies)
            bodies = next(shown), self.known.as_first(next(shown))
        if not self._is_same(*bodies):
            yield "body"

    def _headers(self, first: Reply, second: Reply) -> Iterator[str]:
        one, other = (
            sorted((name, value) for name, value in reply.headers if name not in _OF_ONE_ANSWER)
            for reply in (first, second)
        )
        if [name for name, _ in one] != [name for name, _ in other]:
            yield "headers"
            return
        for (name, value), (_, its) in zip(one, other, strict=True):
            if name in _MADE_HEADERS and value != its:
                if not self.known.agree(value.decode("latin-1"), its.decode("latin-1")):
                    yield f"header {name}"
            elif name == "allow" and sorted(value.split(b", ")) == sorted(its.split(b", ")):
                # Starlette has methods as a set.
                continue
            elif not self._is_same(value, its):
                yield f"header {name}"

    def _is_same(self, first: bytes, second: bytes) -> bool:
        if first == second:
            return True
        made = _MADE.findall(first), _MADE.findall(second)
        if [name for name, _ in made[0]] != [name for name, _ in made[1]]:
            return False
        for (_, one), (_, other) in zip(*made, strict=True):
            if one != other and not self.known.agree(one.decode("latin-1"), other.decode("latin-1")):
                return False
        first, second = (
            _NONCES.sub(b"", _REQUEST_IDS.sub(b"", _MADE.sub(rb"<\1></", text))) for text in (first, second)
        )
        if first == second:
            return True
        for pattern, form in ((_TIMES, None), (_DATES, "%a, %d %b %Y %H:%M:%S GMT")):
            times = pattern.findall(first), pattern.findall(second)
            if len(times[0]) != len(times[1]):
                return False
            for one, other in zip(*times, strict=True):
                if one != other and not (self._is_new(one, form) and self._is_new(other, form)):
                    return False
            first, second = (pattern.sub(b"", text) for text in (first, second))
        return first == second

    def _is_new(self, text: bytes, form: str | None) -> bool:
        """Whether it is a time since this began, or the end of a retention or session that began then."""
        said = text.decode()
        moment = (
            dt.datetime.fromisoformat(said) if form is None else dt.datetime.strptime(said, form).replace(tzinfo=dt.UTC)
        )
        return any(
            self.began <= made <= dt.datetime.now(dt.UTC) for made in (moment, moment - _RETENTION, moment - _SESSION)
        )


_CONFIGURATIONS: Final = (
    "versioning", "policy", "acl", "cors", "lifecycle", "tagging", "website", "encryption", "logging", "notification",
    "ownershipControls", "publicAccessBlock", "object-lock", "requestPayment", "accelerate", "uploads",
)  # fmt: skip


@dataclass
class Looking:
    """What root sees of a store, for both servers."""

    sides: tuple[Side, Side]
    root: Identity
    comparison: Comparison

    def read(self, method: str, target: str, named: tuple[str, str] = ("", "")) -> tuple[Reply, Reply] | str:
        """The answers to a read; or in what they differ. `named`: what follows the target for each."""
        replies = []
        for side, end in zip(self.sides, named, strict=True):
            url = f"http://localhost:9000{target}{end}"
            pairs: list[Header] = signed_pairs(self.root, method, url, [("host", "localhost:9000")])
            head = "".join(f"{name}: {value}\r\n" for name, value in pairs)
            replies.append(side.ask(f"{method} {target}{end} HTTP/1.1\r\n{head}\r\n".encode("latin-1"), method))
        first, second = replies
        found = list(self.comparison.differences(first, second))
        if found or isinstance(first, bytes) or isinstance(second, bytes):
            return f"{method} {target}: {found} {first!r} {second!r}"
        return first, second

    def after(self, bucket: str, key: str, subresource: str | None) -> Iterator[str]:
        """In what the stores differ after a request that names these."""
        if bucket:
            yield from self.versions(bucket)
            if subresource is not None:
                yield from self._same("GET", f"/{bucket}?{subresource}")
        if key and bucket:
            yield from self.object(f"/{bucket}/{quote_key(key)}")

    def everything(self) -> Iterator[str]:
        """In what the stores differ."""
        found = self.read("GET", "/")
        if isinstance(found, str):
            yield found
            return
        for name in re.findall(rb"<Name>([^<]*)</Name>", found[0].body):
            bucket = name.decode()
            for subresource in _CONFIGURATIONS:
                yield from self._same("GET", f"/{bucket}?{subresource}")
            yield from self.versions(bucket, deep=True)

    def versions(self, bucket: str, *, deep: bool = False) -> Iterator[str]:
        """In what the versions of a bucket differ. `deep`: in each of their objects, too."""
        found = self.read("GET", f"/{bucket}?versions&encoding-type=url")
        if isinstance(found, str):
            yield found
            return
        shown = (re.findall(rb"<Key>([^<]*)</Key><VersionId>([^<]*)</VersionId>", reply.body) for reply in found)
        keys = set()
        for (key, one), (_, other) in zip(*shown, strict=True):
            keys.add(key)
            self.comparison.known.note("version", bucket, unquote(key.decode()), one.decode(), other.decode())
        for key in sorted(keys) if deep else ():
            yield from self.object(f"/{bucket}/{key.decode()}")

    def object(self, path: str) -> Iterator[str]:
        """In what an object differs."""
        yield from self._same("HEAD", path)
        for subresource in ("tagging", "acl", "annotation", "retention", "legal-hold"):
            yield from self._same("GET", f"{path}?{subresource}")

    def _same(self, method: str, target: str) -> Iterator[str]:
        found = self.read(method, target)
        if isinstance(found, str):
            yield found
