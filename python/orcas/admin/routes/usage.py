"""Reports of usage over the admin API, under `/_orcas/admin/usage`."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
from collections.abc import Callable
from typing import Annotated, Any, Final

from fastapi import FastAPI, Query, Response

from orcas.admin.metering import TAG, NotKeptError, UsageKeeper
from orcas.control.usage import GROUPS, TooManyRowsError
from orcas.engine import Refusal

# Rows that are encoded at a time, so that other threads have their turn.
_ROWS: Final = 500


def add_usage(app: FastAPI, usage_keeper: Callable[[], UsageKeeper | None]) -> None:
    """Add this path to the application. A coroutine, because the file of usage belongs to the event loop."""

    @app.get("/usage", responses={409: {"description": "Usage is not kept"}})
    async def usage(
        since: Annotated[dt.date | None, Query()] = None,
        until: Annotated[dt.date | None, Query()] = None,
        by: Annotated[str, Query(max_length=160)] = "bucket",
        first: Annotated[str | None, Query(max_length=63)] = None,
        last: Annotated[str | None, Query(max_length=63)] = None,
    ) -> Response:
        """Requests, bytes and GB-months of a period, by default of this month, and what is stored now.

        With `first` and `last`, only of buckets whose names are between these, both included.
        """
        keeper = usage_keeper()
        if keeper is None:
            raise Refusal(409, "UsageNotKept", "Usage is not kept: ORCAS_USAGE_INTERVAL_SEC is 0.")
        groups = tuple(by.split(","))
        is_tag = len(groups) == 1 and groups[0].startswith(TAG)
        if not is_tag and (len(set(groups)) != len(groups) or not set(groups) <= set(GROUPS)):
            names = ", ".join(GROUPS)
            raise Refusal(400, "InvalidRequest", f"by must be one or more of {names}, or tag:NAME, not {by!r}.")
        today = dt.datetime.now(dt.UTC).date()
        until = until or today
        since = since or min(until, today).replace(day=1)
        if since > until:
            raise Refusal(400, "InvalidRequest", "since must not be later than until.")
        if (first is None) != (last is None):
            raise Refusal(400, "InvalidRequest", "Give both first and last, or neither.")
        buckets = None if first is None or last is None else (first, last)
        try:
            report = await keeper.report(since, until, groups, buckets)
        except NotKeptError as error:
            raise Refusal(503, "UsageNotKept", str(error)) from None
        except TooManyRowsError as error:
            raise Refusal(400, "InvalidRequest", str(error)) from None
        return Response(await asyncio.to_thread(_encoded, report), media_type="application/json")


def _encoded(report: dict[str, Any]) -> bytes:
    rows = report["rows"]
    head = json.dumps({name: value for name, value in report.items() if name != "rows"})
    parts = [json.dumps(rows[at : at + _ROWS])[1:-1] for at in range(0, len(rows), _ROWS)]
    return f'{head[:-1]}, "rows": [{", ".join(parts)}]}}'.encode()
