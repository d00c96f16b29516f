"""`orcas bench`: puts a load on a server and prints the results as tables."""

from __future__ import annotations

import signal
import tomllib
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from orcas.cli.options import AsJson
from orcas.cli.output import print_found, print_json, print_table, steps
from orcas.errors import OrcasError, UsageError

if TYPE_CHECKING:
    from orcas.bench.servers import Keys, Wanted

_ROUNDS_COMPARED = 6
_SHOWN_MAX = 12
_MIB = 1 << 20


Endpoint = Annotated[
    str, typer.Argument(metavar="ENDPOINT", help="http://HOST:PORT, or own to start a server for the run.")
]
Named = Annotated[
    str, typer.Option("--workload", metavar="NAME|FILE", help="The workload to run; --list shows the names.")
]
Connections = Annotated[
    int | None, typer.Option("--connections", metavar="N", help="Number of concurrent connections.")
]
Threads = Annotated[int | None, typer.Option("--threads", metavar="N", help="Threads of the load generator.")]
Count = Annotated[int | None, typer.Option("--count", metavar="N", help="Operations in each case.")]
Seconds = Annotated[
    float | None, typer.Option("--seconds", metavar="S", help="Duration of each case, instead of --count.")
]
Size = Annotated[str | None, typer.Option("--size", metavar="SIZE", help="Size of the objects, such as 64KiB.")]
Fields = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="FIELD=VALUE", help="Set a field of the workload, such as content=identical."),
]
Against = Annotated[
    list[str] | None,
    typer.Option("--against", metavar="URL", help="Compare with this server, or with own; may be repeated."),
]
Rounds = Annotated[
    int | None,
    typer.Option(
        "--rounds", metavar="N", min=1, max=100, help="Rounds in which each case is measured: 1, or 6 with --against."
    ),
]
AccessKey = Annotated[str | None, typer.Option("--access-key", metavar="KEY", help="Access key for ENDPOINT.")]
SecretKey = Annotated[str | None, typer.Option("--secret-key", metavar="SECRET", help="Secret key for ENDPOINT.")]
AgainstAccessKey = Annotated[
    str | None,
    typer.Option("--against-access-key", metavar="KEY", help="Access key for the other servers, if it differs."),
]
AgainstSecretKey = Annotated[
    str | None, typer.Option("--against-secret-key", metavar="SECRET", help="Secret key for the other servers.")
]
Region = Annotated[str | None, typer.Option("--region", metavar="REGION", help="Region used in signatures.")]
ServerPid = Annotated[
    list[int] | None,
    typer.Option("--server-pid", metavar="PID", help="Process whose CPU time counts for ENDPOINT; default: detected."),
]
Data = Annotated[
    str | None,
    typer.Option("--data", metavar="DIR", help="Directory for the temporary stores of servers that the run starts."),
]
Listed = Annotated[bool, typer.Option("--list", help="List the built-in workloads.")]


def bench(
    endpoint: Endpoint = "own",
    workload: Named = "operations",
    connections: Connections = None,
    threads: Threads = None,
    count: Count = None,
    seconds: Seconds = None,
    size: Size = None,
    field: Fields = None,
    against: Against = None,
    rounds: Rounds = None,
    access_key: AccessKey = None,
    secret_key: SecretKey = None,
    against_access_key: AgainstAccessKey = None,
    against_secret_key: AgainstSecretKey = None,
    region: Region = None,
    server_pid: ServerPid = None,
    data: Data = None,
    list_workloads: Listed = False,
    as_json: AsJson = False,
) -> None:
    """Measure any S3 server with requests over many connections, and check every byte of the answers.

    Without ENDPOINT, the command starts a server with a temporary store, measures it, and removes both. On another
    server, it creates a bucket for the run and removes it afterwards; it touches no other bucket. Keys come from the
    options, else from AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, else from `orcas env`. TLS (https://) is not
    supported.

    Each connection sends the next request as soon as the last one is answered. Nothing is retried. Latencies count only
    correct answers. Exit code 1: an operation failed, or an answer was wrong.

    Examples:

        orcas bench

        orcas bench http://127.0.0.1:9000 --workload batch-write --seconds 5

        orcas bench --workload mixed --connections 50 --set payload=unsigned --json

        orcas bench http://127.0.0.1:9000 --against own --workload reads-1mib
    """
    if list_workloads:
        _print_workloads(as_json)
        return
    from orcas.bench.measure import run
    from orcas.bench.servers import Keys
    from orcas.bench.workload import read_workload

    overrides: dict[str, Any] = {"connections": connections, "threads": threads, "count": count, "seconds": seconds}
    overrides = {name: value for name, value in {**overrides, "size": size}.items() if value is not None}
    plan = read_workload(workload, _fields(field or []) | overrides)
    keys = Keys(access_key=access_key, secret_key=secret_key, region=region)
    others = Keys(access_key=against_access_key, secret_key=against_secret_key, region=region)
    wanted = _wanted(endpoint, keys, server_pid or [], against or [], others)
    place = None if data is None else Path(data).expanduser()
    # So that SIGTERM still removes everything the run has created.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    with steps(shown=not as_json) as advance:
        document = run(plan, wanted, rounds or (_ROUNDS_COMPARED if against else 1), place, advance)
    if as_json:
        print_json(document)
    else:
        _print_document(document)
    if not document["ok"]:
        raise OrcasError(_in_words(document))


def _in_words(document: dict[str, Any]) -> str:
    """Explain why a run is not a valid measurement."""
    results = [result for case in document["cases"] for result in case["servers"]]
    failed, wrong = (sum(result[name] for result in results) for name in ("errors", "wrong"))
    if failed or wrong:
        return f"{failed} operations failed and {wrong} answers were wrong: see the report for details."
    return "The run is not a valid measurement: see the report for details."


def _wanted(endpoint: str, keys: Keys, pids: list[int], against: list[str], others: Keys) -> list[Wanted]:
    """The servers of a run. The others are compared with the first."""
    from orcas.bench.servers import Keys, Wanted, check_url

    theirs = keys if others == Keys(region=keys.region) else others
    first = Wanted(url=check_url(endpoint), keys=keys, pids=tuple(pids))
    return [first, *(Wanted(url=check_url(url), keys=theirs) for url in against)]


def _fields(given: list[str]) -> dict[str, Any]:
    """Parse each value as TOML. A value that is not valid TOML is text."""
    fields: dict[str, Any] = {}
    for entry in given:
        name, equals, text = entry.partition("=")
        if not equals or not name.strip():
            raise UsageError(f"--set needs FIELD=VALUE, not {entry}.")
        try:
            fields |= {name.strip(): tomllib.loads(f"value = {text}")["value"]}
        except tomllib.TOMLDecodeError:
            fields[name.strip()] = text.strip()
    return fields


def _print_workloads(as_json: bool) -> None:
    from orcas.bench.workload import built_in, read_workload

    read = [read_workload(name) for name in built_in()]
    document = {found.name: {"description": found.description, "cases": len(found.cases)} for found in read}
    rows = [(found.name, len(found.cases), found.description) for found in read]
    print_found(document, as_json, ("Workload", "Cases", "Requests"), rows)


def _print_document(document: dict[str, Any]) -> None:
    several = len(document["cases"][0]["servers"]) > 1
    rows, costs, notes = [], [], []
    for case in document["cases"]:
        for at, result in enumerate(case["servers"]):
            which = [chr(ord("A") + at)] if several else []
            rows += [[case["name"], *which, *row] for row in _operations(result)]
            costs.append([case["name"], *which, *_costs(result)])
            label = " ".join([case["name"], *which])
            notes += [f"{label}: {line}" for line in _lines(result)]
    server = ["Server"] if several else []
    columns = ("Done", "per s", "MiB/s", "p50 ms", "p90", "p99", "p99.9", "max", "Failed", "Wrong")
    print_table(["Case", *server, "Operation", *columns], rows, right=2 + several)
    processor = ("Operations/s", "Load: CPU µs each", "Server: CPU µs each")
    print_table(["Case", *server, *processor], costs, right=1 + several)
    if several:
        _print_comparisons(document)
    for line in notes:
        typer.echo(line)


def _operations(result: dict[str, Any]) -> list[list[str]]:
    rows = []
    for name, operation in result["total"]["operations"].items():
        latency = operation["latency_ms"] or {}
        quantiles = [f"{latency[at]:.3g}" if latency else "" for at in ("p50", "p90", "p99", "p999", "max")]
        rates = [f"{operation['operations_per_second']:.0f}", f"{operation['bytes_per_second'] / _MIB:.1f}"]
        failed = sum(operation["errors"].values())
        rows.append(
            [name, str(operation["done"]), *rates, *quantiles, str(failed or ""), str(operation["wrong"] or "")]
        )
    return rows


def _costs(result: dict[str, Any]) -> list[str]:
    total = result["total"]
    each = (total["client_cpu_us_per_operation"], total["server_cpu_us_per_operation"])
    return [
        f"{total['operations_per_second']:.0f}",
        *("unknown" if value is None else f"{value:.0f}" for value in each),
    ]


def _lines(result: dict[str, Any]) -> list[str]:
    """Notes on what the tables do not show."""
    total, read_back = result["total"], result["read_back"] or {}
    lines = []
    for name, operation in total["operations"].items():
        lines += [f"{name} failed {count} times: {error}" for error, count in operation["errors"].items()]
    lines += [f"reading back failed {count} times: {error}" for error, count in read_back.get("errors", {}).items()]
    lines += [f"WRONG: {what}" for what in total["wrong_examples"]]
    lines += [f"WRONG when read back: {what}" for what in read_back.get("wrong_examples", [])]
    if total["given_up"]:
        lines.append(f"{total['given_up']} connections were given up: the server could no longer be reached")
    if not total["done"]:
        lines.append("no operation was completed")
    processes = ", ".join(f"{process['name']} ({process['pid']})" for process in result["server"]["processes"])
    if processes and not result["server"]["own"]:
        lines.append(f"the CPU time of the server is that of {processes}")
    return [
        *lines[:_SHOWN_MAX],
        *(["there are more lines: --json shows all of them"] if len(lines) > _SHOWN_MAX else []),
        *result["notes"],
    ]


def _print_comparisons(document: dict[str, Any]) -> None:
    rows = []
    for case in document["cases"]:
        for at, comparison in enumerate(case["comparisons"], start=1):
            for name, found in comparison["ratios"].items():
                interval = "" if found["low"] is None else f"{found['low']:.3g} to {found['high']:.3g}"
                rows.append([case["name"], f"{chr(ord('A') + at)} ÷ A", name, f"{found['ratio']:.3g}", interval])
    print_table(("Case", "", "Figure", "Ratio", "95 % interval"), rows, right=3)
    urls = [result["server"]["url"] for result in document["cases"][0]["servers"]]
    typer.echo(", ".join(f"{chr(ord('A') + at)} is {url}" for at, url in enumerate(urls)))


def add_to(app: typer.Typer) -> None:
    """Add this command to `orcas`."""
    app.command()(bench)
