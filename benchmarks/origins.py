"""What an origin costs: the server's CPU time for a GET of an object that is here, with an origin and without."""

from __future__ import annotations

import load
from figures import Figure, Plan, ratios
from processes import Orcas, scratch
from small import cpu_per_request, make_bucket, unique

_OBJECTS = 1000
_BUCKETS = ("plain", "pulled")


def hits(plan: Plan) -> list[Figure]:
    """Figure origin-hit-cpu."""
    rounds, count = plan.size(15, 3), plan.size(4000, 500)
    microseconds: dict[str, list[float]] = {bucket: [] for bucket in _BUCKETS}
    with scratch(plan.directory) as directory, Orcas(directory / "data") as orcas:
        signer = orcas.signer()
        for bucket in _BUCKETS:
            make_bucket(orcas, bucket)
            load.run(orcas.address, [signer.put(f"/{bucket}/{n:016x}", unique(n)) for n in range(_OBJECTS)])
        # Nobody answers there, so a fetch would fail the run.
        order = {"bucket": "pulled", "url": "http://127.0.0.1:1", "source": "origin", "private": True}
        orcas.admin("PUT", "origins", order)
        for number in range(-1, rounds):
            signer = orcas.signer()
            # Each goes first in every other round.
            for bucket in _BUCKETS if number % 2 else reversed(_BUCKETS):
                gets = [signer.get(f"/{bucket}/{n % _OBJECTS:016x}") for n in range(count)]
                used = cpu_per_request(orcas, gets)
                if number >= 0:
                    microseconds[bucket].append(used)
    theirs, ours = microseconds["plain"], microseconds["pulled"]
    what = "server CPU of a 1 KiB GET of an object that is here, in a bucket with an origin ÷ without"
    return [Figure("origin-hit-cpu", what, ratios(ours, theirs), 1.02, detail={"microseconds": microseconds})]
