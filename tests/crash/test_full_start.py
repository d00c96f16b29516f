"""Starts on a disk without a free byte: the server starts, reads, lists, deletes and reclaims, and accepts writes again
once deletions have made room. Nothing else frees space meanwhile.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import re
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from tests.fixtures.commands import document
from tests.fixtures.targets import content_of
from tests.fixtures.wire import Answer, Signer

import orcas

from .disks import KINDS, MIB, eat, free, mounted

pytestmark = pytest.mark.crash

BUCKET = "full"
# More than the ballast, so that the disk stays full when the store gives that up.
RESERVE = 16 * MIB
# Two log files, content, and the ballast.
SIZE = 128 * MIB
SMALL = MIB // 2
LARGE = 3 * MIB
# Each takes some seconds, so half of them run only with FULL_DISKS=all.
WAYS = [("tmpfs", "kill"), ("ext4", "stop")]
if os.environ.get("FULL_DISKS") == "all":
    WAYS = list(itertools.product(KINDS, ("stop", "kill")))
# The small ones are in the log and almost fill its file, so the next file is needed soon.
OBJECTS = {f"small-{n}": SMALL for n in range(31)} | {f"large-{n}": LARGE for n in range(9)}


class Client:
    """A server on the full disk, and requests to it."""

    def __init__(self, data: Path) -> None:
        self.server = orcas.Server(data, disk_reserve=RESERVE, max_batch_write_file_size=SMALL)
        self.signer = Signer.of(self.server)

    def ask(self, method: str, path: str, body: bytes = b"") -> Answer:
        return self.signer.roundtrip(self.signer.request(method, f"/{BUCKET}{path}", body=body))

    def put(self, name: str, size: int) -> Answer:
        return self.ask("PUT", f"/{name}", content_of(name, size))

    def health(self, check: str = "ready") -> tuple[int, dict[str, object]]:
        try:
            with urllib.request.urlopen(f"{self.server.endpoint}/_orcas/health/{check}") as answer:
                return answer.status, json.load(answer)
        except urllib.error.HTTPError as refusal:
            return refusal.code, json.load(refusal)

    def has(self, objects: dict[str, int]) -> None:
        """Every object is listed, and some are read."""
        page = self.ask("GET", "")
        assert page.status == 200
        assert set(re.findall(r"<Key>([^<]*)<", page.body.decode())) == set(objects)
        for name in sorted(objects)[::5]:
            assert self.ask("GET", f"/{name}").body == content_of(name, objects[name])

    def is_full(self) -> None:
        status, said = self.health()
        assert (status, said["status"], said["writable"]) == (200, "full", False)
        assert "ORCAS_DISK_RESERVE" in str(said["reason"])
        assert self.health("writable") == (503, said)
        refused = self.put("refused", 1000)
        assert (refused.status, refused.code) == (503, "ServiceUnavailable")
        assert b"ORCAS_DISK_RESERVE" in refused.body

    def takes(self, name: str, size: int, seconds: float = 30) -> None:
        deadline = time.monotonic() + seconds
        while (answer := self.put(name, size)).status != 200:
            assert time.monotonic() < deadline, answer
            time.sleep(0.2)


def filled(data: Path) -> Client:
    """A server whose store has everything that a start reads, and a log file that is almost full."""
    client = Client(data)
    client.ask("PUT", "")
    for name, size in OBJECTS.items():
        assert client.put(name, size).status == 200
    # The spare log file and the ballast are made in the background; the tests rely on both.
    deadline = time.monotonic() + 60
    while len(list((data / "log").iterdir())) < 2 or not (data / "ballast").exists():
        assert time.monotonic() < deadline, sorted(data.rglob("*"))
        time.sleep(0.05)
    return client


def end(client: Client, kind: str, small: Path) -> None:
    """Stop the server and fill whatever space it frees."""
    if kind == "kill":
        client.server.kill()
    else:
        client.server.stop()
    eat(small)
    assert free(small) == 0


@pytest.mark.parametrize(("kind", "ending"), WAYS)
def test_a_full_disk_is_started_on_and_emptied(tmp_path: Path, kind: str, ending: str) -> None:
    with mounted(tmp_path, SIZE, kind) as small, contextlib.ExitStack() as stack:
        data = small / "store"
        left = dict(OBJECTS)
        client = filled(data)
        stack.callback(lambda: client.server.kill())
        eat(small)
        client.is_full()
        end(client, ending, small)
        client = Client(data)
        client.is_full()
        client.has(left)
        for name in [*(f"small-{n}" for n in range(12)), *(f"large-{n}" for n in range(3))]:
            assert client.ask("DELETE", f"/{name}").status == 204
            del left[name]
        client.has(left)
        # Fill the space that this freed as well.
        end(client, ending, small)
        client = Client(data)
        client.has(left)
        for name in [*(f"small-{n}" for n in range(12, 28)), *(f"large-{n}" for n in range(3, 9))]:
            assert client.ask("DELETE", f"/{name}").status == 204
            del left[name]
        document("gc", "--data", data)
        client.takes("again", SMALL)
        client.has(left | {"again": SMALL})
        assert client.health() == (200, {"status": "ok", "writable": True, "durability": "sync"})
        client.server.stop()
        assert document("fsck", "--data", data)["losses_total"] == 0


def test_somebody_takes_every_byte_that_becomes_free(tmp_path: Path) -> None:
    """The store gives up its ballast and cannot restore it: it still starts, again and again."""
    with mounted(tmp_path, SIZE) as small, contextlib.ExitStack() as stack:
        data = small / "store"
        left = dict(OBJECTS)
        client = filled(data)
        stack.callback(lambda: client.server.kill())
        for turn, ending in enumerate(["stop", "kill", "stop"]):
            eat(small)
            end(client, ending, small)
            client = Client(data)
            eat(small)
            client.is_full()
            for name in (f"small-{n}" for n in range(10 * turn, 10 * turn + 10)):
                assert client.ask("DELETE", f"/{name}").status == 204
                del left[name]
            client.has(left)
        (small / "filler").unlink()
        client.takes("again", LARGE)
        client.has(left | {"again": LARGE})
