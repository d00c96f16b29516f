"""A file system without room: writes are refused, all else works, and service resumes when there is room again."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import orcas

from ..wire import Response, Signer, content
from .disks import MIB, eat, mounted

pytestmark = pytest.mark.crash

BUCKET = "full"
# Room for the log, the reserve that is kept free, and some content.
SIZE = 520 * MIB
# Free bytes under which content is refused; the default.
RESERVE = 256 * MIB


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of SIZE bytes."""
    with mounted(tmp_path, SIZE) as place:
        yield place


def eventually(ask: Callable[[], Response], status: int, seconds: float = 10) -> None:
    """Ask until the answer has this status: room is looked at now and then."""
    deadline = time.monotonic() + seconds
    while (answer := ask()).status != status:
        assert time.monotonic() < deadline, answer
        time.sleep(0.2)


class Client:
    """What the test asks for."""

    def __init__(self, server: orcas.Server) -> None:
        self.signer = Signer.of(server)

    def put(self, name: str, size: int) -> Response:
        body = content(name, size)
        return self.signer.roundtrip(self.signer.request("PUT", f"/{BUCKET}/{name}", body=body))

    def get(self, name: str) -> Response:
        return self.signer.roundtrip(self.signer.request("GET", f"/{BUCKET}/{name}"))

    def reads_work(self, *names: tuple[str, int]) -> None:
        for name, size in names:
            assert self.get(name).body == content(name, size)
        listing = self.signer.roundtrip(self.signer.request("GET", f"/{BUCKET}"))
        assert listing.status == 200
        for name, _ in names:
            assert f"<Key>{name}</Key>".encode() in listing.body

    def delete(self, name: str) -> int:
        return self.signer.roundtrip(self.signer.request("DELETE", f"/{BUCKET}/{name}")).status


@pytest.mark.parametrize("left", [RESERVE - 20 * MIB, 0], ids=["below the reserve", "nothing"])
def test_a_full_disk(small: Path, left: int) -> None:
    data = small / "store"
    with orcas.Server(data) as server:
        client = Client(server)
        client.signer.roundtrip(client.signer.request("PUT", f"/{BUCKET}"))
        for n in range(20):
            assert client.put(f"small-{n}", 2000).status == 200
        assert client.put("large", 3 * MIB).status == 200
        # The spare log file is made behind the scenes.
        time.sleep(0.5)
        filler = eat(small, left)
        for size in (2000, 3 * MIB):
            eventually(lambda size=size: client.put("refused", size), 503)  # type: ignore[misc]
            assert client.get("refused").status == 404
        client.reads_work(("large", 3 * MIB), ("small-1", 2000))
        # The way out of a full disk.
        assert client.delete("small-0") == 204
        assert client.delete("large") == 204
        assert client.get("large").status == 404
        assert client.put("refused", 2000).status == 503
        filler.unlink()
        eventually(lambda: client.put("resumed", 2000), 200)
        assert client.put("resumed large", 3 * MIB).status == 200
        client.reads_work(("resumed", 2000), ("small-1", 2000))
        server.kill()
    with orcas.Server(data) as server:
        client = Client(server)
        client.reads_work(("resumed", 2000), ("resumed large", 3 * MIB), ("small-1", 2000))
        assert client.get("large").status == 404
        assert client.get("small-0").status == 404
        assert client.get("refused").status == 404


def test_a_start_on_a_full_disk(small: Path) -> None:
    """After a crash the store comes up to be read and emptied."""
    data = small / "store"
    with orcas.Server(data) as server:
        client = Client(server)
        client.signer.roundtrip(client.signer.request("PUT", f"/{BUCKET}"))
        for n in range(20):
            assert client.put(f"small-{n}", 2000).status == 200
        server.kill()
    filler = eat(small, 0)
    with orcas.Server(data) as server:
        client = Client(server)
        client.reads_work(*((f"small-{n}", 2000) for n in range(20)))
        assert client.put("refused", 2000).status == 503
        assert client.delete("small-0") == 204
    filler.unlink()
    with orcas.Server(data) as server:
        client = Client(server)
        client.reads_work(*((f"small-{n}", 2000) for n in range(1, 20)))
        assert client.put("resumed", 2000).status == 200
