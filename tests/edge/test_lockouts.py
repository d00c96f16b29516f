"""Addresses that are locked out, limits of users and keys, and the longest time for which a URL may be presigned."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final
from urllib.parse import parse_qs, urlsplit

import boto3
import pytest
from botocore.config import Config
from botocore.exceptions import ClientError
from tests.fixtures.signing import Identity
from tests.fixtures.waiting import wait_until
from tests.fixtures.wire import Answer, Wire

import orcas
from orcas.testing import Control

FAILURES: Final = 3
LARGE: Final = 100_000


@pytest.fixture(scope="module")
def server() -> Iterator[orcas.Server]:
    settings = {"trusted_proxies": "127.0.0.1", "lockout_failures": FAILURES, "presign_max_sec": 60}
    with orcas.Server(memory=True, **settings) as server:
        server.client().create_bucket(Bucket="bucket")
        server.client().put_object(Bucket="bucket", Key="large", Body=b"x" * LARGE)
        yield server


@pytest.fixture
def control(server: orcas.Server) -> Iterator[Control]:
    with Control(server) as control:
        yield control
        control.set_clock(None)


def wire_of(server: orcas.Server, access_key: str | None = None, secret: str | None = None) -> Wire:
    return Wire(server.endpoint, Identity(access_key or server.access_key, secret or server.secret_key, "us-east-1"))


def ask(wire: Wire, client: str | None, target: str = "/bucket") -> Answer:
    """A request that the proxy has from `client`."""
    return wire("GET", target, headers={} if client is None else {"X-Forwarded-For": client})


def fail(server: orcas.Server, client: str | None, times: int = FAILURES) -> None:
    forged = (wire_of(server, secret="another"), wire_of(server, access_key="unknown"))
    for number in range(times):
        code = ("SignatureDoesNotMatch", "InvalidAccessKeyId")[number % 2]
        assert ask(forged[number % 2], client).code == code


def lockouts(server: orcas.Server) -> int:
    lines = wire_of(server)("GET", "/_orcas/metrics", sign=False).body.decode().splitlines()
    return int(float(next(line for line in lines if line.startswith("orcas_lockouts_total ")).split()[-1]))


def test_an_address_is_locked_out_for_a_growing_time(server: orcas.Server, control: Control) -> None:
    wire, before = wire_of(server), lockouts(server)
    fail(server, "198.51.100.1", FAILURES - 1)
    assert ask(wire, "198.51.100.1").status == 200
    fail(server, "198.51.100.1", 1)
    for seconds in (10, 20, 40):
        # A right signature is not even looked at.
        refused = ask(wire, "198.51.100.1")
        assert (refused.status, refused.code) == (503, "SlowDown")
        assert 0 < int(refused.headers["retry-after"]) <= seconds
        assert ask(wire, "198.51.100.2").status == ask(wire, None).status == 200
        control.advance(seconds=seconds)
        assert ask(wire, "198.51.100.1").status == 200
        fail(server, "198.51.100.1")
    assert lockouts(server) == before + 4
    assert wait_until(lambda: server._tail().count("An address is locked out after many wrong signatures") >= 4)
    assert "198.51.100.1" in server._tail()


def test_nothing_of_the_address_is_answered(server: orcas.Server) -> None:
    fail(server, "198.51.100.3")
    wire = wire_of(server)
    headers = {"X-Forwarded-For": "198.51.100.3"}
    presigned = wire.presign("GET", "/bucket/large")
    assert wire.send("GET", presigned, {"Host": wire.netloc, **headers}).code == "SlowDown"
    admin = wire("GET", "/_orcas/admin/stats", headers=headers)
    assert admin.status == 503
    assert b"SlowDown" in admin.body


def test_iam_is_locked_out_as_well(server: orcas.Server) -> None:
    iam = boto3.client(
        "iam", endpoint_url=server.endpoint, region_name="us-east-1", aws_access_key_id=server.access_key,
        aws_secret_access_key="another", config=Config(retries={"total_max_attempts": 1}),
    )  # fmt: skip

    def pass_on(request: Any, **_: Any) -> None:
        request.headers["X-Forwarded-For"] = "198.51.100.4"

    iam.meta.events.register("before-send.iam", pass_on)
    codes = []
    for _ in range(FAILURES + 1):
        with pytest.raises(ClientError) as caught:
            iam.list_users()
        codes.append(caught.value.response["Error"]["Code"])
    assert codes == ["SignatureDoesNotMatch"] * FAILURES + ["Throttling"]


def test_this_machine_and_the_proxy_are_spared(server: orcas.Server) -> None:
    before = lockouts(server)
    for client in (None, "127.0.0.1", "127.0.0.9", "::1"):
        fail(server, client, 2 * FAILURES)
        assert ask(wire_of(server), client).status == 200
    assert lockouts(server) == before


def test_presigned_for_too_long(server: orcas.Server) -> None:
    wire = wire_of(server)
    for seconds, code in ((60, ""), (61, "AuthorizationQueryParametersError")):
        url = server.client().generate_presigned_url("get_object", {"Bucket": "bucket", "Key": "large"}, seconds)
        parts = urlsplit(url)
        assert parse_qs(parts.query)["X-Amz-Expires"] == [str(seconds)]
        answer = wire.send("GET", f"{parts.path}?{parts.query}", {"Host": wire.netloc})
        assert answer.code == code
    assert "at most 60 seconds" in answer.body.decode()
    # Version 2 has a time of expiry instead.
    for seconds, code in ((60, ""), (60 + 2 * 900, "AuthorizationQueryParametersError")):
        target = wire.presign_version_two("GET", "/bucket/large", expires=seconds)
        assert wire.send("GET", target, {"Host": wire.netloc}).code == code


@pytest.fixture
def alice(server: orcas.Server) -> Iterator[dict[str, str]]:
    """A user who may read, and a key of it."""
    iam = server.client("iam")
    iam.create_user(UserName="alice")
    iam.attach_user_policy(UserName="alice", PolicyArn="arn:aws:iam::aws:policy/AmazonS3FullAccess")
    yield iam.create_access_key(UserName="alice")["AccessKey"]
    for key in iam.list_access_keys(UserName="alice")["AccessKeyMetadata"]:
        iam.delete_access_key(UserName="alice", AccessKeyId=key["AccessKeyId"])
    iam.detach_user_policy(UserName="alice", PolicyArn="arn:aws:iam::aws:policy/AmazonS3FullAccess")
    iam.delete_user(UserName="alice")


def put_limits(server: orcas.Server, **given: object) -> None:
    order = {"action": "PutLimits", "parameters": given}
    with Control(server) as control:
        control._session.admin("POST", "iam", order)


def until_refused(wire: Wire) -> Answer:
    """The first refusal. A second brings another request, however slow the machine is."""
    for _ in range(1000):
        answer = wire("GET", "/bucket")
        if answer.status != 200:
            return answer
    raise AssertionError("nothing is refused")


@pytest.mark.parametrize("of", ["user", "key"])
def test_requests_of_a_second(server: orcas.Server, control: Control, alice: dict[str, str], of: str) -> None:
    wire = wire_of(server, alice["AccessKeyId"], alice["SecretAccessKey"])
    named = {"UserName": "alice"} if of == "user" else {"AccessKeyId": alice["AccessKeyId"]}
    put_limits(server, **named, RequestsPerSecond=1)
    refused = until_refused(wire)
    assert (refused.status, refused.code, refused.headers["retry-after"]) == (503, "SlowDown", "1")
    assert wire_of(server)("GET", "/bucket").status == 200
    control.advance(seconds=1)
    assert wire("GET", "/bucket").status == 200
    other = server.client("iam").create_access_key(UserName="alice")["AccessKey"]
    second = wire_of(server, other["AccessKeyId"], other["SecretAccessKey"])
    until_refused(wire)
    # The limit of a user is that of its keys together.
    answers = [second("GET", "/bucket").status for _ in range(20)]
    assert (503 in answers) == (of == "user")
    put_limits(server, **named)
    assert [wire("GET", "/bucket").status for _ in range(5)] == [200] * 5


def assumed(server: orcas.Server, who: dict[str, str], role: str) -> dict[str, str]:
    """Credentials of a role for who has these, which may be temporary."""
    sts = server.client(
        "sts", aws_access_key_id=who["AccessKeyId"], aws_secret_access_key=who["SecretAccessKey"],
        aws_session_token=who.get("SessionToken"),
    )  # fmt: skip
    credentials: dict[str, str] = sts.assume_role(RoleArn=role, RoleSessionName="session")["Credentials"]
    return credentials


@pytest.mark.parametrize("of", ["user", "key"])
def test_a_session_of_a_role_has_no_more_than_who_assumed_it(
    server: orcas.Server, control: Control, alice: dict[str, str], of: str
) -> None:
    iam, full = server.client("iam"), "arn:aws:iam::aws:policy/AmazonS3FullAccess"
    account = server.client("sts").get_caller_identity()["Account"]
    principal = {"AWS": [account, f"arn:aws:iam::{account}:user/alice"]}
    trust = {"Statement": {"Effect": "Allow", "Principal": principal, "Action": "sts:AssumeRole"}}
    roles = [f"first-{of}", f"second-{of}"]
    for name in roles:
        iam.create_role(RoleName=name, AssumeRolePolicyDocument=json.dumps(trust))
        iam.attach_role_policy(RoleName=name, PolicyArn=full)
    assume = {"Statement": {"Effect": "Allow", "Action": "sts:AssumeRole", "Resource": "*"}}
    iam.put_role_policy(RoleName=roles[0], PolicyName="assume", PolicyDocument=json.dumps(assume))
    first, second = (f"arn:aws:iam::{account}:role/{name}" for name in roles)
    once = assumed(server, alice, first)
    sessions = {"one": once, "chained": assumed(server, once, second), "of root": assumed(server, root(server), first)}
    wires = {
        name: Wire(
            server.endpoint,
            Identity(it["AccessKeyId"], it["SecretAccessKey"], "us-east-1", session_token=it["SessionToken"]),
        )
        for name, it in sessions.items()
    }
    named = {"UserName": "alice"} if of == "user" else {"AccessKeyId": alice["AccessKeyId"]}
    put_limits(server, **named, RequestsPerSecond=1)
    for name in ("one", "chained"):
        assert until_refused(wires[name]).code == "SlowDown", name
        control.advance(seconds=1)
    assert [wires["of root"]("GET", "/bucket").status for _ in range(20)] == [200] * 20
    put_limits(server, **named)
    assert [wires["chained"]("GET", "/bucket").status for _ in range(5)] == [200] * 5


def root(server: orcas.Server) -> dict[str, str]:
    return {"AccessKeyId": server.access_key, "SecretAccessKey": server.secret_key}


def test_bytes_of_a_second(server: orcas.Server, control: Control, alice: dict[str, str]) -> None:
    wire = wire_of(server, alice["AccessKeyId"], alice["SecretAccessKey"])
    put_limits(server, UserName="alice", BytesPerSecond=100)
    assert len(wire("GET", "/bucket/large").body) == LARGE
    refused = wire("GET", "/bucket")
    assert refused.code == "SlowDown"
    assert LARGE // 100 - 60 < int(refused.headers["retry-after"]) <= LARGE // 100
    control.advance(seconds=LARGE // 100)
    # A body counts when it is announced, also of a request that is refused then.
    assert wire("PUT", "/bucket/mine", body=b"x" * LARGE).status == 200
    assert wire("GET", "/bucket").code == "SlowDown"
    put_limits(server, UserName="alice")
    assert wire("GET", "/bucket").status == 200
