"""Requests as they come, with filters, and why one was refused."""

from __future__ import annotations

from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orcas.console.calls import admin
from orcas.console.pages.server.live import took
from orcas.console.places import Place
from orcas.console.rendering import page, visit

_FILTERS: Final = ("bucket", "code", "key", "access_key")
# What a line may leave out.
_FIELDS: Final = (
    "operation", "method", "bucket", "key", "status", "error", "total_sec", "bytes_in", "bytes_out", "remote",
    "access_key", "user_agent",
)  # fmt: skip
_VALUE_MAX: Final = 1024
_SHOWN: Final = 100


async def show(request: Request) -> Response:
    """The newest requests that fit."""
    asked = request.query_params
    wanted = {name: asked.get(name, "").strip()[:_VALUE_MAX] for name in _FILTERS}
    failed = asked.get("failed") == "yes"
    query = {name: value for name, value in wanted.items() if value} | {"limit": str(_SHOWN)}
    if failed:
        query["failed"] = "true"
    found = await admin(visit(request), "GET", "requests", query=query)
    rows = [
        dict.fromkeys(_FIELDS) | entry | {"why": why(entry), "kind": _kind(entry.get("status"))}
        for entry in found["requests"]
    ]
    return await page(
        request, "server/requests.html", rows=rows, wanted=wanted, failed=failed, newest=found["newest"], took=took,
        shown=_SHOWN,
    )  # fmt: skip


def _kind(status: int | None) -> str:
    return "" if status is not None and status < 400 else "bad"


def why(entry: dict[str, Any]) -> list[str]:
    """Sentences about a refusal: what was said or decided, the likely cause, and what to do."""
    said = [entry["cause"], *_decided(entry)]
    if entry["likely_cause"]:
        said.append(f"Most likely: {entry['likely_cause']}")
    elif entry["usual_cause"]:
        said.append(f"Usually: {entry['usual_cause']}")
    if entry["advice"]:
        said.append(f"What to do: {entry['advice']}")
    return [text.rstrip(".") + "." for text in said if text]


def _decided(entry: dict[str, Any]) -> list[str]:
    """What policies have denied."""
    found = []
    for decision in [*entry.get("decisions", ()), *entry.get("later_decisions", ())]:
        if decision.get("decision") == "denied":
            if decision.get("missing"):
                found.append(f"nothing allows {decision['action']}: {decision['missing']}")
            else:
                place = f"statement {decision.get('statement')} of {decision.get('policy')}"
                found.append(f"{place} denies {decision['action']}")
    return found


ROUTES = [Route("/requests", show)]
PLACES = [Place("Requests", "/requests", "Operation", ("orcas:GetRequests",))]
