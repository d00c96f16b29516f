"""`orcas.events` against a live server, also one that restarts."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from pathlib import Path

import pytest
from tests.fixtures.targets import running

import orcas

pytestmark = pytest.mark.conformance


def test_events_come_from_the_oldest_filtered_and_after_an_id(tmp_path: Path) -> None:
    with running(tmp_path / "store") as target:
        s3 = target.client()
        for bucket in ("one", "two"):
            s3.create_bucket(Bucket=f"bucket-{bucket}")
            s3.put_object(Bucket=f"bucket-{bucket}", Key="ä b/c.jpg", Body=b"123")
        s3.put_object(Bucket="bucket-one", Key="other", Body=b"x")
        s3.delete_object(Bucket="bucket-one", Key="ä b/c.jpg")
        asked = {"buckets": ["bucket-one"], "prefix": "ä ", "suffix": ".jpg"}
        with orcas.events.listen(s3, start="oldest", **asked) as events:
            created, removed = itertools.islice(events, 2)
        assert (created.name, created.bucket, created.key, created.size) == (
            "ObjectCreated:Put", "bucket-one", "ä b/c.jpg", 3,
        )  # fmt: skip
        assert (removed.name, removed.key) == ("ObjectRemoved:Delete", "ä b/c.jpg")
        assert removed.sequencer > created.sequencer
        with orcas.events.listen(s3, after=created.id, events=["s3:ObjectRemoved:*"]) as events:
            assert next(events) == removed
        with (
            orcas.events.listen(s3, events=["s3:Foreign"]) as events,
            pytest.raises(orcas.events.ListenError, match="not supported"),
        ):
            next(events)


def test_a_listener_of_asyncio_misses_nothing(tmp_path: Path) -> None:
    async def listen(s3: object, after: str) -> list[str | None]:
        async with contextlib.aclosing(orcas.events.alisten(s3, after=after)) as events:
            return [(await anext(events)).key for _ in range(20)]

    with running(tmp_path / "store") as target:
        s3 = target.client()
        s3.create_bucket(Bucket="bucket")
        with orcas.events.listen(s3, start="oldest") as events:
            (created,) = itertools.islice(events, 1)
        assert (created.name, created.key) == ("BucketCreated:*", None)
        for number in range(20):
            s3.put_object(Bucket="bucket", Key=str(number), Body=b"x")
        assert asyncio.run(listen(s3, created.id)) == [str(number) for number in range(20)]
