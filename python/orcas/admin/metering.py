"""Usage of an open store: counted by the gateway and the index, kept by day in `usage.db`.

What was counted is kept at an interval, before every report, and at the end; meanwhile it is in bounded memory. If the file
cannot be written, it stays there until the next attempt. Imports no FastAPI: a server has this from its start on.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import logging
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from orcas.control.usage import FAILURES, GROUPS, UsageStore, day_of
from orcas.edge import StoreError
from orcas.errors import OrcasError

# What a report says of the present, beside sums over days.
PRESENT: Final = ("objects", "versions", "logical", "stored")

log = logging.getLogger("orcas")

Row = Mapping[str, Any]
# Of GB-months, of a thousand writes and reads, and of GB in and out.
Prices = tuple[float, float, float, float, float]
# What reports are grouped by to know the cost for each value of a tag.
TAG: Final = "tag:"


class Counts(Protocol):
    """Where numbers come from."""

    def take_requests(self) -> list[Any]:
        """Requests since the last call."""

    def stored(self, exact: bool, /) -> Any:
        """What the buckets hold. Blocks."""

    def bucket_tags(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """The tags of buckets."""

    def costs(self, prices: Prices, usage: list[tuple[int, int, int, int, float]], /) -> list[float]:
        """What each usage costs."""


class NotKeptError(OrcasError):
    """Usage cannot be kept at the moment, so a report would lack some of it."""


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


class UsageKeeper:
    """Keeps the usage of one store. Used from one event loop."""

    def __init__(
        self,
        counts: Counts,
        directory: Path,
        interval: float,
        days: int,
        prices: Prices = (0.0, 0.0, 0.0, 0.0, 0.0),
        clock: Callable[[], int] = now_ms,
    ) -> None:
        self._counts = counts
        self._directory = directory
        self._interval = interval
        self._days = days
        self._prices = prices
        self._clock = clock
        self._store: UsageStore | None = None
        # Taken, and not kept yet.
        self._taken: list[Row] = []
        self._turn = asyncio.Lock()
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._failure: str | None = None

    def start(self) -> None:
        """Keep what is counted at the interval from now on."""
        self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """Keep everything, and close the file."""
        self._stop.set()
        if self._task is not None:
            await self._task
        await self.keep()
        if self._store is not None:
            await self._store.close()

    async def _run(self) -> None:
        while not self._stop.is_set():
            await self.keep()
            try:
                await asyncio.wait_for(self._stop.wait(), self._interval)
            except TimeoutError:
                continue

    async def keep(self) -> bool:
        """Keep what was counted so far. False if it has to wait for the next attempt."""
        # Whoever asked may leave; a transaction that has begun ends, and what it added is not added again.
        return await asyncio.shield(asyncio.ensure_future(self._keep()))

    async def _keep(self) -> bool:
        async with self._turn:
            try:
                if self._store is None:
                    self._store = await UsageStore.open(self._directory)
                held = await asyncio.to_thread(self._counts.stored, False)
                self._taken = self._taken or self._counts.take_requests()
                at_ms = self._clock()
                await self._store.keep(self._taken, held["buckets"], at_ms, day_of(at_ms) - self._days)
                self._taken = []
            except (*FAILURES, OrcasError, StoreError) as error:
                if self._failure is None:
                    log.warning("Usage cannot be kept, and is counted in memory until it can: %s", error)
                self._failure = str(error)
                return False
            self._failure = None
            return True

    async def report(self, since: dt.date, until: dt.date, by: tuple[str, ...]) -> dict[str, Any]:
        """Sums over the days from `since` to `until`, both included, for each combination of `by`.

        Grouped by owner or bucket alone, each row also says what is stored at present.

        Raises:
            NotKeptError: the file cannot be read or written.
        """
        if not await self.keep() or self._store is None:
            raise NotKeptError(f"Usage cannot be kept: {self._failure}.")
        tag = next((group.removeprefix(TAG) for group in by if group.startswith(TAG)), None)
        asked = by
        by = ("bucket",) if tag is not None else tuple(group for group in GROUPS if group in by)
        try:
            async with self._turn:
                rows = await self._store.report(_day(since), _day(until), by, self._clock())
        except FAILURES as error:
            raise NotKeptError(f"Usage cannot be read: {error}.") from error
        report: dict[str, Any] = {
            "since": since.isoformat(),
            "until": until.isoformat(),
            "by": list(by if tag is None else asked),
        }
        if not {"key", "day"} & set(by):
            held = await asyncio.to_thread(self._counts.stored, True)
            rows = _with_present(rows, held, by)
            report["exact"] = held["exact"]
        if tag is not None:
            rows = _by_tag(rows, tag, dict(self._counts.bucket_tags()))
        if any(self._prices):
            used = [
                (row["writes"], row["reads"], row["received"], row["sent"], row.get("gb_months", 0.0)) for row in rows
            ]
            costs = self._counts.costs(self._prices, used)
            rows = [{**row, "cost": round(cost, 9)} for row, cost in zip(rows, costs, strict=True)]
        return {**report, "rows": rows}


def _day(date: dt.date) -> int:
    return (date - dt.date(1970, 1, 1)).days


def _by_tag(rows: list[dict[str, Any]], tag: str, tags: Mapping[str, list[tuple[str, str]]]) -> list[dict[str, Any]]:
    """Sums of rows of buckets by the values that their tag has now; empty without it."""
    name = f"{TAG}{tag}"
    sums: dict[str, dict[str, Any]] = {}
    for row in rows:
        value = dict(tags.get(row["bucket"], [])).get(tag, "")
        numbers = {column: number for column, number in row.items() if column != "bucket"}
        known = sums.setdefault(value, {name: value, **dict.fromkeys(numbers, 0)})
        for column, number in numbers.items():
            known[column] += number
    return [sums[value] for value in sorted(sums)]


def _with_present(rows: list[dict[str, Any]], held: Any, by: tuple[str, ...]) -> list[dict[str, Any]]:
    """The rows with what each holds now, and rows for what had no requests."""
    present: dict[tuple[str, ...], dict[str, Any]] = {}
    for bucket in held["buckets"]:
        names = {"owner": bucket["owner"], "bucket": bucket["name"]}
        sums = present.setdefault(tuple(names[group] for group in by), dict.fromkeys(PRESENT, 0))
        for name in PRESENT:
            sums[name] += bucket[name]
    if by == ("owner",):
        # Buckets of an owner share content. How much, only the whole store knows.
        for sums in present.values():
            sums["stored"] = held["stored"] if len(present) == 1 else None
    known = {tuple(row[group] for group in by): row for row in rows}
    empty = dict.fromkeys(("writes", "reads", "free", "received", "sent"), 0) | dict.fromkeys(
        ("gb_months", "unique_gb_months"), 0.0
    )
    nothing = dict.fromkeys(PRESENT, 0)
    return [
        {**dict(zip(by, group, strict=True)), **known.get(group, empty), **present.get(group, nothing)}
        for group in sorted(known.keys() | present.keys())
    ]
