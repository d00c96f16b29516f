"""Objects encrypted with keys that customers bring with each request (SSE-C)."""

from __future__ import annotations

import base64
import hashlib
import json
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import botocore.exceptions
import pytest
from tests.fixtures.commands import command, document
from tests.fixtures.forms import multipart, post, signed_form
from tests.fixtures.keys import MASTER_KEY, act
from tests.fixtures.targets import MIB, Target, content, read, refusal, running
from tests.fixtures.wire import Answer

import orcas

pytestmark = pytest.mark.conformance

BLOCK: Final = 64 * 1024
SIZES: Final = (0, 1, 257, BLOCK, 300_000, 5 * MIB + 3)
PREFIX: Final = "x-amz-server-side-encryption-customer-"


def customer(seed: int = 1) -> dict[str, Any]:
    """The parameters of boto3, which adds the MD5 and encodes."""
    return {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": bytes([seed]) * 32}


def of_source(seed: int = 1) -> dict[str, Any]:
    return {f"CopySource{name}": value for name, value in customer(seed).items()}


def encoded(content: bytes) -> str:
    return base64.b64encode(content).decode()


def lines(seed: int = 1, prefix: str = PREFIX) -> dict[str, str]:
    """The headers."""
    key = bytes([seed]) * 32
    md5 = encoded(hashlib.md5(key, usedforsecurity=False).digest())
    return {f"{prefix}algorithm": "AES256", f"{prefix}key": encoded(key), f"{prefix}key-MD5": md5}


def checksum(algorithm: str, body: bytes) -> str:
    return encoded(zlib.crc32(body).to_bytes(4, "big") if algorithm == "CRC32" else hashlib.sha256(body).digest())


MD5: Final = lines()[f"{PREFIX}key-MD5"]


@pytest.fixture(scope="module", params=["disk", "memory"])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    data = None if request.param == "memory" else tmp_path_factory.mktemp("store") / "data"
    with running(data, master_key=MASTER_KEY) as target:
        yield target


def shown(answer: dict[str, Any]) -> tuple[str | None, str | None]:
    return answer.get("SSECustomerAlgorithm"), answer.get("SSECustomerKeyMD5")


@pytest.mark.parametrize("size", SIZES)
def test_a_body_of_any_size_and_its_ranges(s3: Any, bucket: str, size: int) -> None:
    body = content(size)
    put = s3.put_object(Bucket=bucket, Key="k", Body=body, **customer())
    assert (shown(put), "ServerSideEncryption" in put) == (("AES256", MD5), False)
    assert put["ETag"] != f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
    got = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED", **customer())
    assert (shown(got), got["ETag"], got["Body"].read()) == (("AES256", MD5), put["ETag"], body)
    assert shown(s3.head_object(Bucket=bucket, Key="k", **customer())) == ("AES256", MD5)
    edges = [0, 1, BLOCK - 1, BLOCK, size // 2, size - 1]
    for first in (edge for edge in edges if 0 <= edge < size):
        for last in (edge for edge in edges if first <= edge < size):
            part = read(s3, bucket, "k", Range=f"bytes={first}-{last}", **customer())
            assert part == body[first : last + 1], (first, last)


@pytest.mark.parametrize("size", [0, 1000, 2 * MIB])
def test_reads_need_the_key(target: Target, s3: Any, bucket: str, size: int) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=content(size), **customer())
    s3.put_object(Bucket=bucket, Key="plain", Body=b"x")
    for call, codes in (
        (s3.get_object, ("InvalidRequest", "AccessDenied")),
        (s3.head_object, ("400", "403")),
    ):
        assert refusal(call, Bucket=bucket, Key="k") == (400, codes[0])
        assert refusal(call, Bucket=bucket, Key="k", **customer(2)) == (403, codes[1])
        assert refusal(call, Bucket=bucket, Key="plain", **customer()) == (400, codes[0])
        assert call(Bucket=bucket, Key="k", **customer())["ResponseMetadata"]["HTTPStatusCode"] == 200
    for key, headers, expected in (
        ("k", {}, (400, "InvalidRequest")),
        ("k", lines(2), (403, "AccessDenied")),
        ("plain", lines(), (400, "InvalidRequest")),
    ):
        asks = {"x-amz-object-attributes": "ETag", **headers}
        answer = target.wire("GET", f"/{bucket}/{key}", "attributes", headers=asks)
        assert (answer.status, answer.code) == expected
    asks = {"x-amz-object-attributes": "ETag", **lines()}
    assert target.wire("GET", f"/{bucket}/k", "attributes", headers=asks).status == 200


def test_malformed_keys(target: Target, bucket: str) -> None:
    good = lines()
    short, other = encoded(bytes(16)), lines(2)

    def put(headers: dict[str, str]) -> Answer:
        return target.wire("PUT", f"/{bucket}/k", headers=headers, body=b"x")

    must = "Requests specifying Server Side Encryption with Customer provided keys must provide "
    for changed, code, message in (
        ({"algorithm": None}, "InvalidArgument", must + "a valid encryption algorithm."),
        ({"algorithm": "AES128"}, "InvalidEncryptionAlgorithmError", None),
        ({"key": None}, "InvalidArgument", must + "an appropriate secret key."),
        ({"key-MD5": None}, "InvalidArgument", must + "the client calculated MD5 of the secret key."),
        ({"key": short}, "InvalidArgument", "The secret key was invalid for the specified algorithm."),
        ({"key": "no base64"}, "InvalidArgument", "The secret key was invalid for the specified algorithm."),
        ({"key": other[f"{PREFIX}key"]}, "InvalidArgument",
         "The calculated MD5 hash of the key did not match the hash that was provided."),
    ):  # fmt: skip
        headers = good | {PREFIX + name: value for name, value in changed.items() if value is not None}
        for name, value in changed.items():
            if value is None:
                del headers[PREFIX + name]
        answer = put(headers)
        assert (answer.status, answer.code) == (400, code), changed
        assert message is None or answer.error["Message"] == message
    for value in ("AES256", "aws:kms"):
        assert put(good | {"x-amz-server-side-encryption": value}).code == "InvalidArgument"
    assert target.wire("GET", f"/{bucket}/k").status == 404


def test_uploads_in_parts(target: Target, s3: Any, bucket: str) -> None:
    created = s3.create_multipart_upload(Bucket=bucket, Key="k", **customer())
    assert shown(created) == ("AES256", MD5)
    upload = {"Bucket": bucket, "Key": "k", "UploadId": created["UploadId"]}
    bodies = [content(5 * MIB, 1), content(5 * MIB + 1, 2), content(3, 3)]
    for options in ({}, customer(2)):
        for body in (b"x", bodies[0]):
            refused = refusal(s3.upload_part, **upload, PartNumber=1, Body=body, **options)
            assert refused == (400, "InvalidRequest")
    s3.put_object(Bucket=bucket, Key="source", Body=b"x" + bodies[1], **customer(3))
    parts = []
    for number, body in enumerate(bodies, 1):
        if number == 2:
            source = {"CopySource": {"Bucket": bucket, "Key": "source"}, "CopySourceRange": f"bytes=1-{5 * MIB + 1}"}
            copy = {**upload, "PartNumber": number, **source}
            assert refusal(s3.upload_part_copy, **copy, **customer()) == (400, "InvalidRequest")
            assert refusal(s3.upload_part_copy, **copy, **of_source(3)) == (400, "InvalidRequest")
            assert refusal(s3.upload_part_copy, **copy, **customer(), **of_source()) == (403, "AccessDenied")
            put = s3.upload_part_copy(**copy, **customer(), **of_source(3))
            etag = put["CopyPartResult"]["ETag"]
        else:
            put = s3.upload_part(**upload, PartNumber=number, Body=body, **customer())
            etag = put["ETag"]
        assert shown(put) == ("AES256", MD5)
        assert etag != f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
        parts.append({"PartNumber": number, "ETag": etag})
    assert len(s3.list_parts(**upload)["Parts"]) == 3
    listing = f"uploadId={upload['UploadId']}"
    assert target.wire("GET", f"/{bucket}/k", listing, headers=lines()).status == 200
    assert target.wire("GET", f"/{bucket}/k", listing, headers=lines(2)).code == "InvalidRequest"
    complete = {**upload, "MultipartUpload": {"Parts": parts}}
    assert refusal(s3.complete_multipart_upload, **complete, **customer(2)) == (400, "InvalidRequest")
    assert s3.complete_multipart_upload(**complete, **customer())["ETag"].endswith('-3"')
    assert read(s3, bucket, "k", **customer()) == b"".join(bodies)
    assert read(s3, bucket, "k", PartNumber=2, **customer()) == bodies[1]
    assert refusal(s3.get_object, Bucket=bucket, Key="k", PartNumber=2) == (400, "InvalidRequest")
    # With a checksum, the list of parts and the end of the upload need the key as well.
    sums = {"Bucket": bucket, "Key": "sums"}
    sums["UploadId"] = s3.create_multipart_upload(**sums, ChecksumAlgorithm="CRC32", **customer())["UploadId"]
    put = s3.upload_part(**sums, PartNumber=1, Body=b"x", **customer())
    part = {"PartNumber": 1, "ETag": put["ETag"], "ChecksumCRC32": checksum("CRC32", b"x")}
    assert refusal(s3.list_parts, **sums) == (400, "InvalidRequest")
    # boto3 does not encode the key of ListParts.
    listed = target.wire("GET", f"/{bucket}/sums", f"uploadId={sums['UploadId']}", headers=lines())
    assert (listed.status, len(listed.document().findall("Part"))) == (200, 1)
    complete = {**sums, "MultipartUpload": {"Parts": [part]}}
    assert refusal(s3.complete_multipart_upload, **complete) == (400, "InvalidRequest")
    s3.complete_multipart_upload(**complete, **customer())
    assert read(s3, bucket, "sums", **customer()) == b"x"
    plain = {"Bucket": bucket, "Key": "plain"}
    plain["UploadId"] = s3.create_multipart_upload(**plain)["UploadId"]
    assert refusal(s3.upload_part, **plain, PartNumber=1, Body=b"x", **customer()) == (400, "InvalidRequest")


@pytest.mark.parametrize("size", [100, 70_000, 5 * MIB])
def test_copies_between_any_two_ways(s3: Any, bucket: str, size: int) -> None:
    body = content(size)
    ways: dict[str, tuple[dict[str, Any], dict[str, Any], dict[str, Any]]] = {
        # How it is stored, how it is copied, how it is read.
        "plain": ({}, {}, {}),
        "managed": ({"ServerSideEncryption": "AES256"}, {}, {}),
        "named": ({"ServerSideEncryption": "aws:kms"}, {}, {}),
        "one": (customer(), of_source(), customer()),
        "other": (customer(2), of_source(2), customer(2)),
    }
    for name, (options, _, _) in ways.items():
        s3.put_object(Bucket=bucket, Key=name, Body=body, **options)
    for name, (_, as_source, _) in ways.items():
        for into, (options, _, reading) in ways.items():
            copy = {"Bucket": bucket, "Key": "copy", "CopySource": {"Bucket": bucket, "Key": name}}
            s3.copy_object(**copy, **options, **as_source)
            assert read(s3, bucket, "copy", **reading) == body, (name, into)
            if as_source:
                assert refusal(s3.copy_object, **copy, **options) == (400, "InvalidRequest")
                assert refusal(s3.copy_object, **copy, **options, **of_source(9)) == (403, "AccessDenied")
            else:
                assert refusal(s3.copy_object, **copy, **options, **of_source()) == (400, "InvalidRequest")
    # Without a key for the copy, the server's own encrypt it: nothing is stored in the clear that was not before.
    s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "one"}, **of_source())
    assert s3.head_object(Bucket=bucket, Key="copy")["ServerSideEncryption"] == "AES256"
    # Onto itself, with another key.
    source = {"Bucket": bucket, "Key": "one"}
    s3.copy_object(Bucket=bucket, Key="one", CopySource=source, **of_source(), **customer(3))
    assert refusal(s3.get_object, Bucket=bucket, Key="one", **customer()) == (403, "AccessDenied")
    assert read(s3, bucket, "one", **customer(3)) == body


def test_a_bucket_that_blocks_them(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="before", Body=b"body", **customer())
    upload = {"Bucket": bucket, "Key": "parts"}
    begun = upload | {"UploadId": s3.create_multipart_upload(**upload, **customer())["UploadId"]}

    def block(kind: str, **default: Any) -> Any:
        rule = {"BlockedEncryptionTypes": {"EncryptionType": [kind]}} | default
        s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration={"Rules": [rule]})
        return s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"]["Rules"][0]

    rule = block("SSE-C", BucketKeyEnabled=True)
    assert rule["BlockedEncryptionTypes"] == {"EncryptionType": ["SSE-C"]}
    assert rule["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}
    denied = (403, "AccessDenied")
    assert refusal(s3.put_object, Bucket=bucket, Key="k", Body=b"body", **customer()) == denied
    copy = {"Bucket": bucket, "Key": "k", "CopySource": {"Bucket": bucket, "Key": "before"}} | of_source()
    assert refusal(s3.copy_object, **copy, **customer(2)) == denied
    assert refusal(s3.create_multipart_upload, **upload, **customer()) == denied
    # What is there stays readable, and an upload that had begun goes on.
    assert read(s3, bucket, "before", **customer()) == b"body"
    tag = s3.upload_part(**begun, PartNumber=1, Body=b"part", **customer())["ETag"]
    s3.complete_multipart_upload(**begun, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": tag}]})
    assert s3.copy_object(**copy)["ServerSideEncryption"] == "AES256"
    assert block("NONE")["BlockedEncryptionTypes"] == {"EncryptionType": ["NONE"]}
    s3.put_object(Bucket=bucket, Key="k", Body=b"body", **customer())


def test_presigned_requests_and_forms(target: Target, s3: Any, bucket: str) -> None:
    wire, headers = target.wire, lines()
    body = content(100_000)
    put = wire.presign("PUT", f"/{bucket}/k", headers=headers)
    assert wire.send("PUT", put, {"Host": wire.netloc, **headers}, body).status == 200
    got = wire.send("GET", wire.presign("GET", f"/{bucket}/k", headers=headers), {"Host": wire.netloc, **headers})
    assert (got.status, got.body, got.headers[f"{PREFIX}key-md5"]) == (200, body, MD5)
    for size in (5, 300_000):
        fields = signed_form(wire.identity, bucket, {"key": "form", **{name.lower(): v for name, v in headers.items()}})
        answer = post(wire, bucket, multipart(fields, content(size)))
        assert (answer.status, answer.headers[f"{PREFIX}key-md5"]) == (204, MD5), answer.body
        assert read(s3, bucket, "form", **customer()) == content(size)


def test_what_else_is_done_with_such_an_object(target: Target, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"first ", **customer())
    append = {"Bucket": bucket, "Key": "k", "Body": b"more", "WriteOffsetBytes": 6}
    assert refusal(s3.put_object, **append) == (400, "InvalidRequest")
    assert refusal(s3.put_object, **append, **customer()) == (400, "InvalidRequest")
    answer = target.wire("PUT", f"/{bucket}/k", "annotation&annotationName=note", body=b"text")
    assert (answer.status, answer.code) == (400, "InvalidRequest")
    s3.put_object(Bucket=bucket, Key="noted", Body=b"body")
    assert target.wire("PUT", f"/{bucket}/noted", "annotation&annotationName=note", body=b"text").status == 200
    copy = {"Bucket": bucket, "Key": "copy", "CopySource": {"Bucket": bucket, "Key": "noted"}, **customer()}
    assert refusal(s3.copy_object, **copy) == (400, "InvalidRequest")
    s3.copy_object(**copy, AnnotationDirective="EXCLUDE")
    assert read(s3, bucket, "copy", **customer()) == b"body"
    s3.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    assert read(s3, bucket, "k", **customer()) == b"first "
    s3.delete_object(Bucket=bucket, Key="k")


def test_a_disabled_keyring_key_closes_and_opens_them(target: Target, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"body", **customer())
    act(target, "orcas/s3", "rotate")
    assert read(s3, bucket, "k", **customer()) == b"body"
    act(target, "orcas/s3", "disable")
    assert refusal(s3.get_object, Bucket=bucket, Key="k", **customer()) == (403, "AccessDenied")
    assert refusal(s3.put_object, Bucket=bucket, Key="x", Body=b"x", **customer()) == (403, "AccessDenied")
    act(target, "orcas/s3", "enable")
    assert read(s3, bucket, "k", **customer()) == b"body"


@pytest.mark.parametrize("size", [3000, 5 * MIB])
def test_nothing_is_shared_and_no_key_is_stored(tmp_path: Path, size: int) -> None:
    data, body = tmp_path / "store", content(size)
    with running(data, master_key=MASTER_KEY) as target:
        s3 = target.client()
        s3.create_bucket(Bucket="bkt")
        for name in ("a", "b", "c"):
            s3.put_object(Bucket="bkt", Key=name, Body=body, **customer())
        s3.copy_object(Bucket="bkt", Key="d", CopySource={"Bucket": "bkt", "Key": "a"}, **of_source(), **customer())
        orcas.Server.kill(target.server)
    found = document("stats", "--data", data)["buckets"][0]
    assert (found["logical"], found["stored"] >= 4 * size) == (4 * size, True), found
    key, md5 = bytes([1]) * 32, hashlib.md5(body, usedforsecurity=False).digest()
    secrets = [key, base64.b64encode(key), hashlib.md5(key, usedforsecurity=False).digest(), md5, body[:64]]
    for path in (path for path in data.rglob("*") if path.is_file()):
        stored = path.read_bytes()
        assert not [secret for secret in secrets if secret in stored], path
    for command_line in (["fsck"], ["gc"], ["fsck"]):
        command(*command_line, "--data", data)
    for path in data.glob("index.db*"):
        path.unlink()
    with running(data, master_key=MASTER_KEY) as target:
        s3 = target.client()
        assert {name: read(s3, "bkt", name, **customer()) for name in "abcd"} == dict.fromkeys("abcd", body)


def test_no_checksum_of_the_content_is_stored(tmp_path: Path) -> None:
    """Short content follows from its CRC, and guesses can be compared with any digest."""
    data, body, text = tmp_path / "store", b"hunter2!", b"a note"
    named = {"ServerSideEncryption": "aws:kms"}
    secrets = {
        digest
        for secret in (body, body + text, text)
        for digest in (hashlib.sha256(secret).digest(), zlib.crc32(secret).to_bytes(4, "big"))
    }
    with running(data, master_key=MASTER_KEY) as target:
        s3 = target.client()
        s3.create_bucket(Bucket="bkt")
        s3.put_object(Bucket="bkt", Key="plain", Body=b"no secret", ChecksumAlgorithm="SHA256")
        for way in (customer(), named):
            seen = customer() if way == customer() else {}
            for algorithm in ("CRC32", "SHA256"):
                chosen = {"Bucket": "bkt", "Key": "k", "ChecksumAlgorithm": algorithm}
                put = s3.put_object(**chosen, Body=body, **way)
                wrong = base64.b64encode(bytes(4 if algorithm == "CRC32" else 32)).decode()
                bad = {"Bucket": "bkt", "Key": "k", "Body": body, f"Checksum{algorithm}": wrong}
                assert refusal(s3.put_object, **bad, **way) == (400, "BadDigest")
                got = s3.get_object(Bucket="bkt", Key="k", ChecksumMode="ENABLED", **seen)
                assert got["Body"].read() == body
                s3.copy_object(**{**chosen, "Key": "copy"}, CopySource={"Bucket": "bkt", "Key": "plain"}, **way)
                copied = s3.get_object(Bucket="bkt", Key="copy", ChecksumMode="ENABLED", **seen)
                assert copied["Body"].read() == b"no secret"
                upload = {"Bucket": "bkt", "Key": "parts"}
                created = s3.create_multipart_upload(**upload, ChecksumAlgorithm=algorithm, **way)
                upload["UploadId"] = created["UploadId"]
                stated = {f"Checksum{algorithm}": checksum(algorithm, body)}
                part = s3.upload_part(**upload, PartNumber=1, Body=body, ChecksumAlgorithm=algorithm, **seen)
                # boto3 does not encode the key of ListParts.
                listed = target.wire(
                    "GET", "/bkt/parts", f"uploadId={upload['UploadId']}", headers=lines() if seen else {}
                )
                assert (listed.status, b"<PartNumber>1</PartNumber>" in listed.body) == (200, True)
                assert f"Checksum{algorithm}>".encode() not in listed.body.replace(b"ChecksumAlgorithm", b"")
                parts = [{"PartNumber": 1, "ETag": part["ETag"], **stated}]
                complete = {**upload, "MultipartUpload": {"Parts": parts}}
                refused = refusal(s3.complete_multipart_upload, **complete, **stated, **seen)
                assert refused == (400, "InvalidRequest")
                done = s3.complete_multipart_upload(**complete, **seen)
                assert read(s3, "bkt", "parts", **seen) == body
                for answer in (put, got, copied, part, done):
                    assert f"Checksum{algorithm}" not in answer
        s3.put_object(Bucket="bkt", Key="k", Body=body, **named)
        s3.put_object(Bucket="bkt", Key="k", Body=text, WriteOffsetBytes=len(body))
        assert target.wire("PUT", "/bkt/k", "annotation&annotationName=note", body=text).status == 200
        orcas.Server.kill(target.server)
    for path in (path for path in data.rglob("*") if path.is_file()):
        stored = path.read_bytes()
        assert not [secret for secret in secrets if secret in stored], path


def test_an_export_goes_on_past_what_it_cannot_open(tmp_path: Path) -> None:
    data = tmp_path / "store"
    with running(data, master_key=MASTER_KEY) as target:
        s3 = target.client()
        s3.create_bucket(Bucket="bkt")
        for name, options in (("a", {}), ("b", customer()), ("c", {"ServerSideEncryption": "aws:kms"}), ("d", {})):
            s3.put_object(Bucket="bkt", Key=name, Body=name.encode(), **options)
        for place, options in (("plain", []), ("skipping", ["--skip-lost"])):
            command("export", tmp_path / place, "--data", data, *options, code=1, ORCAS_MASTER_KEY=MASTER_KEY)
            exported = sorted(path.name for path in (tmp_path / place / "bkt").iterdir())
            assert exported == ["a", "c", "d"]
            lost = [json.loads(line) for line in (tmp_path / place / "lost.jsonl").read_text().splitlines()]
            assert [(line["bucket"], line["key"]) for line in lost] == [("bkt", "b")]
            assert "Server Side Encryption" in lost[0]["reason"]


def test_a_salvage_serves_empty_objects(tmp_path: Path) -> None:
    data = tmp_path / "store"
    ways = {"customer": customer(), "named": {"ServerSideEncryption": "aws:kms"}}
    with running(data, master_key=MASTER_KEY) as target:
        s3 = target.client()
        s3.create_bucket(Bucket="bkt")
        for name, options in ways.items():
            s3.put_object(Bucket="bkt", Key=name, Body=b"", **options)
    with running(data, master_key=MASTER_KEY, salvage=True) as target:
        s3 = target.client()
        assert read(s3, "bkt", "customer", **customer()) == read(s3, "bkt", "named") == b""


def test_it_needs_a_keyring(tmp_path: Path) -> None:
    with running(tmp_path / "store") as target:
        s3 = target.client()
        s3.create_bucket(Bucket="bkt")
        with pytest.raises(botocore.exceptions.ClientError, match="ORCAS_MASTER_KEY"):
            s3.put_object(Bucket="bkt", Key="k", Body=b"x", **customer())
