"""The periodic tasks over the admin API: their state, and running one now."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from fastapi import FastAPI

from orcas.admin.schedule import Schedule
from orcas.admin.tools import Tools


def add_tasks(app: FastAPI, schedule: Callable[[], Schedule], tools: Callable[[], Tools]) -> None:
    """Add these paths to the application."""

    # A coroutine: nothing waits for the disk.
    @app.get("/tasks")
    async def tasks() -> dict[str, Any]:
        """The periodic tasks: when each last ran, its result, and when it is due."""
        return {"tasks": schedule().describe()}

    @app.post("/tasks/{name}", status_code=202)
    def run(name: str) -> dict[str, Any]:
        """Begin a job that runs a task now, or after its present run."""
        return tools().start(name, tools().task(name))
