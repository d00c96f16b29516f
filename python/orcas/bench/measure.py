"""A run: every case on every server, in turn in every round, and the document with the results."""

from __future__ import annotations

import contextlib
import dataclasses
import datetime as dt
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from orcas.bench.bucket import Bucket
from orcas.bench.compare import ratio
from orcas.bench.processes import cpu_seconds, settle
from orcas.bench.servers import Reached, Wanted, machine, running
from orcas.bench.workload import Case, Workload
from orcas.engine import Load
from orcas.errors import OrcasError
from orcas.process.descriptors import allow_files
from orcas.version import orcas_version

if TYPE_CHECKING:
    from orcas.engine import LoadReport, LoadTarget, LoadWorkload

FORMAT: Final = "orcas-bench/1"
# What is under way, how far it is, and how far it goes.
Advance = Callable[[str, float, float], None]

_TIMEOUT_SECONDS: Final = 60.0
_POLL_MS: Final = 100
# Above this share of its threads' time the load, not the server, may be what bounds a figure.
_BUSY_SHARE: Final = 0.8


@dataclass
class _Side:
    """A server in one case."""

    server: Reached
    bucket: Bucket
    load: Load
    rounds: list[dict[str, Any]] = field(default_factory=list)

    def run(self, case: Case, what: str, advance: Advance) -> None:
        """Run one round."""
        before = cpu_seconds(self.server.pids)
        if case.count is not None:
            self.load.run_count(case.count)
        else:
            self.load.run_seconds(case.seconds or 0.0, counts=True)
        report = _finish(self.load, what, advance, case.count, case.seconds)
        settle(self.server.pids)
        after = cpu_seconds(self.server.pids)
        used = None if before is None or after is None else after - before
        self.rounds.append(_figures(report, used))


def run(workload: Workload, wanted: list[Wanted], rounds: int, place: Path | None, advance: Advance) -> dict[str, Any]:
    """Measure all cases of a workload; the servers in turn, in every other round in the opposite order.

    Returns:
        A document of plain values: `format`, what was measured and where, and for each case and server the figures of
        each round and of all together. `ok` is false when an operation failed or an answer was wrong.

    Raises:
        OrcasError: a server cannot be had, or a case cannot be prepared.
    """
    circumstances = {
        "format": FORMAT,
        "orcas": orcas_version(),
        "at": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        "machine": machine(),
        "workload": {"name": workload.name, "description": workload.description},
        "rounds": rounds,
    }
    allow_files()
    cases = [_case(case, wanted, rounds, place, advance) for case in workload.cases]
    return {**circumstances, "ok": all(case["ok"] for case in cases), "cases": cases}


def _case(case: Case, wanted: list[Wanted], rounds: int, place: Path | None, advance: Advance) -> dict[str, Any]:
    with contextlib.ExitStack() as stack:
        sides = [stack.enter_context(_side(case, server, place)) for server in wanted]
        for side in sides:
            _prepare(case, side, advance)
        for turn in range(rounds):
            for side in sides if turn % 2 == 0 else reversed(sides):
                what = f"{case.name}, round {turn + 1} of {rounds}" if rounds > 1 else case.name
                side.run(case, f"{what}, {side.server.url}" if len(sides) > 1 else what, advance)
        results = [_result(case, side, advance) for side in sides]
    # Whether something was left behind is known only when the buckets are closed.
    for side, result in zip(sides, results, strict=True):
        result["bucket_left"] = side.bucket.name if side.bucket.left else None
        if side.bucket.left:
            result["notes"].append(f"the bucket {side.bucket.name} could not be removed: {side.bucket.left}")
            result["ok"] = False
    return {
        "name": case.name,
        **_plan(case),
        "ok": all(result["ok"] for result in results),
        "servers": results,
        "comparisons": [_comparison(results[0], other) for other in results[1:]],
    }


@contextlib.contextmanager
def _side(case: Case, wanted: Wanted, place: Path | None) -> Iterator[_Side]:
    with running(wanted, case.server, place) as server:
        bucket = Bucket(server)
        with bucket.made():
            load = Load(_target(server, bucket), _workload(case))
            try:
                yield _Side(server, bucket, load)
            finally:
                # Nothing is written any more when the bucket is emptied.
                load.stop()
                with contextlib.suppress(RuntimeError):
                    load.finish()


def _target(server: Reached, bucket: Bucket) -> LoadTarget:
    return {
        "address": server.address,
        "port": server.port,
        "host": server.host,
        "bucket": bucket.name,
        "region": server.region,
        "access_key": server.access_key,
        "secret_key": server.secret_key,
        "session_token": server.session_token,
        "timeout_sec": _TIMEOUT_SECONDS,
    }


def _workload(case: Case) -> LoadWorkload:
    return {
        "connections": case.connections,
        "threads": case.threads,
        "mix": list(case.mix.items()),
        "sizes": list(case.size.weighted),
        "size_range": case.size.range,
        "keys": case.keys,
        "overwrite": case.overwrite,
        "identical": case.content == "identical",
        "signed_payload": case.payload == "signed",
        "verify": case.verify,
        "list_page": case.list_page,
        "parts": case.parts,
        "part_size": case.part_size,
        "seed": case.seed,
    }


def _finish(
    load: Load, what: str, advance: Advance, count: int | None = None, seconds: float | None = None
) -> LoadReport:
    """Wait for the end of a phase, and show how far it is, if it is known how far it goes."""
    started = time.monotonic()
    while not load.wait(_POLL_MS):
        if seconds is not None:
            advance(what, time.monotonic() - started, seconds)
        else:
            advance(what, load.progress()[0], count or 0)
    return load.finish()


def _prepare(case: Case, side: _Side, advance: Advance) -> None:
    """Write the objects that must be there, and warm up."""
    if case.keys:
        side.load.prepare()
        report = _finish(side.load, f"{case.name}, preparing", advance, count=case.keys)
        failures = _failures(report)
        if failures:
            name, count = next(iter(failures.items()))
            raise OrcasError(
                f"{side.server.url} rejected {count} of {case.keys} objects of {case.name} ({name}): "
                "look for the reason in its log, then run the benchmark again."
            )
    if case.warmup_seconds:
        side.load.run_seconds(case.warmup_seconds, counts=False)
        _finish(side.load, f"{case.name}, warming up", advance, seconds=case.warmup_seconds)
    settle(side.server.pids)


def _failures(report: LoadReport) -> dict[str, int]:
    """The failures of a run, and how often each occurred."""
    found: dict[str, int] = {}
    for operation in report["operations"].values():
        for name, count in operation["errors"].items():
            found[name] = found.get(name, 0) + count
    return found


def _figures(report: LoadReport, server_cpu_seconds: float | None) -> dict[str, Any]:
    """The figures of a report, and others that follow from them."""
    operations: dict[str, dict[str, Any]] = {name: {**found} for name, found in report["operations"].items()}
    done = sum(operation["done"] for operation in report["operations"].values())
    moved = sum(operation["bytes"] for operation in report["operations"].values())
    seconds = report["seconds"]
    for operation in operations.values():
        operation["operations_per_second"] = operation["done"] / seconds if seconds else 0.0
        operation["bytes_per_second"] = operation["bytes"] / seconds if seconds else 0.0
    return {
        "seconds": seconds,
        "done": done,
        "bytes": moved,
        "operations_per_second": done / seconds if seconds else 0.0,
        "bytes_per_second": moved / seconds if seconds else 0.0,
        "client_cpu_seconds": report["client_cpu_seconds"],
        "client_cpu_us_per_operation": report["client_cpu_seconds"] / done * 1e6 if done else None,
        "server_cpu_seconds": server_cpu_seconds,
        "server_cpu_us_per_operation": (
            server_cpu_seconds / done * 1e6 if done and server_cpu_seconds is not None else None
        ),
        "reconnects": report["reconnects"],
        "given_up": report["given_up"],
        "wrong_examples": report["wrong_examples"],
        "operations": operations,
    }


def _result(case: Case, side: _Side, advance: Advance) -> dict[str, Any]:
    """All rounds of one server, and whether what it was given is there."""
    used = [entry["server_cpu_seconds"] for entry in side.rounds]
    total = _figures(side.load.total(), None if None in used else sum(used))
    read_back = None
    if case.verify:
        side.load.read_back()
        report = _finish(side.load, f"{case.name}, reading back", advance)
        read = report["operations"].get("get")
        read_back = {
            "done": read["done"] if read else 0,
            "wrong": read["wrong"] if read else 0,
            "errors": _failures(report),
            "wrong_examples": report["wrong_examples"],
        }
    wrong = sum(operation["wrong"] for operation in total["operations"].values())
    errors = sum(sum(operation["errors"].values()) for operation in total["operations"].values())
    ok = not (wrong or errors or total["given_up"] or not total["done"])
    ok = ok and not (read_back and (read_back["wrong"] or read_back["errors"]))
    busy = total["client_cpu_seconds"] / (total["seconds"] * min(case.threads, case.connections) or 1.0)
    return {
        "server": side.server.document(),
        "ok": ok,
        "wrong": wrong,
        "errors": errors,
        "client_busy": busy,
        "notes": _notes(side.server, case, busy),
        "rounds": side.rounds,
        "total": total,
        "read_back": read_back,
    }


def _notes(server: Reached, case: Case, busy: float) -> list[str]:
    """Notes that a reader of the figures must not overlook."""
    notes = []
    if busy > _BUSY_SHARE:
        notes.append(f"the load generator was busy for {busy:.0%} of the time and may be the limit: raise --threads")
    if server.own and server.file_system in {"tmpfs", "ramfs"} and server.durability != "unsafe-none":
        notes.append(
            f"the store was on {server.file_system}, where a sync costs nothing: choose a disk with --data DIR"
        )
    if case.server and not server.own:
        meant = ", ".join(f"{name}={value}" for name, value in case.server.items())
        notes.append(f"the workload is meant for a server with {meant}; this server may have other settings")
    if case.content == "identical":
        notes.append("all objects were identical, which flatters a server that deduplicates")
    return notes


def _plan(case: Case) -> dict[str, Any]:
    """The case as the document has it."""
    plan = {**dataclasses.asdict(case), "size": case.size.text}
    del plan["name"]
    return plan


def _comparison(base: dict[str, Any], other: dict[str, Any]) -> dict[str, Any]:
    """Figures of `other` divided by those of `base`, round by round."""

    def values(side: dict[str, Any], *path: str) -> list[float]:
        found = []
        for entry in side["rounds"]:
            for name in path:
                entry = (entry or {}).get(name)
            if entry is not None:
                found.append(float(entry))
        return found

    paths: dict[str, tuple[str, ...]] = {
        name: (name,) for name in ("operations_per_second", "bytes_per_second", "server_cpu_us_per_operation")
    }
    for operation in base["total"]["operations"]:
        for quantile in ("p50", "p99"):
            paths[f"{operation}_{quantile}"] = ("operations", operation, "latency_ms", quantile)
    ratios = {}
    for name, path in paths.items():
        found = ratio(values(other, *path), values(base, *path))
        if found is not None:
            ratios[name] = dataclasses.asdict(found)
    return {"over": other["server"]["url"], "under": base["server"]["url"], "ratios": ratios}
