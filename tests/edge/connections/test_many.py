"""Thousands of connections that say nothing: others are served, and memory has a bound."""

from __future__ import annotations

import contextlib
import resource
import selectors
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fixtures.servers.memory import resident
from tests.fixtures.waiting import wait_until
from tests.fixtures.wire import Signer

import orcas

CONNECTIONS = 10_000
# Those of the server, of pytest and of its plugins.
OTHER_FILES = 500
# The most that an idle connection may take of the server's memory, above the 18.5 KiB that docs/performance/listener.md
# has for one that had an answer.
BYTES_MAX = 24 << 10


@pytest.fixture
def files() -> Iterator[None]:
    """Room for both ends: each of the two processes has one."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = CONNECTIONS + OTHER_FILES
    if hard != resource.RLIM_INFINITY and hard < wanted:
        pytest.skip(f"a process may have {hard} open files, and this takes {wanted}")
    if soft != resource.RLIM_INFINITY and soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    yield
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def connections(signer: Signer) -> float:
    """How many the server has, beside the one that asks."""
    page = signer.roundtrip(b"GET /_orcas/metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").body.decode()
    (line,) = [line for line in page.splitlines() if line.startswith("orcas_connections ")]
    return float(line.split()[1]) - 1


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="the kernel does not show it")
@pytest.mark.usefixtures("files")
def test_ten_thousand_idle_connections() -> None:
    with orcas.Server(memory=True, idle_timeout_sec=600) as server, contextlib.ExitStack() as held:
        signer = Signer.of(server)

        def ask(number: int) -> None:
            path, body = f"/many/{number}", b"x" * 1000
            assert signer.roundtrip(signer.request("PUT", path, body=body)).status == 200
            assert signer.roundtrip(signer.request("GET", path)).body == body

        assert signer.roundtrip(signer.request("PUT", "/many")).status == 200
        for number in range(100):
            ask(number)
        memory = resident(server.pid)
        idle = [
            held.enter_context(socket.create_connection((signer.host, signer.port), 60)) for _ in range(CONNECTIONS)
        ]
        # Half of them have had an answer, so that their buffers were in use.
        for connection in idle[::2]:
            connection.sendall(b"GET /many HTTP/1.1\r\nHost: localhost\r\n\r\n")
        for connection in idle[::2]:
            answer = b""
            while b"</Error>" not in answer:
                answer += connection.recv(65536)
        assert wait_until(lambda: connections(signer) >= CONNECTIONS)
        for number in range(100):
            ask(number)
        assert resident(server.pid) - memory < CONNECTIONS * BYTES_MAX
        # None was ended for the others.
        with selectors.DefaultSelector() as selector:
            for connection in idle:
                selector.register(connection, selectors.EVENT_READ)
            assert selector.select(0) == []
