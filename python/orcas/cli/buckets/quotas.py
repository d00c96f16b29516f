"""Commands for quotas: quota set, remove and list."""

from __future__ import annotations

import re
from typing import Annotated, Final

import typer

from orcas.cli.options import Commands, Where, bytes_of
from orcas.cli.output import print_found, size, tell
from orcas.cli.store.upkeep import ask
from orcas.errors import UsageError

quota_app = Commands(help="Quotas of buckets and owners: how much each may hold.")

_OWNER: Final = re.compile(r"[0-9a-f]{64}")

Name = Annotated[str, typer.Argument(metavar="BUCKET", help="A bucket; with --owner, the id of an owner.")]
Owner = Annotated[bool, typer.Option("--owner", help="The quota of an owner, for all of its buckets together.")]


@quota_app.command("set")
def set_quota(
    name: Name,
    owner: Owner = False,
    most: Annotated[
        str | None, typer.Option("--bytes", metavar="SIZE", help="Maximum bytes, such as 500 MiB or 1000000.")
    ] = None,
    objects: Annotated[
        int | None, typer.Option("--objects", min=0, metavar="COUNT", help="Maximum objects, counting all versions.")
    ] = None,
    *,
    where: Where,
) -> None:
    """Limit how much a bucket or an owner may hold. Existing objects stay.

    Bytes include those of all versions and of the parts of open uploads.

    Examples:

        orcas quota set photos --bytes 10GiB

        orcas quota set photos --objects 100000
    """
    if most is None and objects is None:
        raise UsageError("A limit is missing: give --bytes, --objects or both; `orcas quota remove` removes a quota.")
    order = {_kind(owner): name, "bytes": None if most is None else bytes_of(most, "--bytes"), "objects": objects}
    _check_owner(name, owner)
    ask(where, "PUT", "quotas", order)
    tell(order, f"the quota of {_kind(owner)} {name} is set", where.as_json)


@quota_app.command()
def remove(name: Name, owner: Owner = False, *, where: Where) -> None:
    """Remove the quota of a bucket or an owner.

    Example:

        orcas quota remove photos
    """
    order = {_kind(owner): name}
    _check_owner(name, owner)
    ask(where, "PUT", "quotas", order)
    tell(order, f"{_kind(owner)} {name} has no quota", where.as_json)


@quota_app.command("list")
def list_quotas(*, where: Where) -> None:
    """List all quotas. `orcas usage` shows how much is held.

    Example:

        orcas quota list
    """
    found = ask(where, "GET", "quotas")
    rows = [
        (kind, row[kind], "" if row["bytes"] is None else size(row["bytes"]), _shown(row["objects"]))
        for kind in ("bucket", "owner")
        for row in found[f"{kind}s"]
    ]
    print_found(found, where.as_json, ("Of", "Name", "Bytes", "Objects"), rows, right=2)


def _check_owner(name: str, owner: bool) -> None:
    """Raise UsageError if `name` is to be the id of an owner, and cannot be one."""
    if owner and not _OWNER.fullmatch(name):
        raise UsageError(
            f"{name!r} is no id of an owner, which has 64 hexadecimal digits: `orcas usage --by owner` shows them."
        )


def _kind(owner: bool) -> str:
    return "owner" if owner else "bucket"


def _shown(limit: int | None) -> str:
    return "" if limit is None else str(limit)


def add_to(app: typer.Typer) -> None:
    """Add these commands to `orcas`."""
    app.add_typer(quota_app, name="quota")
