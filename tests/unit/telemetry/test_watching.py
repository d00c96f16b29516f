"""The newest requests in memory, with lines and a clock of the test's own."""

from __future__ import annotations

import queue
from typing import Any

from tests.fixtures.waiting import wait_until

from orcas.telemetry.watching import BYTES_MAX, FAILED_MAX, KEPT_MAX, WATCH_SECONDS, RequestWatch


class Lines:
    """Where lines come from."""

    def __init__(self) -> None:
        self.waiting: queue.Queue[bytes] = queue.Queue()
        self.enabled = False

    def log_access(self, enabled: bool, /) -> None:
        self.enabled = enabled
        if not enabled:
            self.waiting.put(b"")

    def take_access_lines(self, gather: float, /) -> bytes:
        return self.waiting.get()

    def drop_access_lines(self, lines: int, /) -> None:
        raise AssertionError(lines)


class Causes:
    """Why requests are refused."""

    seconds = 0.0

    def watch_causes(self, seconds: float, /) -> None:
        self.seconds = seconds

    def causes(self) -> dict[str, tuple[str, str | None]]:
        return {"1": ("why", None), "2": ("why", "likely")}


class Clock:
    """Moved by the test."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def line(number: int, status: int = 200, **fields: Any) -> bytes:
    more = "".join(f',"{name}":"{value}"' for name, value in fields.items())
    return f'{{"request_id":"{number}","status":{status}{more}}}\n'.encode()


def ids(watch: RequestWatch, **wanted: Any) -> list[int]:
    return [int(entry["request_id"]) for entry in watch.newest(5000, **wanted)[0]]


def test_nothing_is_kept_unless_somebody_watches() -> None:
    clock = Clock()
    watch = RequestWatch(None, Causes(), clock)
    watch.take(line(1))
    assert ids(watch) == []
    watch.watch()
    watch.take(line(2))
    assert ids(watch) == [2]
    clock.now += WATCH_SECONDS
    watch.take(line(3))
    # Who watches again begins anew.
    watch.watch()
    assert ids(watch) == []


def test_memory_is_bounded_and_failures_stay() -> None:
    watch = RequestWatch(None, Causes(), Clock())
    watch.watch()
    watch.take(b"".join(line(number, 404 if number < 3 else 200) for number in range(KEPT_MAX * 2)))
    assert ids(watch) == list(range(KEPT_MAX * 2 - 1, KEPT_MAX - 1, -1))
    assert ids(watch, failed=True) == [2, 1, 0]
    watch.take(b"".join(line(number, 500) for number in range(FAILED_MAX * 2)))
    assert len(ids(watch, failed=True)) == FAILED_MAX
    long = line(7, key="k" * 8000)
    watch.take(long * 1500)
    assert len(ids(watch)) == BYTES_MAX // (len(long) - 1)


def test_refusals_have_their_causes_while_somebody_watches() -> None:
    causes = Causes()
    watch = RequestWatch(None, causes, Clock())
    watch.watch()
    assert causes.seconds == WATCH_SECONDS
    watch.take(line(1, 403) + line(2, 403) + line(3))
    told = [(entry["cause"], entry["likely_cause"]) for entry in watch.newest(10)[0]]
    assert told == [(None, None), ("why", "likely"), ("why", None)]


def test_a_value_that_looks_like_a_field_hides_no_failure() -> None:
    watch = RequestWatch(None, Causes(), Clock())
    watch.watch()
    watch.take(line(1, 404, key='\\"status\\":200'))
    assert ids(watch, failed=True) == [1]


def test_lines_are_taken_by_a_thread_that_ends_when_nobody_watches() -> None:
    clock, lines = Clock(), Lines()
    watch = RequestWatch(lines, Causes(), clock)
    watch.watch()
    assert lines.enabled
    lines.waiting.put(line(1))
    assert wait_until(lambda: ids(watch) == [1])
    clock.now += WATCH_SECONDS
    lines.waiting.put(line(2))
    assert wait_until(lambda: not lines.enabled)
    assert ids(watch) == []
    # And again.
    lines.waiting = queue.Queue()
    watch.watch()
    assert lines.enabled
    lines.waiting.put(line(3))
    assert wait_until(lambda: ids(watch) == [3])
    watch.stop()
    assert not lines.enabled
    watch.watch()
    assert not lines.enabled
