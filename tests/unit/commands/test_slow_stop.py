"""A stop that waits for a client: tests show what the threads of the server do."""

from __future__ import annotations

import sys
import threading
from pathlib import Path

import pytest
from tests.fixtures.servers.stacks import slow_stops_shown
from tests.fixtures.waiting import wait_until
from tests.fixtures.wire import Signer

import orcas


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the kernel does not show threads")
def test_the_stacks_of_a_server_that_does_not_stop_are_shown(capfd: pytest.CaptureFixture[str]) -> None:
    said: list[str] = []

    def shown() -> bool:
        said.append(capfd.readouterr().err)
        return "most recent call first" in "".join(said)

    with slow_stops_shown(after=0.0):
        server = orcas.Server(memory=True)
        signer = Signer.of(server)
        assert signer.roundtrip(signer.request("PUT", "/bucket")).status == 200
        with signer.connect() as upload:
            # The server waits for the rest of it.
            upload.send(signer.put("/bucket/key", 2) + b"x")
            stopping = threading.Thread(target=server.stop)
            stopping.start()
            try:
                assert wait_until(shown), said
            finally:
                upload.send(b"x")
                stopping.join()
    sys.stdout.write("".join(said))
    for of_thread in ("orcas-front", "orcas-commit", "serving/serve.py"):
        assert of_thread in "".join(said)
