"""Request heads that are too long, too slow, or could be read in two ways."""

from __future__ import annotations

import dataclasses
import time

import pytest
from tests.fixtures.wire import Connection, EndOfConnectionError, Signer

from .conftest import BUCKET, HEAD_TIMEOUT, stored


def refusal(signer: Signer, request: bytes) -> tuple[int, str]:
    """Send `request`; the one answer must be an error document, and the end of the connection."""
    with signer.connect() as connection:
        connection.push(request)
        response = connection.response()
        assert response.closes
        assert connection.rest() == b"", "a second response"
        assert 400 <= response.status < 600
        assert response.body.startswith(b"<?xml")
        return response.status, response.code


SMUGGLED = f"/{BUCKET}/smuggled"


def head(signer: Signer, *lines: str, target: str = f"/{BUCKET}/kept", method: str = "GET", host: bool = True) -> bytes:
    """A head of exactly these lines."""
    first = [f"{method} {target} HTTP/1.1", *([f"host: {signer.host}:{signer.port}"] if host else [])]
    return "\r\n".join([*first, *lines, "", ""]).encode("latin-1")


@pytest.mark.parametrize(
    "lines",
    [
        [f"x-amz-meta-a: {'a' * 40_000}"],
        [f"x-{'a' * 40_000}: 1"],
        ["a: " + "b" * 200] * 200,
        ["a:"] * 300,
    ],
    ids=["long value", "long name", "long lines together", "many lines"],
)
def test_a_head_too_large_is_refused(signer: Signer, lines: list[str]) -> None:
    assert refusal(signer, head(signer, *lines)) == (431, "RequestHeaderSectionTooLarge")


@pytest.mark.parametrize("split", [0, 20_000, 39_000], ids=["one read", "half", "nearly all"])
def test_a_head_too_large_behind_another_request_is_refused(signer: Signer, split: int) -> None:
    """Also when its beginning came with the body before it."""
    first = signer.request("PUT", f"/{BUCKET}/behind", body=b"x" * 500)
    second = head(signer, f"x-amz-meta-a: {'a' * 40_000}")
    cut = len(first) + split if split else len(first) + len(second)
    with signer.connect() as connection:
        connection.push((first + second)[:cut])
        assert connection.response("PUT").status == 200
        connection.push((first + second)[cut:])
        response = connection.response()
        assert (response.status, response.code) == (431, "RequestHeaderSectionTooLarge")
        assert connection.rest() == b""


def test_a_target_too_long_is_refused(signer: Signer) -> None:
    assert refusal(signer, head(signer, target="/" + "a" * 300_000))[0] in (400, 414, 431)


def test_a_head_without_end_is_refused_before_it_fills_memory(signer: Signer) -> None:
    with signer.connect() as connection:
        connection.send(b"GET / HTTP/1.1\r\n")
        sent = 0
        while connection.push(b"x-a: " + b"a" * 10_000 + b"\r\n") and sent < 200_000_000:
            sent += 10_000
        assert connection.response().status == 431
        # Most of it is held by the kernel for both ends.
        assert sent < 100_000_000


@pytest.mark.parametrize("start", [b"", b"GET /", b"GET / HTTP/1.1\r\nHost: a\r\n"], ids=["nothing", "target", "half"])
def test_a_slow_head_is_cut_off(signer: Signer, start: bytes) -> None:
    """A head that arrives byte by byte has the same time limit as one that stalls."""
    with signer.connect() as connection:
        began = time.monotonic()
        connection.sock.settimeout(0.3)
        connection.push(start)
        while time.monotonic() - began < 3 * HEAD_TIMEOUT + 40:
            if start and not connection.push(b"x"):
                break
            try:
                if not (piece := connection.sock.recv(4096)):
                    break
                connection.buffer += piece
            except TimeoutError:
                if not start:
                    # An idle connection is not a head.
                    return
        assert time.monotonic() - began < 2 * HEAD_TIMEOUT + 30
        if connection.buffer:
            assert b" 408 " in connection.buffer.partition(b"\r\n")[0]


REST = f"PUT {SMUGGLED} HTTP/1.1\r\nhost: x\r\ncontent-length: 1\r\n\r\nx"
LENGTH = f"content-length: {len(REST)}"
AMBIGUOUS = {
    "length and chunked": [LENGTH, "transfer-encoding: chunked"],
    "chunked and length": ["transfer-encoding: chunked", LENGTH],
    "two lengths": [LENGTH, "content-length: 0"],
    "two equal lengths": [LENGTH, LENGTH],
    "list of lengths": [f"{LENGTH}, {len(REST)}"],
    "signed length": ["content-length: +5"],
    "negative length": ["content-length: -1"],
    "hexadecimal length": ["content-length: 0x10"],
    "length in words": ["content-length: five"],
    "empty length": ["content-length:"],
    "length of 2^64": ["content-length: 18446744073709551616"],
    "length with a space inside": ["content-length: 1 0"],
    "identity": ["transfer-encoding: identity"],
    "gzip, chunked": ["transfer-encoding: gzip, chunked"],
    "chunked, chunked": ["transfer-encoding: chunked, chunked"],
    "chunked twice": ["transfer-encoding: chunked", "transfer-encoding: chunked"],
    "chunked, identity": ["transfer-encoding: chunked", "transfer-encoding: identity"],
    "vertical tab before chunked": ["transfer-encoding: \x0bchunked", LENGTH],
    "quoted chunked": ['transfer-encoding: "chunked"'],
    "folded line": ["x-a: 1", f" {LENGTH}"],
    "folded coding": ["transfer-encoding:", " chunked"],
    "space before colon": [f"content-length : {len(REST)}"],
    "no colon": ["content-length"],
    "empty name": [": 1"],
    "NUL in a value": ["x-a: a\0b"],
    "CR in a value": ["x-a: a\rb"],
    "bad name": ["x(a): 1"],
    "non-ASCII name": ["x-\xe9: 1"],
    "second host": ["host: other"],
}


@pytest.mark.parametrize("lines", AMBIGUOUS.values(), ids=AMBIGUOUS.keys())
@pytest.mark.parametrize("method", ["PUT", "GET"])
def test_ambiguous_framing_is_refused_once_and_for_all(signer: Signer, method: str, lines: list[str]) -> None:
    request = head(signer, *lines, method=method, target=SMUGGLED) + REST.encode()
    assert refusal(signer, request + signer.request("PUT", SMUGGLED, body=b"x"))[0] == 400
    assert not stored(signer, SMUGGLED)


TARGETS = {
    "other scheme": "ftp://{host}/edge/kept",
    "one slash": "http:/edge/kept",
    "no authority": "http:///edge/kept",
    "user": "http://user@{host}/edge/kept",
    "user and password": "http://a:b@{host}/edge/kept",
    "host that looks like a user": "http://{host}:80@example.com/edge/kept",
    "encoded host": "http://%65xample.com/edge/kept",
    "backslash": "http://{host}\\edge/kept",
    "no port": "http://localhost:x/edge/kept",
    "long port": "http://localhost:123456/edge/kept",
    "open bracket": "http://[::1/edge/kept",
    "two authorities": "http://{host},example.com/edge/kept",
    "fragment of a URL": "http://{host}/edge/kept#part",
    "fragment as host": "http://{host}#/edge/kept",
    "authority": "{host}",
    "asterisk": "*",
    "fragment": "/edge/kept#part",
    "relative": "edge/kept",
}


@pytest.mark.parametrize("form", TARGETS.values(), ids=TARGETS.keys())
def test_other_forms_of_target_are_refused(signer: Signer, form: str) -> None:
    target = form.format(host=f"{signer.host}:{signer.port}")
    assert refusal(signer, head(signer, target=target) + head(signer))[0] == 400


def absolute(request: bytes, authority: str, scheme: str = "http") -> bytes:
    """A request whose target has this scheme and authority in front of it."""
    method, _, rest = request.partition(b" ")
    return method + f" {scheme}://{authority}".encode() + rest


def test_the_absolute_form_of_a_target_is_accepted(signer: Signer, key: str) -> None:
    """A signature covers the host of the target, which counts in place of the Host header."""
    here = f"{signer.host}:{signer.port}"
    assert signer.roundtrip(absolute(signer.request("PUT", key, body=b"x"), here), "PUT").status == 200
    presigned = signer.presign("GET", key).head()
    for request in (signer.request("GET", key), presigned):
        # The scheme is what the client calls the server, which may have a proxy with TLS in front of it.
        for scheme in ("http", "https"):
            answer = signer.roundtrip(absolute(request, here, scheme))
            assert (answer.status, answer.body) == (200, b"x")
        # Signed for this host and sent to another one, whichever of the two places names that.
        answer = signer.roundtrip(absolute(request, "example.com"))
        assert (answer.status, answer.code) == (403, "SignatureDoesNotMatch")
    # A Host header that differs is ignored, so what it says needs no signature.
    elsewhere = signer.request("GET", key).replace(f"host: {here}".encode(), b"host: example.com")
    assert signer.roundtrip(elsewhere).code == "SignatureDoesNotMatch"
    assert signer.roundtrip(absolute(elsewhere, here)).body == b"x"
    # The name of a bucket in the host.
    bucket = dataclasses.replace(signer, host=f"{BUCKET}.localhost")
    request = bucket.request("GET", "/" + key.rpartition("/")[2])
    assert signer.roundtrip(absolute(request, f"{BUCKET}.localhost:{signer.port}")).body == b"x"


def test_the_absolute_form_in_a_pipeline(signer: Signer) -> None:
    here = f"{signer.host}:{signer.port}"
    request = signer.request("GET", f"/{BUCKET}/kept")
    with signer.connect() as connection:
        connection.send(absolute(request, here) + request + absolute(request, here))
        assert [connection.response().body for _ in range(3)] == [b"kept"] * 3


@pytest.mark.parametrize(
    "request_line",
    ["GET /edge/kept", "GET /edge/kept HTTP/2.0", "GET /edge/kept HTTP/1.1 x", "GET",
     "G\0T /edge/kept HTTP/1.1", "get /edge/kept HTTP/1.1", "GET /edge/ke pt HTTP/1.1", "GET /edge/\x01 HTTP/1.1"],
)  # fmt: skip
def test_request_lines_that_are_none(signer: Signer, request_line: str) -> None:
    request = f"{request_line}\r\nhost: {signer.host}:{signer.port}\r\n\r\n".encode()
    with signer.connect() as connection:
        connection.push(request + head(signer))
        try:
            response = connection.response()
        except EndOfConnectionError as error:
            assert error.received == b""  # no answer at all, which is fine too
        else:
            assert 400 <= response.status < 600
            assert response.closes
            assert connection.rest() == b""


def test_no_host(signer: Signer) -> None:
    assert refusal(signer, head(signer, host=False)) == (400, "BadRequest")


@pytest.mark.parametrize(
    "request_bytes",
    [b"GET /edge/kept HTTP/1.1\nhost: %b\n\n", b"GET /edge/kept HTTP/1.1\r\nhost: %b\nx-a: 1\r\n\r\n",
     b"GET /edge/kept HTTP/1.1\r\nhost: %b\r\n\n", b"GET /edge/kept HTTP/1.1\rhost: %b\r\r"],
    ids=["everywhere", "after a header", "at the end", "bare CR"],
)  # fmt: skip
def test_bare_line_feeds_are_refused(signer: Signer, request_bytes: bytes) -> None:
    assert refusal(signer, request_bytes % b"localhost" + head(signer))[0] == 400


CHUNKED_BODIES = {
    "negative size": b"-1\r\nx\r\n0\r\n\r\n",
    "size of no digits": b"\r\nx\r\n0\r\n\r\n",
    "size with 0x": b"0x1\r\nx\r\n0\r\n\r\n",
    "huge size": b"ffffffffffffffffff\r\nx",
    "bare LF after size": b"1\nx\r\n0\r\n\r\n",
    "data longer than its size": b"1\r\nxyz\r\n0\r\n\r\n",
    "space after size": b"1 \r\nx\r\n0\r\n\r\n",
    "extension without end": b"1;" + b"a" * 100_000,
    "trailers without end": b"0\r\n" + b"a: b\r\n" * 20_000,
}


@pytest.mark.parametrize("body", CHUNKED_BODIES.values(), ids=CHUNKED_BODIES.keys())
def test_broken_chunked_coding_stores_nothing(signer: Signer, key: str, body: bytes) -> None:
    headers = [("x-amz-decoded-content-length", "1")]
    signed = signer.sign("PUT", key, headers=headers).head([("transfer-encoding", "chunked")])
    with signer.connect() as connection:
        connection.push(signed + body)
        response = connection.response()
        assert 400 <= response.status < 600
        assert response.closes
        assert connection.rest() == b""
    assert not stored(signer, key)


def test_connections_are_judged_one_by_one(signer: Signer) -> None:
    """A well-behaved client is served beside bad ones."""
    bad: list[Connection] = [signer.connect() for _ in range(50)]
    try:
        for number, connection in enumerate(bad):
            connection.send(b"GET / HTTP/1.1\r\nx: " + b"y" * number)
        took = []
        for _ in range(20):
            began = time.monotonic()
            assert signer.roundtrip(signer.request("GET", f"/{BUCKET}/kept")).body == b"kept"
            took.append(time.monotonic() - began)
        # A busy machine may delay one of them.
        assert min(took) < 10
    finally:
        for connection in bad:
            connection.sock.close()
