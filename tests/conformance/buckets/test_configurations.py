"""Configurations of a new bucket: reads answer as on S3; writes that are not stored succeed if they change nothing."""

from __future__ import annotations

from typing import Any

import botocore
import pytest
from botocore.exceptions import ClientError
from tests.fixtures.operations import CONFIGURATIONS, CONFIRMED
from tests.fixtures.targets import refusal

pytestmark = pytest.mark.conformance

# Members that an operation requires beside bucket and key.
IDS = {"Id": "x"}
PUBLIC_ACCESS_BLOCK = {
    "BlockPublicAcls": True, "IgnorePublicAcls": True, "BlockPublicPolicy": True, "RestrictPublicBuckets": True,
}  # fmt: skip
ENFORCED = {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}


def call(client: Any, name: str, bucket: str, **arguments: Any) -> dict[str, Any]:
    """Calls an operation of the service model on the bucket, or on its object `k`; the answer without its metadata."""
    shape = client.meta.service_model.operation_model(name).input_shape
    known = {"Bucket": bucket, "Key": "k"} | IDS | arguments
    method = getattr(client, botocore.xform_name(name))
    answer: dict[str, Any] = method(**{member: known[member] for member in shape.members if member in known})
    status = answer.pop("ResponseMetadata")["HTTPStatusCode"]
    assert status == (204 if name.startswith("Delete") else 200)
    return answer


@pytest.mark.parametrize(("name", "code"), CONFIGURATIONS.items())
def test_a_configuration_that_is_not_there(s3: Any, bucket: str, name: str, code: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"kept")
    if not code:
        call(s3, name, bucket)
        return
    with pytest.raises(ClientError) as refused:
        call(s3, name, bucket)
    assert refused.value.response["Error"]["Code"] == code
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 404


@pytest.mark.parametrize("name", [*CONFIGURATIONS, *sorted(CONFIRMED)])
def test_nothing_is_configured_where_nothing_is(s3: Any, bucket: str, name: str) -> None:
    arguments = {
        "AbacStatus": {"Status": "Disabled"},
        "AccelerateConfiguration": {"Status": "Suspended"},
        "BucketLoggingStatus": {},
        "NotificationConfiguration": {},
        "OwnershipControls": ENFORCED,
        "ReplicationConfiguration": {
            "Role": "r",
            "Rules": [{"Prefix": "", "Status": "Enabled", "Destination": {"Bucket": "arn:aws:s3:::t/b"}}],
        },
        "RequestPaymentConfiguration": {"Payer": "BucketOwner"},
        "Tagging": {"TagSet": []},
        "PublicAccessBlockConfiguration": PUBLIC_ACCESS_BLOCK,
        "ACL": "private",
        "WebsiteConfiguration": {"IndexDocument": {"Suffix": "index.html"}},
        "ServerSideEncryptionConfiguration": {
            "Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]
        },
    }
    with pytest.raises(ClientError) as refused:
        call(s3, name, f"{bucket}-none", **arguments)
    assert refused.value.response["Error"]["Code"] == "NoSuchBucket"
    if "Key" in s3.meta.service_model.operation_model(name).input_shape.members:
        with pytest.raises(ClientError) as refused:
            call(s3, name, bucket, **arguments)
        assert refused.value.response["Error"]["Code"] == "NoSuchKey"


def test_answers_are_those_of_a_new_bucket(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"kept")
    owner = s3.list_buckets()["Owner"]
    grants = [{"Grantee": owner | {"Type": "CanonicalUser"}, "Permission": "FULL_CONTROL"}]
    for name, expected in {
        "GetBucketAcl": {"Owner": owner, "Grants": grants},
        "GetObjectAcl": {"Owner": owner, "Grants": grants},
        "GetBucketAbac": {"AbacStatus": {"Status": "Disabled"}},
        "GetBucketAccelerateConfiguration": {},
        "GetBucketLogging": {},
        "GetBucketNotificationConfiguration": {},
        "GetBucketOwnershipControls": {"OwnershipControls": ENFORCED},
        "GetBucketRequestPayment": {"Payer": "BucketOwner"},
        "GetPublicAccessBlock": {"PublicAccessBlockConfiguration": PUBLIC_ACCESS_BLOCK},
        "ListBucketAnalyticsConfigurations": {"IsTruncated": False},
        "ListBucketIntelligentTieringConfigurations": {"IsTruncated": False},
        "ListBucketInventoryConfigurations": {"IsTruncated": False},
        "ListBucketMetricsConfigurations": {"IsTruncated": False},
    }.items():
        assert call(s3, name, bucket) == expected, name


def test_what_is_read_can_be_written_back(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"kept")
    acl = call(s3, "GetBucketAcl", bucket)
    for name, arguments in [
        ("PutBucketAcl", {"AccessControlPolicy": acl}),
        ("PutObjectAcl", {"AccessControlPolicy": acl}),
        ("PutBucketAcl", {"ACL": "private"}),
        ("PutObjectAcl", {"ACL": "bucket-owner-full-control"}),
        ("PutBucketAbac", {"AbacStatus": {"Status": "Disabled"}}),
        ("PutBucketLogging", {"BucketLoggingStatus": {}}),
        ("PutBucketNotificationConfiguration", {"NotificationConfiguration": {}}),
        ("PutBucketOwnershipControls", {"OwnershipControls": ENFORCED}),
        ("PutBucketRequestPayment", {"RequestPaymentConfiguration": {"Payer": "BucketOwner"}}),
        ("PutPublicAccessBlock", {"PublicAccessBlockConfiguration": PUBLIC_ACCESS_BLOCK}),
    ]:
        assert call(s3, name, bucket, **arguments) == {}, name
    assert call(s3, "GetBucketAcl", bucket) == acl


def test_what_would_change_something_is_refused(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"kept")
    everyone = {
        "Grantee": {"Type": "Group", "URI": "http://acs.amazonaws.com/groups/global/AllUsers"}, "Permission": "READ",
    }  # fmt: skip
    acl = call(s3, "GetBucketAcl", bucket)
    public = {"Owner": acl["Owner"], "Grants": [*acl["Grants"], everyone]}
    for name, arguments, expected in [
        ("PutBucketAcl", {"AccessControlPolicy": public}, (400, "AccessControlListNotSupported")),
        ("PutObjectAcl", {"AccessControlPolicy": public}, (400, "AccessControlListNotSupported")),
        ("PutBucketAcl", {"ACL": "public-read"}, (400, "AccessControlListNotSupported")),
        ("PutBucketAbac", {"AbacStatus": {"Status": "Enabled"}}, (501, "NotImplemented")),
        (
            "PutBucketNotificationConfiguration",
            {"NotificationConfiguration": {"EventBridgeConfiguration": {}}},
            (501, "NotImplemented"),
        ),
    ]:
        assert refusal(call, client=s3, name=name, bucket=bucket, **arguments) == expected, (name, arguments)


def test_versions_of_a_bucket_without_versioning(s3: Any, bucket: str) -> None:
    keys = [f"a/{n}" for n in range(5)] + ["b", "c/1", "d"]
    for key in keys:
        s3.put_object(Bucket=bucket, Key=key, Body=key.encode())
    s3.delete_object(Bucket=bucket, Key="d")
    keys.remove("d")
    pages = s3.get_paginator("list_object_versions").paginate(Bucket=bucket, PaginationConfig={"PageSize": 3})
    listed = [version for page in pages for version in page.get("Versions", [])]
    assert [(version["Key"], version["VersionId"], version["IsLatest"]) for version in listed] == [
        (key, "null", True) for key in keys
    ]
    assert [version["Size"] for version in listed] == [len(key) for key in keys]
    page = s3.list_object_versions(Bucket=bucket, Delimiter="/", MaxKeys=1)
    assert (page["CommonPrefixes"], page["IsTruncated"], page["NextKeyMarker"]) == ([{"Prefix": "a/"}], True, "a/")
    assert "NextVersionIdMarker" not in page
    page = s3.list_object_versions(Bucket=bucket, Delimiter="/", KeyMarker=page["NextKeyMarker"])
    assert [version["Key"] for version in page["Versions"]] == ["b"]
    assert page["CommonPrefixes"] == [{"Prefix": "c/"}]
    asked = {"Bucket": bucket, "VersionIdMarker": "null"}
    assert refusal(s3.list_object_versions, **asked) == (400, "InvalidArgument")
    assert refusal(s3.list_object_versions, **asked | {"KeyMarker": "b", "VersionIdMarker": "!"})[0] == 400


def test_a_bucket_is_emptied_by_its_versions(s3: Any, bucket: str) -> None:
    for key in ("a", "b"):
        s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    versions = s3.list_object_versions(Bucket=bucket)["Versions"]
    gone = [{"Key": version["Key"], "VersionId": version["VersionId"]} for version in versions]
    answer = s3.delete_objects(Bucket=bucket, Delete={"Objects": gone})
    assert [entry["VersionId"] for entry in answer["Deleted"]] == ["null", "null"]
    assert "Versions" not in s3.list_object_versions(Bucket=bucket)


def test_attributes_of_objects(s3: Any, bucket: str) -> None:
    names = ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"]
    put = s3.put_object(Bucket=bucket, Key="k", Body=b"123456789", ChecksumAlgorithm="CRC32")
    answer = s3.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=names)
    head = s3.head_object(Bucket=bucket, Key="k")
    assert (answer["ETag"], answer["ObjectSize"]) == (put["ETag"].strip('"'), 9)
    assert answer["Checksum"] == {"ChecksumCRC32": "y/Q5Jg==", "ChecksumType": "FULL_OBJECT"}
    assert (answer["StorageClass"], answer["LastModified"]) == ("STANDARD", head["LastModified"])
    assert "ObjectParts" not in answer
    only = s3.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=["ObjectSize"], VersionId="null")
    assert {name for name in only if name in names} == {"ObjectSize"}
    missing = {"Bucket": bucket, "Key": "none", "ObjectAttributes": names}
    assert refusal(s3.get_object_attributes, **missing) == (404, "NoSuchKey")
    assert refusal(s3.get_object_attributes, **missing | {"ObjectAttributes": ["Colour"]})[1] == "InvalidArgument"


def test_attributes_of_parts(s3: Any, bucket: str) -> None:
    bodies = [b"a" * (5 << 20), b"b"]
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k", ChecksumAlgorithm="SHA256")["UploadId"]
    parts = []
    for number, body in enumerate(bodies, 1):
        address = {"Bucket": bucket, "Key": "k", "UploadId": upload, "PartNumber": number}
        answer = s3.upload_part(**address, Body=body, ChecksumAlgorithm="SHA256")
        parts.append({"PartNumber": number, "ETag": answer["ETag"], "ChecksumSHA256": answer["ChecksumSHA256"]})
    whole = s3.complete_multipart_upload(Bucket=bucket, Key="k", UploadId=upload, MultipartUpload={"Parts": parts})
    asked = {"Bucket": bucket, "Key": "k", "ObjectAttributes": ["ObjectParts", "Checksum"]}
    answer = s3.get_object_attributes(**asked)
    # S3 shows the checksum here without the number of parts that follows it elsewhere.
    assert answer["Checksum"]["ChecksumSHA256"] == whole["ChecksumSHA256"].partition("-")[0]
    assert answer["Checksum"]["ChecksumType"] == "COMPOSITE"
    shown = answer["ObjectParts"]
    assert (shown["TotalPartsCount"], shown["IsTruncated"]) == (2, False)
    assert [(part["PartNumber"], part["Size"], part["ChecksumSHA256"]) for part in shown["Parts"]] == [
        (part["PartNumber"], len(body), part["ChecksumSHA256"]) for part, body in zip(parts, bodies, strict=True)
    ]
    page = s3.get_object_attributes(**asked, MaxParts=1)["ObjectParts"]
    assert (page["IsTruncated"], page["NextPartNumberMarker"], len(page["Parts"])) == (True, 1, 1)
    page = s3.get_object_attributes(**asked, PartNumberMarker=1)["ObjectParts"]
    assert (page["IsTruncated"], [part["PartNumber"] for part in page["Parts"]]) == (False, [2])


def test_parts_are_shown_only_with_a_composite_checksum(s3: Any, bucket: str) -> None:
    chosen = {"ChecksumAlgorithm": "CRC32", "ChecksumType": "FULL_OBJECT"}
    address = {"Bucket": bucket, "Key": "k"}
    address["UploadId"] = s3.create_multipart_upload(**address, **chosen)["UploadId"]
    part = s3.upload_part(**address, PartNumber=1, Body=b"part", ChecksumAlgorithm="CRC32")
    assert [listed["ChecksumCRC32"] for listed in s3.list_parts(**address)["Parts"]] == [part["ChecksumCRC32"]]
    s3.complete_multipart_upload(**address, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]})
    asked = {"Bucket": bucket, "Key": "k", "ObjectAttributes": ["ObjectParts", "Checksum"]}
    answer = s3.get_object_attributes(**asked)
    assert answer["Checksum"] == {"ChecksumCRC32": part["ChecksumCRC32"], "ChecksumType": "FULL_OBJECT"}
    assert answer["ObjectParts"] == {"TotalPartsCount": 1}
    for read in (s3.head_object, s3.get_object):
        assert "ChecksumCRC32" in read(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
        shown = read(Bucket=bucket, Key="k", ChecksumMode="ENABLED", PartNumber=1)
        assert shown["PartsCount"] == 1
        assert "ChecksumCRC32" not in shown
