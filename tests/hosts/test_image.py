"""The image as processes: its entry point, variables, health check, and the commands of others that it has."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.fixtures.events.certificates import certify
from tests.fixtures.sources import ROOT
from tests.fixtures.waiting import wait_until
from tests.hosts.test_minio import free_port

from orcas.settings.config import child_environment

FILE = (ROOT / "deploy" / "Containerfile").read_text(encoding="utf-8").replace("\\\n", " ")
PLACE = "/tmp/orcas-server"


def words(instruction: str) -> list[str]:
    """What an instruction of the file has in brackets."""
    (line,) = [line for line in FILE.splitlines() if line.startswith(instruction)]
    found: list[str] = json.loads(line[line.index("[") :])
    return found


@dataclass
class Container:
    """A directory in place of `/`, and the variables that all processes of a container have."""

    root: Path
    variables: dict[str, str]

    def run(self, *command: str, **variables: str) -> subprocess.CompletedProcess[str]:
        """As `docker exec`."""
        return subprocess.run(
            command, env=self.variables | variables, cwd=self.root, capture_output=True, text=True, check=False,
            timeout=120,
        )  # fmt: skip

    @property
    def is_healthy(self) -> bool:
        return self.run(*words("HEALTHCHECK")).returncode == 0

    @contextlib.contextmanager
    def running(self, *command: str, entry_point: Sequence[str] = tuple(words("ENTRYPOINT"))) -> Iterator[None]:
        log = self.root / "log"
        with log.open("w") as out, subprocess.Popen(
            [*entry_point, *command], env=self.variables, cwd=self.root, stdout=out, stderr=out
        ) as process:  # fmt: skip
            try:
                assert wait_until(lambda: "orcas ready" in log.read_text() or process.poll() is not None)
                assert process.poll() is None, log.read_text()
                yield
            finally:
                process.terminate()
                assert process.wait(60) == 0, log.read_text()


@pytest.fixture
def container(tmp_path: Path) -> Container:
    """Whose programs are those of the image, then those of a system."""
    programs = tmp_path / "bin"
    programs.mkdir()
    orcas = programs / "orcas"
    orcas.write_text(f'#!/bin/sh\nexec {sys.executable} -m orcas "$@"\n')
    orcas.chmod(0o755)
    (line,) = re.findall(r"^ENV (.*)$", FILE, re.MULTILINE)
    given = dict(pair.split("=", 1) for pair in line.split())
    assert given["ORCAS_SERVER_LINK"] == PLACE
    here = {"ORCAS_DATA": str(tmp_path / "data"), "ORCAS_HOST": "127.0.0.1", "MC_CONFIG_DIR": str(tmp_path / "mc")}
    here["ORCAS_SERVER_LINK"] = str(tmp_path / "server")
    kept = {name: value for name, value in child_environment().items() if not name.startswith(("AWS_", "MC_"))}
    path = os.pathsep.join((str(programs), str(ROOT / "deploy" / "bin"), "/usr/bin", "/bin"))
    return Container(tmp_path, kept | given | here | {"PATH": path, "HOME": str(tmp_path)})


def starts(root: Path) -> dict[str, tuple[list[str], dict[str, str]]]:
    """Ways of starting a server: the command, and variables."""
    port, certificates = free_port(), root / "certificates"
    certificates.mkdir()
    certificate, key = certify(root)
    certificate.rename(certificates / "public.crt")
    key.rename(certificates / "private.key")
    elsewhere = str(root / "elsewhere")
    return {
        "serve": (["serve"], {"ORCAS_PORT": str(port)}),
        "memory": (["serve", "--memory", "--port", str(port)], {}),
        "minio": (["minio", "server", elsewhere, "--address", f"127.0.0.1:{port}"], {}),
        "tls": (["server", elsewhere, "--certs-dir", str(certificates)], {"MINIO_ADDRESS": f"127.0.0.1:{port}"}),
        "localstack": (["localstack"], {"GATEWAY_LISTEN": f"127.0.0.1:{port}"}),
    }


@pytest.mark.parametrize("name", ["serve", "memory", "minio", "tls", "localstack"])
def test_the_health_check_finds_the_server_however_it_was_started(container: Container, name: str) -> None:
    command, variables = starts(container.root)[name]
    # It asks no proxy.
    container.variables |= variables | {"http_proxy": "http://127.0.0.1:9", "https_proxy": "http://127.0.0.1:9"}
    assert not container.is_healthy
    with container.running(*command):
        assert container.is_healthy
        status = container.run("orcas", "status", "--json")
        assert json.loads(status.stdout)["health"] == "ok", status.stderr
        listed = container.run("orcas", "mb", "s3://photos")
        assert listed.returncode == 0, listed.stderr
    assert not container.is_healthy
    assert not (container.root / "server").is_symlink()


def test_a_link_is_put_in_place_of_a_link_alone(container: Container) -> None:
    place = container.root / "server"
    place.write_text("something else")
    with container.running("serve", "--port", str(free_port())):
        assert container.is_healthy, "the store is where the variable says"
    assert "cannot be made (there is something else than a symbolic link" in (container.root / "log").read_text()
    assert place.read_text() == "something else"


def test_scripts_that_call_mc_set_the_server_up(container: Container) -> None:
    port = free_port()
    url = f"http://127.0.0.1:{port}"
    with container.running("minio", "server", str(container.root / "store"), "--address", f"127.0.0.1:{port}"):
        (container.root / "pictures").mkdir()
        (container.root / "pictures" / "a.txt").write_text("content")
        script = f"""
            set -e
            mc ready local
            mc alias set --api s3v4 my {url} minioadmin minioadmin
            mc config host add older {url}/ minioadmin minioadmin
            mc mb --ignore-existing my/images older/backups
            mc mb -p my/images
            mc mb my/locked
            mc anonymous set download my/images
            mc cp pictures/a.txt my/images/b.txt
            mc cp --recursive pictures my/images/
            mc cp my/images/b.txt local/images/c.txt || mc cp my/images/b.txt my/images/c.txt
            mc ls --recursive my/images
            mc version enable my/backups
            MC_HOST_env=http://minioadmin:minioadmin@127.0.0.1:{port} mc ls env/
            mc --version
        """
        done = container.run("sh", "-c", script)
        assert done.returncode == 0, done.stderr
        names = [line.split()[-1] for line in done.stdout.splitlines() if re.match(r"\d{4}-", line)]
        assert names == ["b.txt", "c.txt", "pictures/a.txt", "backups", "images", "locked"]
        with urllib.request.urlopen(f"{url}/images/b.txt", timeout=60) as answer:
            assert answer.read() == b"content"
        refused = container.run("mc", "alias", "set", "my", url, "minioadmin", "wrong-secret")
        assert (refused.returncode, "my" in (container.root / "mc" / "config.json").read_text()) == (1, True)
        assert (container.root / "mc" / "config.json").stat().st_mode & 0o777 == 0o600
        assert container.run("mc", "anonymous", "set", "none", "my/images").returncode == 0
        with pytest.raises(urllib.error.HTTPError):
            urllib.request.urlopen(f"{url}/images/b.txt", timeout=60)
    unreachable = container.run("mc", "alias", "set", "my", url, "minioadmin", "minioadmin")
    assert unreachable.returncode != 0, "scripts repeat it until the server is there"


def test_modules_of_testcontainers_find_their_entry_point(container: Container) -> None:
    port = free_port()
    # They put a script in place of the entry point. This one can be ended.
    script = container.root / "testcontainers_start.sh"
    script.write_text(
        "#!/bin/bash\nexport LAMBDA_DOCKER_FLAGS='-l org.testcontainers=true'\nexec docker-entrypoint.sh\n"
    )
    script.chmod(0o777)
    container.variables |= {"GATEWAY_LISTEN": f"127.0.0.1:{port}", "SERVICES": "s3", "AWS_ACCESS_KEY_ID": "test"}
    container.variables |= {"AWS_SECRET_ACCESS_KEY": "test", "LOCALSTACK_HOST": "localhost"}
    waiting = f"while [ ! -f {script} ]; do sleep 0.1; done; exec {script}"
    with container.running(waiting, entry_point=("sh", "-c")):
        assert wait_until(lambda: "Ready.\n" in (container.root / "log").read_text())
        assert container.run("awslocal", "s3", "mb", "s3://photos").returncode == 0


@pytest.mark.parametrize("command", ["awslocal", "aws --endpoint-url {url}", "aws"])
def test_scripts_that_call_aws_set_the_server_up(container: Container, command: str) -> None:
    port = free_port()
    container.variables["GATEWAY_LISTEN"] = f"127.0.0.1:{port}"
    with container.running("localstack"):
        program = command.format(url=f"http://127.0.0.1:{port}")
        (container.root / "a.txt").write_text("content")
        script = f"""
            set -e
            {program} s3 mb s3://photos
            {program} s3api create-bucket --bucket others --region eu-west-1 \\
                --create-bucket-configuration LocationConstraint=eu-west-1
            {program} s3 cp a.txt s3://photos/b.txt --content-type text/x-notes
            {program} s3 ls s3://photos
            {program} s3 rm s3://photos --recursive
            {program} s3 rb s3://photos
            {program} s3 ls
        """
        done = container.run("sh", "-c", script)
        assert done.returncode == 0, done.stderr
        names = [line.split()[-1] for line in done.stdout.splitlines() if re.match(r"\d{4}-", line)]
        assert names == ["b.txt", "others"]


def test_the_command_of_aws_takes_the_place_of_the_one_of_the_image(container: Container) -> None:
    own = container.root / "bin" / "aws"
    own.write_text('#!/bin/sh\necho "$AWS_ACCESS_KEY_ID" "$@"\n')
    own.chmod(0o755)
    done = container.run("awslocal", "sqs", "list-queues", LOCALSTACK_HOST="localstack")
    assert done.stdout == "test --endpoint-url http://localstack:4566 sqs list-queues\n"
    done = container.run("awslocal", "s3", "ls", AWS_ACCESS_KEY_ID="mine", AWS_ENDPOINT_URL="http://other:1")
    assert done.stdout == "mine --endpoint-url http://other:1 s3 ls\n"


def test_the_image_has_the_commands_and_curl() -> None:
    assert "COPY deploy/bin /usr/local/bin" in FILE
    assert re.search(r"apt-get install .*\bcurl\b", FILE[FILE.index("FROM python:") :])
    assert all(os.access(path, os.X_OK) for path in (ROOT / "deploy" / "bin").iterdir())


def commands() -> dict[str, list[str]]:
    """What the stages of the file run that are given no command."""
    stages = re.findall(r"^FROM \S+ AS (\w+)$(.*?)(?=^FROM|\Z)", FILE, re.MULTILINE | re.DOTALL)
    return {
        name: json.loads(found[1])
        for name, text in stages
        if (found := re.search(r"^CMD (\[.*\])$", text, re.MULTILINE))
    }


def test_services_without_a_command_have_an_image() -> None:
    assert commands() == {"orcas": ["serve"], "minio": ["server", "/data"], "localstack": ["localstack"]}
    assert FILE.rstrip().endswith("\nFROM orcas"), "the last one is what a build without a target makes"


def test_a_container_with_the_variables_of_minio_and_no_command_says_so(container: Container) -> None:
    container.variables |= {"MINIO_ROOT_USER": "operator", "MINIO_ROOT_PASSWORD": "a-long-secret"}
    with container.running("serve", "--port", str(free_port())):
        assert "MINIO_ROOT_USER has no effect on orcas serve" in (container.root / "log").read_text()


# What public projects do with their server, in November 2026, with other names and addresses.
# https://github.com/grafana/loki examples/getting-started/docker-compose.yaml
def test_directories_that_an_entry_point_makes_are_buckets(container: Container) -> None:
    port, data = free_port(), container.root / "store"
    container.variables |= {
        "MINIO_ROOT_USER": "loki", "MINIO_ROOT_PASSWORD": "supersecret", "MINIO_PROMETHEUS_AUTH_TYPE": "public",
        "MINIO_UPDATE": "off", "MINIO_ADDRESS": f"127.0.0.1:{port}",
    }  # fmt: skip
    script = f"mkdir -p {data}/loki-data && mkdir -p {data}/loki-ruler && exec minio server {data}"
    # The same directory a second time is a store.
    for _ in range(2):
        with container.running("sh", "-euc", script, entry_point=()):
            done = container.run("curl", "-f", f"http://127.0.0.1:{port}/minio/health/live")
            assert done.returncode == 0, done.stderr
            listed = container.run("mc", "ls", "local")
            assert [line.split()[-1] for line in listed.stdout.splitlines()] == ["loki-data", "loki-ruler"]
            assert container.run("mc", "cp", "log", "local/loki-data/").returncode == 0


# https://github.com/apache/iceberg-python dev/docker-compose-integration.yml
def test_a_container_beside_it_waits_and_makes_buckets(container: Container) -> None:
    port = free_port()
    variables = {"MINIO_ROOT_USER": "admin", "MINIO_ROOT_PASSWORD": "password", "MINIO_DOMAIN": "minio.test"}
    script = f"""
        until (mc alias set minio http://127.0.0.1:{port} admin password) do echo waiting && sleep 0.1; done;
        mc mb minio/warehouse;
        mc policy set public minio/warehouse;
    """
    waits = subprocess.Popen(["sh", "-ec", script], env=container.variables, cwd=container.root)
    with waits as beside, contextlib.ExitStack() as stack:
        stack.callback(beside.kill)
        container.variables |= variables
        console = ("--console-address", f":{free_port()}")
        with container.running("server", "store", *console, "--address", f"127.0.0.1:{port}"):
            assert beside.wait(60) == 0
            request = urllib.request.Request(f"http://127.0.0.1:{port}/k", b"content", method="PUT")
            request.add_header("Host", "warehouse.minio.test")
            with urllib.request.urlopen(request, timeout=60) as answer:
                assert answer.status == 200
            assert container.run("mc", "ls", "minio/warehouse").stdout.split()[-1] == "k"


# https://github.com/xtreme1-io/xtreme1 docker-compose.yml; nextcloud/server .github/workflows/object-storage-s3.yml
def test_an_image_of_bitnami_is_its_variables(container: Container) -> None:
    port = free_port()
    container.variables |= {
        "MINIO_ROOT_USER": "admin", "MINIO_ROOT_PASSWORD": "1tQB970y", "MINIO_DEFAULT_BUCKETS": "xtreme1:download",
        "MINIO_API_PORT_NUMBER": str(port),
    }  # fmt: skip
    command = [str(container.root / "store") if word == "/data" else word for word in commands()["minio"]]
    with container.running(*command):
        url = f"http://127.0.0.1:{port}"
        retries = ("--retry-connrefused", "--retry", "10", "--retry-delay", "1")
        done = container.run("curl", "--silent", "-f", "-m", "1", *retries, f"{url}/minio/health/ready")
        assert done.returncode == 0, done.stderr
        assert container.run("mc", "cp", "log", "local/xtreme1/log").returncode == 0
        with urllib.request.urlopen(f"{url}/xtreme1/log", timeout=60) as answer:
            assert answer.status == 200


# https://github.com/apache/arrow-rs-object-store .github/workflows/ci.yml; delta-io/delta-rs docker-compose.yml;
# nextcloud/server .github/workflows/files-external-s3.yml
def test_workflows_with_the_command_of_aws_do_their_steps(container: Container) -> None:
    port = free_port()
    container.variables |= {"GATEWAY_LISTEN": f"127.0.0.1:{port}", "SERVICES": "s3,dynamodb", "DEBUG": "1"}
    container.variables |= {"AWS_ACCESS_KEY_ID": "deltalake", "AWS_SECRET_ACCESS_KEY": "weloverust"}
    aws = (str(Path(sys.executable).with_name("aws")), f"--endpoint-url=http://127.0.0.1:{port}", "--region=us-east-1")
    with container.running("localstack"):
        assert container.run(*aws, "s3", "mb", "s3://test-bucket").returncode == 0
        lock = ("--bucket", "test-object-lock", "--object-lock-enabled-for-bucket")
        assert container.run(*aws, "s3api", "create-bucket", *lock).returncode == 0
        assert container.run(*aws, "s3api", "get-object-lock-configuration", *lock[:2]).returncode == 0
        # What differs: there is neither KMS nor DynamoDB, keys are verified, and /health is the path of a bucket.
        refused = container.run(*aws, "kms", "create-key", "--description", "test key")
        assert "(NotImplemented)" in refused.stderr or "501" in refused.stderr, refused.stderr
        ignored = {"AWS_ACCESS_KEY_ID": "ignored", "AWS_SECRET_ACCESS_KEY": "ignored"}
        refused = container.run(*aws, "s3", "ls", **ignored)
        assert "InvalidAccessKeyId" in refused.stderr
        assert "does not exist in our records" in refused.stderr
        assert container.run("curl", "-f", f"http://127.0.0.1:{port}/health").returncode != 0
        assert container.run("curl", "-f", f"http://127.0.0.1:{port}/_localstack/health").returncode == 0
