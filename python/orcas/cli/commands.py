"""The commands and their help texts."""

from __future__ import annotations

import json
import shlex
import sys
from typing import Annotated

import typer

from orcas.cli import bench, copies, upkeep
from orcas.config import SETTINGS, Resolved, client_environment, resolve, variable_name

_EPILOG = "Settings: command line, then ORCAS_* variables, then orcas.toml. `orcas config show` lists them."

app = typer.Typer(
    name="orcas",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="markdown",
    epilog=_EPILOG,
    help="""The S3 server that one installs with pip.

Start a server, then point any S3 client at it:

    orcas serve --data ~/orcas &
    eval "$(orcas env --data ~/orcas)"
    aws s3 mb s3://photos
    aws s3 cp picture.jpg s3://photos/

From Python, for a test or a notebook:

    with orcas.Server(memory=True) as s3: s3.client().create_bucket(Bucket="b")
""",
)
config_app = typer.Typer(no_args_is_help=True, help="Look at the settings.")
app.add_typer(config_app, name="config")

# Values stay text here: orcas.config checks them, wherever they come from, in the same words.
Data = Annotated[str | None, typer.Option("--data", metavar="DIR", help="Directory that holds the store.")]
Host = Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="Address to listen on.")]
Port = Annotated[str | None, typer.Option("--port", metavar="PORT", help="Port to listen on; 0 picks a free one.")]
Durability = Annotated[
    str | None,
    typer.Option(
        "--durability", metavar="MODE", help="sync, interval, buffered or unsafe-none: what a write survives."
    ),
]
DiskReserve = Annotated[
    str | None,
    typer.Option("--disk-reserve", metavar="BYTES", help="Free space under which only reads and deletions are served."),
]
Memory = Annotated[bool, typer.Option("--memory", help="Keep the store in memory; it is gone at exit.")]
Dev = Annotated[bool, typer.Option("--dev", help="Fixed keys, on loopback only.")]
Domain = Annotated[
    list[str] | None,
    typer.Option("--domain", metavar="NAME", help="Serve BUCKET.NAME too (virtual-hosted style); may be repeated."),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


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
) -> None:
    """Run the server until SIGTERM or Ctrl-C.

    Prints one line on stdout once requests are accepted: `orcas ready http://HOST:PORT`.

    A root key is generated on the first start of a store and kept in its directory, in root.json.

    Examples:

        orcas serve                           your own store, on this machine only

        orcas serve --data /srv/s3 --host ::  reached from other machines

        orcas serve --memory --port 0         a free port, nothing left behind

        orcas serve --dev                     published keys, for trying things out
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
    }
    serve_command(resolve(overrides).settings)


@app.command()
def env(data: Data = None, host: Host = None, port: Port = None, dev: Dev = False) -> None:
    """Print the export lines that point AWS clients at the server, with the root key.

    Example:

        eval "$(orcas env)" && aws s3 ls
    """
    from orcas.control.address import reachable
    from orcas.control.root import read_root

    settings = resolve({"data": data, "host": host, "port": port, "dev": dev or None}).settings
    access_key, secret_key = read_root(settings.data, settings.root_access_key, settings.root_secret_key)
    reached = reachable(settings.host)
    url = f"http://[{reached}]:{settings.port}" if ":" in reached else f"http://{reached}:{settings.port}"
    for name, value in client_environment(url, access_key, secret_key, settings.region).items():
        sys.stdout.write(f"export {name}={shlex.quote(value)}\n")


upkeep.add_to(app)
copies.add_to(app)
bench.add_to(app)


@app.command()
def version(as_json: AsJson = False) -> None:
    """Print the version; with --json, also those of the parts that an error report should name."""
    from orcas.version import orcas_version, versions

    sys.stdout.write(f"{json.dumps(versions(), indent=2)}\n" if as_json else f"orcas {orcas_version()}\n")


@config_app.command("show")
def config_show(as_json: AsJson = False) -> None:
    """Print every setting, its value, and where the value comes from. Secrets are not shown."""
    resolved = resolve()
    if as_json:
        table = {
            name: {"value": value, "source": source, "variable": variable}
            for name, variable, value, source in _rows(resolved)
        }
        sys.stdout.write(json.dumps(table, indent=2) + "\n")
    else:
        _print_table(resolved)


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


def _print_table(resolved: Resolved) -> None:
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False)
    for title in ("Setting", "Value", "Source", "Meaning"):
        table.add_column(title, overflow="fold")
    for name, variable, value, source in _rows(resolved):
        doc = SETTINGS[name].doc
        shown = "" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
        # Text: paths may hold what rich would take for markup.
        table.add_row(Text(variable), Text(shown), Text(source), Text(doc))
    # Off a terminal a line is a setting, however long.
    Console(width=None if sys.stdout.isatty() else 240).print(table)
