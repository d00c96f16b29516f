"""Owners that are killed, frozen or cut off, while clients write through all nodes: nothing that was acknowledged is lost,
doubled or out of order, by a ledger outside."""

from __future__ import annotations

import contextlib
import random
import signal
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from tests.cluster.conftest import LEASE_SECONDS, Cluster, Node, once

BUCKET = "ledger"
WRITERS = 4


@dataclass
class Ledger:
    """What clients know: for each key the last acknowledged number, and those whose outcome nobody knows, in their order."""

    acknowledged: dict[str, int] = field(default_factory=dict)
    unknown: dict[str, set[int]] = field(default_factory=dict)
    failed: list[str] = field(default_factory=list)

    def check(self, client: Any) -> None:
        """Every key has its last acknowledged number, or one whose outcome was unknown after that."""
        for key, last in self.acknowledged.items():
            found = int(once(lambda key=key: client.get_object(Bucket=BUCKET, Key=key)["Body"].read(20).split(b" ")[0]))
            allowed = {last} | {number for number in self.unknown.get(key, set()) if number > last}
            if found not in allowed:
                self.failed.append(f"{key}: {found} instead of {sorted(allowed)}")


class Writer(threading.Thread):
    """Counts up the numbers of some keys, through one node after the other. Small and large bodies."""

    def __init__(self, nodes: list[Node], ledger: Ledger, number: int, stop: threading.Event) -> None:
        super().__init__(daemon=True)
        self._clients = [node.client(attempts=1, seconds=20) for node in nodes]
        self._ledger, self._number, self._stopping = ledger, number, stop
        self._random = random.Random(number)
        self.written = 0

    def run(self) -> None:
        count = 0
        while not self._stopping.is_set():
            count += 1
            key = f"w{self._number}/k{count % 5}"
            padding = self._random.choice([b"", b"x" * 3_000, b"y" * 200_000])
            client = self._random.choice(self._clients)
            try:
                client.put_object(Bucket=BUCKET, Key=key, Body=b"%d " % count + padding)
            except (ClientError, BotoCoreError):
                self._ledger.unknown.setdefault(key, set()).add(count)
                time.sleep(0.05)
                continue
            self._ledger.acknowledged[key] = count
            self.written += 1


def owner_of(cluster: Cluster) -> Node | None:
    """The node that says that it is the owner."""
    for node in cluster.nodes:
        if node.process is not None:
            with contextlib.suppress(Exception):
                if node.status()["role"] == "owner":
                    return node
    return None


def trouble(cluster: Cluster, rng: random.Random) -> None:
    """Something happens to a node, mostly to the owner, and is over a while later."""
    node = owner_of(cluster) if rng.random() < 0.8 else rng.choice(cluster.nodes)
    if node is None or node.process is None:
        return
    if rng.random() < 0.5:
        node.kill()
        time.sleep(rng.random() * 2 * LEASE_SECONDS)
        node.start(wait=False)
    else:
        node.process.send_signal(signal.SIGSTOP)
        time.sleep(LEASE_SECONDS * (0.5 + 1.5 * rng.random()))
        node.process.send_signal(signal.SIGCONT)
    time.sleep(rng.random() * LEASE_SECONDS)


def run(cluster: Cluster, seed: int, troubles: int) -> None:
    rng = random.Random(seed)
    for _ in range(3):
        cluster.add()
    cluster.nodes[0].client(attempts=5).create_bucket(Bucket=BUCKET)
    ledger, stop = Ledger(), threading.Event()
    writers = [Writer(cluster.nodes, ledger, number, stop) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    for _ in range(troubles):
        trouble(cluster, rng)
    time.sleep(3 * LEASE_SECONDS)
    before = sum(writer.written for writer in writers)
    time.sleep(2)
    after = sum(writer.written for writer in writers)
    stop.set()
    for writer in writers:
        writer.join(60)
    assert after > before, f"seed {seed}: nothing is written any more"
    for node in cluster.nodes:
        ledger.check(node.client(attempts=5))
    assert ledger.failed == [], f"seed {seed}"


def test_nothing_is_lost_when_owners_are_killed_and_frozen(cluster: Cluster) -> None:
    run(cluster, random.randrange(1 << 32), 2)


@pytest.mark.full
def test_nothing_is_lost_in_many_takeovers(cluster: Cluster) -> None:
    run(cluster, random.randrange(1 << 32), 30)
