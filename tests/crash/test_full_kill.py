"""A disk fills while clients write, the server is killed or stopped, and somebody else takes the space that this frees. The
next start serves everything that was acknowledged, or ends with one sentence and 69; never with a signal.

FULL_DISKS=all runs 20 seeds on each file system.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest
from tests.fixtures.wire import EndOfConnectionError

import orcas
from orcas.errors import UnavailableError

from .disks import MIB, await_free, eat, free, limit, mounted, use_up
from .test_full_disk import LARGE, SMALL, Clients, Ledger, make_bucket

pytestmark = pytest.mark.crash

SIZE: Final = 128 * MIB
# What the store may use of it.
ROOM: Final = 48 * MIB
RESERVE: Final = 8 * MIB
ROUNDS: Final = 3
# What the next start finds free, KiB: with blocks of 1 KiB, the pages of a mapping that was extended a byte per page need
# more than 8 and at most 32.
LEFT: Final = (0, 0, 2, 8, 9, 12, 16, 20, 24, 28, 31, 40, 64, 256)
FILE_SYSTEMS: Final = ("ext4-1k", "ext4", "ext4-reserved", "xfs", "tmpfs", "btrfs")
SEEDS: Final = 20 if os.environ.get("FULL_DISKS") == "all" else 2
CASES: Final = [(kind, seed) for kind in FILE_SYSTEMS for seed in range(SEEDS)]
# The others run only in the full run.
FEW: Final = [
    pytest.param(kind, left, marks=pytest.mark.full)
    for kind in FILE_SYSTEMS
    for left in (0, 9, 16, 28, 40)
    if (kind, left) != ("ext4-1k", 16)
]


@pytest.fixture
def unprivileged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Servers of this test may not use the blocks that a file system keeps for root."""
    if (setpriv := shutil.which("setpriv")) is None or os.geteuid() != 0:
        pytest.skip("only root has a privilege to give up, with setpriv")
    wrapper = tmp_path / "unprivileged"
    wrapper.write_text(f'#!/bin/sh\nexec "{setpriv}" --bounding-set -sys_resource "{sys.executable}" "$@"\n')
    wrapper.chmod(0o700)
    monkeypatch.setattr(sys, "executable", str(wrapper))


def started(data: Path) -> orcas.Server | None:
    """A server, or None if its start was refused in one sentence that says what it needs."""
    try:
        return orcas.Server(data, disk_reserve=RESERVE)
    except UnavailableError as refusal:
        said = str(refusal)
    sentence = said.splitlines()[0]
    assert "failed with exit code 69" in sentence, said
    assert "orcas: " not in said, said
    assert "full" in sentence, said
    assert "make room" in sentence or "cannot be opened" not in sentence, said
    assert "Traceback" not in said
    return None


@contextlib.contextmanager
def loaded(clients: Clients) -> Iterator[None]:
    """Clients that write for as long as there is a server."""

    def run() -> None:
        # Their connections end with it.
        with contextlib.suppress(OSError, EndOfConnectionError):
            while True:
                clients.fill((*SMALL, *SMALL, LARGE[0]))
                time.sleep(0.05)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield
    finally:
        thread.join(60)
        assert not thread.is_alive()


@pytest.mark.full
@pytest.mark.parametrize(("kind", "seed"), CASES)
def test_a_start_after_a_full_disk_serves_or_says_what_it_needs(
    tmp_path: Path, unprivileged: None, kind: str, seed: int
) -> None:
    chance = random.Random(f"{kind}/{seed}")
    with mounted(tmp_path, SIZE, kind) as small, contextlib.ExitStack() as stack:
        data, ledger = small / "store", Ledger()
        others = eat(small, ROOM).rename(small / "others")
        server = orcas.Server(data, disk_reserve=RESERVE)
        stack.callback(lambda: server.kill())
        make_bucket(server)
        for turn in range(ROUNDS):
            with loaded(Clients(server, ledger, turn)):
                time.sleep(chance.uniform(0.1, 0.8))
                eat(small, chance.choice((0, MIB, 4 * MIB, ROOM)))
                time.sleep(chance.uniform(0, 0.4))
                if chance.random() < 0.7:
                    server.kill()
                else:
                    server.stop()
            if chance.random() < 0.7:
                # As if somebody had taken its place at an earlier start.
                (data / "ballast").unlink(missing_ok=True)
            filler = eat(small, 1024 * chance.choice(LEFT))
            if (again := started(data)) is None:
                filler.unlink()
                again = orcas.Server(data, disk_reserve=RESERVE)
            server = again
            Clients(server, ledger, turn).verify(0.2)
            filler.unlink(missing_ok=True)
        others.unlink()
        await_free(small, RESERVE + 2 * LARGE[0])
        Clients(server, ledger, ROUNDS).takes(LARGE[0])
        Clients(server, ledger, ROUNDS).verify()


@pytest.mark.parametrize(("kind", "left"), [("ext4-1k", 16), *FEW])
def test_nothing_is_mapped_that_the_disk_has_no_blocks_for(tmp_path: Path, kind: str, left: int) -> None:
    """Without the ballast, `left` KiB are all there is to start with and to go through the index's write-ahead log."""
    with mounted(tmp_path, SIZE, kind) as small, contextlib.ExitStack() as stack:
        data, ledger = small / "store", Ledger()
        server = orcas.Server(data, disk_reserve=RESERVE)
        stack.callback(lambda: server.kill())
        make_bucket(server)
        clients = Clients(server, ledger, 0)
        for _ in range(20):
            assert clients.put_once(20_000) == 200
        # A page of a mapped file for which the disk has no block ends the process with a signal.
        assert str(data) not in Path(f"/proc/{server.pid}/maps").read_text()
        server.kill()
        assert (data / "index.db-wal").stat().st_size > 0
        assert not list(data.rglob("*-shm"))
        (data / "ballast").unlink(missing_ok=True)
        filler = eat(small, left * 1024)
        if (again := started(data)) is None:
            filler.unlink()
            again = orcas.Server(data, disk_reserve=RESERVE)
        server = again
        Clients(server, ledger, 0).verify()


@pytest.mark.full
def test_a_used_up_quota_is_a_full_disk(tmp_path: Path) -> None:
    """The file system says that there is room, and takes nothing more."""
    with mounted(tmp_path, 512 * MIB, "btrfs") as small, contextlib.ExitStack() as stack:
        limit(small, SIZE)
        data, ledger = small / "store", Ledger()
        server = orcas.Server(data, disk_reserve=RESERVE)
        stack.callback(lambda: server.kill())
        make_bucket(server)
        clients = Clients(server, ledger, 0)
        for _ in range(50):
            assert clients.put_once(20_000) == 200
        filler = use_up(small)
        assert free(small) > RESERVE
        clients.fill(SMALL)
        clients.verify(0.2)
        server.kill()
        use_up(small)
        again = started(data)
        if again is not None:
            server = again
            Clients(server, ledger, 0).verify(0.2)
            server.kill()
        filler.unlink()
        server = orcas.Server(data, disk_reserve=RESERVE)
        clients = Clients(server, ledger, 0)
        clients.takes(LARGE[0])
        clients.verify()
