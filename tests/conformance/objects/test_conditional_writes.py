"""If-None-Match and If-Match on writes: decided and ordered in one step."""

from __future__ import annotations

import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.fixtures.targets import KINDS, MIB, content, keys_of, read, refusal

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.parametrize("target", KINDS, indirect=True),
]

RACERS = 16


def race(attempt: Callable[[int], tuple[int, str] | None]) -> list[tuple[int, str] | None]:
    """The result of each racer, all started at once: None for success, else status and code."""
    start = threading.Barrier(RACERS)

    def run(number: int) -> tuple[int, str] | None:
        start.wait()
        return attempt(number)

    with ThreadPoolExecutor(RACERS) as pool:
        return list(pool.map(run, range(RACERS)))


def verdict(call: Callable[..., Any], **arguments: Any) -> tuple[int, str] | None:
    try:
        return refusal(call, **arguments)
    except AssertionError:
        return None


def test_if_none_match(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"first", IfNoneMatch="*")
    for body in (b"second", content(70_000)):
        refused = refusal(s3.put_object, Bucket=bucket, Key="k", Body=body, IfNoneMatch="*")
        assert refused == (412, "PreconditionFailed")
    assert read(s3, bucket, "k") == b"first"
    s3.delete_object(Bucket=bucket, Key="k")
    s3.put_object(Bucket=bucket, Key="k", Body=b"third", IfNoneMatch="*")
    assert read(s3, bucket, "k") == b"third"


def test_if_none_match_takes_only_a_star(s3: Any, bucket: str) -> None:
    assert refusal(s3.put_object, Bucket=bucket, Key="k", Body=b"x", IfNoneMatch='"tag"')[0] == 501
    assert keys_of(s3, bucket) == []


def test_if_match(s3: Any, bucket: str) -> None:
    assert refusal(s3.put_object, Bucket=bucket, Key="k", Body=b"x", IfMatch='"tag"') == (404, "NoSuchKey")
    assert keys_of(s3, bucket) == []
    tag = s3.put_object(Bucket=bucket, Key="k", Body=b"1")["ETag"]
    refused = refusal(s3.put_object, Bucket=bucket, Key="k", Body=b"2", IfMatch='"other"')
    assert refused == (412, "PreconditionFailed")
    assert read(s3, bucket, "k") == b"1"
    tag = s3.put_object(Bucket=bucket, Key="k", Body=b"2", IfMatch=tag)["ETag"]
    tag = s3.put_object(Bucket=bucket, Key="k", Body=b"3", IfMatch=tag.strip('"'))["ETag"]
    assert refusal(s3.put_object, Bucket=bucket, Key="k", Body=b"4", IfMatch='"x"', IfNoneMatch="*")[0] == 501
    assert refusal(s3.put_object, Bucket=bucket, Key="k", Body=b"4", IfMatch="*") == (501, "NotImplemented")
    assert read(s3, bucket, "k") == b"3"


@pytest.mark.parametrize("size", [10, 70_000])
def test_one_replacer_wins(s3: Any, bucket: str, size: int) -> None:
    bodies = [content(size, seed=number) for number in range(RACERS)]
    tag = s3.put_object(Bucket=bucket, Key="k", Body=b"start")["ETag"]
    for _ in range(4):
        results = race(
            lambda number, tag=tag: verdict(
                s3.put_object, Bucket=bucket, Key="k", Body=bodies[number] + tag.encode(), IfMatch=tag
            )
        )
        assert results.count(None) == 1, results
        assert read(s3, bucket, "k") == bodies[results.index(None)] + tag.encode()
        tag = s3.head_object(Bucket=bucket, Key="k")["ETag"]


def test_a_counter_kept_by_if_match_loses_nothing(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"0")
    turns = 6

    def count(_: int) -> None:
        done = 0
        while done < turns:
            got = s3.get_object(Bucket=bucket, Key="k")
            value = int(got["Body"].read())
            if (
                verdict(s3.put_object, Bucket=bucket, Key="k", Body=str(value + 1).encode(), IfMatch=got["ETag"])
                is None
            ):
                done += 1

    with ThreadPoolExecutor(8) as pool:
        list(pool.map(count, range(8)))
    assert read(s3, bucket, "k") == str(8 * turns).encode()


def start_upload(s3: Any, bucket: str, key: str, body: bytes) -> dict[str, Any]:
    """An upload of one part; the arguments that complete it."""
    upload = s3.create_multipart_upload(Bucket=bucket, Key=key)["UploadId"]
    tag = s3.upload_part(Bucket=bucket, Key=key, UploadId=upload, PartNumber=1, Body=body)["ETag"]
    parts = {"Parts": [{"PartNumber": 1, "ETag": tag}]}
    return {"Bucket": bucket, "Key": key, "UploadId": upload, "MultipartUpload": parts}


def test_complete_with_conditions(s3: Any, bucket: str) -> None:
    first = start_upload(s3, bucket, "k", b"first")
    assert refusal(s3.complete_multipart_upload, **first, IfMatch='"x"') == (404, "NoSuchKey")
    tag = s3.complete_multipart_upload(**first, IfNoneMatch="*")["ETag"]
    second = start_upload(s3, bucket, "k", b"second")
    assert refusal(s3.complete_multipart_upload, **second, IfNoneMatch="*") == (412, "PreconditionFailed")
    assert refusal(s3.complete_multipart_upload, **second, IfMatch='"x"') == (412, "PreconditionFailed")
    assert read(s3, bucket, "k") == b"first"
    # The refusal keeps the upload, so that it can be completed after all.
    s3.complete_multipart_upload(**second, IfMatch=tag)
    assert read(s3, bucket, "k") == b"second"


def test_puts_and_completions_race_for_one_key(s3: Any, bucket: str) -> None:
    uploads = {number: start_upload(s3, bucket, "k", f"{number}".encode()) for number in range(0, RACERS, 2)}

    def attempt(number: int) -> tuple[int, str] | None:
        if number in uploads:
            return verdict(s3.complete_multipart_upload, **uploads[number], IfNoneMatch="*")
        return verdict(s3.put_object, Bucket=bucket, Key="k", Body=f"{number}".encode(), IfNoneMatch="*")

    results = race(attempt)
    assert results.count(None) == 1, results
    assert read(s3, bucket, "k") == f"{results.index(None)}".encode()


def test_delete_with_conditions(s3: Any, bucket: str) -> None:
    tag = s3.put_object(Bucket=bucket, Key="k", Body=b"x")["ETag"]
    assert refusal(s3.delete_object, Bucket=bucket, Key="k", IfMatch='"other"') == (412, "PreconditionFailed")
    assert read(s3, bucket, "k") == b"x"
    s3.delete_object(Bucket=bucket, Key="k", IfMatch=tag)
    assert keys_of(s3, bucket) == []


def test_a_failed_condition_on_a_large_body_leaves_the_client_usable(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"kept")
    for _ in range(3):
        refused = refusal(s3.put_object, Bucket=bucket, Key="k", Body=content(6 * MIB), IfNoneMatch="*")
        assert refused == (412, "PreconditionFailed")
        assert read(s3, bucket, "k") == b"kept"
