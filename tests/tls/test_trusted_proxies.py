"""Whom a server takes for the client: what trusted proxies say, and nobody else."""

from __future__ import annotations

import base64
import hashlib
import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.fixtures.keys import MASTER_KEY
from tests.fixtures.servers.connections import CLOSE, Running
from tests.fixtures.signing import Identity, presigned_url
from tests.fixtures.wire import Answer, Wire

import orcas

BUCKET: Final = "trusted-proxies"
KEY: Final = b"k" * 32
CUSTOMER: Final = {
    "x-amz-server-side-encryption-customer-algorithm": "AES256",
    "x-amz-server-side-encryption-customer-key": base64.b64encode(KEY).decode(),
    "x-amz-server-side-encryption-customer-key-MD5": base64.b64encode(
        hashlib.md5(KEY, usedforsecurity=False).digest()
    ).decode(),
}


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "access.log"


@pytest.fixture(scope="module")
def server(log: Path) -> Iterator[orcas.Server]:
    settings = {"trusted_proxies": "127.0.0.0/25,10.0.0.0/8", "access_log": str(log), "master_key": MASTER_KEY}
    with orcas.Server(memory=True, **settings) as server:
        server.client().create_bucket(Bucket=BUCKET)
        yield server


def wire_of(server: orcas.Server) -> Wire:
    return Wire(server.endpoint, Identity(server.access_key, server.secret_key, "us-east-1"))


def remote_of(log: Path, answer: Answer) -> str:
    """The client of a request in the access log."""
    wanted = answer.headers["x-amz-request-id"]
    while True:
        lines = [json.loads(line) for line in log.read_text().splitlines() if line.endswith("}")]
        if found := [line["remote"] for line in lines if line["request_id"] == wanted]:
            return str(found[0])


def test_the_access_log_has_the_client(server: orcas.Server, log: Path) -> None:
    wire = wire_of(server)
    path = f"/{BUCKET}/k"
    assert remote_of(log, wire("HEAD", f"/{BUCKET}")) == "127.0.0.1"
    claimed = {"X-Forwarded-For": "198.51.100.1, 192.0.2.7, 10.1.1.1"}
    answer = wire("PUT", path, headers=claimed, body=b"x")
    assert answer.status == 200
    assert remote_of(log, answer) == "192.0.2.7"
    refused = wire("GET", path, headers={"Forwarded": 'for="[2001:db8::7]:9"'}, sign=False)
    assert refused.status == 403
    assert remote_of(log, refused) == "2001:db8::7"


def test_others_are_not_believed(server: orcas.Server, log: Path) -> None:
    wire = wire_of(server)
    host, _, port = wire.netloc.rpartition(":")
    target = wire.presign("GET", f"/{BUCKET}/absent")
    head = f"GET {target} HTTP/1.1\r\nHost: {wire.netloc}\r\nX-Forwarded-For: 192.0.2.7\r\nConnection: close\r\n\r\n"
    # Of all addresses of this machine, this one is not a proxy's.
    with socket.create_connection((host, int(port)), 60, ("127.0.0.129", 0)) as client:
        client.sendall(head.encode())
        received = b""
        while piece := client.recv(65536):
            received += piece
    first, _, body = received.partition(b"\r\n\r\n")
    answer = Answer.of(first, body)
    assert answer.status == 404
    assert remote_of(log, answer) == "127.0.0.129"


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        # The proxy is on this machine, and the client may be this machine.
        ({}, 200),
        ({"X-Forwarded-For": "192.0.2.7"}, 400),
        ({"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": "http"}, 400),
        ({"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": "https, http"}, 400),
        ({"X-Forwarded-For": "192.0.2.7", "X-Forwarded-Proto": "https"}, 200),
        ({"Forwarded": "for=192.0.2.7;proto=https"}, 200),
        ({"X-Forwarded-For": "192.0.2.7", "Forwarded": "for=192.0.2.7;proto=https"}, 400),
    ],
)  # fmt: skip
def test_keys_of_customers_need_tls_between_client_and_proxy(
    server: orcas.Server, headers: dict[str, str], status: int
) -> None:
    answer = wire_of(server)("PUT", f"/{BUCKET}/sealed", headers={**CUSTOMER, **headers}, body=b"x")
    assert (answer.status, answer.code) == (status, "" if status == 200 else "InvalidRequest")


def test_metrics_are_for_this_machine(server: orcas.Server) -> None:
    wire = wire_of(server)
    assert wire("GET", "/_orcas/metrics", sign=False).status == 200
    assert wire("GET", "/_orcas/metrics", headers={"X-Forwarded-For": "127.0.0.1"}, sign=False).status == 403


def test_presigned_requests_need_the_host_that_was_signed(server: orcas.Server) -> None:
    """Behind a proxy, clients sign the name of the proxy: it passes Host and path on as they are."""
    wire = wire_of(server)
    wire("PUT", f"/{BUCKET}/k", body=b"content")
    signed = presigned_url(wire.identity, "GET", f"https://s3.example.com/{BUCKET}/k", 60, {"Host": "s3.example.com"})
    target = signed.removeprefix("https://s3.example.com")
    assert wire.send("GET", target, {"Host": "s3.example.com"}).body == b"content"
    for sent in ({"Host": wire.netloc}, {"Host": wire.netloc, "X-Forwarded-Host": "s3.example.com"}):
        assert wire.send("GET", target, sent).code == "SignatureDoesNotMatch"
    # A prefix that the proxy takes away is signed as well.
    signed = presigned_url(wire.identity, "GET", f"https://example.com/s3/{BUCKET}/k", 60, {"Host": "example.com"})
    target = signed.removeprefix("https://example.com/s3")
    assert wire.send("GET", target, {"Host": "example.com"}).code == "SignatureDoesNotMatch"


async def application(scope: Any, _receive: Any, send: Any) -> None:
    body = f"[{scope['scheme']} {scope['client'][0]}]".encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@pytest.mark.parametrize("tls", [False, True])
def test_each_request_of_a_connection_has_its_own_client(tls: bool) -> None:
    running = Running(application, tls=tls, trusted_proxies=("127.0.0.1/32",))
    own = "https" if tls else "http"
    heads = [
        b"",
        b"X-Forwarded-For: 192.0.2.1\r\n",
        b"X-Forwarded-Proto: https\r\n",
        b"Forwarded: for=192.0.2.2;proto=http\r\n",
    ]
    requests = b"".join(b"GET / HTTP/1.1\r\nHost: a\r\n" + head + b"\r\n" for head in [*heads, b"", CLOSE])
    try:
        answer = running.exchange(requests)
    finally:
        running.close()
    assert [part.partition(b"]")[0].decode() for part in answer.split(b"[")[1:]] == [
        f"{own} 127.0.0.1", f"{own} 192.0.2.1", "https 127.0.0.1", "http 192.0.2.2", f"{own} 127.0.0.1", f"{own} 127.0.0.1",
    ]  # fmt: skip
