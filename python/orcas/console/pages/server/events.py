"""Events as they come, passed on from the stream of the server, and the targets with their dead letters."""

from __future__ import annotations

import asyncio
from typing import Any, Final
from urllib.parse import quote

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send

from orcas.console.calls import admin, object_path, stream
from orcas.console.places import Place
from orcas.console.rendering import attempt, field, flash, page, redirect, visit
from orcas.http.extensions import ENDLESS

_FILTERS: Final = ("bucket", "prefix", "event")
# Seconds after which the browser connects again, so that a session that has ended reads no more.
_STREAM_SECONDS: Final = 300.0
_DEAD_SHOWN: Final = 20


async def show(request: Request) -> Response:
    """The page; its script reads the stream."""
    who = visit(request)
    targets = (await admin(who, "GET", "targets"))["targets"]
    letters: dict[str, Any] = {}
    for target in targets:
        name = quote(target["name"], safe="")
        letters[target["name"]] = await admin(who, "GET", f"targets/{name}/dead", query={"limit": str(_DEAD_SHOWN)})
    wanted = {name: request.query_params.get(name, "").strip()[:1024] for name in _FILTERS}
    return await page(request, "server/events.html", targets=targets, letters=letters, wanted=wanted)


async def follow(request: Request) -> Response:
    """The stream of events for the page."""
    wanted = {name: value for name in _FILTERS if (value := request.query_params.get(name, "").strip())}
    last = request.headers.get("last-event-id")
    return _Passed(request, wanted, {} if last is None else {"last-event-id": last})


class _Passed(Response):
    """The stream of the server as an answer, until the browser leaves, or its time is over."""

    def __init__(self, request: Request, query: dict[str, str], headers: dict[str, str]) -> None:
        super().__init__()
        self._visit, self._query, self._sent = visit(request), query, headers

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Send it."""
        left = asyncio.ensure_future(_left(receive))
        passing = asyncio.ensure_future(self._pass(send))
        try:
            await asyncio.wait({left, passing}, timeout=_STREAM_SECONDS, return_when=asyncio.FIRST_COMPLETED)
            if passing.done():
                passing.result()
            elif not left.done():
                passing.cancel()
                await asyncio.gather(passing, return_exceptions=True)
                await send({"type": "http.response.body", "body": b"", "more_body": False})
        finally:
            for task in (left, passing):
                task.cancel()
            await asyncio.gather(left, passing, return_exceptions=True)

    async def _pass(self, send: Send) -> None:
        async with stream(self._visit, "GET", "/_orcas/events", self._query, self._sent) as answer:
            headers = [(b"content-type", b"text/event-stream"), (b"x-accel-buffering", b"no")]
            await send({"type": "http.response.start", "status": 200, "headers": headers, ENDLESS: True})
            async for piece in answer.pieces:
                await send({"type": "http.response.body", "body": bytes(piece), "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})


async def _left(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


async def resend(request: Request) -> Response:
    """Send the dead letters of a target again."""
    return await _act(request, "resend", "resent", "are sent again")


async def discard(request: Request) -> Response:
    """Discard them."""
    return await _act(request, "discard", "discarded", "were discarded")


async def test(request: Request) -> Response:
    """Send a test message, and say what has come of it. `bucket`: from whose notifications it is asked for."""
    target, bucket = field(request, "target"), field(request, "bucket")
    work = admin(visit(request), "POST", f"targets/{quote(target, safe='')}/test")
    found = await attempt(request, work, "No test message was sent")
    if found and found["taken"]:
        flash(request, f"{target} has taken a test message.")
    elif found:
        flash(request, f"{target} has not taken a test message: {found['reason']}.", "failed")
    return redirect(request, f"/b{object_path(bucket)}/settings/notifications" if bucket else "/events")


async def _act(request: Request, action: str, counted: str, done: str) -> Response:
    target = field(request, "target")
    work = admin(visit(request), "POST", f"targets/{quote(target, safe='')}/{action}")
    if found := await attempt(request, work, f"The dead letters of {target} stay as they are"):
        flash(request, f"{found[counted]} dead letters of {target} {done}.")
    return redirect(request, "/events")


ROUTES = [
    Route("/events", show),
    Route("/events/stream", follow),
    Route("/events/test", test, methods=["POST"]),
    Route("/events/resend", resend, methods=["POST"]),
    Route("/events/discard", discard, methods=["POST"]),
]
PLACES = [Place("Events", "/events", "Operation", ("orcas:ListTargets",))]
