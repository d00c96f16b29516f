"""DeleteObjects."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fixtures.checksums import content_md5
from tests.fixtures.targets import Target, keys_of, put_keys, read, refusal
from tests.fixtures.wire import Wire

pytestmark = [pytest.mark.conformance, pytest.mark.parametrize("target", ["disk", "memory"], indirect=True)]


def test_a_thousand_keys_at_once(target: Target, s3: Any, bucket: str) -> None:
    keys = [f"k{number:04}" for number in range(1000)]
    put_keys(target, bucket, [*keys, "kept"])
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key} for key in keys]})
    assert [entry["Key"] for entry in answer["Deleted"]] == keys
    assert "Errors" not in answer
    assert keys_of(s3, bucket) == ["kept"]


def test_more_than_a_thousand_are_refused_whole(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k0", Body=b"x")
    objects = [{"Key": f"k{number}"} for number in range(1001)]
    assert refusal(s3.delete_objects, Bucket=bucket, Delete={"Objects": objects}) == (400, "MalformedXML")
    assert keys_of(s3, bucket) == ["k0"]


def test_quiet_names_only_errors(target: Target, s3: Any, bucket: str) -> None:
    put_keys(target, bucket, ["a", "b"])
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "a"}, {"Key": "b"}], "Quiet": True})
    assert "Deleted" not in answer
    assert "Errors" not in answer
    assert keys_of(s3, bucket) == []


def test_missing_keys_count_as_deleted(target: Target, s3: Any, bucket: str) -> None:
    put_keys(target, bucket, ["a"])
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "a"}, {"Key": "never"}]})
    assert [entry["Key"] for entry in answer["Deleted"]] == ["a", "never"]


def test_a_key_named_twice(target: Target, s3: Any, bucket: str) -> None:
    put_keys(target, bucket, ["a"])
    s3.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "a"}, {"Key": "a"}]})
    assert keys_of(s3, bucket) == []


@pytest.mark.parametrize("bypass", [True, False])
def test_bypassing_retention_means_nothing_where_nothing_is_locked(
    target: Target, s3: Any, bucket: str, bypass: bool
) -> None:
    put_keys(target, bucket, ["a", "b"])
    entries = {"Objects": [{"Key": "a"}]}
    answer = s3.delete_objects(Bucket=bucket, Delete=entries, BypassGovernanceRetention=bypass)
    assert answer["Deleted"] == [{"Key": "a"}]
    assert keys_of(s3, bucket) == ["b"]


def test_conditions_hold_per_key(target: Target, s3: Any, bucket: str) -> None:
    put_keys(target, bucket, ["a", "b"])
    tag = s3.head_object(Bucket=bucket, Key="a")["ETag"]
    objects = [{"Key": "a", "ETag": tag}, {"Key": "b", "ETag": '"other"'}]
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": objects})
    assert [entry["Key"] for entry in answer["Deleted"]] == ["a"]
    assert [(entry["Key"], entry["Code"]) for entry in answer["Errors"]] == [("b", "PreconditionFailed")]
    assert read(s3, bucket, "b") == b"b"


def test_an_unknown_version_is_an_error_of_its_entry(target: Target, s3: Any, bucket: str) -> None:
    put_keys(target, bucket, ["a", "b"])
    objects = [{"Key": "a", "VersionId": "other"}, {"Key": "b", "VersionId": "null"}]
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": objects})
    assert [entry["Key"] for entry in answer.get("Deleted", []) if entry["Key"] == "b"] == ["b"]
    assert keys_of(s3, bucket) == ["a"]


def test_a_body_is_needed_with_its_checksum(wire: Wire, bucket: str) -> None:
    wire("PUT", f"/{bucket}/a", body=b"x")
    body = b"<Delete><Object><Key>a</Key></Object></Delete>"
    without = wire("POST", f"/{bucket}", "delete", body=body)
    assert (without.status, without.code) == (400, "InvalidRequest")
    wrong = wire("POST", f"/{bucket}", "delete", body=body, headers={"Content-MD5": content_md5(b"other")})
    assert (wrong.status, wrong.code) == (400, "BadDigest")
    assert wire("GET", f"/{bucket}/a").status == 200
    right = wire("POST", f"/{bucket}", "delete", body=body, headers={"Content-MD5": content_md5(body)})
    assert right.status == 200, right.body
    assert wire("GET", f"/{bucket}/a").status == 404


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<Delete>",
        b"<Delete/>",
        b"<Delete></Delete>",
        b"<Delete><Object></Object></Delete>",
        b"<Delete><Object><Key></Key></Object></Delete>",
        b"<Other><Object><Key>a</Key></Object></Other>",
        b"<Delete><Object><Key>a</Key></Object><Quiet>perhaps</Quiet></Delete>",
        b"not xml at all",
        b"\xff\xfe\x00",
        b'<!DOCTYPE d [<!ENTITY e "a">]><Delete><Object><Key>&e;</Key></Object></Delete>',
        b"<Delete><Object><Key>a</Key></Object></Delete><Delete/>",
    ],
)
def test_bad_documents_delete_nothing(wire: Wire, bucket: str, body: bytes) -> None:
    wire("PUT", f"/{bucket}/a", body=b"x")
    answer = wire("POST", f"/{bucket}", "delete", body=body, headers={"Content-MD5": content_md5(body)})
    assert answer.status == 400, body
    assert answer.code in {"MalformedXML", "MissingRequestBodyError", "UserKeyMustBeSpecified"}, body
    assert wire("GET", f"/{bucket}/a").status == 200


def test_an_oversized_document_is_refused(wire: Wire, bucket: str) -> None:
    body = b"<Delete>" + b" " * (3 << 20) + b"<Object><Key>a</Key></Object></Delete>"
    answer = wire("POST", f"/{bucket}", "delete", body=body, headers={"Content-MD5": content_md5(body)})
    assert answer.status == 400
    assert answer.code in {"MaxMessageLengthExceeded", "MalformedXML", "EntityTooLarge"}
