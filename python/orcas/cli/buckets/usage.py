"""`orcas usage`: requests, bytes and GB-months of a period."""

from __future__ import annotations

import csv
import sys
from datetime import date
from typing import Annotated, Any, Final
from urllib.parse import urlencode

import typer

from orcas.cli.options import Where
from orcas.cli.output import print_json, print_table, size
from orcas.cli.store.upkeep import ask
from orcas.errors import UsageError

# Names of columns in tables; whatever else a row has is only in JSON and CSV.
_TITLES: Final = {
    "owner": "Owner", "key": "Access key", "bucket": "Bucket", "day": "Day", "writes": "PUT, LIST", "reads": "GET",
    "free": "DELETE", "received": "In", "sent": "Out", "gb_months": "GB-months", "objects": "Objects",
    "cost": "Cost", "versions": "Versions", "logical": "Logical", "stored": "Stored",
}  # fmt: skip
_SIZES: Final = frozenset({"received", "sent", "logical", "stored"})


def usage(
    since: Annotated[str | None, typer.Option("--since", metavar="DATE", help="First day, as YYYY-MM-DD.")] = None,
    until: Annotated[str | None, typer.Option("--until", metavar="DATE", help="Last day.")] = None,
    by: Annotated[
        str,
        typer.Option(
            "--by", metavar="NAMES", help="One or more of owner, key, bucket and day, comma-separated; or tag:NAME."
        ),
    ] = "bucket",
    as_csv: Annotated[bool, typer.Option("--csv", help="Print comma-separated values and nothing else.")] = False,
    *,
    where: Where,
) -> None:
    """Show usage: requests, bytes in and out, and GB-months of this month or another period.

    With prices in orcas.toml, it also shows the cost. Days are in UTC. Grouped by owner or bucket alone, the table also
    shows what is stored now.

    Examples:

        orcas usage

        orcas usage --by owner,day --since 2026-01-01 --csv
    """
    if as_csv and where.as_json:
        raise UsageError("--csv and --json cannot be used together: give one of them.")
    for option, text in (("--since", since), ("--until", until)):
        _check_day(option, text)
    asked = {name: value for name, value in (("since", since), ("until", until), ("by", by)) if value is not None}
    report = ask(where, "GET", f"usage?{urlencode(asked)}")
    if where.as_json:
        print_json(report)
    elif as_csv:
        _print_csv(report)
    else:
        _print_table(report)


def _check_day(option: str, text: str | None) -> None:
    """Raise UsageError if `text` is no day."""
    try:
        is_day = text is None or date.fromisoformat(text).isoformat() == text
    except ValueError:
        is_day = False
    if not is_day:
        raise UsageError(f"{option} must be a day, as YYYY-MM-DD, not {text!r}.")


def _print_csv(report: dict[str, Any]) -> None:
    rows = report["rows"]
    writer = csv.writer(sys.stdout, lineterminator="\n")
    names = list(rows[0]) if rows else report["by"]
    writer.writerow(names)
    writer.writerows(["" if row[name] is None else row[name] for name in names] for row in rows)


def _print_table(report: dict[str, Any]) -> None:
    rows = report["rows"]
    tags = [name for name in report["by"] if name not in _TITLES]
    shown = tags + [name for name in _TITLES if not rows or name in rows[0]]
    cells = [[_cell(name, row[name]) for name in shown] for row in rows] if rows else []
    print_table([_TITLES.get(name, name) for name in shown], cells, right=len(report["by"]))


def _cell(name: str, value: Any) -> str:
    if value is None:
        return "?"
    if name in _SIZES:
        return size(value)
    return f"{value:.4f}" if name == "cost" else f"{value:.6f}" if isinstance(value, float) else str(value)


def add_to(app: typer.Typer) -> None:
    """Add this command to `orcas`."""
    app.command()(usage)
