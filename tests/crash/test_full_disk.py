"""A file system fills up: what was acknowledged stays readable, deletions and reclamation make room, and writes
continue, over several rounds and kills. A ledger outside the store records everything that was acknowledged.
"""

from __future__ import annotations

import random
import re
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from tests.fixtures.commands import document
from tests.fixtures.targets import content_of
from tests.fixtures.wire import Connection, Signer

import orcas

from .disks import MIB, eat, mounted

pytestmark = pytest.mark.crash

BUCKET = "full"
# Twice the default reserve: a quarter for log files, the rest for content.
SIZE = 512 * MIB
# Free bytes under which content is refused; the default.
RESERVE = 256 * MIB
CLIENTS = 4
# Refusals after which a client considers the disk full: the server checks the free space only now and then.
REFUSALS = 3
SMALL = (200, 30_000, 60_000, 65_536)
LARGE = (1_000_000, 3 * MIB, 9 * MIB)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own, of SIZE bytes."""
    with mounted(tmp_path, SIZE) as place:
        yield place


@dataclass
class Ledger:
    """What clients were told; a write without an answer may or may not have happened."""

    held: dict[str, int] = field(default_factory=dict)
    unclear: set[str] = field(default_factory=set)
    serial: int = 0

    def name(self) -> str:
        self.serial += 1
        return f"{self.serial:06}"


class Clients:
    """Requests on a few connections at a time."""

    def __init__(self, server: orcas.Server, ledger: Ledger, seed: int) -> None:
        self.signer = Signer.of(server)
        self.ledger = ledger
        self.random = random.Random(seed)
        # The document of the last refusal.
        self.refused = b""

    def each(self, keys: list[str], ask: Callable[[Connection, str], None]) -> None:
        def run(mine: list[str]) -> None:
            with self.signer.connect(60) as connection:
                for key in mine:
                    ask(connection, key)

        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(run, [keys[n::CLIENTS] for n in range(CLIENTS)]))

    def put(self, connection: Connection, key: str, size: int) -> int:
        request = self.signer.request("PUT", f"/{BUCKET}/{key}", body=content_of(key, size), payload="UNSIGNED-PAYLOAD")
        self.ledger.unclear.add(key)
        connection.send(request)
        response = connection.response()
        self.ledger.unclear.discard(key)
        if response.status == 200:
            self.ledger.held[key] = size
        else:
            assert (response.status, response.code) == (503, "ServiceUnavailable"), response
            self.refused = response.body
        if response.closes:
            connection.sock.close()
            connection.sock = self.signer.connect(60).sock
        return response.status

    def fill(self, sizes: tuple[int, ...]) -> int:
        """Put objects until they are refused; how many were stored."""
        before = len(self.ledger.held)

        def run(_: int) -> None:
            refused = 0
            with self.signer.connect(60) as connection:
                while refused < REFUSALS:
                    status = self.put(connection, self.ledger.name(), self.random.choice(sizes))
                    refused = 0 if status == 200 else refused + 1

        with ThreadPoolExecutor(CLIENTS) as pool:
            list(pool.map(run, range(CLIENTS)))
        return len(self.ledger.held) - before

    def put_once(self, size: int) -> int:
        with self.signer.connect(60) as connection:
            return self.put(connection, self.ledger.name(), size)

    def takes(self, size: int, seconds: float = 30) -> None:
        """Wait until writes are accepted again: the server checks the free space only now and then."""
        self._until(200, size, seconds)

    def refuses(self, size: int, seconds: float = 30) -> None:
        """Wait until writes are refused."""
        self._until(503, size, seconds)

    def _until(self, status: int, size: int, seconds: float) -> None:
        deadline = time.monotonic() + seconds
        while (answered := self.put_once(size)) != status:
            assert time.monotonic() < deadline, f"a write is still answered {answered}: {self.refused!r}"
            time.sleep(0.2)

    def delete(self, keys: list[str], *, may_refuse: bool = False) -> int:
        """How many were deleted."""
        before = len(self.ledger.held)

        def ask(connection: Connection, key: str) -> None:
            connection.send(self.signer.request("DELETE", f"/{BUCKET}/{key}"))
            response = connection.response("DELETE")
            if response.status == 503 and may_refuse:
                return
            assert response.status == 204, response
            del self.ledger.held[key]

        self.each(keys, ask)
        return before - len(self.ledger.held)

    def some(self, share: float) -> list[str]:
        return [key for key in sorted(self.ledger.held) if self.random.random() < share]

    def listed(self) -> dict[str, int]:
        found: dict[str, int] = {}
        token: list[tuple[str, str]] = []
        with self.signer.connect(60) as connection:
            while True:
                connection.send(self.signer.request("GET", f"/{BUCKET}", [("list-type", "2"), *token]))
                page = connection.response()
                assert page.status == 200, page
                text = page.body.decode()
                for entry in re.findall(r"<Contents>(.*?)</Contents>", text, re.DOTALL):
                    fields = dict(re.findall(r"<(Key|Size)>([^<]*)<", entry))
                    found[fields["Key"]] = int(fields["Size"])
                more = re.search(r"<NextContinuationToken>([^<]*)<", text)
                if more is None:
                    return found
                token = [("continuation-token", more[1])]

    def verify(self, share: float = 1.0) -> None:
        """Every object is listed and has its size; a share of them is read."""
        listed = self.listed()
        for key in self.ledger.unclear:
            listed.pop(key, None)
        assert listed == self.ledger.held
        read = set(self.some(share))

        def ask(connection: Connection, key: str) -> None:
            method = "GET" if key in read else "HEAD"
            connection.send(self.signer.request(method, f"/{BUCKET}/{key}"))
            response = connection.response(method)
            size = self.ledger.held[key]
            assert (response.status, int(response.headers["content-length"])) == (200, size), (key, response.status)
            if key in read:
                assert response.body == content_of(key, size), key

        self.each(sorted(self.ledger.held), ask)


def make_bucket(server: orcas.Server) -> None:
    signer = Signer.of(server)
    assert signer.roundtrip(signer.request("PUT", f"/{BUCKET}")).status == 200


@pytest.mark.parametrize(
    ("sizes", "seed"),
    [
        pytest.param(SMALL, 1, id="small", marks=pytest.mark.full),
        pytest.param(LARGE, 2, id="large", marks=pytest.mark.full),
        pytest.param(SMALL * 3 + LARGE, 3, id="mixed"),
    ],
)
def test_a_disk_fills_and_empties_again(small: Path, sizes: tuple[int, ...], seed: int) -> None:
    data = small / "store"
    ledger = Ledger()
    server = orcas.Server(data)
    make_bucket(server)
    taken = []
    try:
        for turn in range(2):
            clients = Clients(server, ledger, seed + turn)
            taken.append(clients.fill(sizes))
            # Space is reclaimed in the background.
            deadline = time.monotonic() + 60
            while taken[-1] < taken[0] / 2 and time.monotonic() < deadline:
                time.sleep(0.5)
                taken[-1] += clients.fill(sizes)
            clients.verify(0.2)
            if turn == 0:
                # Twice, so that the second start meets what the first one used.
                for _ in range(2):
                    server.kill()
                    server = orcas.Server(data)
                clients = Clients(server, ledger, seed + turn)
                clients.verify(0.2)
            clients.delete(clients.some(0.8))
            if turn == 1:
                document("gc", "--data", data)
                document("compact", "--data", data)
            clients.takes(max(sizes), 30)
            clients.verify(0.2)
            server.kill()
            server = orcas.Server(data)
        Clients(server, ledger, seed).verify()
        # The space of deleted objects is usable again each time.
        assert min(taken) > max(taken) / 3, taken
    finally:
        server.kill()
    assert document("fsck", "--data", data)["losses_total"] == 0


@pytest.mark.full
def test_somebody_else_eats_the_reserve(small: Path) -> None:
    """Without any free space: clear refusals, no crash and no loss. Once there is space: service without a restart."""
    data = small / "store"
    ledger = Ledger()
    with orcas.Server(data) as server:
        make_bucket(server)
        clients = Clients(server, ledger, 4)
        for _ in range(1200):
            clients.put_once(clients.random.choice((100, 300, 20_000)))
        for _ in range(4):
            clients.put_once(3 * MIB)
        time.sleep(0.5)
        for turn in range(2):
            filler = eat(small, 0)
            assert clients.put_once(3 * MIB) == 503
            assert clients.put_once(200) == 503
            clients.verify(0.3)
            # Little enough for the present log file, but more than the index has room for.
            clients.delete(clients.some(0.4), may_refuse=True)
            clients.verify(0.3)
            if turn == 1:
                # The store has reserved space for this.
                document("gc", "--data", data)
                clients.verify(0.3)
            filler.unlink()
            clients.takes(200)
            clients.takes(3 * MIB)
            clients.verify()
        eat(small, 0)
        clients.delete(clients.some(0.3), may_refuse=True)
        server.kill()
    with orcas.Server(data) as server:
        Clients(server, ledger, 5).verify(0.3)
        server.kill()
    (small / "filler").unlink()
    with orcas.Server(data) as server:
        clients = Clients(server, ledger, 6)
        clients.verify()
        clients.takes(3 * MIB)
        clients.verify()
    assert document("fsck", "--data", data)["losses_total"] == 0


def test_below_the_reserve_only_content_is_refused(small: Path) -> None:
    data = small / "store"
    ledger = Ledger()
    with orcas.Server(data) as server:
        make_bucket(server)
        clients = Clients(server, ledger, 7)
        for size in [2000] * 20 + [3 * MIB] * 2:
            assert clients.put_once(size) == 200
        # The spare log file and the ballast are made in the background.
        time.sleep(0.5)
        filler = eat(small, RESERVE - 20 * MIB)
        for size in (2000, 3 * MIB):
            clients.refuses(size)
        clients.verify()
        half = sorted(ledger.held)[::2]
        assert clients.delete(half) == len(half)
        assert clients.put_once(2000) == 503
        clients.verify()
        filler.unlink()
        for size in (2000, 3 * MIB):
            clients.takes(size)
        clients.verify()
        server.kill()
    with orcas.Server(data) as server:
        Clients(server, ledger, 8).verify()
