"""Commands for access keys, that of root included."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from orcas.cli.identities.calls import Iam, iam, limit, read_document
from orcas.cli.identities.options import InAccount, Key, Limits, User
from orcas.cli.options import Commands, Where
from orcas.cli.output import print_found, print_json, say, tell
from orcas.cli.store.upkeep import opened
from orcas.errors import OrcasError, UsageError

key_app = Commands(help="Access keys of users, and that of root: create, list, disable, rotate and delete them.")


def show_key(made: dict[str, Any], as_json: bool) -> None:
    """Print a new key: nothing prints its secret again."""
    if as_json:
        print_json({"AccessKey": made})
        return
    sys.stdout.write(f"access key  {made['AccessKeyId']}\nsecret key  {made['SecretAccessKey']}\n")
    say("The secret key is not shown again.", err=True)


@key_app.command()
def create(
    user: User,
    policy: Annotated[
        Path | None,
        typer.Option("--policy", metavar="FILE", help="Policy that narrows what the key may do: a service account."),
    ] = None,
    *,
    where: InAccount,
) -> None:
    """Create an access key for a user, and print it. A user has at most two, besides its service accounts.

    Example:

        orcas access-key create alice
    """
    document = None if policy is None else read_document(policy)
    with iam(where) as store:
        made = store.call("CreateAccessKey", UserName=user, SessionPolicy=document)["AccessKey"]
    show_key(made, where.as_json)


@key_app.command("list")
def list_keys(user: User, *, where: InAccount) -> None:
    """List the access keys of a user, service accounts among them, and when each was used last.

    Example:

        orcas access-key list alice
    """
    with iam(where) as store:
        found = list(store.all("ListAccessKeys", "AccessKeyMetadata", UserName=user))
        for key in found:
            last = store.call("GetAccessKeyLastUsed", AccessKeyId=key["AccessKeyId"])["AccessKeyLastUsed"]
            key["LastUsedDate"] = last.get("LastUsedDate")
    rows = [
        (
            key["AccessKeyId"], "service account" if key["ServiceAccount"] else "user", key["Status"].lower(),
            key["CreateDate"], key["LastUsedDate"] or "never",
        )
        for key in found
    ]  # fmt: skip
    print_found(
        {"AccessKeyMetadata": found}, where.as_json, ("Access key", "Kind", "State", "Created", "Last used"), rows
    )


def _user_of(store: Iam, key: str) -> str:
    return str(store.call("GetAccessKeyLastUsed", AccessKeyId=key)["UserName"])


def _set(key: str, status: str, where: InAccount) -> None:
    with iam(where) as store:
        store.call("UpdateAccessKey", UserName=_user_of(store, key), AccessKeyId=key, Status=status)


@key_app.command()
def disable(key: Key, *, where: InAccount) -> None:
    """Refuse an access key until it is enabled again.

    Example:

        orcas access-key disable ORCAS0EXAMPLE0KEY000
    """
    _set(key, "Inactive", where)
    tell({"AccessKeyId": key, "Status": "Inactive"}, f"access key {key} is disabled", where.as_json)


@key_app.command()
def enable(key: Key, *, where: InAccount) -> None:
    """Accept an access key again.

    Example:

        orcas access-key enable ORCAS0EXAMPLE0KEY000
    """
    _set(key, "Active", where)
    tell({"AccessKeyId": key, "Status": "Active"}, f"access key {key} is enabled", where.as_json)


@key_app.command()
def delete(key: Key, *, where: InAccount) -> None:
    """Delete an access key. The next request that it signs is refused.

    Example:

        orcas access-key delete ORCAS0EXAMPLE0KEY000
    """
    with iam(where) as store:
        store.call("DeleteAccessKey", UserName=_user_of(store, key), AccessKeyId=key)
    tell({"AccessKeyId": key}, f"access key {key} is deleted", where.as_json)


@key_app.command("limit")
def limit_key(key: Key, limits: Limits, *, where: InAccount) -> None:
    """Limit the requests and bytes a second of one access key. Without options, remove the limits.

    Example:

        orcas access-key limit ORCAS0EXAMPLE0KEY000 --requests-per-sec 50
    """
    limit(f"access key {key}", {"AccessKeyId": key}, limits, where)


@key_app.command()
def rotate(user: User, *, where: InAccount) -> None:
    """Give a user another access key, and print it. The former one works until it is deleted.

    Example:

        orcas access-key rotate alice
    """
    with iam(where) as store:
        keys = store.all("ListAccessKeys", "AccessKeyMetadata", UserName=user)
        former = [key["AccessKeyId"] for key in keys if not key["ServiceAccount"]]
        made = store.call("CreateAccessKey", UserName=user)["AccessKey"]
    show_key(made, where.as_json)
    for key in former:
        say(f"When nothing uses it any more: orcas access-key delete {key}", err=True)


@key_app.command("rotate-root")
def rotate_root(
    yes: Annotated[bool, typer.Option("--yes", help="Do not ask.")] = False,
    *,
    where: Where,
) -> None:
    """Replace the key of root, and print the new one. The former one is refused from then on.

    The new key is kept in the store, also for the next start, unless ORCAS_ROOT_ACCESS_KEY and ORCAS_ROOT_SECRET_KEY are
    set there. `orcas env` prints it.

    Example:

        orcas access-key rotate-root
    """

    if not yes:
        if not sys.stdin.isatty():
            raise UsageError("Replacing the root key needs a confirmation: use a terminal, or --yes.")
        if not typer.confirm("Replace the root key? Whatever uses the present one is refused from then on.", err=True):
            raise OrcasError("The root key is kept: answer y to replace it.")
    with opened(where) as session:
        made = session.admin("POST", "iam/root-key")
    if where.as_json:
        made_key = {"AccessKeyId": made["access_key"], "SecretAccessKey": made["secret_key"]}
        print_json({"AccessKey": made_key, "WasSetByOperator": made["was_set_by_operator"]})
        return
    sys.stdout.write(f"access key  {made['access_key']}\nsecret key  {made['secret_key']}\n")
    if made["was_set_by_operator"]:
        say("Remove ORCAS_ROOT_ACCESS_KEY and ORCAS_ROOT_SECRET_KEY: the next start would use them again.", err=True)


def add_to(app: typer.Typer) -> None:
    """Add these commands to `orcas`."""
    app.add_typer(key_app, name="access-key")
