"""`orcas localstack` as a process: what those who started LocalStack find in its place."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import boto3
import httpx
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from tests.fixtures.commands import ran
from tests.fixtures.waiting import wait_until
from tests.hosts.test_minio import free_port

from orcas.settings.config import child_environment


@dataclass
class Running:
    """A server, and what it has printed until now."""

    process: subprocess.Popen[str]
    port: int
    output: Path
    log: Path

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def client(self, service: str = "s3", **options: Any) -> Any:
        keys = {"aws_access_key_id": "test", "aws_secret_access_key": "test", "region_name": "us-east-1"}
        config = Config(retries={"total_max_attempts": 1}, **options)
        return boto3.client(service, endpoint_url=self.url, config=config, **keys)

    def document(self, path: str) -> Any:
        with urllib.request.urlopen(f"{self.url}{path}", timeout=60) as answer:
            return json.load(answer)

    def is_ready(self) -> bool:
        return "Ready.\n" in self.output.read_text()


@contextlib.contextmanager
def running(directory: Path, *arguments: str, **variables: str) -> Iterator[Running]:
    port = free_port()
    output, log = (directory / f"{name}-{time.monotonic_ns()}" for name in ("output", "log"))
    given = {
        "HOME": str(directory), "GATEWAY_LISTEN": f"127.0.0.1:{port}", "LOCALSTACK_INIT_DIR": str(directory / "init"),
        "ORCAS_LOG_FORMAT": "json",
    }  # fmt: skip
    with output.open("w") as out, log.open("w") as err, subprocess.Popen(
        [sys.executable, "-m", "orcas", "localstack", *arguments], env=child_environment() | given | variables,
        cwd=directory, stdout=out, stderr=err, text=True,
    ) as process:  # fmt: skip
        found = Running(process, port, output, log)
        try:
            assert wait_until(lambda: found.is_ready() or process.poll() is not None)
            assert process.poll() is None, log.read_text()
            yield found
        finally:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(tmp_path_factory.mktemp("localstack"), "start", SERVICES="s3,sqs", LAMBDA_EXECUTOR="docker") as found:
        yield found


def test_the_services_that_are_here_answer_to_its_keys(server: Running) -> None:
    s3 = server.client()
    s3.create_bucket(Bucket="bucket")
    s3.put_object(Bucket="bucket", Key="k", Body=b"content")
    assert s3.get_object(Bucket="bucket", Key="k")["Body"].read() == b"content"
    assert server.client("sts").get_caller_identity()["Arn"].endswith(":root")
    assert server.client("iam").list_users()["Users"] == []
    with pytest.raises(ClientError) as refused:
        server.client("sqs").list_queues()
    assert refused.value.response["ResponseMetadata"]["HTTPStatusCode"] == 501


def test_it_says_what_is_not_here(server: Running) -> None:
    log = server.log.read_text()
    assert "Without effect here: LAMBDA_EXECUTOR" in log
    assert "These services are not here, and answer with a sentence: sqs" in log
    assert "The keys are the published ones of LocalStack" in log


def test_any_keys_are_let_in_where_that_is_asked_for(tmp_path: Path) -> None:
    with running(tmp_path, S3_SKIP_SIGNATURE_VALIDATION="1") as server:
        anybody = {"aws_access_key_id": "my-access", "aws_secret_access_key": "my-secret", "region_name": "us-east-1"}
        s3, iam, sts = (boto3.client(each, endpoint_url=server.url, **anybody) for each in ("s3", "iam", "sts"))
        s3.create_bucket(Bucket="photos")
        s3.put_object(Bucket="photos", Key="k", Body=b"content")
        for version in ("s3v4", "s3"):
            signer = boto3.client("s3", endpoint_url=server.url, config=Config(signature_version=version), **anybody)
            with urllib.request.urlopen(
                signer.generate_presigned_url("get_object", {"Bucket": "photos", "Key": "k"})
            ) as got:
                assert got.read() == b"content"
        form = s3.generate_presigned_post("photos", "posted")
        assert httpx.post(form["url"], data=form["fields"], files={"file": b"content"}).status_code == 204
        # An unknown key is root; the key of a user is that user, whatever its secret.
        assert sts.get_caller_identity()["Arn"].endswith(":root")
        iam.create_user(UserName="u")
        key = iam.create_access_key(UserName="u")["AccessKey"]["AccessKeyId"]
        as_user = boto3.client("s3", endpoint_url=server.url, **anybody | {"aws_access_key_id": key})
        with pytest.raises(ClientError, match="AccessDenied"):
            as_user.get_object(Bucket="photos", Key="k")
        # Tokens, and Orcas's own API, are verified all the same; nobody's requests stay nobody's.
        with_token = boto3.client("s3", endpoint_url=server.url, aws_session_token="x", **anybody)
        with pytest.raises(ClientError, match="InvalidToken"):
            with_token.list_buckets()
        environ = {"AWS_ACCESS_KEY_ID": "my-access", "AWS_SECRET_ACCESS_KEY": "my-secret"}
        refused = ran(child_environment() | environ, str(tmp_path), "stop", "--endpoint", server.url)
        assert "does not exist in our records" in refused.stderr
        assert httpx.get(f"{server.url}/photos/k").status_code == 403
        assert "Signatures are not verified" in server.log.read_text()


def test_health_and_information_are_where_localstack_has_them(server: Running) -> None:
    health = server.document("/_localstack/health")
    assert health["services"] == {"s3": "running", "iam": "running", "sts": "running"}
    info = server.document("/_localstack/info")
    assert (info["version"], info["is_license_activated"]) == (health["version"], False)
    request = urllib.request.Request(f"{server.url}/_localstack/health", method="HEAD")
    with urllib.request.urlopen(request, timeout=60) as answer:
        assert answer.status == 200
    completed = {"BOOT": True, "START": True, "READY": True, "SHUTDOWN": False}
    assert server.document("/_localstack/init") == {"completed": completed, "scripts": []}


def test_buckets_are_hosts_below_its_names(server: Running) -> None:
    server.client().create_bucket(Bucket="hosted")
    server.client().put_object(Bucket="hosted", Key="k", Body=b"content")
    for host in ("hosted.s3.localhost.localstack.cloud", "hosted.s3.us-east-1.localhost.localstack.cloud"):
        # Every client resolves these names to this machine.
        url = f"http://{host}:{server.port}"
        signed = server.client().generate_presigned_url("get_object", {"Bucket": "hosted", "Key": "k"})
        assert signed.startswith(server.url)
        client = boto3.client(
            "s3", endpoint_url=url.replace("hosted.", "", 1), region_name="us-east-1", aws_access_key_id="test",
            aws_secret_access_key="test", config=Config(signature_version="s3v4", s3={"addressing_style": "virtual"}),
        )  # fmt: skip
        target = client.generate_presigned_url("get_object", {"Bucket": "hosted", "Key": "k"})
        path = target.partition(f"{host}:{server.port}")[2]
        with socket.create_connection(("127.0.0.1", server.port), 60) as connection:
            connection.sendall(
                f"GET {path} HTTP/1.1\r\nhost: {host}:{server.port}\r\nconnection: close\r\n\r\n".encode()
            )
            answer = b"".join(iter(lambda connection=connection: connection.recv(65536), b""))
        assert answer.startswith(b"HTTP/1.1 200")
        assert answer.endswith(b"content")


def script(directory: Path, stage: str, name: str, text: str, mode: int = 0o755) -> None:
    place = directory / "init" / f"{stage}.d"
    place.mkdir(parents=True, exist_ok=True)
    (place / name).write_text(text)
    (place / name).chmod(mode)


def test_scripts_run_in_order_and_one_that_fails_ends_nothing(tmp_path: Path) -> None:
    note = f'echo "$0" >> {tmp_path}/order; id -u >> {tmp_path}/users\n'
    for stage in ("boot", "start", "ready", "shutdown"):
        script(tmp_path, stage, "b.sh", f"#!/bin/sh\n{note}")
        script(tmp_path, stage, "a.sh", f"#!/bin/sh\n{note}exit 3\n")
    script(tmp_path, "ready", "nested/c.sh".replace("/", "-"), f"#!/bin/sh\n{note}")
    script(tmp_path, "ready", "not-executable.sh", f"#!/bin/sh\n{note}", 0o644)
    script(tmp_path, "ready", "readme.txt", "not a script")
    python = (
        "import boto3\n"
        "s3 = boto3.client('s3')\n"
        "s3.create_bucket(Bucket='from-a-script')\n"
        "s3.put_object(Bucket='from-a-script', Key='k', Body=b'content')\n"
    )
    script(tmp_path, "ready", "z.py", python)
    script(tmp_path, "shutdown", "z.py", f"{python}open({str(tmp_path / 'ended')!r}, 'w').close()\n")
    with running(tmp_path) as server:
        found = server.client().get_object(Bucket="from-a-script", Key="k")
        assert found["Body"].read() == b"content"
        shown = server.document("/_localstack/init/ready")
        states = {each["name"]: each["state"] for each in shown["scripts"]}
        assert states == {
            "a.sh": "ERROR", "b.sh": "SUCCESSFUL", "nested-c.sh": "SUCCESSFUL", "not-executable.sh": "ERROR",
            "z.py": "SUCCESSFUL",
        }  # fmt: skip
        assert "a.sh failed: it ended with code 3" in server.log.read_text()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
    order = [Path(line).parts[-2:] for line in (tmp_path / "order").read_text().splitlines()]
    assert order == [
        ("boot.d", "a.sh"), ("boot.d", "b.sh"), ("start.d", "a.sh"), ("start.d", "b.sh"), ("ready.d", "a.sh"),
        ("ready.d", "b.sh"), ("ready.d", "nested-c.sh"), ("shutdown.d", "a.sh"), ("shutdown.d", "b.sh"),
    ]  # fmt: skip
    # As the user of the server.
    assert set((tmp_path / "users").read_text().split()) == {str(os.geteuid())}
    # The server still answered.
    assert (tmp_path / "ended").exists()


def test_a_script_that_does_not_end_holds_up_no_stop(tmp_path: Path) -> None:
    script(tmp_path, "shutdown", "a.sh", "#!/bin/sh\nexec sleep 600\n")
    with running(tmp_path, ORCAS_DRAIN_TIMEOUT_SEC="1") as server:
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
        assert "a.sh failed: it took too long" in server.log.read_text()


def test_what_is_to_stay_stays(tmp_path: Path) -> None:
    place = {"DATA_DIR": str(tmp_path / "data")}
    with running(tmp_path, **place) as server:
        server.client().create_bucket(Bucket="kept")
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(60) == 0
    with running(tmp_path, **place) as server:
        assert [bucket["Name"] for bucket in server.client().list_buckets()["Buckets"]] == ["kept"]
