"""IAM over HTTP: boto3, the aws command, signatures for the wrong service, and who may call what."""

from __future__ import annotations

import concurrent.futures
import json
import sys
import urllib.error
import urllib.request
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import httpx
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from botocore.config import Config
from botocore.credentials import Credentials
from botocore.exceptions import ClientError
from tests.fixtures.clients import Command, variables_of
from tests.fixtures.targets import Target

pytestmark = pytest.mark.conformance

READ = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::photos/*"}],
}
ONCE = Config(retries={"total_max_attempts": 1})


def client(target: Target, service: str = "iam", **options: Any) -> Any:
    return target.server.client(service, config=ONCE, **options)


@pytest.fixture
def iam(target: Target) -> Iterator[Any]:
    made = client(target)
    yield made
    made.close()


@pytest.fixture
def name() -> str:
    return f"u-{uuid.uuid4().hex[:12]}"


def code_of(call: Any, **given: Any) -> str:
    with pytest.raises(ClientError) as caught:
        call(**given)
    return str(caught.value.response["Error"]["Code"])


def as_user(target: Target, iam: Any, name: str, document: Any = None) -> dict[str, str]:
    """The options of a client of a new user."""
    iam.create_user(UserName=name)
    if document is not None:
        iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=json.dumps(document))
    key = iam.create_access_key(UserName=name)["AccessKey"]
    return {"aws_access_key_id": key["AccessKeyId"], "aws_secret_access_key": key["SecretAccessKey"]}


def test_a_user_comes_and_goes(iam: Any, name: str) -> None:
    made = iam.create_user(UserName=name, Path="/a/", Tags=[{"Key": "k", "Value": "ü v_.:/=+-@"}])["User"]
    assert iam.get_user(UserName=name)["User"] == made
    assert made["Tags"] == [{"Key": "k", "Value": "ü v_.:/=+-@"}]
    iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=json.dumps(READ))
    assert iam.get_user_policy(UserName=name, PolicyName="own")["PolicyDocument"] == READ
    iam.attach_user_policy(UserName=name, PolicyArn="arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess")
    assert code_of(iam.delete_user, UserName=name) == "DeleteConflict"
    iam.detach_user_policy(UserName=name, PolicyArn="arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess")
    iam.delete_user_policy(UserName=name, PolicyName="own")
    iam.delete_user(UserName=name)
    assert code_of(iam.get_user, UserName=name) == "NoSuchEntity"
    assert isinstance(iam.exceptions.NoSuchEntityException, type)


def test_lists_are_paged(iam: Any, name: str) -> None:
    for number in range(5):
        iam.create_group(GroupName=f"{name}-{number}")
    pages = iam.get_paginator("list_groups").paginate(PaginationConfig={"PageSize": 2})
    found = [group["GroupName"] for page in pages for group in page["Groups"]]
    assert [each for each in found if each.startswith(name)] == [f"{name}-{number}" for number in range(5)]


def test_a_key_counts_at_once(target: Target, iam: Any, name: str) -> None:
    """It may nothing yet, but it is known as soon as it is made, and unknown as soon as it is deleted."""
    keys = as_user(target, iam, name)
    s3 = client(target, "s3", **keys)
    assert code_of(s3.list_buckets) == "AccessDenied"
    for status, code in (("Inactive", "InvalidAccessKeyId"), ("Active", "AccessDenied")):
        iam.update_access_key(UserName=name, AccessKeyId=keys["aws_access_key_id"], Status=status)
        assert code_of(s3.list_buckets) == code
    iam.delete_access_key(UserName=name, AccessKeyId=keys["aws_access_key_id"])
    assert code_of(s3.list_buckets) == "InvalidAccessKeyId"
    assert code_of(client(target, **keys).get_user) == "InvalidClientTokenId"


def test_many_change_keys_at_a_time(target: Target, iam: Any, name: str) -> None:
    def change(number: int) -> str:
        keys = as_user(target, iam, f"{name}-{number}")
        iam.delete_access_key(UserName=f"{name}-{number}", AccessKeyId=keys["aws_access_key_id"])
        iam.delete_user(UserName=f"{name}-{number}")
        return code_of(client(target, "s3", **keys).list_buckets)

    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        assert set(pool.map(change, range(16))) == {"InvalidAccessKeyId"}


def test_a_user_without_policies_may_nothing(target: Target, iam: Any, name: str) -> None:
    mine = client(target, **as_user(target, iam, name))
    assert code_of(mine.get_user) == "AccessDenied"
    # What exists and what does not look alike.
    texts = []
    for other in (name, f"{name}-none"):
        with pytest.raises(ClientError) as caught:
            mine.get_user(UserName=other)
        said = caught.value.response["Error"]["Message"]
        texts.append(said.replace(f"resource: user {other} ", "resource: NAME "))
    assert len(set(texts)) == 1
    assert "is not authorized to perform: iam:GetUser on resource: NAME because no identity-based policy" in texts[0]


def posted(target: Target, body: bytes, service: str = "iam", **changed: Any) -> tuple[int, str]:
    """Status and body of a signed form."""
    server = target.server
    keys = Credentials(server.access_key, changed.get("secret", server.secret_key))
    headers = {"content-type": "application/x-www-form-urlencoded; charset=utf-8"}
    request = AWSRequest("POST", f"{server.endpoint}/", headers, body)
    if changed.get("signed", True):
        SigV4Auth(keys, service, changed.get("region", "eu-north-1")).add_auth(request)
    sent = changed.get("sent", body)
    asked = urllib.request.Request(request.url, sent, dict(request.headers.items()), method="POST")
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()


LIST = urlencode({"Action": "ListUsers", "Version": "2010-05-08"}).encode()


def test_any_region_may_be_signed(target: Target) -> None:
    for region in ("us-east-1", "eu-central-1", "aws-global"):
        assert posted(target, LIST, region=region)[0] == 200


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"service": "s3"}, "IncompleteSignature"),
        ({"service": "ec2"}, "NotImplemented"),
        # One for STS reaches no action of IAM, whatever version it says, and the other way round.
        ({"service": "sts"}, "InvalidAction"),
        ({"service": "sts", "body": b"Action=ListUsers&Version=2011-06-15"}, "InvalidAction"),
        ({"body": b"Action=GetCallerIdentity&Version=2010-05-08"}, "InvalidAction"),
        ({"secret": "not the secret"}, "SignatureDoesNotMatch"),
        ({"sent": LIST + b"&MaxItems=1"}, "SignatureDoesNotMatch"),
        ({"signed": False}, "MissingAuthenticationToken"),
        ({"body": b"Action=ListUsers"}, "InvalidAction"),
        ({"body": b"Action=ListUsers&Version=2011-06-15"}, "InvalidAction"),
        ({"body": b"Action=CreateAccount&Version=2010-05-08"}, "ValidationError"),
        ({"body": b"Action=Format&Version=2010-05-08"}, "InvalidAction"),
        ({"body": b"Version=2010-05-08"}, "MissingAction"),
        ({"body": b"Action"}, "MalformedQueryString"),
        ({"body": b"Action=" + b"a" * 300_000}, "RequestEntityTooLarge"),
    ],
)
def test_other_requests_are_refused(target: Target, options: dict[str, Any], code: str) -> None:
    status, text = posted(target, options.pop("body", LIST), **options)
    assert status >= 400
    assert f"<Code>{code}</Code>" in text
    assert target.server.secret_key not in text


def test_a_signature_for_iam_reaches_nothing_else(target: Target) -> None:
    server = target.server
    for path in ("/", "/_orcas/admin/stats"):
        request = AWSRequest("GET", server.endpoint + path, {"x-amz-content-sha256": "UNSIGNED-PAYLOAD"})
        SigV4Auth(Credentials(server.access_key, server.secret_key), "iam", "us-east-1").add_auth(request)
        asked = urllib.request.Request(request.url, headers=dict(request.headers.items()))
        with pytest.raises(urllib.error.HTTPError) as caught:
            urllib.request.build_opener(urllib.request.ProxyHandler({})).open(asked)
        assert caught.value.code in {400, 403}
        assert "incorrect service" in caught.value.read().decode()


def test_the_aws_command(target: Target, tmp_path: Path, name: str) -> None:
    aws = Command((sys.executable, "-m", "awscli"), tmp_path, variables_of(target))
    (tmp_path / "read.json").write_text(json.dumps(READ))
    policy = json.loads(
        aws.text("iam", "create-policy", "--policy-name", name, "--policy-document", "file://read.json")
    )["Policy"]  # fmt: skip
    assert policy["Arn"].endswith(f":policy/{name}")
    assert "NoSuchEntity" in aws.failure("iam", "get-user", "--user-name", f"{name}-none")


def test_policies_count_at_once(target: Target, iam: Any, name: str) -> None:
    root = client(target, "s3")
    root.create_bucket(Bucket=name)
    root.put_object(Bucket=name, Key="a", Body=b"content")
    keys = as_user(target, iam, name)
    s3 = client(target, "s3", **keys)

    def may(action: str) -> bool:
        try:
            getattr(s3, action)(Bucket=name, Key="a")
        except ClientError as error:
            assert error.response["Error"]["Code"] == "AccessDenied" or error.response["Error"]["Code"] == "403"
            return False
        return True

    allowed = {"Effect": "Allow", "Action": "s3:*", "Resource": [f"arn:aws:s3:::{name}", f"arn:aws:s3:::{name}/*"]}
    document = json.dumps({"Version": "2012-10-17", "Statement": [allowed]})
    denied = document.replace("Allow", "Deny").replace("s3:*", "s3:PutObject")
    policy = iam.create_policy(PolicyName=name, PolicyDocument=document)["Policy"]["Arn"]
    iam.create_group(GroupName=name)
    iam.attach_group_policy(GroupName=name, PolicyArn=policy)
    assert not may("get_object")
    iam.add_user_to_group(GroupName=name, UserName=name)
    assert may("get_object")
    assert may("put_object")
    iam.put_user_policy(UserName=name, PolicyName="own", PolicyDocument=denied)
    assert may("get_object")
    assert not may("put_object")
    iam.delete_user_policy(UserName=name, PolicyName="own")
    assert may("put_object")
    iam.put_user_permissions_boundary(
        UserName=name, PermissionsBoundary="arn:aws:iam::aws:policy/AmazonS3ReadOnlyAccess"
    )
    assert may("get_object")
    assert not may("put_object")
    iam.delete_user_permissions_boundary(UserName=name)
    iam.update_user(UserName=name, NewUserName=f"{name}-new")
    assert may("put_object")
    version = iam.create_policy_version(
        PolicyArn=policy, PolicyDocument=document.replace("s3:*", "s3:GetObject"), SetAsDefault=True
    )["PolicyVersion"]["VersionId"]
    assert version == "v2"
    assert may("get_object")
    assert not may("put_object")
    iam.remove_user_from_group(GroupName=name, UserName=f"{name}-new")
    assert not may("get_object")
    # It belongs to the account, whoever made it.
    assert root.get_object(Bucket=name, Key="a")["Body"].read() == b""


def test_when_a_key_was_used_is_known(target: Target, iam: Any, name: str) -> None:
    keys = as_user(target, iam, name)
    asked = {"AccessKeyId": keys["aws_access_key_id"]}
    assert "LastUsedDate" not in iam.get_access_key_last_used(**asked)["AccessKeyLastUsed"]
    assert code_of(client(target, "s3", **keys).list_buckets) == "AccessDenied"
    used = iam.get_access_key_last_used(**asked)
    assert used["UserName"] == name
    assert used["AccessKeyLastUsed"]["ServiceName"] == "s3"
    assert "LastUsedDate" in used["AccessKeyLastUsed"]


def test_a_form_is_a_use_of_the_key_that_has_signed_it(target: Target, iam: Any, name: str) -> None:
    keys = as_user(target, iam, name)
    form = client(target, "s3", **keys).generate_presigned_post(name, "k")
    assert httpx.post(form["url"], data=form["fields"], files={"file": b"content"}).status_code in (403, 404)
    used = iam.get_access_key_last_used(AccessKeyId=keys["aws_access_key_id"])
    assert "LastUsedDate" in used["AccessKeyLastUsed"]
