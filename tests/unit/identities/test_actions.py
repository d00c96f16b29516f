"""Every action of IAM: its answer has the form that AWS describes, and what it did can be read."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from urllib.parse import unquote

import pytest
from tests.fixtures.iam.directory import Iam, iam_of

from orcas.control.identities.failures import IamError
from orcas.control.identities.registry import ACTIONS

READ = json.dumps({
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "s3:GetObject", "Resource": "arn:aws:s3:::photos/*"}],
})  # fmt: skip
TRUST = json.dumps({
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Principal": {"Service": "ec2.amazonaws.com"}, "Action": "sts:AssumeRole"}],
})  # fmt: skip
FULL = "arn:aws:iam::aws:policy/AmazonS3FullAccess"


@pytest.fixture
async def iam(tmp_path: Path) -> AsyncIterator[Iam]:
    async with iam_of(tmp_path) as opened:
        yield opened


async def test_users(iam: Iam) -> None:
    tags = [{"Key": "team", "Value": "red"}]
    user = (await iam.call("CreateUser", UserName="alice", Path="/people/", Tags=tags))["User"]
    assert user["Arn"] == f"arn:aws:iam::{iam.number}:user/people/alice"
    assert user["UserId"].startswith("AIDA")
    assert user["Tags"] == tags
    assert (await iam.call("GetUser", UserName="alice"))["User"] == user
    assert "already exists" in await iam.refused("CreateUser", "EntityAlreadyExists", UserName="Alice")
    assert (await iam.call("GetUser", UserName="ALICE"))["User"] == user
    await iam.call("UpdateUser", UserName="alice", NewUserName="Alice", NewPath="/")
    assert [each["UserName"] for each in (await iam.call("ListUsers"))["Users"]] == ["Alice"]
    assert (await iam.call("ListUsers", PathPrefix="/people/"))["Users"] == []
    await iam.call("TagUser", UserName="Alice", Tags=[{"Key": "TEAM", "Value": "blue"}, {"Key": "age", "Value": ""}])
    listed = (await iam.call("ListUserTags", UserName="Alice"))["Tags"]
    assert listed == [{"Key": "age", "Value": ""}, {"Key": "TEAM", "Value": "blue"}]
    await iam.call("UntagUser", UserName="Alice", TagKeys=["team", "none"])
    await iam.call("DeleteUser", UserName="Alice")
    await iam.refused("DeleteUser", "NoSuchEntity", UserName="Alice")
    # Its id is shorter than AWS's description says, also on AWS.
    root = (await iam.identities.perform("GetUser", {}))["User"]
    assert (root["Arn"], root["UserId"]) == (f"arn:aws:iam::{iam.number}:root", iam.number)


async def test_groups(iam: Iam) -> None:
    await iam.call("CreateGroup", GroupName="readers")
    for name in ("bob", "alice"):
        await iam.call("CreateUser", UserName=name)
        await iam.call("AddUserToGroup", GroupName="readers", UserName=name)
    group = await iam.call("GetGroup", GroupName="readers")
    assert [user["UserName"] for user in group["Users"]] == ["alice", "bob"]
    await iam.refused("DeleteGroup", "DeleteConflict", GroupName="readers")
    await iam.refused("DeleteUser", "DeleteConflict", UserName="bob")
    assert [each["GroupName"] for each in (await iam.call("ListGroupsForUser", UserName="bob"))["Groups"]] == [
        "readers"
    ]
    await iam.call("UpdateGroup", GroupName="readers", NewGroupName="all")
    for name in ("bob", "alice"):
        await iam.call("RemoveUserFromGroup", GroupName="all", UserName=name)
    await iam.refused("RemoveUserFromGroup", "NoSuchEntity", GroupName="all", UserName="bob")
    assert len((await iam.call("ListGroups"))["Groups"]) == 1
    await iam.call("DeleteGroup", GroupName="all")


async def test_a_user_is_in_ten_groups_at_most(iam: Iam) -> None:
    await iam.call("CreateUser", UserName="alice")
    for number in range(11):
        await iam.call("CreateGroup", GroupName=f"g{number}")
    for number in range(10):
        await iam.call("AddUserToGroup", GroupName=f"g{number}", UserName="alice")
    await iam.call("AddUserToGroup", GroupName="g9", UserName="alice")
    assert "10" in await iam.refused("AddUserToGroup", "LimitExceeded", GroupName="g10", UserName="alice")


async def test_roles(iam: Iam) -> None:
    made = await iam.call("CreateRole", RoleName="r", AssumeRolePolicyDocument=TRUST, MaxSessionDuration="7200")
    assert json.loads(unquote(made["Role"]["AssumeRolePolicyDocument"])) == json.loads(TRUST)
    assert made["Role"]["MaxSessionDuration"] == 7200
    await iam.call("UpdateRole", RoleName="r", Description="what for")
    assert (await iam.call("GetRole", RoleName="r"))["Role"]["Description"] == "what for"
    await iam.call("UpdateRoleDescription", RoleName="r", Description="else")
    other = TRUST.replace("ec2", "lambda")
    await iam.call("UpdateAssumeRolePolicy", RoleName="r", PolicyDocument=other)
    (listed,) = (await iam.call("ListRoles"))["Roles"]
    assert unquote(listed["AssumeRolePolicyDocument"]) == other
    assert listed["MaxSessionDuration"] == 7200
    await iam.call("TagRole", RoleName="r", Tags=[{"Key": "a", "Value": "b"}])
    await iam.call("ListRoleTags", RoleName="r")
    await iam.call("UntagRole", RoleName="r", TagKeys=["a"])
    assert (await iam.call("ListInstanceProfilesForRole", RoleName="r"))["InstanceProfiles"] == []
    assert (await iam.call("GetRole", RoleName="R"))["Role"]["RoleName"] == "r"
    await iam.call("DeleteRole", RoleName="r")
    await iam.refused(
        "CreateRole", "ValidationError", RoleName="r", AssumeRolePolicyDocument=TRUST, MaxSessionDuration=1
    )


async def test_access_keys(iam: Iam) -> None:
    await iam.call("CreateUser", UserName="alice")
    first, second = [(await iam.call("CreateAccessKey", UserName="alice"))["AccessKey"] for _ in range(2)]
    assert first["SecretAccessKey"] != second["SecretAccessKey"]
    await iam.refused("CreateAccessKey", "LimitExceeded", UserName="alice")
    await iam.call("UpdateAccessKey", UserName="alice", AccessKeyId=first["AccessKeyId"], Status="Inactive")
    listed = (await iam.call("ListAccessKeys", UserName="alice"))["AccessKeyMetadata"]
    assert {each["AccessKeyId"]: each["Status"] for each in listed} == {
        first["AccessKeyId"]: "Inactive", second["AccessKeyId"]: "Active",
    }  # fmt: skip
    used = await iam.call("GetAccessKeyLastUsed", AccessKeyId=first["AccessKeyId"])
    assert used["AccessKeyLastUsed"] == {"ServiceName": "N/A", "Region": "N/A"}
    await iam.refused("DeleteUser", "DeleteConflict", UserName="alice")
    await iam.call("CreateUser", UserName="bob")
    await iam.refused("DeleteAccessKey", "NoSuchEntity", UserName="bob", AccessKeyId=first["AccessKeyId"])
    for key in (first, second):
        await iam.call("DeleteAccessKey", UserName="alice", AccessKeyId=key["AccessKeyId"])
    await iam.call("DeleteUser", UserName="alice")
    stored = b"".join(path.read_bytes() for path in iam.directory.rglob("*.*"))
    assert second["SecretAccessKey"].encode() not in stored


async def test_managed_policies(iam: Iam) -> None:
    made = (await iam.call("CreatePolicy", PolicyName="p", PolicyDocument=READ, Description="reads"))["Policy"]
    arn = made["Arn"]
    assert made["DefaultVersionId"] == "v1"
    await iam.refused("CreatePolicy", "EntityAlreadyExists", PolicyName="P", PolicyDocument=READ)
    for number in range(2, 6):
        other = READ.replace("photos", f"photos{number}")
        version = await iam.call("CreatePolicyVersion", PolicyArn=arn, PolicyDocument=other, SetAsDefault=number == 3)
        assert version["PolicyVersion"]["VersionId"] == f"v{number}"
    await iam.refused("CreatePolicyVersion", "LimitExceeded", PolicyArn=arn, PolicyDocument=READ)
    versions = (await iam.call("ListPolicyVersions", PolicyArn=arn))["Versions"]
    assert [(each["VersionId"], each["IsDefaultVersion"]) for each in versions] == [
        ("v5", False), ("v4", False), ("v3", True), ("v2", False), ("v1", False),
    ]  # fmt: skip
    await iam.refused("DeletePolicyVersion", "DeleteConflict", PolicyArn=arn, VersionId="v3")
    await iam.refused("DeletePolicy", "DeleteConflict", PolicyArn=arn)
    await iam.call("SetDefaultPolicyVersion", PolicyArn=arn, VersionId="v1")
    shown = (await iam.call("GetPolicyVersion", PolicyArn=arn, VersionId="v1"))["PolicyVersion"]
    assert unquote(shown["Document"]) == READ
    for number in range(2, 6):
        await iam.call("DeletePolicyVersion", PolicyArn=arn, VersionId=f"v{number}")
    again = await iam.call("CreatePolicyVersion", PolicyArn=arn, PolicyDocument=READ)
    assert again["PolicyVersion"]["VersionId"] == "v6"
    await iam.call("DeletePolicyVersion", PolicyArn=arn, VersionId="v6")
    await iam.call("TagPolicy", PolicyArn=arn, Tags=[{"Key": "a", "Value": "b"}])
    assert (await iam.call("GetPolicy", PolicyArn=arn))["Policy"]["Tags"] == [{"Key": "a", "Value": "b"}]
    await iam.call("ListPolicyTags", PolicyArn=arn)
    await iam.call("UntagPolicy", PolicyArn=arn, TagKeys=["a"])
    await iam.call("DeletePolicy", PolicyArn=arn)
    await iam.refused("GetPolicy", "NoSuchEntity", PolicyArn=arn)
    await iam.refused("GetPolicy", "InvalidInput", PolicyArn="p")
    await iam.refused("DeletePolicy", "AccessDenied", PolicyArn=FULL)


@pytest.mark.parametrize("kind", ["User", "Group", "Role"])
async def test_attachments_and_inline_policies(iam: Iam, kind: str) -> None:
    given = {"AssumeRolePolicyDocument": TRUST} if kind == "Role" else {}
    named = {f"{kind}Name": "x"}
    await iam.call(f"Create{kind}", **named, **given)
    arn = (await iam.call("CreatePolicy", PolicyName="p", PolicyDocument=READ, Path="/a/b/"))["Policy"]["Arn"]
    for policy in (arn, FULL, FULL):
        await iam.call(f"Attach{kind}Policy", **named, PolicyArn=policy)
    attached = (await iam.call(f"ListAttached{kind}Policies", **named))["AttachedPolicies"]
    assert attached == [
        {"PolicyName": "p", "PolicyArn": arn}, {"PolicyName": "AmazonS3FullAccess", "PolicyArn": FULL},
    ]  # fmt: skip
    assert (await iam.call("GetPolicy", PolicyArn=FULL))["Policy"]["AttachmentCount"] == 1
    entities = await iam.call("ListEntitiesForPolicy", PolicyArn=arn)
    assert [each[f"{kind}Name"] for each in entities[f"Policy{kind}s"]] == ["x"]
    await iam.refused("DeletePolicy", "DeleteConflict", PolicyArn=arn)
    await iam.refused(f"Delete{kind}", "DeleteConflict", **named)
    await iam.call(f"Detach{kind}Policy", **named, PolicyArn=arn)
    await iam.refused(f"Detach{kind}Policy", "NoSuchEntity", **named, PolicyArn=arn)
    await iam.call(f"Detach{kind}Policy", **named, PolicyArn=FULL)
    await iam.refused(f"Attach{kind}Policy", "NoSuchEntity", **named, PolicyArn=FULL + "s")
    await iam.call(f"Put{kind}Policy", **named, PolicyName="inline", PolicyDocument=READ)
    shown = await iam.call(f"Get{kind}Policy", **named, PolicyName="inline")
    assert unquote(shown["PolicyDocument"]) == READ
    assert (await iam.call(f"List{kind}Policies", **named))["PolicyNames"] == ["inline"]
    await iam.refused(f"Delete{kind}", "DeleteConflict", **named)
    await iam.call(f"Delete{kind}Policy", **named, PolicyName="inline")
    await iam.refused(f"Get{kind}Policy", "NoSuchEntity", **named, PolicyName="inline")
    await iam.call(f"Delete{kind}", **named)


@pytest.mark.parametrize("kind", ["User", "Role"])
async def test_boundaries(iam: Iam, kind: str) -> None:
    given = {"AssumeRolePolicyDocument": TRUST} if kind == "Role" else {}
    made = await iam.call(f"Create{kind}", **{f"{kind}Name": "x"}, PermissionsBoundary=FULL, **given)
    assert made[kind]["PermissionsBoundary"]["PermissionsBoundaryArn"] == FULL
    arn = (await iam.call("CreatePolicy", PolicyName="p", PolicyDocument=READ))["Policy"]["Arn"]
    await iam.call(f"Put{kind}PermissionsBoundary", **{f"{kind}Name": "x"}, PermissionsBoundary=arn)
    await iam.refused("DeletePolicy", "DeleteConflict", PolicyArn=arn)
    assert (await iam.call("GetPolicy", PolicyArn=arn))["Policy"]["PermissionsBoundaryUsageCount"] == 1
    await iam.call(f"Delete{kind}PermissionsBoundary", **{f"{kind}Name": "x"})
    await iam.refused(f"Delete{kind}PermissionsBoundary", "NoSuchEntity", **{f"{kind}Name": "x"})
    await iam.call("DeletePolicy", PolicyArn=arn)


async def test_pages(iam: Iam) -> None:
    for number in range(7):
        await iam.call("CreateUser", UserName=f"{'uU'[number % 2]}{number}")
    names, marker = [], {}
    while True:
        page = await iam.call("ListUsers", MaxItems="3", **marker)
        names += [user["UserName"] for user in page["Users"]]
        if not page["IsTruncated"]:
            break
        marker = {"Marker": page["Marker"]}
    assert names == ["u0", "U1", "u2", "U3", "u4", "U5", "u6"]
    policies = await iam.call("ListPolicies", MaxItems=2)
    more = await iam.call("ListPolicies", MaxItems=2, Marker=policies["Marker"], Scope="AWS")
    assert len(policies["Policies"]) == len(more["Policies"]) == 2
    assert (await iam.call("ListPolicies", OnlyAttached=True))["Policies"] == []
    await iam.refused("ListUsers", "ValidationError", Marker="\u20ac")


async def test_the_whole_account(iam: Iam) -> None:
    for kind in ("User", "Group", "Role"):
        given = {"AssumeRolePolicyDocument": TRUST} if kind == "Role" else {}
        await iam.call(f"Create{kind}", **{f"{kind}Name": "x"}, **given)
        await iam.call(f"Put{kind}Policy", **{f"{kind}Name": "x"}, PolicyName="inline", PolicyDocument=READ)
        await iam.call(f"Attach{kind}Policy", **{f"{kind}Name": "x"}, PolicyArn=FULL)
    await iam.call("CreatePolicy", PolicyName="p", PolicyDocument=READ)
    await iam.call("AddUserToGroup", GroupName="x", UserName="x")
    found = await iam.call("GetAccountAuthorizationDetails")
    assert found["UserDetailList"][0]["GroupList"] == ["x"]
    assert {each["PolicyName"] for each in found["Policies"]} > {"p", "AmazonS3FullAccess"}
    local = await iam.call("GetAccountAuthorizationDetails", Filter=["LocalManagedPolicy"])
    assert [each["PolicyName"] for each in local["Policies"]] == ["p"]
    summary = (await iam.call("GetAccountSummary"))["SummaryMap"]
    assert (summary["Users"], summary["Groups"], summary["Roles"], summary["Policies"]) == (1, 1, 1, 1)


async def test_lists_of_what_there_is_none_of(iam: Iam) -> None:
    await iam.call("CreateUser", UserName="alice")
    for action in (
        "ListMFADevices", "ListSSHPublicKeys", "ListSigningCertificates", "ListServiceSpecificCredentials",
    ):  # fmt: skip
        await iam.call(action, UserName="alice")
        await iam.refused(action, "NoSuchEntity", UserName="bob")
    for action in (
        "ListAccountAliases", "ListInstanceProfiles", "ListServerCertificates", "ListVirtualMFADevices",
        "ListOpenIDConnectProviders",
    ):  # fmt: skip
        await iam.call(action)
    for action in ("GetLoginProfile", "DeleteLoginProfile"):
        await iam.refused(action, "NoSuchEntity", UserName="alice")


async def test_parameters_are_checked(iam: Iam) -> None:
    await iam.refused("CreateUser", "ValidationError")
    for name in ("", "a b", "a/b", "ä", "x" * 65, "a\n"):
        await iam.refused("CreateUser", "ValidationError", UserName=name)
    for path in ("people", "/people", "//a", "/" + "x" * 512 + "/", "/a b/"):
        await iam.refused("CreateUser", "ValidationError", UserName="x", Path=path)
    # Those of managed policies take less.
    for path in ("/a:b/", "//", "/a", "/a!/"):
        await iam.refused("CreatePolicy", "ValidationError", PolicyName="x", Path=path, PolicyDocument=READ)
    for tags in (
        "text",
        [{"Value": "x"}],
        [{"Key": "x" * 129, "Value": ""}],
        [{"Key": "k", "Value": "v" * 257}],
        [{"Key": "a", "Value": "\x00"}],
    ):
        await iam.refused("CreateUser", "ValidationError", UserName="x", Tags=tags)
    await iam.refused("CreateUser", "InvalidInput", UserName="x", Tags=[{"Key": "aws:x", "Value": ""}])
    twice = [{"Key": "k", "Value": ""}, {"Key": "K", "Value": ""}]
    await iam.refused("CreateUser", "InvalidInput", UserName="x", Tags=twice)
    many = [{"Key": f"k{number}", "Value": ""} for number in range(51)]
    await iam.refused("CreateUser", "LimitExceeded", UserName="x", Tags=many)
    await iam.refused("CreateUser", "ValidationError", UserName="x", Mistaken="y")
    await iam.refused("ListUsers", "ValidationError", MaxItems=0)
    await iam.refused("GetUsers", "InvalidAction")
    assert (await iam.call("ListUsers"))["Users"] == []


async def test_documents_are_checked(iam: Iam) -> None:
    await iam.call("CreateUser", UserName="x")
    named = {"UserName": "x", "PolicyName": "p"}
    for document in ("no json", "[]", "1", "{}", "[" * 2_000):
        await iam.refused("PutUserPolicy", "MalformedPolicyDocument", **named, PolicyDocument=document)
        await iam.refused("CreatePolicy", "MalformedPolicyDocument", PolicyName="p", PolicyDocument=document)
    # White space does not count.
    await iam.call("PutUserPolicy", **named, PolicyDocument=READ.replace(" ", " " * 500))
    long = READ.replace("photos", "p" * 2000)
    await iam.refused("PutUserPolicy", "LimitExceeded", UserName="x", PolicyName="q", PolicyDocument=long)
    await iam.call("CreatePolicy", PolicyName="p", PolicyDocument=long)
    await iam.refused(
        "CreatePolicy", "LimitExceeded", PolicyName="q", PolicyDocument=READ.replace("photos", "p" * 6144)
    )


def test_every_action_of_aws_has_its_name() -> None:
    from tests.fixtures.iam.model import MODEL

    of_iam = {name for name, entry in ACTIONS.items() if entry.service == "iam"}
    assert of_iam - set(MODEL.operation_names) == {"CreateAccount", "GetLimits", "ListAccounts", "PutLimits"}


async def test_limits_are_for_the_operator(iam: Iam) -> None:
    perform = iam.identities.perform
    await iam.call("CreateUser", UserName="alice")
    key = (await iam.call("CreateAccessKey", UserName="alice"))["AccessKey"]["AccessKeyId"]
    await perform("PutLimits", {"UserName": "alice", "RequestsPerSecond": 5})
    await perform("PutLimits", {"AccessKeyId": key, "BytesPerSecond": "7"})
    assert await perform("GetLimits", {"UserName": "alice"}) == {
        "Limits": {"RequestsPerSecond": 5, "BytesPerSecond": 0}
    }
    assert await perform("GetLimits", {"AccessKeyId": key}) == {"Limits": {"RequestsPerSecond": 0, "BytesPerSecond": 7}}
    for given, code in (
        ({"UserName": "bob"}, "NoSuchEntity"),
        ({"AccessKeyId": "unknown"}, "NoSuchEntity"),
        ({"AccessKeyId": iam.control.root.access_key}, "NoSuchEntity"),
        ({"UserName": "alice", "BytesPerSecond": 10**12 + 1}, "ValidationError"),
        ({"UserName": "alice", "RequestsPerSecond": -1}, "ValidationError"),
        ({}, "ValidationError"),
    ):
        with pytest.raises(IamError) as caught:
            await perform("PutLimits", given)
        assert caught.value.code == code
    with pytest.raises(IamError, match="Could not find operation PutLimits"):
        await perform("PutLimits", {"UserName": "alice"}, access_key=key)
    # Another user of this name begins without.
    await iam.call("DeleteAccessKey", UserName="alice", AccessKeyId=key)
    await iam.call("DeleteUser", UserName="alice")
    await iam.call("CreateUser", UserName="alice")
    assert await perform("GetLimits", {"UserName": "alice"}) == {
        "Limits": {"RequestsPerSecond": 0, "BytesPerSecond": 0}
    }
    assert (await iam.identities.snapshot()).limits == ()


async def test_limits_of_users_of_other_accounts(iam: Iam) -> None:
    account = (await iam.identities.perform("CreateAccount", {"AccountName": "a"}))["Account"]["AccountId"]
    await iam.call("CreateUser", account=account, UserName="alice")
    key = (await iam.call("CreateAccessKey", account=account))["AccessKey"]["AccessKeyId"]
    await iam.identities.perform("PutLimits", {"UserName": "alice", "RequestsPerSecond": 5}, account=account)
    assert (await iam.identities.snapshot()).limits == ((f"arn:aws:iam::{account}:user/alice", 5, 0),)
    with pytest.raises(IamError, match="Could not find operation PutLimits"):
        await iam.identities.perform("PutLimits", {"UserName": "alice"}, access_key=key)
