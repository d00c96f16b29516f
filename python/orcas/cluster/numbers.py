"""A node as numbers, for the metrics. Must not know their names."""

from __future__ import annotations

from typing import TYPE_CHECKING

from orcas.telemetry.cluster import NodeNumbers

if TYPE_CHECKING:
    from orcas.cluster.member import Member


def numbers_of(member: Member) -> NodeNumbers:
    """What the metrics say of a node. Blocks: it reads the mark."""
    found = member.status()
    return NodeNumbers(found["role"] == "owner", found["term"], found["next"], found["silent_sec"], found["score"])
