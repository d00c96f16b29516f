"""Error documents, and bad input that must store nothing."""

from __future__ import annotations

import datetime as dt
import hashlib
import json
from typing import Any

import pytest
from tests.fixtures.signing import STREAMING, STREAMING_TRAILER, UNSIGNED, UNSIGNED_TRAILER, signed_headers
from tests.fixtures.targets import content, keys_of, read
from tests.fixtures.wire import Answer, Wire, quote_key

pytestmark = pytest.mark.conformance


def check_document(answer: Answer, path: str) -> None:
    error = answer.error
    assert {"Code", "Message", "Resource", "RequestId", "HostId"} <= set(error)
    assert error["Message"]
    assert error["Resource"] == path
    assert error["RequestId"] == answer.headers["x-amz-request-id"]
    assert answer.headers["content-type"] == "application/xml"
    assert int(answer.headers["content-length"]) == len(answer.body)


@pytest.mark.parametrize(
    ("method", "path", "query", "status", "code"),
    [
        ("GET", "/{bucket}/none", "", 404, "NoSuchKey"),
        ("GET", "/{bucket}-none/k", "", 404, "NoSuchBucket"),
        ("GET", "/{bucket}", "cors", 404, "NoSuchCORSConfiguration"),
        ("GET", "/{bucket}/k", "torrent", 501, "NotImplemented"),
        ("GET", "/{bucket}", "bogus", 400, "InvalidArgument"),
        ("GET", "/{bucket}", "max-keys=x", 400, "InvalidArgument"),
        ("GET", "/{bucket}/k", "uploadId=none", 404, "NoSuchUpload"),
        ("PUT", "/A", "", 400, "InvalidBucketName"),
        ("POST", "/{bucket}/k", "", 405, "MethodNotAllowed"),
        ("OPTIONS", "/{bucket}/k", "", 400, "BadRequest"),
        ("GET", "/{bucket}/%zz", "", 400, "InvalidURI"),
    ],
)
def test_every_error_is_a_document(
    wire: Wire, bucket: str, method: str, path: str, query: str, status: int, code: str
) -> None:
    path = path.format(bucket=bucket)
    answer = wire(method, path, query)
    assert (answer.status, answer.code) == (status, code)
    check_document(answer, path)


NOT_A_COPY = "You can only specify a copy source header for copy requests."
MAX_BUCKETS = "Argument max-buckets must be an integer between 1 and 10000."
ONE_CHECKSUM = "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed."
UNKNOWN_CHECKSUM = "The algorithm type you specified in x-amz-checksum- header is invalid."


@pytest.mark.parametrize(
    ("request_line", "headers", "code", "message"),
    [
        ("GET /{bucket}", {"x-amz-copy-source": "b/k"}, "InvalidArgument", NOT_A_COPY),
        ("DELETE /{bucket}", {"x-amz-copy-source": "b/k"}, "InvalidArgument", NOT_A_COPY),
        ("DELETE /{bucket}/k", {"x-amz-copy-source": "b/k"}, "InvalidArgument", NOT_A_COPY),
        ("POST /{bucket}/k?uploadId=u", {"x-amz-copy-source": "b/k"}, "InvalidArgument", NOT_A_COPY),
        (
            "PUT /{bucket}/k",
            {"x-amz-copy-source": "192.168.1.1/k"},
            "InvalidArgument",
            "Invalid copy source bucket name",
        ),
        ("PUT /{bucket}/k", {"x-amz-copy-source": "ab/k"}, "InvalidArgument", "Invalid copy source bucket name"),
        (
            "PUT /{bucket}/k",
            {"x-amz-copy-source": "/{bucket}/k", "x-amz-tagging-directive": "MOVE"},
            "InvalidArgument",
            "Unknown tagging directive.",
        ),
        ("GET /?max-buckets=-1", {}, "InvalidArgument", MAX_BUCKETS),
        ("GET /?max-buckets=10001", {}, "InvalidArgument", MAX_BUCKETS),
        ("GET /?max-buckets=x", {}, "InvalidArgument", MAX_BUCKETS),
        (
            "PUT /{bucket}/k",
            {"x-amz-checksum-crc32": "bad", "x-amz-checksum-crc32c": "AAAAAA=="},
            "InvalidRequest",
            ONE_CHECKSUM,
        ),
        ("PUT /{bucket}/k", {"x-amz-checksum-crc9": "AAAAAA=="}, "InvalidRequest", UNKNOWN_CHECKSUM),
    ],
)
def test_a_wrong_argument_is_named(
    wire: Wire, s3: Any, bucket: str, request_line: str, headers: dict[str, str], code: str, message: str
) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"kept")
    method, _, address = request_line.format(bucket=bucket).partition(" ")
    path, _, query = address.partition("?")
    headers = {name: value.format(bucket=bucket) for name, value in headers.items()}
    answer = wire(method, path, query, headers=headers)
    assert (answer.status, answer.code, answer.error["Message"]) == (400, code, message)
    assert read(s3, bucket, "k") == b"kept"


def test_another_kind_of_authorization_is_named(wire: Wire, bucket: str) -> None:
    answer = wire.send("GET", f"/{bucket}", {"Host": wire.netloc, "Authorization": "Basic eDp5"})
    error = answer.error
    assert (answer.status, answer.code, error["Message"]) == (400, "InvalidArgument", "Unsupported Authorization Type")
    assert (error["ArgumentName"], error["ArgumentValue"]) == ("Authorization", "Basic")


def test_unsigned_requests_get_a_document_too(wire: Wire, bucket: str) -> None:
    answer = wire("GET", f"/{bucket}/k", sign=False)
    assert (answer.status, answer.code) == (403, "AccessDenied")
    check_document(answer, f"/{bucket}/k")


def test_errors_name_their_object(wire: Wire, bucket: str) -> None:
    for key in ("none", "a b+ü", "<&>'\""):
        answer = wire("GET", f"/{bucket}/{quote_key(key)}")
        assert answer.error["Key"] == key
        assert answer.error["Resource"] == f"/{bucket}/{quote_key(key)}"
    assert wire("GET", f"/{bucket}-none").error["BucketName"] == f"{bucket}-none"


def test_a_wrong_signature_names_what_was_claimed(wire: Wire, bucket: str) -> None:
    forged = wire.using(secret_key="x" * 40)("GET", f"/{bucket}").error
    assert (forged["Code"], forged["AWSAccessKeyId"]) == ("SignatureDoesNotMatch", wire.identity.access_key)
    assert len(forged["SignatureProvided"]) == 64
    unknown = wire.using(access_key="NOBODY")("GET", f"/{bucket}").error
    assert (unknown["Code"], unknown["AWSAccessKeyId"]) == ("InvalidAccessKeyId", "NOBODY")
    assert "SignatureProvided" not in unknown
    headers = signed_headers(wire.identity, "GET", f"{wire.endpoint}/{bucket}", {"Host": wire.netloc})
    more = wire.send("GET", f"/{bucket}", headers | {"x-amz-meta-b": "1", "x-amz-meta-a": "1"}).error
    assert (more["Code"], more["HeadersNotSigned"]) == ("AccessDenied", "x-amz-meta-a, x-amz-meta-b")


def test_a_signature_of_another_time_is_told_the_time(wire: Wire, bucket: str) -> None:
    past = wire.using(moment=dt.datetime(2026, 1, 2, 3, 4, 5, tzinfo=dt.UTC))
    skewed = past("GET", f"/{bucket}").error
    assert (skewed["Code"], skewed["RequestTime"]) == ("RequestTimeTooSkewed", "20260102T030405Z")
    assert (skewed["MaxAllowedSkewMilliseconds"], len(skewed["ServerTime"])) == ("900000", 20)
    expired = wire.send("GET", past.presign("GET", f"/{bucket}", expires=60), {"Host": wire.netloc}).error
    assert (expired["Message"], expired["X-Amz-Expires"]) == ("Request has expired", "60")
    assert expired["Expires"] == "2026-01-02T03:05:05Z"
    assert expired["ServerTime"] > expired["Expires"]


def test_every_answer_has_its_own_request_id(wire: Wire, bucket: str) -> None:
    answers = [wire("GET", f"/{bucket}") for _ in range(5)] + [wire("GET", f"/{bucket}/none") for _ in range(5)]
    ids = [answer.headers["x-amz-request-id"] for answer in answers]
    assert len(set(ids)) == 10
    assert all(answer.headers["x-amz-id-2"] for answer in answers)


def test_answers_name_no_software(wire: Wire, bucket: str) -> None:
    for answer in (wire("GET", f"/{bucket}"), wire("GET", f"/{bucket}/none"), wire("GET", "/", sign=False)):
        assert answer.headers.get("server", "").lower() != "uvicorn"
        assert "date" in answer.headers


def test_a_wrong_payload_hash_stores_nothing(wire: Wire, s3: Any, bucket: str) -> None:
    for size in (0, 300, 70_000, 5_000_000):
        other = "0" * 64
        answer = wire("PUT", f"/{bucket}/k", body=content(size), payload=other)
        assert (answer.status, answer.code) == (400, "XAmzContentSHA256Mismatch"), size
    assert keys_of(s3, bucket) == []


@pytest.mark.parametrize("value", ["", "x", "UNSIGNED", "0" * 63, "G" * 64, "STREAMING-AWS4-ECDSA-P256-SHA256-PAYLOAD"])
def test_payload_hashes_that_mean_nothing(wire: Wire, s3: Any, bucket: str, value: str) -> None:
    answer = wire("PUT", f"/{bucket}/k", body=b"x", payload=value or " ")
    assert answer.status in {400, 403, 501}, answer.body
    assert keys_of(s3, bucket) == []


def test_strangers_say_what_hash_a_body_has(wire: Wire, s3: Any, bucket: str) -> None:
    """As on S3 (<https://github.com/versity/versitygw/issues/1423> and 1554): what is no hash is compared like one."""
    s3.delete_public_access_block(Bucket=bucket)
    allowed = {"Effect": "Allow", "Principal": "*", "Action": "s3:PutObject", "Resource": f"arn:aws:s3:::{bucket}/*"}
    s3.put_bucket_policy(Bucket=bucket, Policy=json.dumps({"Statement": [allowed]}))

    def put(payload: str) -> Answer:
        return wire("PUT", f"/{bucket}/k", headers={"x-amz-content-sha256": payload}, body=b"x", sign=False)

    right = hashlib.sha256(b"x").hexdigest()
    for payload in ("0" * 64, "none"):
        answer = put(payload)
        assert (answer.status, answer.code) == (400, "XAmzContentSHA256Mismatch")
        said = {"ClientComputedContentSHA256": payload, "S3ComputedContentSHA256": right}
        assert said.items() <= answer.error.items()
    for payload in (STREAMING, STREAMING_TRAILER):
        answer = put(payload)
        assert (answer.status, answer.code) == (400, "InvalidRequest")
        assert answer.error["Message"].startswith("Anonymous requests don't support this x-amz-content-sha256 value.")
    assert keys_of(s3, bucket) == []
    assert (put(right).status, put(UNSIGNED).status) == (200, 200)


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"5\r\nhello\r\n",
        b"5\r\nhello\r\n0\r\n",
        b"x\r\nhello\r\n0\r\n\r\n",
        b"-5\r\nhello\r\n0\r\n\r\n",
        b"ffffffffffffffffff\r\nhello\r\n0\r\n\r\n",
        b"4\r\nhello\r\n0\r\n\r\n",
        b"6\r\nhello!\r\n0\r\n\r\n",
        b"3\r\nhel\r\n0\r\n\r\n",
        b"5\nhello\n0\n\n",
        b"5;chunk-signature\r\nhello\r\n0\r\n\r\n",
        b"hello",
        b"0\r\n\r\n",
        b"5\r\nhello\r\n0\r\n\r\ntrailing",
    ],
)
def test_broken_aws_chunked_framing_stores_nothing(wire: Wire, s3: Any, bucket: str, body: bytes) -> None:
    headers = {"x-amz-decoded-content-length": "5", "x-amz-trailer": "x-amz-checksum-crc32"}
    answer = wire("PUT", f"/{bucket}/k", headers=headers, body=body, payload=UNSIGNED_TRAILER)
    assert answer.status == 400, answer.body
    assert answer.code
    assert keys_of(s3, bucket) == []


def test_aws_chunked_needs_its_decoded_length(wire: Wire, s3: Any, bucket: str) -> None:
    answer = wire("PUT", f"/{bucket}/k", body=b"5\r\nhello\r\n0\r\n\r\n", payload=UNSIGNED_TRAILER)
    assert (answer.status, answer.code) == (411, "MissingContentLength")
    for length in ("-1", "x", "5.0", "99999999999999999999999"):
        headers = {"x-amz-decoded-content-length": length}
        answer = wire("PUT", f"/{bucket}/k", headers=headers, body=b"0\r\n\r\n", payload=UNSIGNED_TRAILER)
        assert (answer.status, answer.code) == (411, "MissingContentLength"), length
    assert keys_of(s3, bucket) == []


def test_an_unsigned_payload_is_taken_as_it_is(wire: Wire, s3: Any, bucket: str) -> None:
    data = content(70_000)
    assert wire("PUT", f"/{bucket}/k", body=data, payload=UNSIGNED).status == 200
    assert read(s3, bucket, "k") == data


def test_expected_owners(s3: Any, bucket: str) -> None:
    owner = s3.list_buckets()["Owner"]["ID"]
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", ExpectedBucketOwner=owner)
    for call in (s3.get_object, s3.head_object, s3.delete_object):
        with pytest.raises(s3.exceptions.ClientError) as caught:
            call(Bucket=bucket, Key="k", ExpectedBucketOwner="1" * 12)
        assert caught.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    assert keys_of(s3, bucket) == ["k"]
