"""Annotations of objects: named texts that change without the object."""

from __future__ import annotations

import datetime as dt
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

import pytest
from tests.fixtures.checksums import ALGORITHMS, checksum, etag
from tests.fixtures.targets import KINDS, MIB, content, read, refusal, running
from tests.fixtures.wire import Wire

pytestmark = pytest.mark.conformance
kinds = pytest.mark.parametrize("target", KINDS, indirect=True)

ON = {"Status": "Enabled"}
# Kept in the record of the object, kept as a content, and the longest.
TEXTS = ["x", "é" * 32, "é" * 33, "long " * 1_000, "ü" * (MIB // 2)]


def annotate(s3: Any, bucket: str, name: str, text: str | bytes = "text", key: str = "k", **more: Any) -> Any:
    payload = text if isinstance(text, bytes) else text.encode()
    return s3.put_object_annotation(Bucket=bucket, Key=key, AnnotationName=name, AnnotationPayload=payload, **more)


def refused(call: Any, *place: Any, **more: Any) -> tuple[int, str]:
    return refusal(partial(call, *place), **more)


def text_of(s3: Any, bucket: str, name: str, key: str = "k", **version: str) -> str:
    answer = s3.get_object_annotation(Bucket=bucket, Key=key, AnnotationName=name, **version)
    return str(answer["AnnotationPayload"].read().decode())


def names_of(s3: Any, bucket: str, key: str = "k", **more: Any) -> list[str]:
    answer = s3.list_object_annotations(Bucket=bucket, Key=key, **more)
    return [entry["AnnotationName"] for entry in answer["Annotations"]]


@kinds
@pytest.mark.parametrize("text", TEXTS, ids=["byte", "inline", "short", "content", "longest"])
def test_a_text_is_written_replaced_and_removed(s3: Any, bucket: str, text: str) -> None:
    before = s3.put_object(Bucket=bucket, Key="k", Body=b"kept")
    head = s3.head_object(Bucket=bucket, Key="k")
    put = annotate(s3, bucket, "a", text)
    assert (put["Key"], put["AnnotationName"], put["ETag"]) == ("k", "a", etag(text.encode()))
    got = s3.get_object_annotation(Bucket=bucket, Key="k", AnnotationName="a", ChecksumMode="ENABLED")
    assert got["AnnotationPayload"].read().decode() == text
    assert (got["ETag"], got["ContentLength"], got["ChecksumType"]) == (put["ETag"], len(text.encode()), "FULL_OBJECT")
    assert got["ChecksumCRC32"] == put["ChecksumCRC32"] == checksum("CRC32", text.encode())
    assert dt.datetime.now(dt.UTC) - got["LastModified"] < dt.timedelta(minutes=1)
    annotate(s3, bucket, "a", "other")
    assert text_of(s3, bucket, "a") == "other"
    after = s3.get_object(Bucket=bucket, Key="k")
    assert after["Body"].read() == b"kept"
    assert (after["ETag"], after["LastModified"]) == (before["ETag"], head["LastModified"])
    for _ in range(2):
        removed = s3.delete_object_annotation(Bucket=bucket, Key="k", AnnotationName="a")
        assert removed["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert refused(text_of, s3, bucket, "a") == (404, "NoSuchAnnotation")


@kinds
def test_they_are_listed_by_page_and_prefix(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"kept")
    assert names_of(s3, bucket) == []
    names = sorted([f"n{n:02}" for n in range(12)] + ["ml.a", "ml.b", "été"])
    for name in reversed(names):
        annotate(s3, bucket, name, name, ChecksumAlgorithm="SHA256")
    answer = s3.list_object_annotations(Bucket=bucket, Key="k")
    entries = answer["Annotations"]
    assert [entry["AnnotationName"] for entry in entries] == names
    assert [entry["ETag"] for entry in entries] == [etag(name.encode()) for name in names]
    assert [entry["Size"] for entry in entries] == [len(name.encode()) for name in names]
    assert {tuple(entry["ChecksumAlgorithm"]) for entry in entries} == {("SHA256",)}
    assert (answer["Bucket"], answer["Key"], answer["AnnotationCount"]) == (bucket, "k", len(names))
    assert answer["MaxAnnotationResults"] == 1000
    assert "NextContinuationToken" not in answer
    found: list[str] = []
    page: dict[str, Any] = {}
    while not page or "NextContinuationToken" in page:
        token = {"ContinuationToken": page["NextContinuationToken"]} if page else {}
        page = s3.list_object_annotations(Bucket=bucket, Key="k", MaxAnnotationResults=4, **token)
        assert page["AnnotationCount"] == len(page["Annotations"]) <= 4
        found += [entry["AnnotationName"] for entry in page["Annotations"]]
    assert found == names
    assert names_of(s3, bucket, AnnotationPrefix="ml.") == ["ml.a", "ml.b"]
    page = s3.list_object_annotations(Bucket=bucket, Key="k", AnnotationPrefix="n", MaxAnnotationResults=12)
    assert (page["AnnotationPrefix"], page["AnnotationCount"], "NextContinuationToken" in page) == ("n", 12, False)
    assert refused(names_of, s3, bucket, AnnotationPrefix="p" * 513) == (400, "InvalidPrefix")


@kinds
def test_names_and_texts_that_are_refused(s3: Any, wire: Wire, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"kept")
    annotate(s3, bucket, "n" * 512)
    for name, code in [
        ("n" * 513, "AnnotationNameTooLong"),
        ("é" * 257, "AnnotationNameTooLong"),
        ("aws-x", "InvalidAnnotationName"),
        ("S3.x", "InvalidAnnotationName"),
        ("a/b", "InvalidAnnotationName"),
        ("a b", "InvalidAnnotationName"),
    ]:
        assert refused(annotate, s3, bucket, name) == (400, code), name
    for text, expected in [
        (b"", (400, "EntityTooSmall")),
        (b"x" * (MIB + 1), (400, "EntityTooLarge")),
        (b"\xff", (415, "UnsupportedMediaType")),
        ("é".encode() * 200 + b"\xc3", (415, "UnsupportedMediaType")),
    ]:
        assert refused(annotate, s3, bucket, "a", text) == expected
    wrong = {"Content-MD5": "1B2M2Y8AsgTpgAmY7PhCfg=="}
    answer = wire("PUT", f"/{bucket}/k", "annotation&annotationName=a", headers=wrong, body=b"text")
    assert (answer.status, answer.code) == (400, "BadDigest")
    wrong = {"x-amz-checksum-crc32": "AAAAAA=="}
    answer = wire("PUT", f"/{bucket}/k", "annotation&annotationName=a", headers=wrong, body=b"text")
    assert (answer.status, answer.code) == (400, "BadDigest")
    assert wire("PUT", f"/{bucket}/k", "annotation", body=b"text").status >= 400
    assert names_of(s3, bucket) == ["n" * 512]
    absent = {"Bucket": bucket, "Key": "absent"}
    assert refused(annotate, s3, bucket, "a", key="absent") == (404, "NoSuchKey")
    # The bucket is looked for first, whatever the name is.
    for method in ("PUT", "DELETE"):
        answer = wire(method, f"/{bucket}-none/k", "annotation&annotationName=a/b", body=b"text")
        assert (answer.status, answer.code) == (404, "NoSuchBucket"), method
    assert refused(text_of, s3, bucket, "a", "absent") == (404, "NoSuchKey")
    assert refusal(s3.list_object_annotations, **absent) == (404, "NoSuchKey")
    assert refusal(s3.delete_object_annotation, **absent, AnnotationName="a") == (404, "NoSuchKey")


@kinds
@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_every_checksum(s3: Any, wire: Wire, bucket: str, algorithm: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"kept")
    text = "naïve ".encode() * 100
    header = f"x-amz-checksum-{algorithm.lower()}"
    path = (f"/{bucket}/k", "annotation&annotationName=a")
    put = wire("PUT", *path, headers={header: checksum(algorithm, text)}, body=text)
    assert (put.status, put.headers[header]) == (200, checksum(algorithm, text)), put.body
    got = wire("GET", *path, headers={"x-amz-checksum-mode": "ENABLED"})
    assert (got.status, got.body, got.headers[header]) == (200, text, checksum(algorithm, text))
    assert header not in wire("GET", *path).headers


@kinds
def test_each_version_has_its_own(s3: Any, bucket: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration=ON)
    old, new = (s3.put_object(Bucket=bucket, Key="k", Body=b"kept")["VersionId"] for _ in range(2))
    put = annotate(s3, bucket, "a", "old", VersionId=old)
    assert put["ObjectVersionId"] == old
    assert refused(text_of, s3, bucket, "a") == (404, "NoSuchAnnotation")
    assert annotate(s3, bucket, "a", "new")["ObjectVersionId"] == new
    assert (text_of(s3, bucket, "a", VersionId=old), text_of(s3, bucket, "a")) == ("old", "new")
    assert s3.list_object_annotations(Bucket=bucket, Key="k", VersionId=old)["ObjectVersionId"] == old
    removed = s3.delete_object_annotation(Bucket=bucket, Key="k", AnnotationName="a", VersionId=old)
    assert removed["ObjectVersionId"] == old
    assert names_of(s3, bucket, VersionId=old) == []
    assert names_of(s3, bucket) == ["a"]
    s3.delete_object(Bucket=bucket, Key="k")
    assert refused(text_of, s3, bucket, "a") == (404, "NoSuchKey")
    assert refused(annotate, s3, bucket, "b") == (405, "MethodNotAllowed")
    assert text_of(s3, bucket, "a", VersionId=new) == "new"
    s3.delete_object(Bucket=bucket, Key="k", VersionId=new)
    assert refused(text_of, s3, bucket, "a", VersionId=new) == (404, "NoSuchVersion")


@kinds
def test_the_entity_tag_of_the_object_can_be_a_condition(s3: Any, bucket: str) -> None:
    tag = s3.put_object(Bucket=bucket, Key="k", Body=b"kept")["ETag"]
    annotate(s3, bucket, "a", "first", ObjectIfMatch=tag)
    s3.put_object(Bucket=bucket, Key="k", Body=b"newer")
    assert refused(annotate, s3, bucket, "a", "late", ObjectIfMatch=tag) == (412, "PreconditionFailed")
    annotate(s3, bucket, "a", "second")
    delete = {"Bucket": bucket, "Key": "k", "AnnotationName": "a"}
    assert refusal(s3.delete_object_annotation, **delete, ObjectIfMatch=tag) == (412, "PreconditionFailed")
    assert text_of(s3, bucket, "a") == "second"
    s3.delete_object_annotation(**delete, ObjectIfMatch=etag(b"newer"))
    assert names_of(s3, bucket) == []


@kinds
def test_what_other_operations_make_of_them(s3: Any, wire: Wire, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"kept")
    annotate(s3, bucket, "a", "x" * 5_000)
    annotate(s3, bucket, "b")
    source = {"Bucket": bucket, "Key": "k"}
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=source)
    s3.copy_object(Bucket=bucket, Key="asked", CopySource=source, AnnotationDirective="COPY")
    s3.copy_object(Bucket=bucket, Key="without", CopySource=source, AnnotationDirective="EXCLUDE")
    assert [names_of(s3, bucket, key) for key in ("copy", "asked", "without")] == [["a", "b"], ["a", "b"], []]
    wrong = {"x-amz-copy-source": f"{bucket}/k", "x-amz-object-annotation-directive": "x"}
    assert wire("PUT", f"/{bucket}/copy", headers=wrong).code == "InvalidArgument"
    s3.copy_object(Bucket=bucket, Key="k", CopySource=source, MetadataDirective="REPLACE", Metadata={"m": "1"})
    s3.put_object_tagging(Bucket=bucket, Key="k", Tagging={"TagSet": [{"Key": "t", "Value": "v"}]})
    s3.rename_object(Bucket=bucket, Key="renamed", RenameSource="k")
    assert text_of(s3, bucket, "a", "renamed") == "x" * 5_000
    assert names_of(s3, bucket, "renamed") == ["a", "b"]
    s3.put_object(Bucket=bucket, Key="copy", Body=b"newer")
    assert names_of(s3, bucket, "copy") == []
    upload = s3.create_multipart_upload(Bucket=bucket, Key="renamed")["UploadId"]
    copied = s3.upload_part_copy(
        Bucket=bucket, Key="renamed", UploadId=upload, PartNumber=1, CopySource={"Bucket": bucket, "Key": "asked"}
    )
    parts = [{"PartNumber": 1, "ETag": copied["CopyPartResult"]["ETag"]}]
    s3.complete_multipart_upload(Bucket=bucket, Key="renamed", UploadId=upload, MultipartUpload={"Parts": parts})
    assert names_of(s3, bucket, "renamed") == []
    s3.delete_object(Bucket=bucket, Key="asked")
    s3.put_object(Bucket=bucket, Key="asked", Body=b"again")
    assert names_of(s3, bucket, "asked") == []


@kinds
def test_a_lock_keeps_them(s3: Any, wire: Wire, bucket: str) -> None:
    s3.create_bucket(Bucket=f"{bucket}-lock", ObjectLockEnabledForBucket=True)
    bucket = f"{bucket}-lock"
    until = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", ObjectLockMode="GOVERNANCE", ObjectLockRetainUntilDate=until)
    annotate(s3, bucket, "a", "first")
    annotate(s3, bucket, "a", "second")
    delete = {"Bucket": bucket, "Key": "k", "AnnotationName": "a"}
    assert refusal(s3.delete_object_annotation, **delete) == (403, "AccessDenied")
    assert text_of(s3, bucket, "a") == "second"
    bypass = {"x-amz-bypass-governance-retention": "true"}
    assert wire("DELETE", f"/{bucket}/k", "annotation&annotationName=a", headers=bypass).status == 204
    annotate(s3, bucket, "a", "third")
    s3.put_object_legal_hold(Bucket=bucket, Key="k", LegalHold={"Status": "ON"})
    assert wire("DELETE", f"/{bucket}/k", "annotation&annotationName=a", headers=bypass).status == 403
    s3.put_object_legal_hold(Bucket=bucket, Key="k", LegalHold={"Status": "OFF"})


@kinds
def test_the_limit_on_their_number(s3: Any, wire: Wire, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"kept")
    for n in range(1000):
        name = quote(f"n{n:03}")
        assert wire("PUT", f"/{bucket}/k", f"annotation&annotationName={name}", body=b"text").status == 200
    assert refused(annotate, s3, bucket, "more") == (400, "AnnotationLimitExceeded")
    annotate(s3, bucket, "n500", "replaced")
    page = s3.list_object_annotations(Bucket=bucket, Key="k")
    assert (page["AnnotationCount"], "NextContinuationToken" in page) == (1000, False)
    assert read(s3, bucket, "k") == b"kept"
    s3.delete_object_annotation(Bucket=bucket, Key="k", AnnotationName="n500")
    annotate(s3, bucket, "more")


def test_they_outlive_a_kill(tmp_path: Path) -> None:
    text = content(3_000).hex()
    with running(tmp_path / "store") as first:
        s3 = first.client()
        s3.create_bucket(Bucket="kept")
        s3.put_object(Bucket="kept", Key="k", Body=b"kept")
        annotate(s3, "kept", "a", text)
        annotate(s3, "kept", "b")
        s3.delete_object_annotation(Bucket="kept", Key="k", AnnotationName="b")
        first.server.kill()
    with running(tmp_path / "store") as second:
        s3 = second.client()
        assert (names_of(s3, "kept"), text_of(s3, "kept", "a")) == (["a"], text)
