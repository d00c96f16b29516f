"""The benchmarks of Orcas: `python benchmarks/run.py [--only NAME]… [--quick] [--json FILE]`.

Needs Orcas in a release build, with the extra `bench`, and cargo. docs/benchmarks.md says what each figure means.
"""

from __future__ import annotations

import argparse
import datetime as dt
import importlib.metadata
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import batch
import cluster
import console
import contention
import denials
import engine
import faults
import headers
import imports
import index
import large
import layers
import lifecycle
import listeners
import origins
import policies
import pooling
import protocols
import replication
import sealing
import sharing
import small
import space
import standby
import startup
import streams
import tls
import trees
import versions
import warehouses
import watching
from figures import Figure, Measurement, Plan, table

_REPOSITORY = Path(__file__).resolve().parents[1]
_MEASUREMENTS: dict[str, Measurement] = {
    "cpu": small.cpu,
    "header-values": headers.values,
    "headers": headers.requests,
    "commit": engine.commit,
    "batch": batch.engine,
    "batch-server": batch.server,
    "pooling": pooling.allocations,
    "pooling-server": pooling.server,
    "sealing": sealing.server,
    "sealing-calls": sealing.calls,
    "p99": small.puts_beside_uploads,
    "get-p99": small.gets_beside_uploads,
    "stalled": contention.stalled_uploads,
    "unread": contention.unread_downloads,
    "get-10mib": large.throughput,
    "get-10mib-nginx": large.sendfile,
    "put-10mib": large.upload_cost,
    "memory": large.memory,
    "listener": listeners.cpu,
    "connections": listeners.memory,
    "passed-on": listeners.passed_on,
    "thousands": small.thousands,
    "http2": protocols.http2,
    "processors": protocols.processors,
    "tls": tls.cost,
    "policies": policies.cpu,
    "key-changes": policies.changes,
    "users": policies.crowd,
    "denials": denials.told_apart,
    "imports": imports.rate,
    "origin-hits": origins.hits,
    "replication-lag": replication.lag,
    "replication-rate": replication.rate,
    "replication-puts": replication.puts,
    "table-commits": warehouses.commits,
    "table-loads": warehouses.loads,
    "branches": warehouses.branches,
    "catalog": warehouses.fixture,
    "ready": startup.ready,
    "first-use": startup.first_use,
    "million": index.million,
    "sharing": sharing.overhead,
    "repeated": sharing.repeated,
    "instant": sharing.without_bytes,
    "edited": sharing.edited,
    "compaction": space.beside_compaction,
    "space": space.freed,
    "fsck": space.check,
    "lifecycle": lifecycle.expirations,
    "lifecycle-rules": lifecycle.requests,
    "forks": layers.forks,
    "forks-of-versions": layers.versioned_forks,
    "snapshot-list": layers.versioned_lists,
    "deleted-versions": layers.deleted_versions,
    "prefix-move": layers.moves,
    "version-put": versions.puts,
    "version-list": versions.lists,
    "watching": watching.cost,
    "watching-calls": watching.calls,
    "metrics-page": watching.page,
    "console-first": console.first,
    "console-folders": console.folders,
    "console-search": console.search,
    "console-loop": console.loop,
    "console-live": console.live,
    "console-paint": console.paint,
    "faults": faults.unmatched,
    "events-parse": streams.parsing,
    "events-latency": streams.latency,
    "standby": standby.lag,
    "cluster": cluster.cluster,
    "events-listeners": streams.listeners,
    "events-deletes": contention.deletes_with_listeners,
}


def main() -> int:
    """Measure, print the table, and write the JSON file if one is requested."""
    arguments = _parser().parse_args()
    plan = Plan(arguments.quick, arguments.directory, _REPOSITORY, arguments.fsck_gib)
    figures: list[Figure] = []
    found = circumstances(plan, arguments.cargo_profile)
    for name in arguments.only or _MEASUREMENTS:
        started = time.monotonic()
        made = _MEASUREMENTS[name](plan)
        figures += made
        print(
            f"{table(made, judged=not plan.quick)}\n{name} took {time.monotonic() - started:.0f} s\n",
            file=sys.stderr,
            flush=True,
        )
    found["load_after"] = os.getloadavg()
    if plan.quick:
        print("A quick pass shows that the benchmarks run. Its figures say nothing about the goals.")
    print(table(figures, judged=not plan.quick))
    if arguments.json:
        document = {"circumstances": found, "figures": [figure.document() for figure in figures]}
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description="Measure Orcas beside what bounds it, in interleaved rounds.")
    parser.add_argument("--only", action="append", choices=_MEASUREMENTS, help="measure only this; may be repeated")
    parser.add_argument("--quick", action="store_true", help="a small pass that shows that everything runs")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all rounds and the circumstances there")
    parser.add_argument(
        "--cargo-profile",
        default="unknown",
        metavar="NAME",
        help="how the installed Orcas was built, for the JSON file: only figures of a release say how fast it is",
    )
    parser.add_argument("--fsck-gib", type=int, default=10, metavar="N", help="size of the store that fsck reads")
    parser.add_argument(
        "--directory",
        type=Path,
        default=_REPOSITORY / "target" / "benchmarks",
        help="where stores are made: on the disk to be measured, never in memory (default: target/benchmarks)",
    )
    return parser


def circumstances(plan: Plan, cargo_profile: str) -> dict[str, Any]:
    """The circumstances that matter when two files are compared."""

    def said(*command: str) -> str:
        return subprocess.run(
            command, cwd=plan.repository, stdout=subprocess.PIPE, text=True, check=False
        ).stdout.strip()

    models = [line.split(":")[1].strip() for line in _lines("/proc/cpuinfo") if line.startswith("model name")]
    packages = ("orcas-s3", "uvicorn", "uvloop", "httptools", "fastapi")
    return {
        "at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "commit": trees.describe(plan.repository),
        "quick": plan.quick,
        "cargo_profile": cargo_profile,
        "cpu": models[0] if models else platform.processor(),
        "cpus": os.cpu_count(),
        "memory_mib": os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") >> 20,
        "kernel": f"{platform.system()} {platform.release()}",
        "file_system": said("stat", "-f", "-c", "%T", str(plan.repository)),
        "load_before": os.getloadavg(),
        "python": platform.python_version(),
        "rust": said("rustc", "--version"),
        "packages": {name: importlib.metadata.version(name) for name in packages},
        "durability": "sync, except where a figure says otherwise",
        "concurrency": "1 connection, except where a figure says otherwise; 16 for get-cpu and put-cpu",
    }


def _lines(path: str) -> list[str]:
    try:
        return Path(path).read_text().splitlines()
    except OSError:
        return []


if __name__ == "__main__":
    sys.exit(main())
