"""The list of buckets, which is the first page."""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orcas.console.pages import Place, call, page, visit


async def show(request: Request) -> Response:
    """All buckets that the key may list."""
    found = (await call(visit(request), "GET", "/")).xml()
    buckets = [
        {"name": entry.findtext("Name") or "", "created": entry.findtext("CreationDate")}
        for entry in found.iter("Bucket")
    ]
    return await page(request, "buckets.html", buckets=buckets)


ROUTES = [Route("/", show)]
PLACES = [Place("Buckets", "/", "Store")]
