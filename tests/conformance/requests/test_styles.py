"""Path style and virtual-hosted style."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.config import Config
from tests.fixtures.targets import Target, content, keys_of, read
from tests.fixtures.wire import Wire

pytestmark = pytest.mark.conformance


@pytest.fixture
def hosted(target: Target, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A boto3 client that puts the bucket into the host name."""
    # Not every resolver knows that names under localhost are this machine (RFC 6761, section 6.3).
    resolve, asked = socket.getaddrinfo, []

    def to_loopback(host: str, *rest: Any, **named: Any) -> Any:
        asked.append(host)
        return resolve("127.0.0.1", *rest, **named)

    monkeypatch.setattr(socket, "getaddrinfo", to_loopback)
    endpoint = target.server.endpoint.replace("127.0.0.1", "localhost")
    options = Config(s3={"addressing_style": "virtual"}, retries={"total_max_attempts": 1})
    client = target.server.client(endpoint_url=endpoint, config=options)
    yield client
    client.close()
    # The client of the other fixtures may open a connection meanwhile.
    assert all(host.endswith(".localhost") for host in asked if host != "127.0.0.1")
    assert asked


@pytest.mark.parametrize("key", ["k", "dir/x", "/lead", "a b+ü", "..", "%2F"])
def test_boto3_with_the_bucket_in_the_host(hosted: Any, s3: Any, bucket: str, key: str) -> None:
    data = content(70_000)
    hosted.put_object(Bucket=bucket, Key=key, Body=data)
    assert read(hosted, bucket, key) == data
    assert read(s3, bucket, key) == data
    assert keys_of(hosted, bucket) == [key]
    assert hosted.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key}]})["Deleted"] == [{"Key": key}]


HOSTS_OF_A_BUCKET = [
    "{bucket}.localhost:{port}", "{bucket}.localhost", "{bucket}.LOCALHOST.:{port}", "{bucket}.s3.test",
    "{bucket}.S3.TEST:{port}", "{bucket}.s3.test.",
]  # fmt: skip


@pytest.mark.parametrize("host", HOSTS_OF_A_BUCKET)
def test_hosts_that_name_a_bucket(wire: Wire, s3: Any, bucket: str, host: str) -> None:
    named = host.format(bucket=bucket, port=wire.netloc.rsplit(":", 1)[1])
    put = wire("PUT", "/dir/k", headers={"Host": named}, body=b"x")
    assert put.status == 200, put.body
    assert read(s3, bucket, "dir/k") == b"x"
    assert wire("GET", "/", "list-type=2", headers={"Host": named}).document().findtext("Name") == bucket


def test_hosts_that_name_none(wire: Wire, bucket: str) -> None:
    port = wire.netloc.rsplit(":", 1)[1]
    for host in (f"localhost:{port}", "s3.test", "s3.test:80", "example.com", "[::1]:9000", "10.0.0.1"):
        answer = wire("GET", f"/{bucket}", headers={"Host": host})
        assert answer.status == 200, host


def test_a_host_that_is_no_bucket_name(wire: Wire) -> None:
    answer = wire("GET", "/", headers={"Host": "a*b.s3.test"})
    assert (answer.status, answer.code) == (400, "InvalidBucketName")
    # The names of buckets once had underscores.
    answer = wire("GET", "/", headers={"Host": "a_b.s3.test"})
    assert (answer.status, answer.code) == (404, "NoSuchBucket")


def test_service_paths_are_keys_in_a_bucket_of_the_host(wire: Wire, s3: Any, bucket: str) -> None:
    paths = ("/_orcas/health/live", "/_orcas/admin/stats", "/docs", "/openapi.json")
    for host in HOSTS_OF_A_BUCKET:
        named = {"Host": host.format(bucket=bucket, port=wire.netloc.rsplit(":", 1)[1])}
        for path in paths:
            body = f"{host}{path}".encode()
            assert wire("PUT", path, headers=named, body=body).status == 200, (host, path)
            assert wire("GET", path, headers=named).body == body, (host, path)
            presigned = wire.presign("GET", path, headers=named)
            assert wire.send("GET", presigned, named).body == body, (host, path)
            assert wire("GET", path, headers=named, sign=False).status == 403, (host, path)
        assert keys_of(s3, bucket) == sorted(path[1:] for path in paths)


def test_service_paths_are_no_keys_where_the_host_names_no_bucket(wire: Wire) -> None:
    port = wire.netloc.rsplit(":", 1)[1]
    for host in (
        f"localhost:{port}",
        f"LOCALHOST.:{port}",
        "s3.test",
        "S3.Test.:80",
        "[::1]:9000",
        "10.0.0.1",
        "other",
    ):
        assert wire("GET", "/_orcas/health/live", headers={"Host": host}, sign=False).status == 200, host
