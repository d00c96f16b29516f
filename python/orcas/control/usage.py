"""`usage.db`: requests and stored bytes by day, and the only code that reads and writes them.

It is a file of its own, because losing it loses nothing else: a damaged one is put aside, and a new one begun. Stored bytes
are a step function of time: a bucket keeps its size until a sample finds another, so only changes are written. Slow work
runs outside the event loop. Must not know where time comes from: see `moments`.
"""

from __future__ import annotations

import asyncio
import calendar
import collections
import contextlib
import datetime as dt
import logging
import os
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import aiosqlite

from orcas.control.files import USAGE_NAME
from orcas.control.moments import DAY_MS, Kept, Moment, day_of
from orcas.errors import OrcasError, UnavailableError

SCHEMA_VERSION: Final = 1
# What a report can be grouped by, and the columns of what it sums.
GROUPS: Final = ("owner", "key", "bucket", "day")
COUNTS: Final = ("writes", "reads", "free", "received", "sent")
# What keeps the file from being read or written.
FAILURES: Final = (sqlite3.Error, UnicodeDecodeError, OSError)
_COLUMNS: Final = {"owner": "owner", "key": "access_key", "bucket": "bucket", "day": "day"}
# Rows of one day. Beyond that, buckets have no row of their own.
DAY_ROWS_MAX: Final = 16_384
# Rows of a report.
REPORT_ROWS_MAX: Final = 50_000
_GIB: Final = 1 << 30
# Files that were damaged; beyond that, the last one is replaced.
_ASIDE_MAX: Final = 9

log = logging.getLogger("orcas")

_SCHEMA: Final = """
CREATE TABLE requests (
    day INTEGER NOT NULL, owner TEXT NOT NULL, access_key TEXT NOT NULL, bucket TEXT NOT NULL,
    writes INTEGER NOT NULL, reads INTEGER NOT NULL, free INTEGER NOT NULL,
    received INTEGER NOT NULL, sent INTEGER NOT NULL,
    PRIMARY KEY (day, owner, access_key, bucket)
) STRICT, WITHOUT ROWID;
CREATE TABLE storage (
    day INTEGER NOT NULL, owner TEXT NOT NULL, bucket TEXT NOT NULL,
    logical_byte_ms REAL NOT NULL, stored_byte_ms REAL NOT NULL,
    PRIMARY KEY (day, owner, bucket)
) STRICT, WITHOUT ROWID;
CREATE TABLE samples (
    id INTEGER PRIMARY KEY, bucket TEXT NOT NULL, owner TEXT NOT NULL, at_ms INTEGER NOT NULL,
    logical INTEGER NOT NULL, stored INTEGER NOT NULL
) STRICT;
CREATE TABLE clock (
    id INTEGER PRIMARY KEY CHECK (id = 0), kept_ms INTEGER NOT NULL, steady_since_ms INTEGER NOT NULL
) STRICT;
"""
_ADD_REQUESTS: Final = """
INSERT INTO requests (day, owner, access_key, bucket, writes, reads, free, received, sent)
VALUES (:day, :owner, :access_key, :bucket, :writes, :reads, :free, :received, :sent)
ON CONFLICT DO UPDATE SET writes = writes + excluded.writes, reads = reads + excluded.reads,
    free = free + excluded.free, received = received + excluded.received, sent = sent + excluded.sent
"""
_ADD_STORAGE: Final = """
INSERT INTO storage (day, owner, bucket, logical_byte_ms, stored_byte_ms)
VALUES (:day, :owner, :bucket, :logical, :stored)
ON CONFLICT DO UPDATE SET logical_byte_ms = logical_byte_ms + excluded.logical_byte_ms,
    stored_byte_ms = stored_byte_ms + excluded.stored_byte_ms
"""
_SET_SAMPLE: Final = """
INSERT OR REPLACE INTO samples (id, bucket, owner, at_ms, logical, stored)
VALUES (:id, :name, :owner, :at_ms, :logical, :stored)
"""

# What is held for all of a month counts for its bytes, whatever the month.
_MONTH_MS: Final = (
    f"""(strftime('%d', day * 86400, 'unixepoch', 'start of month', '+1 month', '-1 day') * {DAY_MS}.0)"""
)

Row = Mapping[str, Any]


class TooManyRowsError(OrcasError):
    """A report would be too long."""


def date_of(day: int) -> dt.date:
    """The date of a day."""
    return dt.date(1970, 1, 1) + dt.timedelta(days=day)


def days_between(from_ms: int, to_ms: int) -> Iterable[tuple[int, int]]:
    """Each day between two times, with the milliseconds of it. Nothing if time runs backwards."""
    while from_ms < to_ms:
        end = min(to_ms, (day_of(from_ms) + 1) * DAY_MS)
        yield day_of(from_ms), end - from_ms
        from_ms = end


def gb_months(day: int, byte_ms: float) -> float:
    """What bytes held for a time on `day` count for: 1 GB (2^30 bytes, as AWS counts) all month long is 1."""
    date = date_of(day)
    return byte_ms / (_GIB * calendar.monthrange(date.year, date.month)[1] * DAY_MS)


def months(from_ms: int, to_ms: int) -> float:
    """The months between two times: the parts of each, added. 0 if time runs backwards."""
    return max(0.0, _months_until(to_ms) - _months_until(from_ms)) if from_ms < to_ms else 0.0


def _months_until(at_ms: int) -> float:
    date = date_of(day_of(at_ms))
    days = date.day - 1 + at_ms % DAY_MS / DAY_MS
    return date.year * 12 + date.month + days / calendar.monthrange(date.year, date.month)[1]


def put_aside(directory: Path) -> None:
    """Rename the damaged file of `directory`, which nobody has open.

    Raises:
        OSError: it cannot be renamed.
    """
    path = directory / USAGE_NAME
    names = [f"{USAGE_NAME}.damaged", *(f"{USAGE_NAME}.damaged.{count}" for count in range(2, _ASIDE_MAX + 1))]
    free = [name for name in names if not (directory / name).exists()]
    aside = directory / (free or names[-1:])[0]
    log.warning("%s is damaged: it is kept as %s, and usage is counted anew", path, aside.name)
    # Its journal first, which would be played into the new file.
    with contextlib.suppress(FileNotFoundError):
        Path(f"{path}-journal").replace(f"{aside}-journal")
    path.replace(aside)


class UsageStore:
    """The open file. Used from one event loop, one call at a time. After an error it is closed, and opened again."""

    def __init__(self, connection: aiosqlite.Connection, identity: tuple[int, int]) -> None:
        self._connection = connection
        self._identity = identity
        # As in the tables.
        self._samples: dict[int, dict[str, Any]] = {}
        self.kept: Kept | None = None

    @classmethod
    async def open(cls, directory: Path, *, check: bool = False) -> UsageStore:
        """Open the file of `directory`, or create it. `check`: read all of it, to find damage.

        Raises:
            sqlite3.Error: it cannot be opened now, or is damaged.
            UnavailableError: a later version wrote it.
        """
        path = directory / USAGE_NAME
        # SQLite would create it with the permissions that the umask allows.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            found = os.fstat(descriptor)
        finally:
            os.close(descriptor)
        connection = await aiosqlite.connect(path, isolation_level=None)
        try:
            await _prepare(connection, path, check)
            store = cls(connection, (found.st_dev, found.st_ino))
            await store._load()
        except BaseException:
            await connection.close()
            raise
        return store

    async def _load(self) -> None:
        self._connection.row_factory = sqlite3.Row
        query = "SELECT id, bucket AS name, owner, at_ms, logical, stored FROM samples"
        self._samples = {row["id"]: dict(row) for row in await self._connection.execute_fetchall(query)}
        for row in await self._connection.execute_fetchall("SELECT kept_ms, steady_since_ms FROM clock"):
            self.kept = Kept(*row)

    async def close(self) -> None:
        """Close the file."""
        await self._connection.close()

    def is_in(self, directory: Path) -> bool:
        """Whether the file of `directory` is the one that is open."""
        try:
            found = (directory / USAGE_NAME).stat()
        except OSError:
            return False
        return (found.st_dev, found.st_ino) == self._identity

    async def keep(self, requests: list[Row], buckets: list[Row], moment: Moment, days: int) -> None:
        """Add requests, and what buckets hold at `moment`; forget what is older than `days`. All of it or nothing.

        Raises:
            sqlite3.Error: nothing was added.
        """
        samples, storage = await asyncio.to_thread(_sampled, self._samples, buckets, moment)
        changed = [sample for bucket, sample in samples.items() if self._samples.get(bucket) != sample]
        gone = [(bucket,) for bucket in self._samples if bucket not in samples]
        dated = [{**row, "day": moment.day(row["day"])} for row in requests]
        kept = moment.kept
        try:
            await self._connection.execute("BEGIN IMMEDIATE")
            dated = await self._bounded("requests", ("owner", "access_key", "bucket"), dated)
            await self._connection.executemany(_ADD_REQUESTS, dated)
            storage = await self._bounded("storage", ("owner", "bucket"), storage)
            await self._connection.executemany(_ADD_STORAGE, storage)
            await self._connection.executemany(_SET_SAMPLE, changed)
            await self._connection.executemany("DELETE FROM samples WHERE id = ?", gone)
            await self._connection.execute(
                "INSERT OR REPLACE INTO clock VALUES (0, ?, ?)", (kept.at_ms, kept.steady_since_ms)
            )
            if moment.trusts_date:
                for table in ("requests", "storage"):
                    oldest = day_of(kept.at_ms) - days
                    await self._connection.execute(f"DELETE FROM {table} WHERE day < ?", (oldest,))  # noqa: S608 - ours
            await self._connection.commit()
        except BaseException:
            # A COMMIT that found the file busy has left the transaction open.
            with contextlib.suppress(sqlite3.Error):
                await self._connection.rollback()
            raise
        self._samples = samples
        self.kept = kept

    async def _bounded(self, table: str, names: tuple[str, ...], rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The rows, without a bucket where a day would get too many. Their owners and keys pay all the same."""
        if not rows:
            return rows
        days = min(row["day"] for row in rows), max(row["day"] for row in rows)
        query = f"SELECT day, COUNT(*) FROM {table} WHERE day BETWEEN ? AND ? GROUP BY day"  # noqa: S608 - ours
        counts = dict(map(tuple, await self._connection.execute_fetchall(query, days)))
        added = collections.Counter(row["day"] for row in rows)
        full = {day for day, count in added.items() if counts.get(day, 0) + count > DAY_ROWS_MAX}
        known: dict[int, set[tuple[str, ...]]] = {}
        query = f"SELECT {', '.join(names)} FROM {table} WHERE day = ?"  # noqa: S608 - ours
        for day in full:
            known[day] = {tuple(row) for row in await self._connection.execute_fetchall(query, (day,))}
        return await asyncio.to_thread(_folded, rows, names, known) if full else rows

    async def report(
        self, since: int, until: int, by: tuple[str, ...], buckets: tuple[str, str] | None = None
    ) -> list[dict[str, Any]]:
        """Sums over the days from `since` to `until`, for each combination of `by`. Keys store nothing.

        `buckets`: count only buckets whose names are between these, both included.

        Raises:
            sqlite3.Error: it cannot be read.
            TooManyRowsError: there would be more than `REPORT_ROWS_MAX` rows.
        """
        columns = ", ".join(_COLUMNS[group] for group in by)
        counts = ", ".join(f"SUM({name})" for name in COUNTS)
        held = f"SUM(logical_byte_ms / {_MONTH_MS}), SUM(stored_byte_ms / {_MONTH_MS})"
        named = "" if buckets is None else "AND bucket BETWEEN ? AND ?"
        asked = since, until, *(buckets or ())
        limit = f"WHERE day BETWEEN ? AND ? {named} GROUP BY {columns} LIMIT {REPORT_ROWS_MAX + 1}"
        query = f"SELECT {columns}, {counts} FROM requests {limit}"  # noqa: S608 - ours
        requests = await self._connection.execute_fetchall(query, asked)
        report = _Report(by)
        await asyncio.to_thread(report.add_requests, requests)
        if "key" not in by:
            query = f"SELECT {columns}, {held} FROM storage {limit}"  # noqa: S608 - ours
            storage = await self._connection.execute_fetchall(query, asked)
            await asyncio.to_thread(report.add_storage, storage)
            if self.kept is not None:
                until_ms = min(self.kept.at_ms, (until + 1) * DAY_MS)
                samples = [
                    sample
                    for sample in self._samples.values()
                    if buckets is None or buckets[0] <= sample["name"] <= buckets[1]
                ]
                await asyncio.to_thread(report.add_samples, samples, since * DAY_MS, until_ms)
        return await asyncio.to_thread(report.rows)


class _Report:
    """The rows of a report, by what they are grouped by."""

    def __init__(self, by: tuple[str, ...]) -> None:
        self._by = by
        self._sums: dict[tuple[Any, ...], dict[str, Any]] = {}

    def add_requests(self, found: Iterable[sqlite3.Row]) -> None:
        """Sums of requests, after what they are grouped by."""
        for row in found:
            values = tuple(row)
            self._row(values[: len(self._by)]).update(zip(COUNTS, values[len(self._by) :], strict=True))

    def add_storage(self, found: Iterable[sqlite3.Row]) -> None:
        """Bytes multiplied by months, logical and stored, after what they are grouped by."""
        for row in found:
            *group, logical, stored = row
            self._hold(tuple(group), logical / _GIB, stored / _GIB)

    def add_samples(self, samples: Iterable[Row], since_ms: int, until_ms: int) -> None:
        """What has not changed since it was sampled, and so is not in the table."""
        for sample in samples:
            from_ms = max(sample["at_ms"], since_ms)
            names = {"owner": sample["owner"], "bucket": sample["name"]}
            logical, stored = sample["logical"] / _GIB, sample["stored"] / _GIB
            if "day" not in self._by:
                spent = months(from_ms, until_ms)
                if spent:
                    self._hold(tuple(names[group] for group in self._by), logical * spent, stored * spent)
                continue
            for day, spent_ms in days_between(from_ms, until_ms):
                spent = gb_months(day, _GIB * spent_ms)
                of = names | {"day": day}
                self._hold(tuple(of[group] for group in self._by), logical * spent, stored * spent)

    def rows(self) -> list[dict[str, Any]]:
        """All rows, in order."""
        ordered = [self._sums[group] for group in sorted(self._sums)]
        if "day" not in self._by:
            return ordered
        return [{**found, "day": date_of(found["day"]).isoformat()} for found in ordered]

    def _hold(self, group: tuple[Any, ...], logical: float, stored: float) -> None:
        row = self._row(group)
        row["gb_months"] += logical
        row["unique_gb_months"] += stored

    def _row(self, group: tuple[Any, ...]) -> dict[str, Any]:
        if group not in self._sums:
            if len(self._sums) >= REPORT_ROWS_MAX:
                raise TooManyRowsError(
                    f"The report would have more than {REPORT_ROWS_MAX} rows: ask for a shorter time or larger groups."
                )
            self._sums[group] = {**dict(zip(self._by, group, strict=True)), **dict.fromkeys(COUNTS, 0)}
            if "key" not in self._by:
                self._sums[group] |= {"gb_months": 0.0, "unique_gb_months": 0.0}
        return self._sums[group]


def _sampled(
    before: Mapping[int, dict[str, Any]], buckets: Iterable[Row], moment: Moment
) -> tuple[dict[int, dict[str, Any]], list[dict[str, Any]]]:
    """The samples from `moment` on, and what was held until then by buckets that hold something else now."""
    samples: dict[int, dict[str, Any]] = {}
    for bucket in buckets:
        held = {name: bucket[name] for name in ("id", "name", "owner", "logical", "stored")}
        known = before.get(bucket["id"])
        same = known is not None and held == {name: known[name] for name in held} and not moment.was_set
        samples[bucket["id"]] = known if same and known is not None else {**held, "at_ms": moment.from_ms}
    ended = [known for known in before.values() if samples.get(known["id"]) is not known]
    return samples, [part for known in ended for part in _held(known, moment.until_ms)]


def _held(sample: Row, until_ms: int) -> list[dict[str, Any]]:
    """Day, owner, bucket and byte-milliseconds, logical and stored, of a bucket from its sample on."""
    of = {"owner": sample["owner"], "bucket": sample["name"]}
    return [
        {**of, "day": day, "logical": float(sample["logical"]) * spent, "stored": float(sample["stored"]) * spent}
        for day, spent in days_between(sample["at_ms"], until_ms)
    ]


def _folded(
    rows: list[dict[str, Any]], names: tuple[str, ...], known: Mapping[int, set[tuple[str, ...]]]
) -> list[dict[str, Any]]:
    """The rows, without a bucket where they would add one to a day that is full; `known` has what such days have."""
    kept = []
    for row in rows:
        there = known.get(row["day"])
        key = tuple(row[name] for name in names)
        if there is None or key in there:
            kept.append(row)
        elif len(there) < DAY_ROWS_MAX:
            there.add(key)
            kept.append(row)
        else:
            kept.append(row | {"bucket": ""})
    return kept


async def _prepare(connection: aiosqlite.Connection, path: Path, check: bool) -> None:
    for pragma in ("journal_mode = DELETE", "synchronous = FULL", "trusted_schema = OFF"):
        await connection.execute(f"PRAGMA {pragma}")
    async with connection.execute("PRAGMA user_version") as rows:
        row = await rows.fetchone()
    version = row[0] if row is not None else 0
    if version > SCHEMA_VERSION:
        raise UnavailableError(f"{path} was written by a later version of Orcas: use that version.")
    if version == 0:
        await connection.executescript(f"BEGIN IMMEDIATE;{_SCHEMA}PRAGMA user_version = {SCHEMA_VERSION};COMMIT;")
    if check:
        for (found,) in await connection.execute_fetchall("PRAGMA quick_check(1)"):
            if found != "ok":
                raise _damaged(found)


def _damaged(found: str) -> sqlite3.DatabaseError:
    error = sqlite3.DatabaseError(found)
    error.sqlite_errorcode = sqlite3.SQLITE_CORRUPT
    return error
