"""Figures of the engine's own benchmark, without a server."""

from __future__ import annotations

import json
import subprocess

from figures import Figure, Plan, ratios
from processes import scratch

_WAYS = (
    ("commit-1", "one", 0.6, "1 in flight"),
    ("commit-64", "batched", 4.0, "64 in flight, batch writes on"),
    ("commit-64-off", "unbatched", 0.5, "64 in flight, batch writes off"),
)


def commit(plan: Plan) -> list[Figure]:
    """Figures commit-1, commit-64 and commit-64-off."""
    rounds, seconds = plan.size(15, 3), 0.3 if plan.quick else 1.0
    command = ["cargo", "bench", "--quiet", "-p", "orcas_core", "--bench", "commit", "--"]
    with scratch(plan.directory) as directory:
        command += ["--dir", str(directory), "--rounds", str(rounds), "--seconds", str(seconds), "--json"]
        done = subprocess.run(command, cwd=plan.repository, check=True, stdout=subprocess.PIPE, text=True)
    rates: dict[str, list[float]] = json.loads(done.stdout)
    detail = {"operations_a_second": rates, "durability": "sync", "seconds": seconds}
    return [
        Figure(
            name,
            f"durable 1 KiB PUTs through the engine ÷ raw write + fdatasync, {how}",
            ratios(rates[way], rates["raw"]),
            goal,
            at_least=True,
            detail=detail,
        )
        for name, way, goal, how in _WAYS
    ]
