"""The scheduler of periodic tasks: the only code that begins work because its time has come.

Invariants. No task runs twice at the same time. No task waits for another, or is affected by the failure of another. A
failure is counted and reported, and the task runs again in its turn. The clock is passed in. Must not know what the tasks
do.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import datetime as dt
import logging
import threading
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from orcas.engine import StoreError
from orcas.errors import OrcasError

if TYPE_CHECKING:
    from orcas.engine import TaskNumbers

# The first run comes this long after the start, or after the interval if that is shorter: a server that is restarted often
# gets its runs.
FIRST_SECONDS: Final = 60.0
# Between a failure and the next run, or the interval if that is shorter.
RETRY_SECONDS: Final = 600.0
# The longest sleep without a look at the clock: a sleep does not go on while the machine is suspended.
_SLEEP_MAX: Final = 60.0

log = logging.getLogger("orcas")

_T = TypeVar("_T")
# What a run came to, for JSON.
Result = Mapping[str, object]


class Clock(Protocol):
    """The time, and waiting for it."""

    def now(self) -> float:
        """Seconds since 1970."""

    def monotonic(self) -> float:
        """Seconds since some moment; never goes back, and counts those that the machine slept, if it knows."""

    def awake(self) -> float:
        """Seconds since some moment; never goes back, and leaves out those that the machine slept."""

    async def sleep(self, seconds: float) -> None:
        """Wait so long."""


class SystemClock:
    """The clock of the machine."""

    now = staticmethod(time.time)
    awake = staticmethod(time.monotonic)
    sleep = staticmethod(asyncio.sleep)

    @staticmethod
    def monotonic() -> float:
        """Seconds since some moment, those that the machine slept included where the system counts them."""
        return time.clock_gettime(time.CLOCK_BOOTTIME) if hasattr(time, "CLOCK_BOOTTIME") else time.monotonic()


class TaskError(OrcasError):
    """A run that somebody waited for failed, or was not begun."""


@dataclass(frozen=True, slots=True)
class Task:
    """A task that is due at intervals."""

    name: str
    about: str
    # Seconds between the beginnings of two runs; 0 for runs on request only.
    interval: float
    run: Callable[[], Awaitable[Result]]
    # Seconds from the start to the first run, if not as usual.
    first: float = FIRST_SECONDS
    # It ends when the store closes, and perhaps not long before.
    outlasts: bool = False
    # How far a run is.
    progress: Callable[[], dict[str, Any]] = dict


@dataclass(slots=True)
class _Entry:
    """A task and what became of it."""

    task: Task
    # Held by the run itself: whoever waits for it may leave.
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    current: asyncio.Task[Result | TaskError] | None = None
    # The run after that, and how many wait for it.
    following: asyncio.Task[Result | TaskError] | None = None
    waiting: int = 0
    # These on the monotonic clock, as that of the machine may be set. None without an interval, and before the start.
    due: float | None = None
    started_at: float | None = None
    succeeded_at: float | None = None
    duration: float | None = None
    result: Result | None = None
    error: str | None = None
    succeeded: int = 0
    failed: int = 0


class Schedule:
    """The tasks of one open store. Used from one event loop."""

    def __init__(self, tasks: Iterable[Task], clock: Clock) -> None:
        self._clock = clock
        self._entries = {task.name: _Entry(task) for task in tasks}
        self._began = clock.monotonic()
        self._keepers: list[asyncio.Task[None]] = []
        self._stopped = False

    def start(self) -> None:
        """Run every task at its interval from now on."""
        for entry in self._entries.values():
            if entry.task.interval:
                entry.due = self._clock.monotonic() + min(entry.task.first, entry.task.interval)
                self._keepers.append(asyncio.create_task(self._keep(entry)))

    async def stop(self) -> None:
        """Called before the store is closed: nothing is begun any more, and what does not outlast this has ended."""
        self._stopped = True
        for keeper in self._keepers:
            keeper.cancel()
        await asyncio.gather(*self._keepers, return_exceptions=True)
        await self._ended(lambda task: not task.outlasts)

    async def join(self) -> None:
        """Called after the store is closed: everything has ended."""
        await self._ended(lambda task: True)

    async def _ended(self, chosen: Callable[[Task], bool]) -> None:
        entries = [entry for entry in self._entries.values() if chosen(entry.task)]
        runs = [run for entry in entries for run in (entry.current, entry.following) if run is not None]
        await asyncio.gather(*runs, return_exceptions=True)

    def find(self, name: str) -> Task | None:
        """The task of that name."""
        entry = self._entries.get(name)
        return None if entry is None else entry.task

    async def run(self, name: str) -> Result:
        """Run a task now, or when the run that is under way is over, and say what came of it.

        All who wait for the next run share it. If they leave, it is not begun; one that has begun goes on.

        Raises:
            TaskError: it failed, or the store is about to be closed.
        """
        return await self._run(self._entries[name])

    async def _keep(self, entry: _Entry) -> None:
        while True:
            left = (entry.due or 0) - self._clock.monotonic()
            if left > 0:
                await self._clock.sleep(min(left, _SLEEP_MAX))
            elif entry.current is not None:
                # On request. Its turn comes after that, by the time that is due then.
                await asyncio.wait([entry.current])
            else:
                try:
                    await self._run(entry)
                except TaskError:
                    continue

    async def _run(self, entry: _Entry) -> Result:
        if entry.following is None:
            entry.following, entry.waiting = asyncio.create_task(self._in_turn(entry)), 0
        run = entry.following
        entry.waiting += 1
        try:
            ended = await asyncio.shield(run)
        except asyncio.CancelledError:
            if entry.following is run:
                entry.waiting -= 1
                if entry.waiting == 0:
                    entry.following = None
                    run.cancel()
            raise
        if isinstance(ended, TaskError):
            raise ended
        return ended

    async def _in_turn(self, entry: _Entry) -> Result | TaskError:
        async with entry.turn:
            # Whoever asks from now on means another run.
            entry.current, entry.following = entry.following, None
            try:
                return TaskError("The store is about to be closed") if self._stopped else await self._once(entry)
            finally:
                entry.current = None

    async def _once(self, entry: _Entry) -> Result | TaskError:
        task, clock = entry.task, self._clock
        begun = entry.started_at = clock.monotonic()
        wait = task.interval
        try:
            entry.result = await task.run()
        except (asyncio.CancelledError, KeyboardInterrupt, SystemExit):
            raise
        except BaseException as error:  # noqa: BLE001 - a panic in Rust is no Exception; the task runs again all the same
            wait = min(task.interval, RETRY_SECONDS)
            explained = isinstance(error, OrcasError | StoreError | OSError)
            text = str(error).removesuffix(".") if explained else f"{type(error).__name__}: {error}"
            # What a closing store ends has not failed.
            if not self._stopped:
                self._note_failure(entry, text, wait)
            return TaskError(text)
        else:
            if entry.error is not None:
                log.info("Task %s succeeds again", task.name)
            entry.error, entry.succeeded, entry.succeeded_at = None, entry.succeeded + 1, clock.monotonic()
            return entry.result
        finally:
            entry.duration = clock.monotonic() - begun
            if entry.due is not None:
                entry.due = begun + wait
                # However long it took, others get their turn.
                entry.due = max(entry.due, clock.monotonic())

    def _note_failure(self, entry: _Entry, text: str, wait: float) -> None:
        """Reported when it begins, and when the reason is another one."""
        if entry.error != text:
            if entry.due is None:
                log.warning("Task %s failed and is tried again on request: %s", entry.task.name, text)
            else:
                log.warning("Task %s failed and is tried again in %d seconds: %s", entry.task.name, wait, text)
        entry.error, entry.failed = text, entry.failed + 1

    def describe(self) -> list[dict[str, Any]]:
        """The table of tasks, for JSON."""
        return [
            {
                "name": entry.task.name,
                "about": entry.task.about,
                "interval_sec": entry.task.interval or None,
                "running": entry.current is not None,
                "runs": entry.succeeded + entry.failed,
                "failures": entry.failed,
                "last_start": self._shown(entry.started_at),
                "last_success": self._shown(entry.succeeded_at),
                "last_duration_sec": None if entry.duration is None else round(entry.duration, 3),
                "last_result": None if entry.result is None else dict(entry.result),
                "error": entry.error,
                "next_run": self._shown(entry.due),
            }
            for entry in self._entries.values()
        ]

    def numbers(self) -> list[TaskNumbers]:
        """The tasks as the metrics have them."""
        return [
            {
                "name": entry.task.name,
                "succeeded": entry.succeeded,
                "failed": entry.failed,
                "running": entry.current is not None,
                "interval": entry.task.interval or None,
                "succeeded_at": self._at(self._began if entry.succeeded_at is None else entry.succeeded_at),
                "duration": entry.duration,
                "due_at": None if entry.due is None else self._at(entry.due),
            }
            for entry in self._entries.values()
        ]

    def _at(self, moment: float) -> float:
        """When that is by the clock of the machine as it is now."""
        return self._clock.now() + moment - self._clock.monotonic()

    def _shown(self, moment: float | None) -> str | None:
        if moment is None:
            return None
        return dt.datetime.fromtimestamp(self._at(moment), dt.UTC).isoformat(timespec="seconds")


def in_thread(name: str, work: Callable[[], _T]) -> Callable[[], Awaitable[_T]]:
    """`work` on a thread of its own, however long it takes: it keeps no thread of the pool from others."""

    async def run() -> _T:
        done: concurrent.futures.Future[_T] = concurrent.futures.Future()
        done.set_running_or_notify_cancel()

        def call() -> None:
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - raised again where it is awaited
                done.set_exception(error)
            else:
                done.set_result(result)

        threading.Thread(target=call, name=f"orcas-{name}", daemon=True).start()
        return await asyncio.wrap_future(done)

    return run
