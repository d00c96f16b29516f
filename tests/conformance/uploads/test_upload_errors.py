"""Errors of uploads, with the codes of AWS: the table in docs/s3/checksums.md, row by row."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest
from tests.fixtures.checksums import checksum, composite, etag
from tests.fixtures.signing import (
    STREAMING,
    STREAMING_TRAILER,
    UNSIGNED_TRAILER,
    ChunkSigner,
    aws_chunked,
    signed_headers,
)
from tests.fixtures.targets import content, keys_of
from tests.fixtures.uploads import Upload, begin
from tests.fixtures.wire import Answer, Wire

pytestmark = pytest.mark.conformance

DATA: Final = content(20_000)
LARGE: Final = content(5 << 20)
WRONG_CRC: Final = "AAAAAA=="


def put(wire: Wire, bucket: str, body: bytes = DATA, **options: Any) -> Answer:
    return wire("PUT", f"/{bucket}/k", body=body, **options)


def framed(
    wire: Wire,
    bucket: str,
    mode: str,
    spoil: Callable[[bytes], bytes],
    declared: int = len(DATA),
    crc: str = "",
    chunk: int = 8192,
) -> Answer:
    """An aws-chunked upload, changed after it was signed."""
    trailers = {"x-amz-checksum-crc32": crc or checksum("CRC32", DATA)} if mode != STREAMING else {}
    headers = {"Host": wire.netloc, "x-amz-decoded-content-length": str(declared)}
    headers |= {"x-amz-trailer": "x-amz-checksum-crc32"} if trailers else {}
    signed = signed_headers(wire.identity, "PUT", f"{wire.endpoint}/{bucket}/k", headers, payload=mode)
    signer = None if mode == UNSIGNED_TRAILER else ChunkSigner(wire.identity, signed)
    body = aws_chunked(DATA, chunk=chunk, signer=signer, trailers=trailers)
    return wire.send("PUT", f"/{bucket}/k", signed, spoil(body))


def same(body: bytes) -> bytes:
    return body


def complete(wire: Wire, upload: Upload, parts: list[tuple[int, str]], extra: str = "", **headers: str) -> Answer:
    listed = "".join(
        f"<Part><PartNumber>{number}</PartNumber><ETag>{tag}</ETag>{extra}</Part>" for number, tag in parts
    )
    body = f"<CompleteMultipartUpload>{listed}</CompleteMultipartUpload>".encode()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    path = f"/{upload.arguments['Bucket']}/{upload.arguments['Key']}"
    return wire("POST", path, f"uploadId={upload.id}", headers=named, body=body)


def uploaded(s3: Any, bucket: str, **options: Any) -> Upload:
    upload = begin(s3, bucket, "k", **options)
    algorithm = {"ChecksumAlgorithm": "CRC32"} if options else {}
    for number, body in ((1, LARGE), (2, b"end")):
        upload.tags[number] = s3.upload_part(**upload.arguments, PartNumber=number, Body=body, **algorithm)["ETag"]
    return upload


def full_object(s3: Any, bucket: str) -> Upload:
    return uploaded(s3, bucket, ChecksumAlgorithm="CRC32", ChecksumType="FULL_OBJECT")


def composite_of_one(s3: Any, bucket: str, number: int = 1) -> Upload:
    upload = begin(s3, bucket, "k", ChecksumAlgorithm="CRC32")
    upload.put(number, b"end", ChecksumCRC32=checksum("CRC32", b"end"))
    return upload


ONE, TWO = etag(LARGE), etag(b"end")
END_CRC: Final = f"<ChecksumCRC32>{checksum('CRC32', b'end')}</ChecksumCRC32>"
BOTH: Final = [(1, ONE), (2, TWO)]
Row = Callable[[Wire, Any, str], Answer]
ROWS: Final[dict[str, tuple[int, str, Row]]] = {
    "`Content-MD5` does not match the body": (
        400, "BadDigest", lambda wire, _, bucket: put(wire, bucket, headers={"Content-MD5": "A" * 22 + "=="})),
    "`Content-MD5` is not a valid MD5": (
        400, "InvalidDigest", lambda wire, _, bucket: put(wire, bucket, headers={"Content-MD5": "AAAA"})),
    "`x-amz-checksum-…` does not match the body": (
        400, "BadDigest", lambda wire, _, bucket: put(wire, bucket, headers={"x-amz-checksum-crc32": WRONG_CRC})),
    "`x-amz-checksum-…` is not a valid checksum": (
        400, "InvalidRequest", lambda wire, _, bucket: put(wire, bucket, headers={"x-amz-checksum-crc32": "AAAA"})),
    "there are two `x-amz-checksum-…` headers": (
        400, "InvalidRequest", lambda wire, _, bucket: put(
            wire, bucket, headers={"x-amz-checksum-crc32": WRONG_CRC, "x-amz-checksum-crc32c": WRONG_CRC})),
    "`x-amz-sdk-checksum-algorithm` without a checksum or a trailer": (
        400, "InvalidRequest", lambda wire, _, bucket: put(
            wire, bucket, headers={"x-amz-sdk-checksum-algorithm": "CRC32"})),
    "`x-amz-content-sha256` does not match the body": (
        400, "XAmzContentSHA256Mismatch", lambda wire, _, bucket: put(wire, bucket, payload="0" * 64)),
    "the checksum in a trailer does not match the body": (
        400, "BadDigest", lambda wire, _, bucket: framed(wire, bucket, UNSIGNED_TRAILER, same, crc=WRONG_CRC)),
    "the checksum in a trailer is not a valid checksum": (
        400, "InvalidRequest", lambda wire, _, bucket: framed(wire, bucket, UNSIGNED_TRAILER, same, crc="AAAA")),
    "the announced trailer is missing or a different one": (
        400, "MalformedTrailerError", lambda wire, _, bucket: framed(
            wire, bucket, UNSIGNED_TRAILER, lambda body: body.replace(b"checksum-crc32", b"checksum-crc99"))),
    "an aws-chunked body ends early": (
        400, "IncompleteBody", lambda wire, _, bucket: framed(wire, bucket, STREAMING, lambda body: body[:9000])),
    "a chunk of an aws-chunked body before the last one has less than 8,192 bytes": (
        400, "InvalidChunkSizeError", lambda wire, _, bucket: framed(wire, bucket, STREAMING, same, chunk=8191)),
    "the last chunk of an aws-chunked body is missing": (
        400, "IncompleteBody", lambda wire, _, bucket: framed(
            wire, bucket, STREAMING, lambda body: body[: body.rindex(b"0;chunk-signature")])),
    "the framing of an aws-chunked body is broken": (
        400, "IncompleteBody", lambda wire, _, bucket: framed(
            wire, bucket, UNSIGNED_TRAILER, lambda body: b"3" + body[1:])),
    "an aws-chunked body is shorter than `x-amz-decoded-content-length`": (
        400, "IncompleteBody", lambda wire, _, bucket: framed(wire, bucket, STREAMING, same, len(DATA) + 1)),
    "an aws-chunked body is longer than `x-amz-decoded-content-length`": (
        400, "IncompleteBody", lambda wire, _, bucket: framed(wire, bucket, STREAMING, same, len(DATA) - 1)),
    "the signature of a chunk or trailer is wrong": (
        403, "SignatureDoesNotMatch", lambda wire, _, bucket: framed(
            wire, bucket, STREAMING_TRAILER, lambda body: body[:9000] + bytes([body[9000] ^ 1]) + body[9001:])),
    "a part in the list was not uploaded, or has a different ETag": (
        400, "InvalidPart", lambda wire, s3, bucket: complete(wire, uploaded(s3, bucket), [(1, ONE), (3, TWO)])),
    "a part in the list has a different checksum": (
        400, "InvalidPart", lambda wire, s3, bucket: complete(
            wire, uploaded(s3, bucket, ChecksumAlgorithm="CRC32"), BOTH, f"<ChecksumCRC32>{WRONG_CRC}</ChecksumCRC32>")),
    "the list is not in ascending order": (
        400, "InvalidPartOrder", lambda wire, s3, bucket: complete(wire, uploaded(s3, bucket), BOTH[::-1])),
    "a part other than the last is smaller than 5 MiB": (
        400, "EntityTooSmall", lambda wire, s3, bucket: complete(wire, small(s3, bucket), [(1, TWO), (2, TWO)])),
    "the list is empty or not XML": (
        400, "MalformedXML", lambda wire, s3, bucket: complete(wire, uploaded(s3, bucket), [])),
    "the checksum of the object does not match its parts": (
        400, "BadDigest", lambda wire, s3, bucket: complete(
            wire, full_object(s3, bucket), BOTH, x_amz_checksum_crc32=WRONG_CRC)),
    "the number of parts after a composite checksum of the object is wrong": (
        400, "BadDigest", lambda wire, s3, bucket: complete(
            wire, composite_of_one(s3, bucket), [(1, TWO)], END_CRC,
            x_amz_checksum_crc32=composite("CRC32", [b"end"]).replace("-1", "-2"))),
    "a part in the list has a checksum in a different algorithm": (
        400, "BadDigest", lambda wire, s3, bucket: complete(
            wire, composite_of_one(s3, bucket), [(1, TWO)],
            f"<ChecksumMD5>{checksum('MD5', b'end')}</ChecksumMD5>")),
    "a part in the list has no checksum, and that of the upload is composite": (
        400, "InvalidRequest", lambda wire, s3, bucket: complete(wire, composite_of_one(s3, bucket), [(1, TWO)])),
    "a part in the list has two checksums, or one that is not base64 of the right length": (
        400, "InvalidArgument", lambda wire, s3, bucket: complete(
            wire, composite_of_one(s3, bucket), [(1, TWO)], END_CRC * 2)),
    "`x-amz-checksum-type` differs from that of the upload, or the upload has no algorithm": (
        400, "InvalidRequest", lambda wire, s3, bucket: complete(
            wire, uploaded(s3, bucket), BOTH, x_amz_checksum_type="FULL_OBJECT")),
    "part numbers of an upload with a composite checksum are not 1, 2, 3 and so on": (
        400, "InvalidPartOrder", lambda wire, s3, bucket: complete(
            wire, composite_of_one(s3, bucket, number=2), [(2, TWO)], END_CRC)),
    "`x-amz-mp-object-size` does not match the object": (
        400, "InvalidRequest", lambda wire, s3, bucket: complete(
            wire, uploaded(s3, bucket), BOTH, x_amz_mp_object_size="1")),
    "the upload was completed or aborted, or never existed": (
        404, "NoSuchUpload", lambda wire, s3, bucket: complete(wire, aborted(s3, bucket), BOTH)),
    "a part number is not from 1 to 10,000": (
        400, "InvalidArgument", lambda wire, s3, bucket: wire(
            "PUT", f"/{bucket}/k", f"partNumber=10001&uploadId={begin(s3, bucket, 'k').id}", body=b"x")),
    "a part uses a different checksum algorithm than the upload": (
        400, "InvalidRequest", lambda wire, s3, bucket: wire(
            "PUT", f"/{bucket}/k", f"partNumber=1&uploadId={begin(s3, bucket, 'k', ChecksumAlgorithm='SHA256').id}",
            headers={"x-amz-checksum-crc32": WRONG_CRC}, body=b"x")),
    "a part is sent without a checksum, and that of the upload is composite": (
        400, "InvalidRequest", lambda wire, s3, bucket: wire(
            "PUT", f"/{bucket}/k", f"partNumber=1&uploadId={begin(s3, bucket, 'k', ChecksumAlgorithm='SHA256').id}",
            body=b"x")),
    "`x-amz-checksum-mode` is not `ENABLED`": (
        400, "InvalidRequest", lambda wire, _, bucket: wire(
            "GET", f"/{bucket}/k", headers={"x-amz-checksum-mode": "DISABLED"})),
}  # fmt: skip


def small(s3: Any, bucket: str) -> Upload:
    upload = begin(s3, bucket, "k")
    for number in (1, 2):
        upload.put(number, b"end")
    return upload


def aborted(s3: Any, bucket: str) -> Upload:
    upload = begin(s3, bucket, "k")
    s3.abort_multipart_upload(**upload.arguments)
    return upload


@pytest.mark.parametrize("what", ROWS)
def test_uploads_fail_as_on_aws(wire: Wire, s3: Any, bucket: str, what: str) -> None:
    status, code, attempt = ROWS[what]
    answer = attempt(wire, s3, bucket)
    assert (answer.status, answer.code) == (status, code), answer.body
    assert keys_of(s3, bucket) == []


def test_the_table_is_documented() -> None:
    page = Path(__file__).parents[3] / "docs" / "s3" / "checksums.md"
    rows = re.findall(r"^\| (.+?) \| (\d{3}) `(\w+)` \|", page.read_text(encoding="utf-8"), re.MULTILINE)
    documented = {what: (int(status), code) for what, status, code in rows}
    for what, (status, code, _) in ROWS.items():
        assert documented.get(what) == (status, code), what
