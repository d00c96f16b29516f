"""Bodies that bypass the parser, over real sockets, with an application in place of the store."""

from __future__ import annotations

import asyncio
import random
import socket
from collections.abc import Iterator
from hashlib import sha256
from typing import Any

import pytest
import uvloop
from tests.fixtures.servers.connections import CLOSE, HOST, TICK, Running, read_all, read_response

from orcas.http.extensions import REST

LENGTH = 3_000_001


class Sink:
    """Collects a body; admits `reads` of at most `room` bytes before it must be asked again."""

    def __init__(self, room: int, reads: int) -> None:
        self.body = bytearray()
        self.left = reads
        self._room = room
        self._lent = bytearray()

    def push(self, piece: bytes) -> None:
        self.body += piece

    def lend(self, limit: int) -> memoryview:
        self._lent = bytearray(min(limit, self._room))
        return memoryview(self._lent)

    def rest(self) -> None:
        """Nothing was read: keep the memory."""

    def filled(self, count: int) -> bool:
        self.body += self._lent[:count]
        self.left -= 1
        return self.left > 0


async def application(scope: Any, receive: Any, send: Any) -> None:
    """PUT answers with a hash; `/ROOM/READS` says how it streams, and optionally what it does afterwards."""
    room, reads, *then = scope["raw_path"].decode().strip("/").split("/")
    sink, streamed = Sink(int(room), int(reads)), 0
    message = await receive()
    if message["type"] == "http.disconnect":
        return
    sink.push(message["body"])
    rest = message.get(REST)
    complete = not message["more_body"]
    while not complete and then != ["refuse"]:
        if rest is None or rest.pieces:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            sink.push(message["body"])
            complete, rest = not message["more_body"], message.get(REST)
            continue
        try:
            complete = await rest.stream_into(sink)
        except ConnectionError:
            scope["app"].gone.append(len(sink.body))
            return
        streamed += 1
        sink.left = int(reads)
        if then == ["rests"]:
            await asyncio.sleep(12 * TICK)
            then = []
        elif then == ["refuse-later"]:
            break
        elif then == ["fails"]:
            raise RuntimeError("the application failed")
    digest = b"%d streamed %d %b" % (len(sink.body), streamed > 0, sha256(sink.body).hexdigest().encode())
    status = 200 if complete else 403
    headers = [(b"content-length", b"%d" % len(digest))]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": digest})


class Application:
    """The application, and the clients whose disconnection it noticed."""

    def __init__(self) -> None:
        self.gone: list[int] = []

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await application({**scope, "app": self}, receive, send)


@pytest.fixture(scope="module", params=["uvloop", "asyncio", "tls"])
def server(request: pytest.FixtureRequest) -> Iterator[Running]:
    new_loop = asyncio.new_event_loop if request.param == "asyncio" else uvloop.new_event_loop
    running = Running(Application(), new_loop, tls=request.param == "tls")
    yield running
    running.close()


def put(path: str, length: int, more: bytes = b"") -> bytes:
    return b"PUT %b HTTP/1.1\r\n" % path.encode() + HOST + b"Content-Length: %d\r\n" % length + more + b"\r\n"


def noise(length: int) -> bytes:
    return random.Random(length).randbytes(length)


def taken(body: bytes, *, streamed: bool = True) -> bytes:
    return b"%d streamed %d %b" % (len(body), streamed, sha256(body).hexdigest().encode())


@pytest.mark.parametrize(("room", "reads"), [(1 << 20, 1000), (1 << 20, 1), (65536, 3), (1000, 7)])
def test_a_body_arrives_whole_and_the_connection_goes_on(server: Running, room: int, reads: int) -> None:
    body = noise(LENGTH)
    with server.connect() as client:
        for _ in range(2):
            # The next request follows the body, although both arrive at once.
            head = put(f"/{room}/{reads}", LENGTH)
            client.sendall(head + body + head)
            assert read_response(client)[1] == taken(body)
            client.sendall(body)
            assert read_response(client)[1] == taken(body)


def test_a_body_in_many_small_pieces_arrives_whole(server: Running) -> None:
    body = noise(300_000)
    with server.connect() as client:
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        client.sendall(put("/65536/5", len(body)) + body[:1])
        for at in range(1, len(body), 3001):
            client.sendall(body[at : at + 3001])
        assert read_response(client)[1] == taken(body)


def test_short_bodies_and_those_of_unknown_length_are_not_poured(server: Running) -> None:
    body = noise(60_000)
    with server.connect() as client:
        client.sendall(put("/65536/5", len(body)) + body)
        assert read_response(client)[1] == taken(body, streamed=False)
        chunk = b"%x\r\n" % len(body) + body + b"\r\n"
        head = b"PUT /65536/5 HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
        client.sendall(head + 20 * chunk + b"0\r\n\r\n")
        assert read_response(client)[1] == taken(20 * body, streamed=False)


def test_what_follows_the_last_request_is_not_answered(server: Running) -> None:
    body = noise(LENGTH)
    head = put("/65536/1000", LENGTH, CLOSE)
    answer = server.exchange(head + body + head)
    assert answer.count(b"HTTP/1.1") == 1
    assert answer.endswith(taken(body))


def test_a_client_that_goes_away_is_noticed(server: Running) -> None:
    gone = server.application.gone  # type: ignore[attr-defined]
    before = len(gone)
    with server.connect() as client:
        client.sendall(put("/65536/1000", LENGTH) + noise(LENGTH)[:-1])
    for _ in range(100):
        if len(gone) > before:
            break
        client.close()
        asyncio.run(asyncio.sleep(0.05))
    (had,) = gone[before:]
    # A client with TLS that has not read its session tickets resets the connection.
    assert had == LENGTH - 1 or server.tls is not None


def test_a_refusal_in_the_middle_reaches_a_client_that_sends_first(server: Running) -> None:
    with server.connect() as client:
        client.sendall(put("/65536/3/refuse-later", LENGTH) + noise(LENGTH) + put("/65536/3", 0))
        answer = read_all(client)
    assert answer.startswith(b"HTTP/1.1 403")
    assert answer.count(b"HTTP/1.1") == 1
    assert b"connection: close" in answer


def test_a_failure_in_the_middle_is_a_document(server: Running) -> None:
    with server.connect() as client:
        client.sendall(put("/65536/3/fails", LENGTH) + noise(LENGTH))
        answer = read_all(client)
    assert answer.startswith(b"HTTP/1.1 500")
    assert answer.count(b"HTTP/1.1") == 1


def test_a_body_that_stalls_is_refused(server: Running) -> None:
    with server.connect() as client:
        client.sendall(put("/65536/1000", LENGTH) + noise(LENGTH)[:1_000_000])
        answer = read_all(client)
    assert answer.startswith(b"HTTP/1.1 400")
    assert b"<Code>RequestTimeout</Code>" in answer


def test_an_application_that_rests_is_no_stall(server: Running) -> None:
    body = noise(LENGTH)
    with server.connect() as client:
        client.settimeout(10)
        client.sendall(put("/65536/3/rests", LENGTH) + body)
        assert read_response(client)[1] == taken(body)
