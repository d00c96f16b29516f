"""Calls of a boto3 script, one after the other: most of the time measured is boto3's own."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

SIZES = [0, 1024, 65536, 1 << 20]
LISTED = 100


@pytest.fixture(scope="session")
def listed(client: Any, bucket: str) -> str:
    """A prefix with `LISTED` keys."""
    for number in range(LISTED):
        client.put_object(Bucket=bucket, Key=f"listed/{number:03}", Body=b"")
    return "listed/"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.benchmark(group="put", max_time=0.5, min_rounds=20, warmup=True, warmup_iterations=5)
def test_put(benchmark: Any, client: Any, bucket: str, size: int) -> None:
    """PutObject of keys and contents that are new each time."""
    numbers = itertools.count()

    def put() -> Any:
        number = next(numbers)
        body = number.to_bytes(8, "big").ljust(size, b"m")[:size]
        return client.put_object(Bucket=bucket, Key=f"put/{size}/{number}", Body=body)

    assert benchmark(put)["ResponseMetadata"]["HTTPStatusCode"] == 200


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.benchmark(group="get", max_time=0.5, min_rounds=20, warmup=True, warmup_iterations=5)
def test_get(benchmark: Any, client: Any, bucket: str, size: int) -> None:
    """GetObject, its body read."""
    client.put_object(Bucket=bucket, Key=f"get/{size}", Body=b"g" * size)

    def get() -> int:
        return len(client.get_object(Bucket=bucket, Key=f"get/{size}")["Body"].read())

    assert benchmark(get) == size


@pytest.mark.benchmark(group="head", max_time=0.5, min_rounds=20, warmup=True, warmup_iterations=5)
def test_head(benchmark: Any, client: Any, bucket: str) -> None:
    """HeadObject."""
    client.put_object(Bucket=bucket, Key="head", Body=b"h" * 10)
    assert benchmark(client.head_object, Bucket=bucket, Key="head")["ContentLength"] == 10


@pytest.mark.benchmark(group="list", max_time=0.5, min_rounds=20, warmup=True, warmup_iterations=5)
def test_list(benchmark: Any, client: Any, bucket: str, listed: str) -> None:
    """ListObjectsV2 of a page of 100 keys."""
    assert benchmark(client.list_objects_v2, Bucket=bucket, Prefix=listed)["KeyCount"] == LISTED
