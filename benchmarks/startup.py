"""How long a server takes until it says that it is ready."""

from __future__ import annotations

from figures import Figure, Plan
from processes import Orcas, scratch
from small import make_bucket


def ready(plan: Plan) -> list[Figure]:
    """Figure ready: a new process each time, over a store that was closed in order."""
    seconds: list[float] = []
    with scratch(plan.directory) as directory:
        with Orcas(directory / "data") as orcas:
            make_bucket(orcas, "small")
        for _ in range(plan.size(10, 3)):
            with Orcas(directory / "data") as orcas:
                seconds.append(orcas.ready_seconds)
    return [Figure("ready", "from `orcas serve` to its ready line", seconds, 1.0, unit="s")]
