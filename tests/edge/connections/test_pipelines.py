"""Thousands of requests that a client sends before it reads the answers, in random order and pieces."""

from __future__ import annotations

import contextlib
import os
import random
import secrets
import select
import socket
import ssl
import struct
import sys
import time
from collections.abc import Callable, Iterator

import pytest
from tests.fixtures.servers.connections import CLOSE, HOST, LIMITS, Running, read_all
from tests.fixtures.waiting import wait_until

from .test_framing import application

# Seconds of random tests. The output of a failed run has its seed.
FUZZ_SECONDS = float(os.environ.get("ORCAS_FUZZ_SECONDS", "1"))


@pytest.fixture(scope="module", params=["plain", "tls"])
def server(request: pytest.FixtureRequest) -> Iterator[Running]:
    running = Running(application, tls=request.param == "tls")
    yield running
    running.close()


def get(path: object, extra: bytes = b"") -> bytes:
    return b"GET /%b HTTP/1.1\r\n" % str(path).encode() + HOST + extra + b"\r\n"


def answers(client: socket.socket, last: bytes, request: bytes = b"") -> bytes:
    """What comes, up to `last`, while `request` is sent. By one thread: two must not use one TLS connection at a time."""
    answer, unsent, waits = b"", memoryview(request), (BlockingIOError, ssl.SSLWantReadError, ssl.SSLWantWriteError)
    client.setblocking(False)
    while last not in answer:
        readable, writable, _ = select.select([client], [client] if unsent else [], [], 60)
        assert readable or writable, answer[-300:]
        with contextlib.suppress(*waits):
            while piece := client.recv(1 << 20):
                answer += piece
            raise AssertionError(f"closed behind {answer[-300:]!r}")
        with contextlib.suppress(*waits):
            unsent = unsent[client.send(unsent) :] if unsent else unsent
    client.settimeout(60)
    return answer


@pytest.mark.parametrize("count", [2, 17, 3_000])
def test_any_number_of_pipelined_requests_is_answered_in_order(server: Running, count: int) -> None:
    with server.connect() as client:
        request = b"".join(get(number) for number in range(count))
        answer = answers(client, b"b'/%d'" % (count - 1), request)
    assert [int(part.partition(b"'")[0]) for part in answer.split(b"(b'/")[1:]] == list(range(count))


def test_a_read_that_ends_inside_a_head_counts_no_other(server: Running) -> None:
    """The limit is for one head, not for everything that arrived in the same read."""
    many = b"".join(get(number) for number in range(LIMITS.max_head_size // 20))
    with server.connect() as client:
        client.sendall(many + b"GET /last HTTP/1.1\r\nHo")
        answers(client, b"b'/%d'" % (LIMITS.max_head_size // 20 - 1))
        client.sendall(b"st: a\r\n\r\n")
        answers(client, b"b'/last'")


def test_bodies_in_a_long_pipeline_stay_with_their_requests(server: Running) -> None:
    sizes = [0, 1, 5, 4_000, 100_000] * 40
    with server.connect() as client:
        request = b"".join(
            b"PUT / HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n\r\n" % n + b"\r\n" * (n // 2) + b"x" * (n % 2)
            for n in sizes
        )
        answer = answers(client, b"b'/end'", request + get("end"))
    got = [int(part.partition(b"HTTP")[0]) for part in answer.split(b"\r\n\r\ngot ")[1:]]
    assert got == sizes


def test_a_malformed_request_behind_many_is_refused_in_its_turn(server: Running) -> None:
    answer = server.exchange(b"".join(get(number) for number in range(500)) + b"GET nothing\r\n\r\n" + get("never"))
    assert answer.count(b"HTTP/1.1 200") == 500
    assert answer.count(b"HTTP/1.1 400") == 1
    assert answer.index(b"HTTP/1.1 400") > answer.index(b"b'/499'")
    assert b"never" not in answer


PARTS: list[Callable[[random.Random], bytes]] = [
    lambda draw: get(draw.randrange(10)) * draw.choice([1, 2, 100, 3_000]),
    lambda draw: get("x", CLOSE),
    lambda draw: get("chunked"),
    lambda draw: get("x").replace(b"GET", draw.choice([b"HEAD", b"PURGE", b"POST", b"OPTIONS", b"CONNECT", b"PRI"])),
    lambda draw: b"PUT / HTTP/1.1\r\n" + HOST + b"Content-Length: %d\r\n" % (n := draw.choice([0, 3, 70_000, 300_000]))
    + draw.choice([b"", b"Expect: 100-continue\r\n", CLOSE]) + b"\r\n" + bytes(draw.choice([n, n // 2, n + 1])),
    lambda draw: b"PUT / HTTP/1.1\r\n" + HOST + b"Transfer-Encoding: chunked\r\n\r\n"
    + b"".join(b"%x\r\n%b\r\n" % (n, bytes(n)) for n in draw.choices([1, 100, 70_000], k=3)) + b"0\r\n\r\n",
    lambda draw: b"POST / HTTP/1.1\r\n" + HOST + b"Content-Length: 200000\r\n\r\n" + bytes(draw.randrange(200_000)),
    lambda draw: get("u", b"Connection: upgrade\r\nUpgrade: h2c\r\n"),
    lambda draw: b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
    lambda draw: b"GET / HTTP/1.1\r\nContent-Length: %d\r\n\r\n" % 10 ** draw.choice([1, 30, 4_000]),
    lambda draw: b"GET /" + draw.randbytes(draw.randrange(200)),
    lambda draw: b"GET /%b HTTP/1.1\r\n" % (b"%" + draw.randbytes(2).hex().encode()) + HOST + b"\r\n",
    lambda draw: draw.randbytes(draw.randrange(1, 40)),
    lambda draw: get("x", b"X: " + b"a" * draw.choice([100, 9_000])),
    lambda draw: b"\r\n" * draw.randrange(1, 100),
]  # fmt: skip


def misbehave(server: Running, draw: random.Random) -> None:
    """One connection: random requests, cut anywhere, read or not, ended in one of four ways."""
    sent = b"".join(draw.choice(PARTS)(draw) for _ in range(draw.randrange(1, 6)))
    if draw.random() < 0.3:
        at = draw.randrange(len(sent) + 1)
        sent = sent[:at] + draw.randbytes(draw.randrange(3)) + sent[at + draw.randrange(3) :]
    with server.connect() as client, contextlib.suppress(OSError):
        client.settimeout(0.05)
        for cut in sorted(draw.randrange(len(sent) + 1) for _ in range(draw.randrange(4))):
            client.sendall(sent[:cut])
            sent = sent[cut:]
            if draw.random() < 0.3:
                client.recv(1 << 16)
        client.sendall(sent)
        ending = draw.randrange(4)
        if ending == 0:
            client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif ending == 1:
            client.shutdown(socket.SHUT_WR)
        elif ending == 2:
            read_all(client)


def test_nothing_that_clients_do_fails(server: Running, caplog: pytest.LogCaptureFixture) -> None:
    seed = secrets.token_hex(4)
    sys.stdout.write(f"seed {seed}\n")
    draw = random.Random(seed)
    until = time.monotonic() + FUZZ_SECONDS
    while time.monotonic() < until:
        misbehave(server, draw)
        assert caplog.records == []
    assert server.exchange(get("alive", CLOSE)).startswith(b"HTTP/1.1 200")
    assert wait_until(lambda: not server.connections())
