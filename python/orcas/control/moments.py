"""The times at which usage is kept: from the clock of the machine, checked against one that nobody can set.

Invariants. Time that the clock skips is charged to nobody, and nothing is removed because of a date that may be wrong. Only
the clock of the machine tells how long a store was closed. Must not know what is kept.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

DAY_MS: Final = 86_400_000
# What the two clocks may differ by: corrections of small errors.
_STEP_MS: Final = 10_000
# A store may be closed for so long. After a longer time the clock is taken to be wrong, or to have been.
CLOSED_MAX_MS: Final = 31 * DAY_MS
# A wrong clock is noticed before: clients of S3 are refused if it is wrong by a quarter of an hour.
TRUSTED_AFTER_MS: Final = 7 * DAY_MS
# Counts that are dated earlier were made before the clock was set.
FIRST_DAY: Final = 18_262

# Includes the time for which the machine is suspended, where there is such a clock.
_STEADY: Final = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def day_of(at_ms: int) -> int:
    """Days from 1970 to a time in UTC."""
    return at_ms // DAY_MS


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def steady_ms() -> int:
    """Milliseconds since some moment; nobody can set this clock."""
    return time.clock_gettime_ns(_STEADY) // 1_000_000


@dataclass(frozen=True, slots=True)
class Kept:
    """When a store was last kept, and since when the clock has not been set."""

    at_ms: int
    steady_since_ms: int


@dataclass(frozen=True, slots=True)
class Moment:
    """A time at which usage is kept. `was_set`: the clock has been set since the last one."""

    kept: Kept
    # What has changed since the last moment was held until here,
    until_ms: int
    # and what there is instead from here on.
    from_ms: int
    was_set: bool = False

    @property
    def trusts_date(self) -> bool:
        """Whether what is old at this date may be removed."""
        return self.kept.at_ms - self.kept.steady_since_ms >= TRUSTED_AFTER_MS

    def day(self, counted: int) -> int:
        """The day of what was counted on another one, if that cannot be."""
        today = day_of(self.kept.at_ms)
        return counted if FIRST_DAY <= counted <= today else today


class Watch:
    """Tells moments. Its first one follows the one that the file has."""

    def __init__(self, clock: Callable[[], int] = now_ms, steady: Callable[[], int] = steady_ms) -> None:
        self._clock = clock
        self._steady = steady
        # Both clocks when a moment was told, and when usage was last kept in this process.
        self._told: tuple[int, int] | None = None
        self._last: tuple[int, int] | None = None

    def moment(self, kept: Kept | None) -> Moment:
        """The present, after usage was `kept`; None for a new file."""
        now, steady = self._told = self._clock(), self._steady()
        since = now if kept is None else kept.steady_since_ms
        if self._last is not None:
            expected = self._last[0] + steady - self._last[1]
            if abs(now - expected) > _STEP_MS:
                return Moment(Kept(now, now), expected, now, was_set=True)
            return Moment(Kept(now, since), now, now)
        if kept is None:
            return Moment(Kept(now, now), now, now)
        if -_STEP_MS <= now - kept.at_ms <= CLOSED_MAX_MS:
            changed = min(kept.at_ms, now)
            return Moment(Kept(now, since), changed, changed)
        return Moment(Kept(now, now), kept.at_ms, now, was_set=True)

    def passed(self) -> None:
        """Usage was kept at the last moment that was told."""
        self._last = self._told
