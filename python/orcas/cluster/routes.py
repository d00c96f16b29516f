"""The cluster as this node sees it, and its owner on request. Every node answers for itself."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Final

from fastapi import Body, FastAPI, Query
from pydantic import Field

from orcas.admin.routes.orders import CheckBody, Order
from orcas.cluster.small import digests
from orcas.engine import Refusal, named_in_packs, shows_all

if TYPE_CHECKING:
    from orcas.admin.tools import Tools
    from orcas.cluster.member import Member
    from orcas.engine import Core

# The longest time for which a check waits for what the copy has and does not show yet.
_SHOWN_SECONDS_MAX: Final = 5.0
_PAUSE_SECONDS: Final = 0.1


class Handover(Order):
    """To whom the log goes: the name of a node; without one, whoever is the first."""

    to: str | None = Field(default=None, pattern="^[0-9a-f]{8}$")


def add_cluster(
    app: FastAPI, member: Callable[[], Member | None], core: Callable[[], Core], tools: Callable[[], Tools]
) -> None:
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

    @app.post("/cluster/check", status_code=202, responses={409: {"description": "This is no node of a cluster"}})
    def check(order: Annotated[CheckBody | None, Body()] = None) -> dict[str, Any]:
        """Begin a job on this node: a check of its files, with the `position` at which its copy of the log ends, if it is
        whole."""
        found = here()
        work = tools().check(**(order or CheckBody()).model_dump())

        def run() -> dict[str, Any]:
            end = time.monotonic() + _SHOWN_SECONDS_MAX
            # Only what is shown is checked, and an owner says three times in a lease how much that may be.
            while not found.owns and time.monotonic() < end and not shows_all(core()):
                time.sleep(_PAUSE_SECONDS)
            report = work.run()
            if not report["clean"]:
                return report
            # The log is read once more, because the position is that of the files and not of the index.
            return report | {"position": named_in_packs(found.directory, [], None, 0)[0].hex()}

        return tools().start("check", dataclasses.replace(work, run=run))

    @app.get("/cluster/files", responses={409: {"description": "This is no node of a cluster"}})
    def files(position: Annotated[str, Query(pattern="^([0-9a-f]{112})?$")] = "") -> dict[str, Any]:
        """SHA-256 of the small files as this node has them of the log. Of the owner: whether its log continues one that ends
        at `position`; null if that cannot be told."""
        found = here()
        continues = core().continues(bytes.fromhex(position)) if position and found.owns else None
        return {"small": digests(found.directory), "continues": continues}
