"""What happens between a node and the store of the log: it is cut off, slow, keeps its answers, or has lost what it had."""

from __future__ import annotations

import contextlib
import json
import re
import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from tests.cluster.conftest import LEASE_SECONDS, Cluster, Database, Node, once
from tests.cluster.test_nodes import KEYS, role
from tests.fixtures.commands import command
from tests.fixtures.servers.proxy import Proxy, proxy_to
from tests.fixtures.waiting import wait_until

BUCKET = "photos"
LOST = "the store of the log has lost what it had acknowledged to this node as the owner"


@pytest.fixture
def proxy(cluster: Cluster, request: pytest.FixtureRequest) -> Iterator[Proxy]:
    """A proxy in front of the store of the log."""
    with proxy_to(store_port(cluster)) as made:
        yield made


def store_port(cluster: Cluster) -> int:
    """The port of the store of the log: the last number behind a colon."""
    return int(re.findall(r":(\d+)", cluster.log_url)[-1])


def behind(cluster: Cluster, proxy: Proxy, **variables: str) -> Node:
    """A node that reaches the log through the proxy."""
    return cluster.add(log_url=cluster.log_url.replace(f":{store_port(cluster)}", f":{proxy.port}"), **variables)


def test_a_node_that_reaches_neither_owner_nor_log_refuses_reads(cluster: Cluster, proxy: Proxy) -> None:
    lease = {"ORCAS_CLUSTER_LEASE_SEC": "120"}
    owner, follower = cluster.add(**lease), behind(cluster, proxy, **lease)
    owner.client().create_bucket(Bucket=BUCKET)
    owner.client().put_object(Bucket=BUCKET, Key="k", Body=b"x")
    reader = follower.client()
    assert reader.get_object(Bucket=BUCKET, Key="k")["Body"].read() == b"x"
    owner.kill()
    assert reader.get_object(Bucket=BUCKET, Key="k")["Body"].read() == b"x"
    proxy.cut()
    before, began = proxy.connections, time.monotonic()
    for _ in range(3):
        with pytest.raises(ClientError) as refused:
            reader.get_object(Bucket=BUCKET, Key="k")
        assert refused.value.response["Error"]["Code"] == "ServiceUnavailable"
        assert refused.value.response["ResponseMetadata"]["HTTPHeaders"]["retry-after"] == "1"
    # Reads that wait for the log let it be asked no more than once a second, beside what a node asks anyway.
    assert proxy.connections - before <= 10 + 5 * (time.monotonic() - began)
    proxy.go_on()
    assert once(lambda: reader.get_object(Bucket=BUCKET, Key="k")["Body"].read()) == b"x"
    assert follower.status()["role"] == "follower"


@pytest.mark.full
def test_an_owner_that_is_cut_off_acknowledges_nothing_and_answers_nothing_old(cluster: Cluster, proxy: Proxy) -> None:
    first, second = behind(cluster, proxy), cluster.add()
    first.client().create_bucket(Bucket=BUCKET)
    first.client().put_object(Bucket=BUCKET, Key="k", Body=b"old")
    proxy.cut()
    with pytest.raises((ClientError, BotoCoreError)):
        first.client(seconds=60).put_object(Bucket=BUCKET, Key="k", Body=b"lost")
    once(lambda: second.client().put_object(Bucket=BUCKET, Key="k", Body=b"new"), 10 * LEASE_SECONDS)
    with contextlib.suppress(ClientError):
        assert first.client().get_object(Bucket=BUCKET, Key="k")["Body"].read() == b"new"
    proxy.go_on()
    assert wait_until(lambda: role(first) == "follower", 60)
    assert once(lambda: first.client().get_object(Bucket=BUCKET, Key="k")["Body"].read(), 30) == b"new"


@pytest.mark.full
def test_a_slow_store_slows_and_lets_the_owner_stay(cluster: Cluster, proxy: Proxy) -> None:
    first, second = behind(cluster, proxy), cluster.add()
    first.client().create_bucket(Bucket=BUCKET)
    term = first.status()["term"]
    proxy.delay_sec = 0.1 * LEASE_SECONDS
    until, written = time.monotonic() + 3 * LEASE_SECONDS, 0
    while time.monotonic() < until:
        second.client().put_object(Bucket=BUCKET, Key=f"k{written}", Body=b"x")
        written += 1
    assert written > 0
    assert role(first) == "owner"
    assert first.status()["term"] == term


@pytest.mark.full
def test_a_write_whose_acknowledgement_is_lost_is_there_once(cluster: Cluster, proxy: Proxy) -> None:
    node = behind(cluster, proxy)
    client = node.client(seconds=60)
    client.create_bucket(Bucket=BUCKET)
    client.put_bucket_versioning(Bucket=BUCKET, VersioningConfiguration={"Status": "Enabled"})
    acknowledged: set[str] = set()
    for number in range(20):
        proxy.lose()
        lost = proxy.lost
        key = f"k{number}"
        with contextlib.suppress(ClientError, BotoCoreError):
            answer = _put_while(proxy, lost, client, key)
            acknowledged |= {key} if answer else set()
    assert proxy.lost >= 20
    found = once(lambda: client.list_object_versions(Bucket=BUCKET)["Versions"], 30)
    names = [version["Key"] for version in found]
    assert len(names) == len(set(names))
    assert acknowledged <= set(names)
    assert acknowledged


def _put_while(proxy: Proxy, lost: int, client: Any, key: str) -> bool:
    """Put an object while the store keeps one answer to itself."""

    def mend() -> None:
        wait_until(lambda: proxy.lost > lost, 30)
        proxy.go_on()

    thread = threading.Thread(target=mend)
    thread.start()
    try:
        client.put_object(Bucket=BUCKET, Key=key, Body=b"x")
    finally:
        thread.join()
        proxy.go_on()
    return True


@pytest.mark.full
@pytest.mark.parametrize("cluster", ["rows"], indirect=True)
def test_a_log_that_has_lost_entries_is_not_gone_on_with(cluster: Cluster, database: Database) -> None:
    """As when a database fails over to a copy that lacked them."""
    first, second = cluster.add(), cluster.add()
    first.client().create_bucket(Bucket=BUCKET)
    first.client().put_object(Bucket=BUCKET, Key="before", Body=b"before")
    name = cluster.log_url.rpartition("=")[2]
    database.keep(name)
    first.client().put_object(Bucket=BUCKET, Key="after", Body=b"after")
    second.end()
    database.go_back(name)
    assert wait_until(lambda: LOST in first.log.read_text(), 60), first.log.read_text()
    said = command("cluster", "status", "--json", "--endpoint", first.url, code=1, **KEYS)
    assert LOST in json.loads(said)["error"]
    with pytest.raises(ClientError) as refused:
        first.client().put_object(Bucket=BUCKET, Key="more", Body=b"more")
    assert refused.value.response["Error"]["Code"] == "ServiceUnavailable"
    # What it had acknowledged is still in its directory.
    first.end()
    command("cluster", "leave", "--data", str(first.directory))
    alone = Node(first.directory, first.port, [], {**first.environ, "ORCAS_CLUSTER_LEASE_SEC": "6"})
    cluster.nodes.append(alone)
    alone.start()
    assert alone.client().get_object(Bucket=BUCKET, Key="after")["Body"].read() == b"after"
