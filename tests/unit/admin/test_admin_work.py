"""Jobs and backup pins: their limits, how they end, and what is reported about them."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from tests.fixtures.clocks import MovedClock

from orcas.admin import jobs, pins
from orcas.admin.jobs import JOBS_MAX, Job, Jobs, NoThreadError, TooManyJobsError, Work
from orcas.admin.pins import PINS_MAX, BackupPins, TooManyPinsError
from orcas.admin.schedule import Schedule, Task
from orcas.admin.tools import Tools
from orcas.engine import StoreError


def ended(job: Job) -> Job:
    assert job.thread is not None
    job.thread.join(10)
    return job


def test_a_job_tells_how_it_ended() -> None:
    known = Jobs()
    done = ended(known.start("gc", Work(lambda: {"blobs": 3}, dict)))
    assert (done.state, done.result, done.error) == ("done", {"blobs": 3}, None)

    def fail() -> dict[str, Any]:
        raise StoreError("the store is closed")

    failed = ended(known.start("gc", Work(fail, dict)))
    assert (failed.state, failed.error) == ("failed", "the store is closed.")
    assert known.find(done.id) is done
    known.remove(done)
    assert known.find(done.id) is None


def test_jobs_are_bounded_and_finished_ones_make_room(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Jobs()
    go = threading.Event()
    first = ended(known.start("gc", Work(dict, dict)))
    running = [known.start("gc", Work(lambda: {"went": go.wait(30)}, dict)) for _ in range(JOBS_MAX - 1)]
    last = known.start("gc", Work(lambda: {"went": go.wait(30)}, dict))
    assert known.find(first.id) is None
    with pytest.raises(TooManyJobsError):
        known.start("gc", Work(dict, dict))
    go.set()
    assert all(ended(job).state == "done" for job in [*running, last])
    monkeypatch.setattr(jobs, "KEPT_SECONDS", -1.0)
    assert known.find(last.id) is None


def test_the_end_cancels_what_can_be_cancelled() -> None:
    known = Jobs()
    stop, closed = threading.Event(), threading.Event()
    check = known.start("check", Work(lambda: {"stopped": stop.wait(30)}, dict, stop.set))
    gc = known.start("gc", Work(lambda: {"closed": closed.wait(30)}, dict))
    known.cancel()
    assert check.state == "cancelled"
    assert gc.state == "running"
    with pytest.raises(TooManyJobsError):
        known.start("gc", Work(dict, dict))
    closed.set()
    known.join()
    assert gc.state == "done"


def test_a_job_without_a_thread_is_none(monkeypatch: pytest.MonkeyPatch) -> None:
    known = Jobs()

    def refuse(_: threading.Thread) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    for _ in range(JOBS_MAX + 1):
        with pytest.raises(NoThreadError):
            known.start("gc", Work(dict, dict, threading.Event().set))
    monkeypatch.undo()
    assert known.all() == []
    known.cancel()
    known.join()


async def test_jobs_that_wait_for_a_task_can_be_cancelled_and_share_a_run() -> None:
    gate, runs = asyncio.Event(), 0

    async def work() -> dict[str, int]:
        nonlocal runs
        runs += 1
        await gate.wait()
        return {"runs": runs}

    nothing: Any = None
    schedule = Schedule([Task("scrub", "", 0, work)], MovedClock())
    tools = Tools(nothing, schedule, None, move_objects_max=0)
    running = asyncio.create_task(schedule.run("scrub"))
    await asyncio.sleep(0)
    asked = [tools.jobs.start("scrub", tools.task("scrub")) for _ in range(JOBS_MAX)]
    with pytest.raises(TooManyJobsError):
        tools.jobs.start("scrub", tools.task("scrub"))
    gone = asked[2]
    assert gone.work.cancel is not None
    gone.cancelled = True
    gone.work.cancel()
    assert (await asyncio.to_thread(ended, gone)).state == "cancelled"
    gate.set()
    kept = [await asyncio.to_thread(ended, job) for job in asked if job is not gone]
    assert await running == {"runs": 1}
    assert [(job.state, job.result) for job in kept] == [("done", {"runs": 2})] * (JOBS_MAX - 1)
    # The end does not wait for a run either.
    gate.clear()
    last = tools.jobs.start("scrub", tools.task("scrub"))
    await asyncio.to_thread(tools.jobs.cancel)
    assert last.state == "cancelled"
    gate.set()
    await schedule.join()


class Pinned:
    store = "0" * 32
    sequence = 5
    files = [("log/1.log", 4096)]  # noqa: RUF012 - a stand-in's constant

    def __init__(self) -> None:
        self.released = 0

    def release(self) -> None:
        self.released += 1


async def test_holds_are_bounded_renewed_and_expire(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pins, "EXPIRY_SECONDS", 3)
    known = BackupPins()
    made = [Pinned() for _ in range(PINS_MAX)]
    waiting = list(made)
    taken = [await known.take(waiting.pop) for _ in range(PINS_MAX)]  # type: ignore[arg-type]
    assert taken[0]["files"] == [{"name": "log/1.log", "length": 4096}]
    with pytest.raises(TooManyPinsError):
        await known.take(Pinned)  # type: ignore[arg-type]
    assert known.release(taken[1]["id"])
    assert not known.release(taken[1]["id"])
    for _ in range(4):
        await asyncio.sleep(1)
        assert known.renew(taken[0]["id"])
    assert not known.renew(taken[2]["id"])
    assert [pin.released for pin in reversed(made)] == [0, *[1] * (PINS_MAX - 1)]
    known.close()
    assert made[-1].released == 1
