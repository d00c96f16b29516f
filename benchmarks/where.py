"""Where a request's CPU time goes: `python benchmarks/where.py [REQUEST]… [--json FILE]`.

Samples the server with perf while it answers, and distributes the CPU time of its process over threads and parts by
their samples. Needs Linux with perf, and a release build of Orcas. A part is named after the library or, in the
extension, after the module of the running function; inlined code counts for its caller.
"""

from __future__ import annotations

import argparse
import json
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import load
from processes import UNSCRUBBED, Bare, Orcas, Process, scratch
from small import answer_like, make_bucket, unique

_REPOSITORY = Path(__file__).resolve().parents[1]
_PERF = shutil.which("perf")
_CONNECTIONS = 16
_OBJECTS = 1000
_LARGE = 10 << 20
# Above the timer's frequency, so that samples do not coincide with it.
_SAMPLES_A_SECOND = "4999"
# The first matching pattern names the part: of the function in the extension, else of the library.
_FUNCTIONS = (
    ("SQLite", r"^sqlite3|^(wal|vdbe|pcache|btree|balance|cell|page|pager)[A-Z0-9_]|rusqlite|orcas_index"),
    ("MD5", r"orcas_checksum::md5|^md5"),
    ("SHA-256, HMAC", r"sha2::|hmac::|digest::"),
    ("BLAKE3", r"blake3"),
    ("CRC", r"crc_fast|block_crc|blocks_match"),
    ("hyper, httparse", r"hyper|httparse|^<?http::|http_body"),
    ("tokio", r"tokio|^<?mio::"),
    ("listener", r"orcas_front"),
    ("signature", r"orcas_sigv4"),
    ("Rust to Python", r"pyo3|orcas_core"),
    ("S3 semantics", r"orcas_(s3|http)"),
    ("gateway", r"orcas_(responses|admission|requests|operations|gateway|bodies|event_streams|telemetry)"),
    ("log and packs", r"orcas_(log|chunks|fs)|orcas_base::block"),
    ("engine", r"orcas_(engine|decide|record)|orcas_base::sync"),
    ("Rust, other", r""),
)
_LIBRARIES = (
    ("kernel", r"kernel"),
    ("interpreter", r"libpython|/?python3|_asyncio|_struct|_contextvars"),
    ("uvloop", r"^loop\.|uvloop"),
    ("HTTP parser", r"parser\."),
    ("malloc, memcpy", r"libc\.|ld-linux|vdso"),
    ("other", r""),
)
_THREADS = (
    ("event loop", r"^(python|orcas$)"),
    ("listener", r"^orcas-front"),
    ("workers", r"^orcas-io"),
    ("workers of bodies", r"^orcas-body"),
    ("committer", r"^orcas-commit"),
    ("applier", r"^orcas-apply"),
    ("upkeep", r"^orcas-(upkeep|reclaim|scrub)"),
    ("other", r""),
)


class Load(NamedTuple):
    """Requests of one kind, and how to send a round of them."""

    count: int
    run: Callable[[], None]


class Part(NamedTuple):
    """CPU time of one part of one thread, in microseconds per request."""

    thread: str
    part: str
    microseconds: float


def main() -> int:
    """Profile each kind of request and print its table."""
    parser = argparse.ArgumentParser(description="Show where the CPU time of a request goes.")
    parser.add_argument("request", nargs="*", metavar="REQUEST", help=f"of: {', '.join(_KINDS)}; default: all")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write all parts there")
    arguments = parser.parse_args()
    if unknown := set(arguments.request) - set(_KINDS):
        parser.error(f"no such request: {', '.join(sorted(unknown))}")
    if _PERF is None:
        print("This needs perf, which is not installed here.", file=sys.stderr)
        return 1
    profiles: dict[str, list[Part]] = {}
    for kind in arguments.request or _KINDS:
        profiles[kind] = _profile(kind)
        print(f"\n{kind}: {sum(part.microseconds for part in profiles[kind]):.1f} µs\n\n{_table(profiles[kind])}")
    if arguments.json:
        document = {kind: [part._asdict() for part in parts] for kind, parts in profiles.items()}
        arguments.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0


def _profile(kind: str) -> list[Part]:
    directory = _REPOSITORY / "target" / "benchmarks"
    with scratch(directory) as place, Orcas(place / "data", settings=UNSCRUBBED) as orcas:
        make_bucket(orcas, "small")
        signer = orcas.signer()
        load.run(orcas.address, [signer.put(f"/small/{n:016x}", unique(n)) for n in range(_OBJECTS)], _CONNECTIONS)
        if not kind.startswith("bare-"):
            return _sampled(orcas, _KINDS[kind](orcas, orcas))
        answers = {
            "PUT": answer_like(orcas, signer.put("/small/probe", unique(0))),
            "GET": answer_like(orcas, signer.get("/small/probe")),
        }
        with Bare(answers) as bare:
            return _sampled(bare, _KINDS[kind](orcas, bare))


def _sampled(process: Process, work: Load) -> list[Part]:
    work.run()
    process.settle()
    with tempfile.TemporaryDirectory() as directory:
        samples = Path(directory) / "samples"
        assert _PERF is not None
        perf = subprocess.Popen(
            [_PERF, "record", "-q", "-F", _SAMPLES_A_SECOND, "-o", str(samples), "-p", str(process.pid)]
        )
        time.sleep(1)
        before = process.cpu_ns()
        work.run()
        process.settle()
        microseconds = (process.cpu_ns() - before) / work.count / 1000
        perf.send_signal(2)
        perf.wait()
        command = [_PERF, "report", "-i", str(samples), "-F", "sample,comm,dso,sym", "-t", "|", "--stdio"]
        report = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    counted: dict[tuple[str, str], int] = {}
    for line in report.splitlines():
        if line and not line.startswith("#"):
            number, comm, library, function = (field.strip() for field in line.split("|", 3))
            # perf marks functions of the kernel with [k], others with [.].
            place = _first(_THREADS, comm), _part(library, function[4:])
            counted[place] = counted.get(place, 0) + int(number)
    total = sum(counted.values())
    parts = [Part(*place, microseconds * number / total) for place, number in counted.items()]
    return sorted(parts, key=lambda part: -part.microseconds)


def _part(library: str, function: str) -> str:
    return _first(_FUNCTIONS, function) if library.startswith("_core") else _first(_LIBRARIES, library)


def _first(rules: tuple[tuple[str, str], ...], name: str) -> str:
    return next(what for what, pattern in rules if re.search(pattern, name))


def _table(parts: list[Part]) -> str:
    threads = sorted({part.thread for part in parts}, key=lambda name: -_sum(parts, thread=name))
    names = sorted({part.part for part in parts}, key=lambda name: -_sum(parts, part=name))
    rows = [f"| µs a request | {' | '.join(threads)} | all |", "|---" * (len(threads) + 2) + "|"]
    for name in [*names, None]:
        cells = [_sum(parts, thread=thread, part=name) for thread in threads]
        shown = " | ".join(f"{cell:.1f}" if cell >= 0.05 else "" for cell in [*cells, sum(cells)])
        rows.append(f"| {name or '**all**'} | {shown} |")
    return "\n".join(rows)


def _sum(parts: list[Part], thread: str | None = None, part: str | None = None) -> float:
    chosen = (one for one in parts if thread in (None, one.thread) and part in (None, one.part))
    return sum(one.microseconds for one in chosen)


def _gets(orcas: Orcas, target: Process) -> Load:
    count = 40_000

    def run() -> None:
        signer = orcas.signer()
        load.run(target.address, [signer.get(f"/small/{n % _OBJECTS:016x}") for n in range(count)], _CONNECTIONS)

    return Load(count, run)


def _puts(orcas: Orcas, target: Process) -> Load:
    count, rounds = 20_000, iter(range(1000))

    def run() -> None:
        signer, first = orcas.signer(), _OBJECTS + next(rounds) * count
        puts = [signer.put(f"/small/{n:016x}", unique(n)) for n in range(first, first + count)]
        load.run(target.address, puts, _CONNECTIONS)

    return Load(count, run)


def _lists(orcas: Orcas, target: Process) -> Load:
    count = 2_000
    query = {"list-type": "2", "max-keys": str(_OBJECTS)}

    def run() -> None:
        load.run(target.address, [orcas.signer().get("/small", query)] * count, _CONNECTIONS)

    return Load(count, run)


def _large_gets(orcas: Orcas, target: Process) -> Load:
    count, buffer = 200, bytearray(1 << 20)
    load.upload(orcas.address, orcas.signer().put_head("/small/large", _LARGE), _LARGE)

    def run() -> None:
        request = orcas.signer().get("/small/large")
        with load.connect(target.address) as connected:
            for _ in range(count):
                load.download(connected, request, buffer)

    return Load(count, run)


def _large_puts(orcas: Orcas, target: Process) -> Load:
    count = 60

    def run() -> None:
        for n in range(count):
            load.upload(target.address, orcas.signer().put_head(f"/small/large{n}", _LARGE), _LARGE)

    return Load(count, run)


_KINDS: dict[str, Callable[[Orcas, Process], Load]] = {
    "get": _gets,
    "bare-get": _gets,
    "put": _puts,
    "bare-put": _puts,
    "list": _lists,
    "get-10mib": _large_gets,
    "put-10mib": _large_puts,
}


if __name__ == "__main__":
    sys.exit(main())
