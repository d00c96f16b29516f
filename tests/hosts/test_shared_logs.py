"""A shared log in a bucket of real servers: Orcas itself, and others where they are installed.

The suite of the crate `log_stores` has what a log must do; `ORCAS_LOG_URL` names the bucket.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pytest
from tests.fixtures.servers.peers import known_peers
from tests.fixtures.sources import ROOT

import orcas

pytestmark = [
    pytest.mark.full,
    pytest.mark.xdist_group("shared-logs"),
    pytest.mark.skipif(shutil.which("cargo") is None, reason="cargo is not installed"),
]

KEYS = ("a-key-of-logs", "a-secret-of-logs")
SUITE = ("cargo", "test", "--locked", "--workspace", "--test", "suite", "another_store_behaves")


def behaves(endpoint: str, access_key: str, secret_key: str) -> None:
    client = boto3.client(
        "s3", endpoint_url=endpoint, region_name="us-east-1", aws_access_key_id=access_key,
        aws_secret_access_key=secret_key,
    )  # fmt: skip
    client.create_bucket(Bucket="logs")
    variables = {
        "AWS_ACCESS_KEY_ID": access_key,
        "AWS_SECRET_ACCESS_KEY": secret_key,
        "ORCAS_LOG_URL": f"s3://logs/a folder/LOG?endpoint={endpoint}",
    }
    command = [*SUITE, "--profile", os.environ.get("CARGO_PROFILE", "ci")]
    done = subprocess.run(command, cwd=ROOT, env=os.environ | variables, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "test another_store_behaves ... ok" in done.stdout


@pytest.fixture
def peers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    with known_peers(monkeypatch) as found:
        yield found


def test_orcas(tmp_path: Path) -> None:
    with orcas.Server(tmp_path) as server:
        behaves(server.endpoint, server.access_key, server.secret_key)


@pytest.mark.parametrize("name", ["SeaweedFS", "versitygw"])
def test_another_server(name: str, tmp_path: Path, peers: Any) -> None:
    if peers.KNOWN[name].version() is None:
        pytest.skip(f"{name} is not installed: {peers.KNOWN[name].install}")
    with peers.started(name, tmp_path / "place", KEYS) as peer:
        behaves(peer.url, peer.access_key, peer.secret_key)
