"""Responses that Rust has formatted, over real sockets: the headers that the connection adds, and the framing."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from starlette.requests import ClientDisconnect
from tests.fixtures.servers.connections import CLOSE, DATE, HOST, Running, read_all, read_response

from orcas.http.extensions import RESPONSE
from orcas.http.status import set_date

ETAG = b'"d41d8cd98f00b204e9800998ecf8427e"'
CLOSING = b"connection: close\r\n"
ERRORS = {"reset": ConnectionResetError, "left": ClientDisconnect, "bug": ZeroDivisionError}


@dataclass(frozen=True)
class Pieces:
    """A body that the application sends piece by piece."""

    length: int


@dataclass(frozen=True)
class Ready:
    """A response as Rust formats it."""

    status: int
    rest: bytes
    closes: bool = False
    download: Pieces | None = None


def head(length: int) -> bytes:
    return b"etag: %b\r\ncontent-length: %d\r\n\r\n" % (ETAG, length)


def start(status: bytes = b"200 OK", date: bytes = DATE) -> bytes:
    return b"HTTP/1.1 %b\r\ndate: %b\r\n" % (status, date)


async def application(scope: Any, receive: Any, send: Any) -> None:
    """The path selects the response: `/whole/N`, `/closes`, `/pieces/N,N…/LENGTH`, `/missing`, `/twice`, `/plain/N`,
    `/fails/ERROR` once the client has gone."""
    what, *numbers = scope["raw_path"].decode().strip("/").split("/")
    if scope["method"] == "PUT" and what != "unread":
        while (await receive())["more_body"]:
            pass
    if what == "plain":
        headers = [(b"etag", ETAG), (b"content-length", numbers[0].encode())]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"z" * int(numbers[0])})
    elif what == "fails":
        while (await receive())["type"] != "http.disconnect":
            pass
        raise ERRORS[numbers[0]]
    elif what == "pieces":
        sizes, length = [int(size) for size in numbers[0].split(",")], int(numbers[1])
        await send({"type": RESPONSE, "response": Ready(200, head(length), download=Pieces(length))})
        for left, size in zip(range(len(sizes) - 1, -1, -1), sizes, strict=True):
            await send({"type": "http.response.body", "body": b"z" * size, "more_body": left > 0})
    else:
        size = int(numbers[0]) if numbers else 0
        status = 404 if what == "missing" else 200
        body = b"" if scope["method"] == "HEAD" else b"z" * size
        response = Ready(status, head(size) + body, closes=what == "closes")
        await send({"type": RESPONSE, "response": response})
        if what == "twice":
            await send({"type": RESPONSE, "response": response})
        if what == "waits":
            assert (await asyncio.wait_for(receive(), 1))["type"] == "http.disconnect"


@pytest.fixture(scope="module", params=["plain", "tls"])
def server(request: pytest.FixtureRequest) -> Iterator[Running]:
    running = Running(application, tls=request.param == "tls")
    yield running
    running.close()


def test_a_failure_is_reported_even_if_the_client_has_gone(server: Running, caplog: pytest.LogCaptureFixture) -> None:
    for error in ("reset", "left", "bug"):
        with server.connect() as client:
            client.sendall(get(f"/fails/{error}"))
    deadline = time.monotonic() + 5
    while not caplog.records and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [record.getMessage() for record in caplog.records] == ["GET b'/fails/bug' failed"]
    assert caplog.records[0].exc_info is not None
    assert caplog.records[0].exc_info[0] is ZeroDivisionError


def get(path: str, method: str = "GET", more: bytes = b"") -> bytes:
    return b"%b %b HTTP/1.1\r\n" % (method.encode(), path.encode()) + HOST + more + b"\r\n"


@pytest.mark.parametrize("size", [0, 1, 1000, 16_000, 16_385, 65_536, 1_000_000])
def test_both_ways_are_the_same_on_the_wire(server: Running, size: int) -> None:
    answers = []
    for way in ("whole", "plain"):
        with server.connect() as client:
            # The second one shows that the connection continues, and where the first one ended.
            client.sendall(get(f"/{way}/{size}") + get("/missing", more=CLOSE))
            answers.append(read_all(client))
    assert answers[0] == answers[1]
    assert answers[0].startswith(start() + head(size) + b"z" * size + start(b"404 Not Found") + CLOSING)


def test_what_closes_says_so_once(server: Running) -> None:
    old = b"GET /whole/1 HTTP/1.0\r\n" + HOST + b"\r\n"
    for request in (get("/closes/1"), get("/closes/1", more=CLOSE), get("/whole/1", more=CLOSE), old):
        assert server.exchange(request) == start() + CLOSING + head(1) + b"z"


def test_a_body_that_is_not_read_ends_the_connection(server: Running) -> None:
    answer = server.exchange(get("/unread", "PUT", b"Content-Length: 10\r\n"))
    assert answer == start() + CLOSING + head(0)
    with server.connect() as client:
        client.sendall(get("/read", "PUT", b"Content-Length: 3\r\n") + b"abc" + get("/missing", more=CLOSE))
        assert read_all(client) == start() + head(0) + start(b"404 Not Found") + CLOSING + head(0)


def test_a_hundred_comes_before_the_response_and_only_if_it_goes_on(server: Running) -> None:
    expecting = b"Expect: 100-continue\r\n"
    with server.connect() as client:
        client.sendall(get("/whole/2", "PUT", expecting + b"Content-Length: 0\r\n"))
        expected = b"HTTP/1.1 100 Continue\r\n\r\n" + start() + head(2) + b"zz"
        answer = b""
        while len(answer) < len(expected):
            answer += client.recv(1000)
        assert answer == expected
    refused = server.exchange(get("/unread", "PUT", expecting + b"Content-Length: 3\r\n"))
    assert refused == start() + CLOSING + head(0)


def test_heads_have_the_length_and_no_body(server: Running) -> None:
    with server.connect() as client:
        client.sendall(get("/whole/1000", "HEAD") + get("/missing", more=CLOSE))
        assert read_all(client) == start() + head(1000) + start(b"404 Not Found") + CLOSING + head(0)


@pytest.mark.parametrize("sizes", ["5", "1,2,2", "100000,100000,1", "0,3"])
def test_pieces_follow_their_head(server: Running, sizes: str) -> None:
    length = sum(map(int, sizes.split(",")))
    with server.connect() as client:
        client.sendall(get(f"/pieces/{sizes}/{length}") + get("/missing", more=CLOSE))
        answer = read_all(client)
    assert answer.startswith(start() + head(length) + b"z" * length + start(b"404 Not Found"))


@pytest.mark.parametrize(("sizes", "length"), [("2,2", 5), ("100000,1", 100_002), ("3,3", 5), ("200000", 100_000)])
def test_pieces_of_another_length_end_the_connection(server: Running, sizes: str, length: int) -> None:
    with server.connect() as client:
        client.sendall(get(f"/pieces/{sizes}/{length}") + get("/missing"))
        answer = read_all(client)
    assert b"404 Not Found" not in answer
    _, _, body = answer.partition(b"\r\n\r\n")
    assert len(body) < length or answer.startswith(b"HTTP/1.1 500")


def test_an_exchange_is_over_with_its_response(server: Running) -> None:
    """A second response is an error of the application. A `receive` after it reports the end at once."""
    for path in ("/twice/1", "/waits/1"):
        with server.connect() as client:
            client.sendall(get(path) + get("/missing", more=CLOSE))
            assert read_all(client) == start() + head(1) + b"z" + start(b"404 Not Found") + CLOSING + head(0)


def test_the_date_is_the_one_of_the_moment(server: Running) -> None:
    other = b"Fri, 02 Jan 1970 00:00:00 GMT"
    with server.connect() as client:
        client.sendall(get("/whole/1"))
        assert read_response(client)[0].startswith(start())
        try:
            set_date(other)
            # Its status was requested in the last second too.
            client.sendall(get("/whole/1", more=CLOSE))
            assert read_all(client).endswith(start(date=other) + CLOSING + head(1) + b"z")
        finally:
            set_date(DATE)
