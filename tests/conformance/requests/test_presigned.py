"""Presigned requests, as boto3 makes them and as anyone may send them."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest
from tests.fixtures.checksums import checksum, content_md5
from tests.fixtures.targets import Target, content, keys_of, read
from tests.fixtures.uploads import begin
from tests.fixtures.wire import Answer, Wire

pytestmark = pytest.mark.conformance


@pytest.fixture
def signer(target: Target) -> Any:
    """boto3 still presigns with Signature Version 2 by default."""
    return target.client(signature_version="s3v4")


def fetch(wire: Wire, method: str, url: str, body: bytes = b"", **headers: str) -> Answer:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return wire.send(method, url.removeprefix(wire.endpoint), {"Host": wire.netloc, **named}, body)


@pytest.mark.parametrize("key", ["k", "dir/a b+c", "ünï?&=#%", "..//x"])
@pytest.mark.parametrize("size", [0, 300, 70_000, 9_000_000])
def test_put_get_delete(signer: Any, s3: Any, wire: Wire, bucket: str, key: str, size: int) -> None:
    data, target = content(size), {"Bucket": bucket, "Key": key}
    put = signer.generate_presigned_url("put_object", Params=target, ExpiresIn=60)
    assert fetch(wire, "PUT", put, data).status == 200
    assert read(s3, bucket, key) == data
    got = fetch(wire, "GET", signer.generate_presigned_url("get_object", Params=target))
    assert (got.status, got.body) == (200, data)
    head = fetch(wire, "HEAD", signer.generate_presigned_url("head_object", Params=target))
    assert (head.status, head.headers["content-length"]) == (200, str(size))
    assert fetch(wire, "DELETE", signer.generate_presigned_url("delete_object", Params=target)).status == 204
    assert keys_of(s3, bucket) == []


def test_overrides_and_ranges(signer: Any, s3: Any, wire: Wire, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"0123456789")
    asked = {"ResponseContentDisposition": 'attachment; filename="a b.txt"', "ResponseContentType": "text/x"}
    url = signer.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k", **asked})
    got = fetch(wire, "GET", url, Range="bytes=2-3")
    assert (got.status, got.body) == (206, b"23")
    assert got.headers["content-disposition"] == 'attachment; filename="a b.txt"'
    assert got.headers["content-type"] == "text/x"


def test_overrides_are_in_latin(signer: Any, s3: Any, wire: Wire, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", ContentDisposition="inline")
    for client in (signer, s3):
        for method in ("GET", "HEAD"):
            for value, status, shown in [
                ("caf\u00e9", 200, "caf\u00e9"),
                ("", 200, "inline"),
                ("a \u2013 b", 400, None),
            ]:
                params = {"Bucket": bucket, "Key": "k", "ResponseContentDisposition": value}
                answer = fetch(wire, method, client.generate_presigned_url(f"{method.lower()}_object", Params=params))
                assert answer.status == status, answer.body
                if shown is not None:
                    sent = answer.headers["content-disposition"].encode("utf-8", "surrogateescape")
                    assert sent.decode("latin-1") == shown


def test_anonymous_requests_may_not_override(wire: Wire, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert wire("GET", f"/{bucket}/k", "response-content-type=a", sign=False).status in {400, 403}


def test_an_upload_in_presigned_parts(signer: Any, s3: Any, wire: Wire, bucket: str) -> None:
    upload = begin(s3, bucket, "k")
    for number, body in ((1, content(5 << 20)), (2, b"end")):
        url = signer.generate_presigned_url("upload_part", Params={**upload.arguments, "PartNumber": number})
        upload.tags[number] = fetch(wire, "PUT", url, body).headers["etag"]
    upload.complete()
    assert read(s3, bucket, "k") == content(5 << 20) + b"end"


def test_a_url_is_good_for_its_request_only(signer: Any, s3: Any, wire: Wire, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    s3.put_object(Bucket=bucket, Key="other", Body=b"y")
    url = signer.generate_presigned_url("get_object", Params={"Bucket": bucket, "Key": "k"}, ExpiresIn=60)
    for method, spoiled in (
        ("GET", url.replace("/k?", "/other?")),
        ("PUT", url),
        ("DELETE", url),
        ("GET", url + "&response-content-type=a"),
        ("GET", url.replace("X-Amz-Expires=60", "X-Amz-Expires=61")),
        ("GET", url.replace("X-Amz-SignedHeaders=host", "X-Amz-SignedHeaders=")),
        ("GET", url[:-1] + ("0" if url[-1] != "0" else "1")),
        ("GET", url.split("&X-Amz-Signature")[0]),
        ("GET", url + "&X-Amz-Signature=" + "0" * 64),
        ("GET", url + "&X-Amz-Expires=600"),
    ):
        answer = fetch(wire, method, spoiled)
        assert answer.status in {400, 403}, spoiled
    assert keys_of(s3, bucket) == ["k", "other"]
    assert fetch(wire, "GET", url).body == b"x"


def test_urls_expire(wire: Wire, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    past = wire.using(clock_offset=dt.timedelta(seconds=-90))
    expired = wire.send("GET", past.presign("GET", f"/{bucket}/k", expires=60), {"Host": wire.netloc})
    assert (expired.status, expired.code) == (403, "AccessDenied")
    assert wire.send("GET", past.presign("GET", f"/{bucket}/k", expires=120), {"Host": wire.netloc}).body == b"x"
    week = 7 * 24 * 3600
    old = wire.using(clock_offset=dt.timedelta(seconds=60 - week))
    assert wire.send("GET", old.presign("GET", f"/{bucket}/k", expires=week), {"Host": wire.netloc}).body == b"x"
    for expires in (0, -1, week + 1):
        answer = wire.send("GET", wire.presign("GET", f"/{bucket}/k", expires=expires), {"Host": wire.netloc})
        assert answer.status in {400, 403}, expires


def test_promises_beside_a_presigned_put_are_kept(signer: Any, s3: Any, wire: Wire, bucket: str) -> None:
    data = b"content"
    params = {
        "Bucket": bucket,
        "Key": "k",
        "ContentMD5": content_md5(data),
        "ContentType": "x/y",
        "Metadata": {"m": "1"},
    }
    url = signer.generate_presigned_url("put_object", Params=params)
    headers = {"Content_MD5": content_md5(data), "Content_Type": "x/y", "x_amz_meta_m": "1"}
    assert fetch(wire, "PUT", url, b"other..", **headers).code == "BadDigest"
    assert fetch(wire, "PUT", url, data, **(headers | {"Content_Type": "z/z"})).status == 403
    assert keys_of(s3, bucket) == []
    assert fetch(wire, "PUT", url, data, **headers).status == 200
    head = s3.head_object(Bucket=bucket, Key="k")
    assert (head["ContentType"], head["Metadata"]) == ("x/y", {"m": "1"})


@pytest.mark.parametrize(
    "query",
    [
        # As the JavaScript SDK presigns since 3.729: the CRC32 of an empty body.
        "x-amz-checksum-crc32=AAAAAA%3D%3D&x-amz-sdk-checksum-algorithm=CRC32&x-id=PutObject",
        "X-Amz-Checksum-Sha256=" + "A" * 43 + "%3D",
    ],
)
def test_a_checksum_in_the_query_means_nothing(wire: Wire, s3: Any, bucket: str, query: str) -> None:
    url = wire.presign("PUT", f"/{bucket}/k", query)
    answer = wire.send("PUT", url, {"Host": wire.netloc}, b"content")
    assert answer.status == 200, answer.body
    assert read(s3, bucket, "k") == b"content"
    head = s3.head_object(Bucket=bucket, Key="k", ChecksumMode="ENABLED")
    assert head["ChecksumCRC64NVME"] == checksum("CRC64NVME", b"content")
    # It is signed nevertheless.
    spoiled = wire.send("PUT", url.replace("hecksum", "hecksun", 1), {"Host": wire.netloc}, b"content")
    assert (spoiled.status, spoiled.code) == (403, "SignatureDoesNotMatch")


def test_a_checksum_in_a_signed_header_is_compared(wire: Wire, s3: Any, bucket: str) -> None:
    headers = {"x-amz-checksum-sha256": checksum("SHA256", b"content")}
    url = wire.presign("PUT", f"/{bucket}/k", headers=headers)
    wrong = wire.send("PUT", url, {"Host": wire.netloc, **headers}, b"other")
    assert (wrong.status, wrong.code) == (400, "BadDigest")
    assert wire.send("PUT", url, {"Host": wire.netloc, **headers}, b"content").status == 200
