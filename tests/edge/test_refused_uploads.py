"""Uploads refused because of their head: the client learns why, even while it sends, and its next request works."""

from __future__ import annotations

import io
import json
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.fixtures.signing import UNSIGNED
from tests.fixtures.targets import Target
from tests.fixtures.wire import Signer

import orcas

from .conftest import BUCKET, stored

SMALL, LARGE = 1000, 20_000_000


def wrong_signature(request: Any, **_: Any) -> None:
    """Invalidate the signature that botocore made."""
    good = request.headers["Authorization"].decode()
    request.headers["Authorization"] = good[:-4] + ("0000" if good[-4:] != "0000" else "1111")


@pytest.mark.parametrize("size", [SMALL, LARGE])
@pytest.mark.parametrize("wrap", [io.BytesIO, bytes], ids=["with Expect", "without"])
@pytest.mark.parametrize("status", [403, 412])
def test_boto3_goes_on_after_a_refusal(
    server: orcas.Server, signer: Signer, status: int, wrap: Callable[[bytes], Any], size: int
) -> None:
    client = Target(server).client(s3={"addressing_style": "path"})
    arguments = {"IfNoneMatch": "*"} if status == 412 else {}
    for _ in range(3):
        if status == 403:
            client.meta.events.register("before-send.s3.PutObject", wrong_signature)
        with pytest.raises(ClientError) as refusal:
            client.put_object(Bucket=BUCKET, Key="kept", Body=wrap(bytes(size)), **arguments)
        client.meta.events.unregister("before-send.s3.PutObject", wrong_signature)
        assert refusal.value.response["ResponseMetadata"]["HTTPStatusCode"] == status
        code = {403: "SignatureDoesNotMatch", 412: "PreconditionFailed"}[status]
        assert refusal.value.response["Error"]["Code"] == code
        assert client.get_object(Bucket=BUCKET, Key="kept")["Body"].read() == b"kept"
        client.put_object(Bucket=BUCKET, Key="other", Body=wrap(b"x" * size))
        assert client.head_object(Bucket=BUCKET, Key="other")["ContentLength"] == size


def refused(signer: Signer, status: int, size: int, *extra: tuple[str, str]) -> bytes:
    """The head of an upload of `size` bytes to `kept`, which must be answered with `status`."""
    if status == 403:
        stranger = Signer(signer.host, signer.port, signer.access_key, "not-the-secret-key")
        return stranger.put(f"/{BUCKET}/kept", size, extra)
    return signer.put(f"/{BUCKET}/kept", size, [("if-none-match", "*"), *extra])


@pytest.mark.parametrize("status", [403, 412])
@pytest.mark.parametrize("size", [SMALL, 8_000_000, LARGE])
def test_a_client_that_sends_first_sees_the_refusal(signer: Signer, status: int, size: int) -> None:
    """If the server closed at once, the client would be reset before it reads the answer."""
    for _ in range(20):
        with signer.connect() as connection:
            whole = connection.push(refused(signer, status, size) + bytes(size))
            response = connection.response()
            assert response.status == status
            assert response.code in ("SignatureDoesNotMatch", "PreconditionFailed")
            if not response.closes:
                # A condition on an object that is not in memory is decided only after the whole body has arrived.
                assert whole
                assert status == 412
                continue
            assert connection.ended()
            # Up to 16 MiB are drained.
            assert whole or size == LARGE


@pytest.mark.parametrize("status", [403, 412])
def test_a_refusal_comes_instead_of_100(signer: Signer, status: int) -> None:
    with signer.connect() as connection:
        connection.send(refused(signer, status, LARGE, ("expect", "100-continue")))
        raw = connection.sock.recv(1 << 16)
        assert raw.startswith(b"HTTP/1.1 %d " % status)
        connection.buffer = raw
        assert connection.response().closes
        # If a client goes on sending, the server does not take it for requests.
        connection.push(signer.request("PUT", f"/{BUCKET}/smuggled", body=b"x"))
        assert connection.ended()
    assert not stored(signer, f"/{BUCKET}/smuggled")


def test_100_comes_once_the_verdict_is_good(signer: Signer, key: str) -> None:
    with signer.connect() as connection:
        connection.send(signer.put(key, 5, [("expect", "100-continue")]))
        assert connection.sock.recv(1 << 16) == b"HTTP/1.1 100 Continue\r\n\r\n"
        connection.send(b"hello")
        assert connection.response().status == 200
        connection.send(signer.request("GET", key))
        assert connection.response().body == b"hello"


def test_100_waits_for_a_decision_on_what_only_the_index_has(server: orcas.Server, signer: Signer) -> None:
    client = Target(server).client()
    client.create_bucket(Bucket="tagged")
    client.delete_public_access_block(Bucket="tagged")
    put = {"Effect": "Allow", "Principal": "*", "Action": "s3:PutObject", "Resource": "arn:aws:s3:::tagged/*"}
    condition = {"StringEquals": {"s3:ExistingObjectTag/open": "yes"}}
    tag_it = put | {"Action": "s3:PutObjectTagging", "Condition": condition}
    client.put_bucket_policy(Bucket="tagged", Policy=json.dumps({"Statement": [put, tag_it]}))
    for key, tag, first in (("open", "yes", b"HTTP/1.1 100 "), ("closed", "no", b"HTTP/1.1 403 ")):
        client.put_object(Bucket="tagged", Key=key, Body=b"old", Tagging=f"open={tag}")
        # Until these are counted, the index follows.
        assert signer.roundtrip(signer.request("GET", "/_orcas/admin/stats")).status == 200
        head = f"PUT /tagged/{key} HTTP/1.1\r\nHost: {signer.host}\r\nX-Amz-Tagging: a=b\r\nContent-Length: {LARGE}\r\n"
        with signer.connect() as connection:
            connection.send(f"{head}Expect: 100-continue\r\n\r\n".encode())
            assert connection.sock.recv(1 << 16).startswith(first)
            if tag == "yes":
                connection.send(bytes(LARGE))
                assert connection.response().status == 200
    sizes = {each["Key"]: each["Size"] for each in client.list_objects_v2(Bucket="tagged")["Contents"]}
    assert sizes == {"open": LARGE, "closed": 3}


def test_a_body_sent_with_its_head_needs_no_100(signer: Signer, key: str) -> None:
    with signer.connect() as connection:
        connection.send(signer.put(key, 5, [("expect", "100-continue")]) + b"hello")
        assert connection.response().status == 200


def test_an_unknown_bucket_is_told_before_the_body(signer: Signer) -> None:
    with signer.connect() as connection:
        connection.send(signer.sign("PUT", "/no-such-bucket/k", payload=UNSIGNED).head([("content-length", "1000000")]))
        response = connection.response()
        assert (response.status, response.code, response.closes) == (404, "NoSuchBucket", True)
