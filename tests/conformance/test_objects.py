"""Objects through boto3 over a real socket: what is put comes back, and what cannot be is refused by name."""

from __future__ import annotations

import base64
import hashlib
import io
import os
import socket
import urllib.error
import urllib.request
import zlib
from typing import Any

import pytest
from botocore.config import Config
from botocore.exceptions import ClientError

import orcas

pytestmark = pytest.mark.conformance

KIB = 1024
MIB = 1024 * KIB


def code_of(call: Any, **arguments: Any) -> tuple[str, int]:
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    response = caught.value.response
    assert response["ResponseMetadata"]["RequestId"]
    return response["Error"]["Code"], response["ResponseMetadata"]["HTTPStatusCode"]


@pytest.mark.parametrize("size", [0, 1, 256, 257, 8 * KIB + 1, 64 * KIB, 64 * KIB + 1, 4 * MIB + 1, 9 * MIB + 5])
def test_content_comes_back(s3: Any, bucket: str, size: int) -> None:
    content = os.urandom(size)
    put = s3.put_object(Bucket=bucket, Key="k", Body=content)
    assert put["ETag"] == f'"{hashlib.md5(content).hexdigest()}"'  # noqa: S324 - what an ETag is
    got = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert got["Body"].read() == content
    assert got["ContentLength"] == size
    assert got["ETag"] == put["ETag"]
    assert got["ChecksumCRC32"] == base64.b64encode(zlib.crc32(content).to_bytes(4, "big")).decode()
    head = s3.head_object(Bucket=bucket, Key="k")
    assert (head["ContentLength"], head["ETag"]) == (size, put["ETag"])


@pytest.mark.parametrize(
    "key", ["a b+c", "ümlaut/日本", "/lead//double/", "..", "%2F", "a\nb", "~!*'()&?#;=@", "k" * 1024]
)
def test_any_key_names_an_object(s3: Any, bucket: str, key: str) -> None:
    s3.put_object(Bucket=bucket, Key=key, Body=b"x")
    assert s3.get_object(Bucket=bucket, Key=key)["Body"].read() == b"x"
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]] == [key]
    s3.delete_object(Bucket=bucket, Key=key)
    assert code_of(s3.get_object, Bucket=bucket, Key=key) == ("NoSuchKey", 404)


def test_stored_headers_come_back_and_can_be_overridden(s3: Any, bucket: str) -> None:
    stored = {
        "ContentType": "text/plain; charset=utf-8",
        "ContentEncoding": "gzip",
        "ContentLanguage": "de",
        "ContentDisposition": 'attachment; filename="x"',
        "CacheControl": "no-store",
    }
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Metadata={"one": "1", "two": "zwei"}, **stored)
    head = s3.head_object(Bucket=bucket, Key="k")
    assert {name: head[name] for name in stored} == stored
    assert head["Metadata"] == {"one": "1", "two": "zwei"}
    got = s3.get_object(Bucket=bucket, Key="k", ResponseContentType="a/b", ResponseCacheControl="max-age=1")
    assert (got["ContentType"], got["CacheControl"], got["ContentLanguage"]) == ("a/b", "max-age=1", "de")


@pytest.mark.parametrize("size", [1000, 9 * MIB])
def test_ranges(s3: Any, bucket: str, size: int) -> None:
    content = os.urandom(size)
    s3.put_object(Bucket=bucket, Key="k", Body=content)
    for header, expected in [
        ("bytes=0-0", content[:1]),
        ("bytes=5-99", content[5:100]),
        (f"bytes={size - 10}-", content[-10:]),
        ("bytes=-7", content[-7:]),
        (f"bytes=10-{size * 2}", content[10:]),
    ]:
        got = s3.get_object(Bucket=bucket, Key="k", Range=header)
        assert got["ResponseMetadata"]["HTTPStatusCode"] == 206
        assert got["Body"].read() == expected, header
    whole = s3.get_object(Bucket=bucket, Key="k", Range="bytes=0-1,5-6")
    assert (whole["ResponseMetadata"]["HTTPStatusCode"], whole["Body"].read()) == (200, content)
    assert code_of(s3.get_object, Bucket=bucket, Key="k", Range=f"bytes={size}-") == ("InvalidRange", 416)


def test_reads_honour_conditions(s3: Any, bucket: str) -> None:
    tag = s3.put_object(Bucket=bucket, Key="k", Body=b"x")["ETag"]
    modified = s3.head_object(Bucket=bucket, Key="k")["LastModified"]
    assert s3.get_object(Bucket=bucket, Key="k", IfMatch=tag)["Body"].read() == b"x"
    assert code_of(s3.get_object, Bucket=bucket, Key="k", IfNoneMatch=tag) == ("304", 304)
    assert code_of(s3.get_object, Bucket=bucket, Key="k", IfModifiedSince=modified) == ("304", 304)
    assert code_of(s3.get_object, Bucket=bucket, Key="k", IfMatch='"0"') == ("PreconditionFailed", 412)
    assert code_of(s3.head_object, Bucket=bucket, Key="k", IfMatch='"0"') == ("412", 412)


def test_writes_honour_conditions(s3: Any, bucket: str) -> None:
    first = s3.put_object(Bucket=bucket, Key="k", Body=b"1", IfNoneMatch="*")["ETag"]
    assert code_of(s3.put_object, Bucket=bucket, Key="k", Body=b"2", IfNoneMatch="*") == ("PreconditionFailed", 412)
    assert code_of(s3.put_object, Bucket=bucket, Key="k", Body=b"2", IfMatch='"0"') == ("PreconditionFailed", 412)
    assert code_of(s3.put_object, Bucket=bucket, Key="none", Body=b"2", IfMatch=first) == ("NoSuchKey", 404)
    s3.put_object(Bucket=bucket, Key="k", Body=b"3", IfMatch=first)
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"3"
    assert code_of(s3.delete_object, Bucket=bucket, Key="k", IfMatch=first) == ("PreconditionFailed", 412)


@pytest.mark.parametrize("size", [1000, 9 * MIB])
def test_a_refused_upload_leaves_the_client_usable(s3: Any, bucket: str, size: int) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"kept")
    for body in (os.urandom(size), io.BytesIO(os.urandom(size))):
        refused = code_of(s3.put_object, Bucket=bucket, Key="k", Body=body, IfNoneMatch="*")
        assert refused == ("PreconditionFailed", 412)
        assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"kept"


@pytest.mark.parametrize("algorithm", ["CRC32", "CRC32C", "CRC64NVME", "SHA1", "SHA256"])
def test_checksums_are_verified_and_returned(s3: Any, bucket: str, algorithm: str) -> None:
    member = f"Checksum{algorithm}"
    if algorithm in ("CRC32", "SHA1", "SHA256"):
        put = s3.put_object(Bucket=bucket, Key="k", Body=b"content", ChecksumAlgorithm=algorithm)
        head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
        assert head[member] == put[member]
        assert head["ChecksumType"] == "FULL_OBJECT"
    length = {"CRC32": 4, "CRC32C": 4, "CRC64NVME": 8, "SHA1": 20, "SHA256": 32}[algorithm]
    wrong = base64.b64encode(bytes(length)).decode()
    refused = code_of(s3.put_object, Bucket=bucket, Key="wrong", Body=b"content", **{member: wrong})
    assert refused == ("BadDigest", 400)
    assert code_of(s3.get_object, Bucket=bucket, Key="wrong") == ("NoSuchKey", 404)


@pytest.mark.parametrize("size", [10, 100 * KIB])
def test_a_wrong_content_md5_stores_nothing(s3: Any, bucket: str, size: int) -> None:
    wrong = base64.b64encode(bytes(16)).decode()
    assert code_of(s3.put_object, Bucket=bucket, Key="k", Body=os.urandom(size), ContentMD5=wrong) == ("BadDigest", 400)
    assert code_of(s3.put_object, Bucket=bucket, Key="k", Body=b"x", ContentMD5="?") == ("InvalidDigest", 400)
    assert code_of(s3.get_object, Bucket=bucket, Key="k") == ("NoSuchKey", 404)


@pytest.mark.parametrize("size", [10, 9 * MIB])
def test_presigned_urls(server: orcas.Server, bucket: str, size: int) -> None:
    content = os.urandom(size)
    # boto3 still presigns with version 2 unless told otherwise.
    s3 = server.client(config=Config(signature_version="s3v4"))
    put = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "k"})
    urllib.request.urlopen(urllib.request.Request(put, data=content, method="PUT")).close()
    get = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"})
    with urllib.request.urlopen(get) as response:
        assert response.read() == content
    for url in (get.replace("/k?", "/l?"), f"{server.endpoint}/{bucket}/k"):
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.urlopen(url)
        assert caught.value.code == 403
        caught.value.close()


def test_unsigned_payloads_and_virtual_hosts(
    server: orcas.Server, bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Not every resolver knows that names under localhost are this machine (RFC 6761, section 6.3).
    resolve = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda _host, *rest, **named: resolve("127.0.0.1", *rest, **named))
    options = {"addressing_style": "virtual", "payload_signing_enabled": False}
    endpoint = server.endpoint.replace("127.0.0.1", "localhost")
    client = server.client(endpoint_url=endpoint, config=Config(s3=options, retries={"total_max_attempts": 1}))
    content = os.urandom(3 * MIB)
    client.put_object(Bucket=bucket, Key="dir/k", Body=content)
    assert client.get_object(Bucket=bucket, Key="dir/k")["Body"].read() == content


def test_strangers_are_refused(server: orcas.Server, bucket: str) -> None:
    wrong_secret = server.client(aws_secret_access_key="wrong")
    assert code_of(wrong_secret.list_objects_v2, Bucket=bucket) == ("SignatureDoesNotMatch", 403)
    nobody = server.client(aws_access_key_id="NOBODY")
    assert code_of(nobody.list_objects_v2, Bucket=bucket) == ("InvalidAccessKeyId", 403)


def test_expected_owners(s3: Any, bucket: str) -> None:
    assert code_of(s3.list_objects_v2, Bucket=bucket, ExpectedBucketOwner="1" * 12) == ("AccessDenied", 403)
    owner = s3.list_buckets()["Owner"]["ID"]
    s3.list_objects_v2(Bucket=bucket, ExpectedBucketOwner=owner)


def test_what_is_not_built_says_so(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert code_of(s3.get_bucket_policy, Bucket=bucket) == ("NotImplemented", 501)
    assert code_of(s3.get_object_acl, Bucket=bucket, Key="k") == ("NotImplemented", 501)
    refused = code_of(s3.put_object, Bucket=bucket, Key="e", Body=b"x", ServerSideEncryption="aws:kms")
    assert refused == ("NotImplemented", 501)
    assert code_of(s3.get_object, Bucket=bucket, Key="e") == ("NoSuchKey", 404)


def test_copies(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="from", Body=b"content", Metadata={"a": "1"}, ContentType="x/y")
    source = {"Bucket": bucket, "Key": "from"}
    copied = s3.copy_object(Bucket=bucket, Key="to", CopySource=source)["CopyObjectResult"]
    head = s3.head_object(Bucket=bucket, Key="to")
    assert (head["ETag"], head["Metadata"], head["ContentType"]) == (copied["ETag"], {"a": "1"}, "x/y")
    s3.copy_object(Bucket=bucket, Key="to", CopySource=source, MetadataDirective="REPLACE", Metadata={"b": "2"})
    assert s3.head_object(Bucket=bucket, Key="to")["Metadata"] == {"b": "2"}
    hashed = s3.copy_object(Bucket=bucket, Key="to", CopySource=source, ChecksumAlgorithm="SHA256")["CopyObjectResult"]
    assert hashed["ChecksumSHA256"] == base64.b64encode(hashlib.sha256(b"content").digest()).decode()
    assert code_of(s3.copy_object, Bucket=bucket, Key="from", CopySource=source) == ("InvalidRequest", 400)
    missing = {"Bucket": bucket, "Key": "missing"}
    assert code_of(s3.copy_object, Bucket=bucket, Key="to", CopySource=missing) == ("NoSuchKey", 404)
    refused = code_of(s3.copy_object, Bucket=bucket, Key="to", CopySource=source, CopySourceIfMatch='"0"')
    assert refused == ("PreconditionFailed", 412)


def test_moves_are_atomic_and_cross_buckets(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="from", Body=b"content", Metadata={"a": "1"})
    s3.rename_object(Bucket=bucket, Key="renamed", RenameSource="from")
    assert code_of(s3.get_object, Bucket=bucket, Key="from") == ("NoSuchKey", 404)
    other = f"{bucket[:40]}-other"
    s3.create_bucket(Bucket=other)

    def as_move(request: Any, **_: Any) -> None:
        request.headers["x-amz-move-source"] = f"{bucket}/renamed"

    s3.meta.events.register_first("before-sign.s3.PutObject", as_move)
    try:
        s3.put_object(Bucket=other, Key="moved")
    finally:
        s3.meta.events.unregister("before-sign.s3.PutObject", as_move)
    assert code_of(s3.head_object, Bucket=bucket, Key="renamed") == ("404", 404)
    moved = s3.get_object(Bucket=other, Key="moved")
    assert (moved["Body"].read(), moved["Metadata"]) == (b"content", {"a": "1"})
