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
    """A boto3 client that puts the bucket into the host."""
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
    assert all(host.endswith(".localhost") for host in asked)
    assert asked


@pytest.mark.parametrize("key", ["k", "dir/x", "/lead", "a b+ü", "..", "%2F"])
def test_boto3_with_the_bucket_in_the_host(hosted: Any, s3: Any, bucket: str, key: str) -> None:
    data = content(70_000)
    hosted.put_object(Bucket=bucket, Key=key, Body=data)
    assert read(hosted, bucket, key) == data
    assert read(s3, bucket, key) == data
    assert keys_of(hosted, bucket) == [key]
    assert hosted.delete_objects(Bucket=bucket, Delete={"Objects": [{"Key": key}]})["Deleted"] == [{"Key": key}]


@pytest.mark.parametrize(
    "host", ["{bucket}.localhost:{port}", "{bucket}.s3.test", "{bucket}.S3.TEST:{port}", "{bucket}.s3.test."]
)
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
    answer = wire("GET", "/", headers={"Host": "a_b.s3.test"})
    assert (answer.status, answer.code) == (400, "InvalidBucketName")


def test_service_paths_are_keys_in_a_bucket_of_the_host(wire: Wire, s3: Any, bucket: str) -> None:
    host = {"Host": f"{bucket}.s3.test"}
    for path in ("/_orcas/health/live", "/docs", "/openapi.json"):
        assert wire("PUT", path, headers=host, body=b"x").status == 200, path
    assert keys_of(s3, bucket) == ["_orcas/health/live", "docs", "openapi.json"]
