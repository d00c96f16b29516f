"""Objects encrypted at rest with keys of the server (SSE-S3), as clients and as thieves of the disk see them."""

from __future__ import annotations

import base64
import hashlib
import io
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.fixtures.commands import command, document
from tests.fixtures.forms import multipart, post, signed_form
from tests.fixtures.targets import MIB, Target, content, read, refusal, running

import orcas

pytestmark = pytest.mark.conformance

KEY: Final = base64.b64encode(bytes(range(32))).decode()
BLOCK: Final = 64 * 1024
SSE: Final = {"ServerSideEncryption": "AES256"}
# Inline, a content of one block, of several, and chunks.
SIZES: Final = (0, 1, 256, 257, BLOCK - 1, BLOCK, BLOCK + 1, 300_000, 5 * MIB + 3)
DEFAULT: Final = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}


@pytest.fixture(scope="module", params=["disk", "memory", "chunked"])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    data = None if request.param == "memory" else tmp_path_factory.mktemp("store") / "data"
    small = {"chunk_size": BLOCK, "max_batch_write_file_size": 1024} if request.param == "chunked" else {}
    with running(data, master_key=KEY, **small) as target:
        yield target


def encryption_of(s3: Any, bucket: str, key: str) -> str | None:
    found: str | None = s3.head_object(Bucket=bucket, Key=key).get("ServerSideEncryption")
    return found


@pytest.mark.parametrize("size", SIZES)
def test_a_body_of_any_size_and_its_ranges(s3: Any, bucket: str, size: int) -> None:
    body = content(size)
    put = s3.put_object(Bucket=bucket, Key="k", Body=body, **SSE)
    assert (put["ServerSideEncryption"], put["ETag"]) == (
        "AES256",
        f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"',
    )
    got = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert (got["ServerSideEncryption"], got["ETag"], got["Body"].read()) == ("AES256", put["ETag"], body)
    assert encryption_of(s3, bucket, "k") == "AES256"
    edges = [0, 1, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK, size // 2, size - 1]
    for first in (edge for edge in edges if 0 <= edge < size):
        for last in (edge for edge in edges if first <= edge < size):
            part = s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={first}-{last}")
            assert part["Body"].read() == body[first : last + 1], (first, last)


def test_what_does_not_ask_stays_as_it_is(s3: Any, bucket: str) -> None:
    for size in (10, 100_000):
        assert "ServerSideEncryption" not in s3.put_object(Bucket=bucket, Key=f"{size}", Body=content(size))
        assert encryption_of(s3, bucket, f"{size}") is None


def test_uploads_in_parts(s3: Any, bucket: str) -> None:
    created = s3.create_multipart_upload(Bucket=bucket, Key="k", **SSE)
    assert created["ServerSideEncryption"] == "AES256"
    upload = {"Bucket": bucket, "Key": "k", "UploadId": created["UploadId"]}
    bodies = [content(5 * MIB, 1), content(5 * MIB + 1, 2), content(3, 3)]
    parts = []
    for number, body in enumerate(bodies[:1] + bodies[2:], 1):
        put = s3.upload_part(**upload, PartNumber=2 * number - 1, Body=body)
        assert put["ServerSideEncryption"] == "AES256"
        parts.append({"PartNumber": 2 * number - 1, "ETag": put["ETag"]})
    # From an object that is not encrypted, so its bytes are stored anew.
    s3.put_object(Bucket=bucket, Key="plain", Body=b"x" + bodies[1])
    source = {"Bucket": bucket, "Key": "plain"}
    copied = s3.upload_part_copy(**upload, PartNumber=2, CopySource=source, CopySourceRange=f"bytes=1-{5 * MIB + 1}")
    assert copied["ServerSideEncryption"] == "AES256"
    parts.insert(1, {"PartNumber": 2, "ETag": copied["CopyPartResult"]["ETag"]})
    done = s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    assert done["ServerSideEncryption"] == "AES256"
    assert read(s3, bucket, "k") == b"".join(bodies)
    assert s3.get_object(Bucket=bucket, Key="k", PartNumber=3)["Body"].read() == bodies[2]


@pytest.mark.parametrize("size", [100, 70_000, 5 * MIB])
def test_copies_between_what_is_encrypted_and_what_is_not(s3: Any, bucket: str, size: int) -> None:
    body = content(size)
    s3.put_object(Bucket=bucket, Key="plain", Body=body)
    s3.put_object(Bucket=bucket, Key="sealed", Body=body, **SSE)
    for source, options, expected in [
        ("plain", {}, None), ("plain", SSE, "AES256"),
        ("sealed", {}, "AES256"), ("sealed", SSE, "AES256"),
    ]:  # fmt: skip
        copy = s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": source}, **options)
        assert (copy.get("ServerSideEncryption"), encryption_of(s3, bucket, "copy")) == (expected, expected)
        assert read(s3, bucket, "copy") == body
    # Onto itself, which changes nothing but the encryption.
    s3.copy_object(Bucket=bucket, Key="plain", CopySource={"Bucket": bucket, "Key": "plain"}, **SSE)
    assert (encryption_of(s3, bucket, "plain"), read(s3, bucket, "plain")) == ("AES256", body)
    # A part of an encrypted object in an upload that is not.
    upload = {"Bucket": bucket, "Key": "parts"}
    upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]
    source = {"Bucket": bucket, "Key": "sealed"}
    tag = s3.upload_part_copy(**upload, PartNumber=1, CopySource=source)["CopyPartResult"]["ETag"]
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": tag}]})
    assert (encryption_of(s3, bucket, "parts"), read(s3, bucket, "parts")) == (None, body)


def test_a_bucket_that_encrypts_by_default(s3: Any, bucket: str) -> None:
    missing = (404, "ServerSideEncryptionConfigurationNotFoundError")
    assert refusal(s3.get_bucket_encryption, Bucket=bucket) == missing
    s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration=DEFAULT)
    rules = s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"]
    assert rules[0]["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}
    assert s3.put_object(Bucket=bucket, Key="k", Body=b"body")["ServerSideEncryption"] == "AES256"
    s3.upload_fileobj(io.BytesIO(content(20 * MIB)), bucket, "large")
    s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "k"})
    for key in ("k", "large", "copy"):
        assert encryption_of(s3, bucket, key) == "AES256"
    assert read(s3, bucket, "large") == content(20 * MIB)
    # As on S3, a copy onto itself need not name a change then, whatever the object has.
    itself = {"Bucket": bucket, "Key": "k", "CopySource": {"Bucket": bucket, "Key": "k"}}
    assert s3.copy_object(**itself)["ServerSideEncryption"] == "AES256"
    s3.delete_bucket_encryption(Bucket=bucket)
    assert refusal(s3.copy_object, **itself) == (400, "InvalidRequest")
    assert refusal(s3.get_bucket_encryption, Bucket=bucket) == missing
    assert "ServerSideEncryption" not in s3.put_object(Bucket=bucket, Key="k", Body=b"body")


def test_presigned_requests_and_forms(target: Target, s3: Any, bucket: str) -> None:
    body = content(100_000)
    url = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "k"} | SSE)
    headers = {"x-amz-server-side-encryption": "AES256", "Content-Type": ""}
    with urllib.request.urlopen(urllib.request.Request(url, body, headers, method="PUT")) as answer:
        assert answer.headers["x-amz-server-side-encryption"] == "AES256"
    url = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"})
    with urllib.request.urlopen(url) as answer:
        assert (answer.headers["x-amz-server-side-encryption"], answer.read()) == ("AES256", body)
    for size in (5, 300_000):
        fields = signed_form(target.wire.identity, bucket, {"key": "form", "x-amz-server-side-encryption": "AES256"})
        answer = post(target.wire, bucket, multipart(fields, content(size)))
        assert (answer.status, answer.headers["x-amz-server-side-encryption"]) == (204, "AES256"), answer.body
        assert read(s3, bucket, "form") == content(size)


def test_appends_and_annotations_are_encrypted_as_their_object_is(target: Target, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"first ", **SSE)
    s3.put_object(Bucket=bucket, Key="k", Body=b"second", WriteOffsetBytes=6, **SSE)
    s3.put_object(Bucket=bucket, Key="k", Body=content(300_000), WriteOffsetBytes=12)
    assert (read(s3, bucket, "k"), encryption_of(s3, bucket, "k")) == (b"first second" + content(300_000), "AES256")
    # The default of the bucket is for new objects.
    s3.put_object(Bucket=bucket, Key="plain", Body=b"first ")
    s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration=DEFAULT)
    s3.put_object(Bucket=bucket, Key="plain", Body=b"second", WriteOffsetBytes=6)
    assert (read(s3, bucket, "plain"), encryption_of(s3, bucket, "plain")) == (b"first second", None)
    refused = refusal(s3.put_object, Bucket=bucket, Key="plain", Body=b"x", WriteOffsetBytes=12, **SSE)
    assert refused == (400, "InvalidRequest")
    s3.put_object(Bucket=bucket, Key="new", Body=b"first", WriteOffsetBytes=0)
    assert encryption_of(s3, bucket, "new") == "AES256"
    for key in ("k", "plain"):
        for size in (10, 5000):
            text = ("note " * size)[:size].encode()
            assert target.wire("PUT", f"/{bucket}/{key}", "annotation&annotationName=note", body=text).status == 200
            assert target.wire("GET", f"/{bucket}/{key}", "annotation&annotationName=note").body == text


@pytest.mark.parametrize("copy", ["AES256", "aws:kms"])
@pytest.mark.parametrize("source", [None, "AES256", "aws:kms"])
def test_annotations_are_encrypted_as_the_copy_is(
    target: Target, s3: Any, bucket: str, source: str | None, copy: str
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"body", **({"ServerSideEncryption": source} if source else {}))
    texts = {f"of-{size}": ("note " * size)[:size].encode() for size in (1, 64, 65, 5000, MIB)}
    for name, text in texts.items():
        assert target.wire("PUT", f"/{bucket}/k", f"annotation&annotationName={name}", body=text).status == 200
    place = {"Bucket": bucket, "CopySource": {"Bucket": bucket, "Key": "k"}, "ServerSideEncryption": copy}
    s3.copy_object(Key="copy", **place)
    s3.copy_object(Key="bare", AnnotationDirective="EXCLUDE", **place)
    s3.delete_object(Bucket=bucket, Key="k")
    assert encryption_of(s3, bucket, "copy") == copy
    for name, text in texts.items():
        found = target.wire("GET", f"/{bucket}/copy", f"annotation&annotationName={name}")
        assert (found.status, found.body) == (200, text)
        digest = f'"{hashlib.md5(text, usedforsecurity=False).hexdigest()}"'
        assert (found.headers["etag"] == digest) == (copy == "AES256")
    assert s3.list_object_annotations(Bucket=bucket, Key="bare").get("Annotations", []) == []
    assert read(s3, bucket, "copy") == b"body"


@pytest.mark.parametrize("size", [3000, 5 * MIB])
def test_identical_content_is_stored_once(tmp_path: Path, size: int) -> None:
    with running(tmp_path / "store", master_key=KEY, encrypt_by_default=True) as target:
        s3 = target.client()
        s3.create_bucket(Bucket="bkt")
        for key in ("a", "b", "c"):
            s3.put_object(Bucket="bkt", Key=key, Body=content(size))
        # That the server encrypts by default is no change that a copy onto itself asks for.
        itself = {"Bucket": "bkt", "Key": "a", "CopySource": {"Bucket": "bkt", "Key": "a"}}
        assert refusal(s3.copy_object, **itself) == (400, "InvalidRequest")
    found = document("stats", "--data", tmp_path / "store")["buckets"][0]
    assert (found["logical"], found["stored"] < 1.1 * size) == (3 * size, True), found


def files(data: Path) -> dict[Path, bytes]:
    return {path: path.read_bytes() for path in sorted(data.rglob("*")) if path.is_file()}


SECRET: Final = b"the quick brown fox reads nobody's disk; "


def secrets() -> dict[str, bytes]:
    return {f"k{size}": (SECRET * (size // len(SECRET) + 1))[:size] for size in (60, 1000, 70_000, 3 * MIB)}


def test_nothing_of_the_content_is_on_the_disk(tmp_path: Path) -> None:
    data = tmp_path / "store"
    with running(data, master_key=KEY, encrypt_by_default=True) as target:
        s3 = target.client()
        s3.create_bucket(Bucket="bkt")
        for key, body in secrets().items():
            s3.put_object(Bucket="bkt", Key=key, Body=body)
        assert s3.get_bucket_encryption(Bucket="bkt")
    assert not [path for path, stored in files(data).items() if SECRET[:24] in stored]
    # The same is found where nothing is encrypted.
    with running(tmp_path / "plain") as target:
        s3 = target.client()
        s3.create_bucket(Bucket="bkt")
        for key, body in secrets().items():
            s3.put_object(Bucket="bkt", Key=key, Body=body)
    assert [path for path, stored in files(tmp_path / "plain").items() if SECRET[:24] in stored]
    for command_line in (["fsck"], ["gc"], ["stats"], ["fsck"]):
        command(*command_line, "--data", data)
    without = document("fsck", "--data", data)["tags"]
    assert (without["verified"], without["of_customers"]) == (0, 0)
    assert "ORCAS_MASTER_KEY" in without["why"]
    verified = {"verified": without["without_key"], "of_customers": 0, "without_key": 0, "why": None}
    assert document("fsck", "--data", data, ORCAS_MASTER_KEY=KEY)["tags"] == verified
    wrong = document("fsck", "--data", data, ORCAS_MASTER_KEY=base64.b64encode(bytes(32)).decode())["tags"]
    assert (wrong["verified"], wrong["without_key"]) == (0, verified["verified"])
    for path in data.glob("index.db*"):
        path.unlink()
    with running(data, master_key=KEY) as target:
        s3 = target.client()
        assert {key: read(s3, "bkt", key) for key in secrets()} == secrets()
    backup, restored = tmp_path / "backup", tmp_path / "restored"
    command("backup", backup, "--data", data)
    command("restore", backup, "--data", restored)
    with running(restored, master_key=KEY) as target:
        s3 = target.client()
        assert {key: read(s3, "bkt", key) for key in secrets()} == secrets()


@pytest.mark.parametrize("end", [orcas.Server.stop, orcas.Server.kill], ids=["stopped", "killed"])
def test_encrypted_objects_outlive_the_server(tmp_path: Path, end: Any) -> None:
    data = tmp_path / "store"
    with running(data, master_key=KEY) as target:
        s3 = target.client()
        s3.create_bucket(Bucket="bkt")
        s3.put_bucket_encryption(Bucket="bkt", ServerSideEncryptionConfiguration=DEFAULT)
        for key, body in secrets().items():
            s3.put_object(Bucket="bkt", Key=key, Body=body)
        end(target.server)
    with running(data, master_key=KEY) as target:
        s3 = target.client()
        assert {key: read(s3, "bkt", key) for key in secrets()} == secrets()
        assert s3.put_object(Bucket="bkt", Key="new", Body=b"x")["ServerSideEncryption"] == "AES256"


def test_without_a_keyring_it_is_said_what_to_configure(tmp_path: Path) -> None:
    with running(tmp_path / "store") as target:
        s3, wire = target.client(), target.wire
        s3.create_bucket(Bucket="bkt")
        refused = refusal(s3.put_bucket_encryption, Bucket="bkt", ServerSideEncryptionConfiguration=DEFAULT)
        assert refused == (501, "NotImplemented")
        answer = wire("PUT", "/bkt/k", headers={"x-amz-server-side-encryption": "AES256"}, body=b"x")
        assert (answer.status, answer.code) == (501, "NotImplemented")
        assert "ORCAS_MASTER_KEY" in answer.error["Message"]
        missing = (404, "ServerSideEncryptionConfigurationNotFoundError")
        assert refusal(s3.get_bucket_encryption, Bucket="bkt") == missing
