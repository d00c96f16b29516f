"""S3 through other ASGI servers and clients: the same requests over each of them."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import struct
import time
import uuid
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.config import Config
from fastapi import FastAPI
from fastapi.testclient import TestClient
from tests.fixtures.checksums import checksum, etag
from tests.fixtures.marks import full
from tests.fixtures.servers.hosts import HOSTS, IDENTITY, SERVERS, Host, InProcess, application
from tests.fixtures.signing import STREAMING, STREAMING_TRAILER, ChunkSigner, aws_chunked, signed_headers
from tests.fixtures.targets import MIB, content

PART = 5 * MIB
LARGE = 10 * MIB
# As many bodies at once would exceed the budget of the application if each leaked this much.
LEFT = MIB
LEAVERS = 24


@pytest.fixture(scope="module", params=["uvicorn", "testclient", *full("hypercorn", "granian", "httpx")])
def host(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Host]:
    """The application under each host in turn."""
    with HOSTS[request.param](request.param, tmp_path_factory.mktemp(request.param)) as running:
        yield running


@pytest.fixture
def bucket(host: Host) -> str:
    """A bucket of this test's own."""
    name = f"t-{uuid.uuid4().hex}"
    assert host.wire("PUT", f"/{name}").status == 200
    return name


@pytest.mark.parametrize("size", [0, 1, 1000, 65_536, 65_537, 300_000, LARGE])
def test_what_is_put_is_got(host: Host, bucket: str, size: int) -> None:
    body = content(size)
    path = f"/{bucket}/a%20key/with%2Fmore//%C3%BC"
    put = host.wire("PUT", path, body=body, headers={"x-amz-meta-colour": "blue", "Content-Type": "text/plain"})
    assert (put.status, put.headers["etag"], put.body) == (200, etag(body), b"")
    got = host.wire("GET", path)
    assert (got.status, got.headers["content-length"]) == (200, str(size))
    assert got.body == body
    assert (got.headers["x-amz-meta-colour"], got.headers["content-type"]) == ("blue", "text/plain")
    head = host.wire("HEAD", path)
    assert (head.status, head.headers["content-length"], head.body) == (200, str(size), b"")
    assert "transfer-encoding" not in got.headers
    unchanged = host.wire("GET", path, headers={"If-None-Match": etag(body)})
    assert (unchanged.status, unchanged.body) == (304, b"")
    assert host.wire("DELETE", path).status == 204
    gone = host.wire("GET", path)
    assert (gone.status, gone.code) == (404, "NoSuchKey")
    assert host.wire("HEAD", path).status == 404


@pytest.mark.parametrize(("first", "last"), [(0, 0), (10, 99), (1 * MIB - 1, 3 * MIB), (LARGE - 5, LARGE - 1)])
def test_a_range_is_what_was_asked_for(host: Host, bucket: str, first: int, last: int) -> None:
    body = content(LARGE)
    assert host.wire("PUT", f"/{bucket}/k", body=body).status == 200
    got = host.wire("GET", f"/{bucket}/k", headers={"Range": f"bytes={first}-{last}"})
    assert (got.status, got.headers["content-range"]) == (206, f"bytes {first}-{last}/{LARGE}")
    assert (got.headers["content-length"], got.body) == (str(last - first + 1), body[first : last + 1])


def test_pages_of_a_list(host: Host, bucket: str) -> None:
    # A page is longer than the pieces in which hosts get a body.
    names = [f"{n:04}-{'x' * 900}" for n in range(400)]
    for name in names:
        assert host.wire("PUT", f"/{bucket}/{name}", body=b"1").status == 200
    page = host.wire("GET", f"/{bucket}", "list-type=2")
    assert [entry.text for entry in page.document().iter("Key")] == names
    assert len(page.body) == int(page.headers["content-length"]) > 256 * 1024
    page = host.wire("GET", f"/{bucket}", "list-type=2&max-keys=2&prefix=0001")
    assert [entry.text for entry in page.document().iter("Key")] == names[1:2]


def test_parts_of_five_mebibytes(host: Host, bucket: str) -> None:
    path = f"/{bucket}/large"
    started = host.wire("POST", path, "uploads")
    upload = next(started.document().iter("UploadId")).text
    bodies = [content(PART, 1), content(PART, 2), content(1000, 3)]
    named = ""
    for number, body in enumerate(bodies, 1):
        part = host.wire("PUT", path, f"partNumber={number}&uploadId={upload}", body=body)
        assert (part.status, part.headers["etag"]) == (200, etag(body))
        named += f"<Part><PartNumber>{number}</PartNumber><ETag>{etag(body)}</ETag></Part>"
    document = f"<CompleteMultipartUpload>{named}</CompleteMultipartUpload>".encode()
    done = host.wire("POST", path, f"uploadId={upload}", body=document)
    assert done.status == 200, done.body
    got = host.wire("GET", path)
    assert got.headers["etag"].endswith('-3"')
    assert got.body == b"".join(bodies)


@pytest.mark.parametrize("size", [1000, LARGE])
def test_a_wrong_signature_is_refused_in_words(host: Host, bucket: str, size: int) -> None:
    # A client that sends everything before it reads still gets an answer.
    refused = host.wire.using(secret_key="wrong")("PUT", f"/{bucket}/k", body=content(size))
    assert (refused.status, refused.code) == (403, "SignatureDoesNotMatch")
    assert refused.error["RequestId"] == refused.headers["x-amz-request-id"]
    assert int(refused.headers["content-length"]) == len(refused.body)
    assert host.wire("GET", f"/{bucket}/k").status == 404
    assert host.wire("GET", "/", sign=False).status == 403


@pytest.mark.parametrize("payload", [STREAMING, STREAMING_TRAILER])
@pytest.mark.parametrize("size", [20_000, 3 * MIB])
def test_chunks_with_signatures(host: Host, bucket: str, payload: str, size: int) -> None:
    wire, body = host.wire, content(size)
    headers = {"Host": wire.netloc, "x-amz-decoded-content-length": str(size), "Content-Encoding": "aws-chunked"}
    trailers = {"x-amz-checksum-crc32": checksum("CRC32", body)} if payload == STREAMING_TRAILER else {}
    if trailers:
        headers["x-amz-trailer"] = "x-amz-checksum-crc32"
    target = f"/{bucket}/k"
    signed = signed_headers(wire.identity, "PUT", wire.endpoint + target, headers, payload=payload)
    framed = aws_chunked(body, signer=ChunkSigner(wire.identity, signed), trailers=trailers)
    spoiled = framed[:1000] + bytes([framed[1000] ^ 1]) + framed[1001:]
    assert wire.send("PUT", target, signed, spoiled).status in (400, 403)
    assert wire("GET", target).status == 404
    stored = wire.send("PUT", target, signed, framed)
    assert stored.status == 200, stored.body
    assert wire("GET", target).body == body


def test_presigned(host: Host, bucket: str) -> None:
    body = content(1000)
    assert host.wire("PUT", f"/{bucket}/k", body=body).status == 200
    target = host.wire.presign("GET", f"/{bucket}/k", "response-content-type=text/x-y%20z")
    got = host.wire.send("GET", target, {"Host": host.wire.netloc})
    assert (got.status, got.body, got.headers["content-type"]) == (200, body, "text/x-y z")


def test_what_is_not_s3_is_there_as_well(host: Host) -> None:
    page = host.wire("GET", "/", sign=False, headers={"Accept": "text/html"})
    assert (page.status, page.headers["content-length"]) == (403, str(len(page.body)))
    assert b"<h1>Orcas</h1>" in page.body
    for what in ("live", "ready"):
        answer = host.wire("GET", f"/_orcas/health/{what}", sign=False)
        assert (answer.status, b'"ok"' in answer.body) == (200, True)
    assert host.wire("GET", "/_orcas/admin/stats", sign=False).status == 403
    assert host.wire("GET", "/_orcas/admin/stats").status == 200


def test_clients_that_go_away_while_they_send_leave_nothing_behind(host: Host, bucket: str) -> None:
    for size in (60_000, LARGE):
        for _ in range(LEAVERS):
            sent = content(min(size // 2, LEFT))
            if host.call is None:
                leave(host, "PUT", f"/{bucket}/k", sent, size)
            else:
                assert answers(host, "PUT", f"/{bucket}/k", sent, size) == []
    assert host.wire("GET", f"/{bucket}/k").status == 404
    still_serves(host, bucket)


def test_clients_that_go_away_while_they_receive_leave_nothing_behind(host: Host, bucket: str) -> None:
    assert host.wire("PUT", f"/{bucket}/k", body=content(LARGE)).status == 200
    for _ in range(LEAVERS):
        if host.call is None:
            leave(host, "GET", f"/{bucket}/k")
        else:
            sent = answers(host, "GET", f"/{bucket}/k")
            assert sent[0]["status"] == 200
            assert 0 < sum(len(message["body"]) for message in sent[1:]) < LARGE
    still_serves(host, bucket)


def still_serves(host: Host, bucket: str) -> None:
    """Upload and download bodies that take a large part of the budget."""
    body = content(LARGE, 7)
    assert host.wire("PUT", f"/{bucket}/other", body=body).status == 200
    assert host.wire("GET", f"/{bucket}/other").body == body


def leave(host: Host, method: str, target: str, body: bytes = b"", length: int = 0) -> None:
    """Send the head and the beginning of the body, receive the start of an answer, and reset the connection."""
    wire = host.wire
    headers = {"Host": wire.netloc}
    signed = signed_headers(wire.identity, method, wire.endpoint + target, headers, payload="UNSIGNED-PAYLOAD")
    if length:
        signed["Content-Length"] = str(length)
    head = "".join(f"{name}: {value}\r\n" for name, value in signed.items())
    address, _, port = wire.netloc.partition(":")
    with socket.create_connection((address, int(port)), timeout=10) as client:
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.sendall(f"{method} {target} HTTP/1.1\r\n{head}\r\n".encode() + body)
        if length:
            time.sleep(0.02)
        else:
            assert client.recv(4096).startswith(b"HTTP/1.1 200")


def answers(host: Host, method: str, target: str, body: bytes = b"", length: int = 0) -> list[Any]:
    """What the application sends to a client that disconnects after `body`, or once an answer has begun."""
    wire = host.wire
    signed = signed_headers(
        wire.identity, method, wire.endpoint + target, {"Host": wire.netloc}, payload="UNSIGNED-PAYLOAD"
    )
    headers = [(name.lower().encode(), value.encode()) for name, value in signed.items()]
    if length:
        headers.append((b"content-length", str(length).encode()))
    scope = {
        "type": "http", "http_version": "1.1", "method": method, "path": target, "raw_path": target.encode(),
        "query_string": b"", "headers": headers, "client": ("192.0.2.1", 1), "root_path": "",
    }  # fmt: skip
    sent: list[Any] = []

    async def run() -> None:
        begun = asyncio.Event()
        incoming = [{"type": "http.request", "body": body, "more_body": bool(length)}]

        async def receive() -> Any:
            if incoming:
                return incoming.pop()
            if not length:
                await begun.wait()
            return {"type": "http.disconnect"}

        async def send(message: Any) -> None:
            sent.append(message)
            if message["type"] == "http.response.body":
                begun.set()
                await asyncio.sleep(0)

        assert host.app is not None
        await host.app(scope, receive, send)

    assert host.call is not None
    host.call(run)
    return sent


@pytest.mark.parametrize("name", SERVERS)
def test_boto3_transfers(name: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    with HOSTS[name](name, tmp_path_factory.mktemp(name)) as host:
        client = boto3.session.Session().client(
            "s3", endpoint_url=host.wire.endpoint, aws_access_key_id=IDENTITY.access_key,
            aws_secret_access_key=IDENTITY.secret_key, region_name=IDENTITY.region,
            config=Config(retries={"total_max_attempts": 1}, s3={"addressing_style": "path"}),
        )  # fmt: skip
        with contextlib.closing(client):
            client.create_bucket(Bucket="bucket")
            for size in (0, 1000, 100_000, LARGE):
                body = content(size)
                client.put_object(Bucket="bucket", Key="k", Body=body)
                assert client.get_object(Bucket="bucket", Key="k")["Body"].read() == body
            with pytest.raises(client.exceptions.NoSuchKey):
                client.get_object(Bucket="bucket", Key="missing")


@pytest.mark.parametrize("root", ["", "/s3", "/my store"])
def test_an_application_of_ones_own_mounts_it(root: str) -> None:
    s3 = application()
    mine = FastAPI(lifespan=s3.lifespan)

    @mine.get("/hello")
    def hello() -> str:
        return "mine"

    mine.mount(root or "/", s3)
    with TestClient(mine, base_url="http://127.0.0.1") as client:
        # A client signs the whole path that it sends; the bucket comes after the root path.
        below = root.replace(" ", "%20")
        wire = InProcess("http://127.0.0.1", IDENTITY, client.request)
        assert wire("PUT", f"{below}/bucket").status == 200
        assert wire("PUT", f"{below}/bucket/k%2F1", body=b"content").status == 200
        assert wire("GET", f"{below}/bucket/k/1").body == b"content"
        assert [entry.text for entry in wire("GET", f"{below}/bucket").document().iter("Key")] == ["k/1"]
        assert wire("GET", f"{below}/_orcas/admin/stats").status == 200
        fault = json.dumps({"fault": "error", "bucket": "bucket", "key": "k/*", "code": "SlowDown"}).encode()
        kind = {"content-type": "application/json"}
        assert wire("POST", f"{below}/_orcas/admin/test/faults", headers=kind, body=fault).status == 201
        assert [wire("GET", f"{below}/bucket/k/1").status, wire("GET", f"{below}/bucket").status] == [503, 200]
        assert client.get(f"{below}/_orcas/health/ready").json()["status"] == "ok"
        assert client.get("/hello").json() == "mine"


def test_without_its_lifespan_it_says_so() -> None:
    client = TestClient(application(), base_url="http://127.0.0.1")
    with pytest.raises(RuntimeError, match="lifespan"):
        client.get("/bucket")
