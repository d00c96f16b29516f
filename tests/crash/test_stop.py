"""SIGTERM: requests in flight finish, acknowledged changes are kept, and the exit is 0 within the drain time."""

from __future__ import annotations

import os
import re
import signal
import threading
import time
from pathlib import Path

import pytest
from tests.fixtures.marks import full
from tests.fixtures.targets import content_of
from tests.fixtures.waiting import wait_until
from tests.fixtures.wire import Connection, EndOfConnectionError, Signer

import orcas

from .ledger import Ledger
from .load import BUCKET, CHUNK_SIZE, Load, Worker
from .test_kill import strict
from .verify import Verifier

pytestmark = pytest.mark.crash

MIB = 1 << 20
DRAIN_SECONDS = 5
# Beyond the drain time: cancelling, flushing and closing on a busy machine.
END_SECONDS = 30


def refuses(signer: Signer) -> bool:
    """Whether nothing listens on the port any more."""
    try:
        signer.connect().sock.close()
    except OSError:
        return True
    return False


def begin_upload(signer: Signer, connection: Connection, name: str, length: int) -> None:
    """Send the head of a PUT, and wait until the server has seen it."""
    connection.send(signer.put(f"/{BUCKET}/{name}", length, [("expect", "100-continue")]))
    assert connection.sock.recv(1 << 16).startswith(b"HTTP/1.1 100 ")


def start(data: Path, **settings: object) -> orcas.Server:
    server = orcas.Server(data, **({"drain_timeout_sec": DRAIN_SECONDS, "chunk_size": CHUNK_SIZE} | settings))
    signer = Signer.of(server)
    assert signer.roundtrip(signer.request("PUT", f"/{BUCKET}")).status in (200, 409)
    return server


def terminate(server: orcas.Server) -> None:
    os.kill(server.pid, signal.SIGTERM)


def exit_code(server: orcas.Server, seconds: float) -> int:
    """Wait for the server's end."""
    code = server._process.wait(seconds)
    server.stop()
    return code


@pytest.mark.parametrize("durability", ["buffered", *full("sync", "interval")])
def test_under_load_everything_acknowledged_is_kept(tmp_path: Path, durability: str) -> None:
    """In every mode, a clean stop flushes."""
    server = start(tmp_path, durability=durability, write_buffer_window_sec=30)
    ledger = Ledger()
    for number in range(2):
        load = Load(Signer.of(server), ledger, sync=True, round=f"{durability}{number}")
        workers = [Worker(load, client, "stop") for client in range(6)]
        for worker in workers:
            worker.start()
        time.sleep(0.7)
        # A load that does nothing proves nothing.
        assert wait_until(lambda: ledger.acknowledged() > 50)
        load.stopping.set()
        terminate(server)
        assert exit_code(server, DRAIN_SECONDS + END_SECONDS) == 0
        for worker in workers:
            worker.join(20)
        assert not load.problems, load.problems
        server = start(tmp_path, durability=durability, write_buffer_window_sec=30)
        with Verifier(Signer.of(server), ledger) as verifier:
            found = verifier.read_all()
            verifier.check_list(found)
            strict(verifier, load, found)
            verifier.settle(verifier.read_all())
    server.stop()


def test_with_commits_pending(tmp_path: Path) -> None:
    """Many writes in flight at the moment of the signal: each is answered and kept, or not answered at all."""
    server = start(tmp_path)
    signer = Signer.of(server)
    answered: set[str] = set()
    names = [[f"{client}-{n}" for n in range(60)] for client in range(8)]
    connections = [signer.connect() for _ in names]

    def collect(connection: Connection, mine: list[str]) -> None:
        try:
            for name in mine:
                assert connection.response().status == 200
                answered.add(name)
        except (EndOfConnectionError, OSError):
            return

    requests = [
        b"".join(signer.request("PUT", f"/{BUCKET}/{name}", body=content_of(name, 900)) for name in mine)
        for mine in names
    ]
    for connection, request in zip(connections, requests, strict=True):
        connection.push(request)
    terminate(server)
    readers = [threading.Thread(target=collect, args=pair) for pair in zip(connections, names, strict=True)]
    for reader in readers:
        reader.start()
    for reader in readers:
        reader.join(20)
    for connection in connections:
        connection.sock.close()
    assert exit_code(server, DRAIN_SECONDS + END_SECONDS) == 0
    server = start(tmp_path)
    signer = Signer.of(server)
    for mine in names:
        for name in mine:
            answer = signer.roundtrip(signer.request("GET", f"/{BUCKET}/{name}"))
            assert answer.status in (200, 404)
            if answer.status == 200:
                assert answer.body == content_of(name, 900)
            else:
                assert name not in answered
    server.stop()


def test_a_large_download_is_finished(tmp_path: Path) -> None:
    server = start(tmp_path, drain_timeout_sec=30)
    signer = Signer.of(server)
    body = content_of("download", 40 * MIB)
    assert (
        signer.roundtrip(signer.request("PUT", f"/{BUCKET}/large", body=body, payload="UNSIGNED-PAYLOAD")).status == 200
    )
    with signer.connect() as connection:
        connection.send(signer.request("GET", f"/{BUCKET}/large"))
        connection.buffer = connection.sock.recv(1000)
        terminate(server)
        time.sleep(0.5)
        response = connection.response()
        assert response.body == body
        assert connection.ended()
    assert exit_code(server, 30) == 0


def test_a_download_that_stalls_is_cut_off_and_never_short(tmp_path: Path) -> None:
    server = start(tmp_path)
    signer = Signer.of(server)
    body = content_of("download", 40 * MIB)
    assert (
        signer.roundtrip(signer.request("PUT", f"/{BUCKET}/large", body=body, payload="UNSIGNED-PAYLOAD")).status == 200
    )
    with signer.connect() as connection:
        connection.send(signer.request("GET", f"/{BUCKET}/large"))
        connection.buffer = connection.sock.recv(1000)
        terminate(server)
        assert exit_code(server, DRAIN_SECONDS + END_SECONDS) == 0
        with pytest.raises(EndOfConnectionError) as end:
            connection.response()
        head, _, received = end.value.received.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        assert length
        assert int(length[1]) == len(body) > len(received)


@pytest.mark.parametrize("stalls", [False, True], ids=["goes on", "stalls"])
def test_an_upload_under_way(tmp_path: Path, stalls: bool) -> None:
    server = start(tmp_path)
    signer = Signer.of(server)
    body = content_of("upload", 10 * MIB)
    with signer.connect() as connection:
        connection.send(signer.put(f"/{BUCKET}/large", len(body)) + body[: 4 * MIB])
        time.sleep(0.2)
        terminate(server)
        time.sleep(0.3)
        if not stalls:
            connection.send(body[4 * MIB :])
            response = connection.response()
            assert (response.status, response.closes) == (200, True)
        assert exit_code(server, DRAIN_SECONDS + END_SECONDS) == 0
    server = start(tmp_path)
    signer = Signer.of(server)
    answer = signer.roundtrip(signer.request("GET", f"/{BUCKET}/large"))
    if stalls:
        assert answer.status == 404
    else:
        assert answer.body == body
    server.stop()


def test_nothing_new_is_accepted(tmp_path: Path) -> None:
    server = start(tmp_path)
    signer = Signer.of(server)
    with signer.connect() as busy:
        begin_upload(signer, busy, "slow", 1000)
        terminate(server)
        assert wait_until(lambda: refuses(signer))
        busy.send(bytes(1000))
        assert busy.response().status == 200
    assert exit_code(server, DRAIN_SECONDS + END_SECONDS) == 0


def test_a_second_signal_ends_the_wait(tmp_path: Path) -> None:
    server = orcas.Server(tmp_path, drain_timeout_sec=60)
    signer = Signer.of(server)
    signer.roundtrip(signer.request("PUT", f"/{BUCKET}"))
    with signer.connect() as connection:
        begin_upload(signer, connection, "never", 1000)
        terminate(server)
        assert wait_until(lambda: refuses(signer))
        terminate(server)
        assert exit_code(server, END_SECONDS) == 0
