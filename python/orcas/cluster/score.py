"""How well a node suits as the owner of the log: the score of report 003, and what it decides.

Invariants. A score decides who tries first, never who owns the log, nor when a write counts. A node knows its own score;
that of the owner, the owner says in the log. Must not know how a log is read or taken.
"""

from __future__ import annotations

import os
import statistics
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

# The weights, of which the sum is 1, and the latency that is worth nothing.
LOAD_WEIGHT: Final = 0.15
LATENCY_WEIGHT: Final = 0.25
COPY_WEIGHT: Final = 0.60
LATENCY_WORST_MS: Final = 80.0

# A node that has read the log to its end has no less.
_WORST_OF_COMPLETE: Final = COPY_WEIGHT
# Of the time by which followers bid one after the other, the share that chance decides: equals would bid together.
_CHANCE: Final = 0.2

# Samples of the latency, of which the median counts.
_SAMPLES: Final = 6


def score(load: float, latency_ms: float, copy: float) -> float:
    """The score of a node, from 0 to 1: the higher, the better it suits as the owner. It is
    `0.15 * (1 - load) + 0.25 * (1 - latency_ms / 80) + 0.60 * copy`.

    Report 003 (*How Go's sync.Pool saves the performance of concurrent HTTP*, section 2.4) has three nodes with their scores
    and no formula. This one gives these scores. So do a few others: see notebook 13.

    Args:
        load: share of the processors that is in use, from 0 to 1.
        latency_ms: to the store of the log, in milliseconds; 80 and more are worth nothing.
        copy: share of the log that the node has, from 0 to 1.
    """
    idle, near = 1 - _share(load), 1 - _share(latency_ms / LATENCY_WORST_MS)
    return LOAD_WEIGHT * idle + LATENCY_WEIGHT * near + COPY_WEIGHT * _share(copy)


def _share(value: float) -> float:
    return min(max(value, 0.0), 1.0)


def bid_share(found: float, chance: float) -> float:
    """When a follower bids for a log that nobody owns: 0 at once, 1 last of all.

    Args:
        found: its score, of a node that has read the log to its end.
        chance: a random number from 0 to 1.
    """
    behind = _share((1 - found) / (1 - _WORST_OF_COMPLETE))
    return (1 - _CHANCE) * behind + _CHANCE * chance


def load_of_machine() -> float:
    """The share of the processors of this machine that was in use in the last minute."""
    return _share(os.getloadavg()[0] / (os.cpu_count() or 1))


@dataclass
class Measured:
    """What a node knows of itself. One thread measures, others look."""

    load: float = 1.0
    _latencies_ms: deque[float] = field(default_factory=lambda: deque(maxlen=_SAMPLES))

    def add(self, load: float, latency_ms: float | None) -> None:
        """One more measurement. `latency_ms`: None if the store of the log did not answer."""
        self.load = load
        self._latencies_ms.append(LATENCY_WORST_MS if latency_ms is None else latency_ms)

    @property
    def latency_ms(self) -> float:
        """The median of the last ones; before the first, the worst."""
        return statistics.median(self._latencies_ms or [LATENCY_WORST_MS])

    def score(self) -> float:
        """The score of this node once it has read the log to its end, without which it cannot own it."""
        return score(self.load, self.latency_ms, 1.0)


@dataclass(frozen=True, slots=True)
class Pace:
    """How hasty moves are. Tests have others."""

    measure_sec: float = 10.0
    # A look that comes so long after the last one is the first.
    break_sec: float = 20.0
    # A node has to be better by this factor, for so long without a break.
    factor: float = 1.3
    better_for_sec: float = 60.0
    # Between two owners.
    rest_sec: float = 600.0


class Wish:
    """Whether a follower should ask the owner for the log, by what it sees from time to time.

    Never before the owner has owned the log for `rest_sec`, as far as this node has seen it; never unless at every look of
    the last `better_for_sec` this node had everything and the better score by `factor`.
    """

    def __init__(self, pace: Pace, clock: Callable[[], float]) -> None:
        self._pace, self._clock = pace, clock
        self._term: int | None = None
        self._owned_since = self._looked = 0.0
        self._better_since: float | None = None

    def look(self, term: int, mine: float, owners: float | None, *, is_complete: bool) -> bool:
        """Look once, every `measure_sec`. Whether to ask for the log now.

        Args:
            term: of the owner.
            mine: the score of this node.
            owners: that of the owner; None if there is none, or it says nothing.
            is_complete: whether this node has everything that the log has, as of a moment ago.
        """
        now = self._clock()
        missed = now - self._looked > self._pace.break_sec
        self._looked = now
        if term != self._term:
            self._term, self._owned_since, self._better_since = term, now, None
        if owners is None or not is_complete or mine < self._pace.factor * owners:
            self._better_since = None
            return False
        if self._better_since is None or missed:
            self._better_since = now
        is_rested = now - self._owned_since >= self._pace.rest_sec
        if not is_rested or now - self._better_since < self._pace.better_for_sec:
            return False
        # If the owner refuses, it is asked again after the same time.
        self._better_since = None
        return True
