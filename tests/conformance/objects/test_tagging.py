"""Tags of objects, storage classes and website redirects: what is stored with an object and shown again."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fixtures.targets import refusal
from tests.fixtures.wire import Wire

pytestmark = pytest.mark.conformance

CLASSES = [
    "REDUCED_REDUNDANCY",
    "STANDARD_IA",
    "ONEZONE_IA",
    "INTELLIGENT_TIERING",
    "GLACIER",
    "DEEP_ARCHIVE",
    "GLACIER_IR",
]


def tags(**pairs: str) -> dict[str, Any]:
    return {"TagSet": [{"Key": key, "Value": value} for key, value in pairs.items()]}


def tags_of(s3: Any, bucket: str, key: str = "k", **version: str) -> dict[str, str]:
    answer = s3.get_object_tagging(Bucket=bucket, Key=key, **version)
    return {tag["Key"]: tag["Value"] for tag in answer["TagSet"]}


def test_tags_are_replaced_and_deleted(s3: Any, bucket: str) -> None:
    put = s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    before = s3.head_object(Bucket=bucket, Key="k")
    assert tags_of(s3, bucket) == {}
    assert "TagCount" not in before
    s3.put_object_tagging(Bucket=bucket, Key="k", Tagging=tags(a="1", b=""))
    s3.put_object_tagging(Bucket=bucket, Key="k", Tagging=tags(b="2", ключ="значение @"))
    assert tags_of(s3, bucket) == {"b": "2", "ключ": "значение @"}
    after = s3.get_object(Bucket=bucket, Key="k")
    assert (after["TagCount"], after["ETag"], after["LastModified"]) == (2, put["ETag"], before["LastModified"])
    s3.delete_object_tagging(Bucket=bucket, Key="k")
    assert tags_of(s3, bucket) == {}
    for call in (s3.get_object_tagging, s3.delete_object_tagging):
        assert refusal(call, Bucket=bucket, Key="absent") == (404, "NoSuchKey")
    assert refusal(s3.put_object_tagging, Bucket=bucket, Key="absent", Tagging=tags(a="")) == (404, "NoSuchKey")


def test_uploads_bring_tags(s3: Any, wire: Wire, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Tagging="foo=bar&bar&a+b=%C3%A9")
    answer = s3.get_object_tagging(Bucket=bucket, Key="k")
    assert [tag["Key"] for tag in answer["TagSet"]] == ["a b", "bar", "foo"]
    assert tags_of(s3, bucket) == {"foo": "bar", "bar": "", "a b": "é"}
    upload = s3.create_multipart_upload(Bucket=bucket, Key="parts", Tagging="a=1")["UploadId"]
    part = s3.upload_part(Bucket=bucket, Key="parts", UploadId=upload, PartNumber=1, Body=b"x")
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    s3.complete_multipart_upload(Bucket=bucket, Key="parts", UploadId=upload, MultipartUpload=parts)
    assert tags_of(s3, bucket, "parts") == {"a": "1"}
    s3.put_object(Bucket=bucket, Key="k", Body=b"y")
    assert tags_of(s3, bucket) == {}
    for header, code in [
        ("a=1&a=2", "InvalidArgument"),
        ("TagSet=[{Key=string,Value=string}]", "InvalidArgument"),
        ("a%5B=1", "InvalidTag"),
        ("&".join(f"k{n}=v" for n in range(11)), "BadRequest"),
    ]:
        answer = wire("PUT", f"/{bucket}/k", headers={"x-amz-tagging": header}, body=b"z")
        assert (answer.status, answer.code) == (400, code), header


def test_copies_take_tags_or_bring_their_own(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Tagging="a=1")
    copy = {"Bucket": bucket, "CopySource": {"Bucket": bucket, "Key": "k"}}
    s3.copy_object(**copy, Key="kept")
    s3.copy_object(**copy, Key="ignored", Tagging="b=2")
    s3.copy_object(**copy, Key="replaced", Tagging="b=2", TaggingDirective="REPLACE")
    s3.copy_object(**copy, Key="removed", TaggingDirective="REPLACE")
    expected = {"kept": {"a": "1"}, "ignored": {"a": "1"}, "replaced": {"b": "2"}, "removed": {}}
    assert {key: tags_of(s3, bucket, key) for key in expected} == expected
    assert refusal(s3.copy_object, **copy, Key="x", TaggingDirective="KEEP") == (400, "InvalidArgument")


def test_versions_have_tags_of_their_own(s3: Any, bucket: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    old, new = (s3.put_object(Bucket=bucket, Key="k", Body=body)["VersionId"] for body in (b"1", b"2"))
    answer = s3.put_object_tagging(Bucket=bucket, Key="k", VersionId=old, Tagging=tags(a="old"))
    assert answer["VersionId"] == old
    assert s3.put_object_tagging(Bucket=bucket, Key="k", Tagging=tags(a="new"))["VersionId"] == new
    assert tags_of(s3, bucket, VersionId=old) == {"a": "old"}
    assert s3.delete_object_tagging(Bucket=bucket, Key="k", VersionId=new)["VersionId"] == new
    assert (tags_of(s3, bucket), tags_of(s3, bucket, VersionId=old)) == ({}, {"a": "old"})
    listed = s3.list_object_versions(Bucket=bucket)["Versions"]
    assert [version["VersionId"] for version in listed] == [new, old]


@pytest.mark.parametrize(
    ("tagging", "code"),
    [
        (tags(**{f"k{n}": "" for n in range(11)}), "BadRequest"),
        (tags(**{"k" * 129: ""}), "InvalidTag"),
        (tags(k="v" * 257), "InvalidTag"),
        (tags(**{"aws:k": ""}), "InvalidTag"),
        (tags(**{"k!": ""}), "InvalidTag"),
        (tags(k="a,b"), "InvalidTag"),
        ({"TagSet": [{"Key": "k", "Value": "1"}, {"Key": "k", "Value": "2"}]}, "InvalidTag"),
    ],
)
def test_tags_that_are_refused(s3: Any, bucket: str, tagging: dict[str, Any], code: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Tagging="a=1")
    assert refusal(s3.put_object_tagging, Bucket=bucket, Key="k", Tagging=tagging) == (400, code)
    assert tags_of(s3, bucket) == {"a": "1"}


def test_as_many_and_as_long_as_allowed(s3: Any, wire: Wire, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    most = {f"{n}".ljust(128, "k"): "v" * 256 for n in range(10)}
    s3.put_object_tagging(Bucket=bucket, Key="k", Tagging=tags(**most))
    assert tags_of(s3, bucket) == most
    for body in (b"<Tagging><Tags/></Tagging>", b"<Tagging><TagSet><Tag><Key>k</Key></Tag></TagSet></Tagging>", b"x"):
        assert wire("PUT", f"/{bucket}/k", "tagging", body=body).code == "MalformedXML"
    assert tags_of(s3, bucket) == most
    assert wire("PUT", f"/{bucket}/k", "tagging", body=b"<Tagging/>").status == 200
    assert tags_of(s3, bucket) == {}


@pytest.mark.parametrize("storage_class", ["STANDARD", *CLASSES])
def test_storage_classes_are_shown(s3: Any, bucket: str, storage_class: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", StorageClass=storage_class)
    expected = None if storage_class == "STANDARD" else storage_class
    assert s3.get_object(Bucket=bucket, Key="k").get("StorageClass") == expected
    assert s3.head_object(Bucket=bucket, Key="k").get("StorageClass") == expected
    attributes = s3.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=["StorageClass"])
    assert attributes["StorageClass"] == storage_class
    assert s3.list_objects_v2(Bucket=bucket)["Contents"][0]["StorageClass"] == storage_class
    assert s3.list_objects(Bucket=bucket)["Contents"][0]["StorageClass"] == storage_class
    assert s3.list_object_versions(Bucket=bucket)["Versions"][0]["StorageClass"] == storage_class
    upload = s3.create_multipart_upload(Bucket=bucket, Key="parts", StorageClass=storage_class)["UploadId"]
    assert s3.list_parts(Bucket=bucket, Key="parts", UploadId=upload)["StorageClass"] == storage_class
    assert s3.list_multipart_uploads(Bucket=bucket)["Uploads"][0]["StorageClass"] == storage_class


def test_archived_objects_count_as_restored(s3: Any, bucket: str) -> None:
    request = {"Days": 1, "GlacierJobParameters": {"Tier": "Standard"}}
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    archived = s3.put_object(Bucket=bucket, Key="k", Body=b"x", StorageClass="DEEP_ARCHIVE")["VersionId"]
    restored = s3.restore_object(Bucket=bucket, Key="k", RestoreRequest=request)
    assert restored["ResponseMetadata"]["HTTPStatusCode"] == 200
    expedited = request | {"GlacierJobParameters": {"Tier": "Expedited"}}
    refused = refusal(s3.restore_object, Bucket=bucket, Key="k", RestoreRequest=expedited)
    assert refused == (400, "InvalidArgument")
    s3.put_object(Bucket=bucket, Key="g", Body=b"x", StorageClass="GLACIER")
    s3.restore_object(Bucket=bucket, Key="g", RestoreRequest=expedited)
    s3.put_object(Bucket=bucket, Key="k", Body=b"y", StorageClass="GLACIER_IR")
    here = {"Bucket": bucket, "Key": "k", "RestoreRequest": request}
    assert refusal(s3.restore_object, **here) == (403, "InvalidObjectState")
    s3.restore_object(**here, VersionId=archived)
    s3.delete_object(Bucket=bucket, Key="k")
    assert refusal(s3.restore_object, **here) == (404, "NoSuchKey")
    s3.restore_object(**here, VersionId=archived)


def test_a_copy_names_its_storage_class(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", StorageClass="GLACIER", WebsiteRedirectLocation="/else")
    copy = {"Bucket": bucket, "CopySource": {"Bucket": bucket, "Key": "k"}}
    s3.copy_object(**copy, Key="copy")
    head = s3.head_object(Bucket=bucket, Key="copy")
    assert "StorageClass" not in head
    assert "WebsiteRedirectLocation" not in head
    s3.copy_object(**copy, Key="k", StorageClass="STANDARD_IA", WebsiteRedirectLocation="https://example.com/")
    head = s3.head_object(Bucket=bucket, Key="k")
    assert (head["StorageClass"], head["WebsiteRedirectLocation"]) == ("STANDARD_IA", "https://example.com/")
    assert refusal(s3.copy_object, **copy, Key="x", StorageClass="OUTPOSTS") == (400, "InvalidStorageClass")


def test_redirects(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", WebsiteRedirectLocation="/other")
    assert s3.get_object(Bucket=bucket, Key="k")["WebsiteRedirectLocation"] == "/other"
    for location in ("other", "ftp://example.com/", "/" + "a" * 2048):
        answer = refusal(s3.put_object, Bucket=bucket, Key="k", Body=b"y", WebsiteRedirectLocation=location)
        assert answer == (400, "InvalidRedirectLocation")
