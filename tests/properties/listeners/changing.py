"""Changes of requests that are signed and framed: a byte, a header, the request line, line ends."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Final

_BYTES: Final = tuple(bytes((byte,)) for byte in b"%/?#\x00\xff \t\r\n")
# Requests in the place of a request line, and whole request lines. `{m}` stands for the method, `{l}` for it in lower case,
# `{t}` for the target.
_REQUESTS: Final = (
    b"{m}  {t}", b"{m} {t} ", b"{m}\t{t}", b"{m} http://localhost:9000{t}", b"{m} https://other{t}", b"{m} http://a@b{t}",
    b"{m} ftp://b{t}", b"{m} *", b"{m} {t}#f", b"{m} localhost:9000", b"{m} http://plain.s3.test?acl", b"{m} ", b"{m} x{t}",
    b"{l} {t}", b"FOO {t}", b"PATCH {t}", b"TRACE {t}", b"CONNECT localhost:1", b"CONNECT {t}", b"PROPFIND {t}",
    b"M-SEARCH {t}", b"\r\n{m} {t}", b"\r\n\r\n{m} {t}", b"AVERYLONGMETHODTHATNOBODYKNOWS {t}", b"{m} /\xc3\xa9{t}",
    b"!{m} {t}", b"HEAD {t}", b"OPTIONS *", b"{m} /{t}", b"{m} {t}?%b" % (b"a" * 70_000), b"{m} {t}%b" % (b"/a" * 5000),
)  # fmt: skip
_LINES: Final = (
    *(request + b" HTTP/1.1" for request in _REQUESTS), b"{m} {t} HTTP/1.0", b"{m} {t} HTTP/1.2", b"{m} {t} HTTP/2.0",
    b"{m} {t} HTTP/0.9", b"{m} {t}", b"{m} {t} http/1.1", b"{m} {t} HTTP/1.1 ", b"{m} {t} RTSP/1.0", b"PRI * HTTP/2.0",
)  # fmt: skip
_HEADERS: Final = (
    b"transfer-encoding: gzip", b"transfer-encoding: chunked", b"transfer-encoding: chunked, chunked", b"content-length: 0",
    b"content-length: 5", b"content-length: +5", b"content-length: 5, 5", b"content-length: x", b"Host: other",
    b"connection: close", b"connection: upgrade", b"expect: 100-continue", b"expect: 200-ok", b" folded: x", b"na me: x",
    b"name : x", b": x", b"nothing", b"x-long: " + b"a" * 9000, b"x-long: " + b"a" * 70_000, b"x-long: " + b"a" * 300_000,
    b"\xc3\xa9: x", b"x: \x01", b"x: \x7f", b"x: a\tb", b"x:y", b"x: \x80", b"content-length: ", b"content-length: 00",
    b"http2-settings: AAMAAABkAAQAAP__", b"\r\n".join([b"x-many: x"] * 300), b"x-amz-date: 20300101T000000Z",
    b"authorization: AWS AKID:sig", b"authorization: Basic YTpi", b"trailer: x", b"content-length: 18446744073709551616",
    b"connection: close, keep-alive", b"connection: keep-alive", b"upgrade: h2c",
    b"orcas-front-client: 192.0.2.1:5", b"orcas-front-scheme: https",
)  # fmt: skip


def _somewhere(rng: random.Random, raw: bytes, first: int, last: int) -> bytes:
    """A byte changed, removed, or added between two places."""
    at = rng.randrange(first, max(first + 1, last))
    changed = bytes((raw[at] ^ (1 << rng.randrange(8)),))
    return raw[:at] + rng.choice((changed, b"", rng.choice(_BYTES))) + raw[at + rng.choice((0, 1)) :]


def _line(raw: bytes) -> int:
    return raw.index(b"\r\n")


def _head(raw: bytes) -> int:
    return raw.index(b"\r\n\r\n")


def _in_target(rng: random.Random, raw: bytes) -> bytes:
    return _somewhere(rng, raw, raw.index(b" ") + 1, _line(raw) - 9)


def _in_line(rng: random.Random, raw: bytes) -> bytes:
    return _somewhere(rng, raw, 0, _line(raw) + 2)


def _in_headers(rng: random.Random, raw: bytes) -> bytes:
    return _somewhere(rng, raw, _line(raw) + 2, _head(raw) + 4)


def _in_body(rng: random.Random, raw: bytes) -> bytes:
    """A byte changed: the length of the body stays. Not of one in chunks: llhttp sees broken ones that nobody receives."""
    first = _head(raw) + 4
    if len(raw) == first or b"\r\ntransfer-encoding" in raw[:first]:
        return raw
    at = rng.randrange(first, len(raw))
    return raw[:at] + bytes((raw[at] ^ (1 << rng.randrange(8)),)) + raw[at + 1 :]


def _headers(rng: random.Random, raw: bytes) -> bytes:
    """A header twice, without its value, with another value, away, or written in another way; or another order."""
    end = _head(raw)
    first, *lines = raw[:end].split(b"\r\n")
    at = rng.randrange(len(lines))
    name, _, value = lines[at].partition(b":")
    kind = rng.randrange(6)
    if kind == 0:
        lines.insert(at, lines[at])
    elif kind == 1:
        lines[at] = name + b":"
    elif kind == 2:
        del lines[at]
    elif kind == 3:
        lines.insert(at, name + b": other")
    elif kind == 4:
        rng.shuffle(lines)
    else:
        # llhttp refuses a coding with white space behind it.
        space = b"" if name == b"transfer-encoding" else b" \t"
        lines[at] = name.swapcase() + b":" + value.strip(b" ") + space
    return b"\r\n".join([first, *lines]) + raw[end:]


def _added(rng: random.Random, raw: bytes) -> bytes:
    at = rng.choice((_line(raw), _head(raw)))
    return raw[:at] + b"\r\n" + rng.choice(_HEADERS) + raw[at:]


def _protocol(rng: random.Random, raw: bytes) -> bytes:
    """Another request line."""
    end = _line(raw)
    method, target, _ = raw[:end].split(b" ")
    line = rng.choice(_LINES).replace(b"{m}", method).replace(b"{l}", method.lower()).replace(b"{t}", target)
    return line + raw[end:]


def _ends(rng: random.Random, raw: bytes) -> bytes:
    """Line feeds in place of line ends, in one place or everywhere; too little or too much."""
    kind = rng.randrange(7)
    end = _head(raw)
    if kind == 0:
        return raw[:end].replace(b"\r\n", b"\n") + raw[end:]
    if kind == 1:
        return raw.replace(b"\r\n", b"\n", 1)
    if kind == 2:
        return raw[:end] + b"\n\n" + raw[end + 4 :]
    if kind == 3:
        return raw[: rng.randrange(1, len(raw))]
    if kind == 4:
        return raw + rng.choice((b"\r\n", b"x", b"GET /plain/k HTTP/1.1\r\nHost: localhost\r\n\r\n"))
    if kind == 5:
        return raw.replace(b"\r\n", b"\r", 1)
    return re.sub(rb"(?m)^0\r\n", b"0;a=b\r\nx-trailer: y\r\n", raw) if b"chunked" in raw[:end] else raw


Change = Callable[[random.Random, bytes], bytes]
# These leave the framing of requests as it is.
FRAMED: Final[tuple[Change, ...]] = (_in_target, _in_body)
ALL: Final[tuple[Change, ...]] = (
    *FRAMED, _in_line, _in_headers, _in_headers, _headers, _headers, _added, _added, _protocol, _protocol, _ends,
)  # fmt: skip
