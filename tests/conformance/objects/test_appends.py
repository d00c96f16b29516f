"""PutObject with a write offset: content is added at the end of an object."""

from __future__ import annotations

import base64
import hashlib
import zlib
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.fixtures.targets import KINDS, MIB, Target, content, keys_of, read, refusal
from tests.fixtures.wire import Wire

pytestmark = [pytest.mark.conformance, pytest.mark.parametrize("target", KINDS, indirect=True)]


def append(s3: Any, bucket: str, key: str, offset: int, body: bytes, **more: Any) -> dict[str, Any]:
    answer: dict[str, Any] = s3.put_object(Bucket=bucket, Key=key, Body=body, WriteOffsetBytes=offset, **more)
    return answer


def md5(data: bytes) -> bytes:
    return hashlib.md5(data, usedforsecurity=False).digest()


def crc32(data: bytes) -> str:
    return base64.b64encode(zlib.crc32(data).to_bytes(4, "big")).decode()


@pytest.mark.parametrize("sizes", [[1, 1, 1], [10, 250, 10, 5], [300, 1, 70_000], [5 * MIB, 100, 9 * MIB, 1]])
def test_content_is_added_at_the_end(s3: Any, bucket: str, sizes: list[int]) -> None:
    whole, tags = b"", set()
    for turn, size in enumerate(sizes):
        body = content(size, seed=turn)
        answer = append(s3, bucket, "k", len(whole), body)
        whole += body
        tags.add(answer["ETag"])
        assert answer["Size"] == len(whole)
        got = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
        assert (got["Body"].read(), got["ETag"], got["ContentLength"]) == (whole, answer["ETag"], len(whole))
        assert got["ChecksumCRC32"] == answer["ChecksumCRC32"] == crc32(whole)
        assert got["ChecksumType"] == "FULL_OBJECT"
    assert len(tags) == len(sizes)
    assert s3.head_object(Bucket=bucket, Key="k")["ETag"].endswith(f'-{len(sizes)}"')
    listed = s3.list_objects_v2(Bucket=bucket)["Contents"][0]
    assert (listed["Size"], listed["ETag"]) == (len(whole), s3.head_object(Bucket=bucket, Key="k")["ETag"])


def test_the_tag_follows_from_those_of_the_pieces(s3: Any, bucket: str) -> None:
    pieces = [b"a" * 300, b"b", b"c" * 70_000]
    tag = append(s3, bucket, "k", 0, pieces[0])["ETag"]
    digest = md5(pieces[0])
    assert tag == f'"{digest.hex()}"'
    for number, piece in enumerate(pieces[1:], 2):
        size = s3.head_object(Bucket=bucket, Key="k")["ContentLength"]
        tag = append(s3, bucket, "k", size, piece)["ETag"]
        digest = md5(digest + md5(piece))
        assert tag == f'"{digest.hex()}-{number}"'


def test_ranges_over_the_seams(s3: Any, bucket: str) -> None:
    whole = b""
    for turn, size in enumerate([100, 300, 1, 200_000, 7]):
        body = content(size, seed=turn)
        append(s3, bucket, "k", len(whole), body)
        whole += body
    seams = [0, 99, 100, 101, 399, 400, 401, 200_400, 200_401, len(whole) - 1]
    for first in seams:
        for last in seams:
            if first <= last:
                got = s3.get_object(Bucket=bucket, Key="k", Range=f"bytes={first}-{last}")
                assert got["Body"].read() == whole[first : last + 1], (first, last)


def test_an_offset_that_is_not_the_end(s3: Any, wire: Wire, bucket: str) -> None:
    wrong = (400, "InvalidWriteOffset")
    for body in (b"x", content(70_000)):
        put = {"Bucket": bucket, "Key": "k", "Body": body}
        assert refusal(s3.put_object, **put, WriteOffsetBytes=1) == wrong
    append(s3, bucket, "k", 0, b"12345")
    for offset in (0, 4, 6):
        assert refusal(s3.put_object, Bucket=bucket, Key="k", Body=b"x", WriteOffsetBytes=offset) == wrong
    assert read(s3, bucket, "k") == b"12345"
    for value in ("-1", "x", "", "1.0", "18446744073709551616"):
        answer = wire("PUT", f"/{bucket}/k", headers={"x-amz-write-offset-bytes": value}, body=b"x")
        assert (answer.status, answer.code) == (400, "InvalidArgument"), value
    answer = wire("PUT", f"/{bucket}/k", headers={"x-amz-write-offset-bytes": "5"}, body=b"")
    assert (answer.status, answer.code) == (400, "InvalidRequest")
    assert read(s3, bucket, "k") == b"12345"


def test_conditions_of_an_append(s3: Any, bucket: str) -> None:
    tag = append(s3, bucket, "k", 0, b"1", IfNoneMatch="*")["ETag"]
    put = {"Bucket": bucket, "Key": "k", "Body": b"2", "WriteOffsetBytes": 1}
    assert refusal(s3.put_object, **put, IfNoneMatch="*") == (412, "PreconditionFailed")
    assert refusal(s3.put_object, **put, IfMatch='"other"') == (412, "PreconditionFailed")
    append(s3, bucket, "k", 1, b"2", IfMatch=tag)
    assert read(s3, bucket, "k") == b"12"


def test_metadata_stays(s3: Any, bucket: str) -> None:
    append(s3, bucket, "k", 0, b"1", Metadata={"m": "1"}, ContentType="x/y", Tagging="t=1")
    put = {"Bucket": bucket, "Key": "k", "Body": b"2", "WriteOffsetBytes": 1}
    assert refusal(s3.put_object, **put, Metadata={"m": "2"}) == (400, "InvalidRequest")
    assert refusal(s3.put_object, **put, Tagging="t=2") == (400, "InvalidRequest")
    append(s3, bucket, "k", 1, b"2", ContentType="other/type")
    head = s3.head_object(Bucket=bucket, Key="k")
    assert (head["Metadata"], head["ContentType"]) == ({"m": "1"}, "x/y")
    assert s3.get_object_tagging(Bucket=bucket, Key="k")["TagSet"] == [{"Key": "t", "Value": "1"}]


def test_a_checksum_of_another_algorithm_is_refused(s3: Any, bucket: str) -> None:
    append(s3, bucket, "k", 0, b"1", ChecksumAlgorithm="CRC32")
    put = {"Bucket": bucket, "Key": "k", "Body": b"2", "WriteOffsetBytes": 1}
    assert refusal(s3.put_object, **put, ChecksumAlgorithm="SHA1") == (400, "InvalidRequest")
    append(s3, bucket, "k", 1, b"2", ChecksumAlgorithm="CRC32")
    assert s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")["ChecksumCRC32"]


def test_a_checksum_is_computed_if_none_is_sent(wire: Wire, s3: Any, bucket: str) -> None:
    append(s3, bucket, "k", 0, b"1")
    answer = wire("PUT", f"/{bucket}/k", headers={"x-amz-write-offset-bytes": "1"}, body=b"23")
    assert answer.status == 200, answer.body
    assert s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")["ChecksumCRC32"] == crc32(b"123")


def test_an_object_of_parts(target: Target, s3: Any, bucket: str) -> None:
    upload = s3.create_multipart_upload(Bucket=bucket, Key="k")["UploadId"]
    parts, whole = [], b""
    for number in (1, 2):
        body = content(5 * MIB, seed=number)
        names = {"Bucket": bucket, "Key": "k", "UploadId": upload}
        tag = s3.upload_part(**names, PartNumber=number, Body=body)["ETag"]
        parts.append({"PartNumber": number, "ETag": tag})
        whole += body
    s3.complete_multipart_upload(**names, MultipartUpload={"Parts": parts})
    more = content(100_000, seed=3)
    # Without a checksum of its own: botocore computes CRC64NVME, that of the object, only with another package.
    plain = target.client(request_checksum_calculation="when_required")
    answer = append(plain, bucket, "k", len(whole), more)
    assert answer["ETag"].endswith('-3"')
    assert read(s3, bucket, "k") == whole + more


def test_a_copy_can_be_appended_to_and_does_not_change_its_source(s3: Any, bucket: str) -> None:
    append(s3, bucket, "k", 0, b"1" * 300)
    append(s3, bucket, "k", 300, b"2" * 300)
    s3.copy_object(Bucket=bucket, Key="copy", CopySource=f"{bucket}/k")
    assert s3.head_object(Bucket=bucket, Key="copy")["ETag"].endswith('-1"')
    append(s3, bucket, "copy", 600, b"3")
    assert read(s3, bucket, "copy") == b"1" * 300 + b"2" * 300 + b"3"
    assert read(s3, bucket, "k") == b"1" * 300 + b"2" * 300


def test_versions(s3: Any, bucket: str) -> None:
    s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
    ids = [append(s3, bucket, "k", 2 * turn, b"ab")["VersionId"] for turn in range(3)]
    for turn, version in enumerate(ids, 1):
        got = s3.get_object(Bucket=bucket, Key="k", VersionId=version)
        assert got["Body"].read() == b"ab" * turn
    assert len(set(ids)) == 3


def test_of_many_appends_at_one_offset_one_succeeds(s3: Any, bucket: str) -> None:
    whole = b""
    for turn in range(5):
        bodies = [f"{turn}:{number:02};".encode() for number in range(16)]

        def attempt(body: bytes, offset: int = len(whole)) -> bool:
            try:
                put = {"Bucket": bucket, "Key": "k", "Body": body, "WriteOffsetBytes": offset}
                assert refusal(s3.put_object, **put) == (400, "InvalidWriteOffset")
            except AssertionError:
                return True
            return False

        with ThreadPoolExecutor(16) as pool:
            won = [body for body, success in zip(bodies, pool.map(attempt, bodies), strict=True) if success]
        assert len(won) == 1, won
        whole += won[0]
        assert read(s3, bucket, "k") == whole


def test_hundreds_of_small_appends(s3: Any, bucket: str) -> None:
    whole = b""
    for turn in range(300):
        piece = f"line {turn} ".encode().ljust(100, b".")
        append(s3, bucket, "k", len(whole), piece)
        whole += piece
    assert read(s3, bucket, "k") == whole
    got = s3.get_object(Bucket=bucket, Key="k", Range="bytes=12345-23456")
    assert got["Body"].read() == whole[12345:23457]
    s3.delete_object(Bucket=bucket, Key="k")
    assert keys_of(s3, bucket) == []
