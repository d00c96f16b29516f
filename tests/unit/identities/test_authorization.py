"""Who may call which action: users by their policies, boundaries and the policies of their keys."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.iam.directory import Iam, iam_of
from tests.unit.identities.test_actions import FULL, READ, TRUST

from orcas.control.identities.registry import ACTIONS

ADMIN = "arn:aws:iam::aws:policy/IAMFullAccess"


@pytest.fixture
async def iam(tmp_path: Path) -> AsyncIterator[Iam]:
    async with iam_of(tmp_path) as opened:
        yield opened


def allow(action: Any, resource: Any = "*", effect: str = "Allow", **condition: Any) -> dict[str, Any]:
    statement = {"Effect": effect, "Action": action, "Resource": resource}
    return statement | ({"Condition": condition} if condition else {})


def policy(*statements: dict[str, Any]) -> str:
    return json.dumps({"Version": "2012-10-17", "Statement": list(statements)})


async def user(iam: Iam, name: str, *statements: dict[str, Any], session: str | None = None, **given: Any) -> str:
    """A user with this policy: the access key."""
    await iam.call("CreateUser", UserName=name, **given)
    if statements:
        await iam.call("PutUserPolicy", UserName=name, PolicyName="own", PolicyDocument=policy(*statements))
    key = await iam.call("CreateAccessKey", UserName=name, **({} if session is None else {"SessionPolicy": session}))
    return str(key["AccessKey"]["AccessKeyId"])


@pytest.mark.parametrize("action", sorted(name for name, entry in ACTIONS.items() if entry.service == "iam"))
async def test_nobody_may_do_anything_without_a_policy(iam: Iam, action: str) -> None:
    """Whatever the parameters: they are not looked at before."""
    key = await user(iam, "nobody")
    code = "InvalidAction" if ACTIONS[action].root else "AccessDenied"
    for given in ({}, {"UserName": "none"}, {"UserName": ["?"]}, {"PolicyArn": FULL, "GroupName": "\x00"}):
        message = await iam.refused(action, code, access_key=key, **given)
        assert ACTIONS[action].root or f"is not authorized to perform: iam:{action} on resource: " in message


async def test_a_user_may_do_what_its_policies_allow(iam: Iam) -> None:
    own = f"arn:aws:iam::{iam.number}:user/${{aws:username}}"
    key = await user(iam, "alice", allow(["iam:GetUser", "iam:*AccessKey*"], own))
    await user(iam, "bob")
    assert (await iam.call("GetUser", access_key=key))["User"]["UserName"] == "alice"
    assert (await iam.call("GetUser", access_key=key, UserName="alice"))["User"]["UserName"] == "alice"
    await iam.refused("GetUser", "AccessDenied", access_key=key, UserName="bob")
    assert (await iam.call("GetUser", access_key=key, UserName="ALICE"))["User"]["UserName"] == "alice"
    await iam.refused("ListUsers", "AccessDenied", access_key=key)
    made = (await iam.call("CreateAccessKey", access_key=key))["AccessKey"]
    assert made["UserName"] == "alice"
    await iam.refused("CreateAccessKey", "AccessDenied", access_key=key, UserName="bob")
    await iam.call("DeleteAccessKey", access_key=key, AccessKeyId=made["AccessKeyId"])
    await iam.refused("CreateAccessKey", "AccessDenied", access_key=key, AccessKeyId="x" * 20, SecretAccessKey="y" * 20)


async def test_another_case_of_a_name_evades_no_denial(iam: Iam) -> None:
    """Names are found in whatever case, so what counts is the ARN of the one that is found."""
    bob = f"arn:aws:iam::{iam.number}:user/bob"
    key = await user(iam, "alice", allow("iam:*"), allow("iam:*", bob, "Deny"))
    await user(iam, "bob")
    await iam.refused("GetUser", "AccessDenied", access_key=key, UserName="BOB")
    await iam.refused("DeleteUser", "AccessDenied", access_key=key, UserName="Bob")
    assert (await iam.call("GetUser", UserName="BOB"))["User"]["UserName"] == "bob"


async def test_groups_paths_and_denials(iam: Iam) -> None:
    key = await user(iam, "alice")
    await iam.call("CreateGroup", GroupName="admins")
    team = f"arn:aws:iam::{iam.number}:user/team/*"
    denied = allow("iam:DeleteUser", "*", "Deny")
    await iam.call(
        "PutGroupPolicy", GroupName="admins", PolicyName="p", PolicyDocument=policy(allow("iam:*", team), denied)
    )
    await iam.refused("CreateUser", "AccessDenied", access_key=key, UserName="x", Path="/team/")
    await iam.call("AddUserToGroup", GroupName="admins", UserName="alice")
    await iam.call("CreateUser", access_key=key, UserName="x", Path="/team/")
    await iam.refused("CreateUser", "AccessDenied", access_key=key, UserName="y")
    await iam.call("GetUser", access_key=key, UserName="x")
    message = await iam.refused("DeleteUser", "AccessDenied", access_key=key, UserName="x")
    assert message.endswith("on resource: user x with an explicit deny in an identity-based policy")
    assert "/team/" not in await iam.refused("CreateUser", "AccessDenied", access_key=key, UserName="x")


async def test_a_new_name_must_be_allowed_as_well(iam: Iam) -> None:
    team = f"arn:aws:iam::{iam.number}:user/team/*"
    key = await user(iam, "alice", allow("iam:UpdateUser", team))
    await iam.call("CreateUser", UserName="x", Path="/team/")
    await iam.refused("UpdateUser", "AccessDenied", access_key=key, UserName="x", NewPath="/")
    await iam.call("UpdateUser", access_key=key, UserName="x", NewUserName="y")
    await iam.refused("UpdateUser", "AccessDenied", access_key=key, UserName="x", NewUserName="y")


async def test_boundaries_delegate(iam: Iam) -> None:
    """One who may create users only with a boundary, and give them only some policies."""
    bounded = {"StringEquals": {"iam:PermissionsBoundary": FULL}}
    attached = {"ArnEquals": {"iam:PolicyARN": [FULL]}}
    key = await user(
        iam, "alice",
        allow(["iam:CreateUser", "iam:PutUserPolicy"], **bounded),
        allow("iam:AttachUserPolicy", **attached),
    )  # fmt: skip
    await iam.refused("CreateUser", "AccessDenied", access_key=key, UserName="x")
    await iam.refused("CreateUser", "AccessDenied", access_key=key, UserName="x", PermissionsBoundary=ADMIN)
    await iam.call("CreateUser", access_key=key, UserName="x", PermissionsBoundary=FULL)
    await iam.refused("AttachUserPolicy", "AccessDenied", access_key=key, UserName="x", PolicyArn=ADMIN)
    await iam.call("AttachUserPolicy", access_key=key, UserName="x", PolicyArn=FULL)
    # The boundary of the one who gets the policy counts, whoever that is.
    await iam.call("PutUserPolicy", access_key=key, UserName="x", PolicyName="p", PolicyDocument=READ)
    await iam.refused(
        "PutUserPolicy", "AccessDenied", access_key=key, UserName="alice", PolicyName="p", PolicyDocument=READ
    )


async def test_a_boundary_limits_who_has_it(iam: Iam) -> None:
    key = await user(iam, "alice", allow("*"), PermissionsBoundary=FULL)
    message = await iam.refused("ListUsers", "AccessDenied", access_key=key)
    assert message.endswith("because no permissions boundary allows the iam:ListUsers action")


async def test_tags_are_conditions(iam: Iam) -> None:
    key = await user(
        iam, "alice",
        allow("iam:CreateUser", StringEquals={"aws:RequestTag/team": "red"}),
        allow(["iam:TagUser", "iam:UntagUser"], **{"ForAllValues:StringEquals": {"aws:TagKeys": ["team", "age"]}}),
        allow("iam:DeleteUser", StringEquals={"iam:ResourceTag/team": "red"}),
    )  # fmt: skip
    red, blue = ([{"Key": "team", "Value": colour}] for colour in ("red", "blue"))
    await iam.refused("CreateUser", "AccessDenied", access_key=key, UserName="x")
    await iam.refused("CreateUser", "AccessDenied", access_key=key, UserName="x", Tags=blue)
    await iam.call("CreateUser", access_key=key, UserName="x", Tags=red)
    await iam.refused("TagUser", "AccessDenied", access_key=key, UserName="x", Tags=[{"Key": "other", "Value": ""}])
    await iam.call("TagUser", access_key=key, UserName="x", Tags=blue)
    await iam.refused("DeleteUser", "AccessDenied", access_key=key, UserName="x")
    await iam.call("TagUser", access_key=key, UserName="x", Tags=red)
    await iam.refused("UntagUser", "AccessDenied", access_key=key, UserName="x", TagKeys=["other"])
    await iam.call("DeleteUser", access_key=key, UserName="x")


async def test_a_service_account_cannot_do_more_than_its_policy(iam: Iam) -> None:
    key = await user(iam, "alice", allow("*"), session=policy(allow(["iam:ListUsers", "iam:CreateAccessKey"])))
    await iam.call("ListUsers", access_key=key)
    message = await iam.refused("CreateUser", "AccessDenied", access_key=key, UserName="x")
    assert message.endswith("because no session policy allows the iam:CreateUser action")
    # A key without that policy would be a way around it.
    for given in ({}, {"UserName": "alice"}, {"UserName": "alice", "SessionPolicy": READ}):
        assert "policy of its own" in await iam.refused("CreateAccessKey", "AccessDenied", access_key=key, **given)
    await iam.refused("CreateAccessKey", "MalformedPolicyDocument", UserName="alice", SessionPolicy="{}")


async def test_one_who_is_gone_may_nothing(iam: Iam) -> None:
    key = await user(iam, "alice", allow("*"))
    await iam.call("DeleteAccessKey", UserName="alice", AccessKeyId=key)
    await iam.refused("ListUsers", "AccessDenied", access_key=key)


async def test_simulations(iam: Iam) -> None:
    await user(
        iam, "alice", allow("s3:GetObject", "arn:aws:s3:::photos/*") | {"Sid": "photos"}, PermissionsBoundary=FULL
    )
    source = f"arn:aws:iam::{iam.number}:user/alice"
    asked = {
        "ActionNames": ["s3:GetObject", "s3:PutObject"],
        "ResourceArns": ["arn:aws:s3:::photos/a", "arn:aws:s3:::b/a"],
    }
    found = (await iam.call("SimulatePrincipalPolicy", PolicySourceArn=source, **asked))["EvaluationResults"]
    assert [each["EvalDecision"] for each in found] == ["allowed", "implicitDeny", "implicitDeny", "implicitDeny"]
    (matched,) = found[0]["MatchedStatements"]
    assert matched["SourcePolicyId"] == "user alice: own statement 1 (photos)"
    more = {"PolicyInputList": [policy(allow("s3:PutObject", effect="Deny"))]}
    found = (await iam.call("SimulatePrincipalPolicy", PolicySourceArn=source, **asked, **more))["EvaluationResults"]
    assert [each["EvalDecision"] for each in found] == ["allowed", "implicitDeny", "explicitDeny", "explicitDeny"]
    local = {"IpAddress": {"aws:SourceIp": "192.0.2.0/24"}}
    custom = {"PolicyInputList": [policy(allow("s3:GetObject", **local))], "ActionNames": ["s3:GetObject"]}
    context = [{"ContextKeyName": "aws:SourceIp", "ContextKeyValues": ["192.0.2.7"], "ContextKeyType": "ip"}]
    for entries, decision in (([], "implicitDeny"), (context, "allowed")):
        answer = await iam.call("SimulateCustomPolicy", **custom, ContextEntries=entries)
        assert answer["EvaluationResults"][0]["EvalDecision"] == decision
    keys = await iam.call("GetContextKeysForCustomPolicy", PolicyInputList=custom["PolicyInputList"])
    assert keys["ContextKeyNames"] == ["aws:SourceIp"]
    await iam.call("GetContextKeysForPrincipalPolicy", PolicySourceArn=source)
    await iam.call("CreateRole", RoleName="r", AssumeRolePolicyDocument=TRUST)
    await iam.call("AttachRolePolicy", RoleName="r", PolicyArn=FULL)
    role = f"arn:aws:iam::{iam.number}:role/r"
    found = (await iam.call("SimulatePrincipalPolicy", PolicySourceArn=role, **asked))["EvaluationResults"]
    assert {each["EvalDecision"] for each in found} == {"allowed"}
    await iam.refused("SimulatePrincipalPolicy", "NoSuchEntity", PolicySourceArn=role + "x", **asked)
    await iam.refused("SimulateCustomPolicy", "InvalidInput", PolicyInputList=[], ActionNames=[])
    # As on AWS, whoever calls is a user.
    session = f"arn:aws:sts::{iam.number}:assumed-role/r/s"
    for given in ({"CallerArn": session}, {"CallerArn": role}, {"ResourceOwner": "arn:aws:s3:::b:1:2"}):
        await iam.refused("SimulateCustomPolicy", "InvalidInput", **custom, **given)
    named = {"StringEquals": {"aws:username": "eve"}}
    custom = {"PolicyInputList": [policy(allow("s3:*", **named))], "ActionNames": ["s3:GetObject"]}
    caller = f"arn:aws:iam::{iam.number}:user/:assumed-role/r/eve"
    answer = await iam.call("SimulateCustomPolicy", **custom, CallerArn=caller, ResourceOwner=iam.number)
    assert answer["EvaluationResults"][0]["EvalDecision"] == "allowed"
    bad = {"PolicyInputList": ["{}"], "ActionNames": ["s3:GetObject"]}
    await iam.refused("SimulateCustomPolicy", "MalformedPolicyDocument", **bad)


# Each of its decisions compares a name with hundreds of patterns in every way there is.
COSTLY = policy(allow("s3:*", [f"arn:aws:s3:::b/*{'?a' * 40}b" for _ in range(50)]))


async def test_a_simulation_is_bounded_by_what_it_compares(iam: Iam) -> None:
    asked = {"PolicyInputList": [COSTLY], "ActionNames": ["s3:GetObject"], "MaxItems": 1}
    few = await iam.call("SimulateCustomPolicy", **asked, ResourceArns=["arn:aws:s3:::b/" + "a" * 1_000])
    assert few["EvaluationResults"][0]["EvalDecision"] == "implicitDeny"
    many = [f"arn:aws:s3:::b/{at}{'a' * 1_000}" for at in range(1_000)]
    message = await iam.refused("SimulateCustomPolicy", "InvalidInput", **asked, ResourceArns=many)
    assert "takes too much to compare" in message


async def test_a_policy_that_takes_too_much_to_compare_is_refused(iam: Iam) -> None:
    costly = policy(allow("s3:*", StringLike={"s3:prefix": ["*?" * 410 + "b"] * 7}))
    message = await iam.refused("CreatePolicy", "MalformedPolicyDocument", PolicyName="p", PolicyDocument=costly)
    assert message == "The patterns of this policy take too much to compare: use fewer ? and * in them."
    ordinary = [f"arn:aws:s3:::b/*/team-{at:03}/????-??-??/*.parquet" for at in range(90)]
    await iam.call("CreatePolicy", PolicyName="p", PolicyDocument=policy(allow("s3:*", ordinary)))


async def test_others_are_served_while_policies_are_compared(iam: Iam, monkeypatch: pytest.MonkeyPatch) -> None:
    """Decisions and policies on their way in leave the event loop: what waits here ends by a task of the loop."""
    served = threading.Event()
    loop = asyncio.get_running_loop()
    key = await user(iam, "alice", allow("iam:*"))
    for name in ("evaluate", "check"):
        given = getattr(iam.engine, name)

        def waiting(*asked: Any, given: Any = given) -> Any:
            loop.call_soon_threadsafe(served.set)
            assert served.wait(60), "the event loop waits for a policy"
            served.clear()
            return given(*asked)

        monkeypatch.setattr(iam.engine, name, waiting)
    asked = {"PolicyInputList": [policy(allow("s3:*"))], "ActionNames": ["s3:GetObject"]}
    await iam.call("SimulateCustomPolicy", access_key=key, **asked)
    await iam.call("CreatePolicy", access_key=key, PolicyName="p", PolicyDocument=policy(allow("s3:*")))
    await iam.call("CreateRole", access_key=key, RoleName="r", AssumeRolePolicyDocument=TRUST)
    await iam.call("GetContextKeysForCustomPolicy", access_key=key, PolicyInputList=[policy(allow("s3:*"))])
