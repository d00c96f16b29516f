"""The cluster as this node sees it, and its owner on request. Every node answers for itself."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from pydantic import Field

from orcas.admin.routes.orders import Order
from orcas.engine import Refusal

if TYPE_CHECKING:
    from orcas.cluster.member import Member


class Handover(Order):
    """To whom the log goes: the name of a node; without one, whoever is the first."""

    to: str | None = Field(default=None, pattern="^[0-9a-f]{8}$")


def add_cluster(app: FastAPI, member: Callable[[], Member | None]) -> None:
    """Add the routes."""

    def here() -> Member:
        found = member()
        if found is None:
            raise Refusal(409, "NoCluster", "This server is no node of a cluster: start it with --log to make it one.")
        return found

    @app.get("/cluster", responses={409: {"description": "This is no node of a cluster"}})
    async def show() -> dict[str, Any]:
        """This node and its role, and the node that owns the log."""
        return here().status()

    @app.post("/cluster/move", status_code=202, responses={409: {"description": "This node does not own the log"}})
    async def move(order: Handover) -> dict[str, Any]:
        """Let another node take the log. Requests wait until it has, a second or so."""
        found = here()
        if not found.owns:
            raise Refusal(409, "NotOwner", "This node does not own the log: ask the one that does.")
        found.give_up(order.to)
        return found.status()
