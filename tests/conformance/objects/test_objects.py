"""PutObject, GetObject, HeadObject, DeleteObject: bodies, metadata, ETags, Content-MD5."""

from __future__ import annotations

import base64
import datetime as dt
import io
from typing import Any

import pytest
from tests.fixtures.checksums import content_md5, etag
from tests.fixtures.targets import KINDS, SIZES, Target, content, keys_of, read, refusal
from tests.fixtures.wire import Wire

pytestmark = [
    pytest.mark.conformance,
    pytest.mark.parametrize("target", KINDS, indirect=True),
]


@pytest.mark.parametrize("size", SIZES)
def test_every_size_comes_back(s3: Any, bucket: str, size: int) -> None:
    data = content(size)
    before = dt.datetime.now(dt.UTC) - dt.timedelta(seconds=2)
    put = s3.put_object(Bucket=bucket, Key="k", Body=data)
    assert put["ETag"] == etag(data)
    got = s3.get_object(Bucket=bucket, Key="k")
    assert got["Body"].read() == data
    head = s3.head_object(Bucket=bucket, Key="k")
    for answer in (got, head):
        assert answer["ContentLength"] == size
        assert answer["ETag"] == etag(data)
        assert answer["ContentType"] == "binary/octet-stream"
        assert answer["AcceptRanges"] == "bytes"
        assert before <= answer["LastModified"] <= dt.datetime.now(dt.UTC)
    listed = s3.list_objects_v2(Bucket=bucket)["Contents"]
    assert [(entry["Key"], entry["Size"], entry["ETag"]) for entry in listed] == [("k", size, etag(data))]
    assert s3.delete_object(Bucket=bucket, Key="k")["ResponseMetadata"]["HTTPStatusCode"] == 204
    assert refusal(s3.get_object, Bucket=bucket, Key="k") == (404, "NoSuchKey")
    assert refusal(s3.head_object, Bucket=bucket, Key="k") == (404, "404")
    assert keys_of(s3, bucket) == []


@pytest.mark.parametrize("size", SIZES)
def test_a_file_with_expect_100_continue_comes_back(s3: Any, bucket: str, size: int) -> None:
    data = content(size, seed=1)
    s3.put_object(Bucket=bucket, Key="k", Body=io.BytesIO(data))
    assert read(s3, bucket, "k") == data


def test_empty_files_between_others_on_one_connection(target: Target, bucket: str) -> None:
    client = target.client(max_pool_connections=1, read_timeout=5)
    for turn in range(3):
        for size in (0, 300, 0, 0, 70_000):
            data = content(size, seed=turn)
            client.put_object(Bucket=bucket, Key="k", Body=io.BytesIO(data))
            wrong = refusal(
                client.put_object, Bucket=bucket, Key="k", Body=io.BytesIO(data), ContentMD5=content_md5(b"other")
            )
            assert wrong == (400, "BadDigest")
    assert read(client, bucket, "k") == data


def test_the_last_write_stands(s3: Any, bucket: str) -> None:
    for size in (10, 70_000, 0, 300, 5_000_000, 1):
        data = content(size, seed=2)
        s3.put_object(Bucket=bucket, Key="k", Body=data)
        assert read(s3, bucket, "k") == data
    assert keys_of(s3, bucket) == ["k"]


def test_deleting_what_is_not_there_succeeds(s3: Any, bucket: str) -> None:
    assert s3.delete_object(Bucket=bucket, Key="never")["ResponseMetadata"]["HTTPStatusCode"] == 204


HEADERS = {
    "ContentType": 'text/plain; charset="utf-8"',
    "ContentEncoding": "gzip",
    "ContentDisposition": 'attachment; filename="a b.txt"',
    "ContentLanguage": "de-DE",
    "CacheControl": "max-age=3600, private",
}


def test_headers_and_metadata_come_back(s3: Any, bucket: str) -> None:
    expires = dt.datetime(2031, 1, 2, 3, 4, 5, tzinfo=dt.UTC)
    metadata = {"plain": "value", "with-dash": "a, b; c", "empty": "", "number": "42"}
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Metadata=metadata, Expires=expires, **HEADERS)
    for answer in (s3.get_object(Bucket=bucket, Key="k"), s3.head_object(Bucket=bucket, Key="k")):
        assert {name: answer[name] for name in HEADERS} == HEADERS
        assert answer["Metadata"] == metadata
        assert answer["ExpiresString"] == "Thu, 02 Jan 2031 03:04:05 GMT"


def test_a_write_replaces_all_metadata(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", Metadata={"old": "1"}, **HEADERS)
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    head = s3.head_object(Bucket=bucket, Key="k")
    assert head["Metadata"] == {}
    assert "ContentEncoding" not in head
    assert head["ContentType"] == "binary/octet-stream"


@pytest.mark.parametrize(
    ("sent", "shown"),
    [
        ("test_—_é?", "=?UTF-8?Q?test=5F=E2=80=94=5F=C3=A9=3F?="),
        ("ÄMÄZÕÑ S3", "=?UTF-8?Q?=C3=84M=C3=84Z=C3=95=C3=91_S3?="),
        ("=?UTF-8?Q?=C3=84M=C3=84Z=C3=95=C3=91_S3?=", "=?UTF-8?Q?=C3=84M=C3=84Z=C3=95=C3=91_S3?="),
        ("鯨", "=?UTF-8?B?6a+o?="),
        ("=?UTF-8?B?AAECAw==?=", "=?UTF-8?B?AAECAw==?="),
        ("=?UTF-8?Q?plain?=", "plain"),
        ("a=?b _", "a=?b _"),
    ],
)
def test_metadata_outside_ascii_is_shown_in_encoded_words(
    wire: Wire, s3: Any, bucket: str, sent: str, shown: str
) -> None:
    put = wire("PUT", f"/{bucket}/k", headers={"x-amz-meta-name": sent}, body=b"x")
    assert put.status == 200, put.body
    s3.copy_object(Bucket=bucket, Key="copy", CopySource={"Bucket": bucket, "Key": "k"})
    for key in ("k", "copy"):
        assert s3.head_object(Bucket=bucket, Key=key)["Metadata"] == {"name": shown}
        assert s3.get_object(Bucket=bucket, Key=key)["Metadata"] == {"name": shown}


def test_metadata_is_bounded(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="most", Body=b"x", Metadata={"ab": "v" * 2046})
    assert len(s3.head_object(Bucket=bucket, Key="most")["Metadata"]["ab"]) == 2046
    refused = refusal(s3.put_object, Bucket=bucket, Key="more", Body=b"x", Metadata={"ab": "v" * 2047})
    assert refused == (400, "MetadataTooLarge")
    assert keys_of(s3, bucket) == ["most"]


def test_response_overrides(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", **HEADERS)
    overrides = {
        "ContentType": "application/json",
        "ContentEncoding": "br",
        "ContentDisposition": 'inline; filename="ü.json"',
        "ContentLanguage": "fr",
        "CacheControl": "no-store",
    }
    ascii_only = overrides | {"ContentDisposition": "inline"}
    asked = {f"Response{name}": value for name, value in ascii_only.items()}
    got = s3.get_object(Bucket=bucket, Key="k", **asked)
    assert {name: got[name] for name in ascii_only} == ascii_only
    later = s3.get_object(Bucket=bucket, Key="k")
    assert {name: later[name] for name in HEADERS} == HEADERS


def test_an_override_cannot_split_the_answer(wire: Wire, bucket: str) -> None:
    wire("PUT", f"/{bucket}/k", body=b"x")
    answer = wire("GET", f"/{bucket}/k", "response-content-type=a%0D%0AX-Injected:%201")
    assert answer.status == 400
    assert "x-injected" not in answer.headers


def test_content_md5_is_compared(s3: Any, bucket: str) -> None:
    for size in (0, 300, 70_000):
        data = content(size)
        s3.put_object(Bucket=bucket, Key="good", Body=data, ContentMD5=content_md5(data))
        wrong = refusal(s3.put_object, Bucket=bucket, Key="bad", Body=data, ContentMD5=content_md5(b"other"))
        assert wrong == (400, "BadDigest")
    for value in ("short", "=", base64.b64encode(b"15 bytes of it.").decode(), "!" * 24):
        assert refusal(s3.put_object, Bucket=bucket, Key="bad", Body=b"x", ContentMD5=value) == (400, "InvalidDigest")
    assert keys_of(s3, bucket) == ["good"]


def test_a_refused_write_leaves_the_old_object(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"old", Metadata={"kept": "1"})
    data = content(70_000)
    assert refusal(s3.put_object, Bucket=bucket, Key="k", Body=data, ContentMD5=content_md5(b""))[1] == "BadDigest"
    assert read(s3, bucket, "k") == b"old"
    assert s3.head_object(Bucket=bucket, Key="k")["Metadata"] == {"kept": "1"}


def test_a_body_needs_a_length(wire: Wire, bucket: str) -> None:
    headers = {"Transfer-Encoding": "chunked"}
    answer = wire("PUT", f"/{bucket}/k", headers=headers, body=b"1\r\nx\r\n0\r\n\r\n", payload="UNSIGNED-PAYLOAD")
    assert (answer.status, answer.code) == (501, "NotImplemented")
    assert b"<Header>Transfer-Encoding</Header>" in answer.body
    assert wire("HEAD", f"/{bucket}/k").status == 404


def test_an_object_of_more_than_5_gib_is_refused_at_its_head(wire: Wire, bucket: str) -> None:
    headers = {"Content-Length": str((5 << 30) + 1), "Expect": "100-continue"}
    answer = wire("PUT", f"/{bucket}/k", headers=headers, payload="UNSIGNED-PAYLOAD")
    assert (answer.status, answer.code) == (400, "EntityTooLarge")
    assert answer.headers["connection"] == "close"


def test_the_null_version_is_the_object(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x")
    assert read(s3, bucket, "k", VersionId="null") == b"x"
    assert refusal(s3.get_object, Bucket=bucket, Key="k", VersionId="other") == (400, "InvalidArgument")
    assert refusal(s3.get_object, Bucket=bucket, Key="k", VersionId="0f" * 16) == (404, "NoSuchVersion")


def test_storage_classes_and_acls(s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"x", StorageClass="STANDARD", ACL="private")
    assert refusal(s3.put_object, Bucket=bucket, Key="g", Body=b"x", StorageClass="SLOW") == (
        400,
        "InvalidStorageClass",
    )
    public = refusal(s3.put_object, Bucket=bucket, Key="g", Body=b"x", ACL="public-read")
    assert public == (400, "AccessControlListNotSupported")
    assert refusal(s3.put_object, Bucket=bucket, Key="g", Body=b"x", ServerSideEncryption="AES256")[0] == 501
    assert keys_of(s3, bucket) == ["k"]


@pytest.mark.parametrize("signing", [True, False])
@pytest.mark.parametrize("size", [0, 300, 70_000, 9_000_000])
def test_payload_signing_on_and_off(target: Target, bucket: str, signing: bool, size: int) -> None:
    client = target.client(s3={"payload_signing_enabled": signing})
    data = content(size)
    client.put_object(Bucket=bucket, Key="bytes", Body=data)
    client.put_object(Bucket=bucket, Key="file", Body=io.BytesIO(data))
    assert read(client, bucket, "bytes") == data
    assert read(client, bucket, "file") == data


def test_checksums_only_when_required(target: Target, bucket: str) -> None:
    client = target.client(request_checksum_calculation="when_required", response_checksum_validation="when_required")
    client.put_object(Bucket=bucket, Key="k", Body=b"plain")
    assert read(client, bucket, "k") == b"plain"


def test_transfers_of_large_files(s3: Any, bucket: str, tmp_path: Any) -> None:
    data = content(20 << 20, seed=3)
    source, back = tmp_path / "source", tmp_path / "back"
    source.write_bytes(data)
    s3.upload_file(str(source), bucket, "dir/k", ExtraArgs={"Metadata": {"a": "b"}, "ContentType": "x/y"})
    s3.download_file(bucket, "dir/k", str(back))
    assert back.read_bytes() == data
    head = s3.head_object(Bucket=bucket, Key="dir/k")
    assert (head["ContentType"], head["Metadata"]) == ("x/y", {"a": "b"})
    assert head["ETag"].endswith('-3"')
    buffer = io.BytesIO()
    s3.download_fileobj(bucket, "dir/k", buffer)
    assert buffer.getvalue() == data
