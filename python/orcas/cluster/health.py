"""The health of a node: that of its store, and whether it can answer requests, or pass them on. Must not know HTTP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from orcas.admin.health import StoreHealth
    from orcas.cluster.member import Member


@dataclass(frozen=True, slots=True)
class NodeHealth:
    """As of a store; `status` is also `no-owner`: this node can neither answer nor pass on."""

    status: str
    reason: str | None
    detail: str | None
    writable: bool
    durability: str


def health_of(member: Member, found: StoreHealth) -> NodeHealth:
    """The health of a node whose store has this one. A follower's is open for reading, and well."""
    if found.status == "damaged":
        return NodeHealth(found.status, found.reason, found.detail, writable=False, durability=found.durability)
    if not member.is_served():
        said = (
            "the log of the cluster takes nothing from this node, which owns it"
            if member.owns
            else "this node has not heard of an owner of the log of the cluster for the length of a lease"
        )
        detail = f"{said}: see `orcas cluster status` on each node"
        return NodeHealth("no-owner", said, detail, writable=False, durability=found.durability)
    if member.owns:
        return NodeHealth(found.status, found.reason, found.detail, found.writable, found.durability)
    # Whether the owner takes content, its own health says.
    return NodeHealth("ok", None, None, writable=True, durability=found.durability)
