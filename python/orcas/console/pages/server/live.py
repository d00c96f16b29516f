"""What the server does now and did in the last hour: rates, latencies, errors, bytes, commits, caches, disk."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Callable
from typing import Any, Final

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from orcas.console.calls import call
from orcas.console.pages.server.charts import Chart, Series, line_chart
from orcas.console.places import Place
from orcas.console.rendering import page, visit
from orcas.console.shown import size

_SPAN_SECONDS: Final = 3600.0
_Words = Callable[[float], str]


def rate(value: float) -> str:
    """A number of anything, short."""
    return f"{value:,.0f}" if value >= 100 or value == 0 else f"{value:.1f}" if value >= 1 else f"{value:.2g}"


def took(seconds: float | None) -> str:
    """A duration."""
    if seconds is None:
        return "—"
    return f"{seconds * 1000:.3g} ms" if seconds < 1 else f"{seconds:.2f} s"


def _bytes(value: float) -> str:
    return size(round(value))


def _share(value: float) -> str:
    return f"{value:.0%}"


def _cores(value: float) -> str:
    return f"{value:.2f} cores"


# Title, how values are said, and name and sample of each line.
_CHARTS: Final[tuple[tuple[str, _Words, tuple[tuple[str, str], ...]], ...]] = (
    ("Requests a second", rate, (("all", "requests_per_sec"), ("refused or failed", "errors_per_sec"))),
    ("Time of a request", took, (("99 % within", "p99_sec"), ("half within", "p50_sec"))),
    ("Bytes a second", _bytes, (("sent", "sent_bytes_per_sec"), ("received", "received_bytes_per_sec"))),
    ("Commit rounds a second", rate, (("rounds", "commits_per_sec"), ("records in each", "records_per_commit"))),
    ("Sync of the log", took, (("99 % within", "sync_p99_sec"), ("half within", "sync_p50_sec"))),
    ("Processor", _cores, (("used", "cpu_share"),)),
    ("Memory", _bytes, (("taken", "memory_bytes"),)),
    ("Answers from the cache of objects", _share, (("of lookups", "objects_cache_hit_rate"),)),
    ("Disk", _bytes, (("free", "disk_free_bytes"), ("stored content", "stored_bytes"), ("dead", "dead_bytes"))),
    ("Index behind by", _bytes, (("log not applied", "index_lag_bytes"),)),
)


async def show(request: Request) -> Response:
    """The charts and the latest interval."""
    answer = await call(visit(request), "GET", "/_orcas/admin/history")
    # In a thread, like the page: an hour has thousands of numbers.
    found, drawn = await asyncio.to_thread(_read, answer.body)
    return await page(
        request, "server/live.html", charts=drawn, latest=found["latest"], rate=rate, took=took, share=_share,
        interval=found["interval_sec"],
    )  # fmt: skip


def _read(body: bytes) -> tuple[dict[str, Any], list[Chart]]:
    found = json.loads(body)
    return found, charts(found["samples"])


def charts(samples: dict[str, list[float | None]]) -> list[Chart]:
    """The charts of the last hour."""
    times = [moment for moment in samples.get("time", ()) if moment is not None]
    drawn = []
    for title, words, lines in _CHARTS:
        series = [Series(name, samples.get(key) or [None] * len(times)) for name, key in lines]
        drawn.append(line_chart(title, times, _SPAN_SECONDS, series, words))
        # Others get their turn.
        time.sleep(0)
    return drawn


ROUTES = [Route("/live", show)]
PLACES = [Place("Live", "/live", "Operation", ("orcas:GetHistory",))]
