"""The newest requests in memory, for as long as somebody watches: lines of the access log, and why some were refused.

Nobody watches by default, and then requests cost what they cost without it. Who watches asks again within `WATCH_SECONDS`.
Bounded in lines and bytes; failures are kept apart, so that many successes do not displace them. Thread-safe.
"""

from __future__ import annotations

import json
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

if TYPE_CHECKING:
    from orcas.telemetry.access import Lines

WATCH_SECONDS: Final = 30.0
# Lines of all requests, and of those that were refused or failed; bytes of each.
KEPT_MAX: Final = 2000
FAILED_MAX: Final = 1000
BYTES_MAX: Final = 4 << 20
# Seconds for which lines are gathered.
_GATHER_SECONDS: Final = 0.3
# Lines that are read until other threads have their turn.
_TURN: Final = 50
_GOOD: Final = (b'"status":2', b'"status":3')


class Causes(Protocol):
    """Why requests are refused."""

    def watch_causes(self, seconds: float, /) -> None:
        """Keep them for so long from now on."""

    def causes(self) -> dict[str, tuple[str, str | None]]:
        """The causes of the newest refusals, stated and most likely, by the id of the request."""


@dataclass
class Ring:
    """The newest lines with their numbers, which only grow."""

    lines_max: int
    bytes_max: int = BYTES_MAX
    lines: deque[tuple[int, bytes]] = field(default_factory=deque)
    size: int = 0

    def add(self, number: int, line: bytes) -> None:
        """Keep a line, and drop the oldest beyond the bounds."""
        self.lines.append((number, line))
        self.size += len(line)
        while len(self.lines) > self.lines_max or self.size > self.bytes_max:
            self.size -= len(self.lines.popleft()[1])


def newest_of(
    lines: list[tuple[int, bytes]], limit: int, after: int, fits: Callable[[dict[str, Any]], bool]
) -> list[dict[str, Any]]:
    """The newest lines that fit as objects with their `number`, at most `limit`, whose numbers are above `after`."""
    found: list[dict[str, Any]] = []
    for turn, (at, line) in enumerate(reversed(lines)):
        if at <= after or len(found) >= limit:
            break
        if turn % _TURN == _TURN - 1:
            time.sleep(0)
        entry = json.loads(line)
        if fits(entry):
            found.append({**entry, "number": at})
    return found


class RequestWatch:
    """The newest requests. `lines`: where lines of the access log come from; None if the access log passes them on."""

    def __init__(self, lines: Lines | None, causes: Causes, clock: Callable[[], float] = time.monotonic) -> None:
        self._lines = lines
        self._causes = causes
        self._clock = clock
        self._lock = threading.Lock()
        self._until = -1.0
        self._thread: threading.Thread | None = None
        self._stopped = False
        self._forget()

    def _forget(self) -> None:
        self._number = 0
        self._all, self._failed = Ring(KEPT_MAX), Ring(FAILED_MAX)

    def take(self, piece: bytes) -> None:
        """Keep these lines, if somebody watches."""
        if self._clock() < self._until:
            with self._lock:
                self._keep(piece)

    def _keep(self, piece: bytes) -> None:
        lines = piece.splitlines()
        first = self._number + 1
        self._number += len(lines)
        for number, line in enumerate(lines, first):
            # Quotes within values are escaped, so no value can look like a field.
            if not any(mark in line for mark in _GOOD):
                self._failed.add(number, line)
        for number, line in list(enumerate(lines, first))[-KEPT_MAX:]:
            self._all.add(number, line)

    def watch(self) -> None:
        """Watch from now on. Called again and again, at the latest after `WATCH_SECONDS`. Blocks for a moment."""
        with self._lock:
            if self._stopped:
                return
            if self._clock() >= self._until:
                # What was before is no stream with what comes.
                self._forget()
            self._until = self._clock() + WATCH_SECONDS
            self._causes.watch_causes(WATCH_SECONDS)
            if self._lines is not None and self._thread is None:
                self._lines.log_access(True)
                thread = threading.Thread(target=self._run, name="orcas-watch", daemon=True)
                try:
                    thread.start()
                except RuntimeError:
                    # Nobody would take the lines.
                    self._lines.log_access(False)
                    raise
                self._thread = thread

    def stop(self) -> None:
        """End for good. Blocks until the thread has ended."""
        with self._lock:
            self._stopped, self._until, thread = True, -1.0, self._thread
            if self._lines is not None:
                self._lines.log_access(False)
        if thread is not None:
            thread.join()

    def _run(self) -> None:
        assert self._lines is not None
        while piece := self._lines.take_access_lines(_GATHER_SECONDS):
            with self._lock:
                if self._clock() >= self._until:
                    # Only a request wakes this thread, so until one comes, watching costs nothing.
                    self._lines.log_access(False)
                    self._thread = None
                    self._forget()
                    return
                self._keep(piece)

    def newest(
        self, limit: int, after: int = 0, *, failed: bool = False, **wanted: str | None
    ) -> tuple[list[dict[str, Any]], int]:
        """The newest requests first, at most `limit`, whose numbers are above `after`; and the newest number.

        `wanted`: values that fields must have; those of `key` and `access_key` must begin so. An error code is `error`.
        """
        with self._lock:
            ring = list((self._failed if failed else self._all).lines)
            number = self._number
        found = newest_of(
            ring, limit, after, lambda entry: all(_fits(entry, name, value) for name, value in wanted.items() if value)
        )
        causes = self._causes.causes()
        for entry in found:
            entry["cause"], entry["likely_cause"] = causes.get(entry.get("request_id", ""), (None, None))
        return found, number


def _fits(entry: dict[str, Any], name: str, value: str) -> bool:
    found = str(entry.get(name) or "")
    return found.startswith(value) if name in ("key", "access_key") else found == value
