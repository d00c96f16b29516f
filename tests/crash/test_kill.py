"""kill -9 of a server under concurrent load, again and again on the same store, with the ledger outside it.

CRASH_SEED repeats the schedule of a reported seed, but not the interleaving of its threads.
"""

from __future__ import annotations

import json
import os
import random
import secrets
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.fixtures.marks import full
from tests.fixtures.wire import Signer

import orcas
from orcas.settings.config import child_environment

from .ledger import Ledger, Value
from .load import BUCKET, CHUNK_SIZE, Load, Worker
from .verify import Verifier

pytestmark = pytest.mark.crash

HISTORIES = 4
ROUNDS = 6
CLIENTS = 6
READY_SECONDS_MAX = 20


class History:
    """One store and its history."""

    def __init__(self, data: Path, name: str, durability: str) -> None:
        self.data = data
        self.durability = durability
        self.seed = os.environ.get("CRASH_SEED") or f"{name}-{secrets.token_hex(4)}"
        self.random = random.Random(self.seed)
        self.ledger = Ledger()
        self.report: list[dict[str, object]] = []
        self.server = self.start()
        created = Signer.of(self.server).roundtrip(Signer.of(self.server).request("PUT", f"/{BUCKET}"))
        assert created.status == 200, created.body

    def start(self) -> orcas.Server:
        began = time.monotonic()
        server = orcas.Server(self.data, durability=self.durability, chunk_size=CHUNK_SIZE, write_buffer_window_sec=0.2)
        self.ready_seconds = time.monotonic() - began
        assert self.ready_seconds < READY_SECONDS_MAX
        return server

    def load_and_kill(self, number: int) -> Load:
        """Let clients work for a while, and kill the server meanwhile."""
        load = Load(Signer.of(self.server), self.ledger, self.durability != "buffered", f"{self.seed}/{number}")
        workers = [Worker(load, client, f"{self.seed}/{number}") for client in range(CLIENTS)]
        for worker in workers:
            worker.start()
        time.sleep(self.random.uniform(0.4, 1.5))
        load.stopping.set()
        os.kill(self.server.pid, signal.SIGKILL)
        for worker in workers:
            worker.join(30)
            assert not worker.is_alive()
        said = self.server._tail()
        self.server.kill()
        assert not load.problems, "\n".join([*load.problems, said])
        return load

    def disturb(self) -> str:
        """What else may happen to a store before it is started again."""
        choice = self.random.choice(("nothing", "nothing", "recovery is killed", "index is lost"))
        if choice == "recovery is killed":
            process = subprocess.Popen(
                [sys.executable, "-m", "orcas", "serve", "--data", str(self.data), "--port", "0"],
                env=child_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            )  # fmt: skip
            time.sleep(self.random.uniform(0.3, 1.2))
            process.kill()
            process.wait()
        elif choice == "index is lost":
            lost = list(self.data.glob("index.db*"))
            assert lost
            for path in lost:
                path.unlink()
        return choice

    def round(self, number: int, judge: Callable[[Verifier, Load, dict[str, Value | None]], None]) -> None:
        """Load, kill, start, and check."""
        load = self.load_and_kill(number)
        acknowledged = self.ledger.acknowledged()
        disturbance = self.disturb()
        self.server = self.start()
        with Verifier(Signer.of(self.server), self.ledger) as verifier:
            found = verifier.read_all()
            objects = sum(value is not None for value in found.values())
            self.report.append({
                "round": number, "acknowledged": acknowledged, "objects": objects, "disturbance": disturbance,
                "ready_seconds": round(self.ready_seconds, 2), **load.counts,
            })  # fmt: skip
            verifier.check_list(found)
            judge(verifier, load, found)
            verifier.settle(verifier.read_all())

    def rounds(self, count: int, judge: Callable[[Verifier, Load, dict[str, Value | None]], None]) -> None:
        """All rounds, then a clean stop that must lose nothing and leave nothing to replay."""
        try:
            for number in range(count):
                self.round(number, judge)
            self.server.stop()
            self.server = self.start()
            with Verifier(Signer.of(self.server), self.ledger) as verifier:
                found = verifier.read_all()
                judge(verifier, Load(Signer.of(self.server), self.ledger, sync=True, round="end"), found)
                verifier.check_list(found)
        except AssertionError as error:
            error.add_note(f"CRASH_SEED={self.seed}")
            raise
        finally:
            self.server.kill()
            sys.stdout.write("\n".join([f"seed {self.seed}", *map(json.dumps, self.report)]) + "\n")


def strict(verifier: Verifier, load: Load, found: dict[str, Value | None]) -> None:
    """Check a mode in which kill -9 loses nothing."""
    before = {id(upload.completion) for upload in load.uploads if upload.completion is not None}
    verifier.check_strict(load, found)
    verifier.check_uploads(load)
    # Whether an unanswered completion happened must agree with the object that it would have created.
    if before:
        verifier.check_strict(load, verifier.read_all())


def prefix(verifier: Verifier, load: Load, found: dict[str, Value | None]) -> None:
    """Check a mode that may lose its latest acknowledged changes."""
    verifier.check_prefix(found)
    load.uploads.clear()


@pytest.mark.parametrize("history", [0, *full(*range(1, HISTORIES))])
def test_everything_acknowledged_survives(tmp_path: Path, history: int) -> None:
    run = History(tmp_path / "store", f"sync-{history}", "sync")
    run.rounds(ROUNDS, strict)
    # A load that does nothing proves nothing.
    assert sum(int(str(entry["acknowledged"])) for entry in run.report) > 20 * ROUNDS


@pytest.mark.full
def test_interval_mode_survives_the_death_of_the_process(tmp_path: Path) -> None:
    """What this mode acknowledges is in the page cache, which survives a killed process."""
    History(tmp_path / "store", "interval", "interval").rounds(3, strict)


def test_buffered_mode_keeps_a_prefix(tmp_path: Path) -> None:
    History(tmp_path / "store", "buffered", "buffered").rounds(4, prefix)
