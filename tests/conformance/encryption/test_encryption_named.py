"""Objects encrypted with keys that clients name (SSE-KMS)."""

from __future__ import annotations

import base64
import hashlib
import json
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import botocore.exceptions
import pytest
from tests.fixtures.forms import multipart, post, signed_form
from tests.fixtures.keys import ARN, MASTER_KEY, act, create_key, key_ids
from tests.fixtures.targets import MIB, Target, content, read, refusal, running

import orcas

pytestmark = pytest.mark.conformance

BLOCK: Final = 64 * 1024
KMS: Final = {"ServerSideEncryption": "aws:kms"}
SIZES: Final = (0, 1, 257, BLOCK, 300_000, 5 * MIB + 3)
CONTEXT: Final = json.dumps({"project": "blue", "who": "ä"})


def encoded(context: str) -> str:
    return base64.b64encode(context.encode()).decode()


@pytest.fixture(scope="module", params=["disk", "memory"])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    data = None if request.param == "memory" else tmp_path_factory.mktemp("store") / "data"
    with running(data, master_key=MASTER_KEY) as target:
        yield target


@pytest.fixture
def key(target: Target, bucket: str) -> str:
    return create_key(target, f"of/{bucket}")


def shown(answer: dict[str, Any]) -> tuple[str | None, str | None]:
    return answer.get("ServerSideEncryption"), answer.get("SSEKMSKeyId")


@pytest.mark.parametrize("size", SIZES)
def test_a_body_of_any_size_and_its_ranges(s3: Any, bucket: str, key: str, size: int) -> None:
    body, expected = content(size), ("aws:kms", ARN + key)
    context = encoded(CONTEXT)
    options = {"SSEKMSKeyId": key, "SSEKMSEncryptionContext": context, "BucketKeyEnabled": True}
    put = s3.put_object(Bucket=bucket, Key="k", Body=body, **KMS, **options)
    assert (shown(put), put["SSEKMSEncryptionContext"], put["BucketKeyEnabled"]) == (expected, context, True)
    assert put["ETag"] != f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
    got = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert (shown(got), got["BucketKeyEnabled"], got["ETag"], got["Body"].read()) == (expected, True, put["ETag"], body)
    head = s3.head_object(Bucket=bucket, Key="k")
    assert (shown(head), "SSEKMSEncryptionContext" in head) == (expected, False)
    edges = [0, 1, BLOCK - 1, BLOCK, size // 2, size - 1]
    for first in (edge for edge in edges if 0 <= edge < size):
        for last in (edge for edge in edges if first <= edge < size):
            assert read(s3, bucket, "k", Range=f"bytes={first}-{last}") == body[first : last + 1], (first, last)


def test_a_key_is_named_by_id_arn_alias_or_not_at_all(target: Target, s3: Any, bucket: str, key: str) -> None:
    default = key_ids(target)["orcas/s3"]
    for name, expected in {
        key: key, ARN + key: key, f"alias/of/{bucket}": key,
        f"arn:aws:kms:eu-west-1:111122223333:alias/of/{bucket}": key,
        "alias/orcas/s3": default, "alias/aws/s3": default, None: default,
    }.items():  # fmt: skip
        named = {} if name is None else {"SSEKMSKeyId": name}
        put = s3.put_object(Bucket=bucket, Key="k", Body=b"body", **KMS, **named)
        assert (shown(put), read(s3, bucket, "k")) == (("aws:kms", ARN + expected), b"body"), name
        assert "BucketKeyEnabled" not in put
    for name in (
        "alias/x/alias/aws/s3",
        "xalias/aws/s3",
        "alias/nobody",
        "nobody",
        "00112233-4455-6677-8899-aabbccddeeff",
        "arn:aws:kms:x",
    ):
        refused = refusal(s3.put_object, Bucket=bucket, Key="x", Body=b"body", **KMS, SSEKMSKeyId=name)
        assert refused == (400, "KMS.NotFoundException"), name
    assert refusal(s3.head_object, Bucket=bucket, Key="x") == (404, "404")


def test_what_makes_no_sense_is_refused(s3: Any, bucket: str, key: str) -> None:
    def put(**options: Any) -> tuple[int, str]:
        return refusal(s3.put_object, Bucket=bucket, Key="k", Body=b"x", **options)

    assert put(ServerSideEncryption="aws:kms:dsse") == (501, "NotImplemented")
    for wrong in (
        {"SSEKMSKeyId": key},
        {"ServerSideEncryption": "AES256", "SSEKMSKeyId": key},
        {"ServerSideEncryption": "AES256", "SSEKMSEncryptionContext": encoded("{}")},
        {"ServerSideEncryption": "aes:kms"},
        {**KMS, "SSEKMSEncryptionContext": "{}"},
        {**KMS, "SSEKMSEncryptionContext": encoded('{"a": 1}')},
        {**KMS, "SSEKMSEncryptionContext": encoded('["a"]')},
        {**KMS, "SSECustomerAlgorithm": "AES256", "SSECustomerKey": "k" * 32},
    ):
        assert put(**wrong) == (400, "InvalidArgument"), wrong
    for read_one in (s3.get_object, s3.head_object):
        s3.put_object(Bucket=bucket, Key="k", Body=b"x", **KMS)
        customer = {"SSECustomerAlgorithm": "AES256", "SSECustomerKey": "k" * 32}
        assert refusal(read_one, Bucket=bucket, Key="k", **customer)[0] == 400


def test_uploads_in_parts(s3: Any, bucket: str, key: str) -> None:
    named = {**KMS, "SSEKMSKeyId": key, "SSEKMSEncryptionContext": encoded(CONTEXT)}
    created = s3.create_multipart_upload(Bucket=bucket, Key="k", **named)
    assert (shown(created), created["SSEKMSEncryptionContext"]) == (("aws:kms", ARN + key), encoded(CONTEXT))
    upload = {"Bucket": bucket, "Key": "k", "UploadId": created["UploadId"]}
    bodies = [content(5 * MIB, 1), content(5 * MIB + 1, 2), content(3, 3)]
    s3.put_object(Bucket=bucket, Key="source", Body=b"x" + bodies[1])
    parts = []
    for number, body in enumerate(bodies, 1):
        if number == 2:
            source = {"CopySource": {"Bucket": bucket, "Key": "source"}, "CopySourceRange": f"bytes=1-{5 * MIB + 1}"}
            put = s3.upload_part_copy(**upload, PartNumber=number, **source)
            etag = put["CopyPartResult"]["ETag"]
        else:
            put = s3.upload_part(**upload, PartNumber=number, Body=body)
            etag = put["ETag"]
        assert shown(put) == ("aws:kms", ARN + key)
        assert etag != f'"{hashlib.md5(body, usedforsecurity=False).hexdigest()}"'
        parts.append({"PartNumber": number, "ETag": etag})
    listed = [part["ETag"] for part in s3.list_parts(**upload)["Parts"]]
    assert listed == [part["ETag"] for part in parts]
    done = s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    assert (shown(done), done["ETag"].endswith('-3"')) == (("aws:kms", ARN + key), True)
    assert read(s3, bucket, "k") == b"".join(bodies)
    assert s3.get_object(Bucket=bucket, Key="k", PartNumber=2)["Body"].read() == bodies[1]


@pytest.mark.parametrize("size", [100, 70_000, 5 * MIB])
def test_copies_between_any_two_ways(s3: Any, bucket: str, key: str, size: int) -> None:
    body = content(size)
    ways: dict[str, tuple[dict[str, str], tuple[str | None, ...]]] = {
        "plain": ({}, (None,)),
        "managed": ({"ServerSideEncryption": "AES256"}, ("AES256",)),
        "default": (KMS, ("aws:kms",)),
        "named": ({**KMS, "SSEKMSKeyId": key, "SSEKMSEncryptionContext": encoded(CONTEXT)}, ("aws:kms", ARN + key)),
        "other": ({**KMS, "SSEKMSKeyId": key, "SSEKMSEncryptionContext": encoded("{}")}, ("aws:kms", ARN + key)),
    }
    for name, (options, _) in ways.items():
        s3.put_object(Bucket=bucket, Key=name, Body=body, **options)
    for name, (_, of_source) in ways.items():
        source = {"Bucket": bucket, "Key": name}
        for options, asked in ways.values():
            expected = asked if options else of_source
            copy = s3.copy_object(Bucket=bucket, Key="copy", CopySource=source, **options)
            head = s3.head_object(Bucket=bucket, Key="copy")
            for answer in (copy, head):
                assert shown(answer)[: len(expected)] == expected
            assert read(s3, bucket, "copy") == body
            upload = {"Bucket": bucket, "Key": "parts"}
            upload["UploadId"] = s3.create_multipart_upload(**upload, **options)["UploadId"]
            tag = s3.upload_part_copy(**upload, PartNumber=1, CopySource=source)["CopyPartResult"]["ETag"]
            s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": tag}]})
            assert read(s3, bucket, "parts") == body
    # What is decrypted has the MD5 again.
    s3.copy_object(
        Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "named"}, ServerSideEncryption="AES256"
    )
    md5 = hashlib.md5(body, usedforsecurity=False).hexdigest()
    assert s3.head_object(Bucket=bucket, Key="copy")["ETag"] == f'"{md5}"'
    s3.copy_object(Bucket=bucket, Key="plain", CopySource={"Bucket": bucket, "Key": "plain"}, **KMS)
    assert s3.head_object(Bucket=bucket, Key="plain")["ETag"] != f'"{md5}"'


def default(key: str | None, *, bucket_key: bool = False) -> dict[str, Any]:
    named = {} if key is None else {"KMSMasterKeyID": key}
    rule = {"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms", **named}, "BucketKeyEnabled": bucket_key}
    return {"Rules": [rule]}


def test_a_bucket_that_encrypts_by_default(s3: Any, bucket: str, key: str) -> None:
    def put_default(rules: dict[str, Any]) -> None:
        s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration=rules)
        assert s3.get_bucket_encryption(Bucket=bucket)["ServerSideEncryptionConfiguration"] == rules

    put_default(default(f"alias/of/{bucket}", bucket_key=True))
    put = s3.put_object(Bucket=bucket, Key="k", Body=b"body")
    assert (shown(put), put["BucketKeyEnabled"], read(s3, bucket, "k")) == (("aws:kms", ARN + key), True, b"body")
    put = s3.put_object(Bucket=bucket, Key="k", Body=b"body", BucketKeyEnabled=False)
    assert (shown(put), "BucketKeyEnabled" in put) == (("aws:kms", ARN + key), False)
    assert shown(s3.put_object(Bucket=bucket, Key="k", Body=b"", ServerSideEncryption="AES256")) == ("AES256", None)
    s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "k"})
    assert shown(s3.head_object(Bucket=bucket, Key="copy")) == ("aws:kms", ARN + key)
    put_default(default(None))
    assert shown(s3.put_object(Bucket=bucket, Key="k", Body=b"body"))[0] == "aws:kms"
    put_default(default("alias/nobody"))
    assert refusal(s3.put_object, Bucket=bucket, Key="x", Body=b"x") == (400, "KMS.NotFoundException")
    double = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "aws:kms:dsse"}}]}
    refused = refusal(s3.put_bucket_encryption, Bucket=bucket, ServerSideEncryptionConfiguration=double)
    assert refused == (501, "NotImplemented")


def test_a_key_that_cannot_be_used(target: Target, s3: Any, bucket: str, key: str) -> None:
    named = {**KMS, "SSEKMSKeyId": key}
    for name, size in (("small", 1000), ("large", 2 * MIB)):
        s3.put_object(Bucket=bucket, Key=name, Body=content(size), **named)
    s3.put_object(Bucket=bucket, Key="copied", Body=b"x")
    upload = {"Bucket": bucket, "Key": "parts"}
    upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]

    def refusals() -> set[tuple[int, str]]:
        found = {refusal(s3.get_object, Bucket=bucket, Key=name) for name in ("small", "large")}
        found.add(refusal(s3.get_object, Bucket=bucket, Key="large", Range="bytes=5-9"))
        found.add(refusal(s3.put_object, Bucket=bucket, Key="new", Body=b"x", **named))
        source = {"Bucket": bucket, "Key": "large"}
        found.add(refusal(s3.copy_object, Bucket=bucket, Key="new", CopySource=source, ServerSideEncryption="AES256"))
        # No byte is read for these.
        found.add(refusal(s3.copy_object, Bucket=bucket, Key="new", CopySource=source))
        part = {**upload, "PartNumber": 1, "CopySource": source}
        found.add(refusal(s3.upload_part_copy, **part))
        # What has no content of the object needs no key.
        assert shown(s3.head_object(Bucket=bucket, Key="small")) == ("aws:kms", ARN + key)
        return found

    act(target, key, "rotate")
    assert read(s3, bucket, "large") == content(2 * MIB)
    act(target, key, "disable")
    assert refusals() == {(400, "KMS.DisabledException")}
    act(target, key, "enable")
    assert read(s3, bucket, "small") == content(1000)
    act(target, key, "destroy", days=7, lose_content=True)
    assert refusals() == {(400, "KMS.KMSInvalidStateException")}
    act(target, key, "cancel")
    assert refusals() == {(400, "KMS.DisabledException")}
    act(target, key, "destroy", days=0, lose_content=True)
    assert refusals() == {(400, "KMS.NotFoundException")}
    s3.delete_object(Bucket=bucket, Key="small")


def test_only_signatures_of_version_four_will_do(target: Target, s3: Any, bucket: str, key: str) -> None:
    wire = target.wire
    s3.put_object(Bucket=bucket, Key="k", Body=b"body", **KMS)
    s3.put_object(Bucket=bucket, Key="plain", Body=b"body")

    def code(
        method: str, path: str, version: str, headers: dict[str, str], body: bytes = b"", query: str = ""
    ) -> tuple[int, str]:
        presign = wire.presign if version == "four" else wire.presign_version_two
        url = presign(method, path, query, headers=headers)
        answer = wire.send(method, url, {"Host": wire.netloc, **headers}, body)
        return answer.status, "" if answer.status < 300 else answer.code

    asks = {"x-amz-server-side-encryption": "aws:kms"}
    for version, expected in (("four", (200, "")), ("two", (400, "InvalidArgument"))):
        assert code("GET", f"/{bucket}/k", version, {}) == expected
        assert code("GET", f"/{bucket}/plain", version, {}) == (200, "")
        assert code("PUT", f"/{bucket}/new", version, asks, b"body") == expected
        # An append and an annotation are encrypted as the object is.
        size = str(s3.head_object(Bucket=bucket, Key="k")["ContentLength"])
        assert code("PUT", f"/{bucket}/k", version, {"x-amz-write-offset-bytes": size}, b"more") == expected
        note = "annotation&annotationName=note"
        assert code("PUT", f"/{bucket}/k", version, {}, b"text", query=note) == expected
        assert code("GET", f"/{bucket}/k", version, {}, query=note) == expected


def test_presigned_requests_and_forms(target: Target, s3: Any, bucket: str, key: str) -> None:
    body = content(100_000)
    url = s3.generate_presigned_url("put_object", Params={"Bucket": bucket, "Key": "k", **KMS, "SSEKMSKeyId": key})
    headers = {
        "x-amz-server-side-encryption": "aws:kms", "x-amz-server-side-encryption-aws-kms-key-id": key, "Content-Type": "",
    }  # fmt: skip
    with urllib.request.urlopen(urllib.request.Request(url, body, headers, method="PUT")) as answer:
        assert answer.headers["x-amz-server-side-encryption-aws-kms-key-id"] == ARN + key
    url = s3.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"})
    with urllib.request.urlopen(url) as answer:
        assert (answer.headers["x-amz-server-side-encryption"], answer.read()) == ("aws:kms", body)
    for size in (5, 300_000):
        fields = {"key": "form"} | {name: value for name, value in headers.items() if value}
        answer = post(target.wire, bucket, multipart(signed_form(target.wire.identity, bucket, fields), content(size)))
        assert (answer.status, answer.headers["x-amz-server-side-encryption"]) == (204, "aws:kms"), answer.body
        assert read(s3, bucket, "form") == content(size)


def test_appends_annotations_tags_and_renames(target: Target, s3: Any, bucket: str, key: str) -> None:
    named = {**KMS, "SSEKMSKeyId": key, "SSEKMSEncryptionContext": encoded(CONTEXT)}
    s3.put_object(Bucket=bucket, Key="k", Body=b"first ", **named)
    # It is encrypted as its object is, without being asked to.
    s3.put_object(Bucket=bucket, Key="k", Body=content(100_000), WriteOffsetBytes=6)
    wrong = {"Bucket": bucket, "Key": "k", "Body": b"x", "WriteOffsetBytes": 100_006}
    assert refusal(s3.put_object, **wrong, ServerSideEncryption="AES256") == (400, "InvalidRequest")
    # Nor does it matter to which key the bucket sends what is new.
    s3.put_object(Bucket=bucket, Key="plain", Body=b"first ", ServerSideEncryption="AES256")
    s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration=default("alias/nobody"))
    s3.put_object(Bucket=bucket, Key="plain", Body=b"second", WriteOffsetBytes=6)
    assert (shown(s3.head_object(Bucket=bucket, Key="plain")), read(s3, bucket, "plain")) == (
        ("AES256", None), b"first second",
    )  # fmt: skip
    s3.delete_bucket_encryption(Bucket=bucket)
    s3.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    wire = target.wire
    for size in (10, 5000):
        text = ("note " * size)[:size].encode()
        assert wire("PUT", f"/{bucket}/k", "annotation&annotationName=note", body=text).status == 200
        assert wire("GET", f"/{bucket}/k", "annotation&annotationName=note").body == text
    assert (shown(s3.head_object(Bucket=bucket, Key="k")), read(s3, bucket, "k")) == (
        ("aws:kms", ARN + key), b"first " + content(100_000),
    )  # fmt: skip


def test_contexts_outlive_the_server(tmp_path: Path) -> None:
    data = tmp_path / "store"
    body, context = content(5000), '{"tenant": "a-rather-long-name-of-a-tenant"}'
    with running(data, master_key=MASTER_KEY) as target:
        s3 = target.client()
        s3.create_bucket(Bucket="bkt")
        s3.put_object(Bucket="bkt", Key="k", Body=body, **KMS, SSEKMSEncryptionContext=encoded(context))
        s3.put_object(Bucket="bkt", Key="other", Body=body, **KMS, SSEKMSEncryptionContext=encoded('{"tenant": "b"}'))
        assert read(s3, "bkt", "k") == read(s3, "bkt", "other") == body
        target.server.kill()
    with running(data, master_key=MASTER_KEY) as target:
        s3 = target.client()
        assert read(s3, "bkt", "k") == read(s3, "bkt", "other") == body
        assert "ServerSideEncryption" in s3.head_object(Bucket="bkt", Key="k")


def test_without_a_keyring_it_is_said_what_to_configure(tmp_path: Path) -> None:
    with running(tmp_path / "store") as target:
        s3 = target.client()
        s3.create_bucket(Bucket="bkt")
        with pytest.raises(botocore.exceptions.ClientError, match="ORCAS_MASTER_KEY"):
            s3.put_object(Bucket="bkt", Key="k", Body=b"x", **KMS)
        refused = refusal(s3.put_bucket_encryption, Bucket="bkt", ServerSideEncryptionConfiguration=default(None))
        assert refused == (501, "NotImplemented")


def test_everything_by_default_leaves_named_keys_their_choice(tmp_path: Path) -> None:
    with running(tmp_path / "store", master_key=MASTER_KEY, encrypt_by_default=True) as target:
        s3 = target.client()
        s3.create_bucket(Bucket="bkt")
        assert shown(s3.put_object(Bucket="bkt", Key="k", Body=b"x")) == ("AES256", None)
        assert shown(s3.put_object(Bucket="bkt", Key="k", Body=b"x", **KMS))[0] == "aws:kms"
        s3.put_bucket_encryption(Bucket="bkt", ServerSideEncryptionConfiguration=default(None))
        assert shown(s3.put_object(Bucket="bkt", Key="k", Body=b"x"))[0] == "aws:kms"
        assert s3.get_bucket_encryption(Bucket="bkt")["ServerSideEncryptionConfiguration"] == default(None)
        s3.delete_bucket_encryption(Bucket="bkt")
        rules = s3.get_bucket_encryption(Bucket="bkt")["ServerSideEncryptionConfiguration"]["Rules"]
        assert rules[0]["ApplyServerSideEncryptionByDefault"] == {"SSEAlgorithm": "AES256"}


def test_objects_outlive_the_server(tmp_path: Path) -> None:
    data = tmp_path / "store"
    with running(data, master_key=MASTER_KEY) as target:
        s3, key = target.client(), create_key(target, "mine")
        s3.create_bucket(Bucket="bkt")
        for size in SIZES:
            s3.put_object(Bucket="bkt", Key=f"{size}", Body=content(size), **KMS, SSEKMSKeyId=key)
        orcas.Server.kill(target.server)
    for path in data.glob("index.db*"):
        path.unlink()
    with running(data, master_key=MASTER_KEY) as target:
        s3 = target.client()
        for size in SIZES:
            assert read(s3, "bkt", f"{size}") == content(size)
