"""What the operator of a node sees and does: status, health, and the end of one node."""

from __future__ import annotations

import contextlib
import json
import os
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

from tests.cluster.conftest import LEASE_SECONDS, ROOT, Bucket, Cluster, Node, once
from tests.cluster.test_nodes import metrics_of, role
from tests.console.visitors import Visitor
from tests.fixtures.commands import command, document, ran
from tests.fixtures.waiting import wait_until

import orcas
from orcas.settings.config import child_environment

KEYS = {"AWS_ACCESS_KEY_ID": ROOT[0], "AWS_SECRET_ACCESS_KEY": ROOT[1]}
OF_NODES = {"ORCAS_ROOT_ACCESS_KEY": ROOT[0], "ORCAS_ROOT_SECRET_KEY": ROOT[1]}


def health(node: Node, path: str) -> tuple[int, dict[str, Any]]:
    """Status and document of what everybody may ask a node."""
    connection = HTTPConnection("127.0.0.1", node.port, timeout=30)
    try:
        connection.request("GET", f"/_orcas/health/{path}")
        answer = connection.getresponse()
        return answer.status, json.loads(answer.read())
    finally:
        connection.close()


def stop(node: Node) -> None:
    """Stop a node as its operator does."""
    command("stop", "--data", node.directory, **OF_NODES)
    assert node.process is not None
    assert node.process.stdout is not None
    assert node.process.wait(60) == 0
    node.process.stdout.close()
    node.process = None


def moved_from(*nodes: Node) -> Node:
    """The owner, which was told to give up the log. Fails while nobody owns it."""
    owner = next(node for node in nodes if role(node) == "owner")
    command("cluster", "move", "--endpoint", owner.url, **KEYS)
    return owner


def has_content(node: Node, count: int) -> bool:
    """Whether the copy of a node has so many bodies of objects: packs come before the records that name what is in them."""
    return bool(document("fsck", "--endpoint", node.url, **KEYS)["blobs"] == count)


def test_a_node_shows_itself_and_names_the_owner(cluster: Cluster) -> None:
    first, second = cluster.add(), cluster.add()
    first.client().create_bucket(Bucket="photos")
    owner, follower = (document("status", "--data", node.directory, **OF_NODES) for node in (first, second))
    assert (owner["url"], follower["url"]) == (first.url, second.url)
    assert owner["cluster"]["role"] == "owner"
    assert owner["wrong"] == follower["wrong"] == []
    # They are processes of their own: nothing was passed on.
    assert owner["since"] != follower["since"] or owner["memory"] != follower["memory"]
    assert follower["cluster"]["node"] == second.status()["node"] != owner["cluster"]["node"]
    known = follower["cluster"]["owner"]
    assert (known["node"], known["url"]) == (owner["cluster"]["node"], first.url)
    said = command("status", "--data", second.directory, **OF_NODES)
    assert f"follower {follower['cluster']['node']} of a cluster" in said
    assert f"{owner['cluster']['node']} at {first.url}" in said
    assert "standby" not in said


def test_scores_are_those_of_the_node_and_of_the_owner(cluster: Cluster) -> None:
    nodes = cluster.add(), cluster.add()
    first, second = (node.status() for node in nodes)
    assert first["owner"]["score"] == first["score"]
    assert 0 <= second["owner"]["score"] <= 1
    for node, tells_owners in zip(nodes, (False, True), strict=True):
        lines = command("cluster", "status", "--endpoint", node.url, **KEYS).splitlines()
        (line,) = [line for line in lines if line.startswith("score ")]
        assert float(line.split()[1].rstrip(";")) >= 0
        assert ("; of the owner " in line) == tells_owners
        assert 0 <= float(metrics_of(node)["orcas_cluster_score"]) <= 1


def test_stop_ends_the_node_that_is_asked(cluster: Cluster) -> None:
    first, second = cluster.add(), cluster.add()
    stop(second)
    assert first.status()["role"] == "owner"
    assert "orcas serve --log" in command("status", "--data", second.directory, code=3, **OF_NODES)


def test_a_node_that_can_neither_answer_nor_pass_on_is_not_ready(tmp_path: Path) -> None:
    with contextlib.ExitStack() as stack:
        with orcas.Server(memory=True) as server:
            server.client("s3").create_bucket(Bucket="logs")
            bucket = Bucket(server)
            cluster = Cluster(tmp_path, bucket.log_url(), bucket.environ)
            nodes = cluster.add(), cluster.add()
            for node in nodes:
                stack.callback(node.kill)
                assert health(node, "ready") == (200, {"status": "ok", "writable": True, "durability": "sync"})
                assert health(node, "writable")[0] == 200
            assert "requests" in command("tasks", "run", "log-store", "--endpoint", nodes[0].url, **KEYS)
        # The store of the log is gone.
        assert wait_until(lambda: {health(node, "ready")[0] for node in nodes} == {503}, 10 * LEASE_SECONDS)
        owner, follower = (health(node, "ready")[1] for node in nodes)
        assert owner["status"] == follower["status"] == "no-owner"
        assert "takes nothing from this node" in owner["reason"]
        assert "has not heard of an owner" in follower["reason"]
        assert [health(node, "live")[0] for node in nodes] == [200, 200]
        assert [health(node, "writable")[0] for node in nodes] == [503, 503]


def test_commands_wait_for_a_node_that_changes_its_role(cluster: Cluster) -> None:
    first, second = cluster.add(), cluster.add()
    nodes = (first, second)
    seen = set()
    for _ in range(4):
        owner = once(lambda: moved_from(*nodes))
        # The store is closed now and again meanwhile, and this never says that there is no server.
        for _ in range(10):
            done = ran(
                child_environment() | OF_NODES, ".", "cluster", "status", "--data", str(owner.directory), "--json"
            )
            # For a moment, nobody owns the log.
            assert done.returncode in (0, 1), done.stderr
            seen.add(json.loads(done.stdout)["role"])
        assert wait_until(lambda: {role(node) for node in nodes} == {"owner", "follower"}, 10 * LEASE_SECONDS)
    assert "follower" in seen


def test_the_console_shows_the_owner_and_moves_the_log(cluster: Cluster) -> None:
    first, second = cluster.add(), cluster.add()
    visitor = Visitor(second.url)
    # It is the owner that answers.
    visitor.sign_in(*ROOT)
    assert "owner of the log, term 1" in visitor.page("/health")
    text = visitor.page("/cluster")
    assert f"{first.status()['node']} at" in text
    assert f"orcas cluster join --from {first.url}" in text
    visitor.post("/cluster/move", {"to": second.status()["node"]})
    assert wait_until(lambda: role(second) == "owner", 10 * LEASE_SECONDS)
    visitor.close()


def test_a_copy_that_was_changed_on_the_disk_of_a_node_is_found(cluster: Cluster) -> None:
    first, second = cluster.add(), cluster.add()
    client = second.client()
    client.create_bucket(Bucket="photos")
    # There is no pack yet.
    document("cluster", "verify", "--no-content", first.url, second.url, **KEYS)
    for number in range(4):
        client.put_object(Bucket="photos", Key=f"k{number}", Body=os.urandom(200_000))
    client.put_object(Bucket="photos", Key="small", Body=b"small")
    second.client(service="iam").create_user(UserName="reader")
    assert wait_until(lambda: has_content(second, 4), 10 * LEASE_SECONDS)
    nodes = (first.url, second.url)
    shown = document("cluster", "verify", *nodes, **KEYS)["nodes"]
    assert [(each["role"], each["finding"]) for each in shown] == [("owner", None), ("follower", None)]
    # The owner is asked as well.
    assert document("cluster", "verify", second.url, **KEYS)["nodes"][::-1] == shown
    pack = max((second.directory / "chunks").iterdir(), key=lambda path: path.stat().st_size)
    with pack.open("r+b") as file:
        # Wherever the chunks lie in it.
        content = bytearray(file.read())
        at = max(range(0, len(content) - 64, 4096), key=lambda start: len(set(content[start : start + 64])))
        file.seek(at + 32)
        file.write(bytes(each ^ 1 for each in content[at + 32 : at + 40]))
    said = command("cluster", "verify", *nodes, code=1, **KEYS)
    lines = [line for line in said.splitlines() if "http://" in line]
    assert "the same" in lines[0]
    assert shown[1]["node"] in lines[1]
    assert "damaged" in lines[1]
    # Without content, the log and the small files are compared alone.
    assert "damaged" not in command("cluster", "verify", "--no-content", *nodes, **KEYS)


def test_a_node_checks_its_own_files_and_names_the_owner_for_tasks(cluster: Cluster) -> None:
    first, second = cluster.add(), cluster.add()
    client = second.client()
    client.create_bucket(Bucket="photos")
    client.put_object(Bucket="photos", Key="k", Body=os.urandom(200_000))
    assert client.get_object(Bucket="photos", Key="k")["ContentLength"] == 200_000
    assert wait_until(lambda: has_content(second, 1), 10 * LEASE_SECONDS)
    (pack,) = (second.directory / "chunks").iterdir()
    content = bytearray(pack.read_bytes())
    at = max(range(0, len(content) - 64, 4096), key=lambda start: len(set(content[start : start + 64])))
    with pack.open("r+b") as file:
        file.seek(at + 32)
        file.write(bytes(each ^ 1 for each in content[at + 32 : at + 40]))
    for words in (("fsck",), ("scrub", "--now")):
        assert "photos/k" in command(*words, "--endpoint", second.url, code=1, **KEYS)
        assert "photos/k" in command(*words, "--data", second.directory, code=1, **OF_NODES)
        command(*words, "--endpoint", first.url, **KEYS)
    for line in (("scrub",), ("tasks", "list"), ("tasks", "run", "lifecycle")):
        said = command(*line, "--endpoint", second.url, code=69, **KEYS)
        assert f"and runs no tasks: ask the one that does (--endpoint {first.url})" in said
        command(*line, "--endpoint", first.url, **KEYS)


def test_nodes_are_upgraded_one_after_the_other(cluster: Cluster) -> None:
    first, second = cluster.add(), cluster.add()
    clients = [node.client(attempts=10) for node in (first, second)]
    clients[0].create_bucket(Bucket="photos")
    before, after = first.status(), second.status()

    def restart(node: Node) -> None:
        stop(node)
        node.start()

    restart(second)
    assert second.status()["role"] == "follower"
    clients[1].put_object(Bucket="photos", Key="k1", Body=b"1")
    command("cluster", "move", "--to", after["node"], "--data", first.directory, **OF_NODES)
    clients[0].put_object(Bucket="photos", Key="k2", Body=b"2")
    assert wait_until(lambda: role(second) == "owner", 10 * LEASE_SECONDS)
    restart(first)
    assert (first.status()["role"], first.status()["node"]) == ("follower", before["node"])
    keys = [entry["Key"] for entry in clients[0].list_objects_v2(Bucket="photos")["Contents"]]
    assert keys == ["k1", "k2"]


def test_a_backup_of_the_owner_begins_a_new_cluster(cluster: Cluster, tmp_path: Path) -> None:
    first, second = cluster.add(), cluster.add()
    second.client().create_bucket(Bucket="photos")
    body = os.urandom(300_000)
    second.client().put_object(Bucket="photos", Key="k", Body=body)
    said = command("backup", tmp_path / "backup", "--data", second.directory, code=69, **OF_NODES)
    assert f"back up on the node that does ({first.status()['node']} at {first.url})" in said
    command("backup", tmp_path / "backup", "--data", first.directory, **OF_NODES)
    for node in (first, second):
        node.kill()
    # As in the documents: a new log, the restored store for the first node, and an empty directory for the other.
    log = (
        cluster.log_url.replace("?endpoint", "-new?endpoint")
        if "?endpoint" in cluster.log_url
        else f"{cluster.log_url}new"
    )
    renewed = Cluster(tmp_path / "new", log, cluster.environ)
    renewed.folder.mkdir()
    restored, empty = renewed.add(start=False), renewed.add(start=False)
    cluster.nodes += renewed.nodes
    command("restore", tmp_path / "backup", "--data", restored.directory, **OF_NODES)
    restored.start()
    empty.start()
    restored.kill()
    client = empty.client()
    assert once(lambda: client.get_object(Bucket="photos", Key="k")["Body"].read(), 10 * LEASE_SECONDS) == body
