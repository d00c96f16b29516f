"""The commands and their help texts."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from orcas.cli import bench, copies, env, upkeep
from orcas.cli.options import AsJson, Data, Host, Port
from orcas.cli.output import print_json, print_table
from orcas.config import SETTINGS, Resolved, Setting, closest, resolve, variable_name
from orcas.errors import UsageError

_EPILOG = "Settings: command line, then ORCAS_* variables, then orcas.toml. `orcas config show` lists them."

app = typer.Typer(
    name="orcas",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=_EPILOG,
    help="""The S3 server that you install with pip.

Start a server, then point any S3 client at it:

    orcas serve --data ~/orcas &
    eval "$(orcas env --data ~/orcas --wait 10)"
    aws s3 mb s3://photos
    aws s3 cp picture.jpg s3://photos/

From Python, for a test or a notebook:

    import orcas
    with orcas.Server(memory=True) as server:
        server.client().create_bucket(Bucket="photos")
""",
)
config_app = typer.Typer(no_args_is_help=True, help="Show the settings.")
app.add_typer(config_app, name="config")

Durability = Annotated[
    str | None,
    typer.Option(
        "--durability",
        metavar="MODE",
        help="What an acknowledged write survives: sync, interval, buffered or unsafe-none.",
    ),
]
DiskReserve = Annotated[
    str | None,
    typer.Option(
        "--disk-reserve", metavar="BYTES", help="Free space below which only reads and deletions are accepted."
    ),
]
Memory = Annotated[bool, typer.Option("--memory", help="Keep the store in memory; it is deleted at exit.")]
Dev = Annotated[bool, typer.Option("--dev", help="Use published keys and listen on loopback only.")]
Salvage = Annotated[
    bool, typer.Option("--salvage", help="Serve what is left of a damaged store, read-only, without changing it.")
]
Report = Annotated[
    str | None,
    typer.Option("--report", metavar="FILE", help="With --salvage: write a JSON list of damaged objects to FILE."),
]
Domain = Annotated[
    list[str] | None,
    typer.Option(
        "--domain", metavar="NAME", help="Also serve buckets as BUCKET.NAME (virtual-hosted style); may be repeated."
    ),
]


def _print_version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


Version = Annotated[bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)]


# Keeps the text above as the help of `orcas`; the docstring of a callback would replace it.
@app.callback(help=app.info.help, epilog=_EPILOG, no_args_is_help=True)
def _options(version: Version = False) -> None:
    assert not version, "its callback ends the command"


@app.command(epilog=_EPILOG)
def serve(
    data: Data = None,
    host: Host = None,
    port: Port = None,
    durability: Durability = None,
    disk_reserve: DiskReserve = None,
    memory: Memory = False,
    dev: Dev = False,
    domain: Domain = None,
    salvage: Salvage = False,
    report: Report = None,
) -> None:
    """Run the server until SIGTERM or Ctrl-C.

    Once the server accepts requests, it prints one line on stdout: `orcas ready http://HOST:PORT`.

    The first start of a store generates a root key and keeps it in the directory of the store. `orcas env` prints it.

    Examples:

        orcas serve                           your own store, on this machine only

        orcas serve --data /srv/s3 --host ::  reachable from other machines

        orcas serve --memory -p 0             a free port, and nothing left behind

        orcas serve --memory --dev            published keys, for trying things out

        orcas serve --salvage                 the intact objects of a damaged store, read-only
    """
    from orcas.cli.serving import serve_command

    overrides = {
        "data": data,
        "host": host,
        "port": port,
        "durability": durability,
        "disk_reserve": disk_reserve,
        "domains": domain or None,
        "memory": memory or None,
        "dev": dev or None,
        "salvage": salvage or None,
    }
    if report is not None and not salvage:
        raise UsageError("--report needs --salvage.")
    serve_command(resolve(overrides).settings, None if report is None else Path(report).expanduser())


env.add_to(app)
upkeep.add_to(app)
copies.add_to(app)
bench.add_to(app)


@app.command()
def version(as_json: AsJson = False) -> None:
    """Print the version. With --json, also print the versions of components that belong in a bug report."""
    from orcas.version import orcas_version, versions

    if as_json:
        print_json(versions())
    else:
        sys.stdout.write(f"orcas {orcas_version()}\n")


Name = Annotated[str | None, typer.Argument(metavar="NAME", help="Show only this setting, and explain it.")]


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
                value = ",".join(value) if isinstance(value, tuple) else str(value)
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
