"""When the rules of replication are read, with a store that is a model."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.waiting import wait_until

from orcas.replication import replicator as replicators
from orcas.replication.replicator import Replicator


class Store:
    """Counts how often somebody asks."""

    def __init__(self) -> None:
        self.published = 1
        self.asked = self.read = 0

    def published_sequence(self) -> int:
        self.asked += 1
        return self.published

    def replicated_buckets(self) -> list[Any]:
        self.read += 1
        return []

    def looks(self, times: int) -> bool:
        """Whether there were so many more looks within a minute."""
        until = self.asked + times
        return wait_until(lambda: self.asked >= until)


def test_rules_are_read_when_something_was_written_and_not_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(replicators, "_LOOK_SEC", 0.001)
    store: Any = Store()

    async def run() -> None:
        root: Any = None
        replicator = Replicator(store, root, root, "us-east-1", tmp_path, runs=True)
        replicator.start()
        try:
            assert await asyncio.to_thread(store.looks, 5)
            before = store.read
            assert await asyncio.to_thread(store.looks, 20)
            assert store.read == before
            store.published += 1
            assert await asyncio.to_thread(store.looks, 5)
            assert store.read == before + 1
        finally:
            await asyncio.to_thread(replicator.close)

    asyncio.run(run())
