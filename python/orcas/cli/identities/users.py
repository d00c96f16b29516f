"""Commands for accounts, users, groups and roles."""

from __future__ import annotations

import datetime as dt
import json
import re
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from orcas.cli.identities.calls import Iam, iam, limit, read_document
from orcas.cli.identities.keys import show_key
from orcas.cli.identities.kinds import add_common
from orcas.cli.identities.options import Boundary, Group, InAccount, Limits, Path_, Policies, Role, Tags, User
from orcas.cli.options import Commands, Where, pairs
from orcas.cli.output import print_found, say, tell

# A principal of an account: its number, or an ARN.
_IN_ACCOUNT: Final = re.compile(r"(?:arn:aws:(?:iam|sts)::)?([0-9]{12})(?::.+)?")

account_app = Commands(help="Accounts: each has users, groups, roles, policies and buckets of its own.")
user_app = Commands(help="Users: create, list, show and delete them, and attach policies.")
group_app = Commands(help="Groups: what their policies allow, all members may do.")
role_app = Commands(help="Roles: what others may do after they have assumed one.")


@user_app.command()
def create(
    name: User,
    policy: Policies = None,
    group: Annotated[
        list[str] | None, typer.Option("--group", metavar="GROUP", help="Add it to this group; may be repeated.")
    ] = None,
    key: Annotated[bool, typer.Option("--key", help="Also create an access key, and print it.")] = False,
    path: Path_ = "/",
    tag: Tags = None,
    boundary: Boundary = None,
    *,
    where: InAccount,
) -> None:
    """Create a user. Without policies, it may do nothing.

    Example:

        orcas user create dora --policy AmazonS3ReadOnlyAccess --key
    """
    tags = [{"Key": each, "Value": value} for each, value in pairs(tag or [], "--tag")]
    with iam(where) as store:
        policies = [store.policy(each) for each in policy or []]
        bounded = None if boundary is None else store.policy(boundary)
        made = store.call("CreateUser", UserName=name, Path=path, Tags=tags, PermissionsBoundary=bounded)["User"]
        for arn in policies:
            store.call("AttachUserPolicy", UserName=name, PolicyArn=arn)
        for each in group or []:
            store.call("AddUserToGroup", UserName=name, GroupName=each)
        if key:
            show_key(store.call("CreateAccessKey", UserName=name)["AccessKey"], where.as_json)
            return
    tell({"User": made}, f"user {name} created", where.as_json)


add_common(user_app, "user")


@user_app.command("limit")
def limit_user(name: User, limits: Limits, *, where: InAccount) -> None:
    """Limit the requests and bytes a second of a user, all of its keys together. Without options, remove the limits.

    Example:

        orcas user limit alice --requests-per-sec 50 --bytes-per-sec 10000000
    """
    limit(f"user {name}", {"UserName": name}, limits, where)


@group_app.command("create")
def create_group(name: Group, policy: Policies = None, path: Path_ = "/", *, where: InAccount) -> None:
    """Create a group.

    Example:

        orcas group create readers --policy AmazonS3ReadOnlyAccess
    """
    with iam(where) as store:
        policies = [store.policy(each) for each in policy or []]
        made = store.call("CreateGroup", GroupName=name, Path=path)["Group"]
        for arn in policies:
            store.call("AttachGroupPolicy", GroupName=name, PolicyArn=arn)
    tell({"Group": made}, f"group {name} created", where.as_json)


add_common(group_app, "group")


@group_app.command()
def add(name: Group, user: User, *, where: InAccount) -> None:
    """Add a user to a group.

    Example:

        orcas group add readers alice
    """
    with iam(where) as store:
        store.call("AddUserToGroup", GroupName=name, UserName=user)
    tell({"GroupName": name, "UserName": user}, f"user {user} is in group {name}", where.as_json)


@group_app.command()
def remove(name: Group, user: User, *, where: InAccount) -> None:
    """Remove a user from a group.

    Example:

        orcas group remove readers alice
    """
    with iam(where) as store:
        store.call("RemoveUserFromGroup", GroupName=name, UserName=user)
    tell({"GroupName": name, "UserName": user}, f"user {user} is no longer in group {name}", where.as_json)


@role_app.command("create")
def create_role(
    name: Role,
    trust: Annotated[Path, typer.Option("--trust", metavar="FILE", help="Policy that says who may assume it.")],
    policy: Policies = None,
    path: Path_ = "/",
    tag: Tags = None,
    boundary: Boundary = None,
    *,
    where: InAccount,
) -> None:
    """Create a role.

    Example:

        orcas role create auditor --trust trust.json
    """
    document, tags = read_document(trust), [{"Key": each, "Value": value} for each, value in pairs(tag or [], "--tag")]
    with iam(where) as store:
        policies = [store.policy(each) for each in policy or []]
        bounded = None if boundary is None else store.policy(boundary)
        made = store.call(
            "CreateRole",
            RoleName=name,
            Path=path,
            AssumeRolePolicyDocument=document,
            Tags=tags,
            PermissionsBoundary=bounded,
        )["Role"]
        for arn in policies:
            store.call("AttachRolePolicy", RoleName=name, PolicyArn=arn)
        unknown = _unknown_accounts(store, json.loads(document))
    tell({"Role": made}, f"role {name} created", where.as_json)
    for number in unknown:
        say(f"Account {number} in {trust} does not exist here: `orcas account list` shows those that do.", err=True)


def _unknown_accounts(store: Iam, trust: dict[str, Any]) -> list[str]:
    """The numbers of accounts that a valid trust policy names, and that are not there."""
    from orcas.tools.session import RefusedError

    statements = trust["Statement"] if isinstance(trust["Statement"], list) else [trust["Statement"]]
    principals = [each.get("Principal") for each in statements]
    named = [each["AWS"] for each in principals if isinstance(each, dict) and "AWS" in each]
    texts = [text for each in named for text in (each if isinstance(each, list) else [each])]
    numbers = {found[1] for text in texts if (found := _IN_ACCOUNT.fullmatch(text))}
    try:
        return sorted(numbers - {account["AccountId"] for account in store.all("ListAccounts", "Accounts")})
    except RefusedError:
        # Only root may list them.
        return []


add_common(role_app, "role")


@role_app.command()
def revoke_sessions(name: Role, *, where: InAccount) -> None:
    """End all sessions of a role that were issued until now. It can be assumed again from the next second on.

    Example:

        orcas role revoke-sessions reader
    """
    with iam(where) as store:
        until = dt.datetime.now(dt.UTC).replace(microsecond=0) + dt.timedelta(seconds=1)
        before = until.strftime("%Y-%m-%dT%H:%M:%SZ")
        # As AWS's console writes it.
        statement = {
            "Effect": "Deny",
            "Action": ["*"],
            "Resource": ["*"],
            "Condition": {"DateLessThan": {"aws:TokenIssueTime": before}},
        }
        document = json.dumps({"Version": "2012-10-17", "Statement": [statement]})
        store.call("PutRolePolicy", RoleName=name, PolicyName="AWSRevokeOlderSessions", PolicyDocument=document)
    tell(
        {"RoleName": name, "TokenIssueTime": before},
        f"sessions of role {name} from before {before} have ended",
        where.as_json,
    )


@account_app.command("create")
def create_account(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the account.")],
    key: Annotated[bool, typer.Option("--key", help="Also create an access key of its root, and print it.")] = False,
    *,
    where: Where,
) -> None:
    """Create an account. Its root may do everything to what the account owns, and nothing to what others own.

    Example:

        orcas account create research
    """
    with iam(where) as store:
        made = store.call("CreateAccount", AccountName=name)["Account"]
    if key:
        with iam(where, made["AccountId"]) as store:
            show_key(store.call("CreateAccessKey")["AccessKey"], where.as_json)
        return
    tell({"Account": made}, f"account {name} created, number {made['AccountId']}", where.as_json)


@account_app.command("list")
def list_accounts(*, where: Where) -> None:
    """List the accounts, with their numbers and canonical ids.

    Example:

        orcas account list
    """
    with iam(where) as store:
        found = list(store.all("ListAccounts", "Accounts"))
    rows = [(each["AccountName"], each["AccountId"], each["CanonicalId"]) for each in found]
    print_found({"Accounts": found}, where.as_json, ("Account", "Number", "Id"), rows)


def add_to(app: typer.Typer) -> None:
    """Add these commands to `orcas`."""
    app.add_typer(account_app, name="account")
    app.add_typer(user_app, name="user")
    app.add_typer(group_app, name="group")
    app.add_typer(role_app, name="role")
