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
_JSON: Final = {"content": {"application/json": {"schema": {"type": "object"}}}}


def _answers(healthy: str, unhealthy: str | None = None) -> dict[int | str, dict[str, Any]]:
    answers: dict[int | str, dict[str, Any]] = {200: {"description": healthy, **_JSON}}
    return answers if unhealthy is None else answers | {503: {"description": unhealthy, **_JSON}}


class StoreHealth(Protocol):
    """The health of a store."""

    @property
    def status(self) -> str:
        """`ok`, `full`, `read-only` or `damaged`; the worst that applies. Of a node of a cluster also `no-owner`."""

    @property
    def reason(self) -> str | None:
        """Why it is not `ok`, without paths and keys."""

    @property
    def detail(self) -> str | None:
        """The reason in words for the log."""

    @property
    def writable(self) -> bool:
        """Whether new content is accepted now."""

    @property
    def durability(self) -> str:
        """The store's default mode."""


async def watch(store: Callable[[], StoreHealth], reported: str = "ok", seconds: float = _WATCH_SECONDS) -> None:
    """Say in the log when the store is not healthy, and whenever it changes. Until it is cancelled.

    `reported`: what it is when it is as it should be.
    """
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

    @routes.get("/live", response_model=None, responses=_answers("The process answers requests"))
    async def live() -> dict[str, str]:
        """Whether the process answers requests, for a supervisor."""
        return {"status": "ok"}

    # Not coroutines, so that FastAPI runs them in threads: `store` may wait for the disk.
    @routes.get(
        "/ready",
        response_model=None,
        responses=_answers(
            "Objects can be read: `ok`, `full` or `read-only`", "`damaged` or `no-owner`: `reason` says why"
        ),
    )
    def ready(response: Response) -> dict[str, str | bool]:
        """Whether objects can be read, for a load balancer. `status` is `ok`, `full`, `read-only` or `damaged`; `no-owner`
        of a node of a cluster that can neither answer nor pass on.

        `reason` says why it is not `ok`, `writable` whether new content is accepted; `durability` is the default mode.
        """
        health = store()
        return answer(health, response, healthy=health.status in _READY)

    @routes.get(
        "/writable",
        response_model=None,
        responses=_answers("New content is accepted", "New content is not accepted: `reason` says why"),
    )
    def writable(response: Response) -> dict[str, str | bool]:
        """Whether new content is accepted. The document is that of `ready`."""
        health = store()
        return answer(health, response, healthy=health.writable)

    return routes
