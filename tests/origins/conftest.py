"""Two servers in memory and a proxy between them that breaks answers as a test wants, and the order that joins them."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import pytest
from prometheus_client.openmetrics.parser import text_string_to_metric_families
from tests.fixtures.servers.tampering import Answer, Proxy, tampering
from tests.fixtures.targets import Target, running

from orcas.tools.session import HttpTransport, Session

# Seconds: longer than any of these tests takes.
PATIENT = 60


def admin(target: Target, method: str, path: str, order: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the admin API answers."""
    server = target.server
    session = Session(HttpTransport(server.endpoint), (server.access_key, server.secret_key), server.region)
    with contextlib.closing(session):
        return session.admin(method, path, order)


def in_flight(target: Target) -> float:
    """Requests of S3 that wait for an answer."""
    return samples(target)["orcas_requests_in_flight", ()]


def samples(target: Target) -> dict[tuple[str, tuple[tuple[str, str], ...]], float]:
    """Every sample of the page of metrics, by name and labels."""
    kind = "application/openmetrics-text; version=1.0.0"
    wire = target.wire
    page = wire.send("GET", "/_orcas/metrics", {"host": wire.netloc, "accept": kind}).body.decode()
    families = text_string_to_metric_families(page)
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in families
        for sample in family.samples
    }


@dataclass
class Pair:
    """A bucket here, the bucket of the same name that is its origin, and the proxy between them."""

    here: Target
    there: Target
    bucket: str
    proxy: Proxy
    # Called with each answer of the origin; an attribute, so that a test may set it.
    tamper: Callable[[str, str, Answer], None] = field(default=lambda *_: None)

    def join(self, **order: Any) -> None:
        """Give the bucket its origin."""
        key = {"access_key": self.there.server.access_key, "secret_key": self.there.server.secret_key}
        known = {"bucket": self.bucket, "url": self.proxy.url, "source": self.bucket, "private": True}
        admin(self.here, "PUT", "origins", {**known, **key, "timeout_sec": PATIENT, **order})

    def put(self, key: str, body: bytes, **options: Any) -> None:
        """An object of the origin."""
        self.there.client().put_object(Bucket=self.bucket, Key=key, Body=body, **options)

    def asked(self, key: str) -> list[str]:
        """The methods of requests for an object that have reached the origin."""
        path = f"/{self.bucket}/{key}"
        return [method for method, target in self.proxy.requests if target.partition("?")[0] == path]

    def fetches(self) -> dict[str, int]:
        """What has become of fetches, by result."""
        found = admin(self.here, "GET", "origins")["origins"]
        counts: dict[str, int] = next(entry["fetches"] for entry in found if entry["bucket"] == self.bucket)
        return counts


@pytest.fixture(scope="session")
def servers() -> Iterator[tuple[Target, Target]]:
    """Here and there, for all tests of a process."""
    with running(None) as here, running(None) as there:
        yield here, there


@pytest.fixture
def pair(servers: tuple[Target, Target]) -> Iterator[Pair]:
    """A pair of buckets of this test's own, which are joined."""
    here, there = servers
    name = f"o-{uuid.uuid4().hex}"
    for target in servers:
        target.client().create_bucket(Bucket=name)
    with tampering(there.server.endpoint, lambda *given: pair.tamper(*given)) as proxy:
        pair = Pair(here, there, name, proxy)
        pair.join()
        yield pair
    admin(here, "DELETE", f"origins/{name}")
