"""A power cut under a server on a real file system: whatever was acknowledged is on the disk, and as it was sent."""

from __future__ import annotations

import itertools
import threading
from pathlib import Path

import pytest
from tests.fixtures.targets import content_of
from tests.fixtures.waiting import wait_until
from tests.fixtures.wire import EndOfConnectionError, Signer

import orcas

from .disks import MIB, cut_power, mount_again, mounted

pytestmark = pytest.mark.crash

BUCKET = "power"
SIZE = 512 * MIB
CLIENTS = 4
LENGTH = 60_000
# More than a log file of 16 MiB: the first one is filled with zeros, and the next ones are only reserved.
ENOUGH = 24 * MIB // LENGTH


def put_until_the_end(signer: Signer, client: int, acknowledged: set[str]) -> None:
    """Put objects one after the other until the server refuses one or is gone."""
    with signer.connect(60) as connection:
        for number in itertools.count():
            name = f"{client}-{number}"
            try:
                connection.send(signer.request("PUT", f"/{BUCKET}/{name}", body=content_of(name, LENGTH)))
                if connection.response("PUT").status != 200:
                    return
            except (OSError, EndOfConnectionError):
                return
            acknowledged.add(name)


@pytest.mark.parametrize("kind", ["ext4", "xfs"])
def test_what_was_acknowledged_survives_a_power_cut(tmp_path: Path, kind: str) -> None:
    acknowledged: set[str] = set()
    with mounted(tmp_path, SIZE, kind) as place:
        server = orcas.Server(place / "store")
        try:
            signer = Signer.of(server)
            assert signer.roundtrip(signer.request("PUT", f"/{BUCKET}")).status == 200
            clients = [
                threading.Thread(target=put_until_the_end, args=(signer, client, acknowledged))
                for client in range(CLIENTS)
            ]
            for client in clients:
                client.start()
            assert wait_until(lambda: len(acknowledged) >= ENOUGH)
            cut_power(place)
        finally:
            server.kill()
        for client in clients:
            client.join()
        mount_again(place)
        with orcas.Server(place / "store") as server:
            signer = Signer.of(server)
            with signer.connect(60) as connection:
                for name in sorted(acknowledged):
                    connection.send(signer.request("GET", f"/{BUCKET}/{name}"))
                    answer = connection.response()
                    assert (answer.status, answer.body) == (200, content_of(name, LENGTH)), name
