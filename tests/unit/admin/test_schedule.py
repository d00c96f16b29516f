"""The scheduler of periodic tasks, on a clock that the tests move."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from tests.fixtures.clocks import MovedClock

from orcas.admin.maintenance import ClockGuard
from orcas.admin.schedule import Schedule, SystemClock, Task, TaskError, in_thread
from orcas.errors import OrcasError


class Counted:
    """A task that counts its runs, and fails or waits if it is told to."""

    def __init__(self) -> None:
        self.runs = 0
        self.fails: BaseException | None = None
        self.gate: asyncio.Event | None = None

    async def __call__(self) -> dict[str, int]:
        self.runs += 1
        if self.gate is not None:
            await self.gate.wait()
        if self.fails is not None:
            raise self.fails
        return {"run": self.runs}


def row(schedule: Schedule, name: str) -> dict[str, Any]:
    (found,) = (task for task in schedule.describe() if task["name"] == name)
    return found


async def test_tasks_run_at_their_intervals_and_at_first_soon() -> None:
    clock, hourly, often, asked, early = MovedClock(), Counted(), Counted(), Counted(), Counted()
    schedule = Schedule(
        [
            Task("hourly", "", 3600, hourly), Task("often", "", 10, often), Task("asked", "", 0, asked),
            Task("early", "", 3600, early, first=0),
        ],
        clock,
    )  # fmt: skip
    schedule.start()
    await clock.move(0)
    assert (hourly.runs, often.runs, early.runs) == (0, 0, 1)
    assert row(schedule, "hourly")["next_run"] == "2027-01-15T08:01:00+00:00"
    await clock.move(59)
    assert (hourly.runs, often.runs) == (0, 5)
    await clock.move(2)
    assert (hourly.runs, often.runs) == (1, 6)
    await clock.move(3600)
    assert (hourly.runs, often.runs, early.runs, asked.runs) == (2, 366, 2, 0)
    assert row(schedule, "asked")["next_run"] is None
    found = row(schedule, "hourly")
    assert (found["runs"], found["failures"], found["last_result"]) == (2, 0, {"run": 2})
    assert found["last_success"] == "2027-01-15T09:01:00+00:00"
    await schedule.stop()
    await clock.move(7200)
    assert hourly.runs == 2


async def test_a_failure_is_told_once_and_harms_nobody(caplog: pytest.LogCaptureFixture) -> None:
    clock, bad, good = MovedClock(), Counted(), Counted()
    bad.fails = OrcasError("The disk is full.")
    schedule = Schedule([Task("bad", "", 3600, bad), Task("good", "", 60, good)], clock)
    schedule.start()
    await clock.move(61)
    assert row(schedule, "bad")["error"] == "The disk is full"
    # Long before its interval.
    await clock.move(600)
    assert (bad.runs, good.runs) == (2, 11)
    assert caplog.text.count("Task bad failed and is tried again in 600 seconds: The disk is full") == 1
    before = schedule.numbers()[0]
    assert (before["succeeded"], before["failed"], before["succeeded_at"]) == (0, 2, 1_800_000_000.0)
    bad.fails = ZeroDivisionError("a mistake")
    await clock.move(600)
    assert "Task bad failed and is tried again in 600 seconds: ZeroDivisionError: a mistake" in caplog.text
    bad.fails = None
    with caplog.at_level("INFO"):
        await clock.move(600)
    assert "Task bad succeeds again" in caplog.text
    assert row(schedule, "bad")["error"] is None
    # From now on at its interval.
    await clock.move(3598)
    assert bad.runs == 4
    await clock.move(1)
    assert bad.runs == 5
    await schedule.stop()


class Panic(BaseException):
    """What PyO3 raises for a panic in Rust is no `Exception` either."""


async def test_a_panic_ends_one_run_and_not_the_task(caplog: pytest.LogCaptureFixture) -> None:
    clock, bad = MovedClock(), Counted()
    bad.fails = Panic("out of bounds")

    def panics() -> dict[str, int]:
        raise Panic

    schedule = Schedule([Task("bad", "", 60, bad), Task("thread", "", 0, in_thread("thread", panics))], clock)
    schedule.start()
    await clock.move(61)
    assert "Task bad failed and is tried again in 60 seconds: Panic: out of bounds" in caplog.text
    with pytest.raises(TaskError, match="Panic"):
        await schedule.run("thread")
    bad.fails = None
    await clock.move(60)
    assert (bad.runs, row(schedule, "bad")["failures"], row(schedule, "bad")["error"]) == (2, 1, None)
    await schedule.stop()


async def test_a_run_on_request_is_one_that_begins_afterwards() -> None:
    clock, task = MovedClock(), Counted()
    schedule = Schedule([Task("t", "", 3600, task)], clock)
    schedule.start()
    assert await schedule.run("t") == {"run": 1}
    # The interval begins with it.
    await clock.move(3599)
    assert task.runs == 1
    task.gate = asyncio.Event()
    await clock.move(1)
    assert (task.runs, row(schedule, "t")["running"]) == (2, True)
    asked = asyncio.create_task(schedule.run("t"))
    await clock.move(0)
    assert task.runs == 2
    task.gate.set()
    assert await asked == {"run": 3}
    task.fails = OrcasError("no")
    with pytest.raises(TaskError, match="no"):
        await schedule.run("t")
    await schedule.stop()


async def test_whoever_waits_for_a_run_may_leave() -> None:
    clock, task = MovedClock(), Counted()
    task.gate = asyncio.Event()
    schedule = Schedule([Task("t", "", 0, task)], clock)

    async def ask(count: int) -> list[asyncio.Task[Any]]:
        asked = [asyncio.create_task(schedule.run("t")) for _ in range(count)]
        await clock.move(0)
        return asked

    (gone,) = await ask(1)
    gone.cancel()
    await clock.move(0)
    # The run goes on, and another one waits for its end.
    assert row(schedule, "t")["running"]
    waiting = await ask(3)
    assert task.runs == 1
    waiting[0].cancel()
    task.gate.set()
    # One run for all who waited.
    assert [await asked for asked in waiting[1:]] == [{"run": 2}, {"run": 2}]
    assert (task.runs, row(schedule, "t")["running"]) == (2, False)
    # A run for which nobody waits any more is not begun.
    task.gate.clear()
    await ask(1)
    for asked in await ask(2):
        asked.cancel()
    task.gate.set()
    await clock.move(0)
    assert (task.runs, row(schedule, "t")["running"]) == (3, False)
    assert await schedule.run("t") == {"run": 4}


async def test_what_runs_for_long_delays_only_itself() -> None:
    clock, slow, quick = MovedClock(), Counted(), Counted()
    slow.gate = asyncio.Event()
    schedule = Schedule([Task("slow", "", 60, slow), Task("quick", "", 60, quick)], clock)
    schedule.start()
    await clock.move(600)
    assert (slow.runs, quick.runs) == (1, 10)
    gate, slow.gate = slow.gate, asyncio.Event()
    gate.set()
    await clock.move(1)
    # Once for all the times that it missed.
    assert slow.runs == 2
    assert schedule.numbers()[0]["duration"] == 540
    await clock.move(5)
    slow.gate.set()
    await clock.move(0)
    assert (slow.runs, schedule.numbers()[0]["duration"]) == (2, 6)
    await schedule.stop()


async def test_the_end_waits_for_what_runs_and_begins_nothing(caplog: pytest.LogCaptureFixture) -> None:
    clock, short, long = MovedClock(), Counted(), Counted()
    short.gate, long.gate = asyncio.Event(), asyncio.Event()
    long.fails = OrcasError("The store is closed")
    schedule = Schedule([Task("short", "", 60, short), Task("long", "", 60, long, outlasts=True)], clock)
    schedule.start()
    await clock.move(60)
    waiting = asyncio.create_task(schedule.run("short"))
    stopping = asyncio.create_task(schedule.stop())
    await clock.move(0)
    assert not stopping.done()
    short.gate.set()
    await stopping
    with pytest.raises(TaskError, match="about to be closed"):
        await waiting
    assert short.runs == 1
    assert row(schedule, "long")["running"]
    long.gate.set()
    await schedule.join()
    assert not row(schedule, "long")["running"]
    # The store ended it.
    assert "failed" not in caplog.text
    assert row(schedule, "long")["failures"] == 0


@pytest.mark.parametrize("fails", [False, True])
async def test_work_that_blocks_has_a_thread_of_its_own(fails: bool) -> None:
    def name() -> dict[str, object]:
        import threading

        if fails:
            raise ValueError("it fails")
        return {"thread": threading.current_thread().name}

    run: Callable[[], Any] = in_thread("work", name)
    if fails:
        with pytest.raises(ValueError, match="it fails"):
            await run()
    else:
        assert await run() == {"thread": "orcas-work"}


async def test_times_follow_the_clock_when_it_is_set() -> None:
    clock, task = MovedClock(), Counted()
    clock.set_by = -1_700_000_000
    schedule = Schedule([Task("t", "", 3600, task), Task("asked", "", 0, task)], clock)
    schedule.start()
    await clock.move(70)
    # The machine began with another time, and has learned the right one.
    clock.set_by = 0
    done, never = schedule.numbers()
    assert (done["succeeded_at"], done["due_at"]) == (clock.now() - 10, clock.now() + 3590)
    assert never["succeeded_at"] == clock.now() - 70
    shown = row(schedule, "t")
    assert shown["last_start"] == shown["last_success"] == "2027-01-15T08:01:00+00:00"
    await schedule.stop()


async def test_a_machine_that_was_suspended_runs_soon_what_was_due_meanwhile() -> None:
    clock, task = MovedClock(), Counted()
    schedule = Schedule([Task("t", "", 3600, task)], clock)
    schedule.start()
    await clock.move(70)
    clock.suspend(8 * 3600)
    await clock.move(60)
    assert task.runs == 2
    await schedule.stop()


@pytest.mark.skipif(not hasattr(time, "CLOCK_BOOTTIME"), reason="this system does not count what it slept")
def test_the_clock_counts_the_time_that_the_machine_slept(monkeypatch: pytest.MonkeyPatch) -> None:
    counted = {time.CLOCK_BOOTTIME: 30_000.0, time.CLOCK_MONOTONIC: 1_200.0}
    monkeypatch.setattr(time, "clock_gettime", counted.__getitem__)
    assert SystemClock().monotonic() == 30_000.0


def test_work_by_age_does_not_run_right_after_the_machine_slept() -> None:
    clock = MovedClock()
    guarded = ClockGuard(clock, 10_000, lambda: {"aborted": 3})
    clock.suspend(20_000)
    with pytest.raises(OrcasError, match="or the machine slept"):
        guarded()
    assert guarded() == {"aborted": 3}


@pytest.mark.parametrize("set_by", [20_000, -20_000])
def test_work_by_age_does_not_run_right_after_the_clock_was_set(set_by: int) -> None:
    clock = MovedClock()
    guarded = ClockGuard(clock, 10_000, lambda: {"aborted": 3})
    assert guarded() == {"aborted": 3}
    clock.set_by = set_by
    with pytest.raises(OrcasError, match=r"was set by [+-]5\.6 hours"):
        guarded()
    assert guarded() == {"aborted": 3}
    # Little by little, as a time server sets it.
    clock.set_by += 9_000
    assert guarded() == {"aborted": 3}
