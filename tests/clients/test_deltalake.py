"""delta-rs: tables whose commits are objects that are created with `If-None-Match: *`."""

from __future__ import annotations

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.fixtures.clients import WRONG_SECRET, package
from tests.fixtures.targets import Target, keys_of, read

arrow = package("pyarrow")
deltalake = package("deltalake")
exceptions = package("deltalake.exceptions")

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]

WRITERS = 8


@pytest.fixture
def options(target: Target) -> dict[str, str]:
    server = target.server
    return {
        "AWS_ENDPOINT_URL": server.endpoint, "AWS_ACCESS_KEY_ID": server.access_key, "AWS_REGION": server.region,
        "AWS_SECRET_ACCESS_KEY": server.secret_key, "AWS_ALLOW_HTTP": "true",
    }  # fmt: skip


def rows(first: int, count: int = 10) -> Any:
    return arrow.table({"n": range(first, first + count), "part": [f"p {n % 2}" for n in range(count)]})


def numbers(table: Any) -> list[int]:
    return sorted(table.to_pyarrow_table()["n"].to_pylist())


def versions_of(s3: Any, bucket: str) -> list[int]:
    """The commits of the table."""
    names = [key.rpartition("/")[2] for key in keys_of(s3, bucket) if "/_delta_log/" in key]
    return sorted(int(name.removesuffix(".json")) for name in names if name.removesuffix(".json").isdigit())


def test_a_table(options: dict[str, str], bucket: str) -> None:
    uri = f"s3://{bucket}/a table"
    deltalake.write_deltalake(uri, rows(0), storage_options=options, partition_by=["part"])
    deltalake.write_deltalake(uri, rows(10), storage_options=options, mode="append")
    table = deltalake.DeltaTable(uri, storage_options=options)
    assert numbers(table) == list(range(20))
    table.delete("n < 5")
    table.update(predicate="n = 19", updates={"n": "190"})
    merged = table.merge(rows(0, 5), predicate="s.n = t.n", source_alias="s", target_alias="t")
    merged.when_not_matched_insert_all().execute()
    assert numbers(table) == [*range(19), 190]
    table.optimize.compact()
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
    table.create_checkpoint()
    assert numbers(deltalake.DeltaTable(uri, storage_options=options)) == [*range(19), 190]
    assert len(table.history()) == table.version() + 1


def test_earlier_versions(options: dict[str, str], bucket: str) -> None:
    uri = f"s3://{bucket}/t"
    for number in range(12):
        deltalake.write_deltalake(uri, rows(10 * number), storage_options=options, mode="append")
    table = deltalake.DeltaTable(uri, storage_options=options, version=3)
    assert numbers(table) == list(range(40))
    table.load_as_version(11)
    assert numbers(table) == list(range(120))


def test_one_of_many_writers_commits_each_version(options: dict[str, str], s3: Any, bucket: str) -> None:
    uri = f"s3://{bucket}/t"
    deltalake.write_deltalake(uri, rows(0), storage_options=options)
    once = deltalake.CommitProperties(max_commit_retries=0)
    for turn in range(1, 6):
        # All of them have read the same version, so all of them try to commit the next one.
        tables = [deltalake.DeltaTable(uri, storage_options=options) for _ in range(WRITERS)]

        def commit(number: int, tables: list[Any] = tables, turn: int = turn) -> bool:
            try:
                deltalake.write_deltalake(
                    tables[number], rows(1000 * turn + 10 * number), mode="append", commit_properties=once
                )
            except exceptions.CommitFailedError:
                return False
            return True

        with ThreadPoolExecutor(WRITERS) as threads:
            won = list(threads.map(commit, range(WRITERS)))
        assert won.count(True) == 1
        names = versions_of(s3, bucket)
        assert names == list(range(len(names)))
    table = deltalake.DeltaTable(uri, storage_options=options)
    assert len(numbers(table)) == 10 * len(versions_of(s3, bucket))


def test_writers_that_try_again_lose_nothing(options: dict[str, str], s3: Any, bucket: str) -> None:
    uri = f"s3://{bucket}/t"
    deltalake.write_deltalake(uri, rows(0), storage_options=options)
    patient = deltalake.CommitProperties(max_commit_retries=200)

    def append(number: int) -> None:
        for turn in range(4):
            first = 1000 * (number + 1) + 10 * turn
            deltalake.write_deltalake(
                uri, rows(first), storage_options=options, mode="append", commit_properties=patient
            )

    with ThreadPoolExecutor(WRITERS) as threads:
        list(threads.map(append, range(WRITERS)))
    assert versions_of(s3, bucket) == list(range(1 + 4 * WRITERS))
    found = numbers(deltalake.DeltaTable(uri, storage_options=options))
    assert len(found) == len(set(found)) == 10 * (1 + 4 * WRITERS)
    for version in versions_of(s3, bucket):
        lines = read(s3, bucket, f"t/_delta_log/{version:020}.json").splitlines()
        assert sum("add" in json.loads(line) for line in lines) == 1


def test_errors(options: dict[str, str], bucket: str) -> None:
    with pytest.raises(exceptions.TableNotFoundError):
        deltalake.DeltaTable(f"s3://{bucket}/none", storage_options=options)
    wrong = options | {"AWS_SECRET_ACCESS_KEY": WRONG_SECRET}
    with pytest.raises((OSError, exceptions.DeltaError), match=r"SignatureDoesNotMatch|403"):
        deltalake.write_deltalake(f"s3://{bucket}/t", rows(0), storage_options=wrong)
