"""What the second pair of golden stores holds beyond the first, and what a server says about it.

Every kind of bucket document, access control lists, annotations, appends, snapshots and forks, keys of the keyring and of
clients, quotas, events with a target that cannot be reached, and what a lifecycle rule removed.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

from tests.fixtures.checksums import ALGORITHMS
from tests.fixtures.events.receivers import SECRET
from tests.fixtures.keys import admin, create_key, key_ids
from tests.fixtures.targets import Target, content_of

import orcas.events

# Of the objects in the bucket of this name.
CUSTOMER: Final = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": bytes(range(1, 33)).decode("latin-1")}
# Nobody listens there, and one attempt is made.
TARGETS: Final = f'[hook]\ntype = "webhook"\nurl = "http://127.0.0.1:9/"\nsecret = "{SECRET}"\nattempts = 1\n'
EVENTS: Final = [("ObjectCreated:Put", "n/1"), ("ObjectCreated:Put", "n/2"), ("ObjectRemoved:Delete", "n/1")]
PAST: Final = datetime(2020, 1, 1, tzinfo=UTC)
LIFECYCLE: Final = [
    {"ID": "past", "Status": "Enabled", "Filter": {"Prefix": "old/"}, "Expiration": {"Date": PAST}},
    {
        "ID": "all", "Status": "Disabled", "Filter": {"And": {"Prefix": "x", "Tags": [{"Key": "k", "Value": "v"}]}},
        "NoncurrentVersionExpiration": {"NoncurrentDays": 9, "NewerNoncurrentVersions": 2},
    },
    {
        "ID": "uploads", "Status": "Enabled", "Filter": {"Prefix": ""},
        "AbortIncompleteMultipartUpload": {"DaysAfterInitiation": 9},
    },
]  # fmt: skip
# By the end of the name of the calls that put and get them.
DOCUMENTS: Final[dict[str, dict[str, Any]]] = {
    "cors": {"CORSConfiguration": {"CORSRules": [
        {"ID": "one", "AllowedMethods": ["GET", "PUT"], "AllowedOrigins": ["https://*.example.com"],
         "AllowedHeaders": ["x-*"], "ExposeHeaders": ["etag"], "MaxAgeSeconds": 60},
    ]}},
    "tagging": {"Tagging": {"TagSet": [{"Key": "öl", "Value": ""}]}},
    "request_payment": {"RequestPaymentConfiguration": {"Payer": "BucketOwner"}},
    "ownership_controls": {"OwnershipControls": {"Rules": [{"ObjectOwnership": "BucketOwnerEnforced"}]}},
    "accelerate_configuration": {"AccelerateConfiguration": {"Status": "Suspended"}},
    "lifecycle_configuration": {"LifecycleConfiguration": {"Rules": LIFECYCLE}},
    "website": {"WebsiteConfiguration": {
        "IndexDocument": {"Suffix": "index.html"}, "ErrorDocument": {"Key": "error.html"},
        "RoutingRules": [{"Condition": {"KeyPrefixEquals": "a/"}, "Redirect": {"ReplaceKeyPrefixWith": "b/"}}],
    }},
    "encryption": {"ServerSideEncryptionConfiguration": {"Rules": [
        {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}},
    ]}},
    "notification_configuration": {"NotificationConfiguration": {"QueueConfigurations": [
        {"Id": "some", "QueueArn": "arn:minio:sqs::hook:webhook", "Events": ["s3:ObjectCreated:*"],
         "Filter": {"Key": {"FilterRules": [{"Name": "Prefix", "Value": "n/"}]}}},
    ]}},
    "logging": {"BucketLoggingStatus": {"LoggingEnabled": {"TargetBucket": "logs", "TargetPrefix": "log/"}}},
}  # fmt: skip
# Stores before there were policies have none.
POLICY: Final = json.dumps({"Version": "2012-10-17", "Statement": [
    {"Sid": "One", "Effect": "Deny", "Principal": "*", "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::documents/x/*",
     "Condition": {"StringNotLike": {"aws:username": ["öl*"]}}},
]})  # fmt: skip
BLOCK: Final = {
    "BlockPublicAcls": True, "IgnorePublicAcls": False, "BlockPublicPolicy": True, "RestrictPublicBuckets": False
}  # fmt: skip
BUCKETS: Final = [
    "appended", "buffered", "customer", "documents", "layered", "logs", "named", "unsafe", "whole", "years"
]  # fmt: skip


@contextlib.contextmanager
def targets_file(directory: Path) -> Iterator[dict[str, object]]:
    """The settings of a server that knows the target of the notifications."""
    path = directory / "targets.toml"
    path.write_text(TARGETS, encoding="utf-8")
    yield {"event_targets_file": str(path)}
    path.unlink()


def body_of(key: str) -> bytes:
    """The content of the object of this key: its length is in it."""
    return content_of(key, int(key.rsplit("-", 1)[1]))


def fill(target: Target) -> dict[str, Any]:
    """Write it all. The server has the target, a keyring and small chunks."""
    client = target.client()
    key = create_key(target, "golden")
    for name in BUCKETS:
        client.create_bucket(Bucket=name, **({"ObjectLockEnabledForBucket": True} if name == "years" else {}))
    default = {"Mode": "COMPLIANCE", "Years": 1}
    configuration = {"ObjectLockEnabled": "Enabled", "Rule": {"DefaultRetention": default}}
    client.put_object_lock_configuration(Bucket="years", ObjectLockConfiguration=configuration)
    for name, durability in (("unsafe", "unsafe-none"), ("buffered", "buffered"), ("logs", "sync")):
        headers = {"x-amz-orcas-durability": durability, "x-amz-orcas-chunking": "fixed"}
        assert target.wire("PUT", f"/{name}", "orcas-settings", headers=headers).status == 200
    fill_documents(target)
    fill_named(client, key)
    fill_customer(client)
    fill_layers(target)
    client.put_object(Bucket="appended", Key="appended", Body=b"begin")
    client.put_object(Bucket="appended", Key="appended", Body=b" and end", WriteOffsetBytes=5)
    annotate(client, "appended", "appended")
    fill_whole(client)
    fill_shared(client)
    return described(target)


def fill_documents(target: Target) -> None:
    """Every kind of document, events that notifications are about, and a rule that removes something."""
    client = target.client()
    for name, document in DOCUMENTS.items():
        getattr(client, f"put_bucket_{name}")(Bucket="documents", **document)
    client.put_public_access_block(Bucket="documents", PublicAccessBlockConfiguration=BLOCK)
    client.put_bucket_policy(Bucket="documents", Policy=POLICY)
    # A document that was removed keeps its record.
    client.put_bucket_tagging(Bucket="logs", **DOCUMENTS["tagging"])
    client.delete_bucket_tagging(Bucket="logs")
    owner = client.list_buckets()["Owner"]["ID"]
    admin(target, "PUT", "quotas", {"bucket": "documents", "bytes": 1 << 40, "objects": 1_000_000})
    admin(target, "PUT", "quotas", {"owner": owner, "bytes": 1 << 50})
    for key in ("n/1", "n/2"):
        client.put_object(Bucket="documents", Key=key, Body=b"event")
    client.delete_object(Bucket="documents", Key="n/1")
    wait_until(lambda: admin(target, "GET", "targets/hook/dead")["count"] == 2)
    client.put_object(Bucket="documents", Key="old/1", Body=b"expires")
    job = admin(target, "POST", "lifecycle/run")["id"]
    wait_until(lambda: admin(target, "GET", f"jobs/{job}")["state"] == "done")
    assert "Contents" not in client.list_objects_v2(Bucket="documents", Prefix="old/")


def fill_named(client: Any, name: str) -> None:
    """Objects under a named key: in a record of content, in a chunk, in parts, and an upload that is open."""
    named = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": name}
    more = {"BucketKeyEnabled": True, "SSEKMSEncryptionContext": "eyJhIjogImIifQ=="}
    client.put_bucket_versioning(Bucket="named", VersioningConfiguration={"Status": "Enabled"})
    for key in ("small-100", "content-900", "chunk-1500"):
        client.put_object(Bucket="named", Key=key, Body=body_of(key), **named, **more)
    client.put_object(Bucket="named", Key="small-100", Body=body_of("small-100"), ServerSideEncryption="AES256")
    annotate(client, "named", "content-900")
    place = {"Bucket": "named", "Key": "parts-700"}
    place["UploadId"] = client.create_multipart_upload(**place, **named)["UploadId"]
    part = client.upload_part(**place, PartNumber=1, Body=body_of("parts-700"))
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    client.complete_multipart_upload(**place, MultipartUpload=parts)
    place = {"Bucket": "named", "Key": "open"}
    place["UploadId"] = client.create_multipart_upload(**place, **named)["UploadId"]
    client.upload_part(**place, PartNumber=1, Body=b"so far")


def fill_customer(client: Any) -> None:
    """The same with a key that each request brings."""
    for key in ("small-101", "content-901", "chunk-1501"):
        client.put_object(Bucket="customer", Key=key, Body=body_of(key), **CUSTOMER)
    place = {"Bucket": "customer", "Key": "parts-701"}
    place["UploadId"] = client.create_multipart_upload(**place, **CUSTOMER)["UploadId"]
    part = client.upload_part(**place, PartNumber=1, Body=body_of("parts-701"), **CUSTOMER)
    parts = {"Parts": [{"PartNumber": 1, "ETag": part["ETag"]}]}
    client.complete_multipart_upload(**place, MultipartUpload=parts, **CUSTOMER)
    place = {"Bucket": "customer", "Key": "open"}
    place["UploadId"] = client.create_multipart_upload(**place, **CUSTOMER)["UploadId"]
    client.upload_part(**place, PartNumber=1, Body=b"so far", **CUSTOMER)


def fill_layers(target: Target) -> None:
    """Snapshots, of which one was deleted, a fork, a key that a layer hides, and a bucket that was restored."""
    client = target.client()
    keys = ("first-90", "second-300", "third-1100")
    for key in keys:
        client.put_object(Bucket="layered", Key=key, Body=body_of(key))
    admin(target, "POST", "buckets/layered/snapshots", {"name": "one"})
    client.delete_object(Bucket="layered", Key="first-90")
    client.put_object(Bucket="layered", Key="fourth-80", Body=body_of("fourth-80"))
    admin(target, "POST", "buckets/layered/snapshots", {"name": "two"})
    admin(target, "POST", "buckets/layered/fork", {"name": "forked", "snapshot": "one"})
    client.put_object(Bucket="forked", Key="fifth-70", Body=body_of("fifth-70"))
    client.put_object(Bucket="layered", Key="sixth-60", Body=body_of("sixth-60"))
    admin(target, "POST", "buckets/layered/restore", {"snapshot": "two"})
    admin(target, "POST", "buckets/layered/snapshots", {"name": "three"})
    admin(target, "DELETE", "buckets/layered/snapshots/three")


def fill_whole(client: Any) -> None:
    """The header that objects of the first pair lack, and an open upload for each algorithm of checksums."""
    client.put_object(
        Bucket="whole", Key="expires-50", Body=body_of("expires-50"), Expires=datetime(2100, 1, 1, tzinfo=UTC)
    )
    for algorithm in ALGORITHMS:
        client.create_multipart_upload(Bucket="whole", Key=algorithm, ChecksumAlgorithm=algorithm)


def fill_shared(client: Any) -> None:
    """Lists of a bucket, of objects, one of which was changed and one copied, and of an open upload."""
    client.create_bucket(Bucket="shared", ObjectOwnership="ObjectWriter")
    client.delete_public_access_block(Bucket="shared")
    client.put_bucket_acl(Bucket="shared", ACL="public-read")
    client.put_object(Bucket="shared", Key="private", Body=b"private")
    client.put_object(Bucket="shared", Key="changed", Body=b"changed", ACL="public-read", Tagging="a=b")
    client.put_object_acl(Bucket="shared", Key="changed", ACL="authenticated-read")
    client.copy_object(Bucket="shared", Key="copied", CopySource="shared/changed", ACL="public-read-write")
    client.create_multipart_upload(Bucket="shared", Key="open", ACL="public-read")


def annotate(client: Any, bucket: str, key: str) -> None:
    """Texts beside an object, of which one is long."""
    for name, text in (("short", b"a text"), ("long", b"another " * 60)):
        client.put_object_annotation(Bucket=bucket, Key=key, AnnotationName=name, AnnotationPayload=text)


def wait_until(done: Callable[[], bool], seconds: float = 30) -> None:
    """Return as soon as it is so."""
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        time.sleep(0.05)


def described(target: Target) -> dict[str, Any]:
    """What the server says of all this, as in the manifest."""
    client = target.client()
    # What arrives in the bucket of logs, and when, is not of the store.
    names = [name for name in (*BUCKETS, "forked") if name != "logs"]
    found = {
        "buckets": sorted([*BUCKETS, "forked"]),
        "documents": documents_of(client, "documents"),
        "lock": plain(client.get_object_lock_configuration(Bucket="years")),
        "objects": {name: objects_of(client, name) for name in names},
        "annotations": {key: annotations_of(client, *key.split("/")) for key in ("appended/appended", "named/content-900")},
        "uploads": {name: uploads_of(client, name) for name in names},
        "snapshots": {name: admin(target, "GET", f"buckets/{name}/snapshots") for name in ("layered", "forked", "whole")},
        "keys": key_ids(target),
        "quotas": admin(target, "GET", "quotas"),
        "events": events_of(client),
    }  # fmt: skip
    # Stores before there were access control lists have no such bucket.
    with contextlib.suppress(client.exceptions.NoSuchBucket):
        found["lists"] = lists_of(client, "shared")
        found["buckets"] = sorted([*found["buckets"], "shared"])
    return found


def plain(answer: Any) -> Any:
    """An answer of boto3 as JSON has it."""
    if isinstance(answer, dict):
        return {name: plain(value) for name, value in answer.items() if name != "ResponseMetadata"}
    if isinstance(answer, list):
        return [plain(value) for value in answer]
    return answer.isoformat() if isinstance(answer, datetime) else answer


def documents_of(client: Any, bucket: str) -> dict[str, Any]:
    found = {name: plain(getattr(client, f"get_bucket_{name}")(Bucket=bucket)) for name in DOCUMENTS}
    with contextlib.suppress(client.exceptions.from_code("NoSuchBucketPolicy")):
        found["policy"] = plain(client.get_bucket_policy(Bucket=bucket))
    return found | {"public_access_block": plain(client.get_public_access_block(Bucket=bucket))}


def objects_of(client: Any, bucket: str) -> list[dict[str, Any]]:
    """Every version, with its content and whose keys encrypt it."""
    found = []
    keys = CUSTOMER if bucket == "customer" else {}
    for one in client.list_object_versions(Bucket=bucket).get("Versions", []):
        place = {"Bucket": bucket, "Key": one["Key"], "VersionId": one["VersionId"]}
        answer = plain({**client.get_object(**place, **keys)})
        content = answer.pop("Body").read()
        found.append({"key": one["Key"], "sha256": hashlib.sha256(content).hexdigest(), **answer})
    return found


def lists_of(client: Any, bucket: str) -> dict[str, Any]:
    """The access control lists of a bucket and of its objects, and what else it has."""
    keys = [one["Key"] for one in client.list_objects_v2(Bucket=bucket)["Contents"]]
    return {
        "bucket": plain(client.get_bucket_acl(Bucket=bucket)),
        "objects": {key: plain(client.get_object_acl(Bucket=bucket, Key=key)) for key in keys},
        "tags": plain(client.get_object_tagging(Bucket=bucket, Key="changed")),
        "uploads": uploads_of(client, bucket),
    }


def annotations_of(client: Any, bucket: str, key: str) -> dict[str, str]:
    names = [one["AnnotationName"] for one in client.list_object_annotations(Bucket=bucket, Key=key)["Annotations"]]
    place = {"Bucket": bucket, "Key": key}
    return {
        name: client.get_object_annotation(**place, AnnotationName=name)["AnnotationPayload"].read().decode()
        for name in names
    }


def uploads_of(client: Any, bucket: str) -> list[Any]:
    """The open uploads and their parts."""
    found = []
    for one in client.list_multipart_uploads(Bucket=bucket).get("Uploads", []):
        parts = client.list_parts(Bucket=bucket, Key=one["Key"], UploadId=one["UploadId"]).get("Parts", [])
        found.append([one["Key"], one["UploadId"], plain(parts)])
    return found


def events_of(client: Any) -> list[list[Any]]:
    """The events of the journal that the notifications were about, and one more."""
    listener = orcas.events.listen(client, buckets=["documents"], prefix="n/", start="oldest")
    with contextlib.closing(listener):
        found = [next(listener) for _ in EVENTS]
    return [[event.name, event.key, event.id] for event in found]


def check_content(said: dict[str, Any]) -> None:
    """The contents are those that were written."""
    sums = {one["key"]: one["sha256"] for held in said["objects"].values() for one in held}
    assert sums.pop("appended") == hashlib.sha256(b"begin and end").hexdigest()
    assert sums.pop("n/2") == hashlib.sha256(b"event").hexdigest()
    assert sums == {key: hashlib.sha256(body_of(key)).hexdigest() for key in sums}
    assert {"chunk-1500", "chunk-1501", "third-1100", "fifth-70"} < set(sums)
    assert "sixth-60" not in sums
    assert [event[:2] for event in said["events"]] == [list(event) for event in EVENTS]
    assert [len(texts) for texts in said["annotations"].values()] == [2, 2]
    assert [one["name"] for one in said["snapshots"]["layered"]["snapshots"]] == ["one", "two"]
