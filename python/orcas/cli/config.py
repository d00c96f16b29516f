"""`orcas version` and `orcas config`: what is installed, and how it is set."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from orcas.cli.app import print_version
from orcas.cli.options import AsJson, Commands, among
from orcas.cli.output import print_json, print_table
from orcas.errors import UsageError
from orcas.settings.config import SETTINGS, Resolved, closest, resolve, variable_name
from orcas.settings.values import Setting


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(version)
    config = Commands(help="Show the settings.")
    app.add_typer(config, name="config")
    config.command("show")(config_show)


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
