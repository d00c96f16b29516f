"""Periodic tasks of an open store: due on the clock, run over the admin API, and shown in the metrics."""

from __future__ import annotations

import asyncio
import functools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.api.test_admin import ROOT, Client
from tests.fixtures.clocks import MovedClock

from orcas.process import counts as process
from orcas.serving.app import Orcas, open_store
from orcas.settings.config import resolve


@pytest.fixture
def clock() -> MovedClock:
    return MovedClock()


@pytest.fixture
async def client(tmp_path: Path, clock: MovedClock) -> AsyncIterator[Client]:
    settings = {
        "data": str(tmp_path / "data"), "root_access_key": ROOT.access_key, "root_secret_key": ROOT.secret_key,
        "abort_uploads_after_days": 3, "scrub_bytes_per_sec": 1 << 30,
    }  # fmt: skip
    app = Orcas(resolve(settings, ambient=False).settings, functools.partial(open_store, clock=clock))
    async with app.router.lifespan_context(app):
        yield Client(app)


async def tasks(client: Client) -> dict[str, dict[str, Any]]:
    status, answer = await client.ask("GET", "tasks")
    assert status == 200
    return {task["name"]: task for task in answer["tasks"]}


async def ran(client: Client, runs: dict[str, int]) -> dict[str, dict[str, Any]]:
    """The tasks, as soon as they have run so often."""
    for _ in range(500):
        found = await tasks(client)
        if all(found[name]["runs"] == count and not found[name]["running"] for name, count in runs.items()):
            return found
        await asyncio.sleep(0.01)
    raise AssertionError(found)


async def test_tasks_are_due_on_the_clock(client: Client, clock: MovedClock) -> None:
    # The scrub and usage do not wait for their first interval.
    await ran(client, {"scrub": 1, "usage": 1, "lifecycle": 0, "uploads": 0, "events": 0})
    await clock.move(61)
    found = await ran(client, {"scrub": 1, "usage": 2, "lifecycle": 1, "uploads": 1, "events": 1})
    assert all(task["failures"] == 0 for task in found.values())
    assert found["lifecycle"]["next_run"] == "2027-01-15T09:01:00+00:00"
    assert found["lifecycle"]["interval_sec"] == 3600
    assert found["uploads"]["last_result"] == {"seen": 0, "aborted": 0, "changed": 0}
    assert found["scrub"]["last_result"]["damaged"] == 0
    await clock.move(3600)
    await ran(client, {"lifecycle": 2, "uploads": 2, "scrub": 1})


async def test_a_task_runs_at_once_and_everybody_sees_it(client: Client) -> None:
    for name in ("lifecycle", "uploads", "scrub", "events", "usage"):
        job = await client.finished(await client.ask("POST", f"tasks/{name}"))
        assert (job["kind"], job["state"], job["error"]) == (name, "done", None)
    await client.finished(await client.ask("POST", "lifecycle/run"))
    assert (await tasks(client))["lifecycle"]["runs"] == 2
    assert (await client.ask("POST", "tasks/none"))[0] == 404
    _, stats = await client.ask("GET", "stats")
    assert {task["name"]: task["runs"] for task in stats["tasks"]}["lifecycle"] == 2
    store = client.app.store
    assert store is not None
    assert store.parts is not None
    around: Any = {
        "version": "", "connections": 0, "certificate": None, "refusals": [], "buckets_max": 1, "spans": (0, 0),
        "targets": [], "tasks": store.parts.schedule.numbers(), "process": process.counts(),
    }  # fmt: skip
    page = await asyncio.to_thread(store.parts.core.metrics, True, around)
    assert 'orcas_task_runs_total{task="lifecycle",result="ok"} 2\n' in page
    assert 'orcas_task_runs_total{task="lifecycle",result="failed"} 0\n' in page
    assert 'orcas_task_running{task="lifecycle"} 0\n' in page
    assert 'orcas_task_interval_seconds{task="scrub"} 86400' in page
    assert 'orcas_task_last_success_timestamp_seconds{task="lifecycle"} 18' in page
    assert 'orcas_task_next_run_timestamp_seconds{task="lifecycle"} 18' in page


async def test_a_run_that_fails_says_why(client: Client, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    await ran(client, {"usage": 1})
    path = tmp_path / "data" / "usage.db"
    for found in path.parent.glob("usage.db*"):
        found.unlink()
    path.mkdir()
    job = await client.finished(await client.ask("POST", "tasks/usage"))
    assert job["state"] == "failed"
    assert job["error"].startswith("Usage cannot be saved, and is counted in memory until then: ")
    assert "Task usage failed and is tried again in 60 seconds: Usage cannot be saved" in caplog.text
    failed = (await tasks(client))["usage"]
    assert (failed["runs"], failed["failures"]) == (2, 1)
    path.rmdir()
    job = await client.finished(await client.ask("POST", "tasks/usage"))
    assert job["state"] == "done"
    assert (await tasks(client))["usage"]["error"] is None
