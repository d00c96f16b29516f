"""Whether the server is well, what runs, its settings with their sources, and the licences of its parts."""

from __future__ import annotations

import asyncio
import time
from typing import Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orcas.console.calls import admin
from orcas.console.places import Place
from orcas.console.rendering import page, visit

# What each state means, and what to do.
_STATES: Final = {
    "ok": ("The store is well.", ""),
    "full": ("The store takes no new content: reads and deletions still work.", "Find out what fills the disk."),
    "read-only": (
        "All writes fail, deletions too.",
        "The reason and the log say what happened: correct it, and restart.",
    ),
    "damaged": ("Some of the stored data is damaged.", "Run fsck, and look at what it finds before anything else."),
}
_KINDS: Final = {"python": "Python package", "rust": "Rust crate"}


async def show(request: Request) -> Response:
    """Health with its reason, versions, and the tasks that fail."""
    about, tasks, scrub = await asyncio.gather(
        *(admin(visit(request), "GET", path) for path in ("about", "tasks", "scrub"))
    )
    failing = [task for task in tasks["tasks"] if task["error"]]
    state = about["health"]["status"]
    meaning, advice = _STATES.get(state, ("", ""))
    return await page(
        request, "server/health.html", about=about, health=about["health"], meaning=meaning, advice=advice,
        failing=failing, scrub=scrub, up=in_words(time.time() - about["started"]),
    )  # fmt: skip


async def settings(request: Request) -> Response:
    """All settings: those that somebody has chosen first."""
    rows = (await admin(visit(request), "GET", "settings"))["settings"]
    chosen = [row for row in rows if row["source"] != "default"]
    others = [row for row in rows if row["source"] == "default"]
    return await page(request, "server/settings.html", chosen=chosen, others=others)


async def licences(request: Request) -> Response:
    """Every part with its licence."""
    parts = (await admin(visit(request), "GET", "licences"))["parts"]
    return await page(request, "server/licences.html", parts=parts, kinds=_KINDS)


def in_words(seconds: float) -> str:
    """A time span in its two largest units."""
    left = int(max(0, seconds))
    found: list[str] = []
    for size, unit in ((86_400, "d"), (3600, "h"), (60, "min"), (1, "s")):
        count, left = divmod(left, size)
        if count or (unit == "s" and not found):
            found.append(f"{count} {unit}")
    return " ".join(found[:2])


ROUTES = [Route("/health", show), Route("/settings", settings), Route("/licences", licences)]
PLACES = [
    Place("Health", "/health", "Operation", ("orcas:GetHealth",)),
    Place("Settings", "/settings", "Owner", ("orcas:GetSettings",)),
]
