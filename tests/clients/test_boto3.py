"""Idioms of boto3 beyond single operations: resources, managed transfers, waiters, paginators, exceptions."""

from __future__ import annotations

import io
import threading
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError, WaiterError
from tests.fixtures.clients import AWKWARD, MANY, WRONG_SECRET
from tests.fixtures.targets import MIB, Target, content, keys_of, read, refusal

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]

IN_PARTS = TransferConfig(multipart_threshold=8 * MIB, multipart_chunksize=5 * MIB, max_concurrency=4)


@pytest.fixture
def resource(target: Target) -> Any:
    """A resource as users have it."""
    return target.server.resource()


@pytest.fixture
def box(resource: Any, bucket: str) -> Any:
    """The resource of an empty bucket."""
    return resource.Bucket(bucket)


def test_all_objects_of_a_bucket_are_deleted(box: Any, s3: Any, listed: str) -> None:
    keys = [*AWKWARD, *(f"many/{number}" for number in range(MANY))]
    source = {"Bucket": listed, "Key": "page/0000"}
    for key in keys:
        box.Object(key).copy_from(CopySource=source)
    assert sum(1 for _ in box.objects.all()) == len(keys)
    assert [entry.key for entry in box.objects.filter(Prefix="many/").limit(3)] == ["many/0", "many/1", "many/10"]
    deleted = [entry["Key"] for answer in box.objects.all().delete() for entry in answer["Deleted"]]
    assert sorted(deleted) == sorted(keys)
    assert keys_of(s3, box.name) == []
    box.delete()


def test_all_versions_of_a_bucket_are_deleted(box: Any) -> None:
    box.Versioning().enable()
    for key in AWKWARD:
        for body in (b"1", b"2"):
            box.put_object(Key=key, Body=body)
        box.Object(key).delete()
    versions = list(box.object_versions.all())
    assert len(versions) == 3 * len(AWKWARD)
    first = next(version for version in versions if version.object_key == "a b" and version.size == 1)
    assert first.get()["Body"].read() in {b"1", b"2"}
    box.object_versions.delete()
    assert list(box.object_versions.all()) == []
    box.delete()


@pytest.mark.parametrize("key", AWKWARD)
def test_managed_transfers(box: Any, s3: Any, key: str, tmp_path: Path) -> None:
    data = content(12 * MIB + 1)
    extra = {"Metadata": {"m": "1"}, "ContentType": "x/y", "Tagging": "a=1&b=2"}
    box.upload_fileobj(io.BytesIO(data), key, ExtraArgs=extra, Config=IN_PARTS)
    head = s3.head_object(Bucket=box.name, Key=key)
    assert (head["Metadata"], head["ContentType"], head["ETag"][-3:]) == ({"m": "1"}, "x/y", '-3"')
    assert head["TagCount"] == 2
    box.download_file(key, str(tmp_path / "file"), Config=IN_PARTS)
    assert (tmp_path / "file").read_bytes() == data
    # Above the threshold, a copy is made of parts.
    box.copy({"Bucket": box.name, "Key": key}, "copy", Config=IN_PARTS)
    into = io.BytesIO()
    box.download_fileobj("copy", into, Config=IN_PARTS)
    assert into.getvalue() == data


def test_waiters(s3: Any, bucket: str) -> None:
    quick = {"Delay": 1, "MaxAttempts": 20}
    later = threading.Timer(0.5, lambda: s3.put_object(Bucket=bucket, Key="k", Body=b"x"))
    later.start()
    s3.get_waiter("object_exists").wait(Bucket=bucket, Key="k", WaiterConfig=quick)
    later.join()
    with pytest.raises(WaiterError):
        s3.get_waiter("object_not_exists").wait(Bucket=bucket, Key="k", WaiterConfig={"Delay": 0, "MaxAttempts": 2})
    s3.delete_object(Bucket=bucket, Key="k")
    s3.get_waiter("object_not_exists").wait(Bucket=bucket, Key="k", WaiterConfig=quick)
    s3.get_waiter("bucket_exists").wait(Bucket=bucket, WaiterConfig=quick)
    s3.delete_bucket(Bucket=bucket)
    s3.get_waiter("bucket_not_exists").wait(Bucket=bucket, WaiterConfig=quick)


def test_paginators(s3: Any, bucket: str, listed: str) -> None:
    expected = [f"page/{number:04}" for number in range(MANY)]
    for operation in ("list_objects", "list_objects_v2"):
        pages = list(s3.get_paginator(operation).paginate(Bucket=listed))
        assert len(pages) == 2
        assert [entry["Key"] for page in pages for entry in page["Contents"]] == expected
    versions = s3.get_paginator("list_object_versions").paginate(Bucket=listed, PaginationConfig={"PageSize": 300})
    assert [entry["Key"] for entry in versions.search("Versions[]")] == expected
    prefixes = s3.get_paginator("list_objects_v2").paginate(Bucket=listed, Delimiter="/")
    assert [entry["Prefix"] for entry in prefixes.search("CommonPrefixes[]")] == ["page/"]
    uploads = [s3.create_multipart_upload(Bucket=bucket, Key=f"u{number}")["UploadId"] for number in range(5)]
    for number in range(1, 6):
        s3.upload_part(Bucket=bucket, Key="u0", UploadId=uploads[0], PartNumber=number, Body=b"x")
    found = s3.get_paginator("list_multipart_uploads").paginate(Bucket=bucket, PaginationConfig={"PageSize": 2})
    assert [entry["UploadId"] for entry in found.search("Uploads[]")] == uploads
    parts = s3.get_paginator("list_parts").paginate(
        Bucket=bucket, Key="u0", UploadId=uploads[0], PaginationConfig={"PageSize": 2}
    )
    assert [entry["PartNumber"] for entry in parts.search("Parts[]")] == [1, 2, 3, 4, 5]


def test_conditional_writes(s3: Any, bucket: str) -> None:
    tag = s3.put_object(Bucket=bucket, Key="k", Body=b"1", IfNoneMatch="*")["ETag"]
    assert refusal(s3.put_object, Bucket=bucket, Key="k", Body=b"2", IfNoneMatch="*") == (412, "PreconditionFailed")
    s3.put_object(Bucket=bucket, Key="k", Body=b"3", IfMatch=tag)
    assert refusal(s3.put_object, Bucket=bucket, Key="k", Body=b"4", IfMatch=tag) == (412, "PreconditionFailed")
    assert read(s3, bucket, "k") == b"3"


def test_exceptions(target: Target, s3: Any, bucket: str) -> None:
    with pytest.raises(s3.exceptions.NoSuchKey):
        s3.get_object(Bucket=bucket, Key="none")
    with pytest.raises(s3.exceptions.NoSuchBucket):
        s3.get_object(Bucket=f"{bucket}-none", Key="k")
    # In us-east-1, as on S3, it is a success unless the request asks for settings.
    s3.create_bucket(Bucket=bucket)
    with pytest.raises(s3.exceptions.BucketAlreadyOwnedByYou):
        s3.create_bucket(Bucket=bucket, ObjectOwnership="ObjectWriter")
    with pytest.raises(s3.exceptions.NoSuchUpload):
        s3.abort_multipart_upload(Bucket=bucket, Key="k", UploadId="none")
    assert refusal(s3.head_object, Bucket=bucket, Key="none") == (404, "404")
    server = target.server
    for names, code in (
        ({"aws_secret_access_key": WRONG_SECRET}, "SignatureDoesNotMatch"),
        ({"aws_access_key_id": "nobody"}, "InvalidAccessKeyId"),
    ):
        keys = {"aws_access_key_id": server.access_key, "aws_secret_access_key": server.secret_key} | names
        with pytest.raises(ClientError) as caught:
            server.client(**keys).list_objects_v2(Bucket=bucket)
        assert caught.value.response["Error"]["Code"] == code
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403


@pytest.mark.parametrize("key", AWKWARD)
@pytest.mark.parametrize("version", ["s3v4", "s3"])
def test_presigned_addresses(target: Target, bucket: str, key: str, version: str) -> None:
    client = target.client(signature_version=version)
    names = {"Bucket": bucket, "Key": key}
    put = urllib.request.Request(
        client.generate_presigned_url("put_object", Params=names), data=b"content", method="PUT",
        headers={"Content-Type": ""},
    )  # fmt: skip
    with urllib.request.urlopen(put, timeout=30) as response:
        assert response.status == 200
    with urllib.request.urlopen(client.generate_presigned_url("get_object", Params=names), timeout=30) as response:
        assert response.read() == b"content"
