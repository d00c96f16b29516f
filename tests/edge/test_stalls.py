"""Uploads that begin and then stall, more than memory has room for: nobody else waits for them."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator

import pytest
from tests.fixtures.targets import content_of
from tests.fixtures.wire import Connection, Signer

import orcas

BUCKET = "stalls"
KIB = 1 << 10
MIB = 1 << 20
# The minimum for a server. Incomplete small bodies may hold half of it.
BUDGET = 8 * MIB
SMALL = 60 * KIB
LARGE = 2 * MIB


@pytest.fixture(scope="module")
def server() -> Iterator[orcas.Server]:
    """A server whose body timeout is longer than these tests take."""
    with orcas.Server(memory=True, body_budget=BUDGET, body_timeout_sec=300) as running:
        signer = Signer.of(running)
        assert signer.roundtrip(signer.request("PUT", f"/{BUCKET}")).status == 200
        yield running


def check_others(signer: Signer) -> None:
    """Uploads of both kinds, and a read, on new connections."""
    for size in (0, 1, KIB, SMALL, MIB, LARGE):
        path, body = f"/{BUCKET}/{size}", content_of(size, size)
        assert signer.roundtrip(signer.request("PUT", path, body=body, payload="UNSIGNED-PAYLOAD")).status == 200
        assert signer.roundtrip(signer.request("GET", path)).body == body


def silent(connection: Connection) -> bool:
    """Whether the server has neither answered nor ended the connection."""
    connection.sock.setblocking(False)
    try:
        return connection.sock.recv(1, socket.MSG_PEEK) is None
    except BlockingIOError:
        return True
    finally:
        connection.sock.settimeout(10)


def begin(
    stack: contextlib.ExitStack, signer: Signer, name: object, size: int, sent: int, source: str = ""
) -> Connection:
    """Send the head of an upload of `size` bytes and the first `sent` of them."""
    address = (source, 0) if source else None
    connection = Connection(socket.create_connection((signer.host, signer.port), 10, source_address=address))
    stack.callback(connection.sock.close)
    connection.send(signer.put(f"/{BUCKET}/stalled-{name}", size) + content_of(name, sent))
    return connection


# The last one fills its reads exactly, so that the transport requests memory for another read.
STAGES = {
    "a byte": [1],
    "a piece": [100_000],
    "pieces": [MIB],
    "all but a byte": [LARGE - 1],
    "whole reads": [100_000, 64 * KIB, 64 * KIB],
}


@pytest.mark.parametrize("stages", STAGES.values(), ids=STAGES)
def test_stalled_large_uploads_hold_up_nobody(server: orcas.Server, stages: list[int]) -> None:
    signer = Signer.of(server)
    with contextlib.ExitStack() as stack:
        stalled = [begin(stack, signer, number, LARGE, stages[0]) for number in range(60)]
        sent = stages[0]
        for stage in stages[1:]:
            # Time for the server to read what was sent.
            time.sleep(0.3)
            for number, connection in enumerate(stalled):
                connection.send(content_of(number, sent + stage)[sent:])
            sent += stage
        check_others(signer)
        assert all(silent(connection) for connection in stalled), "none had to be ended for that"
        for number in (0, 59):
            stalled[number].send(content_of(number, LARGE)[sent:])
            assert stalled[number].response().status == 200
            assert signer.roundtrip(signer.request("GET", f"/{BUCKET}/stalled-{number}")).body == content_of(
                number, LARGE
            )


def test_stalled_small_uploads_hold_up_nobody_and_the_oldest_are_ended(server: orcas.Server) -> None:
    signer = Signer.of(server)
    with contextlib.ExitStack() as stack:
        # Older than all the others, but its client holds little.
        other = begin(stack, signer, "other", SMALL, SMALL - 1, source="127.0.0.2")
        stalled = [begin(stack, signer, f"small-{number}", SMALL, SMALL - 1) for number in range(150)]
        check_others(signer)
        ended = [number for number, connection in enumerate(stalled) if not silent(connection)]
        left = [number for number in range(150) if number not in ended]
        # Several threads of the server read, so a few may arrive in another order than they were sent in.
        assert sum(ended) / len(ended) < sum(left) / len(left)
        assert len(ended) >= 150 - BUDGET // 2 // SMALL
        answer = stalled[ended[0]].response()
        assert (answer.status, b"<Code>SlowDown</Code>" in answer.body) == (503, True)
        for name, connection in (("other", other), (f"small-{left[-1]}", stalled[left[-1]])):
            connection.send(content_of(name, SMALL)[-1:])
            assert connection.response().status == 200
            assert signer.roundtrip(signer.request("GET", f"/{BUCKET}/stalled-{name}")).body == content_of(name, SMALL)
        assert signer.roundtrip(signer.request("HEAD", f"/{BUCKET}/stalled-small-{ended[0]}"), "HEAD").status == 404
