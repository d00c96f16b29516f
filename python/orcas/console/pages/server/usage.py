"""Usage and cost of a period as bars, by bucket, access key, owner or day."""

from __future__ import annotations

import datetime as dt
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orcas.console.calls import CallError, admin
from orcas.console.pages.server.charts import bar
from orcas.console.places import Place
from orcas.console.rendering import explained, page, visit
from orcas.console.shown import number, size

_GROUPS: Final = {"bucket": "Bucket", "key": "Access key", "owner": "Owner", "day": "Day"}
# Columns that are drawn: what they are called, and how values are said.
_COLUMNS: Final = {
    "requests": "Requests", "sent": "Bytes sent", "received": "Bytes received", "gb_months": "GB-months", "cost": "Cost",
}  # fmt: skip
_BYTES: Final = frozenset({"sent", "received"})
_ROWS_MAX: Final = 200


async def show(request: Request) -> Response:
    """The report."""
    asked = request.query_params
    by = asked.get("by", "bucket")
    by = by if by in _GROUPS else "bucket"
    today = dt.datetime.now(dt.UTC).date()
    since = asked.get("since") or today.replace(day=1).isoformat()
    until = asked.get("until") or today.isoformat()
    rows: list[dict[str, Any]] = []
    problem = ""
    try:
        rows = (await admin(visit(request), "GET", "usage", query={"since": since, "until": until, "by": by}))["rows"]
    except CallError as error:
        if error.status not in (400, 409, 503):
            raise
        problem = explained(error)
    columns = {
        name: title for name, title in _COLUMNS.items() if name == "requests" or any(name in row for row in rows)
    }
    drawn = asked.get("of", "requests")
    drawn = drawn if drawn in columns else "requests"
    heads: list[Any] = [_GROUPS[by], columns[drawn], *((title, "num") for title in columns.values())]
    return await page(
        request, "server/usage.html", heads=heads, rows=drawn_rows(rows, by, drawn), columns=columns, by=by, drawn=drawn,
        since=since, until=until, groups=_GROUPS, problem=problem, left_out=max(0, len(rows) - _ROWS_MAX), said=said,
    )  # fmt: skip


def drawn_rows(rows: list[dict[str, Any]], by: str, drawn: str) -> list[dict[str, Any]]:
    """The rows with bars of one column, the longest first; days in their order."""
    found = [{**row, "requests": row["writes"] + row["reads"] + row["free"], "name": row[by]} for row in rows]
    if by == "day":
        found.sort(key=lambda row: str(row["name"]))
    else:
        found.sort(key=lambda row: -(row.get(drawn) or 0))
    most = max((row.get(drawn) or 0 for row in found), default=0)
    return [{**row, "bar": bar(row.get(drawn) or 0, most)} for row in found[:_ROWS_MAX]]


def said(column: str, value: float | None) -> str:
    """A value of a column."""
    if value is None:
        return "—"
    if column in _BYTES:
        return size(int(value))
    if column == "requests":
        return number(int(value))
    return "<0.001" if 0 < value < 0.001 else f"{value:.4g}"


ROUTES = [Route("/usage", show)]
PLACES = [Place("Usage", "/usage", "Owner", ("orcas:GetUsage",))]
