"""The targets of events that the server has, as far as the visitor may know them."""

from __future__ import annotations

from orcas.console.calls import CallError, Visit, admin


async def known_targets(visit: Visit) -> list[tuple[str, str]]:
    """ARNs of queues, by which notifications name them, and what they are; empty for visitors who may not list targets."""
    try:
        found = await admin(visit, "GET", "targets")
    except CallError:
        return []
    return [(f"arn:aws:sqs:::{target['name']}", str(target.get("type", ""))) for target in found["targets"]]
