"""The steps of an upload by the browser, as HTTP."""

from __future__ import annotations

import base64
import uuid
import zlib
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.console.visitors import BASE, Visitor

import orcas

PART = bytes(range(256)) * 20_480


def crc32(body: bytes) -> str:
    return base64.b64encode(zlib.crc32(body).to_bytes(4, "big")).decode()


def step(visitor: Visitor, bucket: str, name: str, **order: Any) -> httpx.Response:
    headers = {"x-csrf-token": visitor.token(), "origin": visitor.url}
    return visitor.http.post(f"{BASE}/b/{bucket}/upload/{name}", json=order, headers=headers)


def send(visitor: Visitor, signed: dict[str, Any], body: bytes) -> httpx.Response:
    """What the browser sends to the S3 API: without the cookie of the console."""
    return httpx.put(visitor.url + signed["url"], content=body, headers=signed["headers"], trust_env=False)


def test_a_body_that_is_not_the_signed_one_is_refused(visitor: Visitor, s3: Any, bucket: str) -> None:
    signed = step(visitor, bucket, "put", key="k é", type="text/plain", crc32=crc32(b"right")).json()
    assert send(visitor, signed, b"wrong").status_code == 400
    assert send(visitor, signed | {"headers": {}}, b"right").status_code == 403
    assert "Contents" not in s3.list_objects_v2(Bucket=bucket)
    assert send(visitor, signed, b"right").status_code == 200
    answer = s3.get_object(Bucket=bucket, Key="k é")
    assert (answer["Body"].read(), answer["ContentType"]) == (b"right", "text/plain")


def test_nothing_is_replaced_unasked(visitor: Visitor, s3: Any, bucket: str) -> None:
    s3.put_object(Bucket=bucket, Key="k", Body=b"former")
    signed = step(visitor, bucket, "put", key="k", crc32=crc32(b"new")).json()
    refused = send(visitor, signed, b"new")
    assert (refused.status_code, "PreconditionFailed" in refused.text) == (412, True)
    begun = step(visitor, bucket, "begin", key="k")
    assert (begun.status_code, begun.json()["error"]["code"]) == (412, "PreconditionFailed")
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"former"
    signed = step(visitor, bucket, "put", key="k", crc32=crc32(b"new"), replace=True).json()
    assert send(visitor, signed, b"new").status_code == 200
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"new"


def test_an_object_made_meanwhile_is_not_replaced_by_an_upload_in_parts(visitor: Visitor, s3: Any, bucket: str) -> None:
    upload = step(visitor, bucket, "begin", key="k").json()["upload"]
    signed = step(visitor, bucket, "part", key="k", upload=upload, part=1, crc32=crc32(b"new")).json()
    part = {"part": 1, "etag": send(visitor, signed, b"new").headers["etag"], "crc32": crc32(b"new")}
    s3.put_object(Bucket=bucket, Key="k", Body=b"meanwhile")
    assert step(visitor, bucket, "complete", key="k", upload=upload, parts=[part]).status_code == 412
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"meanwhile"
    done = step(visitor, bucket, "complete", key="k", upload=upload, parts=[part], replace=True)
    assert done.status_code == 200
    assert s3.get_object(Bucket=bucket, Key="k")["Body"].read() == b"new"


def test_an_upload_goes_on_after_the_server_was_killed(tmp_path: Path) -> None:
    server = orcas.Server(tmp_path)
    server.client().create_bucket(Bucket="uploads")
    visitor = Visitor(server.endpoint)
    visitor.sign_in(server.access_key, server.secret_key)
    upload = step(visitor, "uploads", "begin", key="k", type="").json()["upload"]
    signed = step(visitor, "uploads", "part", key="k", upload=upload, part=1, crc32=crc32(PART)).json()
    assert send(visitor, signed, PART).status_code == 200
    server.kill()
    visitor.close()
    with orcas.Server(tmp_path) as server:
        visitor = Visitor(server.endpoint)
        visitor.sign_in(server.access_key, server.secret_key)
        first = step(visitor, "uploads", "parts", key="k", upload=upload).json()["parts"]
        assert [(part["part"], part["size"], part["crc32"]) for part in first] == [(1, len(PART), crc32(PART))]
        signed = step(visitor, "uploads", "part", key="k", upload=upload, part=2, crc32=crc32(b"end")).json()
        second = {"part": 2, "etag": send(visitor, signed, b"end").headers["etag"], "crc32": crc32(b"end")}
        assert step(visitor, "uploads", "complete", key="k", upload=upload, parts=[*first, second]).status_code == 200
        assert server.client().get_object(Bucket="uploads", Key="k")["Body"].read() == PART + b"end"
        visitor.close()


def test_an_upload_is_given_up(visitor: Visitor, s3: Any, bucket: str) -> None:
    upload = step(visitor, bucket, "begin", key="k").json()["upload"]
    assert step(visitor, bucket, "abort", key="k", upload=upload).status_code == 200
    assert "Uploads" not in s3.list_multipart_uploads(Bucket=bucket)
    gone = step(visitor, bucket, "parts", key="k", upload=upload)
    assert (gone.status_code, gone.json()["error"]["code"]) == (404, "NoSuchUpload")


@pytest.mark.parametrize(
    ("name", "order", "status"),
    [
        ("put", {"key": "k"}, 400),
        ("put", {"key": "", "crc32": "AAAAAA=="}, 400),
        ("put", {"key": "k", "crc32": "AAAAAA==\r\nx: y"}, 400),
        ("part", {"key": "k", "upload": "u", "part": 0, "crc32": "AAAAAA=="}, 400),
        ("part", {"key": "k", "upload": 1, "part": 1, "crc32": "AAAAAA=="}, 400),
        ("complete", {"key": "k", "upload": "u", "parts": [1]}, 400),
        ("complete", {"key": "k", "upload": "u", "parts": []}, 404),
        ("other", {"key": "k"}, 404),
    ],
)
def test_malformed_steps_are_refused(
    visitor: Visitor, bucket: str, name: str, order: dict[str, Any], status: int
) -> None:
    assert step(visitor, bucket, name, **order).status_code == status


def test_a_step_needs_the_token_of_the_session(visitor: Visitor, bucket: str) -> None:
    answer = visitor.http.post(
        f"{BASE}/b/{bucket}/upload/begin", json={"key": uuid.uuid4().hex}, headers={"origin": visitor.url}
    )
    assert answer.status_code == 403
