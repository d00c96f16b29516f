"""Nodes of a cluster: any takes any request, each has everything, and another goes on when the owner is gone."""

from __future__ import annotations

import base64
import contextlib
import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlencode
from urllib.request import urlopen

import pytest
from botocore.exceptions import ClientError
from tests.cluster.conftest import LEASE_SECONDS, ROOT, Cluster, Node, once
from tests.fixtures.commands import command
from tests.fixtures.waiting import wait_until

import orcas

BUCKET = "photos"
KEYS = {"AWS_ACCESS_KEY_ID": ROOT[0], "AWS_SECRET_ACCESS_KEY": ROOT[1]}


def test_a_node_goes_on_after_a_restart(cluster: Cluster) -> None:
    node = cluster.add()
    client = node.client()
    client.create_bucket(Bucket=BUCKET)
    client.put_object(Bucket=BUCKET, Key="small", Body=b"small")
    body = os.urandom(3 << 20)
    client.put_object(Bucket=BUCKET, Key="large", Body=body)
    node.kill()
    node.start()
    assert client.get_object(Bucket=BUCKET, Key="small")["Body"].read() == b"small"
    assert client.get_object(Bucket=BUCKET, Key="large")["Body"].read() == body
    assert node.end() == 0


def test_another_node_has_everything_when_the_owner_is_killed(cluster: Cluster) -> None:
    first, second = cluster.add(), cluster.add()
    first.client().create_bucket(Bucket=BUCKET)
    bodies = {f"k{number}": os.urandom(number * 10_000) for number in range(30)}
    for key, body in bodies.items():
        first.client().put_object(Bucket=BUCKET, Key=key, Body=body)
    first.kill()
    client = second.client()
    assert once(lambda: client.get_object(Bucket=BUCKET, Key="k7")["Body"].read(), 10 * LEASE_SECONDS) == bodies["k7"]
    for key, body in bodies.items():
        assert client.get_object(Bucket=BUCKET, Key=key)["Body"].read() == body
    # Reads may go on before there is an owner.
    once(lambda: client.put_object(Bucket=BUCKET, Key="new", Body=b"new"), 10 * LEASE_SECONDS)
    first.start()
    second.kill()
    # It took what another had: nothing of its own is lost, and it has not crashed.
    assert "usage of the past is lost" not in second.log.read_text()
    assert "last_stop" not in second.log.read_text()
    client = first.client()
    assert once(lambda: client.get_object(Bucket=BUCKET, Key="new")["Body"].read(), 10 * LEASE_SECONDS) == b"new"


def test_a_new_node_begins_with_nothing(cluster: Cluster, tmp_path: Path) -> None:
    first = cluster.add()
    first.client().create_bucket(Bucket=BUCKET)
    first.client().put_object(Bucket=BUCKET, Key="k", Body=b"before")
    first.kill()
    second = cluster.add()
    client = second.client()
    assert once(lambda: client.get_object(Bucket=BUCKET, Key="k")["Body"].read(), 10 * LEASE_SECONDS) == b"before"


def test_who_may_do_what_is_known_to_the_next_owner(cluster: Cluster) -> None:
    first, second = cluster.add(), cluster.add()
    admin = second.client(service="iam")
    admin.create_user(UserName="reader")
    key = admin.create_access_key(UserName="reader")["AccessKey"]
    policy = {"Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "*"}]}
    admin.put_user_policy(UserName="reader", PolicyName="p", PolicyDocument=json.dumps(policy))
    second.client().create_bucket(Bucket=BUCKET)
    second.client().put_object(Bucket=BUCKET, Key="k", Body=b"x")
    first.kill()
    reader = second.client(keys=(key["AccessKeyId"], key["SecretAccessKey"]))
    assert once(lambda: reader.get_object(Bucket=BUCKET, Key="k")["Body"].read(), 10 * LEASE_SECONDS) == b"x"
    assert wait_until(lambda: role(second) == "owner", 10 * LEASE_SECONDS)
    with pytest.raises(ClientError, match="AccessDenied"):
        reader.put_object(Bucket=BUCKET, Key="k", Body=b"y")
    admin.delete_access_key(UserName="reader", AccessKeyId=key["AccessKeyId"])
    first.start()
    second.kill()
    reader = first.client(keys=(key["AccessKeyId"], key["SecretAccessKey"]))
    assert once(lambda: refused(reader), 10 * LEASE_SECONDS) == "InvalidAccessKeyId"


def test_a_change_by_get_is_in_the_log_before_its_answer(cluster: Cluster) -> None:
    first, second = cluster.add(), cluster.add()
    admin = first.client(service="iam")

    def send_in_query(request: Any, **_: object) -> None:
        request.method, request.url, request.data = "GET", f"{request.url}?{urlencode(request.data)}", b""
        del request.headers["Content-Type"]

    admin.meta.events.register("before-sign.iam.CreateUser", send_in_query)
    for number in range(5):
        admin.create_user(UserName=f"u{number}")
    first.kill()
    admin = second.client(service="iam")
    assert once(lambda: len(admin.list_users()["Users"]), 10 * LEASE_SECONDS) == 5


def refused(client: Any) -> str:
    with pytest.raises(ClientError) as caught:
        client.get_object(Bucket=BUCKET, Key="k")
    code = str(caught.value.response["Error"]["Code"])
    assert code != "ServiceUnavailable"
    return code


def test_a_second_process_in_a_directory_disturbs_nobody(cluster: Cluster) -> None:
    node = cluster.add()
    node.client().create_bucket(Bucket=BUCKET)
    term = node.status()["term"]
    words = ["--log", cluster.log_url, "--node-url", node.url]
    sentence = command("serve", "--data", node.directory, "-p", "0", *words, code=69, **cluster.environ)
    assert "is in use by another process" in sentence
    node.client().put_object(Bucket=BUCKET, Key="k", Body=b"x")
    assert node.status()["term"] == term


@pytest.mark.full
def test_what_is_encrypted_is_read_by_the_next_owner(cluster: Cluster) -> None:
    key = base64.b64encode(bytes(32)).decode()
    first, second = (cluster.add(ORCAS_MASTER_KEY=key) for _ in range(2))
    first.client().create_bucket(Bucket=BUCKET)
    first.client().put_object(Bucket=BUCKET, Key="k", Body=b"secret", ServerSideEncryption="AES256")
    first.kill()
    client = second.client()
    assert once(lambda: client.get_object(Bucket=BUCKET, Key="k")["Body"].read(), 10 * LEASE_SECONDS) == b"secret"


def test_metrics_say_who_is_the_owner_and_what_was_passed_on(cluster: Cluster) -> None:
    first, second = cluster.add(), cluster.add()
    second.client().create_bucket(Bucket=BUCKET)
    owner, follower = metrics_of(first), metrics_of(second)
    assert owner["orcas_cluster_owner"] == "1"
    assert follower["orcas_cluster_owner"] == "0"
    assert owner["orcas_cluster_term"] == follower["orcas_cluster_term"] == "1"
    assert int(follower["orcas_cluster_position"]) > 0
    assert float(follower["orcas_cluster_silent_seconds"]) < LEASE_SECONDS
    assert int(follower['orcas_cluster_passed_requests_total{result="answered"}']) > 0
    assert owner['orcas_cluster_passed_requests_total{result="answered"}'] == "0"
    assert "orcas_standby_behind_seconds" in follower
    assert "orcas_standby_behind_seconds" not in owner


def metrics_of(node: Node) -> dict[str, str]:
    """The samples of the page of a node, by their names with their labels."""
    with urlopen(f"{node.url}/_orcas/metrics", timeout=30) as answer:
        lines = answer.read().decode().splitlines()
    return dict(line.rsplit(" ", 1) for line in lines if not line.startswith("#"))


def test_the_log_moves_on_request(cluster: Cluster) -> None:
    first, second = cluster.add(), cluster.add()
    first.client().create_bucket(Bucket=BUCKET)
    to = second.status()["node"]
    told = command("cluster", "move", "--to", to, "--endpoint", second.url, **KEYS)
    assert "has given up the log" in told
    assert wait_until(lambda: role(second) == "owner", 10)
    assert wait_until(lambda: role(first) == "follower", 10)
    command("cluster", "move", "--endpoint", second.url, **KEYS)
    assert wait_until(lambda: role(first) == "owner", 10)
    first.client(attempts=5).put_object(Bucket=BUCKET, Key="k", Body=b"x")
    assert first.end() == 0
    assert second.end() == 0


def role(node: Node) -> str:
    with contextlib.suppress(AssertionError):
        return str(node.status()["role"])
    return "unknown"


@pytest.mark.full
def test_a_store_becomes_a_cluster_and_one_of_its_own_again(cluster: Cluster, tmp_path: Path) -> None:
    with orcas.Server(data=tmp_path / "node0", root_access_key=ROOT[0], root_secret_key=ROOT[1]) as server:
        client = server.client("s3")
        client.create_bucket(Bucket=BUCKET)
        bodies = {f"k{number}": os.urandom(number * 30_000) for number in range(20)}
        for key, body in bodies.items():
            client.put_object(Bucket=BUCKET, Key=key, Body=body)
    first, second = cluster.add(), cluster.add()
    second.client().put_object(Bucket=BUCKET, Key="new", Body=b"new")
    first.end()
    assert wait_until(lambda: role(second) == "owner", 10 * LEASE_SECONDS)
    assert second.end() == 0
    sentence = command("serve", "--data", second.directory, code=69)
    assert "is of a node of a cluster" in sentence
    command("cluster", "leave", "--data", second.directory)
    command("fsck", "--data", second.directory)
    with orcas.Server(data=second.directory, root_access_key=ROOT[0], root_secret_key=ROOT[1]) as server:
        client = server.client("s3")
        for key, body in (bodies | {"new": b"new"}).items():
            assert client.get_object(Bucket=BUCKET, Key=key)["Body"].read() == body


def test_a_directory_of_another_store_or_log_is_refused(cluster: Cluster, tmp_path: Path) -> None:
    cluster.add().client().create_bucket(Bucket=BUCKET)
    with orcas.Server(data=tmp_path / "node1") as server:
        server.client("s3").create_bucket(Bucket="other")
    before = {path: path.read_bytes() for path in (tmp_path / "node1").rglob("*") if path.is_file()}
    other = cluster.add(start=False)
    other.start(wait=False)
    assert other.process is not None
    assert other.process.wait(60) == 69
    assert "has a store of its own" in other.log.read_text()
    # Nothing of the other store was written over this one.
    assert {path: path.read_bytes() for path in before} == before


def test_a_node_for_which_the_log_begins_too_late_gets_a_copy(cluster: Cluster) -> None:
    first = cluster.add(ORCAS_CLUSTER_KEEP_SEC="2")
    first.client().create_bucket(Bucket=BUCKET)
    first.client().put_object(Bucket=BUCKET, Key="k", Body=os.urandom(300_000))

    def is_behind() -> bool:
        # A node with an empty directory is told so, and ends. It prints nothing then, however slow it is.
        late = cluster.add(start=False)
        late.start(wait=False)
        assert late.process is not None
        assert late.process.stdout is not None
        if late.process.stdout.readline():
            late.kill()
            return False
        return late.process.wait(60) == 69 and "orcas cluster join" in late.log.read_text()

    assert wait_until(is_behind, 60)
    # A start may take longer than that.
    first.end()
    first.environ["ORCAS_CLUSTER_KEEP_SEC"] = "3600"
    first.start()
    second = cluster.add(start=False)
    command("cluster", "join", "--from", first.url, "--data", second.directory, **KEYS)
    first.client().put_object(Bucket=BUCKET, Key="later", Body=b"later")
    second.start()
    first.kill()
    client = second.client()
    assert once(lambda: client.get_object(Bucket=BUCKET, Key="later")["Body"].read(), 10 * LEASE_SECONDS) == b"later"
    assert len(client.get_object(Bucket=BUCKET, Key="k")["Body"].read()) == 300_000
