"""The page of a key that was just made: its secret, and a text for whoever gets it.

It has an address, so that a reload makes no other key and loses no secret. The session keeps the secret until somebody says
that it was copied, or ends.
"""

from __future__ import annotations

from starlette.requests import Request
from starlette.responses import Response

from orcas.console.rendering import field, flash, page, redirect, visit

PATH = "/users/new-key"


def hand_over(request: Request, key: str, secret: str, heading: str, back: str, note: str = "") -> Response:
    """A redirect to the page of a new key. `back`: where it leads afterwards."""
    said = {"secret": secret, "heading": heading, "back": back, "note": note}
    visit(request).session.keep_made(key, said)
    return redirect(request, PATH, key=key)


async def show(request: Request) -> Response:
    """The page."""
    key, who = request.query_params.get("key", ""), visit(request)
    if (said := who.session.made.get(key)) is None:
        flash(request, "The secret of this key is not shown any more. If nobody has it, make another key.", "failed")
        return redirect(request, "/")
    return await page(
        request, "users/key.html", key=key, endpoint=who.endpoint, region=request.app.state.settings.region, **said
    )


async def done(request: Request) -> Response:
    """Forget the secret."""
    said = visit(request).session.made.pop(field(request, "key"), None)
    return redirect(request, said["back"] if said else "/")
