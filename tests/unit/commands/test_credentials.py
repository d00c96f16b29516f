"""`orcas credentials serve`: AWS's own clients find credentials, and nobody else does."""

from __future__ import annotations

import datetime as dt
import http.client
import threading
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.credentials import ContainerProvider, InstanceMetadataProvider
from botocore.utils import InstanceMetadataFetcher

from orcas.cli.identities.credential_endpoints import Endpoints, Refreshed


class Source:
    """Credentials that are new with each call."""

    def __init__(self) -> None:
        self.calls = 0

    def __call__(self) -> dict[str, str]:
        self.calls += 1
        ends = dt.datetime.now(dt.UTC) + dt.timedelta(hours=1)
        named = ("AccessKeyId", "SecretAccessKey", "SessionToken")
        return {name: f"{name}-{self.calls}" for name in named} | {"Expiration": ends.strftime("%Y-%m-%dT%H:%M:%SZ")}


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
def server(source: Source) -> Iterator[Endpoints]:
    with Endpoints(0, "reader", Refreshed(source)) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def status(server: Endpoints, method: str, path: str, **headers: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", server.server_port, timeout=10)
    connection.request(method, path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    found = connection.getresponse().status
    connection.close()
    return found


def test_a_container_finds_credentials(server: Endpoints, source: Source) -> None:
    found: Any = ContainerProvider(environ=server.variables()).load()
    for _ in range(3):
        frozen = found.get_frozen_credentials()
    assert (frozen.access_key, frozen.token, source.calls) == ("AccessKeyId-1", "SessionToken-1", 1)


def test_an_instance_finds_credentials(server: Endpoints) -> None:
    url = server.variables()["AWS_EC2_METADATA_SERVICE_ENDPOINT"]
    fetcher = InstanceMetadataFetcher(base_url=url, num_attempts=1, config={"ec2_metadata_v1_disabled": True})
    found: Any = InstanceMetadataProvider(fetcher).load()
    assert found.get_frozen_credentials().access_key == "AccessKeyId-1"


def test_credentials_are_renewed_before_they_end(source: Source, monkeypatch: pytest.MonkeyPatch) -> None:
    now = dt.datetime.now(dt.UTC).timestamp()
    credentials = Refreshed(source)
    for ahead, calls in ((0, 1), (1700, 1), (1900, 2)):
        monkeypatch.setattr("orcas.cli.identities.credential_endpoints.time.time", lambda ahead=ahead: now + ahead)
        credentials.get()
        assert source.calls == calls


def test_whoever_knows_no_secret_gets_nothing(server: Endpoints, source: Source) -> None:
    ttl, below = {"x_aws_ec2_metadata_token_ttl_seconds": "60"}, f"/{server.secret}/latest"
    for expected, method, path, headers in (
        (401, "GET", "/credentials", {}),
        (401, "GET", "/credentials", {"authorization": "x"}),
        (403, "GET", "/credentials", {"authorization": server.secret, "host": "evil.example"}),
        (404, "GET", "/latest/meta-data/iam/security-credentials/", {}),
        (401, "GET", f"{below}/meta-data/iam/security-credentials/reader", {}),
        (401, "GET", f"{below}/meta-data/iam/security-credentials/reader", {"x_aws_ec2_metadata_token": "x"}),
        (404, "PUT", "/latest/api/token", ttl),
        (400, "PUT", f"{below}/api/token", {}),
        (400, "PUT", f"{below}/api/token", {"x_aws_ec2_metadata_token_ttl_seconds": "21601"}),
        (403, "PUT", f"{below}/api/token", {**ttl, "x_forwarded_for": "192.0.2.1"}),
        (200, "PUT", f"{below}/api/token", ttl),
        (404, "GET", "/", {}),
    ):
        assert status(server, method, path, **headers) == expected, (method, path, headers)
    assert source.calls == 0
    assert server.server_address[0] == "127.0.0.1"
