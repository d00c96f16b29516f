"""What encryption at rest costs: CPU time of the server for a request, encrypted ÷ not; and single calls in Rust."""

from __future__ import annotations

import base64
import os
import re
import subprocess

import load
from figures import Figure, Plan, ratios
from processes import UNSCRUBBED, Orcas, scratch
from small import make_bucket

_SIZES = {"1k": 1 << 10, "10m": 10 << 20}
_CONNECTIONS = {"1k": 16, "10m": 4}
_WHAT = {"1k": "1 KiB", "10m": "10 MiB"}
_GOALS = {"put-1k": 1.05, "get-1k": 1.05, "put-10m": 1.15, "get-10m": 1.5}

_COST = re.compile(r"^(.+?)  +(?:(\d+) bytes +)?([\d.]+) ns$")
_PREFERRED = re.compile(r"^preferred here: (\w+)$", re.MULTILINE)

# What is measured, and its bytes; 0 where it has none.
Cell = tuple[str, int]

# Nanoseconds of single calls: figure, what it is, the cell, goal.
_OPEN_AGAIN = "open, blob key looked up in the cache"
_CALLS: list[tuple[str, str, Cell, float | None]] = [
    *(
        (f"seal-{size}", f"sealing {size} bytes, the data key cached", ("seal, data key cached", size), goal)
        for size, goal in ((10, 400.0), (100, 400.0), (1_000, 700.0), (10_000, 3_000.0))
    ),
    *(
        (f"open-{size}", f"opening {size} bytes, the key of the blob cached", (_OPEN_AGAIN, size), goal)
        for size, goal in ((10, 190.0), (100, 200.0), (1_000, 400.0), (10_000, 2_500.0))
    ),
    *(
        (f"open-first-{size}", f"opening {size} bytes, the data key cached", ("open, data key cached", size), None)
        for size in (10, 100, 1_000, 10_000)
    ),
    ("key-cache", "a hit in the cache of data keys", ("key cache, hit among 500", 0), 100.0),
    ("scrypt-cached", "a key from scrypt, cached", ("scrypt, cached", 0), 50.0),
]
_LARGE = 4 << 20


def server(plan: Plan) -> list[Figure]:
    """Figures sealing-KIND-cpu: signed requests over sockets to two servers."""
    made = []
    key = base64.b64encode(os.urandom(32)).decode()
    sealing = UNSCRUBBED | {"ORCAS_MASTER_KEY": key, "ORCAS_ENCRYPT_BY_DEFAULT": "true"}
    with (
        scratch(plan.directory) as on,
        scratch(plan.directory) as off,
        Orcas(on / "data", settings=sealing) as sealed,
        Orcas(off / "data", settings=UNSCRUBBED) as plain,
    ):
        arms = {"sealed": sealed, "plain": plain}
        for orcas in arms.values():
            make_bucket(orcas, "sealing")
        for size in _SIZES:
            made += _size(plan, arms, size)
    return made


def calls(plan: Plan) -> list[Figure]:
    """Figures of single calls in Rust, with the cipher that this machine prefers."""
    cipher, costs = in_rust(plan)
    made = [Figure(name, what, [costs[cell]], goal, unit="ns") for name, what, cell, goal in _CALLS]
    alone, sealed = costs["the library alone, one message", _LARGE], costs["seal, data key cached", _LARGE]
    what = f"bytes per second that one core seals in 4 MiB ÷ {cipher} of the library alone"
    return [*made, Figure("seal-rate", what, [alone / sealed], 0.9, at_least=True)]


def _size(plan: Plan, arms: dict[str, Orcas], size: str) -> list[Figure]:
    count, rounds = plan.size({"1k": 3000, "10m": 16}[size], 4), plan.size(9, 1)
    cpu: dict[str, dict[str, list[float]]] = {kind: {name: [] for name in arms} for kind in ("put", "get")}
    for number in range(rounds + 1):
        # The order alternates between rounds; the first round fills caches.
        for name in arms if number % 2 else reversed(arms):
            signer = arms[name].signer()
            paths = [f"/sealing/{size}/{number}/{n:08x}" for n in range(count)]
            puts = [signer.put(path, os.urandom(_SIZES[size])) for path in paths]
            took = {"put": _cpu_us(arms[name], puts, size)}
            took["get"] = _cpu_us(arms[name], [signer.get(path) for path in paths], size)
            if number:
                for kind, value in took.items():
                    cpu[kind][name].append(value)
    return [
        Figure(
            f"sealing-{kind}-{size}-cpu",
            f"CPU time of the server for a {kind.upper()} of {_WHAT[size]}, encrypted ÷ not",
            ratios(values["sealed"], values["plain"]),
            _GOALS[f"{kind}-{size}"],
            detail={"microseconds": values},
        )
        for kind, values in cpu.items()
    ]


def _cpu_us(orcas: Orcas, requests: list[bytes], size: str) -> float:
    orcas.settle()
    before = orcas.cpu_ns()
    load.run(orcas.address, requests, _CONNECTIONS[size])
    orcas.settle()
    return (orcas.cpu_ns() - before) / len(requests) / 1000


def in_rust(plan: Plan) -> tuple[str, dict[Cell, float]]:
    """The cipher that servers prefer on this machine, and the nanoseconds of each cost: the least of many short runs.

    Raises:
        RuntimeError: it could not be compiled, or it said something else.
    """
    command = ["cargo", "run", "--quiet", "--release", "-p", "orcas_seal", "--example", "figures"]
    done = subprocess.run(command, cwd=plan.repository, check=False, capture_output=True, text=True)
    preferred = _PREFERRED.search(done.stdout)
    if done.returncode or preferred is None:
        raise RuntimeError(f"cargo run ended with {done.returncode}: {done.stderr}")
    cipher, costs = "", {}
    for line in done.stdout.splitlines():
        if found := _COST.match(line):
            # Costs before the first cipher belong to all of them.
            if cipher in ("", preferred[1]):
                costs[found[1], int(found[2] or 0)] = float(found[3])
        elif " " not in line:
            cipher = line
    return preferred[1], costs
