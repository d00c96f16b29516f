"""Assembles all commands, and has those without a module of their own: version and config."""

from __future__ import annotations

import sys
from typing import Annotated, Final

import typer
from typer.models import CommandInfo

from orcas.cli.app import new_app, print_version
from orcas.cli.buckets import moves, origins, quotas, replication, settings, snapshots, tables, usage
from orcas.cli.identities import audit, credentials, export, policies, users
from orcas.cli.identities import keys as access_keys
from orcas.cli.objects import copies as object_copies
from orcas.cli.objects import lists, probe, removal
from orcas.cli.options import AsJson, Commands, among
from orcas.cli.output import print_json, print_table
from orcas.cli.server import (
    aws,
    bench,
    cluster,
    console,
    demo,
    env,
    localstack,
    mc,
    minio,
    running,
    standby,
    status,
    top,
)
from orcas.cli.store import copies, events, imports, inspect, keys, tasks, upkeep
from orcas.errors import UsageError
from orcas.settings.config import SETTINGS, Resolved, closest, resolve, variable_name
from orcas.settings.values import Setting

app = new_app()
config_app = Commands(help="Show the settings.")
app.add_typer(config_app, name="config")

for module in (
    object_copies, lists, removal, probe, env, console, upkeep, inspect, tasks, copies, imports, moves, snapshots, tables,
    keys, events, top, usage, quotas, origins, replication, settings, bench, running, status, standby, cluster, demo, minio,
    localstack, mc, aws, users, access_keys, policies, credentials, export, audit,
):  # fmt: skip
    module.add_to(app)

# Under which heading of the help each command is.
_PANELS: Final = {
    "Server": ("serve", "status", "stop", "run", "cluster", "env", "console", "demo", "top", "bench", "version", "config"),
    "In place of others": ("minio", "localstack", "mc", "aws"),
    "Objects": ("ls", "cp", "cat", "rm", "mb", "rb", "presign", "probe"),
    "Buckets": ("move", "fork", "usage", "snapshot", "table", "quota", "origin", "replication", "settings"),
    "Identities": ("account", "user", "group", "role", "access-key", "policy", "credentials", "identities", "audit"),
    "Store": ("stats", "gc", "compact", "lifecycle", "tasks", "key", "events"),
    "Damage and copies": ("fsck", "scrub", "inspect", "backup", "restore", "standby", "promote", "export", "import"),
}  # fmt: skip


@app.command()
def version(as_json: AsJson = False) -> None:
    """Print the version. With --json, also print the versions of components that belong in a bug report.

    Example:

        orcas version --json
    """
    from orcas.version import versions

    if as_json:
        print_json(versions())
    else:
        print_version()


Name = Annotated[
    str | None,
    typer.Argument(metavar="NAME", autocompletion=among(*SETTINGS), help="Show only this setting, and explain it."),
]


@config_app.command("show")
def config_show(name: Name = None, as_json: AsJson = False) -> None:
    """Print every setting with its value and where the value comes from. Secrets are hidden.

    Examples:

        orcas config show

        orcas config show ORCAS_DURABILITY
    """
    rows = _rows(resolve())
    if name is not None:
        called = name.lower().removeprefix("orcas_")
        rows = [row for row in rows if row[0] == called]
        if not rows:
            raise UsageError(f"{name} is not a setting{closest(name, list(SETTINGS))}")
    if as_json:
        table = {
            found: {"value": value, "source": source, "variable": variable} for found, variable, value, source in rows
        }
        print_json(table)
        return
    shown = [(variable, _in_words(value), source) for _, variable, value, source in rows]
    print_table(("Setting", "Value", "Source"), shown)
    if name is None:
        sys.stdout.write("\n`orcas config show NAME` explains a setting.\n")
    else:
        sys.stdout.write(f"\n{_meaning(SETTINGS[called])}\n")


def _rows(resolved: Resolved) -> list[tuple[str, str, object, str]]:
    rows = []
    for name, setting in SETTINGS.items():
        if setting.variable:
            value = getattr(resolved.settings, name)
            if setting.secret:
                value = None if value is None else "***"
            elif not isinstance(value, (bool, int, float)):
                value = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            rows.append((name, variable_name(name), value, resolved.sources[name]))
    return rows


def _in_words(value: object) -> str:
    return "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)


def _meaning(setting: Setting) -> str:
    """A setting's description and bounds, as one or two sentences."""
    doc = setting.doc.replace("`", "").removesuffix("; see the modes below")
    text = f"{doc[0].upper()}{doc[1:]}."
    if setting.choices:
        text += f" One of {', '.join(setting.choices)}."
    elif setting.low is not None:
        text += f" From {setting.low} to {setting.high} {setting.unit}".rstrip() + "."
    elif setting.requirement:
        text += f" Must be {setting.requirement}."
    return text


def _group() -> None:
    panels = {name: panel for panel, names in _PANELS.items() for name in names}
    order = list(panels)

    def name_of(command: CommandInfo) -> str:
        return str(command.name or getattr(command.callback, "__name__", ""))

    # Panels are in the order of their first commands.
    app.registered_commands.sort(key=lambda command: order.index(name_of(command)))
    for command in app.registered_commands:
        command.rich_help_panel = panels[name_of(command)]
    for group in app.registered_groups:
        group.rich_help_panel = panels[str(group.name)]


_group()
