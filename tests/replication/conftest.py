"""Two servers in memory, a proxy between them that breaks answers as a test wants, and buckets that are joined by rules."""

from __future__ import annotations

import contextlib
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import botocore.exceptions
import pytest
from tests.fixtures.servers.tampering import Answer, Proxy, tampering
from tests.fixtures.targets import Target, running
from tests.fixtures.waiting import wait_until

from orcas.tools.session import HttpTransport, Session

Contents = dict[str, tuple[bytes, dict[str, str], dict[str, str]]]


def admin(target: Target, method: str, path: str, order: dict[str, Any] | None = None) -> dict[str, Any]:
    """What the admin API answers."""
    server = target.server
    session = Session(HttpTransport(server.endpoint), (server.access_key, server.secret_key), server.region)
    with contextlib.closing(session):
        return session.admin(method, path, order)


def add_target(here: Target, name: str, url: str, there: Target, **order: Any) -> None:
    """Let `here` copy to `there`, at this address."""
    key = {"access_key": there.server.access_key, "secret_key": there.server.secret_key}
    admin(here, "PUT", "replication/targets", {"name": name, "url": url, "private": True, **key, **order})


def routes(target: Target, bucket: str) -> list[dict[str, Any]]:
    """How the flows of a bucket are."""
    return [it for it in admin(target, "GET", "replication")["routes"] if it["bucket"] == bucket]


def versioned(client: Any, bucket: str, **options: Any) -> None:
    client.create_bucket(Bucket=bucket, **options)
    client.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})


def status_of(target: Target, bucket: str, key: str) -> str | None:
    """What HEAD says of the copies of an object."""
    found: str | None = target.client().head_object(Bucket=bucket, Key=key).get("ReplicationStatus")
    return found


def contents(client: Any, bucket: str) -> Contents:
    """What is there: body, metadata without marks, and tags of each key."""
    found: Contents = {}
    for page in client.get_paginator("list_objects_v2").paginate(Bucket=bucket):
        for entry in page.get("Contents", []):
            named = {"Bucket": bucket, "Key": entry["Key"]}
            answer = client.get_object(**named)
            metadata = {name: value for name, value in answer["Metadata"].items() if name != "orcas-replica"}
            tags = {tag["Key"]: tag["Value"] for tag in client.get_object_tagging(**named)["TagSet"]}
            found[entry["Key"]] = (answer["Body"].read(), metadata, tags)
    return found


@dataclass
class Pair:
    """A bucket here, the bucket of the same name there, and the proxy between them, which the target `there` names."""

    here: Target
    there: Target
    bucket: str
    name: str
    proxy: Proxy
    # Called with each answer of the target; an attribute, so that a test may set it.
    tamper: Callable[[str, str, Answer], None] = field(default=lambda *_: None)

    def replicate(self, **order: Any) -> None:
        """Add a rule, and wait until it is followed."""
        admin(
            self.here, "POST", "replication/rules",
            {"bucket": self.bucket, "target": self.name, "to": self.bucket, **order},
        )  # fmt: skip
        assert wait_until(lambda: bool(routes(self.here, self.bucket)))

    def put(self, key: str, body: bytes = b"x", **options: Any) -> str:
        """Store an object here; its version."""
        version: str = self.here.client().put_object(Bucket=self.bucket, Key=key, Body=body, **options)["VersionId"]
        return version

    def route(self) -> dict[str, Any]:
        (found,) = routes(self.here, self.bucket)
        return found

    def settled(self) -> bool:
        """Whether everything that has changed so far was looked at. False, if it was not in time."""
        until = admin(self.here, "GET", "replication")["sequence"]

        def is_done() -> bool:
            found = routes(self.here, self.bucket)
            return bool(found) and all(
                it["sequence"] >= until and (it["walk"] is None or it["walk"]["done"]) for it in found
            )

        return wait_until(is_done)

    def sent(self, *methods: str) -> list[tuple[str, str]]:
        """The requests for objects that have reached the target."""
        return [
            (method, path) for method, path in self.proxy.requests
            if path.startswith(f"/{self.bucket}/") and (not methods or method in methods)
        ]  # fmt: skip

    def there_has(self, key: str) -> dict[str, Any] | None:
        """What HEAD says of the copy of an object."""
        try:
            answer: dict[str, Any] = self.there.client().head_object(Bucket=self.bucket, Key=key)
        except botocore.exceptions.ClientError:
            return None
        return answer


@pytest.fixture(scope="session")
def servers() -> Iterator[tuple[Target, Target]]:
    """Here and there, for all tests of a process."""
    with running(None) as here, running(None) as there:
        yield here, there


@pytest.fixture
def pair(servers: tuple[Target, Target]) -> Iterator[Pair]:
    """A pair of buckets of this test's own, without a rule."""
    here, there = servers
    bucket = f"r-{uuid.uuid4().hex}"
    for target in servers:
        versioned(target.client(), bucket, ObjectLockEnabledForBucket=True)
    with tampering(there.server.endpoint, lambda *given: pair.tamper(*given)) as proxy:
        pair = Pair(here, there, bucket, f"t-{uuid.uuid4().hex[:8]}", proxy)
        add_target(here, pair.name, proxy.url, there, concurrency=4)
        proxy.requests.clear()
        yield pair
        here.client().delete_bucket_replication(Bucket=bucket)
        admin(here, "DELETE", f"replication/targets/{pair.name}")
