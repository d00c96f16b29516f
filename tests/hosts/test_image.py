"""The image as processes: its entry point, variables, health check, and the commands of others that it has."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
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
    def running(self, *command: str) -> Iterator[None]:
        log = self.root / "log"
        with log.open("w") as out, subprocess.Popen(
            [*words("ENTRYPOINT"), *command], env=self.variables, cwd=self.root, stdout=out, stderr=out
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
    assert re.search(r"apt-get install .*\bcurl\b", FILE[FILE.rindex("FROM ") :])
    assert all(os.access(path, os.X_OK) for path in (ROOT / "deploy" / "bin").iterdir())
