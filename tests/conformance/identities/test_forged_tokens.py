"""Whoever forges tokens is locked out, and temporary credentials of root are not root for the admin API."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from botocore.auth import S3SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from tests.fixtures.iam.tokens import ISSUER, Provider

import orcas

pytestmark = pytest.mark.conformance

ONCE = Config(retries={"total_max_attempts": 1})
FAILURES = 5


@pytest.fixture(scope="module")
def provider() -> Provider:
    return Provider()


@pytest.fixture
def server(tmp_path: Path, provider: Provider) -> Iterator[orcas.Server]:
    provider.write(tmp_path / "keys.json")
    file = tmp_path / "identities.toml"
    file.write_text(f'[providers."{ISSUER}"]\nclient_ids = ["app"]\njwks_file = "keys.json"\n')
    settings: dict[str, Any] = {"lockout_failures": FAILURES, "lockout_loopback": True}
    with orcas.Server(memory=True, identities_file=str(file), **settings) as server:
        yield server


def code_of(sts: Any, role: str, token: str) -> str:
    try:
        sts.assume_role_with_web_identity(RoleArn=role, RoleSessionName="web", WebIdentityToken=token)
    except ClientError as error:
        return str(error.response["Error"]["Code"])
    return ""


def test_addresses_that_forge_tokens_are_locked_out(server: orcas.Server, provider: Provider) -> None:
    sts, s3 = server.client("sts", config=ONCE), server.client(config=ONCE)
    role = f"arn:aws:iam::{sts.get_caller_identity()['Account']}:role/nobody"
    # What expires, or what no role trusts, is not forged.
    for token in (provider.token(exp=1), provider.token()) * FAILURES:
        assert code_of(sts, role, token) in {"ExpiredTokenException", "AccessDenied"}
    for _ in range(FAILURES):
        assert code_of(sts, role, Provider().token()) == "InvalidIdentityToken"
    assert code_of(sts, role, provider.token()) == "Throttling"
    with pytest.raises(ClientError, match="SlowDown"):
        s3.list_buckets()


def test_an_empty_subject_is_nobody(server: orcas.Server, provider: Provider) -> None:
    sts = server.client("sts", config=ONCE)
    role = f"arn:aws:iam::{sts.get_caller_identity()['Account']}:role/nobody"
    assert code_of(sts, role, provider.token(sub="")) == "InvalidIdentityToken"
    assert code_of(sts, role, provider.token(sub="ann")) == "AccessDenied"


def asked(server: orcas.Server, method: str, path: str, credentials: Credentials) -> tuple[int, str]:
    request = AWSRequest(method, f"{server.endpoint}/_orcas/admin/{path}", headers={}, data=b"")
    S3SigV4Auth(credentials, "s3", server.region).add_auth(request)
    headers = dict(request.headers.items())
    try:
        with urllib.request.urlopen(urllib.request.Request(request.url, headers=headers, method=method)) as answer:
            return int(answer.status), ""
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


def test_temporary_credentials_of_root_do_not_reach_what_is_root_s_alone(server: orcas.Server) -> None:
    assert asked(server, "DELETE", "origins/none", Credentials(server.access_key, server.secret_key))[0] == 404
    made = server.client("sts").get_session_token()["Credentials"]
    session = made["AccessKeyId"], made["SecretAccessKey"], made["SessionToken"]
    s3 = server.client(
        aws_access_key_id=session[0], aws_secret_access_key=session[1], aws_session_token=session[2], config=ONCE
    )
    s3.list_buckets()
    assert asked(server, "GET", "stats", Credentials(*session)) == (200, ""), "as what policies can allow"
    status, said = asked(server, "DELETE", "origins/none", Credentials(*session))
    assert (status, "temporary credentials" in said) == (403, True), said
