"""`orcas audit`: who has changed which identities, and whether the log of that is whole."""

from __future__ import annotations

import datetime as dt
import json
import sys
from typing import Annotated, Any

import typer

from orcas.cli.options import AsJson, Commands, Data
from orcas.cli.output import say, tell
from orcas.cli.store.upkeep import settings_of
from orcas.errors import UsageError
from orcas.telemetry.logs import quoted

audit_app = Commands(invoke_without_command=True, no_args_is_help=False)


@audit_app.callback()
def show(
    context: typer.Context,
    since: Annotated[
        str | None, typer.Option("--since", metavar="TIME", help="Only from this day or time on, in UTC.")
    ] = None,
    user: Annotated[
        str | None,
        typer.Option("--user", metavar="NAME", help="Only what this user has changed, or what was about it."),
    ] = None,
    action: Annotated[
        str | None, typer.Option("--action", metavar="NAME", help="Only this action, such as CreateUser.")
    ] = None,
    data: Data = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON, one object a line.")] = False,
) -> None:
    """Show the changes of users, groups, roles, policies and keys, the oldest first.

    Only reads files: the store may be running or stopped.

    Examples:

        orcas audit --since 2026-11-01 --user alice

        orcas audit verify
    """
    if context.invoked_subcommand is not None:
        return
    from orcas.control.files.audit import is_about, is_action, read_audit, unreadable
    from orcas.engine import admit

    directory = settings_of(data).data
    admit(directory)
    begin = None if since is None else _time(since)
    for read in read_audit(directory):
        if (line := read.content) is None:
            raise unreadable(read)
        if begin is not None and dt.datetime.fromisoformat(line["time"]) < begin:
            continue
        if (user is not None and not is_about(line, user)) or not is_action(line, action):
            continue
        if as_json:
            sys.stdout.write(json.dumps(line) + "\n")
        else:
            say(_shown(line))


@audit_app.command("verify")
def verify_log(data: Data = None, as_json: AsJson = False) -> None:
    """Check that no line was changed, added or removed, and that there are as many as `control.db` says.

    Exit code 1: the log is damaged, and the sentence says where. Whoever can write to the directory of the store can write
    another log with another database. Keep the number and the SHA-256 of the last line elsewhere to find that too.

    Example:

        orcas audit verify
    """
    from orcas.control.audit import verify
    from orcas.control.files.lost import is_established
    from orcas.engine import admit

    directory = settings_of(data).data
    admit(directory)
    if not is_established(directory):
        from orcas.control.files import NoStoreError

        raise NoStoreError(directory)
    first, last = verify(directory)
    shown = {"first": first.sequence, "last": last.sequence, "digest": last.digest}
    whole = f"lines {first.sequence} to {last.sequence} are intact; the last one has {last.digest}"
    tell(shown, whole if last.sequence else "there are no lines yet", as_json)


def _time(text: str) -> dt.datetime:
    try:
        found = dt.datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"--since must be a day or a time, not {text}: write 2026-11-01 or 2026-11-01T08:00:00."
        ) from None
    return found if found.tzinfo else found.replace(tzinfo=dt.UTC)


def _shown(line: dict[str, Any]) -> str:
    cut = line.get("cut", {})
    words = [
        f"{name}={quoted(value)}" + (f"… ({cut[name]['bytes']} bytes)" if name in cut else "")
        for name, value in line["parameters"].items()
    ]
    return " ".join([line["time"], line["actor"], line.get("address", "-"), line["action"], *words])


def add_to(app: typer.Typer) -> None:
    """Add these commands to `orcas`."""
    app.add_typer(audit_app, name="audit")
