"""Usage by day: sums over time, what survives, and what happens when the file cannot be used."""

from __future__ import annotations

import asyncio
import contextlib
import datetime as dt
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.control import control_of, snapshot_of

from orcas.admin.metering import NotKeptError, Prices, UsageKeeper
from orcas.control import usage
from orcas.control.files.copies import copy_database
from orcas.control.moments import DAY_MS, Kept, Moment, Watch
from orcas.control.usage import TooManyRowsError, UsageStore, days_between, gb_months, months
from orcas.engine import StoreError, UsageCounts
from orcas.errors import UnavailableError

GIB = 1 << 30
HOUR_MS = 3_600_000
# 2026-11-01, a month of 30 days.
FIRST = (dt.date(2026, 11, 1) - dt.date(1970, 1, 1)).days
START = FIRST * DAY_MS


def asked(day: int = FIRST, bucket: str = "b", **counts: int) -> dict[str, Any]:
    zeros = dict.fromkeys(("writes", "reads", "free", "received", "sent"), 0)
    return {"day": day, "owner": "o", "access_key": "k", "bucket": bucket, **zeros, **counts}


def held(logical: int, stored: int | None = None, bucket: int = 1) -> dict[str, Any]:
    return {
        "id": bucket, "name": f"b{bucket}", "owner": "o", "objects": 1, "versions": 2, "logical": logical,
        "stored": logical if stored is None else stored,
    }  # fmt: skip


class Source:
    """What a store would report."""

    def __init__(self) -> None:
        self.requests: list[dict[str, Any]] = []
        self.buckets: list[dict[str, Any]] = []
        self.now_ms = START
        # Where somebody has set the clock, this is how far.
        self.set_by_ms = 0
        self.fails = False

    def take_requests(self) -> list[dict[str, Any]]:
        taken, self.requests = self.requests, []
        return taken

    def stored(self, exact: bool) -> dict[str, Any]:
        if self.fails:
            raise StoreError("the index is damaged")
        return {"buckets": self.buckets, "exact": exact, "stored": 77}

    def bucket_tags(self) -> list[tuple[str, list[tuple[str, str]]]]:
        return [("b1", [("project", "x")]), ("b2", [("project", "x"), ("other", "y")])]

    costs = staticmethod(UsageCounts.costs)

    def keeper(self, directory: Path, days: int = 400, prices: Prices = (0, 0, 0, 0, 0)) -> UsageKeeper:
        watch = Watch(lambda: self.now_ms + self.set_by_ms, lambda: self.now_ms)
        return UsageKeeper(self, directory, days, prices, watch)


async def reported(keeper: UsageKeeper, *by: str, days: int = 60) -> list[dict[str, Any]]:
    first = dt.date(1970, 1, 1) + dt.timedelta(days=FIRST)
    rows: list[dict[str, Any]] = (await keeper.report(first, first + dt.timedelta(days=days), by))["rows"]
    return rows


def test_time_is_split_at_midnight_and_never_runs_backwards() -> None:
    parts = list(days_between(START + 23 * HOUR_MS, START + DAY_MS + 2 * HOUR_MS))
    assert parts == [(FIRST, HOUR_MS), (FIRST + 1, 2 * HOUR_MS)]
    assert list(days_between(START, START - 1)) == []


@pytest.mark.parametrize(("date", "days"), [("2026-11-07", 30), ("2026-02-10", 28), ("2028-02-29", 29)])
def test_a_gigabyte_all_month_long_is_one_gb_month(date: str, days: int) -> None:
    day = (dt.date.fromisoformat(date) - dt.date(1970, 1, 1)).days
    assert gb_months(day, GIB * DAY_MS) * days == pytest.approx(1.0)


def test_stored_bytes_are_integrated_over_changes_restarts_and_deletions(tmp_path: Path) -> None:
    async def run() -> None:
        source = Source()
        source.buckets = [held(30 * GIB, 15 * GIB)]
        keeper = source.keeper(tmp_path)
        assert await keeper.keep()
        # Twelve hours of 30 GB, then twelve of 60, all in one day; nothing is written while nothing changes.
        source.now_ms += 6 * HOUR_MS
        assert await keeper.keep()
        source.now_ms += 6 * HOUR_MS
        source.buckets = [held(60 * GIB, 15 * GIB)]
        assert await keeper.keep()
        source.now_ms += 12 * HOUR_MS
        (row,) = await reported(keeper, "bucket")
        assert row["gb_months"] == pytest.approx(1.5)
        assert row["unique_gb_months"] == pytest.approx(0.5)
        await keeper.close()
        # A day without a server counts like any other.
        source.now_ms += DAY_MS
        keeper = source.keeper(tmp_path)
        days = await reported(keeper, "day")
        assert [(day["day"], round(day["gb_months"], 6)) for day in days] == [("2026-11-01", 1.5), ("2026-11-02", 2.0)]
        source.buckets = []
        assert await keeper.keep()
        source.now_ms += DAY_MS
        assert [row["gb_months"] for row in await reported(keeper, "owner")] == [pytest.approx(3.5)]
        await keeper.close()

    asyncio.run(run())


def test_requests_add_up_by_any_grouping_and_old_days_go(tmp_path: Path) -> None:
    async def run() -> None:
        source = Source()
        keeper = source.keeper(tmp_path, days=30)
        source.now_ms += DAY_MS
        source.requests = [asked(writes=1, received=10), asked(bucket="c", reads=2, sent=5), asked(FIRST + 1, free=1)]
        assert await keeper.keep()
        source.requests = [asked(writes=2, received=1)]
        assert await keeper.keep()
        await keeper.close()
        keeper = source.keeper(tmp_path, days=30)
        by_bucket = await reported(keeper, "bucket", "key")
        shown = [(row["key"], row["bucket"], row["writes"], row["reads"], row["free"]) for row in by_bucket]
        assert shown == [("k", "b", 3, 0, 1), ("k", "c", 0, 2, 0)]
        assert "gb_months" not in by_bucket[0]
        assert [row["day"] for row in await reported(keeper, "day")] == ["2026-11-01", "2026-11-02"]
        source.now_ms += 30 * DAY_MS
        assert [row["day"] for row in await reported(keeper, "day")] == ["2026-11-02"]
        await keeper.close()

    asyncio.run(run())


def test_the_present_is_shown_for_owners_and_buckets(tmp_path: Path) -> None:
    async def run() -> None:
        source = Source()
        source.buckets = [held(10, 8, 1), held(5, 5, 2)]
        keeper = source.keeper(tmp_path)
        rows = await reported(keeper, "bucket")
        assert [(row["bucket"], row["versions"], row["stored"]) for row in rows] == [("b1", 2, 8), ("b2", 2, 5)]
        (owner,) = await reported(keeper, "owner")
        # What the store has, which is less than the sum: the buckets of an owner share content.
        assert (owner["objects"], owner["logical"], owner["stored"]) == (2, 15, 77)
        source.buckets[1]["owner"] = "p"
        assert [row["stored"] for row in await reported(keeper, "owner")] == [None, None]
        assert all("objects" not in row for row in await reported(keeper, "bucket", "day"))
        await keeper.close()

    asyncio.run(run())


def test_cost_is_by_price_for_any_group_and_by_tag(tmp_path: Path) -> None:
    async def run() -> None:
        source = Source()
        source.buckets = [held(30 * GIB, bucket=1), held(60 * GIB, bucket=2), held(90 * GIB, bucket=3)]
        keeper = source.keeper(tmp_path, prices=(2.0, 5.0, 0.4, 0.0, 0.25))
        source.requests = [asked(bucket="b1", writes=1000, reads=500, free=7), asked(bucket="b3", sent=4 * GIB)]
        assert await keeper.keep()
        source.now_ms += DAY_MS
        costs = {row["bucket"]: row["cost"] for row in await reported(keeper, "bucket")}
        assert costs == {"b1": pytest.approx(2.0 + 5.2), "b2": pytest.approx(4.0), "b3": pytest.approx(6.0 + 1.0)}
        without, project = await reported(keeper, "tag:project")
        assert (without["tag:project"], without["cost"], without["logical"]) == ("", pytest.approx(7.0), 90 * GIB)
        assert (project["tag:project"], project["cost"], project["objects"]) == ("x", pytest.approx(11.2), 2)
        assert [row["cost"] for row in await reported(keeper, "owner")] == [pytest.approx(18.2)]
        assert [row["cost"] for row in await reported(keeper, "key")] == [pytest.approx(6.2)]
        await keeper.close()
        keeper = source.keeper(tmp_path)
        assert "cost" not in (await reported(keeper, "owner"))[0]
        await keeper.close()

    asyncio.run(run())


def test_what_cannot_be_kept_is_kept_later_and_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        source = Source()
        keeper = source.keeper(tmp_path)
        assert await keeper.keep()
        kept = UsageStore.keep

        async def full(*_: Any) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        source.requests = [asked(writes=1)]
        monkeypatch.setattr(UsageStore, "keep", full)
        with pytest.raises(NotKeptError, match="disk is full"):
            await keeper.roll_up()
        source.requests.append(asked(writes=1))
        with pytest.raises(NotKeptError, match="disk is full"):
            await reported(keeper, "bucket")
        monkeypatch.setattr(UsageStore, "keep", kept)
        source.fails = True
        assert not await keeper.keep()
        source.fails = False
        assert await keeper.keep()
        assert [row["writes"] for row in await reported(keeper, "key")] == [2]
        await keeper.close()

    asyncio.run(run())


def at(now_ms: int) -> Moment:
    return Moment(Kept(now_ms, START), now_ms, now_ms)


def test_a_failed_transaction_adds_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        store = await UsageStore.open(tmp_path)
        with pytest.raises(sqlite3.IntegrityError):
            await store.keep([asked(writes=1), asked() | {"owner": None}], [held(5)], at(START), 400)
        await store.keep([asked(reads=1)], [held(7)], at(START), 400)
        (row,) = await store.report(FIRST, FIRST, ("bucket",))
        assert (row["writes"], row["reads"]) == (0, 1)
        await store.close()

    asyncio.run(run())


def test_a_file_that_another_process_reads_for_long_is_written_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def run() -> None:
        source = Source()
        keeper = source.keeper(tmp_path)
        assert await keeper.keep()
        assert keeper._store is not None
        await keeper._store._connection.execute("PRAGMA busy_timeout = 10")
        source.requests = [asked(writes=1)]
        with contextlib.closing(sqlite3.connect(tmp_path / "usage.db")) as reader:
            cursor = reader.execute("SELECT * FROM clock UNION ALL SELECT * FROM clock")
            cursor.fetchone()
            assert not await keeper.keep()
            cursor.close()
        # Nothing holds the file meanwhile, and whoever copies it is not kept waiting.
        copy_database(tmp_path / "usage.db", tmp_path / "copy.db", 1.0)
        assert [row["writes"] for row in await reported(keeper, "key")] == [1]
        await keeper.close()

    asyncio.run(run())


def test_a_copy_of_a_file_that_stays_busy_is_given_up(tmp_path: Path) -> None:
    with contextlib.closing(sqlite3.connect(tmp_path / "usage.db", isolation_level=None)) as writer:
        writer.execute("CREATE TABLE t (a)")
        writer.execute("BEGIN EXCLUSIVE")
        with pytest.raises(UnavailableError, match="in use for too long"):
            copy_database(tmp_path / "usage.db", tmp_path / "copy.db", 0.1)


def test_a_clean_stop_keeps_what_came_after_a_failed_attempt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def run() -> None:
        source = Source()
        keeper = source.keeper(tmp_path)
        await keeper.roll_up()
        kept = UsageStore.keep

        async def full(*_: Any) -> None:
            raise sqlite3.OperationalError("database or disk is full")

        source.requests = [asked(writes=1)]
        monkeypatch.setattr(UsageStore, "keep", full)
        with pytest.raises(NotKeptError, match="disk is full"):
            await keeper.roll_up()
        source.requests.append(asked(writes=1))
        monkeypatch.setattr(UsageStore, "keep", kept)
        await keeper.close()
        keeper = source.keeper(tmp_path)
        assert [row["writes"] for row in await reported(keeper, "key")] == [2]
        await keeper.close()

    asyncio.run(run())


@pytest.mark.parametrize("years", [10, -55])
def test_a_clock_that_is_set_removes_nothing_and_charges_nothing(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, years: int
) -> None:
    """A month before, requests and storage; then the clock is wrong for six hours."""

    async def run() -> None:
        source = Source()
        source.buckets = [held(30 * GIB)]
        source.requests = [asked(writes=1)]
        keeper = source.keeper(tmp_path)
        assert await keeper.keep()
        source.now_ms += 12 * HOUR_MS
        source.set_by_ms = years * 365 * DAY_MS
        for _ in range(6):
            assert await keeper.keep()
            source.now_ms += HOUR_MS
            source.buckets = [held(source.buckets[0]["logical"] + 1)]
        source.set_by_ms = 0
        assert await keeper.keep()
        source.now_ms += 6 * HOUR_MS
        (row,) = await reported(keeper, "owner")
        # Eighteen hours at the right time; the others are on days of the wrong one.
        assert row["gb_months"] == pytest.approx(0.75)
        assert [row["writes"] for row in await reported(keeper, "key")] == [1]
        await keeper.close()

    asyncio.run(run())
    assert "The clock was set" in caplog.text


def test_a_start_with_a_wrong_clock_charges_nothing(tmp_path: Path) -> None:
    async def run() -> None:
        source = Source()
        source.buckets = [held(30 * GIB)]
        source.requests = [asked(writes=1)]
        for wrong in (0, 10, -56, 0):
            source.set_by_ms = wrong * 365 * DAY_MS
            keeper = source.keeper(tmp_path)
            assert await keeper.keep()
            await keeper.close()
        keeper = source.keeper(tmp_path)
        (row,) = await reported(keeper, "owner")
        assert (row["writes"], row["gb_months"]) == (1, 0.0)
        # A date is trusted again after a week.
        source.now_ms += 500 * DAY_MS
        source.requests = [asked(FIRST + 500, writes=3)]
        assert await keeper.keep()
        assert await reported(keeper, "key") == []
        assert [row["writes"] for row in await reported(keeper, "key", days=500)] == [3]
        await keeper.close()

    asyncio.run(run())


def test_what_changed_before_a_crash_counts_from_the_last_time_at_which_usage_was_kept(tmp_path: Path) -> None:
    async def run() -> None:
        source = Source()
        source.buckets = [held(30 * GIB)]
        keeper = source.keeper(tmp_path)
        assert await keeper.keep()
        source.now_ms += 12 * HOUR_MS
        assert await keeper.keep()
        # Without a clean stop.
        assert keeper._store is not None
        await keeper._store.close()
        source.now_ms += 12 * HOUR_MS
        source.buckets = [held(60 * GIB), held(30 * GIB, bucket=2)]
        keeper = source.keeper(tmp_path)
        rows = await reported(keeper, "bucket")
        assert [row["gb_months"] for row in rows] == [pytest.approx(1.5), pytest.approx(0.5)]
        await keeper.close()

    asyncio.run(run())


@pytest.mark.parametrize("is_node", [False, True])
def test_the_next_start_misses_a_file_that_was_new(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, is_node: bool
) -> None:
    caplog.set_level("INFO")

    async def run() -> None:
        async with control_of(tmp_path):
            keeper = Source().keeper(tmp_path)
            assert await keeper.keep()
            await keeper.close()
        (tmp_path / "usage.db").unlink()
        if is_node:
            # Another node may have it: nothing is lost.
            (tmp_path / "cluster.node").mkdir()
        await snapshot_of(tmp_path)

    asyncio.run(run())
    assert ("usage.db is missing or empty: usage of the past is lost" in caplog.text) is not is_node
    assert ("The usage of the past is on nodes that owned the log before" in caplog.text) is is_node


def test_damage_that_is_found_later_puts_the_file_aside_as_well(tmp_path: Path) -> None:
    path = tmp_path / "usage.db"
    (tmp_path / "usage.db.damaged").write_bytes(b"an earlier one")

    def damage() -> None:
        with contextlib.closing(sqlite3.connect(path)) as connection:
            (page,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = 'requests'").fetchone()
            # So that nobody reads it from memory.
            connection.execute("UPDATE clock SET kept_ms = kept_ms + 1")
            connection.commit()
        with path.open("r+b") as file:
            file.seek((page - 1) * 4096)
            file.write(b"\xff" * 4096)

    async def run() -> None:
        source = Source()
        keeper = source.keeper(tmp_path)
        assert await keeper.keep()
        damage()
        source.requests = [asked(writes=1)]
        assert [row["writes"] for row in await reported(keeper, "key")] == [1]
        assert (tmp_path / "usage.db.damaged.2").exists()
        await keeper.close()
        # Before a start.
        damage()
        keeper = source.keeper(tmp_path)
        source.requests = [asked(writes=2)]
        assert [row["writes"] for row in await reported(keeper, "key")] == [2]
        assert (tmp_path / "usage.db.damaged.3").exists()
        # Somebody removes it.
        path.unlink()
        source.requests = [asked(writes=3)]
        assert await keeper.keep()
        await keeper.close()

    asyncio.run(run())
    with contextlib.closing(sqlite3.connect(path)) as connection:
        assert connection.execute("SELECT writes FROM requests").fetchall() == [(3,)]
    assert (tmp_path / "usage.db.damaged").read_bytes() == b"an earlier one"


def test_buckets_beyond_the_rows_of_a_day_count_for_their_owner(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(usage, "DAY_ROWS_MAX", 3)

    async def run() -> None:
        source = Source()
        keeper = source.keeper(tmp_path)
        for at_ in range(6):
            source.requests = [asked(bucket=f"b{at_}", writes=1), asked(bucket="b0", writes=1)]
            source.buckets = [held(30 * GIB, bucket=at_)]
            assert await keeper.keep()
            source.now_ms += HOUR_MS
        rows = await reported(keeper, "owner", "bucket")
        assert [(row["owner"], row["bucket"], row["writes"]) for row in rows if row["writes"]] == [
            ("o", "", 3), ("o", "b0", 7), ("o", "b1", 1), ("o", "b2", 1),
        ]  # fmt: skip
        (row,) = await reported(keeper, "owner")
        assert row["gb_months"] == pytest.approx(6 / 24)
        await keeper.close()

    asyncio.run(run())


def test_a_report_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(usage, "REPORT_ROWS_MAX", 30)

    async def run() -> None:
        source = Source()
        source.buckets = [held(GIB, bucket=at_) for at_ in range(10)]
        keeper = source.keeper(tmp_path)
        assert await keeper.keep()
        source.now_ms += 4 * DAY_MS
        assert len(await reported(keeper, "day")) == 4
        with pytest.raises(TooManyRowsError, match="more than 30 rows"):
            await reported(keeper, "bucket", "day")
        await keeper.close()

    asyncio.run(run())


def test_months_add_up_over_their_borders() -> None:
    days = range(FIRST - 400, FIRST + 400)
    both = months(days[0] * DAY_MS + HOUR_MS, (days[-1] + 1) * DAY_MS)
    each = sum(gb_months(day, GIB * DAY_MS) for day in days) - gb_months(days[0], GIB * HOUR_MS)
    assert both == pytest.approx(each)


@pytest.mark.parametrize("damage", ["text", "schema"])
def test_a_damaged_file_is_put_aside(tmp_path: Path, caplog: pytest.LogCaptureFixture, damage: str) -> None:
    path = tmp_path / "usage.db"
    content = b"not a database at all, but text" * 100
    if damage == "schema":
        with contextlib.closing(sqlite3.connect(path)) as connection:
            connection.execute("CREATE TABLE requests (day)")
        # SQLite quotes it in its message, which is then no text.
        content = path.read_bytes().replace(b"TABLE requests", b"T\xcfBLE requests")
    path.write_bytes(content)

    async def run() -> None:
        source = Source()
        source.requests = [asked(writes=1)]
        keeper = source.keeper(tmp_path)
        assert [row["writes"] for row in await reported(keeper, "key")] == [1]
        await keeper.close()

    asyncio.run(run())
    assert (tmp_path / "usage.db.damaged").read_bytes() == content
    assert path.stat().st_mode & 0o777 == 0o600
    assert "usage is counted anew" in caplog.text


@pytest.mark.parametrize("content", [b"", b"\xff" * 4096])
def test_a_damaged_journal_of_a_change_that_was_complete_costs_nothing(tmp_path: Path, content: bytes) -> None:
    async def run() -> None:
        source = Source()
        keeper = source.keeper(tmp_path)
        source.requests = [asked(writes=1)]
        assert await keeper.keep()
        await keeper.close()
        (tmp_path / "usage.db-journal").write_bytes(content)
        keeper = source.keeper(tmp_path)
        source.requests = [asked(writes=2)]
        assert [row["writes"] for row in await reported(keeper, "key")] == [3]
        await keeper.close()

    asyncio.run(run())
    assert not list(tmp_path.glob("*.damaged*"))


def test_a_file_of_a_later_version_is_left_alone(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "usage.db") as connection:
        connection.execute("PRAGMA user_version = 2")

    async def run() -> None:
        keeper = Source().keeper(tmp_path)
        with pytest.raises(NotKeptError, match="later version"):
            await reported(keeper, "key")
        await keeper.close()

    asyncio.run(run())
    assert not (tmp_path / "usage.db.damaged").exists()
