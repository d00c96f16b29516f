"""Usage of an open store: counted by the gateway and the index, kept by day in `usage.db`.

Counts stay in bounded memory until they are written to the file: on request, before every report, and at the end. If the
file cannot be written, they stay there until the next attempt. Imports no FastAPI: a server has this from its start on.
"""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import logging
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final, Protocol

from orcas.control.database import is_damage
from orcas.control.files.lost import note_presence
from orcas.control.moments import Watch
from orcas.control.usage import FAILURES, GROUPS, UsageStore, put_aside
from orcas.engine import StoreError
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
    """The engine's counts of usage."""

    def take_requests(self) -> list[Any]:
        """Requests since the last call."""

    def stored(self, exact: bool, /) -> Any:
        """The contents of the buckets in numbers. Blocks."""

    def bucket_tags(self) -> list[tuple[str, list[tuple[str, str]]]]:
        """The tags of buckets."""

    def costs(self, prices: Prices, usage: list[tuple[int, int, int, int, float]], /) -> list[float]:
        """The costs of each usage."""


class NotKeptError(OrcasError):
    """Usage cannot be kept at the moment, so a report would lack some of it."""


class UsageKeeper:
    """Keeps the usage of one store. Used from one event loop."""

    def __init__(
        self,
        counts: Counts,
        directory: Path,
        days: int,
        prices: Prices = (0.0, 0.0, 0.0, 0.0, 0.0),
        watch: Watch | None = None,
    ) -> None:
        self._counts = counts
        self._directory = directory
        self._days = days
        self._prices = prices
        self._watch = watch or Watch()
        self._store: UsageStore | None = None
        self._checked = False
        # Taken, and not kept yet.
        self._taken: list[Row] = []
        self._turn = asyncio.Lock()
        self._keeps = False
        self._failure: str | None = None

    async def roll_up(self) -> Mapping[str, object]:
        """Keep what was counted so far, and from now on everything: also what comes until the end.

        Raises:
            NotKeptError: it has to wait for the next attempt.
        """
        self._keeps = True
        if not await self.keep():
            raise NotKeptError(f"Usage cannot be saved, and is counted in memory until then: {self._failure}")
        return {}

    async def close(self) -> None:
        """Keep everything, if anything was to be kept, and close the file."""
        if self._keeps and not await self.keep():
            log.warning("Usage since the last save is lost: %s", self._failure)
        if self._store is not None:
            await self._store.close()

    async def keep(self) -> bool:
        """Keep what was counted so far. False if it has to wait for the next attempt."""
        # Whoever asked may leave; a transaction that has begun ends, and what it added is not added again.
        return await asyncio.shield(asyncio.ensure_future(self._keep()))

    async def _keep(self) -> bool:
        async with self._turn:
            try:
                try:
                    await self._write()
                except FAILURES as error:
                    if not await self._dropped(error):
                        raise
                    await self._write()
            except (*FAILURES, OrcasError, StoreError) as error:
                self._failure = str(error)
                return False
            self._failure = None
            return True

    async def _write(self) -> None:
        if self._store is not None and not self._store.is_in(self._directory):
            await self._close_store()
        if self._store is None:
            self._store = await UsageStore.open(self._directory, check=not self._checked)
            self._checked = True
            # It may be new, and the next start is to miss it if it is gone.
            await asyncio.to_thread(note_presence, self._directory)
        store = self._store
        held = await asyncio.to_thread(self._counts.stored, False)
        # What waited since an attempt that failed, and then what was counted after it.
        for _ in range(2 if self._taken else 1):
            self._taken = self._taken or await asyncio.to_thread(self._counts.take_requests)
            moment = self._watch.moment(store.kept)
            await store.keep(self._taken, held["buckets"], moment, self._days)
            self._watch.passed()
            self._taken = []
            if moment.was_set:
                log.warning(
                    "The clock was set, or the store was closed for more than a month: usage counts no storage for the "
                    "time between, and removes nothing for a week"
                )

    async def _dropped(self, error: Exception) -> bool:
        """Close the file, which caused an error. True if it was damaged and is out of the way."""
        await self._close_store()
        if is_damage(error):
            put_aside(self._directory)
            return True
        return False

    async def _close_store(self) -> None:
        if self._store is not None:
            store, self._store = self._store, None
            with contextlib.suppress(*FAILURES):
                await store.close()

    async def report(
        self, since: dt.date, until: dt.date, by: tuple[str, ...], buckets: tuple[str, str] | None = None
    ) -> dict[str, Any]:
        """Sums over the days from `since` to `until`, both included, for each combination of `by`.

        Grouped by owner or bucket alone, each row also says what is stored at present. `buckets`: count only buckets whose
        names are between these, both included.

        Raises:
            NotKeptError: the file cannot be read or written.
            TooManyRowsError: it would be too long.
        """
        if not await self.keep():
            raise NotKeptError(f"Usage cannot be saved: {self._failure}.")
        tag = next((group.removeprefix(TAG) for group in by if group.startswith(TAG)), None)
        asked = by
        by = ("bucket",) if tag is not None else tuple(group for group in GROUPS if group in by)
        async with self._turn:
            if self._store is None:
                raise NotKeptError("Usage cannot be read: its file was closed.")
            try:
                rows = await self._store.report(_day(since), _day(until), by, buckets)
            except FAILURES as error:
                await self._dropped(error)
                raise NotKeptError(f"Usage cannot be read: {error}.") from error
        report: dict[str, Any] = {
            "since": since.isoformat(),
            "until": until.isoformat(),
            "by": list(by if tag is None else asked),
        }
        if not {"key", "day"} & set(by):
            held = await asyncio.to_thread(self._counts.stored, True)
            if buckets is not None:
                held["buckets"] = [row for row in held["buckets"] if buckets[0] <= row["name"] <= buckets[1]]
            rows = await asyncio.to_thread(_with_present, rows, held, by)
            report["exact"] = held["exact"]
        rows = await asyncio.to_thread(self._priced, rows, tag)
        return {**report, "rows": rows}

    def _priced(self, rows: list[dict[str, Any]], tag: str | None) -> list[dict[str, Any]]:
        """The rows, grouped by a tag of their buckets, if there is one, and with their cost, if there are prices."""
        if tag is not None:
            rows = _by_tag(rows, tag, dict(self._counts.bucket_tags()))
        if not any(self._prices):
            return rows
        used = [(row["writes"], row["reads"], row["received"], row["sent"], row.get("gb_months", 0.0)) for row in rows]
        costs = self._counts.costs(self._prices, used)
        return [{**row, "cost": round(cost, 9)} for row, cost in zip(rows, costs, strict=True)]


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
