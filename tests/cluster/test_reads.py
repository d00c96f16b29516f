"""Reads at a node that does not own the log: it answers them itself, and shows neither less nor more than the owner."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from botocore.exceptions import BotoCoreError, ClientError
from tests.cluster.conftest import LEASE_SECONDS, Cluster, Database, Node, once
from tests.cluster.test_nodes import metrics_of
from tests.fixtures.marks import full
from tests.fixtures.servers.proxy import proxy_to
from tests.fixtures.waiting import wait_until

BUCKET = "photos"
READS = "orcas_cluster_reads_total"
_THREADS = 4
# No node takes the log while a test runs.
LONG = {"ORCAS_CLUSTER_LEASE_SEC": "120"}


@pytest.fixture
def pair(cluster: Cluster) -> tuple[Node, Node]:
    """An owner and a follower, which has a bucket."""
    owner, follower = cluster.add(), cluster.add()
    owner.client().create_bucket(Bucket=BUCKET)
    return owner, follower


def reads_of(node: Node) -> int:
    return int(metrics_of(node)[READS])


def body_of(client: Any, key: str) -> bytes:
    found: bytes = client.get_object(Bucket=BUCKET, Key=key)["Body"].read()
    return found


def code_of(call: Callable[[], Any]) -> str:
    try:
        call()
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return "none"


@pytest.mark.parametrize("count", [25, *full(1500)])
def test_what_was_acknowledged_at_any_node_is_read_at_any_other(pair: tuple[Node, Node], count: int) -> None:
    def run(thread: int) -> None:
        clients = [node.client(attempts=3) for node in pair]
        for number in range(count):
            key, body = f"{thread}/{number % 50:03}", f"{thread} {number}".encode() * (1 + number % 3 * 2000)
            clients[number % 2].put_object(Bucket=BUCKET, Key=key, Body=body)
            assert body_of(clients[1], key) == body
            listed = clients[1].list_objects_v2(Bucket=BUCKET, Prefix=key)["Contents"]
            assert [each["Size"] for each in listed] == [len(body)]
            if number % 5 == 0:
                clients[number % 2].delete_object(Bucket=BUCKET, Key=key)
                assert code_of(lambda: clients[1].head_object(Bucket=BUCKET, Key=key)) == "404"  # noqa: B023 - at once

    with ThreadPoolExecutor(_THREADS) as pool:
        list(pool.map(run, range(_THREADS)))
    # Those that came when the follower was not ready may have been passed on.
    assert reads_of(pair[1]) > _THREADS * count


@pytest.mark.parametrize("count", [100, *full(5000)])
def test_who_reads_at_two_nodes_does_not_go_back_in_time(pair: tuple[Node, Node], count: int) -> None:
    pair[0].client().put_object(Bucket=BUCKET, Key="number", Body=b"0")
    stopped = threading.Event()

    def write() -> None:
        client, number = pair[1].client(attempts=8), 0
        while not stopped.is_set():
            number += 1
            client.put_object(Bucket=BUCKET, Key="number", Body=str(number).encode())

    def read(_: int) -> None:
        clients, last = [node.client(attempts=8) for node in pair], 0
        for turn in range(count):
            found = int(body_of(clients[turn % 2], "number"))
            assert found >= last
            last = found

    with ThreadPoolExecutor(3) as pool:
        writing = pool.submit(write)
        try:
            list(pool.map(read, range(2)))
        finally:
            stopped.set()
        writing.result()


def test_rights_change_at_all_nodes_at_once(pair: tuple[Node, Node]) -> None:
    owner, follower = pair
    owner.client().put_object(Bucket=BUCKET, Key="k", Body=b"x")
    admin = follower.client(service="iam")
    admin.create_user(UserName="reader")
    policy = {"Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}
    for _ in range(5):
        key = admin.create_access_key(UserName="reader")["AccessKey"]
        reader = follower.client(keys=(key["AccessKeyId"], key["SecretAccessKey"]))
        assert code_of(lambda: body_of(reader, "k")) == "AccessDenied"  # noqa: B023 - at once
        admin.put_user_policy(UserName="reader", PolicyName="p", PolicyDocument=json.dumps(policy))
        assert body_of(reader, "k") == b"x"
        admin.delete_user_policy(UserName="reader", PolicyName="p")
        assert code_of(lambda: body_of(reader, "k")) == "AccessDenied"  # noqa: B023 - at once
        admin.delete_access_key(UserName="reader", AccessKeyId=key["AccessKeyId"])
        assert code_of(lambda: body_of(reader, "k")) == "InvalidAccessKeyId"  # noqa: B023 - at once
    assert reads_of(follower) >= 20


def test_sessions_of_roles_read_at_all_nodes(pair: tuple[Node, Node]) -> None:
    owner, follower = pair
    owner.client().put_object(Bucket=BUCKET, Key="k", Body=b"x")
    admin = owner.client(service="iam")
    admin.create_user(UserName="u")
    key = admin.create_access_key(UserName="u")["AccessKey"]
    allow = {"Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}
    admin.put_user_policy(UserName="u", PolicyName="p", PolicyDocument=json.dumps(allow))
    tokens = owner.client(service="sts", keys=(key["AccessKeyId"], key["SecretAccessKey"]))
    given = tokens.get_session_token()["Credentials"]
    client = follower.client(keys=(given["AccessKeyId"], given["SecretAccessKey"]))
    client._request_signer._credentials.token = given["SessionToken"]
    before = reads_of(follower)
    assert body_of(client, "k") == b"x"
    assert reads_of(follower) == before + 1


def test_reads_go_to_the_owner_if_that_is_wanted(cluster: Cluster) -> None:
    owner, follower = cluster.add(), cluster.add(ORCAS_CLUSTER_READS="owner")
    owner.client().create_bucket(Bucket=BUCKET)
    owner.client().put_object(Bucket=BUCKET, Key="k", Body=b"x")
    assert body_of(follower.client(), "k") == b"x"
    assert reads_of(follower) == 0


def test_encrypted_content_is_read_at_all_nodes(cluster: Cluster) -> None:
    key = base64.b64encode(bytes(32)).decode()
    owner, follower = (cluster.add(ORCAS_MASTER_KEY=key) for _ in range(2))
    owner.client().create_bucket(Bucket=BUCKET)
    for number in range(3):
        body = os.urandom(number * 300_000 + 1)
        owner.client().put_object(Bucket=BUCKET, Key="k", Body=body, ServerSideEncryption="AES256")
        assert body_of(follower.client(), "k") == body
    assert reads_of(follower) == 3


def test_reads_of_a_logged_bucket_are_written_down_by_the_owner(pair: tuple[Node, Node]) -> None:
    owner, follower = pair
    client = owner.client()
    client.put_object(Bucket=BUCKET, Key="k", Body=b"x")
    client.create_bucket(Bucket="logs")
    target = {"TargetBucket": "logs", "TargetPrefix": ""}
    client.put_bucket_logging(Bucket=BUCKET, BucketLoggingStatus={"LoggingEnabled": target})
    before = reads_of(follower)
    assert body_of(follower.client(), "k") == b"x"
    assert reads_of(follower) == before


def test_a_frozen_owner_lets_nobody_read_what_is_old(pair: tuple[Node, Node]) -> None:
    owner, follower = pair
    owner.client().put_object(Bucket=BUCKET, Key="k", Body=b"old")
    reader = follower.client(seconds=5)
    assert body_of(reader, "k") == b"old"
    assert owner.process is not None
    owner.process.send_signal(signal.SIGSTOP)
    client = follower.client(seconds=5)
    try:
        once(lambda: client.put_object(Bucket=BUCKET, Key="k", Body=b"new"), 20 * LEASE_SECONDS)
        assert body_of(reader, "k") == b"new"
    finally:
        owner.process.send_signal(signal.SIGCONT)
    # It knows nothing of that yet.
    former = owner.client(seconds=10)
    deadline = time.monotonic() + 20 * LEASE_SECONDS
    while reads_or_none(owner) in (None, 0) and time.monotonic() < deadline:
        try:
            assert body_of(former, "k") == b"new"
        except ClientError as error:
            assert error.response["ResponseMetadata"]["HTTPStatusCode"] == 503
        except OSError:
            pass
    assert reads_or_none(owner)


def reads_or_none(node: Node) -> int | None:
    try:
        return reads_of(node)
    except OSError:
        return None


@pytest.mark.full
def test_what_is_there_is_read_without_the_store_of_the_log(database: Database, cluster_of_rows: Cluster) -> None:
    owner, follower = (cluster_of_rows.add(ORCAS_CLUSTER_LEASE_SEC="30") for _ in range(2))
    owner.client().create_bucket(Bucket=BUCKET)
    owner.client().put_object(Bucket=BUCKET, Key="k", Body=b"x")
    assert body_of(follower.client(), "k") == b"x"
    database.stop()
    try:
        before = reads_of(follower)
        for _ in range(20):
            assert body_of(follower.client(), "k") == b"x"
        assert reads_of(follower) == before + 20
    finally:
        database.start()


@pytest.mark.full
def test_what_the_owner_removes_is_read_by_nobody_and_nothing_else_is_lost(pair: tuple[Node, Node]) -> None:
    owner, follower = pair
    kept = {f"kept{number}": os.urandom(50_000) for number in range(20)}
    for key, body in kept.items():
        owner.client().put_object(Bucket=BUCKET, Key=key, Body=body)
    stopped = threading.Event()

    def churn() -> None:
        client = owner.client(attempts=3)
        while not stopped.is_set():
            for number in range(20):
                client.put_object(Bucket=BUCKET, Key=f"gone{number}", Body=os.urandom(200_000))
            for number in range(20):
                client.delete_object(Bucket=BUCKET, Key=f"gone{number}")

    def read(_: int) -> None:
        client = follower.client()
        for _ in range(30):
            for key, body in kept.items():
                assert body_of(client, key) == body

    with ThreadPoolExecutor(3) as pool:
        churning = pool.submit(churn)
        try:
            list(pool.map(read, range(2)))
        finally:
            stopped.set()
        churning.result()
    assert reads_of(follower) > 1000
    assert "damaged" not in follower.log.read_text()
    assert wait_until(lambda: follower.status()["error"] is None, 10)


@pytest.mark.parametrize("count", [30, *full(1000)])
def test_reads_go_on_when_the_owner_is_killed(cluster: Cluster, count: int) -> None:
    owner, follower = (cluster.add(**LONG) for _ in range(2))
    owner.client().create_bucket(Bucket=BUCKET)
    acknowledged: dict[str, bytes] = {}

    def write(thread: int) -> None:
        client = owner.client()
        with contextlib.suppress(ClientError, BotoCoreError):
            for number in itertools.count():
                key, body = f"{thread}/{number}", f"{thread} {number}".encode() * (1 + number % 3 * 2000)
                client.put_object(Bucket=BUCKET, Key=key, Body=body)
                acknowledged[key] = body

    with ThreadPoolExecutor(_THREADS) as pool:
        writing = [pool.submit(write, thread) for thread in range(_THREADS)]
        assert wait_until(lambda: len(acknowledged) >= count, 120)
        owner.kill()
        for each in writing:
            each.result()
    before = reads_of(follower)
    with ThreadPoolExecutor(_THREADS) as pool:
        # One client for each, and none tries a second time.
        clients = [follower.client() for _ in range(_THREADS)]
        found = pool.map(lambda pair: body_of(clients[pair[0] % _THREADS], pair[1]), enumerate(acknowledged))
        assert list(found) == list(acknowledged.values())
    pages = follower.client().get_paginator("list_objects_v2").paginate(Bucket=BUCKET)
    assert {each["Key"] for page in pages for each in page["Contents"]} >= set(acknowledged)
    assert reads_of(follower) > before + len(acknowledged)
    with pytest.raises(ClientError) as refused:
        follower.client().put_object(Bucket=BUCKET, Key="new", Body=b"new")
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 503
    assert refused.value.response["ResponseMetadata"]["HTTPHeaders"]["retry-after"] == "1"
    assert follower.status()["role"] == "follower"
    # It takes the log at once, which was its own.
    owner.start()
    once(lambda: owner.client().put_object(Bucket=BUCKET, Key="new", Body=b"new"))
    assert body_of(follower.client(), "new") == b"new"


def test_what_a_silent_owner_has_shown_is_read(cluster: Cluster) -> None:
    owner, follower = (cluster.add(**LONG) for _ in range(2))
    owner.client().create_bucket(Bucket=BUCKET)
    owner.client().put_object(Bucket=BUCKET, Key="k", Body=b"x")
    reader = follower.client()
    assert body_of(reader, "k") == b"x"
    assert owner.process is not None
    owner.process.send_signal(signal.SIGSTOP)
    try:
        before = reads_of(follower)
        for _ in range(3):
            assert body_of(reader, "k") == b"x"
        assert reads_of(follower) == before + 3
    finally:
        owner.process.send_signal(signal.SIGCONT)


@pytest.mark.full
def test_who_reads_where_the_owner_is_out_of_reach_does_not_go_back_in_time(cluster: Cluster) -> None:
    """The follower has the log and cannot ask the owner, which others can: it answers what that has shown, or refuses."""
    owner = cluster.add(start=False)
    with proxy_to(owner.port) as proxy:
        owner.words[owner.words.index("--node-url") + 1] = f"http://127.0.0.1:{proxy.port}"
        owner.start()
        follower = cluster.add()
        writer, clients = owner.client(), [node.client() for node in (owner, follower)]
        writer.create_bucket(Bucket=BUCKET)
        writer.put_object(Bucket=BUCKET, Key="number", Body=b"0")
        assert body_of(clients[1], "number") == b"0"
        proxy.cut()
        stopped, written = threading.Event(), [0]

        def write() -> None:
            while not stopped.wait(0.005):
                writer.put_object(Bucket=BUCKET, Key="number", Body=str(written[0] + 1).encode())
                written[0] += 1

        with ThreadPoolExecutor(1) as pool:
            writing = pool.submit(write)
            try:
                last = answered = 0
                for turn in range(600):
                    least = written[0]
                    try:
                        found = int(body_of(clients[turn % 2], "number"))
                    except ClientError as error:
                        assert (turn % 2, error.response["ResponseMetadata"]["HTTPStatusCode"]) == (1, 503)
                        continue
                    assert found >= max(last, least)
                    last, answered = found, answered + turn % 2
            finally:
                stopped.set()
            writing.result()
        # With its next sign of life, the owner says that it shows all.
        assert once(lambda: body_of(clients[1], "number")) == str(written[0]).encode()
        assert follower.status()["role"] == "follower"
