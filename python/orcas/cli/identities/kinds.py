"""The commands that users, groups and roles have alike: list, show, delete, attach and detach."""

from __future__ import annotations

import json
from typing import Annotated, Any, Final
from urllib.parse import unquote

import typer

from orcas.cli.identities.calls import Account, Iam, PolicyName, iam
from orcas.cli.options import AsJson, Commands, Data
from orcas.cli.output import print_json, print_table, say, tell
from orcas.cli.store.upkeep import Endpoint

# Titles of AWS's answers, and those of what this shows.
_SHOWN: Final = {"Tags": "Tags", "PermissionsBoundary": "Boundary", "AssumeRolePolicyDocument": "Trust"}


Name = Annotated[str, typer.Argument(metavar="NAME", help="Its name.")]


def add_common(app: Commands, kind: str) -> None:
    """Add these commands for a kind: user, group or role."""
    called = kind.capitalize()

    @app.command("list", help=f"List the {kind}s.")
    def list_all(
        account: Account = None, data: Data = None, endpoint: Endpoint = None, as_json: AsJson = False
    ) -> None:
        with iam(data, endpoint, account) as store:
            found = list(store.all(f"List{called}s", f"{called}s"))
        if as_json:
            print_json({f"{kind}s": found})
        else:
            rows = [(each[f"{called}Name"], each["CreateDate"], each["Arn"]) for each in found]
            print_table((called, "Created", "ARN"), rows)

    @app.command(help=f"Show a {kind} with its policies.")
    def show(
        name: Name, account: Account = None, data: Data = None, endpoint: Endpoint = None, as_json: AsJson = False
    ) -> None:
        with iam(data, endpoint, account) as store:
            found = _described(store, kind, name)
        if as_json:
            print_json(found)
            return
        if "Trust" in found:
            # On one line, whatever its white space.
            found["Trust"] = json.dumps(json.loads(found["Trust"]), ensure_ascii=False)
        for title, value in found.items():
            say(f"{title}: {', '.join(map(str, value)) if isinstance(value, list) else value}")

    @app.command(help=f"Delete a {kind}.")
    def delete(
        name: Name,
        force: Annotated[
            bool, typer.Option("--force", help="Also with keys, members or memberships, and policies.")
        ] = False,
        account: Account = None,
        data: Data = None,
        endpoint: Endpoint = None,
        as_json: AsJson = False,
    ) -> None:
        with iam(data, endpoint, account) as store:
            if force:
                _strip(store, kind, name)
            store.call(f"Delete{called}", **{f"{called}Name": name})
        tell({kind: name}, f"{kind} {name} is deleted", as_json)

    _add_attachment(app, kind, "attach", "attached to")
    _add_attachment(app, kind, "detach", "no longer attached to")


def _add_attachment(app: Commands, kind: str, verb: str, done: str) -> None:
    called = kind.capitalize()

    @app.command(verb, help=f"{verb.capitalize()} a policy {'to' if verb == 'attach' else 'from'} a {kind}.")
    def change(
        name: Name,
        policy: PolicyName,
        account: Account = None,
        data: Data = None,
        endpoint: Endpoint = None,
        as_json: AsJson = False,
    ) -> None:
        with iam(data, endpoint, account) as store:
            arn = store.policy(policy)
            store.call(f"{verb.capitalize()}{called}Policy", **{f"{called}Name": name}, PolicyArn=arn)
        tell({kind: name, "policy": arn}, f"policy {policy} is {done} {kind} {name}", as_json)


def _described(store: Iam, kind: str, name: str) -> dict[str, Any]:
    called = kind.capitalize()
    named = {f"{called}Name": name}
    found = store.call(f"Get{called}", **named)[called]
    shown = {
        "Name": found[f"{called}Name"],
        "ARN": found["Arn"],
        "Id": found[f"{called}Id"],
        "Created": found["CreateDate"],
    }
    for title, mine in _SHOWN.items():
        if title in found:
            value = found[title]
            if title == "Tags":
                value = [f"{tag['Key']}={tag['Value']}" for tag in value]
            shown[mine] = value["PermissionsBoundaryArn"] if title == "PermissionsBoundary" else value
    if "Trust" in shown:
        shown["Trust"] = unquote(shown["Trust"])
    attached = store.all(f"ListAttached{called}Policies", "AttachedPolicies", **named)
    shown["Policies"] = [policy["PolicyName"] for policy in attached]
    shown["Inline policies"] = list(store.all(f"List{called}Policies", "PolicyNames", **named))
    if kind == "user":
        limits = store.call("GetLimits", **named)["Limits"]
        shown |= {
            f"{what} a second": limits[f"{what}PerSecond"] for what in ("Requests", "Bytes") if any(limits.values())
        }
        shown["Groups"] = [group["GroupName"] for group in store.all("ListGroupsForUser", "Groups", **named)]
        shown["Access keys"] = [
            f"{key['AccessKeyId']} ({key['Status'].lower()}{', service account' if key['ServiceAccount'] else ''})"
            for key in store.all("ListAccessKeys", "AccessKeyMetadata", **named)
        ]
    if kind == "group":
        shown["Members"] = [user["UserName"] for user in store.all("GetGroup", "Users", **named)]
    return shown


def _strip(store: Iam, kind: str, name: str) -> None:
    """Remove what keeps an entity from being deleted."""
    called = kind.capitalize()
    named = {f"{called}Name": name}
    for policy in list(store.all(f"ListAttached{called}Policies", "AttachedPolicies", **named)):
        store.call(f"Detach{called}Policy", **named, PolicyArn=policy["PolicyArn"])
    for inline in list(store.all(f"List{called}Policies", "PolicyNames", **named)):
        store.call(f"Delete{called}Policy", **named, PolicyName=inline)
    if kind == "user":
        for key in list(store.all("ListAccessKeys", "AccessKeyMetadata", **named)):
            store.call("DeleteAccessKey", **named, AccessKeyId=key["AccessKeyId"])
        for group in list(store.all("ListGroupsForUser", "Groups", **named)):
            store.call("RemoveUserFromGroup", **named, GroupName=group["GroupName"])
    if kind == "group":
        for user in list(store.all("GetGroup", "Users", **named)):
            store.call("RemoveUserFromGroup", **named, UserName=user["UserName"])
