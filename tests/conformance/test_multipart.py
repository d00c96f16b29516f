"""Multipart uploads through boto3 over a real socket."""

from __future__ import annotations

import hashlib
import io
import os
from typing import Any

import pytest
from boto3.s3.transfer import TransferConfig
from botocore.exceptions import ClientError

pytestmark = pytest.mark.conformance

MIB = 1024 * 1024


def code_of(call: Any, **arguments: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**arguments)
    code: str = caught.value.response["Error"]["Code"]
    return code


def test_transfer_manager_round_trip(s3: Any, bucket: str) -> None:
    content = os.urandom(21 * MIB + 3)
    config = TransferConfig(multipart_threshold=5 * MIB, multipart_chunksize=5 * MIB, max_concurrency=4)
    s3.upload_fileobj(io.BytesIO(content), bucket, "k", Config=config)
    out = io.BytesIO()
    s3.download_fileobj(bucket, "k", out, Config=config)
    assert out.getvalue() == content
    parts = [hashlib.md5(content[at : at + 5 * MIB]).digest() for at in range(0, len(content), 5 * MIB)]  # noqa: S324
    tag = f'"{hashlib.md5(b"".join(parts)).hexdigest()}-{len(parts)}"'  # noqa: S324
    assert s3.head_object(Bucket=bucket, Key="k")["ETag"] == tag
    second = s3.get_object(Bucket=bucket, Key="k", PartNumber=2)
    assert (second["PartsCount"], second["Body"].read()) == (5, content[5 * MIB : 10 * MIB])


def test_parts_are_listed_replaced_and_completed(s3: Any, bucket: str) -> None:
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k", Metadata={"a": "1"})["UploadId"]
    at = {"Bucket": bucket, "Key": "k", "UploadId": upload}
    big, small = os.urandom(5 * MIB), os.urandom(1000)
    s3.upload_part(**at, PartNumber=1, Body=small)
    tags = {n: s3.upload_part(**at, PartNumber=n, Body=body)["ETag"] for n, body in ((1, big), (7, big), (9, small))}
    listed = s3.list_parts(**at, MaxParts=2)
    assert [(part["PartNumber"], part["ETag"], part["Size"]) for part in listed["Parts"]] == [
        (1, tags[1], len(big)),
        (7, tags[7], len(big)),
    ]
    assert (listed["IsTruncated"], listed["NextPartNumberMarker"]) == (True, 7)
    assert [found["UploadId"] for found in s3.list_multipart_uploads(Bucket=bucket)["Uploads"]] == [upload]
    assert code_of(s3.get_object, Bucket=bucket, Key="k") == "NoSuchKey"
    parts = [{"PartNumber": n, "ETag": tags[n]} for n in (1, 9)]
    wrong = [{"PartNumber": 1, "ETag": tags[9]}]
    assert code_of(s3.complete_multipart_upload, **at, MultipartUpload={"Parts": wrong}) == "InvalidPart"
    backwards = {"Parts": parts[::-1]}
    assert code_of(s3.complete_multipart_upload, **at, MultipartUpload=backwards) == "InvalidPartOrder"
    first = s3.complete_multipart_upload(**at, MultipartUpload={"Parts": parts})
    again = s3.complete_multipart_upload(**at, MultipartUpload={"Parts": parts})
    assert first["ETag"] == again["ETag"]
    got = s3.get_object(Bucket=bucket, Key="k")
    assert (got["Body"].read(), got["Metadata"]) == (big + small, {"a": "1"})
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)


def test_small_parts_and_unknown_uploads(s3: Any, bucket: str) -> None:
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    at = {"Bucket": bucket, "Key": "k", "UploadId": upload}
    parts = [{"PartNumber": n, "ETag": s3.upload_part(**at, PartNumber=n, Body=b"small")["ETag"]} for n in (1, 2)]
    assert code_of(s3.complete_multipart_upload, **at, MultipartUpload={"Parts": parts}) == "EntityTooSmall"
    s3.abort_multipart_upload(**at)
    for call, arguments in [
        (s3.list_parts, at),
        (s3.upload_part, at | {"PartNumber": 1, "Body": b"x"}),
        (s3.complete_multipart_upload, at | {"MultipartUpload": {"Parts": parts}}),
        (s3.list_parts, at | {"UploadId": "made-up"}),
    ]:
        assert code_of(call, **arguments) == "NoSuchUpload"


def test_upload_part_copy(s3: Any, bucket: str) -> None:
    content = os.urandom(6 * MIB)
    s3.put_object(Bucket=bucket, Key="from", Body=content)
    upload = s3.create_multipart_upload(Bucket=bucket, Key="to")["UploadId"]
    at = {"Bucket": bucket, "Key": "to", "UploadId": upload}
    source = {"Bucket": bucket, "Key": "from"}
    ranged = s3.upload_part_copy(**at, PartNumber=1, CopySource=source, CopySourceRange=f"bytes=7-{5 * MIB + 6}")
    whole = s3.upload_part_copy(**at, PartNumber=2, CopySource=source)
    assert whole["CopyPartResult"]["ETag"] == f'"{hashlib.md5(content).hexdigest()}"'  # noqa: S324
    outside = {"CopySource": source, "CopySourceRange": f"bytes=0-{6 * MIB}"}
    assert code_of(s3.upload_part_copy, **at, PartNumber=3, **outside) == "InvalidRequest"
    parts = [{"PartNumber": n, "ETag": part["CopyPartResult"]["ETag"]} for n, part in ((1, ranged), (2, whole))]
    s3.complete_multipart_upload(**at, MultipartUpload={"Parts": parts})
    assert s3.get_object(Bucket=bucket, Key="to")["Body"].read() == content[7 : 5 * MIB + 7] + content


@pytest.mark.parametrize(
    ("algorithm", "kind"), [("CRC32", "FULL_OBJECT"), ("CRC32", "COMPOSITE"), ("SHA256", "COMPOSITE")]
)
def test_checksums_of_parts_and_whole(s3: Any, bucket: str, algorithm: str, kind: str) -> None:
    member = f"Checksum{algorithm}"
    created = s3.create_multipart_upload(Bucket=bucket, Key="k", ChecksumAlgorithm=algorithm, ChecksumType=kind)
    at = {"Bucket": bucket, "Key": "k", "UploadId": created["UploadId"]}
    parts = []
    for number, body in ((1, os.urandom(5 * MIB)), (2, b"end")):
        part = s3.upload_part(**at, PartNumber=number, Body=body, ChecksumAlgorithm=algorithm)
        parts.append({"PartNumber": number, "ETag": part["ETag"], member: part[member]})
    done = s3.complete_multipart_upload(**at, MultipartUpload={"Parts": parts}, ChecksumType=kind)
    assert done["ChecksumType"] == kind
    assert done[member].endswith("-2") == (kind == "COMPOSITE")
    assert s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")[member] == done[member]
