"""Health, for supervisors and load balancers: 200 without credentials, and nothing in it that is anybody's secret."""

from __future__ import annotations

from fastapi import APIRouter

router = APIRouter(tags=["health"])


@router.get("/live")
async def live() -> dict[str, str]:
    """The process answers requests."""
    return {"status": "ok"}


@router.get("/ready")
async def ready() -> dict[str, str]:
    """The store is open: without it the server accepts no connection, so an answer is the proof."""
    return {"status": "ok"}
