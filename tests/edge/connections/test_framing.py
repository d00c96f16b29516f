"""The limits and framing of a connection, over real sockets, with an application in place of the S3 dispatcher."""

from __future__ import annotations

import contextlib
import itertools
import socket
import ssl
import time
from collections.abc import Iterator
from typing import Any

import pytest
from tests.fixtures.marks import full
from tests.fixtures.servers.connections import CLOSE, HOST, Running, read_all, read_response
from tests.fixtures.waiting import wait_until

# What is still received behind a refusal.
DRAIN_BYTES_MAX = 16 << 20


CHUNKED = b"PUT / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"


async def application(scope: Any, receive: Any, send: Any) -> None:
    """PUT answers the length of the body, POST refuses it unread, GET echoes the request, DELETE fails."""
    status, body = 200, b""
    headers = []
    if scope["method"] == "PUT":
        got = 0
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            got += len(message["body"])
            if not message["more_body"]:
                break
        body = b"got %d" % got
    elif scope["method"] == "POST":
        status, body = 403, b"denied"
    elif scope["method"] == "DELETE":
        raise RuntimeError("the application failed")
    elif scope["raw_path"] == b"/short":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"10")]})
        await send({"type": "http.response.body", "body": b"abc", "more_body": True})
        raise RuntimeError("damaged")
    elif scope["raw_path"] == b"/large":
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"64000000")]})
        for left in range(63, -1, -1):
            await send({"type": "http.response.body", "body": bytes(1_000_000), "more_body": left > 0})
        return
    elif scope["raw_path"] == b"/inject":
        headers = [(b"x-a", b"b\r\nx-evil: 1")]
    elif scope["raw_path"] == b"/chunked":
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"abc", "more_body": True})
        await send({"type": "http.response.body", "body": b"def"})
        return
    else:
        body = repr((scope["raw_path"], scope["query_string"], scope["path"], sorted(scope["headers"]))).encode()
    headers += [(b"content-length", str(len(body)).encode())]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture(scope="module", params=["plain", *full("tls")])
def server(request: pytest.FixtureRequest) -> Iterator[Running]:
    running = Running(application, tls=request.param == "tls")
    yield running
    running.close()


def test_a_request_arrives_as_it_was_sent(server: Running) -> None:
    answer = server.exchange(b"GET //b//%2e%2E/a%20b?x=%20&y HTTP/1.1\r\n" + HOST + b"X-Y:  z\r\n" + CLOSE + b"\r\n")
    assert b"(b'//b//%2e%2E/a%20b', b'x=%20&y', '//b//../a b', [" in answer
    assert b"(b'x-y', b'z')" in answer
    assert answer.count(b"date: ") == 1
    assert b"server:" not in answer.lower()


@pytest.mark.parametrize(
    ("target", "path", "query", "host"),
    [
        (b"http://a.b:80//b//%2e/c?x=%20", b"//b//%2e/c", b"x=%20", b"a.b:80"),
        (b"HTTP://[::1]:9000/c", b"/c", b"", b"[::1]:9000"),
        (b"http://a", b"/", b"", b"a"),
        (b"http://a?x=http://b/", b"/", b"x=http://b/", b"a"),
        (b"http://a/http://b@c/", b"/http://b@c/", b"", b"a"),
    ],
)
def test_the_absolute_form_of_a_target_names_the_host(
    server: Running, target: bytes, path: bytes, query: bytes, host: bytes
) -> None:
    answer = server.exchange(b"GET " + target + b" HTTP/1.1\r\nHost: other\r\n" + CLOSE + b"\r\n")
    assert b"(%r, %r, " % (path, query) in answer
    assert b"(b'host', %r)" % host in answer
    assert b"other" not in answer


def test_connections_are_kept_and_pipelines_answered_in_order(server: Running) -> None:
    with server.connect() as client:
        client.sendall(b"".join(b"GET /%d HTTP/1.1\r\n" % number + HOST + b"\r\n" for number in range(10)))
        answer = b""
        while answer.count(b"HTTP/1.1 200") < 10 or not answer.endswith(b"])"):
            answer += client.recv(65536)
    places = [answer.index(b"b'/%d'" % number) for number in range(10)]
    assert places == sorted(places)


MALFORMED = {
    "no host": (b"GET / HTTP/1.1\r\n\r\n", 400),
    "two hosts": (b"GET / HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400),
    "absolute form without a host": (b"GET http:///b HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "absolute form without a Host header": (b"GET http://a/b HTTP/1.1\r\n\r\n", 400),
    "absolute form with two Host headers": (b"GET http://a/b HTTP/1.1\r\n" + HOST + HOST + b"\r\n", 400),
    "absolute form of another scheme": (b"GET ftp://a/b HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "absolute form with a user": (b"GET http://u@a/b HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "absolute form with a fragment": (b"GET http://a/b#c HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "absolute form in RTSP": (b"GET http://a/HTTP/ RTSP/1.0\r\n" + HOST + b"\r\n", 400),
    "asterisk form": (b"OPTIONS * HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "authority form": (b"CONNECT a:80 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "fragment": (b"GET /a#b HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "raw bytes in the target": (b"GET /\xc3\xa9 HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "space in the target": (b"GET /a b HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "gzip coding": (b"PUT / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n", 400),
    "identity coding": (b"PUT / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: identity\r\n\r\n", 400),
    "two codings": (b"PUT / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n" * 2 + b"\r\n0\r\n\r\n", 400),
    "coding in 1.0": (b"PUT / HTTP/1.0\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "length and coding": (
        b"PUT / HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n", 400),
    "coding and length": (
        b"PUT / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\nContent-Length: 5\r\n\r\n0\r\n\r\n", 400),
    "two lengths": (b"PUT / HTTP/1.1\r\n" + HOST + b"Content-Length: 1\r\n" * 2 + b"\r\na", 400),
    "list of lengths": (b"PUT / HTTP/1.1\r\n" + HOST + b"Content-Length: 1, 1\r\n\r\na", 400),
    "signed length": (b"PUT / HTTP/1.1\r\n" + HOST + b"Content-Length: +1\r\n\r\na", 400),
    "negative length": (b"PUT / HTTP/1.1\r\n" + HOST + b"Content-Length: -1\r\n\r\na", 400),
    "hexadecimal length": (b"PUT / HTTP/1.1\r\n" + HOST + b"Content-Length: 0x1\r\n\r\na", 400),
    "huge length": (b"PUT / HTTP/1.1\r\n" + HOST + b"Content-Length: 99999999999999999999\r\n\r\na", 400),
    "empty length": (b"PUT / HTTP/1.1\r\n" + HOST + b"Content-Length:\r\n\r\na", 400),
    "folded header": (b"GET / HTTP/1.1\r\n" + HOST + b"X: a\r\n b\r\n\r\n", 400),
    "bare LF in the head": (b"GET / HTTP/1.1\r\nHost: a\nX: b\r\n\r\n", 400),
    "bare LF in the request line": (b"GET / HTTP/1.1\nHost: a\r\n\r\n", 400),
    "bare CR in a header": (b"GET / HTTP/1.1\r\nHost: a\rX: b\r\n\r\n", 400),
    "space before the colon": (b"GET / HTTP/1.1\r\n" + HOST + b"X : b\r\n\r\n", 400),
    "NUL in a header": (b"GET / HTTP/1.1\r\n" + HOST + b"X: a\0b\r\n\r\n", 400),
    "bare LF in chunk framing": (
        b"PUT / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n1\na\r\n0\r\n\r\n", 400),
    "bad chunk size": (b"PUT / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n0x1\r\na\r\n0\r\n\r\n", 400),
    "HTTP/2": (b"GET / HTTP/2.0\r\n" + HOST + b"\r\n", 400),
    "no version": (b"GET /\r\n\r\n", 400),
    "not HTTP": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03", 400),
    "CONNECT to a path": (b"CONNECT /a HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "RTSP": (b"GET / RTSP/1.0\r\n" + HOST + b"\r\n", 400),
    "RTSP/1.1": (b"GET / RTSP/1.1\r\n" + HOST + b"\r\n", 400),
    "RTSP with a target that says otherwise": (b"GET /HTTP/ RTSP/1.0\r\n" + HOST + b"\r\n", 400),
    "RTSP behind an empty line": (b"\r\nGET / RTSP/1.0\r\n" + HOST + b"X: HTTP/\r\n\r\n", 400),
    "ICE": (b"SOURCE / ICE/1.0\r\n" + HOST + b"\r\n", 400),
    "two spaces in the request line": (b"GET /  HTTP/1.1\r\n" + HOST + b"\r\n", 400),
    "many headers": (b"GET / HTTP/1.1\r\n" + HOST + b"A:b\r\n" * 300 + b"\r\n", 431),
    "large head at once": (b"GET / HTTP/1.1\r\n" + HOST + b"X: " + b"a" * 9000 + b"\r\n\r\n", 431),
    "large target": (b"GET /" + b"a" * 9000 + b" HTTP/1.1\r\n" + HOST + b"\r\n", 431),
}  # fmt: skip


def test_the_body_of_a_pipelined_request_may_come_later(server: Running) -> None:
    with server.connect() as client:
        head = b"PUT /a HTTP/1.1\r\n" + HOST + b"Content-Length: 5\r\n\r\n"
        client.sendall(head + b"first" + head)
        assert read_response(client)[1] == b"got 5"
        client.sendall(b"later")
        assert read_response(client)[1] == b"got 5"


def test_what_comes_behind_a_chunked_body_before_its_answer_is_not_served(server: Running) -> None:
    """Where it begins is not known, so that its head could not be checked."""
    for behind in (b"GET / HTTP/1.1\r\n" + HOST + b"\r\n", b"GET / HTTP/1.1\r\nHo", b"G"):
        answer = server.exchange(CHUNKED + b"3\r\nabc\r\n0\r\n\r\n" + behind)
        assert answer.endswith(b"\r\n\r\ngot 3")
    with server.connect() as client:
        for _ in range(3):
            client.sendall(CHUNKED + b"3\r\nabc\r\n0\r\nX: y\r\n\r\n")
            assert read_response(client)[1] == b"got 3"


@pytest.mark.parametrize("pieces", ["at once", "in pieces", "behind another"])
@pytest.mark.parametrize("case", MALFORMED)
def test_malformed_requests_get_a_document_and_the_connection_ends(server: Running, case: str, pieces: str) -> None:
    request, status = MALFORMED[case]
    with server.connect() as client:
        if pieces == "at once":
            client.sendall(request)
        elif pieces == "behind another":
            client.sendall(b"PUT / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\n\r\nabc" + request)
        else:
            client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            middle = len(request) // 2
            client.sendall(request[:middle])
            time.sleep(0.01)
            with contextlib.suppress(ConnectionError, ssl.SSLEOFError):
                client.sendall(request[middle:])
        answer = read_all(client)
    if pieces == "behind another":
        first, _, answer = answer.partition(b"\r\n\r\ngot 3")
        assert first.startswith(b"HTTP/1.1 200 ")
    assert answer.startswith(b"HTTP/1.1 %d " % status), answer
    head, _, document = answer.partition(b"\r\n\r\n")
    assert b"connection: close" in head
    assert b"<Error><Code>" in document
    assert document.endswith(b"</RequestId></Error>")
    assert answer.count(b"HTTP/1.1 ") == 1
    assert b"content-length: %d" % len(document) in head


def test_a_head_without_end_is_refused_at_its_limit(server: Running) -> None:
    with server.connect() as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: a\r\nX: ")
        sent = 0
        with contextlib.suppress(ConnectionError, ssl.SSLEOFError):
            while sent < 1 << 20:
                client.sendall(b"a" * 1000)
                sent += 1000
                time.sleep(0.0005)
                client.setblocking(False)
                with contextlib.suppress(BlockingIOError, ssl.SSLWantReadError):
                    if answer := client.recv(65536):
                        assert answer.startswith(b"HTTP/1.1 431 ")
                        break
                client.setblocking(True)
        assert sent < 1 << 20


def test_headers_whose_names_begin_like_those_of_framing_are_none(server: Running) -> None:
    head = (
        b"PUT / HTTP/1.1\r\n"
        + HOST
        + b"Content-Length-Hint: 9\r\nContent-Length: 3\r\nTransfer-Encoding-Hint: a\r\n\r\n"
    )
    with server.connect() as client:
        client.sendall(head + b"abc" + head)
        assert read_response(client)[1] == b"got 3"
        client.sendall(b"xyz")
        assert read_response(client)[1] == b"got 3"


def test_trailers_are_dropped(server: Running) -> None:
    with server.connect() as client:
        client.sendall(
            b"PUT / HTTP/1.1\r\n"
            + HOST
            + b"Transfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\nHost: evil\r\nX: y\r\n\r\n"
        )
        assert read_response(client)[1] == b"got 3"
        client.sendall(b"GET /after HTTP/1.1\r\n" + HOST + b"\r\n")
        assert b"evil" not in read_response(client)[1]


@pytest.mark.parametrize("size", [5000, 1_000_000], ids=["in pieces", "at once"])
@pytest.mark.parametrize("where", ["first", "between", "last", "each"])
def test_long_chunk_extensions_are_refused(server: Running, where: str, size: int) -> None:
    """Their limit is for the whole body, however they are cut and whatever is between them."""
    long = b";" + b"e" * 100_000
    chunks = {
        "first": b"3%b\r\nabc\r\n0\r\n\r\n" % long,
        "between": b"3\r\nabc\r\n3%b\r\nabc\r\n0\r\n\r\n" % long,
        "last": b"3\r\nabc\r\n0%b\r\n\r\n" % long,
        "each": (b"3;%b\r\nabc\r\n" % (b"e" * 4000)) * 25 + b"0\r\n\r\n",
    }
    stream = CHUNKED + chunks[where]
    with server.connect() as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with contextlib.suppress(ConnectionError, ssl.SSLEOFError):
            for at in range(0, len(stream), size):
                client.sendall(stream[at : at + size])
                time.sleep(0.001)
        answer = read_all(client)
    assert answer.startswith(b"HTTP/1.1 400 "), answer


def test_many_small_chunks_are_taken(server: Running) -> None:
    chunk = b"1\r\nx\r\n"
    with server.connect() as client:
        client.sendall(CHUNKED + chunk * 50_000 + b"0\r\n\r\n")
        assert read_response(client)[1] == b"got 50000"


@pytest.mark.parametrize("what", ["trailer", "extension"])
def test_framing_without_end_is_refused(server: Running, what: str) -> None:
    start = b"0\r\nX: " if what == "trailer" else b"1;"
    with server.connect() as client:
        client.sendall(b"PUT / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n" + start)
        with contextlib.suppress(ConnectionError, ssl.SSLEOFError):
            for _ in range(1000):
                client.sendall(b"a" * 1000)
                time.sleep(0.0005)
        assert read_all(client)[:13] in (b"HTTP/1.1 400 ", b"")
    assert wait_until(lambda: not server.connections())


UPGRADE = HOST + b"Connection: Upgrade, HTTP2-Settings\r\nUpgrade: h2c\r\nHTTP2-Settings: AAMAAABkAAQAoAAAAAIAAAAA\r\n"
UPGRADES = {
    "GET": (b"GET /u HTTP/1.1\r\n" + UPGRADE + b"\r\n", b"'/u'"),
    "PUT": (b"PUT / HTTP/1.1\r\n" + UPGRADE + b"Content-Length: 7\r\n\r\nGET / H", b"got 7"),
    "empty PUT": (b"PUT / HTTP/1.1\r\n" + UPGRADE + b"Content-Length: 0\r\n\r\n", b"got 0"),
    "large PUT": (b"PUT / HTTP/1.1\r\n" + UPGRADE + b"Content-Length: 700000\r\n\r\n" + b"a" * 700_000, b"got 700000"),
}  # fmt: skip


@pytest.mark.parametrize("pieces", [1, 2, 3, 40])
@pytest.mark.parametrize("case", UPGRADES)
def test_another_protocol_is_not_taken_up_and_the_connection_goes_on(server: Running, case: str, pieces: int) -> None:
    request, said = UPGRADES[case]
    plain = b"PUT / HTTP/1.1\r\n" + HOST + CLOSE + b"Content-Length: 3\r\n\r\nxyz"
    stream = request + request + plain
    size = -(-len(stream) // pieces)
    with server.connect() as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for at in range(0, len(stream), size):
            client.sendall(stream[at : at + size])
            time.sleep(0.002)
        answers = read_all(client).split(b"HTTP/1.1 ")[1:]
    assert [answer[:4] for answer in answers] == [b"200 "] * 3
    assert said in answers[0]
    assert said in answers[1]
    assert answers[2].endswith(b"got 3")


@pytest.mark.parametrize("split", range(1, 40, 3))
def test_a_request_line_may_come_in_pieces_behind_another_request(server: Running, split: int) -> None:
    first = b"PUT / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\n\r\nabc"
    second = b"GET /second HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n"
    with server.connect() as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for piece in (first + second[:split], second[split : split + 2], second[split + 2 :]):
            client.sendall(piece)
            time.sleep(0.003)
        answer = read_all(client)
    assert b"got 3HTTP/1.1 200 " in answer
    assert b"/second" in answer


def test_slow_heads_are_refused(server: Running) -> None:
    with server.connect() as client:
        began = time.monotonic()
        with contextlib.suppress(ConnectionError, ssl.SSLEOFError):
            for byte in itertools.chain(b"GET / HTTP/1.1\r\n", itertools.repeat(97)):
                client.sendall(bytes([byte]))
                time.sleep(0.01)
                if time.monotonic() - began > 40:
                    break
        assert read_all(client)[:13] in (b"HTTP/1.1 408 ", b"")
        assert time.monotonic() - began < 30


def test_idle_connections_are_closed(server: Running) -> None:
    with server.connect() as fresh, server.connect() as used:
        used.sendall(b"GET / HTTP/1.1\r\n" + HOST + b"\r\n")
        read_response(used)
        assert read_all(fresh) == b""
        assert read_all(used) == b""


def test_a_body_that_stalls_is_refused(server: Running) -> None:
    with server.connect() as client:
        # A fast start must not compensate for the stall.
        client.sendall(b"PUT / HTTP/1.1\r\n" + HOST + b"Content-Length: 3000000\r\n\r\n" + b"a" * 1_000_000)
        answer = read_all(client)
    assert answer.startswith(b"HTTP/1.1 400 ")
    assert b"<Code>RequestTimeout</Code>" in answer


def test_a_client_that_does_not_read_is_let_go(server: Running) -> None:
    with server.connect() as client:
        client.sendall(b"GET /large HTTP/1.1\r\n" + HOST + b"\r\n")
        assert wait_until(lambda: server.connections() == 1)
        assert wait_until(lambda: not server.connections())
        assert len(read_all(client)) < 64_000_000


def test_a_client_that_reads_slowly_gets_everything(server: Running) -> None:
    with server.connect() as client:
        client.sendall(b"GET /large HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n")
        got = rests = 0
        while piece := client.recv(4_000_000):
            got += len(piece)
            if got // 1_000_000 > rests:
                rests += 1
                time.sleep(0.02)
        assert got > 64_000_000


def test_a_slow_body_above_the_rate_is_taken(server: Running) -> None:
    with server.connect() as client:
        client.sendall(b"PUT / HTTP/1.1\r\n" + HOST + b"Content-Length: 100000\r\n\r\n")
        for _ in range(20):
            client.sendall(b"a" * 5000)
            time.sleep(0.2)
        assert read_response(client)[1] == b"got 100000"


def test_expect_is_answered_when_the_body_is_wanted(server: Running) -> None:
    with server.connect() as client:
        client.sendall(b"PUT / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n")
        assert client.recv(1000) == b"HTTP/1.1 100 Continue\r\n\r\n"
        client.sendall(b"abc")
        assert read_response(client)[1] == b"got 3"


def test_expect_is_ignored_in_the_old_version(server: Running) -> None:
    answer = server.exchange(b"PUT / HTTP/1.0\r\n" + HOST + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\nabc")
    assert answer.startswith(b"HTTP/1.0 200 ")
    assert answer.endswith(b"got 3")


def test_expect_is_not_answered_when_the_body_is_refused(server: Running) -> None:
    answer = server.exchange(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 3\r\nExpect: 100-continue\r\n\r\n")
    assert answer.startswith(b"HTTP/1.1 403 ")
    assert b"connection: close" in answer


def test_a_refused_upload_shows_its_answer_to_a_client_that_sends_first(server: Running) -> None:
    for _ in range(10):
        with server.connect() as client:
            client.sendall(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 4000000\r\n\r\n")
            for _ in range(40):
                client.sendall(b"a" * 100_000)
            answer = read_all(client)
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert answer.endswith(b"denied")


def test_a_refused_upload_is_not_drained_for_ever(server: Running) -> None:
    sent = 0
    with server.connect() as client:
        client.sendall(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 1000000000\r\n\r\n")
        with contextlib.suppress(ConnectionError, ssl.SSLEOFError):
            while sent < 16 * DRAIN_BYTES_MAX or server.tls is not None:
                client.sendall(b"a" * 1_000_000)
                sent += 1_000_000
    # The kernel holds more for both ends. With TLS, only the time is bounded.
    assert sent < 6 * DRAIN_BYTES_MAX or server.tls is not None


def test_a_refused_upload_that_stays_silent_ends(server: Running) -> None:
    with server.connect() as client:
        client.sendall(b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 10\r\n\r\n")
        assert read_all(client).endswith(b"denied")
        assert wait_until(lambda: not server.connections())


def test_a_malformed_request_behind_another_waits_for_its_turn(server: Running) -> None:
    answer = server.exchange(b"GET /first HTTP/1.1\r\n" + HOST + b"\r\nGET / HTTP/1.1\r\n\r\n")
    first, second = answer.split(b"HTTP/1.1 ")[1:]
    assert first.startswith(b"200 ")
    assert b"b'/first'" in first
    assert second.startswith(b"400 ")


def test_failures_of_the_application_are_documents_or_broken_connections(server: Running) -> None:
    failed = server.exchange(b"DELETE / HTTP/1.1\r\n" + HOST + b"\r\n")
    assert failed.startswith(b"HTTP/1.1 500 ")
    assert b"<Code>InternalError</Code>" in failed
    short = server.exchange(b"GET /short HTTP/1.1\r\n" + HOST + b"\r\n")
    assert short.endswith(b"\r\n\r\nabc")
    injected = server.exchange(b"GET /inject HTTP/1.1\r\n" + HOST + b"\r\n")
    assert injected.startswith(b"HTTP/1.1 500 ")
    assert b"x-evil" not in injected


def test_head_and_old_clients(server: Running) -> None:
    head = server.exchange(b"HEAD / HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert head.endswith(b"\r\n\r\n")
    assert server.exchange(b"GET /chunked HTTP/1.1\r\n" + HOST + CLOSE + b"\r\n").endswith(
        b"3\r\nabc\r\n3\r\ndef\r\n0\r\n\r\n"
    )
    old = server.exchange(b"GET /chunked HTTP/1.0\r\n" + HOST + b"\r\n")
    assert old.endswith(b"\r\n\r\nabcdef")
    assert b"transfer-encoding" not in old


def test_large_bodies_arrive_whole(server: Running) -> None:
    with server.connect() as client:
        client.sendall(b"PUT / HTTP/1.1\r\n" + HOST + b"Content-Length: 20000000\r\n\r\n" + b"a" * 20_000_000)
        assert read_response(client)[1] == b"got 20000000"
        client.sendall(b"GET /again HTTP/1.1\r\n" + HOST + b"\r\n")
        assert b"/again" in read_response(client)[1]
