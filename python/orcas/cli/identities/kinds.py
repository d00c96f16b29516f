"""The commands that users, groups and roles have alike: list, show, delete, attach and detach."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Annotated, Any, Final
from urllib.parse import unquote

import typer

from orcas.cli.identities.calls import Iam, iam
from orcas.cli.identities.options import InAccount, PolicyName
from orcas.cli.options import Commands
from orcas.cli.output import print_found, print_json, say, tell
from orcas.iam.removal import holds

Name = Annotated[str, typer.Argument(metavar="NAME", help="Its name.")]

# In examples, which run after those that create them.
_NAMES: Final = {"user": "dora", "group": "readers", "role": "auditor"}


def _help(sentence: str, example: str) -> str:
    return f"{sentence}\n\nExample:\n\n    orcas {example}"


def add_common(app: Commands, kind: str) -> None:
    """Add these commands for a kind: user, group or role."""
    called = kind.capitalize()

    @app.command("list", help=_help(f"List the {kind}s.", f"{kind} list"))
    def list_all(*, where: InAccount) -> None:
        with iam(where) as store:
            found = list(store.all(f"List{called}s", f"{called}s"))
        rows = [(each[f"{called}Name"], each["CreateDate"], each["Arn"]) for each in found]
        print_found({f"{called}s": found}, where.as_json, (called, "Created", "ARN"), rows)

    @app.command(help=_help(f"Show a {kind} with its policies.", f"{kind} show {_NAMES[kind]}"))
    def show(name: Name, *, where: InAccount) -> None:
        with iam(where) as store:
            found = _described(store, kind, name)
        if where.as_json:
            print_json({called: found})
            return
        for title, value in _lines(found, called):
            say(f"{title}: {value}")

    _add_attachment(app, kind, "attach", "attached to")
    _add_attachment(app, kind, "detach", "no longer attached to")

    @app.command(help=_help(f"Delete a {kind}.", f"{kind} delete {_NAMES[kind]} --force"))
    def delete(
        name: Name,
        force: Annotated[
            bool, typer.Option("--force", help="Also with keys, members or memberships, and policies.")
        ] = False,
        *,
        where: InAccount,
    ) -> None:
        from orcas.tools.session import RefusedError

        with iam(where) as store:
            if force:
                _strip(store, kind, name)
            try:
                store.call(f"Delete{called}", **{f"{called}Name": name})
            except RefusedError as error:
                if error.code != "DeleteConflict":
                    raise
                reason = str(error).rstrip(".")
                raise RefusedError(
                    error.status,
                    f"The {kind} {name} cannot be deleted ({reason}): add --force to remove these as well.",
                    error.code,
                ) from None
        tell({f"{called}Name": name}, f"{kind} {name} is deleted", where.as_json)


def _add_attachment(app: Commands, kind: str, verb: str, done: str) -> None:
    called = kind.capitalize()

    sentence = f"{verb.capitalize()} a policy {'to' if verb == 'attach' else 'from'} a {kind}."

    @app.command(verb, help=_help(sentence, f"{kind} {verb} {_NAMES[kind]} AmazonS3FullAccess"))
    def change(name: Name, policy: PolicyName, *, where: InAccount) -> None:
        with iam(where) as store:
            arn = store.policy(policy)
            store.call(f"{verb.capitalize()}{called}Policy", **{f"{called}Name": name}, PolicyArn=arn)
        tell({f"{called}Name": name, "PolicyArn": arn}, f"policy {policy} is {done} {kind} {name}", where.as_json)


def _described(store: Iam, kind: str, name: str) -> dict[str, Any]:
    """An entity with what belongs to it, under the names that the actions of IAM have for each."""
    called = kind.capitalize()
    named = {f"{called}Name": name}
    found: dict[str, Any] = store.call(f"Get{called}", **named)[called]
    if kind == "role":
        found["AssumeRolePolicyDocument"] = json.loads(unquote(found["AssumeRolePolicyDocument"]))
    found["AttachedPolicies"] = list(store.all(f"ListAttached{called}Policies", "AttachedPolicies", **named))
    found["PolicyNames"] = list(store.all(f"List{called}Policies", "PolicyNames", **named))
    if kind == "user":
        found["Limits"] = store.call("GetLimits", **named)["Limits"]
        found["Groups"] = list(store.all("ListGroupsForUser", "Groups", **named))
        found["AccessKeyMetadata"] = list(store.all("ListAccessKeys", "AccessKeyMetadata", **named))
    if kind == "group":
        found["Users"] = list(store.all("GetGroup", "Users", **named))
    return found


def _lines(found: dict[str, Any], called: str) -> Iterator[tuple[str, str]]:
    """The fields of an entity with their titles, for people."""
    for title, name in (("Name", f"{called}Name"), ("ARN", "Arn"), ("Id", f"{called}Id"), ("Created", "CreateDate")):
        yield title, found[name]
    if found.get("Tags"):
        yield "Tags", ", ".join(f"{tag['Key']}={tag['Value']}" for tag in found["Tags"])
    if "PermissionsBoundary" in found:
        yield "Boundary", found["PermissionsBoundary"]["PermissionsBoundaryArn"]
    if "AssumeRolePolicyDocument" in found:
        yield "Trust", json.dumps(found["AssumeRolePolicyDocument"], ensure_ascii=False)
    yield "Policies", ", ".join(policy["PolicyName"] for policy in found["AttachedPolicies"])
    yield "Inline policies", ", ".join(found["PolicyNames"])
    limits = found.get("Limits", {})
    for what in ("Requests", "Bytes") if any(limits.values()) else ():
        yield f"{what} a second", str(limits[f"{what}PerSecond"])
    if "Groups" in found:
        yield "Groups", ", ".join(group["GroupName"] for group in found["Groups"])
        yield (
            "Access keys",
            ", ".join(
                f"{key['AccessKeyId']} ({key['Status'].lower()}{', service account' if key['ServiceAccount'] else ''})"
                for key in found["AccessKeyMetadata"]
            ),
        )
    if "Users" in found:
        yield "Members", ", ".join(user["UserName"] for user in found["Users"])


def _strip(store: Iam, kind: str, name: str) -> None:
    """Remove what keeps an entity from being deleted."""
    named = {f"{kind.capitalize()}Name": name}
    for hold in holds(kind):
        for entry in list(store.all(hold.lists, hold.entries, **named)):
            found = entry if isinstance(entry, str) else entry[hold.parameter]
            store.call(hold.removes, **named, **{hold.parameter: found})
