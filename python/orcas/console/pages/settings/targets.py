"""The targets of events that the server has, as far as the visitor may know them."""

from __future__ import annotations

from orcas.console.calls import CallError, Visit, admin


async def known_targets(visit: Visit) -> list[tuple[str, str]]:
    """ARNs by which notifications name them, and what they are; empty for visitors who may not list targets."""
    try:
        found = await admin(visit, "GET", "targets")
    except CallError:
        return []
    named = [(str(target["destination"]), str(target["type"])) for target in found["targets"]]
    # The form has no event bus.
    return [(arn if ":" in arn else f"arn:aws:sqs:::{arn}", kind) for arn, kind in named if kind != "eventbridge"]
