"""The gain from pooling: bytes that a request allocates, and requests per second, with and without it."""

from __future__ import annotations

import json
import os
import random
import statistics
import subprocess
import time
from collections.abc import Callable
from typing import Any

import load
from figures import Figure, Plan, ratios
from processes import UNSCRUBBED, Orcas, scratch
from small import make_bucket

_SIZES = {"1k": 1 << 10, "64k": 64 << 10, "10m": 10 << 20}
_LISTED = 1000
_CONNECTIONS = {"1k": 16, "64k": 16, "10m": 4, "1000": 16}
_WHAT = {
    "put": "PUT", "get": "GET", "head": "HEAD", "list": "ListObjectsV2 page",
    "take": "buffer of the pool", "pass": "buffer of the pool",
}  # fmt: skip
# Bytes that a request allocates, with ÷ without pooling.
_BYTES_GOAL = 0.25
# Claims of the report for its pool, with ÷ without: bytes allocated, requests per second, time of one operation.
_CLAIMED = {"bytes": 192 / 1024, "requests a second": 25_760 / 12_430, "operation": 18 / 125}


def _described(kind: str) -> str:
    name, size = kind.split("-")
    unit = {"k": f"{size[:-1]} KiB", "m": f"{size[:-1]} MiB"}.get(size[-1], f"{size} keys")
    how = {"take": ", dropped by the thread that filled it", "pass": ", dropped by another thread"}.get(name, "")
    return f"{_WHAT[name]} of {unit}{how}"


def allocations(plan: Plan) -> list[Figure]:
    """Figures pooling-KIND-bytes: through the lane without HTTP, and the pool by itself."""
    made = []
    for cell in in_rust(plan, plan.size(9, 1)):
        kind, on, off = cell["kind"], cell["on"], cell["off"]
        detail = {
            "on": on,
            "off": off,
            "microseconds_ratio": statistics.median(ratios(on["microseconds"], off["microseconds"])),
            "claimed": _CLAIMED,
        }
        what = f"bytes allocated for a {_described(kind)}, pooling on ÷ off"
        made.append(
            Figure(f"pooling-{kind}-bytes", what, ratios(on["bytes"], off["bytes"]), _BYTES_GOAL, detail=detail)
        )
    return made


def in_rust(plan: Plan, rounds: int) -> list[dict[str, Any]]:
    """The output of the suite for a request of each kind, `on` and `off`: `bytes`, `allocations`, `microseconds`."""
    command = ["cargo", "bench", "--quiet", "-p", "orcas_core", "--bench", "allocations", "--"]
    with scratch(plan.directory) as directory:
        command += ["--dir", str(directory.resolve()), "--rounds", str(rounds), "--json"]
        done = subprocess.run(command, cwd=plan.repository, check=True, stdout=subprocess.PIPE, text=True)
    cells: list[dict[str, Any]] = json.loads(done.stdout)
    return cells


def server(plan: Plan) -> list[Figure]:
    """Figures pooling-KIND-rps: signed requests over sockets to two servers."""
    made = []
    with scratch(plan.directory) as on, scratch(plan.directory) as off:
        without = UNSCRUBBED | {"ORCAS_POOLING_ENABLED": "false"}
        with Orcas(on / "data", settings=UNSCRUBBED) as pooled, Orcas(off / "data", settings=without) as plain:
            arms = {"on": pooled, "off": plain}
            for orcas in arms.values():
                fill(orcas)
            for size, length in _SIZES.items():
                count = plan.size({"1k": 3000, "64k": 800, "10m": 24}[size], 12)
                made.append(_cell(plan, arms, f"put-{size}", size, lambda *at, n=count, of=length: _puts(*at, n, of)))
                made.append(_cell(plan, arms, f"get-{size}", size, lambda *at, n=count: _gets(*at, n)))
                if size == "1k":
                    made.append(_cell(plan, arms, "head-1k", size, lambda *at, n=count: _heads(*at, n)))
            pages = plan.size(300, 12)
            made.append(_cell(plan, arms, "list-1000", "1000", lambda orcas, *_: _pages(orcas, pages)))
            for figure in made:
                figure.detail["pools"] = {name: orcas.pools() for name, orcas in arms.items()}
    return made


def fill(orcas: Orcas) -> None:
    """Bucket `pooling`, empty, and `listed` with as many objects as a page has."""
    for bucket in ("pooling", "listed"):
        make_bucket(orcas, bucket)
    signer = orcas.signer()
    puts = [signer.put(f"/listed/data/{random.getrandbits(64):016x}/object", b"x" * 100) for _ in range(_LISTED)]
    load.run(orcas.address, puts)


def _puts(orcas: Orcas, size: str, number: int, count: int, length: int) -> list[bytes]:
    signer = orcas.signer()
    return [signer.put(f"/pooling/{size}/{number}/{n:08x}", os.urandom(length)) for n in range(count)]


def _gets(orcas: Orcas, size: str, _: int, count: int) -> list[bytes]:
    signer = orcas.signer()
    return [signer.get(f"/pooling/{size}/0/{n:08x}") for n in range(count)]


def _heads(orcas: Orcas, size: str, _: int, count: int) -> list[bytes]:
    signer = orcas.signer()
    return [signer.request("HEAD", f"/pooling/{size}/0/{n:08x}") for n in range(count)]


def _pages(orcas: Orcas, count: int) -> list[bytes]:
    signer = orcas.signer()
    return [signer.get("/listed", {"list-type": "2", "max-keys": str(_LISTED)}) for _ in range(count)]


def _cell(
    plan: Plan, arms: dict[str, Orcas], kind: str, size: str, make: Callable[[Orcas, str, int], list[bytes]]
) -> Figure:
    rounds = plan.size(9, 1)
    made: dict[str, dict[str, list[float]]] = {
        name: {"requests a second": [], "cpu µs": [], "page faults": [], "p99 ms": []} for name in arms
    }
    for number in range(rounds + 1):
        # The order alternates between rounds; the first round fills caches.
        for name in arms if number % 2 else reversed(arms):
            orcas = arms[name]
            measured = _measured(orcas, make(orcas, size, number), _CONNECTIONS[size])
            if number:
                for what, value in measured.items():
                    made[name][what].append(value)
    rates = {name: values["requests a second"] for name, values in made.items()}
    what = f"{_described(kind)} over HTTP, {_CONNECTIONS[size]} connections, requests a second, pooling on ÷ off"
    detail: dict[str, Any] = {"each request": made, "claimed": _CLAIMED}
    detail["cpu_ratio"] = statistics.median(ratios(made["on"]["cpu µs"], made["off"]["cpu µs"]))
    return Figure(f"pooling-{kind}-rps", what, ratios(rates["on"], rates["off"]), detail=detail)


def _measured(orcas: Orcas, requests: list[bytes], connections: int) -> dict[str, float]:
    orcas.settle()
    cpu, faults, started = orcas.cpu_ns(), orcas.page_faults(), time.perf_counter()
    took = load.run(orcas.address, requests, connections)
    seconds = time.perf_counter() - started
    orcas.settle()
    count = len(requests)
    return {
        "requests a second": count / seconds,
        "cpu µs": (orcas.cpu_ns() - cpu) / count / 1000,
        "page faults": (orcas.page_faults() - faults) / count,
        "p99 ms": sorted(took)[count * 99 // 100] / 1e6,
    }
