"""Versions of objects: how they are created, named, deleted and listed."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.fixtures.targets import MIB, content, keys_of, read, refusal, running
from tests.fixtures.wire import Wire

pytestmark = pytest.mark.conformance

UNKNOWN = "0f" * 16


def set_versioning(s3: Any, bucket: str, status: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": status})


@pytest.fixture
def versioned(s3: Any, bucket: str) -> str:
    set_versioning(s3, bucket, "Enabled")
    return bucket


def put(s3: Any, bucket: str, *bodies: bytes, key: str = "k") -> list[str]:
    """Store these bodies; the ids of their versions."""
    return [s3.put_object(Bucket=bucket, Key=key, Body=body)["VersionId"] for body in bodies]


def error_of(call: Any, /, **arguments: Any) -> dict[str, Any]:
    with pytest.raises(ClientError) as refused:
        call(**arguments)
    response: dict[str, Any] = refused.value.response
    return response


def history(s3: Any, bucket: str, **selection: Any) -> list[tuple[str, str, bool, bool]]:
    """Key, version, whether it is the latest, whether it is a marker: of all entries of a page in the server's order."""
    page = s3.list_object_versions(Bucket=bucket, **selection)
    entries = [(entry, False) for entry in page.get("Versions", [])]
    entries += [(entry, True) for entry in page.get("DeleteMarkers", [])]
    return sorted((entry["Key"], entry["VersionId"], entry["IsLatest"], marker) for entry, marker in entries)


def test_a_bucket_shows_what_was_set(s3: Any, wire: Wire, bucket: str) -> None:
    assert "Status" not in s3.get_bucket_versioning(Bucket=bucket)
    for status in ("Enabled", "Suspended", "Enabled"):
        set_versioning(s3, bucket, status)
        assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == status
    mfa = {"Status": "Enabled", "MFADelete": "Enabled"}
    assert refusal(s3.put_bucket_versioning, Bucket=bucket, VersioningConfiguration=mfa) == (501, "NotImplemented")
    for body, code in [
        (b"<VersioningConfiguration/>", "IllegalVersioningConfigurationException"),
        (b"<VersioningConfiguration><Status>On</Status></VersioningConfiguration>", "MalformedXML"),
        (b"", "MissingRequestBodyError"),
    ]:
        answer = wire("PUT", f"/{bucket}", "versioning", body=body)
        assert (answer.status, answer.code) == (400, code)
    assert s3.get_bucket_versioning(Bucket=bucket)["Status"] == "Enabled"


def test_each_write_is_a_version_of_its_own(s3: Any, versioned: str) -> None:
    bodies = [b"one", content(300), content(70_000), content(9 * MIB)]
    ids = put(s3, versioned, *bodies)
    assert len(set(ids)) == len(ids)
    assert read(s3, versioned, "k") == bodies[-1]
    for version, body in zip(ids, bodies, strict=True):
        got = s3.get_object(Bucket=versioned, Key="k", VersionId=version)
        assert (got["Body"].read(), got["VersionId"]) == (body, version)
        head = s3.head_object(Bucket=versioned, Key="k", VersionId=version)
        assert (head["ContentLength"], head["VersionId"]) == (len(body), version)
        attributes = s3.get_object_attributes(
            Bucket=versioned, Key="k", VersionId=version, ObjectAttributes=["ObjectSize"]
        )
        assert (attributes["ObjectSize"], attributes["VersionId"]) == (len(body), version)
    assert s3.head_object(Bucket=versioned, Key="k")["VersionId"] == ids[-1]
    assert keys_of(s3, versioned) == ["k"]
    ranged = s3.get_object(Bucket=versioned, Key="k", VersionId=ids[0], Range="bytes=1-")
    assert (ranged["Body"].read(), ranged["VersionId"]) == (b"ne", ids[0])


def test_a_bucket_without_versioning_names_no_versions(s3: Any, bucket: str) -> None:
    assert "VersionId" not in s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert "VersionId" not in s3.get_object(Bucket=bucket, Key="k")
    assert "VersionId" not in s3.get_object(Bucket=bucket, Key="k", VersionId="null")
    assert "VersionId" not in s3.delete_object(Bucket=bucket, Key="k")
    assert "VersionId" not in s3.delete_object(Bucket=bucket, Key="k")
    assert history(s3, bucket) == []


def test_versions_that_do_not_exist(s3: Any, versioned: str) -> None:
    put(s3, versioned, b"x")
    for call in (s3.get_object, s3.get_object_tagging, s3.get_object_acl):
        assert refusal(call, Bucket=versioned, Key="k", VersionId=UNKNOWN) == (404, "NoSuchVersion")
        assert refusal(call, Bucket=versioned, Key="k", VersionId="null") == (404, "NoSuchVersion")
        assert refusal(call, Bucket=versioned, Key="k", VersionId="bad") == (400, "InvalidArgument")
    assert refusal(s3.head_object, Bucket=versioned, Key="k", VersionId=UNKNOWN) == (404, "404")
    # Deleting them succeeds, like deleting a key that does not exist.
    assert s3.delete_object(Bucket=versioned, Key="k", VersionId=UNKNOWN)["VersionId"] == UNKNOWN
    assert refusal(s3.delete_object, Bucket=versioned, Key="k", VersionId="bad") == (400, "InvalidArgument")
    assert refusal(s3.put_object_acl, Bucket=versioned, Key="k", VersionId=UNKNOWN, ACL="private")[0] == 404


def test_a_delete_marker_hides_an_object(s3: Any, versioned: str) -> None:
    (version,) = put(s3, versioned, b"x")
    marker = s3.delete_object(Bucket=versioned, Key="k")
    assert marker["DeleteMarker"]
    assert marker["VersionId"] != version
    for call, code in ((s3.get_object, "NoSuchKey"), (s3.head_object, "404")):
        error = error_of(call, Bucket=versioned, Key="k")
        assert error["Error"]["Code"] == code
        headers = error["ResponseMetadata"]["HTTPHeaders"]
        assert (headers["x-amz-delete-marker"], headers["x-amz-version-id"]) == ("true", marker["VersionId"])
        named = error_of(call, Bucket=versioned, Key="k", VersionId=marker["VersionId"])
        assert named["ResponseMetadata"]["HTTPStatusCode"] == 405
        headers = named["ResponseMetadata"]["HTTPHeaders"]
        assert (headers["x-amz-delete-marker"], headers["allow"]) == ("true", "DELETE")
        assert "last-modified" in headers
    assert refusal(s3.get_object_tagging, Bucket=versioned, Key="k", VersionId=marker["VersionId"])[0] == 405
    assert keys_of(s3, versioned) == []
    assert refusal(s3.delete_bucket, Bucket=versioned) == (409, "BucketNotEmpty")
    assert read(s3, versioned, "k", VersionId=version) == b"x"
    gone = s3.delete_object(Bucket=versioned, Key="k", VersionId=marker["VersionId"])
    assert gone["DeleteMarker"]
    assert gone["VersionId"] == marker["VersionId"]
    assert read(s3, versioned, "k") == b"x"
    s3.delete_object(Bucket=versioned, Key="k", VersionId=version)
    s3.delete_bucket(Bucket=versioned)


def test_a_marker_needs_no_object(s3: Any, versioned: str) -> None:
    first = s3.delete_object(Bucket=versioned, Key="absent")["VersionId"]
    second = s3.delete_object(Bucket=versioned, Key="absent")["VersionId"]
    assert history(s3, versioned) == sorted([("absent", first, False, True), ("absent", second, True, True)])


def test_the_next_version_becomes_current(s3: Any, versioned: str) -> None:
    ids = put(s3, versioned, b"1", b"2", b"3")
    s3.delete_object(Bucket=versioned, Key="k", VersionId=ids[1])
    assert read(s3, versioned, "k") == b"3"
    s3.delete_object(Bucket=versioned, Key="k", VersionId=ids[2])
    assert read(s3, versioned, "k") == b"1"
    assert history(s3, versioned) == [("k", ids[0], True, False)]


def test_suspended_buckets_have_a_null_version(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"before")
    set_versioning(s3, bucket, "Enabled")
    (named,) = put(s3, bucket, b"named")
    assert read(s3, bucket, "k", VersionId="null") == b"before"
    set_versioning(s3, bucket, "Suspended")
    # As on S3, a write does not name the null version.
    assert "VersionId" not in s3.put_object(Bucket=bucket, Key="k", Body=b"null")
    assert s3.get_object(Bucket=bucket, Key="k")["VersionId"] == "null"
    assert read(s3, bucket, "k", VersionId="null") == b"null"
    assert history(s3, bucket) == sorted([("k", "null", True, False), ("k", named, False, False)])
    marker = s3.delete_object(Bucket=bucket, Key="k")
    assert (marker["DeleteMarker"], marker["VersionId"]) == (True, "null")
    assert history(s3, bucket) == sorted([("k", "null", True, True), ("k", named, False, False)])
    s3.delete_object(Bucket=bucket, Key="k", VersionId="null")
    assert read(s3, bucket, "k") == b"named"


def test_many_are_deleted_by_name(s3: Any, versioned: str) -> None:
    ids = put(s3, versioned, b"1", b"2")
    objects = [
        {"Key": "k", "VersionId": ids[0]},
        {"Key": "k"},
        {"Key": "k", "VersionId": "bad"},
        {"Key": "k", "VersionId": UNKNOWN},
        {"Key": "absent"},
    ]
    answer = s3.delete_objects(Bucket=versioned, Delete={"Objects": objects})
    named, marker, unknown, absent = answer["Deleted"]
    assert named == {"Key": "k", "VersionId": ids[0]}
    assert (marker["DeleteMarker"], absent["DeleteMarker"]) == (True, True)
    assert unknown == {"Key": "k", "VersionId": UNKNOWN}
    assert [(error["VersionId"], error["Code"]) for error in answer["Errors"]] == [("bad", "NoSuchVersion")]
    marker_id = marker["DeleteMarkerVersionId"]
    gone = s3.delete_objects(Bucket=versioned, Delete={"Objects": [{"Key": "k", "VersionId": marker_id}]})["Deleted"]
    assert gone == [{"Key": "k", "VersionId": marker_id, "DeleteMarker": True, "DeleteMarkerVersionId": marker_id}]
    assert read(s3, versioned, "k") == b"2"


def test_conditions_of_deletions(s3: Any, versioned: str) -> None:
    old = s3.put_object(Bucket=versioned, Key="k", Body=b"old")
    new = s3.put_object(Bucket=versioned, Key="k", Body=b"new")
    failed = (412, "PreconditionFailed")
    assert refusal(s3.delete_object, Bucket=versioned, Key="k", IfMatch=old["ETag"]) == failed
    by_name = {"Bucket": versioned, "Key": "k", "VersionId": old["VersionId"]}
    assert refusal(s3.delete_object, **by_name, IfMatch=new["ETag"]) == failed
    s3.delete_object(**by_name, IfMatch=old["ETag"])
    assert s3.delete_object(Bucket=versioned, Key="k", IfMatch=new["ETag"])["DeleteMarker"]
    assert refusal(s3.delete_object, Bucket=versioned, Key="k", IfMatch=new["ETag"]) == (404, "NoSuchKey")
    assert s3.put_object(Bucket=versioned, Key="k", Body=b"x", IfNoneMatch="*")["VersionId"]


def test_copies_of_versions(s3: Any, versioned: str) -> None:
    old, new = put(s3, versioned, b"old", b"new")
    source = {"Bucket": versioned, "Key": "k"}
    copied = s3.copy_object(Bucket=versioned, Key="copy", CopySource=source | {"VersionId": old})
    assert copied["CopySourceVersionId"] == old
    assert read(s3, versioned, "copy", VersionId=copied["VersionId"]) == b"old"
    assert s3.copy_object(Bucket=versioned, Key="copy", CopySource=source)["CopySourceVersionId"] == new
    # Copying a version onto its own key restores it.
    assert refusal(s3.copy_object, Bucket=versioned, Key="k", CopySource=source) == (400, "InvalidRequest")
    restored = s3.copy_object(Bucket=versioned, Key="k", CopySource=source | {"VersionId": old})["VersionId"]
    assert read(s3, versioned, "k") == b"old"
    assert restored not in (old, new)
    missing = {"Bucket": versioned, "Key": "x"}
    assert refusal(s3.copy_object, **missing, CopySource=source | {"VersionId": UNKNOWN}) == (404, "NoSuchVersion")
    assert refusal(s3.copy_object, **missing, CopySource=source | {"VersionId": "bad"}) == (400, "InvalidArgument")
    marker = s3.delete_object(Bucket=versioned, Key="k")["VersionId"]
    assert refusal(s3.copy_object, **missing, CopySource=source) == (404, "NoSuchKey")
    assert refusal(s3.copy_object, **missing, CopySource=source | {"VersionId": marker}) == (400, "InvalidRequest")


def test_copies_of_null_versions(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    copy = {"Bucket": bucket, "Key": "k", "CopySource": {"Bucket": bucket, "Key": "k"}, "MetadataDirective": "REPLACE"}
    names = ("VersionId", "CopySourceVersionId")
    assert [s3.copy_object(**copy).get(name) for name in names] == [None, None]
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Suspended"})
    assert [s3.copy_object(**copy).get(name) for name in names] == ["null", None]


def test_uploads_in_parts_make_versions(s3: Any, versioned: str) -> None:
    (source,) = put(s3, versioned, b"part of the source", key="source")
    put(s3, versioned, b"replaced", key="source")
    address = {"Bucket": versioned, "Key": "k"}
    upload = s3.create_multipart_upload(**address)["UploadId"]
    part = s3.upload_part_copy(
        **address,
        UploadId=upload,
        PartNumber=1,
        CopySource={"Bucket": versioned, "Key": "source", "VersionId": source},
        CopySourceRange="bytes=0-3",
    )
    assert part["CopySourceVersionId"] == source
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["CopyPartResult"]["ETag"]}]}
    done = s3.complete_multipart_upload(**address, UploadId=upload, MultipartUpload=parts)
    again = s3.complete_multipart_upload(**address, UploadId=upload, MultipartUpload=parts)
    assert done["VersionId"] == again["VersionId"]
    assert read(s3, versioned, "k", VersionId=done["VersionId"]) == b"part"


@pytest.mark.parametrize("completed", ["Enabled", "Suspended"])
@pytest.mark.parametrize("begun", [None, "Enabled", "Suspended"])
def test_an_upload_becomes_what_its_bucket_has_when_it_is_completed(
    s3: Any, bucket: str, begun: str | None, completed: str
) -> None:
    address = {"Bucket": bucket, "Key": "k"}
    s3.put_object(**address, Body=b"before")
    if begun:
        set_versioning(s3, bucket, begun)
    upload = s3.create_multipart_upload(**address)["UploadId"]
    part = s3.upload_part(**address, UploadId=upload, PartNumber=1, Body=b"part")["ETag"]
    set_versioning(s3, bucket, completed)
    parts = {"Parts": [{"PartNumber": 1, "ETag": part}]}
    name = s3.complete_multipart_upload(**address, UploadId=upload, MultipartUpload=parts).get("VersionId", "null")
    if completed == "Enabled":
        assert name != "null"
        assert read(s3, bucket, "k", VersionId="null") == b"before"
    # Where versioning is suspended, it takes the place of what was there.
    older = [("k", "null", False, False)] if completed == "Enabled" else []
    assert history(s3, bucket) == sorted([("k", name, True, False), *older])
    assert read(s3, bucket, "k", VersionId=name) == read(s3, bucket, "k") == b"part"


def test_renames_and_moves_need_a_bucket_without_versions(s3: Any, wire: Wire, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    for status in ("Enabled", "Suspended"):
        set_versioning(s3, bucket, status)
        assert refusal(s3.rename_object, Bucket=bucket, Key="new", RenameSource="k") == (409, "InvalidBucketState")
        moved = wire("PUT", f"/{bucket}/new", headers={"x-amz-move-source": f"{bucket}/k"})
        assert (moved.status, moved.code) == (409, "InvalidBucketState")
    assert read(s3, bucket, "k") == b"x"


def test_lists_show_all_versions_newest_first(s3: Any, versioned: str) -> None:
    a = put(s3, versioned, b"1", b"22", key="a")
    marker = s3.delete_object(Bucket=versioned, Key="a")["VersionId"]
    (b,) = put(s3, versioned, b"333", key="b")
    page = s3.list_object_versions(Bucket=versioned)
    shown = [(entry["Key"], entry["VersionId"], entry["IsLatest"], entry["Size"]) for entry in page["Versions"]]
    assert shown == [("a", a[1], False, 2), ("a", a[0], False, 1), ("b", b, True, 3)]
    (deleted,) = page["DeleteMarkers"]
    assert (deleted["Key"], deleted["VersionId"], deleted["IsLatest"]) == ("a", marker, True)
    assert deleted["Owner"] == page["Versions"][0]["Owner"]
    assert abs(deleted["LastModified"] - dt.datetime.now(dt.UTC)) < dt.timedelta(minutes=2)
    assert {entry["StorageClass"] for entry in page["Versions"]} == {"STANDARD"}


@pytest.mark.parametrize("size", [1, 2, 3, 7])
def test_pages_end_in_the_middle_of_a_key(s3: Any, versioned: str, size: int) -> None:
    for key in ("a", "b/1", "b/2", "c d"):
        put(s3, versioned, b"1", b"2", b"3", key=key)
    s3.delete_object(Bucket=versioned, Key="b/1")
    whole = history(s3, versioned)
    assert len(whole) == 13
    pages = s3.get_paginator("list_object_versions").paginate(Bucket=versioned, PaginationConfig={"PageSize": size})
    seen = []
    for page in pages:
        entries = [(entry, False) for entry in page.get("Versions", [])]
        entries += [(entry, True) for entry in page.get("DeleteMarkers", [])]
        assert len(entries) <= size
        seen += [(entry["Key"], entry["VersionId"], entry["IsLatest"], marker) for entry, marker in entries]
    assert sorted(seen) == whole
    rolled = []
    marker: dict[str, str] = {}
    while True:
        page = s3.list_object_versions(Bucket=versioned, Delimiter="/", MaxKeys=size, **marker)
        rolled += [entry["Key"] for entry in page.get("Versions", [])]
        rolled += [entry["Prefix"] for entry in page.get("CommonPrefixes", [])]
        if not page["IsTruncated"]:
            break
        marker = {"KeyMarker": page["NextKeyMarker"]}
        if "NextVersionIdMarker" in page:
            marker["VersionIdMarker"] = page["NextVersionIdMarker"]
    assert sorted(rolled) == ["a"] * 3 + ["b/"] + ["c d"] * 3


def test_parameters_of_lists(s3: Any, wire: Wire, versioned: str) -> None:
    for key in ("a b", "a/1", "c"):
        put(s3, versioned, b"1", b"2", key=key)
    assert {key for key, *_ in history(s3, versioned, Prefix="a")} == {"a b", "a/1"}
    assert {key for key, *_ in history(s3, versioned, KeyMarker="a b")} == {"a/1", "c"}
    empty = s3.list_object_versions(Bucket=versioned, MaxKeys=0)
    assert "Versions" not in empty
    assert not empty["IsTruncated"]
    encoded = wire("GET", f"/{versioned}", "versions&encoding-type=url&prefix=a%20").body.decode()
    assert "<Key>a%20b</Key>" in encoded
    assert "<EncodingType>url</EncodingType>" in encoded
    for query in ("version-id-marker=null", "key-marker=a&version-id-marker=x", "max-keys=x", "encoding-type=x"):
        answer = wire("GET", f"/{versioned}", f"versions&{query}")
        assert (answer.status, answer.code) == (400, "InvalidArgument"), query


@pytest.mark.parametrize("end", ["stop", "kill"])
def test_versions_are_there_after_a_restart(tmp_path: Path, end: str) -> None:
    with running(tmp_path / "store") as first:
        s3 = first.client()
        s3.create_bucket(Bucket="versioned")
        set_versioning(s3, "versioned", "Enabled")
        ids = put(s3, "versioned", b"1", content(70_000), b"3")
        s3.put_object_tagging(
            Bucket="versioned", Key="k", VersionId=ids[0], Tagging={"TagSet": [{"Key": "a", "Value": ""}]}
        )
        s3.delete_object(Bucket="versioned", Key="k", VersionId=ids[2])
        s3.delete_object(Bucket="versioned", Key="k")
        before = history(s3, "versioned")
        getattr(first.server, end)()
    with running(tmp_path / "store") as second:
        s3 = second.client()
        assert s3.get_bucket_versioning(Bucket="versioned")["Status"] == "Enabled"
        assert history(s3, "versioned") == before
        assert refusal(s3.get_object, Bucket="versioned", Key="k") == (404, "NoSuchKey")
        assert read(s3, "versioned", "k", VersionId=ids[1]) == content(70_000)
        assert s3.get_object_tagging(Bucket="versioned", Key="k", VersionId=ids[0])["TagSet"]
        assert put(s3, "versioned", b"4")[0] not in ids
