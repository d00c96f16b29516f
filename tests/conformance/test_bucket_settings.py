"""A bucket's own durability and chunk size: extensions of CreateBucket and HeadBucket."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from tests.fixtures.wire import Wire

pytestmark = pytest.mark.conformance

DURABILITY = "x-amz-orcas-durability"
CHUNK_SIZE = "x-amz-orcas-chunk-size"


@pytest.mark.parametrize("durability", ["sync", "interval", "buffered", "unsafe-none"])
def test_a_bucket_keeps_what_it_was_made_with(wire: Wire, s3: Any, durability: str) -> None:
    name = f"t-{uuid.uuid4().hex}"
    made = wire("PUT", f"/{name}", headers={DURABILITY: durability, CHUNK_SIZE: "65536"})
    assert made.status == 200, made.body
    seen = wire("HEAD", f"/{name}").headers
    assert (seen[DURABILITY], seen[CHUNK_SIZE]) == (durability, "65536")
    for size in (10, 5_000, 1_000_000):
        body = bytes(range(256)) * (size // 256) + bytes(size % 256)
        s3.put_object(Bucket=name, Key=str(size), Body=body)
        assert s3.get_object(Bucket=name, Key=str(size))["Body"].read() == body


@pytest.mark.parametrize(
    ("header", "value"),
    [(DURABILITY, "none"), (DURABILITY, ""), (CHUNK_SIZE, "65535"), (CHUNK_SIZE, "67108865"), (CHUNK_SIZE, "4 MiB")],
)
def test_a_setting_out_of_bounds_makes_no_bucket(wire: Wire, header: str, value: str) -> None:
    name = f"t-{uuid.uuid4().hex}"
    refused = wire("PUT", f"/{name}", headers={header: value})
    assert (refused.status, refused.code) == (400, "InvalidArgument")
    assert wire("GET", f"/{name}").code == "NoSuchBucket"


def test_a_bucket_without_settings_shows_none(wire: Wire, bucket: str) -> None:
    assert not {DURABILITY, CHUNK_SIZE} & set(wire("HEAD", f"/{bucket}").headers)
