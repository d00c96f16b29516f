"""Fixtures of the tests that drive a live server through packages that the default run does not install."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from tests.fixtures.clients import MANY
from tests.fixtures.iam.tokens import ISSUER, Provider
from tests.fixtures.targets import Target

import orcas


@pytest.fixture(scope="session")
def listed(targets: Callable[[str], Target]) -> str:
    """A bucket with more objects than a page of a listing has: `page/0000` and so on, of one byte each."""
    client = targets("disk").client()
    client.create_bucket(Bucket="listed")
    with ThreadPoolExecutor(8) as threads:
        for _ in threads.map(
            lambda number: client.put_object(Bucket="listed", Key=f"page/{number:04}", Body=b"x"), range(MANY)
        ):
            pass
    return "listed"


@dataclass
class Web:
    """A server that speaks TLS, with a bucket `photos`, and what a client needs to use it as a web identity."""

    server: orcas.Server
    role: str
    token: Path


@pytest.fixture
def web(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    """Clients that read `SSL_CERT_FILE` trust the server."""
    provider, token, file = Provider(), tmp_path / "token", tmp_path / "identities.toml"
    provider.write(tmp_path / "keys.json")
    token.write_text(provider.token())
    file.write_text(f'[providers."{ISSUER}"]\nclient_ids = ["app"]\njwks_file = "keys.json"\n')
    with orcas.Server(memory=True, tls_self_signed=True, identities_file=str(file)) as server:
        account = server.client("sts").get_caller_identity()["Account"]
        principal = {"Federated": f"arn:aws:iam::{account}:oidc-provider/{ISSUER.removeprefix('https://')}"}
        one = {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRoleWithWebIdentity"}
        document = json.dumps({"Version": "2012-10-17", "Statement": [one]})
        role = server.client("iam").create_role(RoleName="web", AssumeRolePolicyDocument=document)["Role"]["Arn"]
        server.client("iam").attach_role_policy(RoleName="web", PolicyArn="arn:aws:iam::aws:policy/AmazonS3FullAccess")
        server.client("s3").create_bucket(Bucket="photos")
        monkeypatch.setenv("SSL_CERT_FILE", str(server.ca))
        yield Web(server, role, token)


@pytest.fixture
def containers(tmp_path: Path) -> Iterator[Path]:
    """The directory of the running containers. None may be left."""
    state = tmp_path / "containers"
    state.mkdir()
    yield state
    left = [json.loads(path.read_text())["pid"] for path in state.glob("*.json")]
    for pid in left:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    assert left == []
