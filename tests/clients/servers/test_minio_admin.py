"""`orcas minio server` with MinIO's own administrators: mc and minio-py."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import pytest
from tests.fixtures.clients import executable, package
from tests.hosts.test_minio import KEYS, Running, running

minio = package("minio")
minioadmin = package("minio.minioadmin")
credentials = package("minio.credentials")

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore")]

MC: Final = executable("mc", "run .ci/run clients where Go is installed")
POLICY: Final = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": ["s3:GetObject"], "Resource": ["arn:aws:s3:::images/*"]}],
}

Mc = Callable[[str], list[dict[str, Any]]]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(
        tmp_path_factory.mktemp("minio"),
        MINIO_ROOT_USER=KEYS[0], MINIO_ROOT_PASSWORD=KEYS[1], MINIO_DEFAULT_BUCKETS="images",
    ) as found:  # fmt: skip
        yield found


@pytest.fixture
def mc(server: Running, tmp_path: Path) -> Mc:
    """Runs mc, whose alias `s` is the server. What it prints, as documents."""
    (tmp_path / "policy.json").write_text(json.dumps(POLICY))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "ORCAS_", "MC_"))}

    def run(line: str) -> list[dict[str, Any]]:
        done = subprocess.run(
            [MC, "--json", *line.split()], env={**kept, "HOME": str(tmp_path)}, cwd=tmp_path, capture_output=True,
            text=True, check=False, timeout=120,
        )  # fmt: skip
        assert done.returncode == 0, done.stdout + done.stderr
        return [json.loads(document) for document in done.stdout.splitlines() if document.strip()]

    run(f"alias set s http://127.0.0.1:{server.port} {KEYS[0]} {KEYS[1]}")
    return run


def test_mc_finds_the_server_and_its_first_steps_work(server: Running, mc: Mc) -> None:
    mc("ready s")
    mc("mb s/pictures")
    mc("anonymous set download s/pictures")
    assert mc("anonymous get s/pictures")[0]["permission"] == "download"
    mc("version enable s/pictures")
    mc("ilm rule add --prefix tmp/ --expire-days 30 s/pictures")
    server.client().put_object(Bucket="pictures", Key="k", Body=b"content")
    assert server.client(None).get_object(Bucket="pictures", Key="k")["Body"].read() == b"content"
    info = mc("admin info s")[0]["info"]
    assert (info["mode"], info["buckets"]["count"]) == ("online", 2)


def test_mc_makes_users_policies_and_keys(server: Running, mc: Mc) -> None:
    mc("admin user add s alice alices-secret")
    assert [(user["accessKey"], user["userStatus"]) for user in mc("admin user ls s")] == [("alice", "enabled")]
    mc("admin policy create s pictures policy.json")
    assert mc("admin policy info s pictures")[0]["policyInfo"]["Policy"]["Statement"] == POLICY["Statement"]
    assert {"pictures", "readwrite"} <= {policy["policy"] for policy in mc("admin policy ls s")}
    mc("admin policy attach s readwrite --user alice")
    server.client(("alice", "alices-secret")).put_object(Bucket="images", Key="k", Body=b"content")
    mc("admin user svcacct add s alice --access-key service --secret-key service-secret --policy policy.json")
    service = server.client(("service", "service-secret"))
    assert service.get_object(Bucket="images", Key="k")["Body"].read() == b"content"
    mc("admin user svcacct ls s alice")
    mc("admin user svcacct info s service")
    mc("admin accesskey ls s")
    made = mc("admin accesskey create s alice")[0]
    server.client((made["accessKey"], made["secretKey"])).put_object(Bucket="images", Key="m", Body=b"content")
    mc("admin accesskey rm s service")
    mc("admin user svcacct add s alice --access-key service --secret-key service-secret --policy policy.json")
    mc("admin group add s staff alice")
    mc("admin group ls s")
    mc("admin policy attach s readwrite --group staff")
    assert mc("admin group info s staff")[0]["members"] == ["alice"]
    assert mc("admin policy entities s --group staff")[0]["result"]["groupMappings"][0]["policies"] == ["readwrite"]
    mc("admin policy entities s")
    mc("admin group rm s staff alice")
    mc("admin group rm s staff")
    mc("admin user disable s alice")
    assert [user["userStatus"] for user in mc("admin user ls s")] == ["disabled"]
    mc("admin user enable s alice")
    mc("admin user info s alice")
    mc("admin policy detach s readwrite --user alice")
    mc("admin user svcacct rm s service")
    mc("admin policy rm s pictures")
    mc("admin user rm s alice")
    assert mc("admin user ls s") == []


def test_minio_py_administers_the_server(server: Running, tmp_path: Path) -> None:
    provider = credentials.StaticProvider(*KEYS)
    admin = minioadmin.MinioAdmin(endpoint=f"127.0.0.1:{server.port}", credentials=provider, secure=False)
    admin.user_add("bob", "bobs-secret")
    assert json.loads(admin.user_list())["bob"]["status"] == "enabled"
    path = tmp_path / "policy.json"
    path.write_text(json.dumps(POLICY))
    admin.policy_add("images", str(path))
    assert "images" in json.loads(admin.policy_list())
    admin.attach_policy(["images"], user="bob")
    server.client().put_object(Bucket="images", Key="p", Body=b"content")
    found = server.client(("bob", "bobs-secret")).get_object(Bucket="images", Key="p")
    assert found["Body"].read() == b"content"
    assert json.loads(admin.info())["mode"] == "online"
    admin.user_disable("bob")
    assert json.loads(admin.user_info("bob"))["status"] == "disabled"
    admin.detach_policy(["images"], user="bob")
    admin.policy_remove("images")
    admin.user_remove("bob")
