"""The metadata of encrypted objects, as clients and as thieves of the disk see it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.conformance.encryption.test_encryption_customer import customer, of_source
from tests.fixtures.commands import command
from tests.fixtures.forms import multipart, post, signed_form
from tests.fixtures.keys import MASTER_KEY, act, create_key
from tests.fixtures.targets import MIB, Target, content, read, refusal, running

import orcas

pytestmark = pytest.mark.conformance

CONTEXT: Final = base64.b64encode(json.dumps({"project": "blue"}).encode()).decode()
# What a request says, and what reads have to bring.
WAYS: Final[dict[str, tuple[dict[str, Any], dict[str, Any]]]] = {
    "managed": ({"ServerSideEncryption": "AES256"}, {}),
    "named": ({"ServerSideEncryption": "aws:kms"}, {}),
    "context": ({"ServerSideEncryption": "aws:kms", "SSEKMSEncryptionContext": CONTEXT}, {}),
    "customer": (customer(), customer()),
}
METADATA: Final = {"patient": "Ada Lovelace", "empty-note": ""}
# Nothing else of the store says any of these.
HEADERS: Final[dict[str, Any]] = {
    "ContentType": "application/x-medical-record", "ContentEncoding": "x-squeezed", "ContentLanguage": "tlh",
    "ContentDisposition": 'attachment; filename="diagnosis.pdf"', "CacheControl": "max-age=86399", "Metadata": METADATA,
}  # fmt: skip
OTHER: Final[dict[str, Any]] = {"ContentType": "text/x-other", "Metadata": {"reviewer": "Grace Hopper"}}
SECRETS: Final = [
    b"Ada Lovelace", b"patient", b"empty-note", b"medical-record", b"x-squeezed", b"diagnosis", b"=86399",
    b"text/x-other", b"Grace Hopper", b"reviewer",
]  # fmt: skip


@pytest.fixture(scope="module", params=["disk", "memory"])
def target(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Target]:
    data = None if request.param == "memory" else tmp_path_factory.mktemp("store") / "data"
    with running(data, master_key=MASTER_KEY) as target:
        yield target


def shown(answer: dict[str, Any]) -> dict[str, Any]:
    """The metadata of an answer."""
    names = [*HEADERS, "StorageClass", "WebsiteRedirectLocation"]
    return {name: answer[name] for name in names if answer.get(name)}


def metadata(s3: Any, bucket: str, key: str, **options: Any) -> dict[str, Any]:
    """The metadata of an object, which all reads show alike."""
    place = {"Bucket": bucket, "Key": key, **options}
    head = s3.head_object(**place)
    assert shown(s3.get_object(**place)) == shown(head)
    if head["ContentLength"]:
        assert shown(s3.get_object(**place, Range="bytes=0-0")) == shown(head)
    return shown(head)


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("size", [0, 10, 100_000, 3 * MIB])
def test_reads_show_what_was_sent(s3: Any, bucket: str, way: str, size: int) -> None:
    asked, seen = WAYS[way]
    options = {"StorageClass": "STANDARD_IA", "WebsiteRedirectLocation": "/elsewhere"}
    s3.put_object(Bucket=bucket, Key="k", Body=content(size), **HEADERS, **options, **asked)
    assert metadata(s3, bucket, "k", **seen) == HEADERS | options
    assert read(s3, bucket, "k", **seen) == content(size)
    overridden = s3.get_object(Bucket=bucket, Key="k", ResponseContentType="a/b", **seen)
    assert (overridden["ContentType"], overridden["Metadata"]) == ("a/b", METADATA)
    unchanged = refusal(s3.get_object, Bucket=bucket, Key="k", IfNoneMatch=overridden["ETag"], **seen)
    assert unchanged == (304, "304")
    (listed,) = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert (listed["Size"], listed["StorageClass"]) == (size, "STANDARD_IA")
    # Without metadata, and with other metadata for the same content.
    s3.put_object(Bucket=bucket, Key="none", Body=content(size), **asked)
    assert metadata(s3, bucket, "none", **seen) == {"ContentType": "binary/octet-stream"}
    s3.put_object(Bucket=bucket, Key="other", Body=content(size), **OTHER, **asked)
    assert metadata(s3, bucket, "other", **seen) == OTHER
    assert metadata(s3, bucket, "k", **seen) == HEADERS | options


@pytest.mark.parametrize("way", WAYS)
def test_copies_keep_or_replace_it(s3: Any, bucket: str, way: str) -> None:
    asked, seen = WAYS[way]
    source = of_source() if seen else {}
    options = {"WebsiteRedirectLocation": "/elsewhere"}
    s3.put_object(Bucket=bucket, Key="k", Body=content(1000), **HEADERS, **options, **asked)
    s3.put_object(Bucket=bucket, Key="plain", Body=content(1000), **HEADERS, **options)
    itself, plain = {"Bucket": bucket, "Key": "k"}, {"Bucket": bucket, "Key": "plain"}
    for number, (ask, see) in enumerate([({}, {}), *WAYS.values()]):
        key = f"copy{number}"
        # S3 copies neither a redirect nor a storage class.
        s3.copy_object(Bucket=bucket, Key=key, CopySource=itself, **source, **ask)
        assert metadata(s3, bucket, key, **see) == HEADERS
        s3.copy_object(Bucket=bucket, Key=key, CopySource=itself, MetadataDirective="REPLACE", **OTHER, **source, **ask)
        assert metadata(s3, bucket, key, **see) == OTHER
        assert read(s3, bucket, key, **see) == content(1000)
        s3.copy_object(Bucket=bucket, Key=key, CopySource=plain, **ask)
        assert metadata(s3, bucket, key, **see) == HEADERS
        s3.copy_object(Bucket=bucket, Key=key, CopySource=plain, MetadataDirective="REPLACE", **OTHER, **ask)
        assert metadata(s3, bucket, key, **see) == OTHER
    # In place, which is how S3 changes metadata.
    s3.copy_object(**itself, CopySource=itself, MetadataDirective="REPLACE", **OTHER, **source, **asked)
    assert metadata(s3, bucket, "k", **seen) == OTHER
    s3.copy_object(**plain, CopySource=plain, **asked)
    assert metadata(s3, bucket, "plain", **seen) == HEADERS


@pytest.mark.parametrize("way", WAYS)
def test_uploads_in_parts_renames_and_forks(s3: Any, bucket: str, way: str) -> None:
    asked, seen = WAYS[way]
    upload = {"Bucket": bucket, "Key": "k"}
    upload["UploadId"] = s3.create_multipart_upload(**upload, **HEADERS, StorageClass="GLACIER_IR", **asked)["UploadId"]
    (open_one,) = s3.list_multipart_uploads(Bucket=bucket)["Uploads"]
    assert open_one["StorageClass"] == "GLACIER_IR"
    tag = s3.upload_part(**upload, PartNumber=1, Body=b"body", **seen)["ETag"]
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": tag}]}, **seen)
    expected = HEADERS | {"StorageClass": "GLACIER_IR"}
    assert metadata(s3, bucket, "k", **seen) == expected
    s3.rename_object(Bucket=bucket, Key="renamed", RenameSource="k")
    assert metadata(s3, bucket, "renamed", **seen) == expected
    orcas.buckets.create_snapshot(s3, bucket, "then")
    orcas.buckets.fork(s3, bucket, f"{bucket}-fork", snapshot="then")
    assert metadata(s3, f"{bucket}-fork", "renamed", **seen) == expected
    s3.put_object_tagging(Bucket=bucket, Key="renamed", Tagging={"TagSet": [{"Key": "a", "Value": "b"}]})
    assert metadata(s3, bucket, "renamed", **seen) == expected


@pytest.mark.parametrize("way", ["managed", "named", "context"])
def test_appends_keep_it(s3: Any, bucket: str, way: str) -> None:
    asked, _ = WAYS[way]
    s3.put_object(Bucket=bucket, Key="k", Body=b"first ", WriteOffsetBytes=0, **HEADERS, **asked)
    s3.put_object(Bucket=bucket, Key="k", Body=b"second", WriteOffsetBytes=6)
    assert (read(s3, bucket, "k"), metadata(s3, bucket, "k")) == (b"first second", HEADERS)
    described = {"Bucket": bucket, "Key": "k", "Body": b"x", "WriteOffsetBytes": 12}
    assert refusal(s3.put_object, **described, Metadata={"a": "b"}) == (400, "InvalidRequest")
    s3.put_object(**described, ContentType="other/type", **asked)
    assert metadata(s3, bucket, "k") == HEADERS


def test_forms_and_instant_uploads(target: Target, s3: Any, bucket: str) -> None:
    default = {"Rules": [{"ApplyServerSideEncryptionByDefault": {"SSEAlgorithm": "AES256"}}]}
    s3.put_bucket_encryption(Bucket=bucket, ServerSideEncryptionConfiguration=default)
    for size in (5, 300_000):
        fields = {"key": "form", "Content-Type": "a/b", "x-amz-meta-patient": "Ada"}
        answer = post(target.wire, bucket, multipart(signed_form(target.wire.identity, bucket, fields), content(size)))
        assert answer.status == 204, answer.body
        assert metadata(s3, bucket, "form") == {"ContentType": "a/b", "Metadata": {"patient": "Ada"}}
    body = content(200_000)
    assert orcas.instant.upload(s3, bucket, "sent", body).transferred
    assert not orcas.instant.upload(s3, bucket, "known", body, extra_args=HEADERS).transferred
    assert (metadata(s3, bucket, "known"), read(s3, bucket, "known")) == (HEADERS, body)


def test_a_wrong_key_shows_nothing(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"", **HEADERS, **customer())
    for call in (s3.head_object, s3.get_object):
        assert refusal(call, Bucket=bucket, Key="k")[0] == 400
        assert refusal(call, Bucket=bucket, Key="k", **customer(2))[0] == 403


def test_it_needs_the_key_and_what_moves_it_does_not(target: Target, s3: Any, bucket: str) -> None:
    key = create_key(target, f"of/{bucket}")
    named = {"ServerSideEncryption": "aws:kms", "SSEKMSKeyId": key}
    s3.put_object(Bucket=bucket, Key="empty", Body=b"", **HEADERS, **named)
    s3.put_object(Bucket=bucket, Key="bare", Body=b"body", **named)
    act(target, key, "disable")
    for call in (s3.head_object, s3.get_object):
        assert refusal(call, Bucket=bucket, Key="empty")[0] == 400
    assert s3.head_object(Bucket=bucket, Key="bare")["ContentLength"] == 4
    place = {"Bucket": bucket, "Key": "new"}
    assert refusal(s3.put_object, **place, Body=b"", **HEADERS, **named) == (400, "KMS.DisabledException")
    assert refusal(s3.create_multipart_upload, **place, **HEADERS, **named) == (400, "KMS.DisabledException")
    s3.rename_object(Bucket=bucket, Key="renamed", RenameSource="empty")
    assert [entry["Key"] for entry in s3.list_objects_v2(Bucket=bucket)["Contents"]] == ["bare", "renamed"]
    act(target, key, "enable")
    assert metadata(s3, bucket, "renamed") == HEADERS


def fill(target: Target, ways: dict[str, tuple[dict[str, Any], dict[str, Any]]]) -> None:
    """Stores metadata in every way that there is."""
    s3 = target.client()
    s3.create_bucket(Bucket="bkt")
    for way, (asked, seen) in ways.items():
        for size in (0, 100, 100_000):
            s3.put_object(Bucket="bkt", Key=f"{way}/{size}", Body=content(size), **HEADERS, **asked)
        source = {"Bucket": "bkt", "Key": f"{way}/100"}
        copy = {"Bucket": "bkt", "Key": f"{way}/copy", "CopySource": source, **(of_source() if seen else {}), **asked}
        s3.copy_object(**copy)
        s3.copy_object(**copy | {"Key": f"{way}/replaced"}, MetadataDirective="REPLACE", **OTHER)
        s3.rename_object(Bucket="bkt", Key=f"{way}/renamed", RenameSource=f"{way}/100000")
        # One is completed, one stays open.
        for key in (f"{way}/open", f"{way}/parts"):
            upload = {"Bucket": "bkt", "Key": key}
            upload["UploadId"] = s3.create_multipart_upload(**upload, **HEADERS, **asked)["UploadId"]
            tag = s3.upload_part(**upload, PartNumber=1, Body=b"body", **seen)["ETag"]
        s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": tag}]}, **seen)
        if not seen:
            s3.put_object(Bucket="bkt", Key=f"{way}/appended", Body=b"x", WriteOffsetBytes=0, **HEADERS, **asked)
            s3.put_object(Bucket="bkt", Key=f"{way}/appended", Body=b"y", WriteOffsetBytes=1)


def expected(way: str, seen: dict[str, Any]) -> dict[str, dict[str, Any]]:
    there = dict.fromkeys(["0", "100", "copy", "renamed", "parts", *([] if seen else ["appended"])], HEADERS)
    return {f"{way}/{name}": headers for name, headers in (there | {"replaced": OTHER}).items()}


def found_in(data: Path) -> set[bytes]:
    """Which of the secrets any file has."""
    stored = [path.read_bytes() for path in data.rglob("*") if path.is_file()]
    return {secret for secret in SECRETS if any(secret in one for one in stored)}


def test_nothing_of_the_metadata_is_on_the_disk(tmp_path: Path) -> None:
    data, plain = tmp_path / "store", tmp_path / "plain"
    with running(plain) as target:
        fill(target, {"plain": ({}, {})})
    # The same is found where nothing is encrypted.
    assert found_in(plain) == set(SECRETS)

    def check(data: Path) -> None:
        with running(data, master_key=MASTER_KEY) as target:
            s3 = target.client()
            for way, (_, seen) in WAYS.items():
                shown = {key: metadata(s3, "bkt", key, **seen) for key in expected(way, seen)}
                assert shown == expected(way, seen)

    with running(data, master_key=MASTER_KEY) as target:
        fill(target, WAYS)
        orcas.Server.kill(target.server)
    check(data)
    for command_line in (["fsck"], ["gc"], ["stats"], ["fsck"]):
        command(*command_line, "--data", data)
    command("fsck", "--data", data, ORCAS_MASTER_KEY=MASTER_KEY)
    for path in data.glob("index.db*"):
        path.unlink()
    check(data)
    backup, restored = tmp_path / "backup", tmp_path / "restored"
    command("backup", backup, "--data", data)
    command("restore", backup, "--data", restored)
    check(restored)
    assert found_in(data) == found_in(backup) == found_in(restored) == set()
