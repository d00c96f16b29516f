"""`orcas table branch`: branches of a warehouse, which the catalog of a server makes, compares, merges and drops."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from orcas.cli.options import Commands, Where
from orcas.cli.output import print_found, tell
from orcas.cli.store.upkeep import opened
from orcas.errors import UsageError

branch_app = Commands(
    help="Branches of a warehouse: change something in all of its tables, and then keep it or throw it away."
)

Branch = Annotated[
    str, typer.Argument(metavar="WAREHOUSE@BRANCH", help="As clients open it. A name has a-z, 0-9, and - in between.")
]


@branch_app.command()
def create(
    branch: Branch,
    *,
    at: Annotated[
        str | None, typer.Option("--at", metavar="SNAPSHOT", help="Begin at this snapshot of the bucket, not now.")
    ] = None,
    where: Where,
) -> None:
    """Make a branch of a warehouse. This takes equally long for any number of tables and files.

    Clients open it as the warehouse WAREHOUSE@BRANCH. What they do there changes nothing in the warehouse.

    Examples:

        orcas table branch create lake@trial

        orcas table branch create lake@may --at month-end
    """
    _ask(where, "POST", branch, order={} if at is None else {"snapshot": at})
    tell({"branch": branch}, f"branch {branch} created", where.as_json)


@branch_app.command("list")
def list_branches(
    warehouse: Annotated[str, typer.Argument(metavar="WAREHOUSE", help="The bucket.")], *, where: Where
) -> None:
    """List the branches of a warehouse.

    Example:

        orcas table branch list lake
    """
    found = _ask(where, "GET", warehouse)
    print_found(found, where.as_json, ("Branch",), [(name,) for name in found["branches"]])


@branch_app.command()
def diff(branch: Branch, *, where: Where) -> None:
    """Show which tables, views and namespaces differ between a branch and its warehouse, and where they were changed.

    Of a table also how many snapshots only one side has, and the rows that these say they have added and removed.

    Example:

        orcas table branch diff lake@trial
    """
    found = _ask(where, "GET", branch, "/changes")
    rows = [
        (
            each["name"],
            each["kind"],
            each["change"],
            each["by"],
            _side(each.get("branch")),
            _side(each.get("warehouse")),
        )
        for each in found["changes"]
    ]
    print_found(found, where.as_json, ("Name", "Kind", "Change", "In", "Branch", "Warehouse"), rows)


@branch_app.command()
def merge(branch: Branch, *, where: Where) -> None:
    """Make the warehouse have what was changed in a branch, table after table.

    Nothing is merged if a table was changed on both sides, or was dropped or renamed in the branch; the command names each.
    If a merge is cut off, another one goes on. The branch stays: drop it, and make another one for more changes.

    Example:

        orcas table branch merge lake@trial
    """
    found = _ask(where, "POST", branch, "/merge")
    names = found["merged"]
    tell(found, f"merged: {', '.join(names)}" if names else "nothing to merge", where.as_json)


@branch_app.command()
def drop(branch: Branch, *, where: Where) -> None:
    """Drop a branch with all that was done in it. This takes equally long for any number of tables and files.

    Example:

        orcas table branch drop lake@trial
    """
    _ask(where, "DELETE", branch)
    tell({"branch": branch}, f"branch {branch} dropped", where.as_json)


def _side(counts: dict[str, int] | None) -> str:
    if counts is None or not counts["snapshots"]:
        return ""
    snapshots = counts["snapshots"]
    return f"{snapshots} snapshot{'s' * (snapshots > 1)}, +{counts['added']} -{counts['removed']} rows"


def _ask(
    where: Where, method: str, warehouse: str, what: str = "", order: dict[str, Any] | None = None
) -> dict[str, Any]:
    """A request to the catalog about a warehouse or a branch.

    Raises:
        UsageError: the path would be another one.
        RefusedError: the answer is an error.
    """
    from orcas.tools.tables import ask

    if not warehouse or "/" in warehouse:
        raise UsageError(f"{warehouse or 'An empty name'} is no name of a warehouse: write WAREHOUSE@BRANCH.")
    with opened(where) as session:
        return ask(session, method, warehouse, what, order)


def add_to(app: typer.Typer) -> None:
    """Add these commands to `orcas table`."""
    app.add_typer(branch_app, name="branch")
