"""Settings of a single bucket: extensions of CreateBucket and HeadBucket, and PutBucketSettings."""

from __future__ import annotations

import threading
import uuid
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.targets import running
from tests.fixtures.wire import Wire

pytestmark = pytest.mark.conformance

DURABILITY = "x-amz-orcas-durability"
CHUNK_SIZE = "x-amz-orcas-chunk-size"
REF_LEVEL = "x-amz-orcas-ref-level"
CHUNKING = "x-amz-orcas-chunking"
KEEP_SHA256 = "x-amz-orcas-keep-sha256"
ALL = {DURABILITY: "buffered", CHUNK_SIZE: "65536", REF_LEVEL: "fast", CHUNKING: "content-defined", KEEP_SHA256: "true"}

OUT_OF_BOUNDS = [
    (DURABILITY, "none"),
    (DURABILITY, ""),
    (CHUNK_SIZE, "65535"),
    (CHUNK_SIZE, "67108865"),
    (CHUNK_SIZE, "4 MiB"),
    (REF_LEVEL, "3"),
    (REF_LEVEL, "Full"),
    (CHUNKING, "fastcdc"),
    (KEEP_SHA256, "yes"),
]


def shown(wire: Wire, name: str) -> dict[str, str]:
    """The settings that HeadBucket shows."""
    answer = wire("HEAD", f"/{name}")
    assert answer.status == 200
    return {header: value for header, value in answer.headers.items() if header.startswith("x-amz-orcas-")}


def change(wire: Wire, name: str, headers: dict[str, str]) -> Any:
    """PutBucketSettings."""
    return wire("PUT", f"/{name}", "orcas-settings", headers=headers)


@pytest.mark.parametrize("durability", ["sync", "interval", "buffered", "unsafe-none"])
def test_a_bucket_keeps_what_it_was_made_with(wire: Wire, s3: Any, durability: str) -> None:
    name = f"t-{uuid.uuid4().hex}"
    made = wire("PUT", f"/{name}", headers={DURABILITY: durability, CHUNK_SIZE: "65536"})
    assert made.status == 200, made.body
    assert shown(wire, name) == {DURABILITY: durability, CHUNK_SIZE: "65536"}
    for size in (10, 5_000, 1_000_000):
        body = bytes(range(256)) * (size // 256) + bytes(size % 256)
        s3.put_object(Bucket=name, Key=str(size), Body=body)
        assert s3.get_object(Bucket=name, Key=str(size))["Body"].read() == body


@pytest.mark.parametrize(("number", "level"), [("0", "off"), ("1", "full"), ("2", "fast")])
def test_a_level_has_a_number_and_a_name(wire: Wire, number: str, level: str) -> None:
    name = f"t-{uuid.uuid4().hex}"
    assert wire("PUT", f"/{name}", headers={REF_LEVEL: number}).status == 200
    assert shown(wire, name) == {REF_LEVEL: level}
    assert change(wire, name, {REF_LEVEL: "default"}).status == 200
    assert change(wire, name, {REF_LEVEL: level}).headers[REF_LEVEL] == level
    assert shown(wire, name) == {REF_LEVEL: level}


@pytest.mark.parametrize(("header", "value"), OUT_OF_BOUNDS)
def test_a_setting_out_of_bounds_makes_no_bucket(wire: Wire, header: str, value: str) -> None:
    name = f"t-{uuid.uuid4().hex}"
    refused = wire("PUT", f"/{name}", headers={header: value})
    assert (refused.status, refused.code) == (400, "InvalidArgument")
    assert wire("GET", f"/{name}").code == "NoSuchBucket"


def test_a_bucket_without_settings_shows_none(wire: Wire, bucket: str) -> None:
    assert shown(wire, bucket) == {}


def test_settings_are_changed_one_by_one(wire: Wire, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"kept")
    before = s3.list_buckets(Prefix=bucket)["Buckets"]
    expected: dict[str, str] = {}
    for header, value in ALL.items():
        answer = change(wire, bucket, {header: value})
        assert (answer.status, answer.body) == (200, b"")
        expected[header] = value
        assert shown(wire, bucket) == expected
        assert {name: found for name, found in answer.headers.items() if name in ALL} == expected
    for header, value in OUT_OF_BOUNDS:
        assert change(wire, bucket, {CHUNKING: "fixed", header: value}).code == "InvalidArgument"
    assert shown(wire, bucket) == ALL
    for header in ALL:
        assert change(wire, bucket, {header: "default"}).status == 200
        del expected[header]
        assert shown(wire, bucket) == expected
    assert s3.list_buckets(Prefix=bucket)["Buckets"] == before
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"kept"


def test_changes_that_cannot_be_meant(wire: Wire, bucket: str) -> None:
    assert change(wire, bucket, {}).code == "InvalidRequest"
    assert change(wire, bucket, {"x-amz-orcas-quota": "1"}).code == "NotImplemented"
    assert change(wire, f"{bucket}-missing", {KEEP_SHA256: "true"}).code == "NoSuchBucket"
    assert (
        wire("PUT", f"/{bucket}", "orcas-settings", headers={KEEP_SHA256: "true"}, body=b"x").code == "InvalidRequest"
    )
    for method in ("GET", "DELETE", "POST"):
        assert wire(method, f"/{bucket}", "orcas-settings").status == 405
    assert wire("PUT", f"/{bucket}/k", "orcas-settings", headers={KEEP_SHA256: "true"}).status == 400
    # Elsewhere, settings of buckets mean nothing, and are refused.
    assert wire("PUT", f"/{bucket}/k", headers={DURABILITY: "sync"}, body=b"x").code == "NotImplemented"
    assert shown(wire, bucket) == {}


def test_changes_at_once_lose_nothing(wire: Wire, bucket: str) -> None:
    for _ in range(5):
        threads = [threading.Thread(target=change, args=(wire, bucket, {name: value})) for name, value in ALL.items()]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert shown(wire, bucket) == ALL
        assert change(wire, bucket, dict.fromkeys(ALL, "default")).status == 200
        assert shown(wire, bucket) == {}


def test_changes_outlive_a_restart(tmp_path: Path) -> None:
    with running(tmp_path) as first:
        assert first.wire("PUT", "/restarted", headers={REF_LEVEL: "off"}).status == 200
        assert change(first.wire, "restarted", ALL).status == 200
    with running(tmp_path) as second:
        assert shown(second.wire, "restarted") == ALL
        assert change(second.wire, "restarted", {REF_LEVEL: "default", KEEP_SHA256: "false"}).status == 200
    with running(tmp_path) as third:
        assert shown(third.wire, "restarted") == {k: v for k, v in ALL.items() if k not in {REF_LEVEL, KEEP_SHA256}}
