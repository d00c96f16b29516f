"""What the logs say of decisions: which statement of which policy has decided, and that no answer says so."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.edge.test_access_log import Line, wait_for
from tests.fixtures.serving import Running, serving
from tests.fixtures.waiting import wait_until

READ = {"Sid": "Read", "Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::photos/*"}
KEEP = {"Sid": "Keep", "Effect": "Deny", "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::photos/kept/*"}
DELETE = {"Effect": "Allow", "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::photos/*"}
TAGGED = {
    "Sid": "Tagged", "Effect": "Allow", "Action": "s3:GetObjectVersion", "Resource": "arn:aws:s3:::photos/*",
    "Condition": {"StringEquals": {"s3:ExistingObjectTag/open": "yes"}},
}  # fmt: skip
USERS = {"Sid": "NoUsers", "Effect": "Deny", "Action": "iam:*User", "Resource": "*"}
HIDE = {
    "Sid": "Hide", "Effect": "Deny", "Principal": "*", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::photos/hidden",
}  # fmt: skip


def document(*statements: Any) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": statements})


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    path = tmp_path_factory.mktemp("decisions")
    with serving(path, level="info", form="json", ORCAS_ACCESS_LOG=str(path / "access.log")) as running:
        s3, iam = running.client(), running.client("iam")
        s3.create_bucket(Bucket="photos")
        for key in ("a.jpg", "hidden", "kept/b.jpg", "c.jpg"):
            s3.put_object(Bucket="photos", Key=key, Body=b"x", Tagging="open=yes" if key == "a.jpg" else "")
        s3.put_bucket_policy(Bucket="photos", Policy=document(HIDE))
        iam.create_user(UserName="alice")
        iam.put_user_policy(
            UserName="alice", PolicyName="own", PolicyDocument=document(READ, KEEP, DELETE, USERS, TAGGED)
        )
        yield running


@pytest.fixture(scope="module")
def alice(server: Running) -> Any:
    key = server.client("iam").create_access_key(UserName="alice")["AccessKey"]
    return server.client(aws_access_key_id=key["AccessKeyId"], aws_secret_access_key=key["SecretAccessKey"])


@pytest.fixture(scope="module")
def alice_iam(server: Running) -> Any:
    key = server.client("iam").create_access_key(UserName="alice")["AccessKey"]
    return server.client("iam", aws_access_key_id=key["AccessKeyId"], aws_secret_access_key=key["SecretAccessKey"])


def line_of(server: Running, request_id: str) -> Line:
    lines = wait_for(
        server.stderr.parent / "access.log", lambda lines: any(line["request_id"] == request_id for line in lines)
    )
    return next(line for line in lines if line["request_id"] == request_id)


def logged(server: Running, request_id: str) -> str:
    """What the log of the server says about a request."""
    assert wait_until(lambda: bool(server.about(request_id)))
    return json.dumps(server.about(request_id))


def refused(call: Any, **given: Any) -> tuple[str, str]:
    """The id of the request, and all that the client was told."""
    with pytest.raises(ClientError) as caught:
        call(**given)
    answer = caught.value.response
    assert answer["Error"]["Code"] == "AccessDenied"
    return answer["ResponseMetadata"]["RequestId"], json.dumps(answer)


def test_root_needs_no_statement(server: Running) -> None:
    answer = server.client().get_object(Bucket="photos", Key="a.jpg")
    line = line_of(server, answer["ResponseMetadata"]["RequestId"])
    assert (line["decided_by"], "decisions" in line) == ("root", False)


def test_the_statement_that_allows(server: Running, alice: Any) -> None:
    answer = alice.get_object(Bucket="photos", Key="a.jpg")
    line = line_of(server, answer["ResponseMetadata"]["RequestId"])
    assert line["principal"].endswith(":user/alice")
    (decision,) = line["decisions"]
    policy = decision.pop("policy")
    assert policy.startswith("AIDA")
    assert policy.endswith("/own")
    assert decision == {"action": "s3:GetObject", "decision": "allowed", "statement": 1, "sid": "Read"}
    assert "decided_by" not in line


def test_the_statement_that_denies(server: Running, alice: Any) -> None:
    request_id, told = refused(alice.delete_object, Bucket="photos", Key="kept/b.jpg")
    line = line_of(server, request_id)
    assert line["principal"].endswith(":user/alice")
    (decision,) = line["decisions"]
    assert (decision["decision"], decision["statement"], decision["sid"]) == ("denied", 2, "Keep")
    assert "Keep" not in told
    assert "statement" not in told
    said = logged(server, request_id)
    assert "statement 2 Keep of AIDA" in said
    assert "/own denies s3:DeleteObject" in said


@pytest.mark.parametrize(("key", "decision"), [("a.jpg", "allowed"), ("c.jpg", "denied")])
def test_what_a_worker_decides_is_noted_once(server: Running, alice: Any, key: str, decision: str) -> None:
    # What a version has for tags is never in memory.
    named = {"Bucket": "photos", "Key": key, "VersionId": "null"}
    if decision == "allowed":
        request_id = alice.get_object(**named)["ResponseMetadata"]["RequestId"]
    else:
        request_id, _ = refused(alice.get_object, **named)
    line = line_of(server, request_id)
    assert (line["operation"], line["key"]) == ("GetObject", key)
    (made,) = line["decisions"]
    assert (made["action"], made["decision"], made.get("count", 1)) == ("s3:GetObjectVersion", decision, 1)


def test_the_policy_of_a_bucket_denies(server: Running, alice: Any) -> None:
    request_id, told = refused(alice.get_object, Bucket="photos", Key="hidden")
    (decision,) = line_of(server, request_id)["decisions"]
    assert (decision["policy"], decision["sid"]) == ("the bucket policy", "Hide")
    assert "Hide" not in told
    assert "statement 1 Hide of the bucket policy denies s3:GetObject" in logged(server, request_id)


def test_nothing_allows(server: Running, alice: Any) -> None:
    request_id, _ = refused(alice.list_objects_v2, Bucket="photos")
    (decision,) = line_of(server, request_id)["decisions"]
    assert decision == {"action": "s3:ListBucket", "decision": "denied", "missing": "identity-based policy"}
    # What is missing looks like what is denied, and the log says why.
    request_id, _ = refused(alice.get_object, Bucket="photos", Key="missing")
    line = line_of(server, request_id)
    assert [each["decision"] for each in (*line["decisions"], *line["later_decisions"])] == ["allowed", "denied"]
    assert "no identity-based policy allows s3:ListBucket" in logged(server, request_id)


def test_entries_are_decided_one_by_one(server: Running, alice: Any) -> None:
    keys = [{"Key": key} for key in ("c.jpg", "kept/b.jpg", "kept/c.jpg")]
    answer = alice.delete_objects(Bucket="photos", Delete={"Objects": keys})
    assert [error["Key"] for error in answer["Errors"]] == ["kept/b.jpg", "kept/c.jpg"]
    decisions = line_of(server, answer["ResponseMetadata"]["RequestId"])["later_decisions"]
    shown = [(each["decision"], each["statement"], each.get("count", 1)) for each in decisions]
    assert shown == [("allowed", 3, 1), ("denied", 2, 2)]


def test_actions_of_iam(server: Running, alice_iam: Any) -> None:
    with pytest.raises(ClientError) as caught:
        alice_iam.create_user(UserName="bob")
    assert "statement" not in str(caught.value)
    assert wait_until(lambda: "statement 4 NoUsers of user alice: own" in server.text())


def test_requests_without_a_signature(server: Running) -> None:
    answer = server.wire("GET", "/photos/a.jpg", sign=False)
    assert answer.status == 403
    line = line_of(server, dict(answer.headers)["x-amz-request-id"])
    assert line["decisions"] == [{"action": "s3:GetObject", "decision": "denied", "missing": "resource-based policy"}]
    assert "principal" not in line
