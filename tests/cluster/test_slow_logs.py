"""A log that is slow, stalls or is gone: who owns it then, and what goes on without it."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from tests.cluster.conftest import Bucket, Cluster, Node, once
from tests.cluster.test_nodes import metrics_of, role
from tests.fixtures.servers.proxy import Proxy, proxy_to
from tests.fixtures.waiting import wait_until

BUCKET = "photos"
# A lease that lasts longer than a test.
LONG = {"ORCAS_CLUSTER_LEASE_SEC": "60"}
MIB = 1 << 20
WRITERS = 64

pytestmark = pytest.mark.parametrize("cluster", ["objects"], indirect=True)


@pytest.fixture
def proxy(log_bucket: Bucket) -> Iterator[Proxy]:
    """A way to the store of the log that can be made worse."""
    port = urlsplit(log_bucket.server.endpoint).port
    assert port is not None
    with proxy_to(port) as made:
        yield made


def add_through(cluster: Cluster, proxy: Proxy, **variables: str) -> Node:
    """A node that reaches the log through the proxy alone."""
    node = cluster.add(start=False, **variables)
    node.words[1] = re.sub(r"(127\.0\.0\.1|localhost):\d+", f"127.0.0.1:{proxy.port}", node.words[1])
    assert str(proxy.port) in node.words[1]
    node.module = "tests.cluster.hasty"
    node.start()
    return node


def add_hasty(cluster: Cluster, **variables: str) -> Node:
    node = cluster.add(start=False, **variables)
    node.module = "tests.cluster.hasty"
    node.start()
    return node


@pytest.mark.full
def test_the_follower_that_is_nearer_to_the_log_takes_it(cluster: Cluster, proxy: Proxy) -> None:
    first = add_hasty(cluster)
    proxy.delay_sec = 0.1
    far, near = add_through(cluster, proxy), add_hasty(cluster)
    first.client().create_bucket(Bucket=BUCKET)
    assert wait_until(lambda: near.status()["score"] > far.status()["score"] + 0.1, 30)
    first.kill()
    assert wait_until(lambda: "owner" in {role(near), role(far)}, 60)
    assert role(near) == "owner"


@pytest.mark.full
def test_the_log_moves_to_a_node_that_is_much_nearer(cluster: Cluster, proxy: Proxy) -> None:
    first = add_through(cluster, proxy, ORCAS_CLUSTER_MOVE_BY_SCORE="true")
    second = add_hasty(cluster, ORCAS_CLUSTER_MOVE_BY_SCORE="true")
    first.client().create_bucket(Bucket=BUCKET)
    term = first.status()["term"]
    proxy.delay_sec = 0.2
    assert wait_until(lambda: role(second) == "owner", 60)
    assert second.status()["term"] == term + 1
    assert "suits better as the owner of the log and asks for it" in second.log.read_text()
    second.client(attempts=5).put_object(Bucket=BUCKET, Key="k", Body=b"x")


def test_reads_and_health_need_no_log_that_answers(cluster: Cluster, proxy: Proxy) -> None:
    node = add_through(cluster, proxy, **LONG)
    client = node.client()
    client.create_bucket(Bucket=BUCKET)
    client.put_object(Bucket=BUCKET, Key="k", Body=b"before")
    proxy.stall()
    writing = threading.Thread(target=client.put_object, kwargs={"Bucket": BUCKET, "Key": "k", "Body": b"after"})
    writing.start()
    reader = node.client()
    assert reader.get_object(Bucket=BUCKET, Key="k")["Body"].read() == b"before"
    assert len(reader.list_objects_v2(Bucket=BUCKET)["Contents"]) == 1
    with urlopen(f"{node.url}/_orcas/health/live", timeout=30) as answer:
        assert answer.status == 200
    assert metrics_of(node)["orcas_cluster_owner"] == "1"
    # Nothing of that has waited for the write, which waits for the log.
    assert writing.is_alive()
    proxy.go_on()
    writing.join(60)
    assert once(lambda: reader.get_object(Bucket=BUCKET, Key="k")["Body"].read()) == b"after"


@pytest.mark.full
def test_a_log_that_stalls_fills_no_memory(cluster: Cluster, proxy: Proxy) -> None:
    node = add_through(cluster, proxy, **LONG)
    node.client().create_bucket(Bucket=BUCKET)
    node.client().put_object(Bucket=BUCKET, Key="k", Body=bytes(8 * MIB))
    before = resident(node)
    proxy.stall()
    done: list[str] = []

    def write(number: int) -> None:
        try:
            node.client(seconds=120).put_object(Bucket=BUCKET, Key=f"k{number}", Body=number.to_bytes(2) * 4 * MIB)
            done.append("stored")
        except (ClientError, BotoCoreError) as error:
            done.append(type(error).__name__)

    writers = [threading.Thread(target=write, args=(number,)) for number in range(WRITERS)]
    for writer in writers:
        writer.start()
    most = before
    while any(writer.is_alive() for writer in writers):
        most = max(most, resident(node))
        time.sleep(0.05)
    # The owner has given up what the log did not take in 15 s. A writer that waits has a chunk of its body in memory.
    assert "stored" not in done
    assert most - before < WRITERS * 6 * MIB
    proxy.go_on()
    once(lambda: node.client().put_object(Bucket=BUCKET, Key="later", Body=b"x"), 60)


def resident(node: Node) -> int:
    """Bytes of memory of a node."""
    assert node.process is not None
    return int(Path(f"/proc/{node.process.pid}/statm").read_text().split()[1]) * 4096


@pytest.mark.full
def test_a_log_that_is_gone_is_asked_by_one_call_after_the_other(cluster: Cluster, proxy: Proxy) -> None:
    node = add_through(cluster, proxy, **LONG)
    node.client().create_bucket(Bucket=BUCKET)
    proxy.cut()
    before, began = proxy.connections, time.monotonic()
    writers = [
        threading.Thread(target=lambda key=str(at): once(lambda: node.client().put_object(Bucket=BUCKET, Key=key), 60))
        for at in range(16)
    ]
    for writer in writers:
        writer.start()
    time.sleep(8)
    tried, seconds = proxy.connections - before, time.monotonic() - began
    # One for all that wait, one for the sign of life, and one to measure; pauses grow to a second.
    assert 2 <= tried < 30 + 8 * seconds
    proxy.go_on()
    for writer in writers:
        writer.join(60)
    assert len(node.client().list_objects_v2(Bucket=BUCKET)["Contents"]) == 16
