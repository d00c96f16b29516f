"""The image as processes: its entry point, variables and health check."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
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
