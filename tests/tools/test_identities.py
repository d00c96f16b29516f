"""The commands for identities, on a running server and on a store without one."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest
from botocore.exceptions import ClientError
from tests.fixtures.commands import command, ran
from tests.fixtures.targets import Target

from orcas.settings.config import child_environment

Serve = Callable[..., AbstractContextManager[Target]]
READ = json.dumps({
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::photos/*"}],
})  # fmt: skip


@pytest.fixture
def store(serve: Serve, data: Path) -> Iterator[Path]:
    """A store with a running server."""
    with serve():
        yield data


def orcas(data: Path, *words: str, code: int = 0) -> str:
    return command(*words, "--data", data, code=code)


def asked(data: Path, *words: str) -> Any:
    return json.loads(orcas(data, *words, "--json"))


def test_users_groups_keys_and_policies(store: Path, tmp_path: Path) -> None:
    document = tmp_path / "read.json"
    document.write_text(READ)
    orcas(store, "policy", "create", "read", str(document))
    orcas(store, "group", "create", "readers", "--policy", "read")
    key = asked(store, "user", "create", "alice", "--group", "readers", "--tag", "a=b", "--key", "--boundary", "read")[
        "AccessKey"
    ]
    assert key["UserName"] == "alice"
    shown = asked(store, "user", "show", "alice")["User"]
    assert (shown["UserName"], shown["Tags"]) == ("alice", [{"Key": "a", "Value": "b"}])
    assert [group["GroupName"] for group in shown["Groups"]] == ["readers"]
    assert [(each["AccessKeyId"], each["Status"]) for each in shown["AccessKeyMetadata"]] == [
        (key["AccessKeyId"], "Active")
    ]
    said = orcas(store, "user", "show", "alice")
    assert f"Groups: readers\nAccess keys: {key['AccessKeyId']} (active)\n" in said
    assert "\nTags: a=b\n" in said
    assert [user["UserName"] for user in asked(store, "group", "show", "readers")["Group"]["Users"]] == ["alice"]
    orcas(store, "user", "attach", "alice", "AmazonS3ReadOnlyAccess")
    assert "Policies: AmazonS3ReadOnlyAccess" in orcas(store, "user", "show", "alice")
    orcas(store, "user", "detach", "alice", "AmazonS3ReadOnlyAccess")
    assert "at most 5 requests and 1000 bytes a second" in orcas(
        store, "user", "limit", "alice", "--requests-per-sec", "5", "--bytes-per-sec", "1000"
    )
    limits = asked(store, "user", "show", "alice")["User"]["Limits"]
    assert (limits["RequestsPerSecond"], limits["BytesPerSecond"]) == (5, 1000)
    assert "no limits" in orcas(store, "user", "limit", "alice")
    limited = asked(store, "access-key", "limit", key["AccessKeyId"], "--requests-per-sec", "9")
    assert (limited["AccessKeyId"], limited["Limits"]["RequestsPerSecond"]) == (key["AccessKeyId"], 9)
    assert "Requests a second" not in orcas(store, "user", "show", "alice")
    orcas(store, "access-key", "disable", key["AccessKeyId"])
    assert "inactive" in orcas(store, "access-key", "list", "alice")
    orcas(store, "access-key", "enable", key["AccessKeyId"])
    other = asked(store, "access-key", "rotate", "alice")["AccessKey"]
    assert "quota for AccessKeysPerUser: 2" in orcas(store, "access-key", "create", "alice", code=1)
    narrow = asked(store, "access-key", "create", "alice", "--policy", str(document))["AccessKey"]["AccessKeyId"]
    kinds = {
        each["AccessKeyId"]: each["ServiceAccount"]
        for each in asked(store, "access-key", "list", "alice")["AccessKeyMetadata"]
    }
    assert kinds == {key["AccessKeyId"]: False, other["AccessKeyId"]: False, narrow: True}
    assert re.search(rf"{narrow} +service account +active", orcas(store, "access-key", "list", "alice"))
    assert f"{narrow} (active, service account)" in orcas(store, "user", "show", "alice")
    orcas(store, "access-key", "delete", other["AccessKeyId"])
    said = ran(child_environment(), "/", "access-key", "rotate", "alice", "--data", str(store)).stderr
    assert f"orcas access-key delete {key['AccessKeyId']}\n" in said
    assert narrow not in said
    document.write_text(json.dumps(json.loads(READ.replace("photos", "pictures")), indent=2))
    for version in range(2, 8):
        assert asked(store, "policy", "update", "read", str(document))["PolicyVersion"]["VersionId"] == f"v{version}"
    assert orcas(store, "policy", "show", "read") == document.read_text() + "\n"
    said = orcas(store, "user", "delete", "alice", code=1)
    assert "must delete access keys first): add --force" in said
    orcas(store, "user", "delete", "alice", "--force")
    orcas(store, "group", "delete", "readers", "--force")
    orcas(store, "policy", "delete", "read")
    assert asked(store, "user", "list")["Users"] == asked(store, "group", "list")["Groups"] == []
    assert "There is no policy read" in orcas(store, "policy", "show", "read", code=1)


def test_a_store_without_a_server(serve: Serve, data: Path) -> None:
    with serve():
        pass
    key = asked(data, "user", "create", "alice", "--policy", "AmazonS3ReadOnlyAccess", "--key")["AccessKey"]
    orcas(data, "access-key", "disable", key["AccessKeyId"])
    orcas(data, "access-key", "enable", key["AccessKeyId"])
    with serve() as target:
        assert asked(data, "user", "show", "alice")["User"]["AttachedPolicies"] == [
            {"PolicyName": "AmazonS3ReadOnlyAccess", "PolicyArn": "arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"}
        ]
        keys = {"aws_access_key_id": key["AccessKeyId"], "aws_secret_access_key": key["SecretAccessKey"]}
        with pytest.raises(ClientError, match="AccessDenied"):
            target.server.client(**keys).create_bucket(Bucket="anything")


def test_roles(store: Path, tmp_path: Path) -> None:
    trust = tmp_path / "trust.json"
    statement = {"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}
    trust.write_text(json.dumps({"Version": "2012-10-17", "Statement": [statement]}, indent=2))
    orcas(store, "role", "create", "worker", "--trust", str(trust), "--policy", "AmazonS3FullAccess")
    shown = asked(store, "role", "show", "worker")["Role"]
    assert shown["AssumeRolePolicyDocument"]["Statement"] == [statement]
    assert [policy["PolicyName"] for policy in shown["AttachedPolicies"]] == ["AmazonS3FullAccess"]
    (line,) = re.findall("^Trust: (.*)$", orcas(store, "role", "show", "worker"), re.MULTILINE)
    assert json.loads(line)["Statement"] == [statement]
    orcas(store, "role", "delete", "worker", "--force")


def test_accounts(serve: Serve, data: Path) -> None:
    with serve() as target:
        key = asked(data, "account", "create", "research", "--key")["AccessKey"]
        number = {each["AccountName"]: each["AccountId"] for each in asked(data, "account", "list")["Accounts"]}[
            "research"
        ]
        orcas(data, "user", "create", "alice", "--account", number)
        assert asked(data, "user", "list") == {"Users": []}
        assert len(asked(data, "user", "list", "--account", number)["Users"]) == 1
        keys = {"aws_access_key_id": key["AccessKeyId"], "aws_secret_access_key": key["SecretAccessKey"]}
        with contextlib.closing(target.server.client("iam", **keys)) as iam:
            assert iam.get_user()["User"]["Arn"] == f"arn:aws:iam::{number}:root"
            assert [user["UserName"] for user in iam.list_users()["Users"]] == ["alice"]


def test_root_gets_another_key(serve: Serve, data: Path) -> None:
    with serve() as target:
        s3 = target.client()
        rotated = asked(data, "access-key", "rotate-root", "--yes")
        said = rotated["AccessKey"]
        with pytest.raises(ClientError, match="InvalidAccessKeyId"):
            s3.list_buckets()
        assert asked(data, "user", "list") == {"Users": []}
    assert not rotated["WasSetByOperator"]
    assert "replaced" not in command("env", "--data", data, "--port", "1")
    assert said["SecretAccessKey"] in command("env", "--data", data, "--port", "1")
    stopped = asked(data, "access-key", "rotate-root", "--yes")["AccessKey"]
    with serve() as target:
        assert target.server.access_key == stopped["AccessKeyId"] != said["AccessKeyId"]
    assert "needs a confirmation" in command("access-key", "rotate-root", "--data", data, code=2)


def test_mistakes_are_one_sentence(store: Path, tmp_path: Path) -> None:
    (tmp_path / "bad.json").write_text("{")
    for words, code, says in (
        (("user", "show", "bob"), 1, "The user with name bob cannot be found."),
        (("user", "create", "a b"), 1, "must contain only alphanumeric"),
        (("user", "create", "bob", "--tag", "x"), 2, "--tag must be KEY=VALUE"),
        (("user", "attach", "bob", "none"), 1, "There is no policy none"),
        (("policy", "create", "p", str(tmp_path / "none.json")), 78, "cannot be read"),
        (("policy", "create", "p", str(tmp_path / "bad.json")), 1, "This policy contains invalid Json"),
        (("user", "list", "--account", "1"), 1, "The account with name 1 cannot be found"),
        (("policy", "explain", "alien/x", "s3:GetObject", "b"), 2, "role/NAME or group/NAME"),
    ):
        said = orcas(store, *words, code=code)
        assert says in said
        assert re.fullmatch(r"orcas: .*\n", said) or said.count("\n") <= 1, said


def test_explanations_of_users_and_of_their_keys(store: Path, tmp_path: Path) -> None:
    document = tmp_path / "read.json"
    document.write_text(READ)
    orcas(store, "user", "create", "alice", "--policy", "AmazonS3ReadOnlyAccess")
    plain = asked(store, "access-key", "create", "alice")["AccessKey"]["AccessKeyId"]
    narrow = asked(store, "access-key", "create", "alice", "--policy", str(document))["AccessKey"]["AccessKeyId"]
    for who, resource, code in (
        ("alice", "pictures/a", 0),
        (plain, "pictures/a", 0),
        (narrow, "photos/a", 0),
        (narrow, "pictures/a", 3),
        ("alice", "photos/a", 0),
    ):
        said = orcas(store, "policy", "explain", who, "s3:GetObject", resource, code=code)
        assert ("not allowed" in said) == (code == 3), said
    assert "not allowed" in orcas(store, "policy", "explain", narrow, "s3:PutObject", "photos/a", code=3)
    answer = json.loads(orcas(store, "policy", "explain", "alice", "s3:PutObject", "photos/a", "--json", code=3))
    assert answer["EvalDecision"] == "implicitDeny"
    for nobody in ("bob", "AKIANOBODY"):
        said = orcas(store, "policy", "explain", nobody, "s3:GetObject", "photos/a", code=1)
        assert f"The user with name {nobody} cannot be found" in said


def test_explanations_have_the_policy_of_the_bucket(serve: Serve, data: Path, tmp_path: Path) -> None:
    deny = {"Effect": "Deny", "Principal": "*", "Action": "s3:DeleteObject", "Resource": "arn:aws:s3:::photos/*"}
    allow = {
        "Effect": "Allow",
        "Principal": {"AWS": "*"},
        "Action": "s3:GetObject",
        "Resource": "arn:aws:s3:::photos/*",
    }
    asks = ("policy", "explain", "alice")
    with serve() as target:
        s3 = target.client()
        for bucket in ("photos", "plain"):
            s3.create_bucket(Bucket=bucket)
        s3.put_bucket_policy(Bucket="photos", Policy=json.dumps({"Version": "2012-10-17", "Statement": [deny]}))
        orcas(data, "user", "create", "alice", "--policy", "AmazonS3FullAccess")
        said = orcas(data, *asks, "s3:DeleteObject", "photos/a", code=3)
        assert said == "denied by a statement, by bucket policy statement 1\n"
        for resource in ("photos", "plain/a", "none/a", "*"):
            assert orcas(data, *asks, "s3:DeleteObject", resource).startswith("allowed")
        account = asked(data, "account", "list")["Accounts"][0]["AccountId"]
        root = asked(data, "account", "create", "research", "--key")["AccessKey"]
        keys = {"aws_access_key_id": root["AccessKeyId"], "aws_secret_access_key": root["SecretAccessKey"]}
        with contextlib.closing(target.server.client(**keys)) as other:
            other.create_bucket(Bucket="theirs")
        # Both accounts must allow what crosses them.
        assert "not allowed" in orcas(data, *asks, "s3:GetObject", "theirs/a", code=3)
        statement = allow | {"Resource": "arn:aws:s3:::theirs/*", "Principal": {"AWS": f"arn:aws:iam::{account}:root"}}
        s3.put_bucket_policy(Bucket="theirs", Policy=json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
        assert orcas(data, *asks, "s3:GetObject", "theirs/a").startswith("allowed")
    # Nor does it need a server, and another policy can be tried.
    orcas(data, *asks, "s3:DeleteObject", "photos/a", code=3)
    document = tmp_path / "allow.json"
    document.write_text(json.dumps({"Version": "2012-10-17", "Statement": [allow]}))
    said = orcas(data, *asks, "s3:DeleteObject", "photos/a", "--bucket-policy", str(document))
    assert said.startswith("allowed")


def test_checks_say_where_and_what_else_it_may_be(tmp_path: Path) -> None:
    document = tmp_path / "policy.json"

    def checked(statement: dict[str, Any], code: int, *words: str) -> str:
        document.write_text(json.dumps({"Version": "2012-10-17", "Statement": [statement]}))
        return command("policy", "check", document, *words, code=code)

    document.write_text('{\n "Version": "2012-10-17",\n "Statement": [}\n')
    assert "is not valid: Expecting value: line 3 column 16" in command("policy", "check", document, code=78)
    trust = {"Effect": "Allow", "Principal": {"AWS": "111122223333"}, "Action": "sts:AssumeRole"}
    assert "specify a principal; check it with --kind trust." in checked(trust, 78)
    assert checked(trust, 0, "--kind", "trust") == "valid\n"
    public = {**trust, "Action": "s3:GetObject", "Resource": "arn:aws:s3:::b/*"}
    assert "check it with --kind bucket." in checked(public, 78)
    assert "correct it." in checked({"Effect": "Allow", "Action": "nothing", "Resource": "*"}, 78)
    everything = checked({"Effect": "Allow", "Action": "*", "Resource": "*"}, 0)
    assert everything == "Statement 1 allows everything, also to create users and to change policies.\n"


def test_the_trust_in_an_account_that_is_not_there_is_told(store: Path, tmp_path: Path) -> None:
    own = asked(store, "account", "list")["Accounts"][0]["AccountId"]
    trust = tmp_path / "trust.json"

    def said(name: str, *principals: str) -> str:
        statement = {"Effect": "Allow", "Principal": {"AWS": [*principals]}, "Action": "sts:AssumeRole"}
        trust.write_text(json.dumps({"Version": "2012-10-17", "Statement": statement}))
        done = ran(child_environment(), "/", "role", "create", name, "--trust", str(trust), "--data", str(store))
        assert done.returncode == 0, done
        return done.stderr

    assert "Account 111122223333 in" in said("one", own, "111122223333")
    assert "Account 111122223333 in" in said("two", "arn:aws:iam::111122223333:root")
    assert "Account" not in said("three", own, f"arn:aws:iam::{own}:root")


@contextmanager
def with_file(path: Path, serve: Serve) -> Iterator[Target]:
    with serve(identities_file=str(path)) as target:
        yield target


def test_a_file_of_identities_is_applied_at_every_start(serve: Serve, data: Path, tmp_path: Path) -> None:
    path = tmp_path / "identities.toml"
    path.write_text('[users.alice]\nkeys = [{ access_key = "alices-access-key", secret_key = "alices-secret" }]\n')
    with with_file(path, serve) as target:
        s3 = target.server.client(aws_access_key_id="alices-access-key", aws_secret_access_key="alices-secret")
        with pytest.raises(ClientError, match="AccessDenied"):
            s3.list_buckets()
    path.write_text("[users.alice]\npolicies = ['none']\n[users.bob]\n")
    with pytest.raises(Exception, match="There is no policy none"), with_file(path, serve), nullcontext():
        pass
    assert [user["UserName"] for user in asked(data, "user", "list")["Users"]] == ["alice"]
