"""The audit log: who has changed which identities, the newest first, and whether the log is whole."""

from __future__ import annotations

import json
from typing import Any

from starlette.requests import Request
from starlette.responses import Response

from orcas.console.calls import CallError, admin
from orcas.console.rendering import explained, page, visit


async def show(request: Request) -> Response:
    """A page of lines, with what a check of the whole log says if it is asked for."""
    if not request.query_params.get("verify"):
        return await _page(request)
    try:
        found = await admin(visit(request), "GET", "audit/verify")
    except CallError as error:
        return await _page(request, problem=explained(error), status=error.status)
    if not found["last"]:
        return await _page(request, said="There are no lines yet.")
    return await _page(
        request, said=f"Lines {found['first']} to {found['last']} are intact; the last one has {found['digest']}."
    )


async def _page(request: Request, said: str = "", problem: str = "", status: int = 200) -> Response:
    query = request.query_params
    asked = {name: query[name] for name in ("user", "action", "since", "before") if query.get(name)}
    context: dict[str, Any] = {"lines": [], "next": None}
    try:
        context = await admin(visit(request), "GET", "audit", None, {**asked, "limit": "100"})
    except CallError as error:
        if not asked or error.status != 400:
            raise
        problem, status = explained(error), error.status
    for line in context["lines"]:
        line["said"] = "; ".join(_said(line, name, value) for name, value in line["parameters"].items())
    typed = {name: query.get(name, "") for name in ("user", "action", "since")}
    return await page(request, "users/audit.html", status, said=said, problem=problem, typed=typed, **context)


def _said(line: dict[str, Any], name: str, value: Any) -> str:
    """A parameter, and that it is not whole."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return f"{name}: {text}{'…' if name in line.get('cut', {}) else ''}"
