"""The time until a server reports that it is ready."""

from __future__ import annotations

from figures import Figure, Plan
from processes import Orcas, scratch
from small import make_bucket


def ready(plan: Plan) -> list[Figure]:
    """Figure ready: a new process each time, with a store that was shut down cleanly."""
    seconds: list[float] = []
    with scratch(plan.directory) as directory:
        with Orcas(directory / "data") as orcas:
            make_bucket(orcas, "small")
        for _ in range(plan.size(10, 3)):
            with Orcas(directory / "data") as orcas:
                seconds.append(orcas.ready_seconds)
    return [Figure("ready", "from `orcas serve` to its ready line", seconds, 1.0, unit="s")]
