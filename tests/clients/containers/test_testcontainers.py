"""The modules for testcontainers in Go, Java and Node.js in examples/, with processes for containers.

`programs/` has a program for each, which starts a container, says where it is, and ends with its input.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fixtures.signing import Identity
from tests.fixtures.sources import ROOT
from tests.fixtures.wire import Wire

pytestmark = pytest.mark.clients

# Where `.ci/run clients` puts them, for whatever languages are installed.
BUILT = ROOT / "target" / "clients" / "testcontainers"
PROGRAMS = {
    "go": (BUILT / "orcas-go", []),
    "java": (BUILT / "classes" / "Main.class", ["java", "-cp", f"{BUILT / 'classes'}:{BUILT / 'jars'}/*", "Main"]),
    "node": (BUILT / "node_modules" / "testcontainers", ["node", str(BUILT / "main.mjs")]),
}


@pytest.fixture
def variables(containers: Path) -> Iterator[dict[str, str]]:
    """The environment in which testcontainers finds a daemon."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("AWS_", "ORCAS_", "PYTEST_"))}
    command = [sys.executable, str(Path(__file__).with_name("docker_daemon.py"))]
    with subprocess.Popen(
        command, env={**kept, "FAKE_DOCKER": str(containers)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as daemon:
        assert daemon.stdin is not None
        assert daemon.stdout is not None
        yield {
            **kept, "HOME": str(containers.parent), "DOCKER_HOST": daemon.stdout.readline().strip(),
            "TESTCONTAINERS_RYUK_DISABLED": "true", "TESTCONTAINERS_CHECKS_DISABLE": "true",
        }  # fmt: skip
        daemon.stdin.close()


@pytest.mark.parametrize("language", PROGRAMS)
def test_a_module_starts_a_server(language: str, variables: dict[str, str]) -> None:
    built, words = PROGRAMS[language]
    if not built.exists() or (words and shutil.which(words[0]) is None):
        pytest.skip(f"there is no program in {language}: run .ci/run clients where it is installed")
    with subprocess.Popen(
        words or [str(built)], env=variables, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        text=True,
    ) as program:  # fmt: skip
        assert program.stdin is not None
        assert program.stdout is not None
        assert program.stderr is not None
        said = program.stdout.readline().split()
        if len(said) != 4:
            program.kill()
            pytest.fail(program.stderr.read())
        endpoint, access_key, secret_key, region = said
        assert (access_key, secret_key, region) == ("an-access-key", "a-secret-key", "us-east-1")
        wire = Wire(endpoint.rstrip("/"), Identity(access_key, secret_key, region))
        assert wire("PUT", "/second/key", body=b"content").status == 200
        assert wire("GET", "/second/key").body == b"content"
        program.stdin.close()
        assert program.wait(120) == 0, program.stderr.read()
