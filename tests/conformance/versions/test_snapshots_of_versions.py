"""Snapshots, forks and restores of buckets with versioning: all versions belong to them."""

from __future__ import annotations

import datetime as dt
import uuid
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.fixtures.targets import content, keys_of, read, refusal
from tests.fixtures.versions import fill, history, listed, put, set_versioning, shown, tag, tags

from orcas import buckets
from orcas.errors import OrcasError

pytestmark = pytest.mark.conformance

UNTIL = (dt.datetime.now(dt.UTC) + dt.timedelta(days=2)).replace(microsecond=0)
UNKNOWN = "0f" * 16


@pytest.fixture
def versioned(s3: Any, bucket: str) -> str:
    set_versioning(s3, bucket, "Enabled")
    return bucket


@pytest.fixture
def fork() -> str:
    """The name of a bucket that is not there yet."""
    return f"t-{uuid.uuid4().hex}"


def refused(call: Callable[..., None], client: Any, *arguments: str, **options: str) -> str:
    """What the admin API says instead of doing that."""
    with pytest.raises(OrcasError) as caught:
        call(client, *arguments, **options)
    return str(caught.value)


@pytest.mark.parametrize("status", ["Enabled", "Suspended"])
def test_a_restore_brings_back_versions_and_markers(s3: Any, versioned: str, fork: str, status: str) -> None:
    fill(s3, versioned)
    set_versioning(s3, versioned, status)
    fill(s3, versioned)
    before = shown(s3, versioned)
    buckets.create_snapshot(s3, versioned, "s")
    assert shown(s3, versioned) == before
    for key, version, _, _ in history(s3, versioned)[::2]:
        s3.delete_object(Bucket=versioned, Key=key, VersionId=version)
    fill(s3, versioned)
    put(s3, versioned, b"new", key="new")
    assert shown(s3, versioned) != before
    buckets.fork(s3, versioned, fork, snapshot="s")
    assert s3.get_bucket_versioning(Bucket=fork)["Status"] == status
    assert shown(s3, fork) == before
    buckets.restore_snapshot(s3, versioned, "s")
    assert shown(s3, versioned) == before
    buckets.delete_snapshot(s3, versioned, "s")
    # Both go on, each for itself.
    fill(s3, fork)
    assert shown(s3, versioned) == before
    assert put(s3, versioned, b"x") != put(s3, fork, b"x") or status == "Suspended"


def test_a_fork_has_the_present_versions(s3: Any, versioned: str, fork: str) -> None:
    fill(s3, versioned)
    before = shown(s3, versioned)
    buckets.fork(s3, versioned, fork)
    fill(s3, versioned)
    assert shown(s3, fork) == before
    for key, version, _, _ in history(s3, fork):
        s3.delete_object(Bucket=fork, Key=key, VersionId=version)
    assert history(s3, fork) == []
    assert [entry for entry in shown(s3, versioned) if entry in before and isinstance(entry, dict)]
    s3.delete_bucket(Bucket=fork)


def test_a_list_goes_on_behind_a_version_that_has_gone(s3: Any, versioned: str) -> None:
    ids = put(s3, versioned, b"1", b"2", b"3")
    buckets.create_snapshot(s3, versioned, "s")
    ids += put(s3, versioned, b"4", b"5")
    put(s3, versioned, b"x", key="l")
    for at in (1, 3):
        s3.delete_object(Bucket=versioned, Key="k", VersionId=ids[at])
        entries = listed(s3, versioned, KeyMarker="k", VersionIdMarker=ids[at])
        left = [ids[older] for older in range(at - 1, -1, -1) if older != 1]
        assert [(entry["Key"], entry["VersionId"]) for entry in entries[:-1]] == [("k", version) for version in left]
        assert (entries[-1]["Key"], entries[-1]["IsLatest"]) == ("l", True)


def test_a_version_that_a_snapshot_has_is_deleted_in_the_bucket_only(s3: Any, versioned: str, fork: str) -> None:
    old, middle, new = put(s3, versioned, content(70_000), content(300), b"new")
    before = shown(s3, versioned)
    buckets.create_snapshot(s3, versioned, "s")
    assert s3.delete_object(Bucket=versioned, Key="k", VersionId=middle)["VersionId"] == middle
    for call in (s3.get_object, s3.get_object_tagging):
        assert refusal(call, Bucket=versioned, Key="k", VersionId=middle) == (404, "NoSuchVersion")
    assert refusal(s3.head_object, Bucket=versioned, Key="k", VersionId=middle) == (404, "404")
    # Again: it is not there.
    assert "DeleteMarker" not in s3.delete_object(Bucket=versioned, Key="k", VersionId=middle)
    assert history(s3, versioned) == [("k", new, True, False), ("k", old, False, False)]
    s3.delete_object(Bucket=versioned, Key="k", VersionId=new)
    got = s3.get_object(Bucket=versioned, Key="k")
    assert (got["VersionId"], got["Body"].read()) == (old, content(70_000))
    assert s3.head_object(Bucket=versioned, Key="k")["VersionId"] == old
    assert keys_of(s3, versioned) == ["k"]
    (newer,) = put(s3, versioned, b"newer")
    assert history(s3, versioned) == [("k", newer, True, False), ("k", old, False, False)]
    for version in (newer, old):
        s3.delete_object(Bucket=versioned, Key="k", VersionId=version)
    assert keys_of(s3, versioned) == history(s3, versioned) == []
    assert refusal(s3.get_object, Bucket=versioned, Key="k") == (404, "NoSuchKey")
    buckets.fork(s3, versioned, fork, snapshot="s")
    assert shown(s3, fork) == before


def test_a_marker_that_a_snapshot_has_is_deleted_in_the_bucket_only(s3: Any, versioned: str, fork: str) -> None:
    (version,) = put(s3, versioned, b"x")
    marker = s3.delete_object(Bucket=versioned, Key="k")["VersionId"]
    buckets.create_snapshot(s3, versioned, "s")
    gone = s3.delete_object(Bucket=versioned, Key="k", VersionId=marker)
    assert (gone["DeleteMarker"], gone["VersionId"]) == (True, marker)
    assert read(s3, versioned, "k") == b"x"
    assert history(s3, versioned) == [("k", version, True, False)]
    buckets.fork(s3, versioned, fork, snapshot="s")
    assert history(s3, fork) == [("k", marker, True, True), ("k", version, False, False)]
    with pytest.raises(ClientError) as hidden:
        s3.get_object(Bucket=fork, Key="k")
    headers = hidden.value.response["ResponseMetadata"]["HTTPHeaders"]
    assert (headers["x-amz-delete-marker"], headers["x-amz-version-id"]) == ("true", marker)
    assert refusal(s3.get_object, Bucket=fork, Key="k", VersionId=marker) == (405, "MethodNotAllowed")


def test_tags_of_an_old_version_change_in_the_bucket_only(s3: Any, versioned: str, fork: str) -> None:
    old, new = put(s3, versioned, b"old", b"new")
    tag(s3, versioned, "first", VersionId=old)
    order = history(s3, versioned)
    times = [entry["LastModified"] for entry in listed(s3, versioned)]
    buckets.create_snapshot(s3, versioned, "s1")
    tag(s3, versioned, "second", VersionId=old)
    tag(s3, versioned, "second", VersionId=new)
    buckets.create_snapshot(s3, versioned, "s2")
    s3.delete_object_tagging(Bucket=versioned, Key="k", VersionId=old)
    tag(s3, versioned, "third")
    assert (tags(s3, versioned, old), tags(s3, versioned, new)) == ([], ["third"])
    assert s3.head_object(Bucket=versioned, Key="k")["TagCount"] == 1
    assert history(s3, versioned) == order
    assert [entry["LastModified"] for entry in listed(s3, versioned)] == times
    assert read(s3, versioned, "k", VersionId=old) == b"old"
    for name, expected in (("s1", (["first"], [])), ("s2", (["second"], ["second"]))):
        buckets.fork(s3, versioned, f"{fork}-{name}", snapshot=name)
        assert (tags(s3, f"{fork}-{name}", old), tags(s3, f"{fork}-{name}", new)) == expected
        assert history(s3, f"{fork}-{name}") == order
    buckets.restore_snapshot(s3, versioned, "s1")
    assert (tags(s3, versioned, old), tags(s3, versioned, new)) == (["first"], [])


def test_null_versions_replace_each_other_across_snapshots(s3: Any, bucket: str, fork: str) -> None:
    put(s3, bucket, b"null 0")
    set_versioning(s3, bucket, "Enabled")
    (named,) = put(s3, bucket, b"named")
    states = [[("k", named, True, False), ("k", "null", False, False)]]
    bodies = [b"null 0"]
    assert history(s3, bucket) == states[0]
    buckets.create_snapshot(s3, bucket, "s0")
    set_versioning(s3, bucket, "Suspended")
    for at in (1, 2):
        put(s3, bucket, b"null %d" % at)
        tag(s3, bucket, f"null {at}")
        states.append([("k", "null", True, False), ("k", named, False, False)])
        bodies.append(b"null %d" % at)
        assert history(s3, bucket) == states[-1]
        assert read(s3, bucket, "k") == read(s3, bucket, "k", VersionId="null") == bodies[-1]
        buckets.create_snapshot(s3, bucket, f"s{at}")
    # A marker takes the place of the null version, which does not come back with its deletion.
    assert s3.delete_object(Bucket=bucket, Key="k")["VersionId"] == "null"
    assert history(s3, bucket) == [("k", "null", True, True), ("k", named, False, False)]
    assert refusal(s3.get_object, Bucket=bucket, Key="k", VersionId="null") == (405, "MethodNotAllowed")
    buckets.create_snapshot(s3, bucket, "marked")
    assert s3.delete_object(Bucket=bucket, Key="k", VersionId="null")["DeleteMarker"]
    assert history(s3, bucket) == [("k", named, True, False)]
    assert read(s3, bucket, "k") == b"named"
    assert refusal(s3.get_object, Bucket=bucket, Key="k", VersionId="null") == (404, "NoSuchVersion")
    buckets.create_snapshot(s3, bucket, "gone")
    put(s3, bucket, b"null 3")
    assert history(s3, bucket) == [("k", "null", True, False), ("k", named, False, False)]
    assert tags(s3, bucket, "null") == []
    for at, state in enumerate(states):
        buckets.fork(s3, bucket, f"{fork}-{at}", snapshot=f"s{at}")
        assert history(s3, f"{fork}-{at}") == state
        assert read(s3, f"{fork}-{at}", "k", VersionId="null") == bodies[at]
        assert tags(s3, f"{fork}-{at}", "null") == ([f"null {at}"] if at else [])


def test_many_deletions_of_every_kind_in_one_request(s3: Any, versioned: str, fork: str) -> None:
    old = put(s3, versioned, b"1", b"2", b"3")
    marker = s3.delete_object(Bucket=versioned, Key="marked")["VersionId"]
    before = shown(s3, versioned)
    buckets.create_snapshot(s3, versioned, "s")
    (new,) = put(s3, versioned, b"4")
    wanted = [
        ("k", old[0]),
        ("k", new),
        ("marked", marker),
        ("k", UNKNOWN),
        ("k", old[0]),
        ("other", None),
        ("l", None),
    ]
    objects = [{"Key": key, **({"VersionId": version} if version else {})} for key, version in wanted]
    answer = s3.delete_objects(Bucket=versioned, Delete={"Objects": objects})
    assert "Errors" not in answer
    assert [entry.get("DeleteMarker", False) for entry in answer["Deleted"]] == [
        *[False] * 2,
        True,
        *[False] * 2,
        True,
        True,
    ]
    made = {entry["Key"]: entry["DeleteMarkerVersionId"] for entry in answer["Deleted"][5:]}
    left = [("k", old[2], True, False), ("k", old[1], False, False)]
    assert history(s3, versioned) == [*left, ("l", made["l"], True, True), ("other", made["other"], True, True)]
    assert read(s3, versioned, "k") == b"3"
    everything = [{"Key": key, "VersionId": version} for key, version, _, _ in history(s3, versioned)]
    s3.delete_objects(Bucket=versioned, Delete={"Objects": everything})
    assert history(s3, versioned) == []
    buckets.restore_snapshot(s3, versioned, "s")
    assert shown(s3, versioned) == before


def test_writes_see_what_the_layers_show(s3: Any, versioned: str) -> None:
    old, new = put(s3, versioned, b"old", b"new")
    upload = s3.create_multipart_upload(Bucket=versioned, Key="k")["UploadId"]
    part = s3.upload_part(Bucket=versioned, Key="k", UploadId=upload, PartNumber=1, Body=b"part")["ETag"]
    buckets.create_snapshot(s3, versioned, "s")
    etag = s3.head_object(Bucket=versioned, Key="k")["ETag"]
    # Copies of versions, also onto their own key.
    source = {"Bucket": versioned, "Key": "k", "VersionId": old}
    copied = s3.copy_object(Bucket=versioned, Key="k", CopySource=source)
    assert copied["CopySourceVersionId"] == old
    assert read(s3, versioned, "k") == b"old"
    # Conditions are about the current object.
    failed = (412, "PreconditionFailed")
    assert refusal(s3.put_object, Bucket=versioned, Key="k", Body=b"x", IfMatch=etag) == failed
    assert refusal(s3.put_object, Bucket=versioned, Key="k", Body=b"x", IfNoneMatch="*") == failed
    s3.delete_object(Bucket=versioned, Key="k", VersionId=copied["VersionId"])
    s3.delete_object(Bucket=versioned, Key="k", VersionId=old)
    third = s3.put_object(Bucket=versioned, Key="k", Body=b"third", IfMatch=etag)["VersionId"]
    assert refusal(s3.copy_object, Bucket=versioned, Key="x", CopySource=source) == (404, "NoSuchVersion")
    marker = s3.delete_object(Bucket=versioned, Key="k")["VersionId"]
    buckets.create_snapshot(s3, versioned, "marked")
    fourth = s3.put_object(Bucket=versioned, Key="k", Body=b"fourth", IfNoneMatch="*")["VersionId"]
    buckets.create_snapshot(s3, versioned, "appended")
    # An append makes a version of what is there.
    appended = s3.put_object(Bucket=versioned, Key="k", Body=b"+", WriteOffsetBytes=6)["VersionId"]
    assert read(s3, versioned, "k") == b"fourth+"
    # An upload that began before the snapshots.
    parts = {"Parts": [{"PartNumber": 1, "ETag": part}]}
    complete = {"Bucket": versioned, "Key": "k", "UploadId": upload, "MultipartUpload": parts}
    done = s3.complete_multipart_upload(**complete)["VersionId"]
    assert read(s3, versioned, "k", VersionId=done) == b"part"
    buckets.create_snapshot(s3, versioned, "completed")
    assert s3.complete_multipart_upload(**complete)["VersionId"] == done
    order = [done, appended, fourth, marker, third, new]
    assert [version for _, version, _, _ in history(s3, versioned)] == order
    assert read(s3, versioned, "k", VersionId=fourth) == b"fourth"


def test_versioning_begins_in_a_bucket_with_snapshots(s3: Any, bucket: str, fork: str) -> None:
    for key in ("both", "gone", "later", "tagged"):
        put(s3, bucket, f"before {key}".encode(), key=key)
    before = shown(s3, bucket)
    buckets.create_snapshot(s3, bucket, "before")
    # In the layer above the snapshot, the deletion of a key is a mark, which no client sees.
    s3.delete_object(Bucket=bucket, Key="gone")
    put(s3, bucket, b"after", key="both")
    s3.put_object_tagging(Bucket=bucket, Key="tagged", Tagging={"TagSet": [{"Key": "is", "Value": "set"}]})
    set_versioning(s3, bucket, "Enabled")
    nulls = [(key, "null", True, False) for key in ("both", "later", "tagged")]
    assert history(s3, bucket) == nulls
    assert read(s3, bucket, "both", VersionId="null") == b"after"
    for version in ({}, {"VersionId": "null"}):
        with pytest.raises(ClientError) as hidden:
            s3.get_object(Bucket=bucket, Key="gone", **version)
        assert hidden.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404
        assert "x-amz-delete-marker" not in hidden.value.response["ResponseMetadata"]["HTTPHeaders"]
    (new,) = put(s3, bucket, b"new", key="gone")
    assert [entry for entry in history(s3, bucket) if entry[0] == "gone"] == [("gone", new, True, False)]
    marker = s3.delete_object(Bucket=bucket, Key="later")["VersionId"]
    assert [entry for entry in history(s3, bucket) if entry[0] == "later"] == [
        ("later", marker, True, True), ("later", "null", False, False),
    ]  # fmt: skip
    s3.delete_object(Bucket=bucket, Key="later", VersionId="null")
    s3.delete_object(Bucket=bucket, Key="gone", VersionId=new)
    assert [entry[0] for entry in history(s3, bucket)] == ["both", "later", "tagged"]
    after = shown(s3, bucket)
    buckets.create_snapshot(s3, bucket, "after")
    # What was there before versioning comes back as null versions. Versioning stays.
    buckets.restore_snapshot(s3, bucket, "before")
    assert shown(s3, bucket) == before
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"
    assert put(s3, bucket, b"x", key="both") != ["null"]
    buckets.fork(s3, bucket, fork, snapshot="after")
    assert shown(s3, fork) == after


def test_what_is_locked_stays_locked(s3: Any, fork: str) -> None:
    locking = f"t-{uuid.uuid4().hex}"
    s3.create_bucket(Bucket=locking, ObjectLockEnabledForBucket=True)
    held, governed, free, early = put(s3, locking, b"held", b"governed", b"free", b"early")
    named: dict[str, Any] = {"Bucket": locking, "Key": "k"}
    s3.put_object_legal_hold(**named, VersionId=early, LegalHold={"Status": "ON"})
    order = history(s3, locking)
    buckets.create_snapshot(s3, locking, "s")
    s3.put_object_legal_hold(**named, VersionId=held, LegalHold={"Status": "ON"})
    s3.put_object_legal_hold(**named, VersionId=early, LegalHold={"Status": "OFF"})
    retention = {"Mode": "GOVERNANCE", "RetainUntilDate": UNTIL}
    s3.put_object_retention(**named, VersionId=governed, Retention=retention)
    assert history(s3, locking) == order
    buckets.create_snapshot(s3, locking, "locked")
    reason = refused(buckets.restore_snapshot, s3, locking, "s")
    assert "Object Lock forbids: fork the snapshot" in reason
    buckets.fork(s3, locking, fork)
    denied = (403, "AccessDenied")
    for bucket in (locking, fork):
        named["Bucket"] = bucket
        assert (
            s3.get_object_lock_configuration(Bucket=bucket)["ObjectLockConfiguration"]["ObjectLockEnabled"] == "Enabled"
        )
        for version in (held, governed):
            assert refusal(s3.delete_object, **named, VersionId=version) == denied
        assert s3.get_object_retention(**named, VersionId=governed)["Retention"] == retention
        assert s3.get_object_legal_hold(**named, VersionId=held)["LegalHold"]["Status"] == "ON"
        assert refusal(s3.delete_bucket, Bucket=bucket)[0] == 409
    # In the bucket, what is not locked any more goes, and what is governed with the permission for it.
    s3.delete_object(**named, VersionId=governed, BypassGovernanceRetention=True)
    for version in (free, early):
        s3.delete_object(**named, VersionId=version)
    assert [version for _, version, _, _ in history(s3, fork)] == [held]
    assert history(s3, locking) == order
    # The first snapshot has the locks of its time.
    buckets.fork(s3, locking, f"{fork}-s", snapshot="s")
    named["Bucket"] = f"{fork}-s"
    assert refusal(s3.delete_object, **named, VersionId=early) == denied
    s3.delete_object(**named, VersionId=held)
    assert refused(buckets.restore_snapshot, s3, locking, "none")


def test_a_bucket_goes_when_it_shows_no_version(s3: Any, versioned: str, fork: str) -> None:
    ids = put(s3, versioned, *(b"%d" % at for at in range(5)))
    buckets.create_snapshot(s3, versioned, "s")
    ids.append(s3.delete_object(Bucket=versioned, Key="k")["VersionId"])
    assert refusal(s3.delete_bucket, Bucket=versioned) == (409, "InvalidBucketState")
    # So that lower layers have all of them.
    buckets.fork(s3, versioned, fork)
    buckets.delete_snapshot(s3, versioned, "s")
    for version in reversed(ids):
        assert refusal(s3.delete_bucket, Bucket=versioned) == (409, "BucketNotEmpty")
        s3.delete_object(Bucket=versioned, Key="k", VersionId=version)
    assert history(s3, versioned) == []
    s3.delete_bucket(Bucket=versioned)
    s3.create_bucket(Bucket=versioned)
    assert history(s3, versioned) == []
    assert "Status" not in s3.get_bucket_versioning(Bucket=versioned)
    assert [version for _, version, _, _ in history(s3, fork)] == ids[::-1]


def test_renames_stay_refused(s3: Any, versioned: str) -> None:
    put(s3, versioned, b"x")
    buckets.create_snapshot(s3, versioned, "s")
    assert refusal(s3.rename_object, Bucket=versioned, Key="new", RenameSource="k") == (409, "InvalidBucketState")
    assert refused(buckets.move, s3, versioned, "k", "new")
