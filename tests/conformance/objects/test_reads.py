"""Ranges, conditional reads, and reads of one part."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from tests.fixtures.targets import content, refusal
from tests.fixtures.wire import Wire

pytestmark = [pytest.mark.conformance, pytest.mark.parametrize("target", ["disk", "chunked"], indirect=True)]

# In the version record; in a content record; in two chunks, near the ends of a block and a chunk.
SIZES = [200, 60_000, 5_000_000]


def spans(size: int) -> list[tuple[str, int, int]]:
    """Ranges of all three forms, with the first and last byte of each."""
    middle = size // 2
    return [
        ("bytes=0-0", 0, 0),
        (f"bytes=0-{size - 1}", 0, size - 1),
        (f"bytes=0-{size + 5}", 0, size - 1),
        ("bytes=0-99999999999999999999", 0, size - 1),
        (f"bytes={middle}-{middle + 9}", middle, middle + 9),
        ("bytes=100-", 100, size - 1),
        (f"bytes={size - 1}-", size - 1, size - 1),
        ("bytes=-1", size - 1, size - 1),
        ("bytes=-150", size - 150, size - 1),
        (f"bytes=-{size}", 0, size - 1),
        (f"bytes=-{size + 1}", 0, size - 1),
    ]


@pytest.mark.parametrize("size", SIZES)
def test_ranges_of_the_three_forms(s3: Any, bucket: str, size: int) -> None:
    data = content(size)
    put = s3.put_object(Bucket=bucket, Key="k", Body=data)
    for header, first, last in spans(size):
        got = s3.get_object(Bucket=bucket, Key="k", Range=header)
        assert got["ResponseMetadata"]["HTTPStatusCode"] == 206, header
        assert got["ContentRange"] == f"bytes {first}-{last}/{size}", header
        assert got["Body"].read() == data[first : last + 1], header
        assert got["ContentLength"] == last + 1 - first
        assert got["ETag"] == put["ETag"]
        head = s3.head_object(Bucket=bucket, Key="k", Range=header)
        assert (head["ContentRange"], head["ContentLength"]) == (got["ContentRange"], last + 1 - first)


@pytest.mark.parametrize("edge", [65_535, 65_536, 65_537, 131_072, 4_194_303, 4_194_304, 4_194_305])
def test_ranges_across_the_edges_of_blocks_and_chunks(s3: Any, bucket: str, edge: int) -> None:
    data = content(9_000_000)
    s3.put_object(Bucket=bucket, Key="k", Body=data)
    for first, last in ((edge - 1, edge), (edge, edge), (edge - 70_000, edge + 70_000), (edge, len(data) - 1)):
        first = max(first, 0)
        got = s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={first}-{last}")
        assert got["Body"].read() == data[first : last + 1]


def test_ranges_that_cannot_be_satisfied(wire: Wire, bucket: str) -> None:
    wire("PUT", f"/{bucket}/k", body=b"0123456789")
    wire("PUT", f"/{bucket}/empty")
    for key, header in (
        ("k", "bytes=10-"),
        ("k", "bytes=10-12"),
        ("k", "bytes=-0"),
        ("empty", "bytes=0-"),
        ("empty", "bytes=-0"),
    ):
        answer = wire("GET", f"/{bucket}/{key}", headers={"Range": header})
        assert (answer.status, answer.code) == (416, "InvalidRange"), header
        assert answer.error["RangeRequested"] == header
        size = 10 if key == "k" else 0
        assert answer.error["ActualObjectSize"] == str(size)
        assert answer.headers["content-range"] == f"bytes */{size}"
        head = wire("HEAD", f"/{bucket}/{key}", headers={"Range": header})
        assert (head.status, head.body) == (416, b"")
    assert wire("GET", f"/{bucket}/empty", headers={"Range": "bytes=-1"}).status == 200, "the last bytes of nothing"


@pytest.mark.parametrize(
    "header",
    [
        "bytes=0-1,3-4",
        "bytes=3-2",
        "bytes=-",
        "bytes=",
        "bytes",
        "items=1-2",
        "bytes=a-b",
        "bytes=1--2",
        "bytes= -1",
        "0-1",
    ],
)
def test_what_is_no_single_range_gives_the_whole(wire: Wire, bucket: str, header: str) -> None:
    wire("PUT", f"/{bucket}/k", body=b"0123456789")
    answer = wire("GET", f"/{bucket}/k", headers={"Range": header})
    assert (answer.status, answer.body) == (200, b"0123456789")
    assert "content-range" not in answer.headers


def test_conditional_reads(s3: Any, bucket: str) -> None:
    tag = s3.put_object(Bucket=bucket, Key="k", Body=b"x")["ETag"]
    modified = s3.head_object(Bucket=bucket, Key="k")["LastModified"]
    hour = dt.timedelta(hours=1)
    holds: list[dict[str, Any]] = [
        {"IfMatch": tag},
        {"IfMatch": tag.strip('"')},
        {"IfMatch": "*"},
        {"IfMatch": f'"other", {tag}'},
        {"IfNoneMatch": '"other"'},
        {"IfModifiedSince": modified - hour},
        # A time to come is ignored.
        {"IfModifiedSince": modified + hour},
        {"IfUnmodifiedSince": modified},
        {"IfUnmodifiedSince": modified + hour},
        {"IfMatch": tag, "IfUnmodifiedSince": modified - hour},
        {"IfNoneMatch": '"other"', "IfModifiedSince": modified + hour},
    ]
    not_modified: list[dict[str, Any]] = [
        {"IfNoneMatch": tag},
        {"IfNoneMatch": tag.strip('"')},
        {"IfNoneMatch": "*"},
        {"IfNoneMatch": f'"other", {tag}'},
        {"IfModifiedSince": modified},
        {"IfNoneMatch": tag, "IfModifiedSince": modified - hour},
        {"IfMatch": tag, "IfNoneMatch": tag},
    ]
    failed: list[dict[str, Any]] = [
        {"IfMatch": '"other"'},
        {"IfUnmodifiedSince": modified - hour},
        {"IfMatch": '"other"', "IfNoneMatch": tag},
    ]
    for conditions in holds:
        assert s3.get_object(Bucket=bucket, Key="k", **conditions)["Body"].read() == b"x", conditions
        assert s3.head_object(Bucket=bucket, Key="k", **conditions)["ContentLength"] == 1, conditions
    for conditions in not_modified:
        assert refusal(s3.get_object, Bucket=bucket, Key="k", **conditions) == (304, "304"), conditions
        assert refusal(s3.head_object, Bucket=bucket, Key="k", **conditions) == (304, "304"), conditions
    for conditions in failed:
        assert refusal(s3.get_object, Bucket=bucket, Key="k", **conditions) == (412, "PreconditionFailed"), conditions
        assert refusal(s3.head_object, Bucket=bucket, Key="k", **conditions) == (412, "412"), conditions


def test_a_not_modified_answer_says_what_is_cached(wire: Wire, bucket: str) -> None:
    tag = wire("PUT", f"/{bucket}/k", body=b"x", headers={"Cache-Control": "max-age=5"}).headers["etag"]
    answer = wire("GET", f"/{bucket}/k", headers={"If-None-Match": tag})
    assert (answer.status, answer.body) == (304, b"")
    assert answer.headers["etag"] == tag
    assert "last-modified" in answer.headers
    assert "content-length" not in answer.headers


def test_conditions_on_what_is_not_there(s3: Any, bucket: str) -> None:
    for conditions in ({"IfMatch": "*"}, {"IfMatch": '"x"'}, {"IfNoneMatch": "*"}):
        assert refusal(s3.get_object, Bucket=bucket, Key="k", **conditions) == (404, "NoSuchKey")


def test_a_range_with_a_condition(s3: Any, bucket: str) -> None:
    tag = s3.put_object(Bucket=bucket, Key="k", Body=b"0123456789")["ETag"]
    got = s3.get_object(Bucket=bucket, Key="k", Range="bytes=1-2", IfMatch=tag)
    assert got["Body"].read() == b"12"
    assert refusal(s3.get_object, Bucket=bucket, Key="k", Range="bytes=1-2", IfMatch='"x"')[0] == 412
    assert refusal(s3.get_object, Bucket=bucket, Key="k", Range="bytes=99-", IfMatch='"x"')[0] == 412


def test_part_one_of_an_object_of_one_piece(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"0123456789")
    got = s3.get_object(Bucket=bucket, Key="k", PartNumber=1)
    assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
    assert got["Body"].read() == b"0123456789"
    assert refusal(s3.get_object, Bucket=bucket, Key="k", PartNumber=2) == (416, "InvalidPartNumber")


def test_a_range_and_a_part_exclude_each_other(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert refusal(s3.get_object, Bucket=bucket, Key="k", PartNumber=1, Range="bytes=0-0") == (400, "InvalidRequest")


def test_head_answers_without_a_body(wire: Wire, bucket: str) -> None:
    for path in (f"/{bucket}/none", f"/{bucket}-none/k", f"/{bucket}-none"):
        answer = wire("HEAD", path)
        assert (answer.status, answer.body) == (404, b"")
    assert wire("HEAD", f"/{bucket}/k", sign=False).status == 403
