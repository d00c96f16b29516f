"""RenameObject: its conditions, and the client token under which it happens once."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from tests.fixtures.targets import keys_of, read, refusal
from tests.fixtures.wire import Wire

pytestmark = [pytest.mark.conformance, pytest.mark.parametrize("target", ["disk", "memory"], indirect=True)]

FAILED = (412, "PreconditionFailed")


def test_conditions_on_times(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="a", Body=b"a")
    names = {"Bucket": bucket, "Key": "b", "RenameSource": "a"}
    time = s3.head_object(Bucket=bucket, Key="a")["LastModified"]
    before, after = time - timedelta(seconds=5), time + timedelta(seconds=5)
    # Of a destination that is not there, only this condition fails.
    assert refusal(s3.rename_object, **names, DestinationIfModifiedSince=before) == FAILED
    s3.put_object(Bucket=bucket, Key="b", Body=b"b")
    for conditions in (
        {"DestinationIfModifiedSince": after},
        {"DestinationIfUnmodifiedSince": before},
        # A time that is still to come would be passed over.
        {"SourceIfModifiedSince": time},
        {"SourceIfUnmodifiedSince": before},
    ):
        assert refusal(s3.rename_object, **names, **conditions) == FAILED, conditions
    assert keys_of(s3, bucket) == ["a", "b"]
    s3.rename_object(
        **names,
        DestinationIfModifiedSince=before,
        DestinationIfUnmodifiedSince=after,
        SourceIfModifiedSince=before,
        SourceIfUnmodifiedSince=after,
    )
    assert keys_of(s3, bucket) == ["b"]
    assert read(s3, bucket, "b") == b"a"


def test_a_repeated_rename_with_its_token_succeeds_and_does_nothing(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="a", Body=b"a")
    request = {"Bucket": bucket, "Key": "b", "RenameSource": "a", "ClientToken": "token-1"}
    s3.rename_object(**request)
    s3.put_object(Bucket=bucket, Key="a", Body=b"later")
    s3.rename_object(**request)
    assert keys_of(s3, bucket) == ["a", "b"]
    assert read(s3, bucket, "b") == b"a"
    s3.rename_object(**{**request, "ClientToken": "token-2"})
    assert read(s3, bucket, "b") == b"later"


def test_a_token_stands_for_one_request(s3: Any, bucket: str) -> None:
    for key in "ac":
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    request = {"Bucket": bucket, "Key": "b", "RenameSource": "a", "ClientToken": "token"}
    s3.rename_object(**request)
    for other in ({"RenameSource": "c"}, {"Key": "d"}, {"DestinationIfNoneMatch": "*"}):
        refused = refusal(s3.rename_object, **{**request, **other})
        assert refused == (400, "IdempotencyParameterMismatch"), other
    assert keys_of(s3, bucket) == ["b", "c"]


def test_a_refused_rename_leaves_its_token_free(s3: Any, bucket: str) -> None:
    request = {"Bucket": bucket, "Key": "b", "RenameSource": "a", "ClientToken": "token"}
    assert refusal(s3.rename_object, **request) == (404, "NoSuchKey")
    s3.put_object(Bucket=bucket, Key="a", Body=b"a")
    s3.rename_object(**request)
    assert keys_of(s3, bucket) == ["b"]


def test_tokens_of_two_buckets_are_two_tokens(s3: Any, bucket: str) -> None:
    other = f"{bucket}-2"
    s3.create_bucket(Bucket=other)
    for name, source in ((bucket, "a"), (other, "c")):
        s3.put_object(Bucket=name, Key=source, Body=b"x")
        s3.rename_object(Bucket=name, Key="b", RenameSource=source, ClientToken="token")
        assert keys_of(s3, name) == ["b"]


@pytest.mark.parametrize("token", ["", "t" * 65, "with space"])
def test_a_token_that_cannot_be_one(s3: Any, bucket: str, token: str) -> None:
    s3.put_object(Bucket=bucket, Key="a", Body=b"a")
    refused = refusal(s3.rename_object, Bucket=bucket, Key="b", RenameSource="a", ClientToken=token)
    assert refused == (400, "InvalidArgument")
    assert keys_of(s3, bucket) == ["a"]


def test_many_at_once_under_one_token_all_succeed(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="a", Body=b"a")

    def rename(_: int) -> int:
        answer = s3.rename_object(Bucket=bucket, Key="b", RenameSource="a", ClientToken="token")
        return int(answer["ResponseMetadata"]["HTTPStatusCode"])

    with ThreadPoolExecutor(16) as pool:
        assert set(pool.map(rename, range(16))) == {200}
    assert keys_of(s3, bucket) == ["b"]


@pytest.mark.parametrize(
    ("header", "value"),
    [
        ("x-amz-copy-source", "/b/a"),
        ("x-amz-move-source", "/b/a"),
        ("x-amz-metadata-directive", "REPLACE"),
        ("x-amz-tagging-directive", "REPLACE"),
    ],
)
def test_headers_of_copies_and_moves_are_refused(wire: Wire, s3: Any, bucket: str, header: str, value: str) -> None:
    s3.put_object(Bucket=bucket, Key="a", Body=b"a")
    answer = wire("PUT", f"/{bucket}/b", "renameObject", headers={"x-amz-rename-source": "a", header: value})
    assert (answer.status, answer.code) == (501, "NotImplemented"), answer.body
    assert keys_of(s3, bucket) == ["a"]
