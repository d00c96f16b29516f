"""Deletions on conditions: entity tag, time and size, decided together with the deletion."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from tests.fixtures.targets import keys_of, read, refusal
from tests.fixtures.wire import Wire

pytestmark = [pytest.mark.conformance, pytest.mark.parametrize("target", ["disk", "memory"], indirect=True)]

FAILED = (412, "PreconditionFailed")


@pytest.fixture(params=["unversioned", "versioned"])
def place(request: pytest.FixtureRequest, s3: Any, bucket: str) -> str:
    """A bucket without and with versioning."""
    if request.param == "versioned":
        s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    return bucket


def conditions(s3: Any, bucket: str, key: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Conditions of DeleteObject that hold for an object, and for each of them one that does not."""
    head = s3.head_object(Bucket=bucket, Key=key)
    holds = {
        "IfMatch": head["ETag"],
        "IfMatchLastModifiedTime": head["LastModified"],
        "IfMatchSize": head["ContentLength"],
    }
    fails = {
        "IfMatch": '"0123456789abcdef0123456789abcdef"',
        "IfMatchLastModifiedTime": head["LastModified"] - timedelta(seconds=1),
        "IfMatchSize": head["ContentLength"] + 1,
    }
    return holds, fails


def test_an_object_is_deleted_only_if_all_conditions_hold(s3: Any, place: str) -> None:
    s3.put_object(Bucket=place, Key="k", Body=b"body")
    holds, fails = conditions(s3, place, "k")
    for name, value in fails.items():
        assert refusal(s3.delete_object, Bucket=place, Key="k", **{name: value}) == FAILED, name
        assert refusal(s3.delete_object, Bucket=place, Key="k", **{**holds, name: value}) == FAILED, name
    assert read(s3, place, "k") == b"body"
    answer = s3.delete_object(Bucket=place, Key="k", **holds)
    assert answer["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert keys_of(s3, place) == []


@pytest.mark.parametrize("name", ["IfMatch", "IfMatchLastModifiedTime", "IfMatchSize"])
def test_each_condition_by_itself(s3: Any, place: str, name: str) -> None:
    s3.put_object(Bucket=place, Key="k", Body=b"body")
    holds, _ = conditions(s3, place, "k")
    s3.delete_object(Bucket=place, Key="k", **{name: holds[name]})
    assert keys_of(s3, place) == []


def test_an_object_that_is_not_there(s3: Any, place: str) -> None:
    s3.put_object(Bucket=place, Key="other", Body=b"body")
    holds, _ = conditions(s3, place, "other")
    for tag in ("*", holds["IfMatch"]):
        assert refusal(s3.delete_object, Bucket=place, Key="k", IfMatch=tag) == (404, "NoSuchKey")
    for name in ("IfMatchLastModifiedTime", "IfMatchSize"):
        answer = s3.delete_object(Bucket=place, Key="k", **{name: holds[name]})
        assert answer["ResponseMetadata"]["HTTPStatusCode"] == 204


def test_conditions_on_the_version_that_is_named(s3: Any, bucket: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    first = s3.put_object(Bucket=bucket, Key="k", Body=b"1")["VersionId"]
    s3.put_object(Bucket=bucket, Key="k", Body=b"22")
    assert refusal(s3.delete_object, Bucket=bucket, Key="k", VersionId=first, IfMatchSize=2) == FAILED
    assert refusal(s3.delete_object, Bucket=bucket, Key="k", IfMatchSize=1) == FAILED
    s3.delete_object(Bucket=bucket, Key="k", VersionId=first, IfMatchSize=1)
    assert read(s3, bucket, "k") == b"22"


def test_entries_have_conditions_of_their_own(s3: Any, place: str) -> None:
    for key in "abcdef":
        s3.put_object(Bucket=place, Key=key, Body=b"body")
    holds, fails = conditions(s3, place, "a")
    names = {"ETag": "IfMatch", "LastModifiedTime": "IfMatchLastModifiedTime", "Size": "IfMatchSize"}

    def entry(key: str, name: str, of: dict[str, Any]) -> dict[str, Any]:
        return {"Key": key, name: of[names[name]]}

    objects = [
        entry("a", "ETag", fails),
        entry("b", "LastModifiedTime", fails),
        entry("c", "Size", fails),
        {"Key": "d", "ETag": holds["IfMatch"], "Size": 4},
        {"Key": "e", "ETag": holds["IfMatch"], "Size": 5},
        entry("f", "Size", holds),
        {"Key": "none", "Size": 4},
        {"Key": "none", "ETag": "*"},
    ]
    answer = s3.delete_objects(Bucket=place, Delete={"Objects": objects})
    assert [entry["Key"] for entry in answer["Deleted"]] == ["d", "f", "none"]
    errors = [(entry["Key"], entry["Code"]) for entry in answer["Errors"]]
    failed = [(key, "PreconditionFailed") for key in "abce"]
    # Where there are versions, the first entry for the key has left a delete marker, behind which there is no object.
    assert errors == [*failed, ("none", "NoSuchKey")]
    assert keys_of(s3, place) == ["a", "b", "c", "e"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("x-amz-if-match-size", "-1"),
        ("x-amz-if-match-size", "many"),
        ("x-amz-if-match-size", ""),
        ("x-amz-if-match-last-modified-time", "yesterday"),
        ("x-amz-if-match-last-modified-time", "2026-01-01T00:00:00Z"),
    ],
)
def test_a_condition_that_cannot_be_read_deletes_nothing(
    wire: Wire, s3: Any, bucket: str, name: str, value: str
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"body")
    answer = wire("DELETE", f"/{bucket}/k", headers={name: value})
    assert (answer.status, answer.code) == (400, "InvalidArgument")
    assert keys_of(s3, bucket) == ["k"]


def test_one_of_many_deletions_on_a_tag_wins(s3: Any, bucket: str) -> None:
    tag = s3.put_object(Bucket=bucket, Key="k", Body=b"body")["ETag"]

    def delete(attempt: Callable[..., Any]) -> tuple[int, str] | None:
        try:
            return refusal(attempt, Bucket=bucket, Key="k", IfMatch=tag)
        except AssertionError:
            return None

    with ThreadPoolExecutor(16) as pool:
        results = list(pool.map(delete, [s3.delete_object] * 16))
    assert results.count(None) == 1, results
    assert set(results) == {None, (404, "NoSuchKey")}
