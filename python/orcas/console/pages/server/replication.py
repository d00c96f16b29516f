"""The routes along which buckets are copied to other servers: how far each is, its exceptions, and "try again"."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orcas.console.calls import admin
from orcas.console.pages.server.health import in_words
from orcas.console.places import Place
from orcas.console.rendering import attempt, field, flash, page, redirect, visit

_EXCEPTIONS_SHOWN = 20


async def show(request: Request) -> Response:
    """Targets, routes and what could not be copied."""
    found = await admin(visit(request), "GET", "replication")
    return await page(
        request, "server/replication.html", targets=found["targets"], routes=found["routes"], span=in_words,
        most=_EXCEPTIONS_SHOWN, refresh=5,
    )  # fmt: skip


async def retry(request: Request) -> Response:
    """Try the exceptions of a bucket soon, or compare everything."""
    bucket, everything = field(request, "bucket"), field(request, "everything") == "yes"
    work = admin(visit(request), "POST", "replication/retry", {"bucket": bucket, "everything": everything})
    if found := await attempt(request, work, "Nothing is tried again"):
        said = "Both sides are compared" if everything else f"{found['retried']} exceptions are tried again"
        flash(request, f"{said}: bucket {bucket}.")
    return redirect(request, "/replication")


ROUTES = [Route("/replication", show), Route("/replication/retry", retry, methods=["POST"])]
PLACES = [Place("Replication", "/replication", "Operation", ("orcas:ListReplication",))]
