"""The newest lines of the log, by level and text."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orcas.console.calls import admin
from orcas.console.places import Place
from orcas.console.rendering import page, visit

_LEVELS: Final = {"debug": "all", "info": "info", "warning": "warning", "error": "error"}
# What stands in columns of its own.
_COLUMNS: Final = frozenset({"time", "level", "logger", "message", "exception", "number"})
_VALUE_MAX: Final = 1024
_SHOWN: Final = 200


async def show(request: Request) -> Response:
    """The newest lines that fit."""
    level = request.query_params.get("level", "")
    level = level if level in _LEVELS else "debug"
    search = request.query_params.get("search", "").strip()[:_VALUE_MAX]
    query = {"limit": str(_SHOWN), "level": level, "search": search}
    found = await admin(visit(request), "GET", "log", query=query)
    return await page(
        request, "server/log.html", rows=[_row(line) for line in found["lines"]], level=level, search=search,
        levels=list(_LEVELS.items()), shown=_SHOWN,
    )  # fmt: skip


def _row(line: dict[str, Any]) -> dict[str, Any]:
    fields = " ".join(f"{name}={value}" for name, value in line.items() if name not in _COLUMNS)
    return {"exception": "", **line, "fields": fields}


ROUTES = [Route("/log", show)]
PLACES = [Place("Log", "/log", "Operation", ("orcas:GetLog",))]
