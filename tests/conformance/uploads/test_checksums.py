"""The ten checksums: in a header, in a trailer, wrong, in answers, over parts."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fixtures.checksums import ALGORITHMS, COMPOSITE, FULL_OBJECT, checksum, composite, content_md5
from tests.fixtures.signing import (
    STREAMING,
    STREAMING_TRAILER,
    UNSIGNED_TRAILER,
    ChunkSigner,
    aws_chunked,
    signed_headers,
)
from tests.fixtures.targets import MIB, Target, content, keys_of, read, refusal
from tests.fixtures.uploads import begin
from tests.fixtures.wire import Answer, Wire

pytestmark = [pytest.mark.conformance, pytest.mark.parametrize("target", ["disk", "memory"], indirect=True)]

SIZES = [0, 100, 300, 70_000]


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("size", SIZES)
def test_in_a_header(s3: Any, bucket: str, algorithm: str, size: int) -> None:
    data, name = content(size), f"Checksum{algorithm}"
    put = s3.put_object(Bucket=bucket, Key="k", Body=data, **{name: checksum(algorithm, data)})
    assert (put[name], put["ChecksumType"]) == (checksum(algorithm, data), "FULL_OBJECT")
    for call in (s3.head_object, s3.get_object):
        answer = call(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
        assert (answer[name], answer["ChecksumType"]) == (checksum(algorithm, data), "FULL_OBJECT")
        assert name not in s3.head_object(Bucket=bucket, Key="k")
    entry = s3.list_objects_v2(Bucket=bucket)["Contents"][0]
    assert (entry["ChecksumAlgorithm"], entry["ChecksumType"]) == ([algorithm], "FULL_OBJECT")


@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("size", SIZES)
def test_a_wrong_one_stores_nothing(s3: Any, bucket: str, algorithm: str, size: int) -> None:
    wrong = {f"Checksum{algorithm}": checksum(algorithm, b"other")}
    assert refusal(s3.put_object, Bucket=bucket, Key="k", Body=content(size), **wrong) == (400, "BadDigest")
    assert keys_of(s3, bucket) == []


@pytest.mark.parametrize("algorithm", ALGORITHMS)
def test_what_is_no_checksum(s3: Any, bucket: str, algorithm: str) -> None:
    for value in ("", "?", "AAA", "AAAA", checksum("SHA256", b"x")[:-4] + "!!!!"):
        refused = refusal(s3.put_object, Bucket=bucket, Key="k", Body=b"x", **{f"Checksum{algorithm}": value})
        assert refused == (400, "InvalidRequest"), value
    assert keys_of(s3, bucket) == []


def test_two_checksums_are_refused(wire: Wire, bucket: str) -> None:
    headers = {"x-amz-checksum-crc32": checksum("CRC32", b"x"), "x-amz-checksum-xxhash3": checksum("XXHASH3", b"x")}
    answer = wire("PUT", f"/{bucket}/k", headers=headers, body=b"x")
    assert (answer.status, answer.code) == (400, "InvalidRequest")
    assert answer.error["Message"] == (
        "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed."
    )


def test_errors_are_worded_as_those_of_s3(wire: Wire, bucket: str) -> None:
    for name, value, code, message in [
        (
            "sha512",
            checksum("SHA512", b"y"),
            "BadDigest",
            "The SHA512 you specified did not match the calculated checksum.",
        ),
        ("xxhash64", "AAAA", "InvalidRequest", "Value for x-amz-checksum-xxhash64 header is invalid."),
    ]:
        answer = wire("PUT", f"/{bucket}/k", headers={f"x-amz-checksum-{name}": value}, body=b"x")
        assert (answer.code, answer.error["Message"]) == (code, message)
    refused = wire("GET", f"/{bucket}/k", headers={"x-amz-checksum-mode": "SOMETIMES"})
    assert refused.error["Message"] == "Value for x-amz-checksum-mode header is invalid."


def test_boto3_computes_and_verifies(s3: Any, bucket: str) -> None:
    data = content(70_000)
    default = s3.put_object(Bucket=bucket, Key="k", Body=data)
    assert default["ChecksumCRC32"] == checksum("CRC32", data)
    for algorithm in ("CRC32", "SHA1", "SHA256", "SHA512"):
        put = s3.put_object(Bucket=bucket, Key="k", Body=data, ChecksumAlgorithm=algorithm)
        assert put[f"Checksum{algorithm}"] == checksum(algorithm, data)
        got = s3.get_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
        assert (got["Body"].read(), got[f"Checksum{algorithm}"]) == (data, checksum(algorithm, data))


def send_chunked(
    wire: Wire, path: str, data: bytes, payload: str, trailers: dict[str, str], query: str = "", **framing: Any
) -> Answer:
    """A PUT in aws-chunked framing, signed as `payload` says."""
    target = f"{path}?{query}" if query else path
    headers = {
        "Host": wire.netloc,
        "Content-Encoding": "aws-chunked",
        "x-amz-decoded-content-length": str(len(data)),
    }
    if trailers:
        headers["x-amz-trailer"] = ",".join(trailers)
    signed = signed_headers(wire.identity, "PUT", wire.endpoint + target, headers, payload=payload)
    signer = None if payload == UNSIGNED_TRAILER else ChunkSigner(wire.identity, signed)
    body = aws_chunked(data, signer=signer, trailers=trailers, **framing)
    return wire.send("PUT", target, signed, body)


@pytest.mark.parametrize("payload", [UNSIGNED_TRAILER, STREAMING_TRAILER])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("size", SIZES)
def test_in_a_trailer(s3: Any, wire: Wire, bucket: str, algorithm: str, size: int, payload: str) -> None:
    data, name = content(size), f"x-amz-checksum-{algorithm.lower()}"
    answer = send_chunked(wire, f"/{bucket}/k", data, payload, {name: checksum(algorithm, data)}, chunk=8192)
    assert answer.status == 200, answer.body
    assert answer.headers[name] == checksum(algorithm, data)
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert head[f"Checksum{algorithm}"] == checksum(algorithm, data)
    assert "ContentEncoding" not in head
    assert read(s3, bucket, "k") == data


@pytest.mark.parametrize("payload", [UNSIGNED_TRAILER, STREAMING_TRAILER])
@pytest.mark.parametrize("algorithm", ALGORITHMS)
@pytest.mark.parametrize("size", SIZES)
def test_a_wrong_trailer_stores_nothing(
    s3: Any, wire: Wire, bucket: str, algorithm: str, size: int, payload: str
) -> None:
    name = f"x-amz-checksum-{algorithm.lower()}"
    trailers = {name: checksum(algorithm, b"other")}
    answer = send_chunked(wire, f"/{bucket}/k", content(size), payload, trailers, chunk=8192)
    assert (answer.status, answer.code) == (400, "BadDigest")
    assert keys_of(s3, bucket) == []


def test_a_trailer_other_than_announced(s3: Any, wire: Wire, bucket: str) -> None:
    data = content(300)
    headers = {
        "Host": wire.netloc,
        "x-amz-decoded-content-length": "300",
        "x-amz-trailer": "x-amz-checksum-crc32",
    }
    for trailers in ({}, {"x-amz-checksum-sha256": checksum("SHA256", data)}, {"x-other": "1"}):
        signed = signed_headers(wire.identity, "PUT", f"{wire.endpoint}/{bucket}/k", headers, payload=UNSIGNED_TRAILER)
        answer = wire.send("PUT", f"/{bucket}/k", signed, aws_chunked(data, trailers=trailers))
        assert answer.status == 400, trailers
        assert answer.code in {"MalformedTrailerError", "InvalidRequest"}
    assert keys_of(s3, bucket) == []


@pytest.mark.parametrize("size", SIZES)
def test_signed_chunks_without_trailer(s3: Any, wire: Wire, bucket: str, size: int) -> None:
    data = content(size)
    answer = send_chunked(wire, f"/{bucket}/k", data, STREAMING, {}, chunk=8192)
    assert answer.status == 200, answer.body
    assert read(s3, bucket, "k") == data


def test_parts_in_signed_chunks(s3: Any, wire: Wire, bucket: str) -> None:
    upload = begin(s3, bucket, "k")
    data = content(300_000)
    query = f"partNumber=1&uploadId={upload.id}"
    answer = send_chunked(
        wire, f"/{bucket}/k", data, STREAMING_TRAILER, {"x-amz-checksum-crc32c": checksum("CRC32C", data)}, query
    )
    assert answer.status == 200, answer.body
    upload.complete(parts=[(1, answer.headers["etag"])])
    assert read(s3, bucket, "k") == data


@pytest.mark.parametrize("algorithm", COMPOSITE)
def test_composite_of_parts(s3: Any, bucket: str, algorithm: str) -> None:
    name = f"Checksum{algorithm}"
    bodies = [content(5 * MIB), b"end"] if algorithm != "CRC32C" else [b"only part"]
    upload = begin(s3, bucket, "k", ChecksumAlgorithm=algorithm, ChecksumType="COMPOSITE")
    parts = []
    for number, body in enumerate(bodies, start=1):
        value = checksum(algorithm, body)
        part = s3.upload_part(**upload.arguments, PartNumber=number, Body=body, **{name: value})
        assert part[name] == value
        parts.append({"PartNumber": number, "ETag": part["ETag"], name: value})
    listed = s3.list_parts(**upload.arguments)
    assert (listed["ChecksumAlgorithm"], listed["ChecksumType"]) == (algorithm, "COMPOSITE")
    assert [part[name] for part in listed["Parts"]] == [part[name] for part in parts]
    wrong = [parts[0] | {name: checksum(algorithm, b"other")}, *parts[1:]]
    refused = refusal(s3.complete_multipart_upload, **upload.arguments, MultipartUpload={"Parts": wrong})
    assert refused == (400, "InvalidPart")
    done = s3.complete_multipart_upload(**upload.arguments, MultipartUpload={"Parts": parts})
    assert (done[name], done["ChecksumType"]) == (composite(algorithm, bodies), "COMPOSITE")
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert (head[name], head["ChecksumType"]) == (composite(algorithm, bodies), "COMPOSITE")
    part = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED", PartNumber=1)
    assert part["PartsCount"] == len(bodies)
    assert (part[name], part["ChecksumType"]) == (checksum(algorithm, bodies[0]), "COMPOSITE")
    entry = s3.list_objects_v2(Bucket=bucket)["Contents"][0]
    assert (entry["ChecksumAlgorithm"], entry["ChecksumType"]) == ([algorithm], "COMPOSITE")
    attributes = s3.get_object_attributes(Bucket=bucket, Key="k", ObjectAttributes=["Checksum", "ObjectParts"])
    # As on S3, without the number of parts.
    value = composite(algorithm, bodies).rpartition("-")[0]
    assert attributes["Checksum"] == {name: value, "ChecksumType": "COMPOSITE"}
    assert [part[name] for part in attributes["ObjectParts"]["Parts"]] == [checksum(algorithm, body) for body in bodies]


@pytest.mark.parametrize("algorithm", FULL_OBJECT)
def test_full_object_of_parts(s3: Any, bucket: str, algorithm: str) -> None:
    name = f"Checksum{algorithm}"
    bodies = [content(5 * MIB), content(1000)] if algorithm == "CRC32" else [content(100_000)]
    whole = checksum(algorithm, b"".join(bodies))
    upload = begin(s3, bucket, "k", ChecksumAlgorithm=algorithm, ChecksumType="FULL_OBJECT")
    for number, body in enumerate(bodies, start=1):
        upload.put(number, body, **{name: checksum(algorithm, body)})
    listed = s3.list_parts(**upload.arguments)
    assert (listed["ChecksumAlgorithm"], listed["ChecksumType"]) == (algorithm, "FULL_OBJECT")
    wrong = {name: checksum(algorithm, b"other"), "ChecksumType": "FULL_OBJECT"}
    assert refusal(upload.complete, **wrong) == (400, "BadDigest")
    assert keys_of(s3, bucket) == []
    done = upload.complete(**{name: whole, "ChecksumType": "FULL_OBJECT"})
    assert (done[name], done["ChecksumType"]) == (whole, "FULL_OBJECT")
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert (head[name], head["ChecksumType"]) == (whole, "FULL_OBJECT")


def test_full_object_is_for_crcs_only(s3: Any, bucket: str) -> None:
    for algorithm in set(COMPOSITE) - set(FULL_OBJECT):
        wrong = {"ChecksumAlgorithm": algorithm, "ChecksumType": "FULL_OBJECT"}
        assert refusal(s3.create_multipart_upload, Bucket=bucket, Key="k", **wrong) == (400, "InvalidRequest")
    wrong = {"ChecksumAlgorithm": "CRC64NVME", "ChecksumType": "COMPOSITE"}
    assert refusal(s3.create_multipart_upload, Bucket=bucket, Key="k", **wrong) == (400, "InvalidRequest")


def test_the_transfer_manager_with_each_algorithm(s3: Any, bucket: str, tmp_path: Any) -> None:
    path, back = tmp_path / "a", tmp_path / "b"
    path.write_bytes(content(9 * MIB))
    for algorithm in ("CRC32", "SHA1", "SHA256", "SHA512"):
        s3.upload_file(str(path), bucket, "k", ExtraArgs={"ChecksumAlgorithm": algorithm})
        s3.download_file(bucket, "k", str(back), ExtraArgs={"ChecksumMode": "ENABLED"})
        assert back.read_bytes() == path.read_bytes()


def test_md5_beside_a_checksum(target: Target, bucket: str) -> None:
    client, data = target.client(), content(300)
    both = {"ContentMD5": content_md5(data), "ChecksumCRC32": checksum("CRC32", data)}
    client.put_object(Bucket=bucket, Key="k", Body=data, **both)
    half_wrong = both | {"ContentMD5": content_md5(b"")}
    assert refusal(client.put_object, Bucket=bucket, Key="j", Body=data, **half_wrong) == (400, "BadDigest")
    assert keys_of(client, bucket) == ["k"]
