"""What clients know about a store: every change they requested, when, and how it was answered.

A key is a register. A change lasts from before its request was sent until after its answer arrived. A change without an
answer has no end, and may or may not have happened. A read may return what a change wrote if the change began before
the read ended, and no acknowledged change lies entirely between the two. Must not know HTTP.
"""

from __future__ import annotations

import itertools
import math
import threading
import time
from dataclasses import dataclass, field

NEVER = math.inf
ALWAYS = -math.inf


@dataclass(frozen=True)
class Value:
    """An object: the name of its content, its size in bytes, and its number of parts (0: not uploaded in parts)."""

    name: str
    size: int
    parts: int = 0


# A key without an object.
ABSENT = None


@dataclass
class Change:
    """One request that sets `key` to `value`, or deletes it (ABSENT). Times are those of `time.monotonic`."""

    key: str
    value: Value | None
    began: float
    ended: float = NEVER
    # It was refused, so it never takes effect.
    void: bool = False
    # Whether the answer promised durability.
    durable: bool = True
    number: int = 0

    @property
    def acknowledged(self) -> bool:
        """Whether the client was told that it happened."""
        return self.ended < NEVER and not self.void


@dataclass
class Ledger:
    """All changes of one run. Safe for threads."""

    changes: dict[str, list[Change]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _numbers: itertools.count[int] = field(default_factory=itertools.count)

    def begin(self, key: str, value: Value | None, *, durable: bool = True) -> Change:
        """Record that a change is about to be requested."""
        with self._lock:
            change = Change(key, value, time.monotonic(), durable=durable, number=next(self._numbers))
            self.changes.setdefault(key, []).append(change)
            return change

    def acknowledge(self, *changes: Change) -> None:
        """Record that the server acknowledged it."""
        now = time.monotonic()
        for change in changes:
            change.ended = now

    def refuse(self, *changes: Change) -> None:
        """Record that the server refused it, so that it certainly did not happen."""
        for change in changes:
            change.void = True

    def find(self, key: str, value: Value | None, *, began: float, ended: float) -> Change | None:
        """The change that a read of `value` from `began` to `ended` may have seen; None when there is none.

        If several are possible (deletions are alike), it is the one that excludes the fewest others.
        """
        with self._lock:
            changes = [change for change in self.changes.get(key, ()) if not change.void]
        # Before the first change, the key has no object.
        changes.insert(0, Change(key, ABSENT, ALWAYS, ALWAYS))
        latest = max((change.began for change in changes if change.ended < began), default=ALWAYS)
        legal = [c for c in changes if c.value == value and c.began < ended and c.ended >= latest]
        return min(legal, key=lambda change: change.began, default=None)

    def legal(self, key: str) -> list[Value | None]:
        """What a read may return now, for messages."""
        now = time.monotonic()
        with self._lock:
            values = {ABSENT, *(change.value for change in self.changes.get(key, ()))}
        return [value for value in values if self.find(key, value, began=now, ended=now)]

    def settle(self, key: str, value: Value | None) -> None:
        """After a restart: `key` was read as `value`, and no earlier request can still take effect."""
        now = time.monotonic()
        with self._lock:
            self.changes[key] = [Change(key, value, now, now)]

    def known(self) -> list[str]:
        """Every key that was ever requested, in order."""
        with self._lock:
            return sorted(self.changes)

    def acknowledged(self) -> int:
        """How many changes were acknowledged since the last `settle`."""
        with self._lock:
            return sum(change.acknowledged for changes in self.changes.values() for change in changes)
