"""Requests with two faults: the first check decides the code."""

from __future__ import annotations

import base64
import hashlib
import uuid
from typing import Any

import pytest
from tests.fixtures.waiting import wait_until
from tests.fixtures.wire import Answer, Wire

pytestmark = pytest.mark.conformance

OTHER_MD5 = base64.b64encode(bytes(16)).decode()
Headers = dict[str, str]

ENDED = b"<Retention><Mode>GOVERNANCE</Mode><RetainUntilDate>2020-01-01T00:00:00Z</RetainUntilDate></Retention>"
ENDED_MD5 = base64.b64encode(hashlib.md5(ENDED, usedforsecurity=False).digest()).decode()

Row = tuple[str, Headers, bytes, int, str]

# Request, headers, body, and the answer. `{b}` is a bucket with the object `k`, `{none}` one that does not exist,
# `{locked}` one with Object Lock.
# The order of S3: the bucket, the key, then what is asked of the object; RFC 9110 has preconditions before ranges.
OF_S3: list[Row] = [
    ("GET /{none}/absent", {}, b"", 404, "NoSuchBucket"),
    ("GET /{none}/k", {"if-match": '"x"'}, b"", 404, "NoSuchBucket"),
    ("GET /{b}/absent", {"if-match": '"x"'}, b"", 404, "NoSuchKey"),
    ("GET /{b}/absent", {"range": "bytes=100-"}, b"", 404, "NoSuchKey"),
    ("GET /{b}/k", {"if-match": '"x"', "range": "bytes=100-"}, b"", 412, "PreconditionFailed"),
    ("GET /{b}/k", {"if-none-match": "*", "range": "bytes=100-"}, b"", 304, ""),
]
# S3 documents no order for these. The compatibility page states that of Orcas.
OF_ORCAS: list[Row] = [
    ("PUT /{none}/k", {"content-md5": "short"}, b"x", 404, "NoSuchBucket"),
    ("PUT /{none}/k", {"content-md5": OTHER_MD5}, b"x", 404, "NoSuchBucket"),
    ("PUT /{none}/k", {"x-amz-tagging": "a=1&a=2"}, b"x", 404, "NoSuchBucket"),
    ("PUT /{none}/k", {"x-amz-copy-source": "/{b}/absent"}, b"", 404, "NoSuchBucket"),
    ("PUT /{none}/k", {"x-amz-copy-source": "malformed"}, b"", 404, "NoSuchBucket"),
    ("PUT /{none}/k?partNumber=1&uploadId=none", {"x-amz-copy-source": "malformed"}, b"", 404, "NoSuchBucket"),
    ("PUT /{b}/k", {"x-amz-copy-source": "malformed"}, b"", 400, "InvalidArgument"),
    ("PUT /{none}?tagging", {}, b"<Tagging", 404, "NoSuchBucket"),
    ("POST /{b}/k?uploadId=none", {}, b"<Complete", 404, "NoSuchUpload"),
    ("PUT /{b}/k?partNumber=0&uploadId=none", {}, b"x", 400, "InvalidArgument"),
    ("PUT /{b}/absent?tagging", {}, b"<Tagging", 400, "MalformedXML"),
    ("PUT /{locked}/absent?retention", {"content-md5": ENDED_MD5}, ENDED, 400, "InvalidArgument"),
]


@pytest.fixture(scope="module")
def names(targets: Any) -> dict[str, str]:
    s3 = targets("disk").client()
    found = {name: f"{name[0]}-{uuid.uuid4().hex}" for name in ("b", "none", "locked")}
    s3.create_bucket(Bucket=found["b"])
    s3.create_bucket(Bucket=found["locked"], ObjectLockEnabledForBucket=True)
    s3.put_object(Bucket=found["b"], Key="k", Body=b"0123456789")
    return found


def send(wire: Wire, names: dict[str, str], row: Row) -> Answer:
    method, _, address = row[0].format(**names).partition(" ")
    path, _, query = address.partition("?")
    headers = {name: value.format(**names) for name, value in row[1].items()}
    return wire(method, path, query, headers=headers, body=row[2])


@pytest.mark.parametrize("row", [*OF_S3, *OF_ORCAS], ids=lambda row: " ".join([row[0], *row[1].values()]))
def test_the_first_check_decides(wire: Wire, names: dict[str, str], row: Row) -> None:
    answer = send(wire, names, row)
    assert (answer.status, answer.code) == row[3:], answer.body


def test_a_condition_comes_before_the_body_if_memory_knows_the_object(wire: Wire, names: dict[str, str]) -> None:
    row = ("PUT /{b}/k", {"if-none-match": "*", "content-md5": OTHER_MD5}, b"x", 412, "PreconditionFailed")

    def is_refused_early() -> bool:
        # What was read last is in memory, unless it was still on its way to the index.
        assert wire("HEAD", f"/{names['b']}/k").status == 200
        answer = send(wire, names, row)
        return (answer.status, answer.code) == row[3:]

    assert wait_until(is_refused_early)


@pytest.mark.parametrize("row", OF_S3, ids=lambda row: " ".join([row[0], *row[1].values()]))
def test_a_wrong_signature_comes_first(wire: Wire, names: dict[str, str], row: Row) -> None:
    answer = send(wire.using(secret_key="wrong"), names, row)
    assert (answer.status, answer.code) == (403, "SignatureDoesNotMatch")
