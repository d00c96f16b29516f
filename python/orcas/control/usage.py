"""`usage.db`: requests and stored bytes by day, and the only code that reads and writes them.

A file of its own: it can be lost without anything else, so one that is damaged is put aside and begun anew. Stored bytes
are a step function of time: a bucket keeps its size until a sample finds another, so only changes are written.
"""

from __future__ import annotations

import calendar
import datetime as dt
import logging
import os
import sqlite3
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

import aiosqlite

from orcas.control.files import USAGE_NAME
from orcas.errors import UnavailableError

SCHEMA_VERSION: Final = 1
DAY_MS: Final = 86_400_000
# What a report can be grouped by, and the columns of what it sums.
GROUPS: Final = ("owner", "key", "bucket", "day")
COUNTS: Final = ("writes", "reads", "free", "received", "sent")
# What keeps the file from being read or written.
FAILURES: Final = (sqlite3.Error, OSError)
_COLUMNS: Final = {"owner": "owner", "key": "access_key", "bucket": "bucket", "day": "day"}
_GIB: Final = 1 << 30
_UNUSABLE: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

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
"""
_ADD_REQUESTS: Final = """
INSERT INTO requests (day, owner, access_key, bucket, writes, reads, free, received, sent)
VALUES (:day, :owner, :access_key, :bucket, :writes, :reads, :free, :received, :sent)
ON CONFLICT DO UPDATE SET writes = writes + excluded.writes, reads = reads + excluded.reads,
    free = free + excluded.free, received = received + excluded.received, sent = sent + excluded.sent
"""
_ADD_STORAGE: Final = """
INSERT INTO storage (day, owner, bucket, logical_byte_ms, stored_byte_ms) VALUES (?, ?, ?, ?, ?)
ON CONFLICT DO UPDATE SET logical_byte_ms = logical_byte_ms + excluded.logical_byte_ms,
    stored_byte_ms = stored_byte_ms + excluded.stored_byte_ms
"""
_SET_SAMPLE: Final = """
INSERT OR REPLACE INTO samples (id, bucket, owner, at_ms, logical, stored)
VALUES (:id, :name, :owner, :at_ms, :logical, :stored)
"""

Row = Mapping[str, Any]


def day_of(at_ms: int) -> int:
    """Days from 1970 to a time in UTC."""
    return at_ms // DAY_MS


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


class UsageStore:
    """The open file. Used from one event loop, one call at a time."""

    def __init__(self, connection: aiosqlite.Connection, samples: dict[int, dict[str, Any]]) -> None:
        self._connection = connection
        # As in the table.
        self._samples = samples

    @classmethod
    async def open(cls, directory: Path) -> UsageStore:
        """Open the file of `directory`, or create it.

        Raises:
            sqlite3.Error: it cannot be opened now.
            UnavailableError: a later version wrote it.
        """
        path = directory / USAGE_NAME
        try:
            return await cls._open(path)
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorcode", 0) & 0xFF not in _UNUSABLE:
                raise
            aside = path.with_name(f"{USAGE_NAME}.damaged")
            log.warning("%s is damaged: it is kept as %s, and usage is counted anew", path, aside.name)
            path.replace(aside)
            return await cls._open(path)

    @classmethod
    async def _open(cls, path: Path) -> UsageStore:
        # SQLite would create it with the permissions that the umask allows.
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600))
        connection = await aiosqlite.connect(path, isolation_level=None)
        try:
            await _prepare(connection, path)
            connection.row_factory = sqlite3.Row
            async with connection.execute(
                "SELECT id, bucket AS name, owner, at_ms, logical, stored FROM samples"
            ) as rows:
                samples = {row["id"]: dict(row) async for row in rows}
        except BaseException:
            await connection.close()
            raise
        return cls(connection, samples)

    async def close(self) -> None:
        """Close the file."""
        await self._connection.close()

    async def keep(self, requests: list[Row], buckets: Iterable[Row], now_ms: int, oldest_day: int) -> None:
        """Add requests, and what buckets hold at `now_ms`; forget days before `oldest_day`. All of it or nothing.

        Raises:
            sqlite3.Error: nothing was added.
        """
        samples, storage = self._sampled(buckets, now_ms)
        changed = [sample for bucket, sample in samples.items() if self._samples.get(bucket) != sample]
        gone = [(bucket,) for bucket in self._samples if bucket not in samples]
        await self._connection.execute("BEGIN IMMEDIATE")
        try:
            await self._connection.executemany(_ADD_REQUESTS, requests)
            await self._connection.executemany(_ADD_STORAGE, storage)
            await self._connection.executemany(_SET_SAMPLE, changed)
            await self._connection.executemany("DELETE FROM samples WHERE id = ?", gone)
            for table in ("requests", "storage"):
                await self._connection.execute(f"DELETE FROM {table} WHERE day < ?", (oldest_day,))  # noqa: S608 - ours
        except BaseException:
            await self._connection.rollback()
            raise
        await self._connection.commit()
        self._samples = samples

    def _sampled(
        self, buckets: Iterable[Row], now_ms: int
    ) -> tuple[dict[int, dict[str, Any]], list[tuple[int, str, str, float, float]]]:
        """The samples from now on, and what was held until now by buckets that hold something else now."""
        samples: dict[int, dict[str, Any]] = {}
        for bucket in buckets:
            held = {name: bucket[name] for name in ("id", "name", "owner", "logical", "stored")}
            known = self._samples.get(bucket["id"])
            same = known is not None and held == {name: known[name] for name in held}
            samples[bucket["id"]] = known if same and known is not None else {**held, "at_ms": now_ms}
        ended = [known for known in self._samples.values() if samples.get(known["id"]) is not known]
        return samples, [part for known in ended for part in _held(known, now_ms)]

    async def report(self, since: int, until: int, by: tuple[str, ...], now_ms: int) -> list[dict[str, Any]]:
        """Sums over the days from `since` to `until`, for each combination of `by`. Keys store nothing.

        Raises:
            sqlite3.Error: it cannot be read.
        """
        sums: dict[tuple[Any, ...], dict[str, Any]] = {}

        def row(group: tuple[Any, ...]) -> dict[str, Any]:
            if group not in sums:
                sums[group] = {**dict(zip(by, group, strict=True)), **dict.fromkeys(COUNTS, 0)}
                if "key" not in by:
                    sums[group] |= {"gb_months": 0.0, "unique_gb_months": 0.0}
            return sums[group]

        columns = ", ".join(_COLUMNS[group] for group in by)
        counts = ", ".join(f"SUM({name})" for name in COUNTS)
        query = f"SELECT {columns}, {counts} FROM requests WHERE day BETWEEN ? AND ? GROUP BY {columns}"  # noqa: S608 - ours
        async with self._connection.execute(query, (since, until)) as rows:
            async for found in rows:
                group, values = tuple(found)[: len(by)], tuple(found)[len(by) :]
                row(group).update(zip(COUNTS, values, strict=True))
        if "key" not in by:
            for held in await self._storage(since, until, now_ms):
                sum_ = row(tuple(held[group] for group in by))
                sum_["gb_months"] += gb_months(held["day"], held["logical"])
                sum_["unique_gb_months"] += gb_months(held["day"], held["stored"])
        ordered = [sums[group] for group in sorted(sums)]
        return [{**found, "day": date_of(found["day"]).isoformat()} if "day" in by else found for found in ordered]

    async def _storage(self, since: int, until: int, now_ms: int) -> list[dict[str, Any]]:
        """What was held on each day, in byte-milliseconds, with what has not changed up to now."""
        query = "SELECT day, owner, bucket, logical_byte_ms, stored_byte_ms FROM storage WHERE day BETWEEN ? AND ?"
        async with self._connection.execute(query, (since, until)) as rows:
            parts = [tuple(found) async for found in rows]
        parts += [part for known in self._samples.values() for part in _held(known, now_ms)]
        names = ("day", "owner", "bucket", "logical", "stored")
        return [dict(zip(names, part, strict=True)) for part in parts if since <= part[0] <= until]


def _held(sample: Row, until_ms: int) -> list[tuple[int, str, str, float, float]]:
    """Day, owner, bucket and byte-milliseconds, logical and stored, of a bucket from its sample on."""
    return [
        (day, sample["owner"], sample["name"], float(sample["logical"]) * spent, float(sample["stored"]) * spent)
        for day, spent in days_between(sample["at_ms"], until_ms)
    ]


async def _prepare(connection: aiosqlite.Connection, path: Path) -> None:
    for pragma in ("journal_mode = DELETE", "synchronous = FULL", "trusted_schema = OFF"):
        await connection.execute(f"PRAGMA {pragma}")
    async with connection.execute("PRAGMA user_version") as rows:
        row = await rows.fetchone()
    version = row[0] if row is not None else 0
    if version > SCHEMA_VERSION:
        raise UnavailableError(f"{path} was written by a later version of Orcas: its schema is {version}.")
    if version == 0:
        await connection.executescript(f"BEGIN IMMEDIATE;{_SCHEMA}PRAGMA user_version = {SCHEMA_VERSION};COMMIT;")
