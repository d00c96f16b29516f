"""The node of a cluster that answers the console, which is the owner of the log, and letting another one take the log.

Other nodes are unknown here: each says how it is when it is asked itself.
"""

from __future__ import annotations

from typing import Any

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orcas.console.calls import CallError, admin
from orcas.console.rendering import attempt, explained, field, page, redirect, visit


async def show(request: Request) -> Response:
    """Its role, the log, and the commands for the others; or why there are none."""
    found: dict[str, Any] | None = None
    reason = ""
    try:
        found = await admin(visit(request), "GET", "cluster")
    except CallError as error:
        if error.code != "NoCluster":
            raise
        reason = explained(error)
    return await page(request, "server/cluster.html", found=found, reason=reason)


async def move(request: Request) -> Response:
    """Let another node take the log."""
    to = field(request, "to").strip()
    work = admin(visit(request), "POST", "cluster/move", {"to": to or None})
    done = "This node has given up the log. Sign in again on the one that has taken it."
    await attempt(request, work, "The log stays with its owner", done)
    return redirect(request, "/cluster")


ROUTES = [Route("/cluster", show), Route("/cluster/move", move, methods=["POST"])]
