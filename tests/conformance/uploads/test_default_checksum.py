"""Content for which the client chose no checksum has a CRC64NVME, as on S3."""

from __future__ import annotations

from typing import Any

import pytest
from tests.fixtures.checksums import ALGORITHMS, FULL_OBJECT, checksum, multipart_etag
from tests.fixtures.targets import MIB, Target, content, refusal
from tests.fixtures.uploads import begin
from tests.fixtures.wire import Answer, Wire

pytestmark = [pytest.mark.conformance, pytest.mark.parametrize("target", ["disk", "memory"], indirect=True)]

NAME = "ChecksumCRC64NVME"
HEADER = "x-amz-checksum-crc64nvme"


@pytest.fixture
def plain(target: Target) -> Any:
    """A client that adds no checksums by itself."""
    return target.client(request_checksum_calculation="when_required", response_checksum_validation="when_required")


def shown(client: Any, bucket: str, key: str) -> tuple[str, str]:
    head = client.head_object(Bucket=bucket, Key=key, ChecksumMode="ENABLED")
    attributes = client.get_object_attributes(Bucket=bucket, Key=key, ObjectAttributes=["Checksum"])["Checksum"]
    assert attributes == {NAME: head[NAME], "ChecksumType": head["ChecksumType"]}
    [entry] = client.list_objects_v2(Bucket=bucket, Prefix=key)["Contents"]
    assert (entry["ChecksumAlgorithm"], entry["ChecksumType"]) == (["CRC64NVME"], head["ChecksumType"])
    return head[NAME], head["ChecksumType"]


@pytest.mark.parametrize("size", [0, 100, 300, 70_000])
def test_of_an_object_and_its_copy(plain: Any, bucket: str, size: int) -> None:
    data = content(size)
    value = checksum("CRC64NVME", data)
    put = plain.put_object(Bucket=bucket, Key="a", Body=data)
    assert (put[NAME], put["ChecksumType"]) == (value, "FULL_OBJECT")
    assert shown(plain, bucket, "a") == (value, "FULL_OBJECT")
    assert NAME not in plain.head_object(Bucket=bucket, Key="a")
    copied = plain.copy_object(Bucket=bucket, Key="b", CopySource={"Bucket": bucket, "Key": "a"})
    assert (copied["CopyObjectResult"][NAME], copied["CopyObjectResult"]["ChecksumType"]) == (value, "FULL_OBJECT")
    assert shown(plain, bucket, "b") == (value, "FULL_OBJECT")


def test_of_an_object_made_of_parts(s3: Any, plain: Any, bucket: str) -> None:
    bodies = [content(5 * MIB), content(5 * MIB + 1), content(100)]
    upload = begin(plain, bucket, "k")
    # The checksum that a client declares for a part is compared and answered, whatever is stored.
    declared = {"ChecksumXXHASH3": checksum("XXHASH3", bodies[0])}
    part = plain.upload_part(**upload.arguments, PartNumber=1, Body=bodies[0], **declared)
    upload.tags[1] = part["ETag"]
    assert (part["ChecksumXXHASH3"], NAME in part) == (declared["ChecksumXXHASH3"], False)
    for number, body in ((2, bodies[1]), (3, bodies[2])):
        part = plain.upload_part(**upload.arguments, PartNumber=number, Body=body)
        upload.tags[number] = part["ETag"]
        assert part[NAME] == checksum("CRC64NVME", body)
    listed = plain.list_parts(**upload.arguments)
    assert "ChecksumAlgorithm" not in listed
    assert not [name for part in listed["Parts"] for name in part if name.startswith("Checksum")]
    done = upload.complete()
    value = checksum("CRC64NVME", b"".join(bodies))
    assert (done["ETag"], done[NAME], done["ChecksumType"]) == (multipart_etag(bodies), value, "FULL_OBJECT")
    assert shown(plain, bucket, "k") == (value, "FULL_OBJECT")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"".join(bodies)


def test_of_parts_copied_from_objects_with_other_checksums(s3: Any, plain: Any, bucket: str) -> None:
    bodies = [content(5 * MIB), content(1000)]
    for number, body in enumerate(bodies, start=1):
        s3.put_object(Bucket=bucket, Key=f"source{number}", Body=body, ChecksumAlgorithm="SHA256")
    upload = begin(plain, bucket, "k")
    for number in (1, 2):
        source = {"Bucket": bucket, "Key": f"source{number}"}
        answer = plain.upload_part_copy(**upload.arguments, PartNumber=number, CopySource=source)
        upload.tags[number] = answer["CopyPartResult"]["ETag"]
    upload.complete()
    assert shown(plain, bucket, "k") == (checksum("CRC64NVME", b"".join(bodies)), "FULL_OBJECT")


@pytest.mark.parametrize("algorithm", FULL_OBJECT)
@pytest.mark.parametrize("size", [100, 70_000])
def test_parts_of_a_full_object_need_no_checksum(plain: Any, bucket: str, algorithm: str, size: int) -> None:
    body, name = content(size), f"Checksum{algorithm}"
    upload = begin(plain, bucket, "k", ChecksumAlgorithm=algorithm, ChecksumType="FULL_OBJECT")
    part = plain.upload_part(**upload.arguments, PartNumber=1, Body=body)
    assert part[name] == checksum(algorithm, body)
    upload.tags[1] = part["ETag"]
    assert upload.complete()[name] == checksum(algorithm, body)


@pytest.mark.parametrize("algorithm", [name for name in ALGORITHMS if name != "CRC64NVME"])
@pytest.mark.parametrize("size", [100, 70_000])
def test_parts_of_a_composite_need_theirs(plain: Any, wire: Wire, bucket: str, algorithm: str, size: int) -> None:
    upload = begin(plain, bucket, "k", ChecksumAlgorithm=algorithm)
    for headers, actual in (({}, "null"), ({HEADER: checksum("CRC64NVME", content(size))}, "crc64nvme")):
        query = f"partNumber=1&uploadId={upload.id}"
        answer = wire("PUT", f"/{bucket}/k", query, headers=headers, body=content(size))
        assert answer.code == "InvalidRequest"
        assert answer.error["Message"] == (
            f"Checksum Type mismatch occurred, expected checksum Type: {algorithm.lower()}, "
            f"actual checksum Type: {actual}"
        )
    assert "Parts" not in plain.list_parts(**upload.arguments)


def complete(wire: Wire, bucket: str, upload: str, part: str, **headers: str) -> Answer:
    """Completes an upload of one part; `part` are the elements of it that follow the number."""
    body = f"<CompleteMultipartUpload><Part><PartNumber>1</PartNumber>{part}</Part></CompleteMultipartUpload>"
    named = {f"x-amz-{name.replace('_', '-')}": value for name, value in headers.items()}
    return wire("POST", f"/{bucket}/k", f"uploadId={upload}", headers=named, body=body.encode())


def test_complete_says_what_is_wrong_as_s3_does(plain: Any, wire: Wire, bucket: str) -> None:
    value = checksum("SHA256", b"part")
    upload = begin(plain, bucket, "k", ChecksumAlgorithm="SHA256")
    tag = f"<ETag>{upload.put(1, b'part', ChecksumSHA256=value)}</ETag>"
    stated = f"{tag}<ChecksumSHA256>{value}</ChecksumSHA256>"
    for part, headers, code, message in [
        (
            tag,
            {},
            "InvalidRequest",
            (
                "The upload was created using a sha256 checksum. The complete request must include the checksum for "
                "each part. It was missing for part 1 in the request."
            ),
        ),
        (
            f"{tag}<ChecksumMD5>{checksum('MD5', b'part')}</ChecksumMD5>",
            {},
            "BadDigest",
            "The md5 you specified for part 1 did not match what we received.",
        ),
        (
            f"{tag}<ChecksumSHA256>AAAA</ChecksumSHA256>",
            {},
            "InvalidArgument",
            "Invalid Base64 or multiple checksums present in request",
        ),
        (
            stated,
            {"checksum_type": "FULL_OBJECT"},
            "InvalidRequest",
            (
                "The upload was created using the COMPOSITE checksum mode. The complete request must use the same "
                "checksum mode."
            ),
        ),
        (
            stated,
            {"checksum_sha256": f"{value}-1"},
            "BadDigest",
            "The sha256 you specified did not match the calculated checksum.",
        ),
        (
            stated,
            {"mp_object_size": "5"},
            "InvalidRequest",
            "The provided 'x-amz-mp-object-size' header value 5 does not match what was computed: 4",
        ),
    ]:
        answer = complete(wire, bucket, upload.id, part, **headers)
        assert (answer.status, answer.code, answer.error["Message"]) == (400, code, message)
    assert complete(wire, bucket, upload.id, stated, checksum_type="COMPOSITE", mp_object_size="4").status == 200


def test_complete_of_an_upload_without_an_algorithm(plain: Any, wire: Wire, bucket: str) -> None:
    upload = begin(plain, bucket, "k")
    crc32 = checksum("CRC32", b"part")
    tag = f"<ETag>{upload.put(1, b'part', ChecksumCRC32=crc32)}</ETag>"
    answer = complete(wire, bucket, upload.id, f"{tag}<ChecksumCRC32>{crc32}</ChecksumCRC32>")
    assert (answer.status, answer.code) == (400, "InvalidPart")
    answer = complete(wire, bucket, upload.id, tag, checksum_type="FULL_OBJECT")
    assert answer.error["Message"] == (
        "The upload was created using the null checksum mode. The complete request must use the same checksum mode."
    )
    wrong = {NAME: checksum("CRC64NVME", b"other")}
    assert refusal(upload.complete, **wrong) == (400, "BadDigest")
    # S3 does not compare values in other algorithms.
    answer = complete(wire, bucket, upload.id, tag, checksum_crc32=checksum("CRC32", b"other"))
    assert answer.document().findtext(NAME) == checksum("CRC64NVME", b"part")


def test_a_document_has_none(wire: Wire, bucket: str) -> None:
    answer = wire("POST", f"/{bucket}", "delete", body=b"<Delete><Object><Key>a</Key></Object></Delete>")
    assert HEADER not in answer.headers
