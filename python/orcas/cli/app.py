"""The `orcas` command and its first subcommand, `serve`, which imports no other: a start waits for every import."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from orcas.cli.options import DURABILITIES, Commands, Data, Host, Port, among
from orcas.errors import UsageError
from orcas.settings.config import resolve

_EPILOG = "Settings: command line, then ORCAS_* variables, then orcas.toml. `orcas config show` lists them."
_HELP = """The S3 server that you install with pip.

Start a server, then point any S3 client at it:

    orcas serve &
    eval "$(orcas env --wait 10)"
    aws s3 mb s3://photos
    aws s3 cp picture.jpg s3://photos/

From Python, for a test or a notebook:

    import orcas
    with orcas.Server(memory=True) as server:
        server.client().create_bucket(Bucket="photos")
"""

Durability = Annotated[
    str | None,
    typer.Option(
        "--durability",
        metavar="MODE",
        autocompletion=among(*DURABILITIES),
        help="What an acknowledged write survives: sync, interval, buffered or unsafe-none (default: sync).",
    ),
]
DiskReserve = Annotated[
    str | None,
    typer.Option(
        "--disk-reserve",
        metavar="BYTES",
        help="Free space below which nothing that adds content is accepted (default: 268435456).",
    ),
]
Memory = Annotated[bool, typer.Option("--memory", help="Keep the store in memory; it is deleted at exit.")]
Dev = Annotated[bool, typer.Option("--dev", help="Use published keys and listen on loopback only.")]
SelfSigned = Annotated[
    bool, typer.Option("--tls-self-signed", "--tls", help="Speak TLS with a generated certificate, for development.")
]
Acme = Annotated[
    list[str] | None,
    typer.Option(
        "--acme", metavar="NAME", help="Get a certificate for this host name by ACME, and renew it; may be repeated."
    ),
]
AcceptTerms = Annotated[
    bool, typer.Option("--acme-accept-terms", help="Accept the terms of service of the CA, such as Let's Encrypt.")
]
AnyDate = Annotated[
    bool, typer.Option("--any-date", help="Accept signatures of any date, for tests that have a clock of their own.")
]
ClusterLog = Annotated[
    str | None,
    typer.Option(
        "--log", metavar="URL", help="Be a node of the cluster that shares this log: s3://… or postgresql://…"
    ),
]
NodeUrl = Annotated[
    str | None,
    typer.Option("--node-url", metavar="URL", help="With --log: the address at which the other nodes reach this one."),
]
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
Warehouse = Annotated[
    str | None,
    typer.Option(
        "--warehouse", metavar="BUCKET", help="Make this bucket a warehouse of tables, and create it if missing."
    ),
]


def _print_version(asked: bool) -> None:
    if asked:
        print_version()
        raise typer.Exit


Version = Annotated[
    bool, typer.Option("--version", "-V", help="Print the version.", callback=_print_version, is_eager=True)
]


def print_version() -> None:
    """Print name and version on one line."""
    from orcas.version import orcas_version

    sys.stdout.write(f"orcas {orcas_version()}\n")


def new_app() -> typer.Typer:
    """`orcas` with `serve` alone; `orcas.cli.commands` adds the rest."""
    app = Commands(
        name="orcas",
        pretty_exceptions_enable=False,
        rich_markup_mode="markdown",
        context_settings={"help_option_names": ["-h", "--help"]},
        epilog=_EPILOG,
    )
    # With the text given here: the docstring of a callback would be the help otherwise.
    app.callback(help=_HELP, epilog=_EPILOG, no_args_is_help=True)(_options)
    app.command(epilog=_EPILOG)(serve)
    return app


def _options(version: Version = False) -> None:
    assert not version, "its callback ends the command"


def serve(
    data: Data = None,
    host: Host = None,
    port: Port = None,
    durability: Durability = None,
    disk_reserve: DiskReserve = None,
    memory: Memory = False,
    dev: Dev = False,
    tls_self_signed: SelfSigned = False,
    acme: Acme = None,
    acme_accept_terms: AcceptTerms = False,
    any_date: AnyDate = False,
    domain: Domain = None,
    log: ClusterLog = None,
    node_url: NodeUrl = None,
    warehouse: Warehouse = None,
    salvage: Salvage = False,
    report: Report = None,
) -> None:
    """Run the server until SIGTERM or Ctrl-C.

    Once the server accepts requests, it prints one line on stdout: `orcas ready http://HOST:PORT`, or https:// with TLS.

    The first start of a store generates a root key and keeps it in the directory of the store. `orcas env` prints it.

    Examples:

        orcas serve                           your own store, on this machine only

        orcas serve --data /srv/s3 --host ::  reachable from other machines

        orcas serve --memory -p 0             a free port, and nothing left behind

        orcas serve --memory --dev            published keys, for trying things out

        orcas serve --log s3://logs/orcas --node-url http://a:9000   a node of a cluster

        orcas serve --salvage                 the intact objects of a damaged store, read-only
    """
    from orcas.cli.server.serving import serve_command

    overrides = {
        "data": data,
        "host": host,
        "port": port,
        "durability": durability,
        "disk_reserve": disk_reserve,
        "domains": domain or None,
        "memory": memory or None,
        "dev": dev or None,
        "tls_self_signed": tls_self_signed or None,
        "acme": ",".join(acme) if acme else None,
        "acme_accept_terms": acme_accept_terms or None,
        "any_date": any_date or None,
        "cluster_log": log,
        "cluster_url": node_url,
        "warehouse": warehouse,
        "salvage": salvage or None,
    }
    if report is not None and not salvage:
        raise UsageError("--report needs --salvage: give both or neither.")
    serve_command(resolve(overrides), None if report is None else Path(report).expanduser())
