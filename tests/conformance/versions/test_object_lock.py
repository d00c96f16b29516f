"""Object Lock: which versions are locked, and what that prevents."""

from __future__ import annotations

import datetime as dt
import time
import uuid
from typing import Any

import pytest
from tests.fixtures.checksums import content_md5
from tests.fixtures.targets import read, refusal
from tests.fixtures.wire import Wire

pytestmark = pytest.mark.conformance

DENIED = (403, "AccessDenied")


def later(seconds: int = 3600) -> dt.datetime:
    return dt.datetime.now(dt.UTC).replace(microsecond=0) + dt.timedelta(seconds=seconds)


@pytest.fixture
def locking(s3: Any) -> str:
    """A bucket with Object Lock."""
    name = f"t-{uuid.uuid4().hex}"
    s3.create_bucket(Bucket=name, ObjectLockEnabledForBucket=True)
    return name


def retention(mode: str, until: dt.datetime) -> dict[str, Any]:
    return {"Mode": mode, "RetainUntilDate": until}


def headers(mode: str, until: dt.datetime) -> dict[str, Any]:
    return {"ObjectLockMode": mode, "ObjectLockRetainUntilDate": until}


def default(mode: str, **period: int) -> dict[str, Any]:
    return {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Mode": mode} | period}}


def test_a_bucket_with_object_lock_keeps_its_versions(s3: Any, locking: str) -> None:
    assert s3.get_bucket_versioning(Bucket=locking)["Status"] == "Enabled"
    enabled = {"ObjectLockEnabled": "Enabled"}
    assert s3.get_object_lock_configuration(Bucket=locking)["ObjectLockConfiguration"] == enabled
    suspended = {"Status": "Suspended"}
    answer = refusal(s3.put_bucket_versioning, Bucket=locking, VersioningConfiguration=suspended)
    assert answer == (409, "InvalidBucketState")


def test_buckets_without_object_lock(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    missing = (400, "InvalidRequest")
    assert refusal(s3.get_object_lock_configuration, Bucket=bucket) == (404, "ObjectLockConfigurationNotFoundError")
    assert refusal(s3.get_object_retention, Bucket=bucket, Key="k") == missing
    assert refusal(s3.get_object_legal_hold, Bucket=bucket, Key="k") == missing
    asked = retention("GOVERNANCE", later())
    assert refusal(s3.put_object_retention, Bucket=bucket, Key="k", Retention=asked) == missing
    assert refusal(s3.put_object_legal_hold, Bucket=bucket, Key="k", LegalHold={"Status": "ON"}) == missing
    for lock in (headers("GOVERNANCE", later()), {"ObjectLockLegalHoldStatus": "OFF"}):
        assert refusal(s3.put_object, Bucket=bucket, Key="k", Body=b"y", **lock) == missing
        assert refusal(s3.create_multipart_upload, Bucket=bucket, Key="k", **lock) == missing
        copy = {"Bucket": bucket, "Key": "copy", "CopySource": {"Bucket": bucket, "Key": "k"}}
        assert refusal(s3.copy_object, **copy, **lock) == missing
    assert read(s3, bucket, "k") == b"x"


def test_object_lock_is_enabled_later_where_there_is_versioning(s3: Any, bucket: str) -> None:
    configuration = default("GOVERNANCE", Days=1)
    put = {"Bucket": bucket, "ObjectLockConfiguration": configuration}
    assert refusal(s3.put_object_lock_configuration, **put) == (409, "InvalidBucketState")
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    s3.put_object_lock_configuration(**put)
    assert s3.get_object_lock_configuration(Bucket=bucket)["ObjectLockConfiguration"] == configuration
    put["ObjectLockConfiguration"] = {"ObjectLockEnabled": "Enabled"}
    s3.put_object_lock_configuration(**put)
    assert s3.get_object_lock_configuration(Bucket=bucket)["ObjectLockConfiguration"] == put["ObjectLockConfiguration"]


def test_configurations_that_are_refused(s3: Any, wire: Wire, locking: str) -> None:
    for configuration, code in [
        (default("GOVERNANCE", Days=1, Years=1), "MalformedXML"),
        (default("GOVERNANCE"), "MalformedXML"),
        (default("governance", Days=1), "MalformedXML"),
        ({"ObjectLockEnabled": "Disabled"}, "MalformedXML"),
        (default("GOVERNANCE", Days=0), "InvalidArgument"),
        (default("COMPLIANCE", Years=-1), "InvalidArgument"),
        (default("COMPLIANCE", Days=36_501), "InvalidArgument"),
    ]:
        put = {"Bucket": locking, "ObjectLockConfiguration": configuration}
        assert refusal(s3.put_object_lock_configuration, **put) == (400, code), configuration
    empty = {"Content-MD5": "1B2M2Y8AsgTpgAmY7PhCfg=="}
    assert wire("PUT", f"/{locking}", "object-lock", body=b"", headers=empty).code == "MissingRequestBodyError"


@pytest.mark.parametrize("mode", ["GOVERNANCE", "COMPLIANCE"])
def test_a_locked_version_is_not_deleted(s3: Any, locking: str, mode: str) -> None:
    until = later()
    put = s3.put_object(Bucket=locking, Key="k", Body=b"kept", **headers(mode, until))
    version = {"Bucket": locking, "Key": "k", "VersionId": put["VersionId"]}
    head = s3.head_object(**version)
    assert (head["ObjectLockMode"], head["ObjectLockRetainUntilDate"]) == (mode, until)
    assert s3.get_object_retention(**version)["Retention"] == retention(mode, until)
    assert refusal(s3.delete_object, **version) == DENIED
    entries = {"Objects": [{"Key": "k", "VersionId": put["VersionId"]}]}
    (error,) = s3.delete_objects(Bucket=locking, Delete=entries)["Errors"]
    assert (error["Code"], error["Message"]) == (
        "AccessDenied",
        "Access Denied because object protected by object lock.",
    )
    if mode == "COMPLIANCE":
        assert s3.delete_objects(Bucket=locking, Delete=entries, BypassGovernanceRetention=True)["Errors"] == [error]
    # Newer versions and markers do not affect it.
    marker = s3.delete_object(Bucket=locking, Key="k")
    s3.delete_object(Bucket=locking, Key="k", VersionId=marker["VersionId"])
    s3.put_object(Bucket=locking, Key="k", Body=b"new")
    assert read(s3, locking, "k", VersionId=put["VersionId"]) == b"kept"
    if mode == "COMPLIANCE":
        assert refusal(s3.delete_object, **version, BypassGovernanceRetention=True) == DENIED
    else:
        s3.delete_object(**version, BypassGovernanceRetention=True)
        assert refusal(s3.head_object, **version) == (404, "404")


def test_delete_objects_bypasses_governance(s3: Any, locking: str) -> None:
    put = s3.put_object(Bucket=locking, Key="k", Body=b"content", **headers("GOVERNANCE", later()))
    version = {"Key": "k", "VersionId": put["VersionId"]}
    answer = s3.delete_objects(Bucket=locking, Delete={"Objects": [version]}, BypassGovernanceRetention=True)
    assert answer["Deleted"] == [version]
    assert refusal(s3.head_object, Bucket=locking, **version) == (404, "404")


def test_retention_ends(s3: Any, locking: str) -> None:
    put = s3.put_object(Bucket=locking, Key="k", Body=b"x", **headers("COMPLIANCE", later(2)))
    version = {"Bucket": locking, "Key": "k", "VersionId": put["VersionId"]}
    assert refusal(s3.delete_object, **version) == DENIED
    time.sleep(2.1)
    s3.delete_object(**version)


def test_changes_of_retention(s3: Any, locking: str) -> None:
    s3.put_object(Bucket=locking, Key="k", Body=b"x")
    target = {"Bucket": locking, "Key": "k"}
    assert refusal(s3.get_object_retention, **target) == (404, "NoSuchObjectLockConfiguration")
    put = s3.put_object_retention
    put(**target, Retention=retention("GOVERNANCE", later(600)))
    put(**target, Retention=retention("GOVERNANCE", later(1200)))
    shorter = retention("GOVERNANCE", later(900))
    assert refusal(put, **target, Retention=shorter) == DENIED
    assert refusal(put, **target, Retention=retention("COMPLIANCE", later(1300))) == DENIED
    assert refusal(put, **target, Retention={}) == DENIED
    put(**target, Retention=shorter, BypassGovernanceRetention=True)
    assert s3.get_object_retention(**target)["Retention"] == shorter
    put(**target, Retention={}, BypassGovernanceRetention=True)
    assert refusal(s3.get_object_retention, **target) == (404, "NoSuchObjectLockConfiguration")
    put(**target, Retention=retention("COMPLIANCE", later(600)))
    for change in (retention("COMPLIANCE", later(500)), retention("GOVERNANCE", later(900)), {}):
        assert refusal(put, **target, Retention=change, BypassGovernanceRetention=True) == DENIED
    longer = retention("COMPLIANCE", later(700))
    put(**target, Retention=longer)
    assert s3.get_object_retention(**target)["Retention"] == longer


def test_retentions_that_are_refused(s3: Any, wire: Wire, locking: str) -> None:
    s3.put_object(Bucket=locking, Key="k", Body=b"x")
    past = later(-60)
    target = {"Bucket": locking, "Key": "k"}
    asked = retention("GOVERNANCE", past)
    assert refusal(s3.put_object_retention, **target, Retention=asked) == (400, "InvalidArgument")
    assert refusal(s3.put_object, **target, Body=b"y", **headers("GOVERNANCE", past)) == (400, "InvalidArgument")
    for invalid in ({"Mode": "GOVERNANCE"}, {"RetainUntilDate": later()}, retention("abc", later())):
        assert refusal(s3.put_object_retention, **target, Retention=invalid) == (400, "MalformedXML"), invalid
    lock = {"x-amz-object-lock-mode": "GOVERNANCE", "x-amz-object-lock-retain-until-date": later().isoformat()}
    for name, value in [
        ("x-amz-object-lock-mode", "governance"),
        ("x-amz-object-lock-mode", None),
        ("x-amz-object-lock-retain-until-date", "tomorrow"),
        ("x-amz-object-lock-retain-until-date", None),
        ("x-amz-object-lock-legal-hold", "yes"),
    ]:
        sent = {known: text for known, text in (lock | {name: value}).items() if text is not None}
        answer = wire("PUT", f"/{locking}/k", body=b"y", headers=sent)
        assert (answer.status, answer.code) == (400, "InvalidArgument"), (name, value)
    unsigned = wire("PUT", f"/{locking}/k", body=b"y", headers=lock)
    assert (unsigned.status, unsigned.code) == (400, "InvalidRequest")
    assert "Content-MD5" in unsigned.error["Message"]
    assert read(s3, locking, "k") == b"x"


def test_legal_holds(s3: Any, locking: str) -> None:
    put = s3.put_object(Bucket=locking, Key="k", Body=b"x")
    version = {"Bucket": locking, "Key": "k", "VersionId": put["VersionId"]}
    assert refusal(s3.get_object_legal_hold, **version) == (404, "NoSuchObjectLockConfiguration")
    assert "ObjectLockLegalHoldStatus" not in s3.head_object(**version)
    for status in ("ON", "OFF", "ON"):
        s3.put_object_legal_hold(**version, LegalHold={"Status": status})
        assert s3.get_object_legal_hold(**version)["LegalHold"] == {"Status": status}
        assert s3.head_object(**version)["ObjectLockLegalHoldStatus"] == status
    assert refusal(s3.delete_object, **version, BypassGovernanceRetention=True) == DENIED
    assert refusal(s3.put_object_legal_hold, **version, LegalHold={"Status": "abc"}) == (400, "MalformedXML")
    s3.put_object_legal_hold(**version, LegalHold={"Status": "OFF"})
    s3.delete_object(**version)


def test_the_default_is_for_new_versions(s3: Any, locking: str) -> None:
    before = s3.put_object(Bucket=locking, Key="k", Body=b"x")
    s3.put_object_lock_configuration(Bucket=locking, ObjectLockConfiguration=default("GOVERNANCE", Days=1))
    put = s3.put_object(Bucket=locking, Key="k", Body=b"y")
    head = s3.head_object(Bucket=locking, Key="k", VersionId=put["VersionId"])
    assert head["ObjectLockMode"] == "GOVERNANCE"
    drift = head["ObjectLockRetainUntilDate"] - (head["LastModified"] + dt.timedelta(days=1))
    assert abs(drift) < dt.timedelta(minutes=2)
    own = s3.put_object(Bucket=locking, Key="own", Body=b"z", **headers("COMPLIANCE", later()))
    assert s3.head_object(Bucket=locking, Key="own")["ObjectLockMode"] == "COMPLIANCE"
    # A copy does not take the lock of its source.
    source = {"Bucket": locking, "Key": "own", "VersionId": own["VersionId"]}
    s3.copy_object(Bucket=locking, Key="copy", CopySource=source)
    assert s3.head_object(Bucket=locking, Key="copy")["ObjectLockMode"] == "GOVERNANCE"
    s3.delete_object(Bucket=locking, Key="k", VersionId=before["VersionId"])
    assert refusal(s3.delete_object, Bucket=locking, Key="k", VersionId=put["VersionId"]) == DENIED


@pytest.mark.parametrize("copied", [False, True])
def test_uploads_in_parts_are_locked(s3: Any, locking: str, copied: bool) -> None:
    until = later()
    lock = headers("COMPLIANCE", until) | {"ObjectLockLegalHoldStatus": "ON"}
    address = {"Bucket": locking, "Key": "k"}
    if copied:
        s3.put_object(Bucket=locking, Key="source", Body=b"x")
        version = s3.copy_object(**address, CopySource={"Bucket": locking, "Key": "source"}, **lock)["VersionId"]
    else:
        upload = s3.create_multipart_upload(**address, **lock)["UploadId"]
        part = s3.upload_part(**address, UploadId=upload, PartNumber=1, Body=b"x")
        parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
        version = s3.complete_multipart_upload(**address, UploadId=upload, MultipartUpload=parts)["VersionId"]
    head = s3.head_object(**address, VersionId=version)
    assert (head["ObjectLockMode"], head["ObjectLockRetainUntilDate"]) == ("COMPLIANCE", until)
    assert head["ObjectLockLegalHoldStatus"] == "ON"
    assert refusal(s3.delete_object, **address, VersionId=version) == DENIED


@pytest.mark.parametrize("size", [3, 6 << 20])
def test_parts_of_a_locked_upload_need_a_digest(s3: Any, wire: Wire, locking: str, size: int) -> None:
    body = b"x" * size
    s3.put_object_lock_configuration(Bucket=locking, ObjectLockConfiguration=default("GOVERNANCE", Days=1))
    held = s3.create_multipart_upload(Bucket=locking, Key="k", ObjectLockLegalHoldStatus="ON")["UploadId"]
    kept = s3.create_multipart_upload(Bucket=locking, Key="k", **headers("GOVERNANCE", later()))["UploadId"]
    for upload in (held, kept):
        query = f"partNumber=1&uploadId={upload}"
        refused = wire("PUT", f"/{locking}/k", query, body=body)
        assert (refused.status, refused.code) == (400, "InvalidRequest")
        message = (
            "Content-MD5 OR x-amz-checksum- HTTP header is required for Put Part requests with Object Lock parameters"
        )
        assert refused.error["Message"] == message
        assert wire("PUT", f"/{locking}/k", query, body=body, headers={"Content-MD5": content_md5(body)}).status == 200
        s3.upload_part(Bucket=locking, Key="k", UploadId=upload, PartNumber=2, Body=body, ChecksumAlgorithm="CRC32")
        # A part that is copied has no body.
        source = f"/{locking}/source"
        s3.put_object(Bucket=locking, Key="source", Body=b"x")
        copied = wire("PUT", f"/{locking}/k", query, headers={"x-amz-copy-source": source})
        assert copied.status == 200, copied.body
    # The default of the bucket alone asks for nothing.
    plain = s3.create_multipart_upload(Bucket=locking, Key="k")["UploadId"]
    assert wire("PUT", f"/{locking}/k", f"partNumber=1&uploadId={plain}", body=body).status == 200


def test_the_name_of_an_algorithm_is_no_digest(s3: Any, wire: Wire, locking: str) -> None:
    named = {"x-amz-sdk-checksum-algorithm": "CRC32", "x-amz-object-lock-legal-hold": "ON"}
    assert wire("PUT", f"/{locking}/k", body=b"x", headers=named).code == "InvalidRequest"
    assert "Contents" not in s3.list_objects_v2(Bucket=locking)


def test_a_delete_marker_has_no_lock(s3: Any, locking: str) -> None:
    s3.put_object_lock_configuration(Bucket=locking, ObjectLockConfiguration=default("COMPLIANCE", Years=1))
    marker = s3.delete_object(Bucket=locking, Key="k")["VersionId"]
    target = {"Bucket": locking, "Key": "k", "VersionId": marker}
    assert refusal(s3.get_object_retention, **target) == (405, "MethodNotAllowed")
    hold = {"Status": "ON"}
    assert refusal(s3.put_object_legal_hold, **target, LegalHold=hold) == (405, "MethodNotAllowed")
    s3.delete_object(**target)
    s3.delete_bucket(Bucket=locking)
