"""pyiceberg: tables in a warehouse on the server, with their catalog in SQLite."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.clients import WRONG_SECRET, package
from tests.fixtures.targets import Target, keys_of

arrow = package("pyarrow")
catalogs = package("pyiceberg.catalog.sql")
exceptions = package("pyiceberg.exceptions")
types = package("pyiceberg.types")

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]


def catalog_of(target: Target, bucket: str, directory: Path, **others: str) -> Any:
    server = target.server
    keys = {"s3.access-key-id": server.access_key, "s3.secret-access-key": server.secret_key} | others
    return catalogs.SqlCatalog(
        "test", **keys,
        **{
            "uri": f"sqlite:///{directory}/catalog.db", "warehouse": f"s3://{bucket}/warehouse",
            "s3.endpoint": server.endpoint, "s3.region": server.region,
        },
    )  # fmt: skip


@pytest.fixture
def catalog(target: Target, bucket: str, tmp_path: Path) -> Any:
    made = catalog_of(target, bucket, tmp_path)
    made.create_namespace("n")
    return made


def rows(first: int, count: int = 10) -> Any:
    return arrow.table({"n": arrow.array(range(first, first + count), arrow.int64()), "s": ["a b+ü"] * count})


def numbers(table: Any, **options: Any) -> list[int]:
    return sorted(table.scan(**options).to_arrow()["n"].to_pylist())


def test_a_table(catalog: Any, s3: Any, bucket: str) -> None:
    table = catalog.create_table("n.t", schema=rows(0).schema)
    for first in (0, 10, 20):
        table.append(rows(first))
    assert numbers(table) == list(range(30))
    assert numbers(table, row_filter="n >= 12 and n < 15") == [12, 13, 14]
    table.delete("n < 5")
    table.overwrite(rows(100), overwrite_filter="n >= 20")
    assert numbers(table) == [*range(5, 20), *range(100, 110)]
    second = table.snapshots()[1]
    assert numbers(table, snapshot_id=second.snapshot_id) == list(range(20))
    with table.update_schema() as update:
        update.add_column("more", types.LongType())
    again = catalog.load_table("n.t")
    assert again.scan().to_arrow().column_names == ["n", "s", "more"]
    assert any(key.startswith("warehouse/n/t/metadata/") for key in keys_of(s3, bucket))
    catalog.purge_table("n.t")
    with pytest.raises(exceptions.NoSuchTableError):
        catalog.load_table("n.t")


def test_a_large_file(catalog: Any) -> None:
    table = catalog.create_table("n.large", schema=rows(0).schema)
    table.append(rows(0, 3_000_000))
    assert len(numbers(table, row_filter="n >= 2_999_990".replace("_", ""))) == 10
    assert table.scan().to_arrow().num_rows == 3_000_000


def test_partitions(catalog: Any, s3: Any, bucket: str) -> None:
    table = catalog.create_table("n.parts", schema=rows(0).schema)
    with table.update_spec() as update:
        update.add_identity("s")
    table.append(rows(0))
    assert numbers(table, row_filter="s = 'a b+ü'") == list(range(10))
    # Iceberg encodes the value in the name of the file, and S3 clients encode that again.
    assert any("/data/s=" in key for key in keys_of(s3, bucket))


def test_concurrent_commits(target: Target, catalog: Any, bucket: str, tmp_path: Path) -> None:
    catalog.create_table("n.t", schema=rows(0).schema)

    def append(number: int) -> bool:
        table = catalog_of(target, bucket, tmp_path).load_table("n.t")
        try:
            table.append(rows(10 * number))
        except exceptions.CommitFailedException:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        won = list(threads.map(append, range(4)))
    assert any(won)
    expected = sorted(n for number in range(4) if won[number] for n in range(10 * number, 10 * number + 10))
    assert numbers(catalog.load_table("n.t")) == expected


def test_errors(target: Target, catalog: Any, bucket: str, tmp_path: Path) -> None:
    catalog.create_table("n.t", schema=rows(0).schema).append(rows(0))
    other = catalog_of(target, bucket, tmp_path, **{"s3.secret-access-key": WRONG_SECRET})
    with pytest.raises(OSError, match=r"(?i)access.denied|signature"):
        other.load_table("n.t")
