"""The page of all metrics, at `/_orcas/metrics`: OpenMetrics, or the older text format of Prometheus.

Readers send a bearer token, if one is set; otherwise only clients on this machine may read it, unless a proxy on this
machine passed their request on. The page is made in a thread, because that may wait for the disk.
"""

from __future__ import annotations

import asyncio
import hmac
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Final

from fastapi import APIRouter, Request, Response
from fastapi.concurrency import run_in_threadpool
from fastapi.responses import JSONResponse

from orcas.process import counts as process
from orcas.settings.config import is_loopback
from orcas.telemetry.cluster import NodeNumbers, with_cluster
from orcas.telemetry.identities import with_identities
from orcas.telemetry.origins import with_origins
from orcas.telemetry.replication import with_replication
from orcas.telemetry.reports import note_cause
from orcas.telemetry.standby import with_standby
from orcas.version import orcas_version

if TYPE_CHECKING:
    from starlette.types import Scope

    from orcas.engine import Surroundings, TaskNumbers
    from orcas.settings.config import Settings
    from orcas.standby.following import Progress
    from orcas.targets.delivery import TargetCounts
    from orcas.telemetry.origins import Counts
    from orcas.telemetry.replication import RouteCounts

OPENMETRICS: Final = "application/openmetrics-text; version=1.0.0; charset=utf-8"
TEXT: Final = "text/plain; version=0.0.4; charset=utf-8"
# A request with one of these was passed on: where it comes from is not where it began.
_FORWARDED: Final = frozenset((b"forwarded", b"via", b"x-forwarded-for", b"x-real-ip"))
_QUALITY: Final = re.compile(r"q=([01](?:\.[0-9]{0,3})?)")
# For the documentation.
_ANSWERS: Final[dict[int | str, dict[str, Any]]] = {
    200: {"description": "The metrics"},
    401: {"description": "The token of `ORCAS_METRICS_TOKEN` is missing or wrong"},
    403: {"description": "Without a token, the client must be on the same machine"},
}

# Makes the page; blocks.
Page = Callable[[bool, "Surroundings"], str]


class Reader:
    """Makes the page, one at a time: a reader that gives up does not end its page.

    The functions are called for each page; `spans` counts those that were sent and dropped.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        page: Callable[[], Page],
        connections: Callable[[], int],
        refusals: Callable[[], Mapping[str, int]],
        certificate: Callable[[], tuple[float, bool] | None],
        spans: Callable[[], tuple[int, int]],
        targets: Callable[[], list[TargetCounts]],
        tasks: Callable[[], list[TaskNumbers]],
        origins: Callable[[], Counts],
        replication: Callable[[], list[RouteCounts]],
        damaged: Callable[[], int],
        standby: Callable[[], Progress | None],
        node: Callable[[], NodeNumbers | None],
        passed: Callable[[], Mapping[str, int]],
    ) -> None:
        self._settings, self._page, self._connections, self._certificate = settings, page, connections, certificate
        self._refusals = refusals
        self._spans, self._targets, self._tasks, self._origins = spans, targets, tasks, origins
        self._damaged, self._standby, self._replication = damaged, standby, replication
        self._node, self._passed = node, passed
        self._turn = asyncio.Lock()

    async def read(self, *, openmetrics: bool = False) -> str:
        """The page."""
        around: Surroundings = {
            "version": orcas_version(), "connections": self._connections(), "certificate": self._certificate(),
            "refusals": list(self._refusals().items()), "buckets_max": self._settings.metrics_buckets,
            "spans": self._spans(), "targets": self._targets(), "tasks": self._tasks(), "process": process.counts(),
        }  # fmt: skip
        async with self._turn:
            page = await run_in_threadpool(self._page(), openmetrics, around)
        page = with_identities(with_origins(page, self._origins(), openmetrics=openmetrics), self._damaged())
        page = with_replication(page, self._replication(), openmetrics=openmetrics)
        progress = self._standby()
        if progress is not None:
            page = with_standby(page, progress.behind_sec, progress.sequence)
        # In a thread: it reads the mark of the node.
        numbers = await run_in_threadpool(self._node)
        return page if numbers is None else with_cluster(page, numbers, self._passed(), openmetrics=openmetrics)

    async def answer(self, request: Request) -> Response:
        """The page, in the format that the reader prefers."""
        openmetrics = wants_openmetrics(request.headers.get("accept", ""))
        text = await self.read(openmetrics=openmetrics)
        kind = OPENMETRICS if openmetrics else TEXT
        return Response(text, headers={"content-type": kind, "cache-control": "no-store"})


def router(settings: Settings, reader: Reader) -> APIRouter:
    """The route."""
    routes = APIRouter(tags=["metrics"])
    if not settings.metrics:
        return routes

    @routes.get("/metrics", response_model=None, response_class=Response, responses=_ANSWERS)
    async def metrics(request: Request) -> Response:
        """All metrics, which docs/metrics.md describes: OpenMetrics, or the older text format of Prometheus."""
        refusal = None if settings.metrics_public else _refusal(settings.metrics_token, request.scope)
        if refusal is not None:
            status, code, message = refusal
            note_cause(request.scope, code, message)
            headers = {"www-authenticate": "Bearer"} if status == 401 else None
            return JSONResponse({"error": {"code": code, "message": message}}, status, headers)
        return await reader.answer(request)

    return routes


def _refusal(token: str | None, scope: Scope) -> tuple[int, str, str] | None:
    """Status, code and message, if the sender may not read the metrics."""
    if token is not None:
        sent = [value for name, value in scope["headers"] if name == b"authorization"]
        known = len(sent) == 1 and hmac.compare_digest(sent[0], b"Bearer " + token.encode())
        return None if known else (401, "AccessDenied", "Metrics need the bearer token of the server.")
    headers = scope["headers"]
    passed_on = any(name in _FORWARDED for name, _ in headers)
    # A page of another site, whose name leads here, says that name.
    named = all(_is_local(_host(value.decode("latin-1"))) for name, value in headers if name == b"host")
    if _is_local((scope.get("client") or ("",))[0]) and named and not passed_on:
        return None
    message = "Without ORCAS_METRICS_TOKEN, metrics are only for clients on the same machine."
    return 403, "AccessDenied", message


def _host(header: str) -> str:
    """The host of a Host header, without the port."""
    return header[1:].partition("]")[0] if header.startswith("[") else header.partition(":")[0]


def _is_local(host: str) -> bool:
    """Whether an address is one of this machine, also for IPv4 addresses as a socket for both versions shows them."""
    return is_loopback(host.removeprefix("::ffff:"))


def wants_openmetrics(accept: str) -> bool:
    """Whether an Accept header prefers OpenMetrics 1.0 to the older format, which is also for those that do not say."""
    best = {"openmetrics": 0.0, "text": 0.0}
    for part in accept.lower().split(","):
        kind, *parameters = (word.strip() for word in part.split(";"))
        quality = next((float(found[1]) for word in parameters if (found := _QUALITY.fullmatch(word))), 1.0)
        if kind == "application/openmetrics-text" and "version=0.0.1" not in parameters:
            best["openmetrics"] = max(best["openmetrics"], quality)
        elif kind == "text/plain":
            best["text"] = max(best["text"], quality)
    return best["openmetrics"] > best["text"]
