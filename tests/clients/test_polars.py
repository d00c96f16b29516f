"""polars: data frames read from objects, scanned in place, and written to them."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fixtures.clients import WRONG_SECRET, package
from tests.fixtures.targets import Target, keys_of

polars = package("polars")

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]

ROWS = 300_000


@pytest.fixture
def options(target: Target) -> dict[str, str]:
    server = target.server
    return {
        "aws_endpoint_url": server.endpoint, "aws_access_key_id": server.access_key, "aws_region": server.region,
        "aws_secret_access_key": server.secret_key, "aws_allow_http": "true",
    }  # fmt: skip


@pytest.fixture
def frame() -> Any:
    numbers = range(ROWS)
    return polars.DataFrame(
        {"n": numbers, "part": [n % 3 for n in numbers], "text": [f"ü {n * 7919}" for n in numbers]}
    )


@pytest.mark.parametrize("name", ["a b", "a+b", "ünïcode"])
def test_parquet(options: dict[str, str], bucket: str, frame: Any, name: str) -> None:
    path = f"s3://{bucket}/{name}.parquet"
    frame.write_parquet(path, storage_options=options, row_group_size=20_000)
    assert polars.read_parquet(path, storage_options=options).equals(frame)
    scanned = polars.scan_parquet(path, storage_options=options)
    assert scanned.filter(polars.col("n") == 123_456).select("text").collect().item() == f"ü {123_456 * 7919}"
    assert scanned.select(polars.len()).collect().item() == ROWS


def test_partitions(options: dict[str, str], s3: Any, bucket: str, frame: Any) -> None:
    for part in range(3):
        chosen = frame.filter(polars.col("part") == part)
        chosen.write_parquet(f"s3://{bucket}/set/part={part}/data.parquet", storage_options=options)
    scanned = polars.scan_parquet(f"s3://{bucket}/set/", storage_options=options, hive_partitioning=True)
    assert scanned.filter(polars.col("part") == 2).select(polars.len()).collect().item() == ROWS // 3
    assert scanned.collect().sort("n").select(frame.columns).equals(frame)
    globbed = polars.scan_parquet(f"s3://{bucket}/set/*/data.parquet", storage_options=options)
    assert globbed.select(polars.col("n").sum()).collect().item() == sum(range(ROWS))
    assert len(keys_of(s3, bucket)) == 3


def test_a_plan_writes_its_result(options: dict[str, str], bucket: str, frame: Any) -> None:
    frame.write_parquet(f"s3://{bucket}/in", storage_options=options)
    plan = polars.scan_parquet(f"s3://{bucket}/in", storage_options=options)
    plan.with_columns(polars.col("n") * 2).sink_parquet(f"s3://{bucket}/out", storage_options=options)
    found = polars.read_parquet(f"s3://{bucket}/out", storage_options=options)
    assert found["n"].sum() == 2 * sum(range(ROWS))


def test_text(options: dict[str, str], bucket: str, frame: Any) -> None:
    frame.write_csv(f"s3://{bucket}/f.csv", storage_options=options)
    assert polars.read_csv(f"s3://{bucket}/f.csv", storage_options=options).equals(frame)
    assert polars.scan_csv(f"s3://{bucket}/f.csv", storage_options=options).collect().equals(frame)
    frame.lazy().sink_ndjson(f"s3://{bucket}/f.json", storage_options=options)
    assert polars.scan_ndjson(f"s3://{bucket}/f.json", storage_options=options).collect().equals(frame)


def test_errors(options: dict[str, str], bucket: str, frame: Any) -> None:
    with pytest.raises((OSError, polars.exceptions.ComputeError), match=r"(?i)not found|NoSuchKey"):
        polars.read_parquet(f"s3://{bucket}/none.parquet", storage_options=options)
    with pytest.raises((OSError, polars.exceptions.ComputeError), match="NoSuchBucket"):
        frame.write_parquet(f"s3://{bucket}-none/f.parquet", storage_options=options)
    wrong = options | {"aws_secret_access_key": WRONG_SECRET}
    with pytest.raises((OSError, polars.exceptions.ComputeError), match=r"SignatureDoesNotMatch|403"):
        frame.write_parquet(f"s3://{bucket}/f.parquet", storage_options=wrong)
