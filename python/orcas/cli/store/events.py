"""Commands for the targets of events: events targets, dead, resend and discard."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import quote

import typer

from orcas.cli.options import Commands, Where
from orcas.cli.output import print_found, tell
from orcas.cli.store.upkeep import ask

events_app = Commands(help="Targets of events, and their dead letters.")

Name = Annotated[str, typer.Argument(metavar="TARGET", help="The name of a target, as in the file of targets.")]


@events_app.command()
def targets(*, where: Where) -> None:
    """List the targets of a running server, with their deliveries and failures.

    Example:

        orcas events targets
    """
    found = ask(where, "GET", "targets")
    rows = [
        (row["name"], row["type"], row["address"], str(row["delivered"]), str(row["dead"]), row["failing"] or "")
        for row in found["targets"]
    ]
    print_found(found, where.as_json, ("Target", "Type", "Address", "Delivered", "Dead letters", "Failing"), rows)


@events_app.command()
def dead(name: Name, *, where: Where) -> None:
    """List the oldest dead letters of TARGET: events that could not be delivered to it.

    Example:

        orcas events dead hook
    """
    found = ask(where, "GET", f"targets/{quote(name, safe='')}/dead")
    rows = [(row["time"], row["bucket"], row["key"], str(row["attempts"]), row["reason"]) for row in found["dead"]]
    print_found(found, where.as_json, ("Last attempt", "Bucket", "Key", "Attempts", "Reason"), rows)


@events_app.command()
def resend(name: Name, *, where: Where) -> None:
    """Try the dead letters of TARGET once more, the oldest first, until one fails.

    Example:

        orcas events resend hook
    """
    found = ask(where, "POST", f"targets/{quote(name, safe='')}/resend", {})
    tell(found, f"{found['resent']} dead letters are sent again to {name}", where.as_json)


@events_app.command()
def discard(name: Name, *, where: Where) -> None:
    """Discard all dead letters of TARGET. They cannot be sent again.

    Example:

        orcas events discard hook
    """
    found = ask(where, "POST", f"targets/{quote(name, safe='')}/discard", {})
    tell(found, f"{found['discarded']} dead letters of {name} are gone", where.as_json)


def add_to(app: typer.Typer) -> None:
    """Add these commands to `orcas`."""
    app.add_typer(events_app, name="events")
