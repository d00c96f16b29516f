"""Every operation is performed for who may: here a session of a role, with a policy that allows everything."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from tests.fixtures.operations import IMPLEMENTED, make_scene, send
from tests.fixtures.signing import Identity
from tests.fixtures.wire import Wire

import orcas

EVERYTHING = json.dumps({
    "Version": "2012-10-17", "Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}],
})  # fmt: skip


@pytest.fixture(scope="module")
def server() -> Iterator[orcas.Server]:
    with orcas.Server(memory=True) as server:
        yield server


@pytest.fixture(scope="module")
def session(server: orcas.Server) -> Identity:
    """Who has temporary credentials of a role."""
    iam = server.client("iam")
    user = iam.create_user(UserName="alice")["User"]["Arn"]
    key = iam.create_access_key(UserName="alice")["AccessKey"]
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"AWS": user}}
    document = json.dumps({"Version": "2012-10-17", "Statement": [trust]})
    role = iam.create_role(RoleName="ops", AssumeRolePolicyDocument=document)["Role"]["Arn"]
    iam.put_role_policy(RoleName="ops", PolicyName="own", PolicyDocument=EVERYTHING)
    iam.put_user_policy(UserName="alice", PolicyName="own", PolicyDocument=EVERYTHING)
    keys = {"aws_access_key_id": key["AccessKeyId"], "aws_secret_access_key": key["SecretAccessKey"]}
    made = server.client("sts", **keys).assume_role(RoleArn=role, RoleSessionName="night")["Credentials"]
    return Identity(made["AccessKeyId"], made["SecretAccessKey"], "us-east-1", session_token=made["SessionToken"])


def test_every_operation_is_performed(server: orcas.Server, session: Identity) -> None:
    wire, s3 = Wire(server.endpoint, session), server.client()
    s3.create_bucket(Bucket="read")
    read, refused = make_scene(s3, "read"), {}
    for name, call in IMPLEMENTED.items():
        scene = read
        if call.method not in {"GET", "HEAD"}:
            bucket = name.lower()
            s3.create_bucket(Bucket=bucket)
            scene = make_scene(s3, bucket)
        answer = send(wire, scene, call)
        if answer.status != call.succeeds:
            refused[name] = answer
    assert not refused
