"""`orcas.buckets`: snapshots, forks and moves of a prefix by a boto3 client."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

import orcas
from orcas.buckets import Moved


@pytest.fixture(scope="module")
def server() -> Any:
    with orcas.Server(memory=True) as running:
        yield running


@pytest.fixture
def s3(server: orcas.Server) -> Any:
    return server.client()


def content(s3: Any, bucket: str) -> dict[str, bytes]:
    entries = s3.list_objects_v2(Bucket=bucket).get("Contents", [])
    return {entry["Key"]: s3.get_object(Bucket=bucket, Key=entry["Key"])["Body"].read() for entry in entries}


def test_a_snapshot_is_restored_forked_and_deleted(s3: Any) -> None:
    s3.create_bucket(Bucket="photos")
    s3.put_object(Bucket="photos", Key="a", Body=b"old")
    orcas.buckets.create_snapshot(s3, "photos", "before-the-import")
    (kept,) = orcas.buckets.list_snapshots(s3, "photos")
    assert kept.name == "before-the-import"
    assert abs(dt.datetime.now(dt.UTC) - kept.created) < dt.timedelta(minutes=5)
    s3.put_object(Bucket="photos", Key="a", Body=b"new")
    orcas.buckets.fork(s3, "photos", "now")
    orcas.buckets.fork(s3, "photos", "then", snapshot=kept.name)
    assert (content(s3, "now"), content(s3, "then")) == ({"a": b"new"}, {"a": b"old"})
    orcas.buckets.restore_snapshot(s3, "photos", kept.name)
    assert content(s3, "photos") == {"a": b"old"}
    orcas.buckets.delete_snapshot(s3, "photos", kept.name)
    assert orcas.buckets.list_snapshots(s3, "photos") == []
    assert content(s3, "then") == {"a": b"old"}


def test_a_prefix_moves_within_a_bucket_and_to_another(s3: Any) -> None:
    for bucket in ("from", "to"):
        s3.create_bucket(Bucket=f"moved-{bucket}")
    for key in ("in/a", "in/b", "other"):
        s3.put_object(Bucket="moved-from", Key=key, Body=key.encode())
    assert orcas.buckets.move(s3, "moved-from", "in/", "out/") == Moved(objects=2, bytes=8)
    assert orcas.buckets.move(s3, "moved-from", "out/a", "b", new_bucket="moved-to") == Moved(objects=1, bytes=4)
    assert content(s3, "moved-from") == {"out/b": b"in/b", "other": b"other"}
    assert content(s3, "moved-to") == {"b": b"in/a"}
    with pytest.raises(orcas.OrcasError, match="There are keys with the new prefix"):
        orcas.buckets.move(s3, "moved-from", "out/", "oth")
    orcas.buckets.move(s3, "moved-from", "out/b", "other", overwrite=True)
    assert content(s3, "moved-from") == {"other": b"in/b"}


def test_refusals_and_keys_are_told(server: orcas.Server) -> None:
    with pytest.raises(orcas.OrcasError, match="does not exist"):
        orcas.buckets.create_snapshot(server.client(), "missing", "s")
    with pytest.raises(orcas.OrcasError, match="A name is empty"):
        orcas.buckets.delete_snapshot(server.client(), "missing", "")
    stranger = server.client(aws_access_key_id="unknown", aws_secret_access_key="wrong")
    with pytest.raises(orcas.OrcasError, match="refused the key of the client"):
        orcas.buckets.list_snapshots(stranger, "missing")
