"""The composition root: settings in, ASGI application out; the only module that wires everything.

Every HTTP request outside `/_orcas/` goes straight to the S3 dispatcher, past FastAPI's middleware and router; the
decision looks at the raw path and at Host, never at the decoded path, which loses what S3 keys keep. The engine opens in
the lifespan, never on import. Must not know S3 operations.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI
from fastapi.responses import HTMLResponse
from starlette.types import Receive, Scope, Send

from orcas.admin import docs, health
from orcas.admin.api import MOUNT, Tools, admin_app
from orcas.config import Settings
from orcas.control import Credential, Snapshot, open_control, salvaged_root
from orcas.control.root import Root
from orcas.dispatch import Dispatcher
from orcas.edge import Core, close_core, names_bucket, open_core, salvage_core
from orcas.pages import POLICY
from orcas.reports import reporting
from orcas.version import orcas_version

if TYPE_CHECKING:
    from orcas.edge import SalvageReport

# Not a bucket name: those have no underscore. So nothing of a path-style client is shadowed.
RESERVED: Final = b"/_orcas/"

log = logging.getLogger("orcas.control")


@dataclass(frozen=True, slots=True)
class Lane:
    """The open store as the application sees it: where S3 requests go, how it is, who is root, and the operator's tools."""

    dispatch: Callable[[Scope, Receive, Send], Awaitable[None]]
    health: Callable[[], health.StoreHealth]
    root: Root
    tools: Tools | None = None
    # What opening the store took, for the log.
    opening: Mapping[str, object] = field(default_factory=dict)
    # Of a store that is open for salvage.
    salvage: SalvageReport | None = None


OpenLane = Callable[[Settings], AbstractAsyncContextManager[Lane]]


@asynccontextmanager
async def open_lane(settings: Settings) -> AsyncIterator[Lane]:
    """Open control store and engine, and put the dispatcher on top. Closing flushes the engine before the lock goes.

    Raises:
        UnavailableError: the store is locked or damaged.
    """
    keys = settings.root_access_key, settings.root_secret_key
    if settings.salvage:
        with salvaged_root(settings.data, *keys) as root:
            only = Snapshot((Credential(root.access_key, root.secret_key, root.owner),), root.owner)
            core, report = await asyncio.to_thread(salvage_core, settings, only)
            async with _over(core, settings, root, {"recovery": "salvage"}, report) as lane:
                yield lane
        return
    async with open_control(settings.data, *keys) as control:
        snapshot = await control.load_snapshot()
        # Recovery reads the log, so it may take seconds: the loop stays free for signals.
        began = time.monotonic()
        core = await asyncio.to_thread(open_core, settings, snapshot)
        opening = _opening(core, round(time.monotonic() - began, 3))
        async with _over(core, settings, control.root, opening) as lane:
            yield lane


@asynccontextmanager
async def _over(
    core: Core,
    settings: Settings,
    root: Root,
    opening: Mapping[str, object],
    report: SalvageReport | None = None,
) -> AsyncIterator[Lane]:
    """What stands on an open engine, which is closed at the end."""
    try:
        dispatcher = Dispatcher(core, settings.body_budget)
        tools = Tools(core)
        watch = asyncio.create_task(health.watch(core.health))
        try:
            yield Lane(dispatcher, core.health, root, tools, opening, report)
        finally:
            watch.cancel()
            await tools.cancel()
            dispatcher.close()
    finally:
        await asyncio.to_thread(close_core, core)
    await tools.join()


def _opening(core: Core, seconds: float) -> dict[str, object]:
    """What the start had to do; the numbers of a recovery only where there was one."""
    recovery = core.recovery()
    done: dict[str, object] = {"recovery": "none", "opened_in_sec": seconds}
    if recovery["batches"] or recovery["torn_bytes"] or recovery["index_rebuilt"]:
        done |= {
            "recovery": "index rebuilt" if recovery["index_rebuilt"] else "log replayed",
            "replayed_batches": recovery["batches"],
            "replayed_records": recovery["records"],
            "dropped_bytes": recovery["torn_bytes"],
        }
    return done


class Orcas(FastAPI):
    """The server as an ASGI application. `lane` is set while the lifespan is open, and only then."""

    def __init__(self, settings: Settings, open_lane: OpenLane = open_lane) -> None:
        super().__init__(
            title="Orcas",
            version=orcas_version(),
            lifespan=self._open,
            # FastAPI's own page loads its scripts from elsewhere.
            docs_url=None,
            redoc_url=None,
            # The documentation describes public code, but is nobody's business on a server in use.
            openapi_url="/_orcas/openapi.json" if settings.dev else None,
        )
        self.settings = settings
        self.lane: Lane | None = None
        self._open_lane = open_lane
        self._domains = list(settings.domains)
        self.include_router(health.router(self._health), prefix="/_orcas/health")
        # A path that is not there is not there with a slash either.
        self.router.redirect_slashes = False
        self._admin = admin_app(self._tools)
        self.mount(MOUNT, self._admin)
        if settings.dev:
            self.add_api_route("/_orcas/docs", self._docs, include_in_schema=False)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one ASGI scope."""
        if scope["type"] == "http" and (not scope["raw_path"].startswith(RESERVED) or self._names_bucket(scope)):
            if self.lane is None:
                raise RuntimeError("the application's lifespan is not open")
            await self.lane.dispatch(scope, receive, send)
        else:
            await super().__call__(scope, receive, reporting(log, scope, send) if scope["type"] == "http" else send)

    def _names_bucket(self, scope: Scope) -> bool:
        """Whether Host is `BUCKET.DOMAIN`: then `/_orcas/…` is a key of that bucket. Decided where S3 decides it."""
        return any(name == b"host" and names_bucket(value, self._domains) for name, value in scope["headers"])

    def openapi(self) -> dict[str, Any]:
        """The routes under `/_orcas/`, the operator's among them."""
        return docs.joined(super().openapi(), self._admin.openapi(), MOUNT)

    def _docs(self) -> HTMLResponse:
        return HTMLResponse(docs.page(self.openapi()), headers={"content-security-policy": POLICY.decode()})

    def _health(self) -> health.StoreHealth:
        if self.lane is None:
            raise RuntimeError("the application's lifespan is not open")
        return self.lane.health()

    def _tools(self) -> Tools:
        if self.lane is None or self.lane.tools is None:
            raise RuntimeError("the application's lifespan is not open")
        return self.lane.tools

    @asynccontextmanager
    async def _open(self, _: FastAPI) -> AsyncIterator[None]:
        async with self._open_lane(self.settings) as lane:
            self.lane = lane
            try:
                yield
            finally:
                self.lane = None
