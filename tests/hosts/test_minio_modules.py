"""What the MinIO modules of testcontainers send to a container and wait for, with `orcas` as its entry point.

Commands, variables and health checks are those of the modules for Java, Go, Node.js, Python and .NET in November 2026. The
port, the directory and the port of the console are the test's.
"""

from __future__ import annotations

import http.client
import subprocess
import sys
from pathlib import Path

import pytest
from tests.fixtures.signing import Identity
from tests.fixtures.waiting import wait_until
from tests.fixtures.wire import Wire
from tests.hosts.test_minio import free_port

from orcas.settings.config import child_environment

PUBLISHED = ("minioadmin", "minioadmin")
EXAMPLE = ("AKIAIOSFODNN7EXAMPLE", "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY")
ROOT, FORMER = ("MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD"), ("MINIO_ACCESS_KEY", "MINIO_SECRET_KEY")
# By language: the command, the keys, the variables that have them (otherwise, they are those of the image), and what is
# waited for.
MODULES = {
    "java": ("server --console-address :9001 /data", PUBLISHED, None, "/minio/health/live"),
    "go": ("server /data", PUBLISHED, ROOT, "/minio/health/live"),
    "node": ("server --console-address :9001 /data", PUBLISHED, ROOT, "/minio/health/live"),
    "python": ("server /data --address :9000", PUBLISHED, FORMER, "/minio/health/live"),
    "dotnet": ("server /data", EXAMPLE, ROOT, "/minio/health/ready"),
}


def status_of(port: int, path: str) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request("GET", path)
        return connection.getresponse().status
    except OSError:
        return 0
    finally:
        connection.close()


@pytest.mark.parametrize("language", MODULES)
def test_a_module_finds_what_it_waits_for(language: str, tmp_path: Path) -> None:
    command, keys, names, path = MODULES[language]
    port = free_port()
    places = {"/data": str(tmp_path / "data"), ":9000": f"127.0.0.1:{port}", ":9001": f":{free_port()}"}
    variables = {"MINIO_ADDRESS": f"127.0.0.1:{port}", "HOME": str(tmp_path)}
    variables |= dict(zip(names or (), keys, strict=False))
    with subprocess.Popen(
        [sys.executable, "-m", "orcas", *(places.get(word, word) for word in command.split())],
        env=child_environment() | variables, cwd=tmp_path, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    ) as process:  # fmt: skip
        try:
            assert wait_until(lambda: status_of(port, path) == 200)
            wire = Wire(f"http://127.0.0.1:{port}", Identity(*keys, "us-east-1"))
            assert wire("PUT", "/bucket").status == 200
            assert wire("PUT", "/bucket/key", body=b"content").status == 200
            assert wire("GET", "/bucket/key").body == b"content"
        finally:
            process.terminate()
            assert process.wait(60) == 0
