"""Every operation of the service model through boto3, with as few and with as many parameters as it takes.

Arguments are made from the shapes of the model; the tables say which of them must be real. What is built answers as the
model says, what is not built answers 501, and no parameter is passed over: one with a wrong value is an error.
"""

from __future__ import annotations

import contextlib
import datetime as dt
import itertools
import uuid
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import botocore
import pytest
from botocore.exceptions import ClientError, FlexibleChecksumError
from tests.fixtures.keys import MASTER_KEY
from tests.fixtures.operations import CONFIGURATIONS, unbuilt_calls
from tests.fixtures.tables.parameters import (
    HARMLESS,
    REFUSED,
    REFUSED_BY,
    WITHOUT_EFFECT,
    members_of,
    refused_by,
    service_model,
)
from tests.fixtures.tables.shapes import flaws, strange_elements, value
from tests.fixtures.targets import Target, running

pytestmark = pytest.mark.conformance

OPERATIONS = service_model().operation_names
UNBUILT = set(unbuilt_calls())
# SDKs sign these for another service than S3.
FOREIGN = {"ListDirectoryBuckets", "WriteGetObjectResponse"}
BUILT = [name for name in OPERATIONS if name not in UNBUILT | FOREIGN]
READS = ("Get", "Head", "List")
LOCKS = ("Lock", "Retention", "LegalHold")
# Arguments go out as they are, and to the server whose address is given.
AS_THEY_ARE = {"parameter_validation": False, "inject_host_prefix": False}
LONG_AGO = dt.datetime(2000, 1, 1, tzinfo=dt.UTC)
LATER = dt.datetime(2199, 1, 1, tzinfo=dt.UTC)
# Stands for the time of the call: whether something was modified since a time to come is not asked.
NOW = object()
RULES = [{"Redirect": {"ReplaceKeyWith": "x"}}]
TAGS = {"TagSet": [{"Key": "a", "Value": "b"}]}

# The bodies of writes that succeed: the least, and the most that is built.
BODIES: dict[str, tuple[Any, Any]] = {
    "AbacStatus": ({"Status": "Disabled"},) * 2,
    "LifecycleConfiguration": (
        {"Rules": [{"Prefix": "", "Status": "Enabled", "Expiration": {"Days": 1}}]},
        {"Rules": [{"ID": "x", "Prefix": "x", "Status": "Disabled", "Expiration": {"Date": LATER},
                    "NoncurrentVersionExpiration": {"NoncurrentDays": 1},
                    "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 1}}]},
    ),
    "AccelerateConfiguration": ({"Status": "Suspended"}, {"Status": "Enabled"}),
    "BucketLoggingStatus": (
        {},
        {"LoggingEnabled": {
            "TargetBucket": "{bucket}", "TargetPrefix": "x",
            "TargetObjectKeyFormat": {"PartitionedPrefix": {"PartitionDateSource": "EventTime"}},
        }},
    ),
    "CORSConfiguration": (
        {"CORSRules": [{"AllowedMethods": ["GET"], "AllowedOrigins": ["*"]}]},
        {"CORSRules": [{
            "ID": "x", "AllowedHeaders": ["*"], "AllowedMethods": ["GET"], "AllowedOrigins": ["*"],
            "ExposeHeaders": ["ETag"], "MaxAgeSeconds": 1,
        }]},
    ),
    "CreateBucketConfiguration": ({"LocationConstraint": "eu-west-1"},) * 2,
    "Delete": (
        {"Objects": [{"Key": "k"}]}, {"Objects": [{"Key": "k", "VersionId": "null", "ETag": "{etag}"}], "Quiet": False},
    ),
    "LegalHold": ({"Status": "OFF"}, {"Status": "ON"}),
    "NotificationConfiguration": ({},) * 2,
    "ObjectLockConfiguration": (
        {"ObjectLockEnabled": "Enabled"},
        {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": {"Mode": "GOVERNANCE", "Days": 1}}},
    ),
    "OwnershipControls": ({"Rules": [{"ObjectOwnership": "ObjectWriter"}]},) * 2,
    "PublicAccessBlockConfiguration": (
        {"BlockPublicAcls": True},
        dict.fromkeys(("BlockPublicAcls", "IgnorePublicAcls", "BlockPublicPolicy", "RestrictPublicBuckets"), True),
    ),
    "RequestPaymentConfiguration": ({"Payer": "Requester"},) * 2,
    "RestoreRequest": (
        {"Days": 1},
        {"Days": 1, "GlacierJobParameters": {"Tier": "Bulk"}, "Tier": "Bulk", "Description": "x"},
    ),
    "Retention": ({"Mode": "GOVERNANCE", "RetainUntilDate": LATER},) * 2,
    "ServerSideEncryptionConfiguration": (
        {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]},
        {"Rules": [{
            "ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", "KMSMasterKeyID": "alias/orcas/s3"},
            "BucketKeyEnabled": True,
        }]},
    ),
    "VersioningConfiguration": ({"Status": "Enabled"}, {"Status": "Enabled", "MFADelete": "Disabled"}),
    "WebsiteConfiguration": (
        {"IndexDocument": {"Suffix": "x"}},
        {"IndexDocument": {"Suffix": "x"}, "ErrorDocument": {"Key": "x"}, "RoutingRules": RULES},
    ),
}  # fmt: skip
# A policy, which root does not feel.
DENIAL = (
    '{"Statement": {"Effect": "Deny", "Principal": "*", "Action": "s3:PutObjectAcl", '
    '"Resource": "arn:aws:s3:::{bucket}/*"}}'
)
# Bodies that ask for what is not built.
REFUSED_BODIES: dict[str, Any] = {
    "PutBucketAbac": {"AbacStatus": {"Status": "Enabled"}},
    "PutBucketEncryption": {
        "ServerSideEncryptionConfiguration": {
            "Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms:dsse"}}],
        },
    },
    "PutBucketNotificationConfiguration": {"NotificationConfiguration": {"EventBridgeConfiguration": {}}},
    "PutBucketVersioning": {"VersioningConfiguration": {"Status": "Enabled", "MFADelete": "Enabled"}},
    "CreateBucket": {"CreateBucketConfiguration": {"Bucket": {"Type": "Directory"}}},
    "RestoreObject": {"RestoreRequest": {"Type": "SELECT"}},
}
# Headers that the model does not list for each operation.
ANY_ANSWER = {"date", "server", "connection", "content-length", "content-type", "x-amz-request-id", "x-amz-id-2"}
# What Orcas adds: the version that a lock belongs to, that an annotation has ranges, and that objects with scripts get no
# rights in a browser. The region of a list is what S3 says too; the last is in the model of the newer operation with the
# same request.
ADDED = {
    **dict.fromkeys(("GetObject", "HeadObject"), "content-security-policy"),
    **dict.fromkeys(
        ("GetObjectLegalHold", "GetObjectRetention", "PutObjectLegalHold", "PutObjectRetention"), "x-amz-version-id"
    ),
    "GetObjectAnnotation": "accept-ranges",
    **dict.fromkeys(("ListObjects", "ListObjectsV2"), "x-amz-bucket-region"),
    "PutBucketLifecycle": "x-amz-transition-default-minimum-object-size",
}
# What AWS answers in any case, where the model does not say so.
ALWAYS: dict[str, set[str]] = {
    "CompleteMultipartUpload": {"Location", "Bucket", "Key", "ETag"},
    "CopyObject": {"CopyObjectResult"},
    "CreateBucket": {"Location"},
    "CreateMultipartUpload": {"Bucket", "Key", "UploadId"},
    "GetBucketAcl": {"Owner", "Grants"},
    "GetObject": {"Body", "ETag", "LastModified", "ContentLength", "ContentType", "AcceptRanges", "Metadata"},
    "GetObjectAcl": {"Owner", "Grants"},
    "GetObjectAttributes": {"LastModified"},
    "GetObjectTagging": {"TagSet"},
    "HeadBucket": {"BucketRegion"},
    "HeadObject": {"ETag", "LastModified", "ContentLength", "ContentType", "AcceptRanges", "Metadata"},
    "GetObjectAnnotation": {"AnnotationPayload", "ETag", "LastModified", "ContentLength"},
    "ListBuckets": {"Buckets", "Owner"},
    "ListMultipartUploads": {"Bucket", "MaxUploads", "IsTruncated", "Uploads"},
    "ListObjectAnnotations": {"Annotations", "Bucket", "Key", "MaxAnnotationResults", "AnnotationCount"},
    "ListObjectVersions": {"Name", "Prefix", "MaxKeys", "IsTruncated", "Versions"},
    "ListObjects": {"Name", "Prefix", "MaxKeys", "IsTruncated", "Contents"},
    "ListObjectsV2": {"Name", "Prefix", "MaxKeys", "KeyCount", "IsTruncated", "Contents"},
    "ListParts": {
        "Bucket",
        "Key",
        "UploadId",
        "MaxParts",
        "IsTruncated",
        "Parts",
        "Owner",
        "Initiator",
        "StorageClass",
    },
    "PutObject": {"ETag", "ChecksumCRC32", "ChecksumType"},
    "PutObjectAnnotation": {"Key", "AnnotationName", "ETag", "ChecksumCRC32", "ChecksumType"},
    "UploadPart": {"ETag", "ChecksumCRC32"},
    "UploadPartCopy": {"CopyPartResult"},
}
# Where a wrong value counts as absent, as on S3.
IGNORED = {("GetObjectAttributes", "MaxParts")}
# A wrong value of a parameter, which whoever reads the parameter must refuse.
WRONG: dict[str, Any] = {
    "ACL": "x", "AnnotationDirective": "x", "AnnotationName": "aws",
    "BucketNamespace": "x", "ChecksumMode": "x", "ChecksumType": "x", "ContentMD5": "x" * 22 + "==",
    "ContinuationToken": "!", "CopySource": "/", "CopySourceIfMatch": '"0"', "CopySourceIfNoneMatch": "*",
    "CopySourceIfUnmodifiedSince": LONG_AGO, "CopySourceIfModifiedSince": NOW, "CopySourceRange": "bytes=99-100",
    "DestinationIfMatch": '"0"', "DestinationIfNoneMatch": "*", "EncodingType": "x",
    "ExpectedBucketOwner": "0" * 12, "ExpectedSourceBucketOwner": "0" * 12, "IfMatch": '"0"', "IfNoneMatch": "*",
    "IfUnmodifiedSince": LONG_AGO, "MaxAnnotationResults": -1, "MaxBuckets": 0, "MaxKeys": -1, "MaxParts": -1,
    "MaxUploads": -1,
    "MetadataDirective": "x", "MpuObjectSize": 7, "ObjectIfMatch": '"0"',
    "ObjectAttributes": ["x"], "ObjectLockLegalHoldStatus": "x",
    "ObjectLockMode": "GOVERNANCE", "ObjectLockRetainUntilDate": LATER, "ObjectOwnership": "x", "PartNumber": 20_000,
    "PartNumberMarker": -1, "Range": "bytes=99-", "RenameSource": "/", "ResponseCacheControl": "a\nb",
    "ResponseContentDisposition": "a\nb", "ResponseContentEncoding": "a\nb", "ResponseContentLanguage": "a\nb",
    "ResponseContentType": "a\nb", "SourceIfMatch": '"0"', "SourceIfNoneMatch": "*", "SourceIfUnmodifiedSince": LONG_AGO,
    "SourceIfModifiedSince": NOW, "StorageClass": "x", "Tagging": "a=b=c", "TaggingDirective": "x", "UploadId": "x",
    "VersionId": "!", "VersionIdMarker": "null", "WebsiteRedirectLocation": "x", "WriteOffsetBytes": 99,
    "IfMatchSize": 99, "IfMatchLastModifiedTime": LONG_AGO, "DestinationIfModifiedSince": LATER,
    "ServerSideEncryption": "x", "SSEKMSKeyId": "x", "SSEKMSEncryptionContext": "x",
    **dict.fromkeys((f"{of}SSECustomer{name}" for of in ("", "CopySource") for name in ("Algorithm", "Key", "KeyMD5")), "x"),
    "DestinationIfUnmodifiedSince": LONG_AGO, "TransitionDefaultMinimumObjectSize": "x",
    **dict.fromkeys((f"Checksum{name}" for name in ("CRC32", "CRC32C", "XXHASH3")), "x"),
    **dict.fromkeys((f"Checksum{name}" for name in ("SHA1", "SHA256", "SHA512", "MD5")), "x"),
    **dict.fromkeys((f"Checksum{name}" for name in ("CRC64NVME", "XXHASH64", "XXHASH128")), "x"),
}  # fmt: skip
# Parameters of which any value is right. Tests of their own look at what they do.
FREE = {
    "AnnotationPrefix",
    "Body", "BucketKeyEnabled", "BucketRegion", "BypassGovernanceRetention", "CacheControl", "ChecksumAlgorithm",
    "ClientToken",
    "ContentDisposition",
    "ContentEncoding", "ContentLanguage", "ContentLength", "ContentType", "Delimiter", "Expires", "FetchOwner",
    "IfModifiedSince", "KeyMarker", "Marker", "Metadata", "ObjectLockEnabledForBucket", "Prefix", "ResponseExpires",
    "SkipDestinationValidation", "StartAfter", "UploadIdMarker",
}  # fmt: skip
# What a call with many parameters leaves out, because it contradicts another one or needs a body of its own.
CONTRADICTORY = {
    "AccessControlPolicy", "ContinuationToken", "IfNoneMatch", "Range", "ContentMD5", "CopySourceIfNoneMatch",
    "CopySourceIfModifiedSince", "IfModifiedSince", "ContentLength", "ObjectLockMode", "ObjectLockRetainUntilDate",
    "ObjectLockLegalHoldStatus", "SourceIfNoneMatch", "SourceIfModifiedSince", "DestinationIfNoneMatch",
    "DestinationIfModifiedSince", "DestinationIfUnmodifiedSince", "ChecksumAlgorithm", "ChecksumType", "MpuObjectSize",
    "WriteOffsetBytes", "IfMatchSize", "IfMatchLastModifiedTime", "BypassGovernanceRetention",
    *(f"{of}SSECustomer{name}" for of in ("", "CopySource") for name in ("Algorithm", "Key", "KeyMD5")),
}  # fmt: skip


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    """A server with a keyring, without which no request for encryption succeeds."""
    with running(tmp_path_factory.mktemp("store") / "data", master_key=MASTER_KEY) as target:
        yield target


@dataclass
class Scene:
    """A bucket with the objects `k` and `mp` and an upload of one part for `mp`, and what calls about it have in common."""

    bucket: str
    arguments: dict[str, Any]


def make_scene(client: Any, name: str) -> Scene:
    bucket = f"m-{uuid.uuid4().hex}"
    locks = any(word in name for word in LOCKS)
    client.create_bucket(Bucket=bucket, ObjectLockEnabledForBucket=locks)
    for key in ("k", "mp"):
        put = client.put_object(Bucket=bucket, Key=key, Body=b"content")
    upload = client.create_multipart_upload(Bucket=bucket, Key="mp")["UploadId"]
    part = client.upload_part(Bucket=bucket, Key="mp", UploadId=upload, PartNumber=1, Body=b"part")
    if name == "GetObject":
        client.put_object_annotation(Bucket=bucket, Key="k", AnnotationName="x", AnnotationPayload=b"text")
    if name.startswith(("GetObjectRetention", "GetObjectLegalHold")):
        client.put_object_retention(Bucket=bucket, Key="k", Retention=BODIES["Retention"][0])
        client.put_object_legal_hold(Bucket=bucket, Key="k", LegalHold={"Status": "ON"})
    if name == "RestoreObject":
        client.put_object(Bucket=bucket, Key="k", Body=b"content", StorageClass="GLACIER")
    if name == "DeleteBucket":
        client.abort_multipart_upload(Bucket=bucket, Key="mp", UploadId=upload)
        client.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": "k"}, {"Key": "mp"}]})
    owner = client.list_buckets(MaxBuckets=1)["Owner"]["ID"]
    version = client.head_object(Bucket=bucket, Key="k").get("VersionId", "null") if name != "DeleteBucket" else "null"
    arguments = {
        "Bucket": f"{bucket}-new" if name == "CreateBucket" else bucket,
        "UploadId": upload,
        "PartNumber": 1,
        "CopySource": {"Bucket": bucket, "Key": "mp"},
        "RenameSource": "/mp",
        "MultipartUpload": {"Parts": [{"ETag": part["ETag"], "PartNumber": 1}]},
        "ObjectAttributes": ["ETag", "Checksum", "ObjectParts", "StorageClass", "ObjectSize"],
        "Body": b"content",
        "VersionId": version,
        "AnnotationName": "x", "AnnotationPayload": b"text", "ObjectIfMatch": put["ETag"],
        "IfMatch": put["ETag"], "CopySourceIfMatch": put["ETag"], "SourceIfMatch": put["ETag"],
        "DestinationIfMatch": put["ETag"], "CopySourceRange": "bytes=0-1",
        "ExpectedBucketOwner": owner, "ExpectedSourceBucketOwner": owner,
        "Policy": DENIAL.replace("{bucket}", bucket),
    }  # fmt: skip
    return Scene(bucket, arguments)


def is_plain_read(name: str) -> bool:
    """Whether an operation changes nothing and needs no lock, so that it can share its scene."""
    return name.startswith(READS) and not any(word in name for word in LOCKS)


def is_body(name: str, member: str) -> bool:
    """Whether a parameter is in the body of the request."""
    return "location" not in members_of(name)[member].serialization


def minimal(name: str, scene: Scene) -> dict[str, Any]:
    """The arguments that an operation needs, and bodies, without which most writes say nothing."""
    shape = service_model().operation_model(name).input_shape
    wanted = [] if shape is None else list(shape.required_members)
    wanted += [m for m in members_of(name) if m in BODIES and m not in wanted and name != "CreateBucket"]
    if name == "CompleteMultipartUpload":
        wanted.append("MultipartUpload")
    if name in {"PutBucketAcl", "PutObjectAcl"}:
        wanted.append("ACL")
    return {member: argument(name, member, scene, full=False) for member in wanted}


def argument(name: str, member: str, scene: Scene, *, full: bool) -> Any:
    if member in BODIES:
        return filled(BODIES[member][full], scene)
    if member in scene.arguments:
        return scene.arguments[member]
    special = {
        "Key": "mp" if "UploadId" in members_of(name) or name == "CreateMultipartUpload" else "k",
        "Tagging": TAGS if "Tagging" in name else "a=b",
        "ACL": "private", "ObjectOwnership": "ObjectWriter", "EncodingType": "url", "ResponseContentType": "text/x",
        "WebsiteRedirectLocation": "/x", "IfUnmodifiedSince": LATER, "CopySourceIfUnmodifiedSince": LATER,
        "SourceIfUnmodifiedSince": LATER, "MetadataDirective": "REPLACE", "TaggingDirective": "REPLACE",
        "ChecksumMode": "ENABLED", "StorageClass": "STANDARD_IA", "BucketRegion": "us-east-1", "Prefix": "",
        "ServerSideEncryption": "aws:kms", "SSEKMSKeyId": "alias/orcas/s3", "SSEKMSEncryptionContext": "e30=",
        "MaxKeys": 1000, "StartAfter": "!", "Marker": "!", "KeyMarker": "!", "VersionIdMarker": "null",
        "UploadIdMarker": scene.arguments["UploadId"], "Delimiter": "/", "PartNumberMarker": 0,
    }  # fmt: skip
    return special[member] if member in special else value(members_of(name)[member], full=full)


def filled(body: Any, scene: Scene) -> Any:
    """A body with the names of the scene in it."""
    if isinstance(body, dict):
        return {name: filled(part, scene) for name, part in body.items()}
    if isinstance(body, list):
        return [filled(part, scene) for part in body]
    return (
        {"{etag}": scene.arguments["IfMatch"], "{bucket}": scene.bucket}.get(body, body)
        if isinstance(body, str)
        else body
    )


def ask(client: Any, name: str, arguments: dict[str, Any]) -> tuple[int, str, dict[str, Any]]:
    """Status, code of the error or nothing, and the answer."""
    try:
        answer = getattr(client, botocore.xform_name(name))(**arguments)
    except ClientError as error:
        return error.response["ResponseMetadata"]["HTTPStatusCode"], error.response["Error"]["Code"], {}
    if "Body" in answer:
        answer["Body"].read()
    status = answer["ResponseMetadata"]["HTTPStatusCode"]
    # botocore shows an empty LocationConstraint as None, and Expires twice.
    return (
        status,
        "",
        {member: part for member, part in answer.items() if part is not None and member != "ExpiresString"},
    )


def check(name: str, status: int, code: str, answer: dict[str, Any]) -> None:
    """What is built succeeds, or there is nothing to read; and the answer has the shape of the model."""
    operation = service_model().operation_model(name)
    if missing := CONFIGURATIONS.get(name):
        assert (status, code) == (404, missing)
        return
    assert status == operation.http.get("responseCode", status), code
    assert 200 <= status < 300, code
    # No checksum of content under a named key is kept.
    omitted = {"ChecksumCRC32", "ChecksumType"} if answer.get("ServerSideEncryption") == "aws:kms" else set()
    assert ALWAYS.get(name, set()) - omitted <= set(answer)
    if operation.output_shape is not None:
        assert list(flaws(operation.output_shape, answer)) == []


def test_the_tables_know_the_model() -> None:
    members = {member for name in OPERATIONS for member in members_of(name)}
    assert members >= REFUSED | WITHOUT_EFFECT | set(WRONG) | FREE | set(BODIES) | set(HARMLESS)
    assert not (set(WRONG) - set(HARMLESS)) & (REFUSED | FREE)
    assert set(OPERATIONS) >= set(ALWAYS) | set(REFUSED_BODIES) | set(REFUSED_BY)
    assert len(BUILT) >= 85


def strange(operation: Any, response: dict[str, Any]) -> Iterator[str]:
    """Elements and headers of a raw answer that the model does not have."""
    shape = operation.output_shape
    members = {} if shape is None else shape.members
    known = {m.serialization["name"].lower() for m in members.values() if m.serialization.get("location") == "header"}
    prefixes = tuple(
        m.serialization["name"].lower() for m in members.values() if m.serialization.get("location") == "headers"
    )
    for name in map(str.lower, response["headers"]):
        if name not in known | ANY_ANSWER | {ADDED.get(operation.name)} and not (
            prefixes and name.startswith(prefixes)
        ):
            yield f"header {name}"
    payload = shape and shape.serialization.get("payload")
    document = members[payload] if payload else shape
    is_document = document is not None and document.type_name == "structure" and not operation.has_streaming_output
    if response["body"] and is_document:
        yield from strange_elements(document, ET.fromstring(response["body"]))


def test_what_the_model_does_not_know_is_found() -> None:
    body = (
        "<R><Name>x</Name><Odd/><Contents><Key>k</Key><Odd/></Contents><CommonPrefixes><Prefix/></CommonPrefixes></R>"
    )
    response = {"headers": {"Date": "x", "x-odd": "x"}, "body": body}
    found = list(strange(service_model().operation_model("ListObjectsV2"), response))
    assert found == ["header x-odd", ".Odd", ".Contents.Odd"]
    # A list without its wrapper.
    response = {"headers": {}, "body": "<R><Bucket><Name>x</Name></Bucket></R>"}
    assert list(strange(service_model().operation_model("ListBuckets"), response)) == [".Bucket"]


@pytest.mark.parametrize("full", [False, True], ids=["least", "most"])
def test_every_operation(target: Target, full: bool) -> None:
    failed: list[str] = []
    client = target.client(**AS_THEY_ARE)

    def look(operation_model: Any, response_dict: dict[str, Any], **_: Any) -> None:
        if response_dict["status_code"] < 300:
            failed.extend(f"{operation_model.name}: {found}" for found in strange(operation_model, response_dict))

    client.meta.events.register("before-parse.s3", look)
    shared = make_scene(client, "GetObject")
    for name in OPERATIONS:
        scene = shared if name not in BUILT or is_plain_read(name) else make_scene(client, name)
        arguments = minimal(name, scene)
        if full:
            refused = set(refused_by(name)) if name in BUILT else set()
            more = [m for m in members_of(name) if m not in arguments or m in BODIES]
            more = [m for m in more if m not in refused | CONTRADICTORY and not m.startswith("Checksum")]
            arguments |= {member: argument(name, member, scene, full=True) for member in more}
        with collecting(failed, name, arguments):
            if name in FOREIGN:
                assert ask(client, name, arguments)[:2] == (400, "AuthorizationHeaderMalformed")
            elif name in UNBUILT:
                assert ask(client, name, arguments)[:2] == (501, "NotImplemented")
            elif name == "PutBucketReplication":
                # It needs a target on another server; tests/replication has some.
                assert ask(client, name, arguments)[:2] == (400, "InvalidArgument")
            else:
                check(name, *ask(client, name, arguments))
    assert not failed, "\n".join(failed)


def test_no_parameter_is_passed_over(target: Target) -> None:
    """A parameter that is read refuses a wrong value; one that is not implemented is refused by name."""
    failed: list[str] = []
    client = target.client(**AS_THEY_ARE)
    shared = make_scene(client, "GetObject")
    for name in BUILT:
        scene = shared if is_plain_read(name) else make_scene(client, name)
        least = minimal(name, scene)
        for member, shape in members_of(name).items():
            if member in FREE | set(BODIES) | WITHOUT_EFFECT or (member not in WRONG and member in least):
                continue
            refused = member in set(refused_by(name))
            if (is_body(name, member) and not refused) or (name, member) in IGNORED:
                continue
            with collecting(failed, name, member):
                assert refused or member in WRONG, "no table knows the parameter"
                wrong = WRONG[member] if member in WRONG and not refused else value(shape, full=True)
                wrong = dt.datetime.now(dt.UTC) if wrong is NOW else wrong
                status, code, _ = ask(client, name, least | {member: wrong})
                assert 300 <= status < 500 or (refused and (status, code) == (501, "NotImplemented")), (status, code)
    assert not failed, "\n".join(failed)


def test_parameters_without_effect(target: Target) -> None:
    failed: list[str] = []
    client = target.client(**AS_THEY_ARE)
    shared = make_scene(client, "GetObject")
    for name, member in itertools.product(BUILT, sorted(WITHOUT_EFFECT | set(HARMLESS))):
        if member not in members_of(name):
            continue
        scene = shared if is_plain_read(name) else make_scene(client, name)
        given = HARMLESS.get(member, value(members_of(name)[member], full=True))
        with collecting(failed, name, member):
            check(name, *ask(client, name, minimal(name, scene) | {member: given}))
    assert not failed, "\n".join(failed)


@pytest.mark.parametrize("name", REFUSED_BODIES)
def test_bodies_that_ask_for_what_is_not_built(target: Target, name: str) -> None:
    client = target.client(**AS_THEY_ARE)
    scene = make_scene(client, name)
    body = filled(REFUSED_BODIES[name], scene)
    assert ask(client, name, minimal(name, scene) | body)[:2] == (501, "NotImplemented")


@contextlib.contextmanager
def collecting(failed: list[str], *what: object) -> Iterator[None]:
    """Adds a call that fails to `failed`, so that one run shows all of them."""
    try:
        yield
    except FlexibleChecksumError:
        # botocore itself refuses the value.
        pass
    except AssertionError as error:
        failed.append(f"{what}: {error}")
