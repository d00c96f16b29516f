"""The gain from batch writes: PUTs per second with and without them, through the engine and through a server."""

from __future__ import annotations

import json
import os
import subprocess
import time
from typing import Any

import load
from figures import Figure, Plan, ratios
from processes import UNSCRUBBED, Orcas, scratch
from small import make_bucket

_SIZES = {"1k": 1 << 10, "4k": 4 << 10, "64k": 64 << 10}
_CONNECTIONS = (1, 10, 50, 100)
_MODES = ("buffered", "sync")
# The gain that the report claims for its write buffer, by size and requests in flight: throughput with ÷ without it.
# Its clients called the server in their own process, over one connection, without signatures.
_CLAIMED = {
    ("1k", 1): 4.3, ("1k", 10): 6.9, ("1k", 50): 9.4, ("1k", 100): 5.9,
    ("4k", 1): 3.6, ("4k", 10): 14.3, ("4k", 50): 14.2, ("4k", 100): 23.2,
    ("64k", 1): 1.7, ("64k", 10): 3.2, ("64k", 50): 6.1, ("64k", 100): 7.8,
}  # fmt: skip
_SYNC_GOAL = 3.0
_SYNC_GOAL_FROM = 10


def _goal(mode: str, size: str, in_flight: int) -> float | None:
    if mode == "buffered":
        return _CLAIMED[size, in_flight]
    return _SYNC_GOAL if in_flight >= _SYNC_GOAL_FROM else None


def engine(plan: Plan) -> list[Figure]:
    """Figures batch-MODE-SIZE-IN_FLIGHT: intents through the engine, without HTTP."""
    rounds, seconds = plan.size(5, 1), 0.1 if plan.quick else 0.5
    command = ["cargo", "bench", "--quiet", "-p", "orcas_core", "--bench", "batch", "--"]
    with scratch(plan.directory) as directory:
        command += ["--dir", str(directory), "--rounds", str(rounds), "--seconds", str(seconds), "--json"]
        done = subprocess.run(command, cwd=plan.repository, check=True, stdout=subprocess.PIPE, text=True)
    names = {length: name for name, length in _SIZES.items()}
    made = []
    for cell in json.loads(done.stdout):
        mode, size, in_flight = cell["mode"], names[cell["size"]], cell["in_flight"]
        what = f"PUTs of {size[:-1]} KiB through the engine, {mode}, {in_flight} in flight, batch writes on ÷ off"
        detail = {"operations_a_second": {"on": cell["on"], "off": cell["off"]}, "seconds": seconds}
        goal = _goal(mode, size, in_flight)
        values = ratios(cell["on"], cell["off"])
        made.append(Figure(f"batch-{mode}-{size}-{in_flight}", what, values, goal, at_least=True, detail=detail))
    return made


def server(plan: Plan) -> list[Figure]:
    """Figures batch-server-MODE-SIZE-CONNECTIONS: the same as signed requests over sockets."""
    made = []
    for mode in _MODES:
        with scratch(plan.directory) as on, scratch(plan.directory) as off:
            settings = {"on": UNSCRUBBED, "off": UNSCRUBBED | {"ORCAS_BATCH_WRITE_ENABLED": "false"}}
            with (
                Orcas(on / "data", mode, settings["on"]) as with_batches,
                Orcas(off / "data", mode, settings["off"]) as without,
            ):
                arms = {"on": with_batches, "off": without}
                for orcas in arms.values():
                    make_bucket(orcas, "batch")
                for size, length in _SIZES.items():
                    made += [_cell(plan, arms, mode, size, length, connections) for connections in _CONNECTIONS]
    return made


def _cell(plan: Plan, arms: dict[str, Orcas], mode: str, size: str, length: int, connections: int) -> Figure:
    rounds, count = plan.size(5, 1), plan.size(2000 if length < 1 << 16 else 600, 200)
    rates: dict[str, list[float]] = {"on": [], "off": []}
    for number in range(-1, rounds):
        # The order alternates between rounds.
        for name in rates if number % 2 else reversed(rates):
            orcas = arms[name]
            signer = orcas.signer()
            prefix = f"/batch/{size}/{connections}/{number}"
            puts = [signer.put(f"{prefix}/{n:08x}", os.urandom(length)) for n in range(count)]
            orcas.settle()
            started = time.perf_counter()
            load.run(orcas.address, puts, connections)
            rate = count / (time.perf_counter() - started)
            if number >= 0:
                rates[name].append(rate)
    what = f"PUTs of {size[:-1]} KiB over HTTP, {mode}, {connections} connections, batch writes on ÷ off"
    detail: dict[str, Any] = {"operations_a_second": rates, "requests": count}
    # The report's ratio, for comparison: here parsing and signatures are the same in both arms.
    if mode == "buffered":
        detail["claimed"] = _CLAIMED[size, connections]
    return Figure(f"batch-server-{mode}-{size}-{connections}", what, ratios(rates["on"], rates["off"]), detail=detail)
