"""What a fault that tests have asked for costs the requests that do not get it."""

from __future__ import annotations

from typing import Any

import load
from figures import Figure, Plan, ratios
from processes import Orcas
from small import cpu_per_request, make_bucket, unique

_OBJECTS = 1000
# Name of the figure, fault, what the fault is for. No request of the load gets it.
_FAULTS: tuple[tuple[str, dict[str, Any], str], ...] = (
    ("operation", {"operations": ["PutObject"]}, "another operation"),
    ("bucket", {"bucket": "other"}, "another bucket"),
    ("key", {"operations": ["GetObject"], "bucket": "small", "key": "logs/*"}, "other keys of the bucket"),
)


def unmatched(plan: Plan) -> list[Figure]:
    """Figures fault-operation-cpu, fault-bucket-cpu and fault-key-cpu: GETs beside a fault ÷ without one."""
    rounds, count = plan.size(15, 1), plan.size(4000, 200)
    used: dict[str, list[float]] = {}
    with Orcas() as orcas:
        make_bucket(orcas, "small")
        signer = orcas.signer()
        load.run(orcas.address, [signer.put(f"/small/{n:016x}", unique(n)) for n in range(_OBJECTS)], 16)
        arms: dict[str, dict[str, Any]] = {"none": {}} | {name: fault for name, fault, _ in _FAULTS}
        # The order alternates between rounds; the first round fills caches.
        for number in range(rounds + 1):
            for name in arms if number % 2 else reversed(arms):
                orcas.admin("DELETE", "test/faults")
                if arms[name]:
                    orcas.admin("POST", "test/faults", {"fault": "error", **arms[name]})
                signer = orcas.signer()
                spent = cpu_per_request(orcas, [signer.get(f"/small/{n % _OBJECTS:016x}") for n in range(count)])
                if number:
                    used.setdefault(name, []).append(spent)
    made = []
    for name, _, what in _FAULTS:
        detail = {"microseconds": {"with": used[name], "without": used["none"]}, "requests": count}
        text = f"server CPU of a signed 1 KiB GET, 16 connections, with a fault for {what} ÷ without"
        made.append(Figure(f"fault-{name}-cpu", text, ratios(used[name], used["none"]), 1.01, detail=detail))
    return made
