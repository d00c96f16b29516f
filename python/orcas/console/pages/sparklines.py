"""Requests of each bucket by day, for the lines in the list of buckets: from usage, for whoever may see that.

The list does not wait for them: a script of the page asks.
"""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from orcas.console.calls import CallError, call
from orcas.console.rendering import visit

DAYS: Final = 14


async def by_day(request: Request) -> Response:
    """Requests of each of the last days in UTC, today included, of the buckets from `first` to `last` by name: as JSON.

    Nothing if the key may not know it, if usage is not kept, or if there are too many buckets for one report. The names are
    those of a page of the list, so that the report is short: decoding it holds the event loop.
    """
    first, last = (request.query_params.get(name, "") for name in ("first", "last"))
    today = dt.datetime.now(dt.UTC).date()
    days = [(today - dt.timedelta(days=before)).isoformat() for before in range(DAYS - 1, -1, -1)]
    query = {"by": "bucket,day", "since": days[0], "until": days[-1], "first": first, "last": last}
    try:
        answer = await call(visit(request), "GET", "/_orcas/admin/usage", query)
    except CallError as error:
        if error.status not in (400, 403, 409, 503):
            raise
        return JSONResponse({"days": days, "buckets": None})
    return JSONResponse({"days": days, "buckets": await asyncio.to_thread(_counted, answer.body, days)})


def _counted(report: bytes, days: list[str]) -> dict[str, list[int]]:
    places = {day: place for place, day in enumerate(days)}
    found: dict[str, list[int]] = {}
    rows: list[dict[str, Any]] = json.loads(report)["rows"]
    for row in rows:
        if row["bucket"]:
            counts = found.setdefault(row["bucket"], [0] * len(days))
            counts[places[row["day"]]] += row["writes"] + row["reads"] + row["free"]
    return found


ROUTES = [Route("/requests-by-day", by_day)]
