"""Which process listens on a port of this machine, and its CPU time."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time

import pytest

from orcas.bench.processes import cpu_seconds, listeners, name_of, settle

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells")


@pytest.mark.parametrize(("address", "asked"), [("127.0.0.1", "127.0.0.1"), ("::1", "::1"), ("::", "127.0.0.1")])
def test_a_listener_is_found(address: str, asked: str) -> None:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    if family == socket.AF_INET6:
        try:
            socket.create_server(("::1", 0), family=family).close()
        except OSError as error:
            pytest.skip(f"no IPv6 here: {error}")
    with socket.create_server((address, 0), family=family, dualstack_ipv6=address == "::") as listening:
        port = listening.getsockname()[1]
        assert listeners(asked, port) == [os.getpid()]
        assert listeners("192.0.2.1", port) == [], "not of this machine"
    assert listeners(asked, port) == []


def test_nobody_else_is_taken_for_it() -> None:
    with socket.create_server(("127.0.0.2", 0)) as listening:
        port = listening.getsockname()[1]
        assert listeners("127.0.0.1", port) == []
        with socket.create_connection(("127.0.0.2", port)) as connected:
            assert listeners("127.0.0.1", connected.getsockname()[1]) == [], "connected, not listening"


def test_processor_time_and_rest() -> None:
    code = (
        "import time\nend = time.process_time() + 0.5\nwhile time.process_time() < end: pass\nprint()\ntime.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.readline()
        used = cpu_seconds([child.pid])
        assert used is not None
        assert 0.5 <= used < 5
        assert (cpu_seconds([child.pid, os.getpid()]) or 0) > used
        began = time.monotonic()
        settle([child.pid])
        assert time.monotonic() - began < 20
        assert name_of(child.pid).startswith("python")
        child.kill()
    assert cpu_seconds([child.pid]) is None
    assert cpu_seconds([]) is None
    settle([child.pid])
    assert name_of(child.pid) == "gone"


def test_a_busy_process_is_not_waited_for_for_ever() -> None:
    pauses: list[float] = []

    def pause(seconds: float) -> None:
        pauses.append(seconds)
        # CPU time, not elapsed time: a process that has to wait uses less.
        end = time.process_time() + seconds
        while time.process_time() < end:
            pass

    settle([os.getpid()], pause)
    assert 0 < len(pauses) < 30
