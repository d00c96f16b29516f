"""UploadPartCopy."""

from __future__ import annotations

import datetime as dt
import uuid
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.fixtures.checksums import etag, multipart_etag
from tests.fixtures.targets import KINDS, MIB, content, read, refusal
from tests.fixtures.uploads import begin

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.parametrize("target", KINDS, indirect=True),
]

DATA = content(12 * MIB, seed=9)


@pytest.fixture
def source(s3: Any) -> dict[str, str]:
    """An object in a bucket of its own."""
    bucket = f"t-{uuid.uuid4().hex}"
    s3.create_bucket(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key="from + ü", Body=DATA)
    return {"Bucket": bucket, "Key": "from + ü"}


def test_whole_and_ranges(s3: Any, bucket: str, source: dict[str, str]) -> None:
    upload = begin(s3, bucket, "k")
    pieces = [DATA, DATA[1 : 5 * MIB + 7], DATA[4 * MIB - 1 : 10 * MIB], DATA[-1:]]
    ranges = [None, (1, 5 * MIB + 6), (4 * MIB - 1, 10 * MIB - 1), (len(DATA) - 1, len(DATA) - 1)]
    for number, (piece, span) in enumerate(zip(pieces, ranges, strict=True), start=1):
        asked = {"CopySourceRange": f"bytes={span[0]}-{span[1]}"} if span else {}
        result = s3.upload_part_copy(**upload.arguments, PartNumber=number, CopySource=source, **asked)[
            "CopyPartResult"
        ]
        assert result["ETag"] == etag(piece)
        assert result["LastModified"].year > 2000
        upload.tags[number] = result["ETag"]
    assert [part["Size"] for part in s3.list_parts(**upload.arguments)["Parts"]] == [len(piece) for piece in pieces]
    assert upload.complete()["ETag"] == multipart_etag(pieces)
    s3.delete_object(**source)
    assert read(s3, bucket, "k") == b"".join(pieces)


def test_small_sources_and_parts_of_both_kinds(s3: Any, bucket: str) -> None:
    upload = begin(s3, bucket, "k")
    for size in (0, 100, 300, 70_000):
        s3.put_object(Bucket=bucket, Key="small", Body=content(size))
        copied = s3.upload_part_copy(**upload.arguments, PartNumber=2, CopySource={"Bucket": bucket, "Key": "small"})
        upload.tags[2] = copied["CopyPartResult"]["ETag"]
        assert upload.tags[2] == etag(content(size))
    upload.put(1, content(5 * MIB))
    upload.complete()
    assert read(s3, bucket, "k") == content(5 * MIB) + content(70_000)


@pytest.mark.parametrize("span", ["bytes=0-", "bytes=-5", "0-9", "bytes=5-4", "bytes=0-1,3-4", "x"])
def test_malformed_ranges(s3: Any, bucket: str, source: dict[str, str], span: str) -> None:
    upload = begin(s3, bucket, "k")
    copy = {"PartNumber": 1, "CopySource": source, "CopySourceRange": span}
    assert refusal(s3.upload_part_copy, **upload.arguments, **copy) == (400, "InvalidArgument")
    assert "Parts" not in s3.list_parts(**upload.arguments)


def test_a_checksum_is_shown_if_the_upload_has_an_algorithm(s3: Any, bucket: str, source: dict[str, str]) -> None:
    for chosen in ({}, {"ChecksumAlgorithm": "CRC32", "ChecksumType": "FULL_OBJECT"}):
        upload = {"Bucket": bucket, "Key": "k"}
        upload["UploadId"] = s3.create_multipart_upload(**upload, **chosen)["UploadId"]
        part = s3.upload_part_copy(**upload, PartNumber=1, CopySource=source)["CopyPartResult"]
        assert [name for name in part if name.startswith("Checksum")] == (["ChecksumCRC32"] if chosen else [])


def test_ranges_outside_of_the_source(s3: Any, bucket: str, source: dict[str, str]) -> None:
    upload = begin(s3, bucket, "k")
    end = len(DATA)
    for span, code in ((f"bytes=0-{end}", "InvalidArgument"), (f"bytes={end}-{end + 5}", "InvalidRequest")):
        copy = {"PartNumber": 1, "CopySource": source, "CopySourceRange": span}
        assert refusal(s3.upload_part_copy, **upload.arguments, **copy) == (400, code), span


def test_conditions_on_the_source(s3: Any, bucket: str, source: dict[str, str]) -> None:
    upload = begin(s3, bucket, "k")
    copy: dict[str, Any] = {**upload.arguments, "PartNumber": 1, "CopySource": source}
    hour_ago = dt.datetime.now(dt.UTC) - dt.timedelta(hours=1)
    for conditions in (
        {"CopySourceIfMatch": '"other"'},
        {"CopySourceIfNoneMatch": etag(DATA)},
        {"CopySourceIfUnmodifiedSince": hour_ago},
    ):
        assert refusal(s3.upload_part_copy, **copy, **conditions) == (412, "PreconditionFailed"), conditions
    s3.upload_part_copy(**copy, CopySourceIfMatch=etag(DATA), CopySourceIfModifiedSince=hour_ago)


def test_what_cannot_be_copied(s3: Any, bucket: str, source: dict[str, str]) -> None:
    upload = begin(s3, bucket, "k")
    missing = source | {"Key": "none"}
    assert refusal(s3.upload_part_copy, **upload.arguments, PartNumber=1, CopySource=missing) == (404, "NoSuchKey")
    nowhere = {"Bucket": "no-such-bucket-here", "Key": "k"}
    assert refusal(s3.upload_part_copy, **upload.arguments, PartNumber=1, CopySource=nowhere) == (404, "NoSuchBucket")
    unknown = upload.arguments | {"UploadId": "made-up"}
    assert refusal(s3.upload_part_copy, **unknown, PartNumber=1, CopySource=source) == (404, "NoSuchUpload")


def test_many_parts_at_once(s3: Any, bucket: str, source: dict[str, str]) -> None:
    upload = begin(s3, bucket, "k")
    starts = {number: (number - 1) * 300_000 for number in range(1, 21)}

    def copy(number: int) -> None:
        span = f"bytes={starts[number]}-{starts[number] + 5 * MIB - 1}"
        result = s3.upload_part_copy(**upload.arguments, PartNumber=number, CopySource=source, CopySourceRange=span)
        upload.tags[number] = result["CopyPartResult"]["ETag"]

    with ThreadPoolExecutor(16) as pool:
        list(pool.map(copy, starts))
    upload.complete()
    assert read(s3, bucket, "k") == b"".join(DATA[start : start + 5 * MIB] for start in starts.values())


def test_a_managed_copy_of_a_large_object(s3: Any, bucket: str, source: dict[str, str]) -> None:
    from boto3.s3.transfer import TransferConfig

    config = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB)
    s3.copy(source, bucket, "k", Config=config)
    assert read(s3, bucket, "k") == DATA
