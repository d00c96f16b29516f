"""Hundreds of clients disconnect at the worst moment: nothing leaks, nothing is stored partly, others are served."""

from __future__ import annotations

import contextlib
import random
import secrets
import socket
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from tests.fixtures.servers.memory import resident
from tests.fixtures.targets import content_of
from tests.fixtures.wire import Connection, Signer

import orcas

BUCKET = "storm"
MIB = 1 << 20
LARGE = 6 * MIB
# The minimum budget of a server: a leak of a few pieces would stop it.
BUDGET = 8 * MIB
STORMS = 5
CLIENTS = 100


@pytest.fixture(scope="module")
def server() -> Iterator[orcas.Server]:
    """A server of its own, whose memory is watched."""
    with orcas.Server(memory=True, body_budget=BUDGET, body_timeout_sec=5) as running:
        signer = Signer.of(running)
        assert signer.roundtrip(signer.request("PUT", f"/{BUCKET}")).status == 200
        for name, size in (("small", 1000), ("medium", 60_000), ("large", LARGE)):
            assert (
                signer.roundtrip(signer.request("PUT", f"/{BUCKET}/{name}", body=content_of(name, size))).status == 200
            )
        yield running


def sockets(pid: int) -> int:
    """Open sockets of a process. Its other descriptors belong to bounded pools."""
    with contextlib.suppress(FileNotFoundError):
        return sum(path.readlink().name.startswith("socket:") for path in Path(f"/proc/{pid}/fd").iterdir())
    # One was closed meanwhile.
    return sys.maxsize


def settled(measure: Callable[[], int], at_most: int, seconds: float = 15) -> int:
    """Wait until `measure` is low enough; its last value."""
    deadline = time.monotonic() + seconds
    while (value := measure()) > at_most and time.monotonic() < deadline:
        time.sleep(0.1)
    return value


def reset(connection: Connection) -> None:
    """Close so that the server gets a reset instead of a clean end."""
    connection.sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.sock.close()


def vanish(signer: Signer, draw: random.Random, name: str) -> tuple[Connection, str, int]:
    """Begin a request on a new connection. Returns it, the path that it may create, and its size; -1 if it must not."""
    connection = signer.connect()
    path = f"/{BUCKET}/{name}"
    kind = draw.randrange(9)
    if kind == 0:
        connection.push(signer.put(path, 1000) + content_of(name, draw.randrange(1000)))
    elif kind == 1:
        connection.push(signer.put(path, LARGE) + content_of(name, draw.randrange(1, MIB)))
    elif kind == 2:
        connection.push(signer.request("PUT", path, body=content_of(name, 1000)))
        return connection, path, 1000
    elif kind == 3:
        connection.push(signer.request("PUT", path, body=content_of(name, 100_000), payload="UNSIGNED-PAYLOAD"))
        return connection, path, 100_000
    elif kind == 4:
        connection.push(signer.request("GET", f"/{BUCKET}/large"))
        if draw.random() < 0.7:
            connection.sock.recv(draw.randrange(1, 300_000))
    elif kind == 5:
        connection.push(signer.request("GET", f"/{BUCKET}/medium") * 10)
    elif kind == 6:
        connection.push(signer.request("GET", f"/{BUCKET}", [("list-type", "2")]) * 5)
    elif kind == 7:
        connection.push(signer.put(path, 1000, [("expect", "100-continue")]))
        if draw.random() < 0.5:
            connection.sock.recv(100)
    else:
        connection.push(signer.request("PUT", path, headers=[("x-amz-copy-source", f"/{BUCKET}/large")]))
        return connection, path, LARGE
    return connection, path, -1


def test_a_storm_of_disconnects(server: orcas.Server) -> None:
    seed = secrets.token_hex(4)
    sys.stdout.write(f"seed {seed}\n")
    draw = random.Random(seed)
    signer = Signer.of(server)
    load_at_full_budget(signer)
    memory, open_sockets = resident(server.pid), sockets(server.pid)
    outcomes: dict[str, tuple[str, int]] = {}
    for storm in range(STORMS):
        open_connections = []
        for client in range(CLIENTS):
            name = f"{storm}-{client}"
            connection, path, size = vanish(signer, draw, name)
            outcomes[path] = (name, size)
            open_connections.append(connection)
        draw.shuffle(open_connections)
        for connection in open_connections:
            (reset if draw.random() < 0.5 else lambda gone: gone.sock.close())(connection)
        answer = signer.roundtrip(signer.request("GET", f"/{BUCKET}/small"))
        assert answer.body == content_of("small", 1000)
    assert settled(lambda: sockets(server.pid), open_sockets) <= open_sockets
    check_outcomes(signer, outcomes)
    # More than the whole budget at once: this fails if a dead client still holds a piece.
    load_at_full_budget(signer)
    assert settled(lambda: resident(server.pid), memory + 64 * MIB) <= memory + 64 * MIB


def check_outcomes(signer: Signer, outcomes: dict[str, tuple[str, int]]) -> None:
    """The object is complete or absent, and absent if its body was never complete."""
    whole = 0
    with signer.connect() as connection:
        for path, (name, size) in outcomes.items():
            connection.send(signer.request("GET", path))
            answer = connection.response()
            assert answer.status in (200, 404)
            if answer.status == 200:
                whole += 1
                assert size >= 0, f"{path} was stored from a body that never came"
                assert answer.body == (content_of("large", LARGE) if size == LARGE else content_of(name, size))
    assert whole > 0


def load_at_full_budget(signer: Signer) -> None:
    """Concurrent uploads and downloads, together several times the budget; all must succeed."""
    failures: list[str] = []

    def upload(number: int) -> None:
        path, body = f"/{BUCKET}/full-{number}", content_of(number, LARGE)
        if signer.roundtrip(signer.request("PUT", path, body=body, payload="UNSIGNED-PAYLOAD")).status != 200:
            failures.append(f"upload {number}")
        if signer.roundtrip(signer.request("GET", path)).body != body:
            failures.append(f"download {number}")

    threads = [threading.Thread(target=upload, args=(number,), daemon=True) for number in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(40)
        assert not thread.is_alive(), "stuck: budget or slots have leaked"
    assert not failures


def test_stalled_uploads_do_not_starve_others(server: orcas.Server) -> None:
    """More stalled uploads than the budget has room for, and a small request beside them."""
    signer = Signer.of(server)
    stalled = [signer.connect() for _ in range(40)]
    try:
        for number, connection in enumerate(stalled):
            connection.sock.settimeout(0.2)
            try:
                connection.push(signer.put(f"/{BUCKET}/stalled-{number}", LARGE) + bytes(MIB))
            except TimeoutError:
                continue
        began = time.monotonic()
        assert signer.roundtrip(signer.request("GET", f"/{BUCKET}/small")).body == content_of("small", 1000)
        assert time.monotonic() - began < 25
        # An upload waits for room at most until the stalled ones time out.
        with signer.connect(30) as connection:
            connection.push(signer.request("PUT", f"/{BUCKET}/patient", body=b"x" * 1000))
            assert connection.response().status == 200
    finally:
        for connection in stalled:
            connection.sock.close()


def unsent(server: orcas.Server, connection: Connection) -> int:
    """Bytes that the kernel keeps of what the server has written on a connection."""
    port, peer = (int(end.rpartition(":")[2]) for end in (server.endpoint, f":{connection.sock.getsockname()[1]}"))
    for line in Path("/proc/net/tcp").read_text().splitlines()[1:]:
        _, local, remote, _, queues, *_ = line.split()
        if [int(end.partition(":")[2], 16) for end in (local, remote)] == [port, peer]:
            return int(queues.partition(":")[0], 16)
    return 0


@pytest.mark.skipif(not Path("/proc/net/tcp").exists(), reason="the kernel does not show it")
def test_an_unread_download_fills_no_megabytes_of_the_kernel(server: orcas.Server) -> None:
    signer = Signer.of(server)
    with signer.connect() as connection:
        connection.push(signer.request("GET", f"/{BUCKET}/large"))
        sizes = [0]
        while sizes[-1] == 0 or sizes[-1] != sizes[max(0, len(sizes) - 10)] or len(sizes) < 20:
            time.sleep(0.02)
            sizes.append(unsent(server, connection))
        assert sizes[-1] < MIB
        assert connection.response().body == content_of("large", LARGE)


def test_stalled_downloads_do_not_starve_others(server: orcas.Server) -> None:
    """Readers that stop reading hold no more than their socket and a piece."""
    signer = Signer.of(server)
    stalled = [signer.connect() for _ in range(40)]
    try:
        for connection in stalled:
            connection.push(signer.request("GET", f"/{BUCKET}/large"))
        time.sleep(0.5)
        for _ in range(5):
            began = time.monotonic()
            assert signer.roundtrip(signer.request("GET", f"/{BUCKET}/medium")).body == content_of("medium", 60_000)
            assert time.monotonic() - began < 25
        with signer.connect(30) as connection:
            connection.push(signer.request("GET", f"/{BUCKET}/large"))
            assert connection.response().body == content_of("large", LARGE)
        # Readers that stopped get every byte once they continue.
        assert stalled[0].response().body == content_of("large", LARGE)
    finally:
        for connection in stalled:
            connection.sock.close()
