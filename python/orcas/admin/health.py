"""Health for supervisors and load balancers. Needs no credentials, and reveals no secrets.

`live` is for supervisors, `ready` for load balancers, and `writable` for those that route writes separately. A store that
is full or read-only is ready: it serves reads, and a full one needs deletions to recover.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from http import HTTPStatus
from typing import Any, Final, Protocol

from fastapi import APIRouter, Response

# Seconds between two checks of the store for the log.
_WATCH_SECONDS: Final = 5

log = logging.getLogger("orcas")

# A damaged store also serves reads, but not of every object, so it is not ready.
_READY: Final = frozenset({"ok", "full", "read-only"})
# Given here, with `response_model=None`: to derive it, FastAPI would import pydantic's version 1 at every start.
_DOCUMENT: Final[dict[int | str, dict[str, Any]]] = {
    200: {"content": {"application/json": {"schema": {"type": "object"}}}},
}


class StoreHealth(Protocol):
    """The health of a store."""

    @property
    def status(self) -> str:
        """`ok`, `full`, `read-only` or `damaged`; the worst that applies."""

    @property
    def reason(self) -> str | None:
        """Why it is not `ok`, without paths and keys."""

    @property
    def detail(self) -> str | None:
        """The same for the log."""

    @property
    def writable(self) -> bool:
        """Whether new content is accepted now."""

    @property
    def durability(self) -> str:
        """The store's default mode."""


async def watch(store: Callable[[], StoreHealth], seconds: float = _WATCH_SECONDS) -> None:
    """Say in the log when the store is not healthy, and whenever it changes. Until it is cancelled."""
    reported = "ok"
    while True:
        # In a thread: this may wait for the disk.
        health = await asyncio.to_thread(store)
        if health.status != reported:
            reported = health.status
            if reported == "ok":
                log.info("The store is healthy again and accepts writes")
            else:
                level = logging.WARNING if reported == "full" else logging.ERROR
                log.log(level, "The store is %s: %s", reported, health.detail)
        await asyncio.sleep(seconds)


def router(store: Callable[[], StoreHealth]) -> APIRouter:
    """The routes. `store` is called for each request."""
    routes = APIRouter(tags=["health"])

    def answer(health: StoreHealth, response: Response, *, healthy: bool) -> dict[str, str | bool]:
        response.status_code = HTTPStatus.OK if healthy else HTTPStatus.SERVICE_UNAVAILABLE
        response.headers["cache-control"] = "no-store"
        document: dict[str, str | bool] = {"status": health.status}
        if health.reason is not None:
            document["reason"] = health.reason
        return document | {"writable": health.writable, "durability": health.durability}

    @routes.get("/live", response_model=None, responses=_DOCUMENT)
    async def live() -> dict[str, str]:
        """The process answers requests."""
        return {"status": "ok"}

    # Not coroutines, so that FastAPI runs them in threads: `store` may wait for the disk.
    @routes.get("/ready", response_model=None, responses=_DOCUMENT)
    def ready(response: Response) -> dict[str, str | bool]:
        """Objects are read. `status` is `ok`, `full` or `read-only`, with 200, or `damaged`, with 503; `reason` says why."""
        health = store()
        return answer(health, response, healthy=health.status in _READY)

    @routes.get("/writable", response_model=None, responses=_DOCUMENT)
    def writable(response: Response) -> dict[str, str | bool]:
        """As `ready`, but 200 only while new content is taken."""
        health = store()
        return answer(health, response, healthy=health.writable)

    return routes
