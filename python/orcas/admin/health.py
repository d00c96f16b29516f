"""Health, for supervisors and load balancers: 200 without credentials, and nothing in it that is anybody's secret."""

from __future__ import annotations

from collections.abc import Callable
from typing import Protocol

from fastapi import APIRouter


class StoreHealth(Protocol):
    """What is asked of the store. `read_only` says why nothing is written any more."""

    @property
    def read_only(self) -> str | None:
        """None while writes are taken."""

    @property
    def storage_full(self) -> bool:
        """Writes that add content are refused for want of space."""

    @property
    def durability(self) -> str:
        """The store's default mode."""


def router(store: Callable[[], StoreHealth]) -> APIRouter:
    """The routes, over a store that is asked at each request."""
    routes = APIRouter(tags=["health"])

    @routes.get("/live")
    async def live() -> dict[str, str]:
        """The process answers requests."""
        return {"status": "ok"}

    # Not a coroutine: asking the store may look at the disk, so FastAPI does it in a thread.
    @routes.get("/ready")
    def ready() -> dict[str, str]:
        """Requests are answered. `status` is `ok`, `full` or `read-only`; the reason of the last is in the log."""
        health = store()
        status = "read-only" if health.read_only is not None else "full" if health.storage_full else "ok"
        return {"status": status, "durability": health.durability}

    return routes
