"""A node of a cluster that passes requests on to the owner of the log: boto3, raw connections, and what becomes of both."""

from __future__ import annotations

import hashlib
import json
import socket
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from botocore.config import Config
from tests.fixtures.servers.connections import Running
from tests.fixtures.signing import Identity
from tests.fixtures.targets import MIB, content, keys_of, read
from tests.fixtures.waiting import wait_until
from tests.fixtures.wire import Answer, Connection, EndOfConnectionError, Wire

import orcas

BUCKET: Final = "owned"
# From here, the owner sees a client and not a node.
CLIENT: Final = "127.0.0.9"
ONE_ATTEMPT: Final = Config(retries={"total_max_attempts": 1})


async def here(scope: Any, receive: Any, send: Any) -> None:
    """Answer as a node that is the owner."""
    headers = [(b"content-type", b"text/plain"), (b"content-length", b"4")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"here"})


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("log") / "access.log"


@pytest.fixture(scope="module")
def owner(log: Path) -> Iterator[orcas.Server]:
    with orcas.Server(memory=True, trusted_proxies="127.0.0.1", access_log=str(log)) as server:
        server.client().create_bucket(Bucket=BUCKET)
        yield server


@pytest.fixture
def node(owner: orcas.Server) -> Iterator[Running]:
    """A node that follows the owner."""
    running = Running(here)
    running.front.set_owner(owner.endpoint)
    yield running
    running.close()


def wire_of(node: Running, owner: orcas.Server) -> Wire:
    return Wire(f"http://127.0.0.1:{node.port}", Identity(owner.access_key, owner.secret_key, owner.region))


def client_of(node: Running, owner: orcas.Server, service: str = "s3") -> Any:
    return owner.client(service, endpoint_url=f"http://127.0.0.1:{node.port}", config=ONE_ATTEMPT)


def fetch(node: Running, target: str, address: str = "127.0.0.1") -> Answer:
    """The answer to a GET from an address of this machine."""
    with Connection(socket.create_connection(("127.0.0.1", node.port), 60, (address, 0))) as connection:
        connection.send(f"GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{node.port}\r\n\r\n".encode())
        return connection.response()


def is_to_be_repeated(answer: Answer) -> bool:
    return (answer.status, answer.code, answer.headers.get("retry-after")) == (503, "ServiceUnavailable", "1")


def test_any_node_takes_any_request(owner: orcas.Server, node: Running) -> None:
    s3, direct = client_of(node, owner), owner.client()
    bucket = "by-another-node"
    s3.create_bucket(Bucket=bucket)
    for key, size in (("a b/ü?#+", 10), ("large", 20 * MIB), ("empty", 0)):
        s3.put_object(Bucket=bucket, Key=key, Body=content(size), Metadata={"number": "1"})
        assert read(direct, bucket, key) == read(s3, bucket, key) == content(size)
        assert s3.head_object(Bucket=bucket, Key=key)["Metadata"] == {"number": "1"}
    assert read(s3, bucket, "large", Range="bytes=5-9") == content(20 * MIB)[5:10]
    upload: dict[str, Any] = {"Bucket": bucket, "Key": "parts"}
    upload["UploadId"] = s3.create_multipart_upload(**upload)["UploadId"]
    parts = [
        {"PartNumber": number, "ETag": s3.upload_part(**upload, PartNumber=number, Body=content(size))["ETag"]}
        for number, size in ((1, 5 * MIB), (2, 10))
    ]
    s3.complete_multipart_upload(**upload, MultipartUpload={"Parts": parts})
    assert read(direct, bucket, "parts") == content(5 * MIB) + content(10)
    assert keys_of(s3, bucket) == ["a b/ü?#+", "empty", "large", "parts"]
    wire = wire_of(node, owner)
    assert fetch(node, wire.presign("GET", f"/{bucket}/large")).body == content(20 * MIB)
    assert fetch(node, wire.presign("GET", f"/{bucket}/large") + "0").code == "SignatureDoesNotMatch"
    # What the application of the owner answers: IAM, the admin API, changes of rights.
    client_of(node, owner, "iam").create_user(UserName="ann")
    assert [user["UserName"] for user in owner.client("iam").list_users()["Users"]] == ["ann"]
    s3.put_bucket_tagging(Bucket=bucket, Tagging={"TagSet": [{"Key": "k", "Value": "v"}]})
    assert wire("GET", "/_orcas/admin/tasks").status == 200
    for key in keys_of(s3, bucket):
        s3.delete_object(Bucket=bucket, Key=key)
    s3.delete_bucket(Bucket=bucket)
    # Only what is about the node itself is answered there.
    assert fetch(node, "/_orcas/health/ready").body == b"here"
    assert fetch(node, "/_orcas/admin/tasks").status == 403
    results = dict(node.front.passed())
    assert results.pop("answered") > 20
    assert set(results.values()) == {0}


def test_the_owner_sees_the_client(owner: orcas.Server, node: Running, log: Path) -> None:
    s3 = owner.client()
    s3.put_object(Bucket=BUCKET, Key="k", Body=b"content")
    s3.delete_public_access_block(Bucket=BUCKET)
    allow = {
        "Effect": "Allow", "Principal": "*", "Action": "s3:GetObject", "Resource": f"arn:aws:s3:::{BUCKET}/k",
        "Condition": {"IpAddress": {"aws:SourceIp": f"{CLIENT}/32"}},
    }  # fmt: skip
    s3.put_bucket_policy(Bucket=BUCKET, Policy=json.dumps({"Version": "2012-10-17", "Statement": [allow]}))
    assert fetch(node, f"/{BUCKET}/k", CLIENT).body == b"content"
    assert fetch(node, f"/{BUCKET}/k", "127.0.0.8").status == 403
    # A client says nothing of itself that counts.
    with Connection(socket.create_connection(("127.0.0.1", node.port), 60, ("127.0.0.8", 0))) as connection:
        claim = f"X-Forwarded-For: {CLIENT}\r\nForwarded: for={CLIENT}\r\n"
        connection.send(f"GET /{BUCKET}/k HTTP/1.1\r\nHost: a\r\n{claim}\r\n".encode())
        assert connection.response().status == 403
    s3.delete_bucket_policy(Bucket=BUCKET)
    assert wait_until(lambda: f'"{CLIENT}"' in log.read_text())


def test_a_body_is_asked_for_by_the_owner(owner: orcas.Server, node: Running) -> None:
    wire = wire_of(node, owner)
    target = wire.presign("PUT", f"/{BUCKET}/asked")
    head = f"Host: {wire.netloc}\r\nContent-Length: 7\r\nExpect: 100-continue\r\n\r\n"
    with Connection(node.connect()) as connection:
        connection.send(f"PUT {target}0 HTTP/1.1\r\n{head}".encode())
        answer = connection.rest()
        assert answer.startswith(b"HTTP/1.1 403 ")
        assert b"SignatureDoesNotMatch" in answer
    with Connection(node.connect()) as connection:
        connection.send(f"PUT {target} HTTP/1.1\r\n{head}".encode())
        assert connection.sock.recv(100).startswith(b"HTTP/1.1 100 ")
        connection.send(b"content")
        assert connection.response("PUT").status == 200
    assert read(owner.client(), BUCKET, "asked") == b"content"


def memory(name: str) -> int:
    """A number of bytes from what Linux says of this process."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(name))


@pytest.mark.skipif(not Path("/proc/self/clear_refs").exists(), reason="the most memory is not known")
def test_large_bodies_take_little_memory(owner: orcas.Server, node: Running) -> None:
    wire, piece, pieces = wire_of(node, owner), content(MIB), 64
    Path("/proc/self/clear_refs").write_text("5")
    before = memory("VmHWM")
    with Connection(node.connect()) as connection:
        target = wire.presign("PUT", f"/{BUCKET}/64")
        connection.send(
            f"PUT {target} HTTP/1.1\r\nHost: {wire.netloc}\r\nContent-Length: {pieces * MIB}\r\n\r\n".encode()
        )
        for _ in range(pieces):
            connection.send(piece)
        assert connection.response("PUT").status == 200
        target, received, digest = wire.presign("GET", f"/{BUCKET}/64"), 0, hashlib.sha256()
        connection.send(f"GET {target} HTTP/1.1\r\nHost: {wire.netloc}\r\n\r\n".encode())
        # What comes now that nobody reads waits at the owner.
        threading.Event().wait(0.5)
        _, head = connection._head()
        assert f"content-length: {pieces * MIB}".encode() in head
        while received < pieces * MIB:
            data = connection.buffer or connection.sock.recv(1 << 16)
            assert data
            connection.buffer = b""
            received += len(data)
            digest.update(data)
    assert memory("VmHWM") - before < 24 * MIB
    expected = hashlib.sha256()
    for _ in range(pieces):
        expected.update(piece)
    assert digest.digest() == expected.digest()
    owner.client().delete_object(Bucket=BUCKET, Key="64")


@pytest.fixture
def mortal(tmp_path: Path, node: Running) -> Iterator[orcas.Server]:
    """Another owner, which may be killed."""
    with orcas.Server(tmp_path / "store") as server:
        s3 = server.client()
        s3.create_bucket(Bucket=BUCKET)
        s3.put_object(Bucket=BUCKET, Key="k", Body=content(64 * MIB))
        node.front.set_owner(server.endpoint)
        yield server


def test_an_answer_ends_with_its_owner(mortal: orcas.Server, node: Running) -> None:
    wire = wire_of(node, mortal)
    with Connection(node.connect()) as connection:
        target = wire.presign("GET", f"/{BUCKET}/k")
        connection.send(f"GET {target} HTTP/1.1\r\nHost: {wire.netloc}\r\n\r\n".encode())
        while len(connection.buffer) < MIB:
            connection._more()
        mortal.kill()
        with pytest.raises(EndOfConnectionError) as ended:
            connection.response()
    head, _, body = ended.value.received.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 ")
    assert 0 < len(body) < 64 * MIB
    assert content(64 * MIB).startswith(body)
    assert is_to_be_repeated(fetch(node, f"/{BUCKET}/k"))


def test_nobody_knows_what_became_of_a_write(mortal: orcas.Server, node: Running) -> None:
    wire = wire_of(node, mortal)
    with Connection(node.connect()) as connection:
        target = wire.presign("PUT", f"/{BUCKET}/k")
        head = f"Host: {wire.netloc}\r\nContent-Length: {8 * MIB}\r\nExpect: 100-continue\r\n\r\n"
        connection.send(f"PUT {target} HTTP/1.1\r\n{head}".encode())
        assert connection.sock.recv(100).startswith(b"HTTP/1.1 100 ")
        connection.send(content(MIB))
        mortal.kill()
        answer = connection.response("PUT")
    assert (answer.status, answer.code, answer.closes) == (500, "InternalError", True)
    assert "retry-after" not in answer.headers
    assert is_to_be_repeated(wire("PUT", f"/{BUCKET}/k", body=b"content"))
    assert dict(node.front.passed())["lost"] == 1


def test_the_owner_may_change_at_any_time(owner: orcas.Server, node: Running) -> None:
    owner.client().put_object(Bucket=BUCKET, Key="seen", Body=b"there")
    wire = wire_of(node, owner)
    request = f"GET {wire.presign('GET', f'/{BUCKET}/seen')} HTTP/1.1\r\nHost: {wire.netloc}\r\n\r\n".encode()
    done, seen, odd = threading.Event(), set[bytes](), list[object]()

    def ask() -> None:
        with Connection(node.connect()) as connection:
            while not done.is_set():
                connection.send(request)
                answer = connection.response()
                seen.add(b"nobody" if is_to_be_repeated(answer) else answer.body)
                if answer.closes:
                    odd.append(answer)
                    return

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for _ in range(20):
        node.front.be_owner()
        assert fetch(node, "/x").body == b"here"
        node.front.set_owner(owner.endpoint)
        assert fetch(node, "/x").code not in ("", "ServiceUnavailable")
        node.front.set_owner(None)
        assert is_to_be_repeated(fetch(node, "/x"))
    done.set()
    for thread in threads:
        thread.join(60)
    assert odd == []
    assert seen <= {b"there", b"here", b"nobody"}
    with pytest.raises(ValueError, match="no address"):
        node.front.set_owner("nonsense")
    assert is_to_be_repeated(fetch(node, "/x"))


def test_an_owner_may_speak_tls(node: Running) -> None:
    with orcas.Server(memory=True, tls_self_signed=True, trusted_proxies="127.0.0.1") as owner:
        assert owner.ca is not None
        with pytest.raises(ValueError, match="authorities"):
            node.front.set_owner(owner.endpoint)
        node.front.set_owner(owner.endpoint, Path(owner.ca).read_text())
        s3 = client_of(node, owner)
        s3.create_bucket(Bucket="over-tls")
        s3.put_object(Bucket="over-tls", Key="k", Body=content(MIB))
        assert read(s3, "over-tls", "k") == read(owner.client(), "over-tls", "k") == content(MIB)
        with orcas.Server(memory=True, tls_self_signed=True) as stranger:
            assert stranger.ca is not None
            node.front.set_owner(owner.endpoint, Path(stranger.ca).read_text())
        assert is_to_be_repeated(fetch(node, "/over-tls/k"))
