"""The server over the admin API: versions, settings, the last hour, requests as they come, the log, the disk."""

from __future__ import annotations

import asyncio
import dataclasses
import functools
import os
import shutil
import signal
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Annotated, Any, Final, Literal

from fastapi import FastAPI, Query, Response

from orcas.admin.routes.orders import Name
from orcas.admin.tools import totals_of
from orcas.admin.watching.about import parts, settings_table
from orcas.admin.watching.causes import CAUSES
from orcas.engine import Refusal
from orcas.process import counts
from orcas.telemetry.logs import kept_lines
from orcas.version import versions

if TYPE_CHECKING:
    from pathlib import Path

    from orcas.admin.health import StoreHealth
    from orcas.admin.watching.history import History
    from orcas.engine import Core
    from orcas.iam.directory import Directory
    from orcas.settings.config import Settings
    from orcas.standby.following import Progress
    from orcas.telemetry.watching import RequestWatch

# Requests in one answer.
_SHOWN_MAX: Final = 500
# The lowest level of lines of the log.
Level = Literal["debug", "info", "warning", "error", "critical"]
# How long the answer to a request to stop has to leave.
_STOP_SECONDS: Final = 0.1
# They do not change while the process runs.
_versions: Final = functools.cache(versions)


class Around:
    """Facts about the application: settings with their sources, how the store was opened, its history, and its lag.

    `standby`: how it is as a standby; None if it is none. `cluster`: how it is as a node; None if it is none.
    """

    def __init__(
        self,
        settings: Settings,
        sources: Mapping[str, str],
        opening: Mapping[str, object],
        history: History | None,
        standby: Progress | None,
        health: Callable[[], StoreHealth],
        cluster: Callable[[], dict[str, Any]] | None,
    ) -> None:
        self.settings, self.sources, self.opening, self.history = settings, sources, opening, history
        self.standby, self.health, self.cluster = standby, health, cluster


def add_server(
    app: FastAPI,
    core: Callable[[], Core],
    identities: Callable[[], Directory | None],
    data: Callable[[], Path | None],
    around: Callable[[], Around],
) -> None:
    """Add these paths to the application. Not coroutines where the store or files are read."""

    @app.get("/about")
    def about() -> dict[str, Any]:
        """The health of the store with its reason, damaged identities, versions, when and how the server started.

        `standby`: of a standby, the server that it follows, the last record, and for how long it may be behind. `cluster`:
        of a node of a cluster, what `GET cluster` says.
        """
        known, found = identities(), around()
        health, standby = found.health(), found.standby
        started, cpu, memory = counts.counts()
        return {
            "health": {
                "status": health.status, "reason": health.reason, "detail": health.detail, "writable": health.writable,
                "durability": health.durability,
            },
            "versions": dict(_versions()), "started": started, "opening": dict(found.opening), "cpu_sec": cpu,
            "memory_bytes": memory, "damaged_identities": [] if known is None else known.damaged(),
            "standby": None if standby is None else dataclasses.asdict(standby),
            "cluster": None if found.cluster is None else found.cluster(),
        }  # fmt: skip

    # A coroutine, so that the answer is on its way when the signal arrives.
    @app.post("/stop", responses={409: {"description": "The server belongs to the program that has it in it"}})
    async def stop() -> dict[str, Any]:
        """Stop the server, as SIGTERM does: requests under way are answered, and the store is closed."""
        if kept_lines() is None:
            raise Refusal(409, "NotStoppable", "The server belongs to the program it is in: stop that program.")
        asyncio.get_running_loop().call_later(_STOP_SECONDS, os.kill, os.getpid(), signal.SIGTERM)
        return {}

    @app.get("/licences")
    def licences() -> dict[str, Any]:
        """The parts of Orcas with version and licence: Python packages, and Rust crates if the wheel names them."""
        return {"parts": parts()}

    @app.get("/settings")
    def settings() -> dict[str, Any]:
        """All settings with their values and sources. Secrets are masked."""
        return {"settings": settings_table(around().settings, around().sources)}

    @app.get("/disk", responses={409: {"description": "The store is in no directory of its own"}})
    def disk() -> dict[str, Any]:
        """The file system of the store in bytes: its size, what is free, what must stay free, and what the store takes."""
        directory = data()
        if directory is None:
            raise Refusal(409, "NoDirectory", "A store that is open for salvage is not asked about its disk.")
        found, stats = shutil.disk_usage(directory), core().stats()
        files = stats["files"]
        store = files["log_allocated"] + files["pack_allocated"] + files["index_bytes"] + files["index_wal_bytes"]
        return {
            "total": found.total, "free": found.free, "reserve": around().settings.disk_reserve, "store": store,
            "others": max(0, found.total - found.free - store), "files": dict(files),
            "content": totals_of(**stats["totals"]),
        }  # fmt: skip


def add_watching(app: FastAPI, requests_seen: Callable[[], RequestWatch], around: Callable[[], Around]) -> None:
    """Add the paths of what happens on the server. Not coroutines where many lines are read."""

    # A coroutine, because samples belong to the loop.
    @app.get("/history", response_class=Response, responses={409: {"description": "No history is kept"}})
    async def history() -> Response:
        """The last hour from the metrics, as values every ten seconds, and what happened in the latest interval."""
        found = around().history
        if found is None:
            raise Refusal(409, "NoHistory", "No history is kept: ORCAS_CONSOLE or ORCAS_METRICS is false.")
        return Response(await found.describe(), media_type="application/json")

    @app.get("/requests")
    def requests(
        limit: Annotated[int, Query(ge=1, le=_SHOWN_MAX)] = 100,
        after: Annotated[int, Query(ge=0, le=1 << 62)] = 0,
        failed: Annotated[bool, Query()] = False,
        bucket: Annotated[Name | None, Query()] = None,
        code: Annotated[Name | None, Query()] = None,
        key: Annotated[Name | None, Query()] = None,
        access_key: Annotated[Name | None, Query()] = None,
    ) -> dict[str, Any]:
        """Requests as they come, the newest first, from the first call on and until nobody calls for 30 seconds.

        `key` and `access_key` give the beginning; `code` an error code; `failed` leaves out what succeeded. `after`: only
        requests with a higher `number`. A refusal has its `cause`, what usually causes it, and what to do.
        """
        watch = requests_seen()
        watch.watch()
        found, newest = watch.newest(
            limit, after, failed=failed or code is not None, bucket=bucket, error=code, key=key, access_key=access_key
        )
        return {"requests": [_explained(entry) for entry in found], "newest": newest}

    @app.get("/log", responses={409: {"description": "The log belongs to the program that has this server in it"}})
    def newest_lines(
        limit: Annotated[int, Query(ge=1, le=_SHOWN_MAX)] = 100,
        after: Annotated[int, Query(ge=0, le=1 << 62)] = 0,
        level: Annotated[Level, Query()] = "debug",
        search: Annotated[Name, Query()] = "",
    ) -> dict[str, Any]:
        """The newest lines of the log that are in memory, the newest first; secrets are struck out.

        `level` gives the lowest one; `search` a text that one of the fields has. `after`: only lines with a higher `number`.
        """
        kept = kept_lines()
        if kept is None:
            raise Refusal(
                409, "NoLog", "The log is not kept here: it belongs to the program that has this server in it."
            )
        found, newest = kept.newest(limit, after, level, search)
        return {"lines": found, "newest": newest}


def _explained(entry: dict[str, Any]) -> dict[str, Any]:
    usual, advice = CAUSES.get(entry.get("error") or "", (None, None))
    return {**entry, "usual_cause": usual, "advice": advice}
