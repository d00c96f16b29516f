"""The composition root: settings in, ASGI application out; the only module that wires everything.

Every HTTP request outside `/_orcas/` goes directly to the S3 dispatcher, without FastAPI's middleware and router. This is
decided by the raw path and Host, because decoding a path loses details that S3 keys have. Under `orcas serve`, only what
the listener does not answer by itself comes here. The store is opened in the lifespan, never on import. Must not know S3
operations.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import functools
import gc
import logging
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI
from fastapi.responses import HTMLResponse, JSONResponse, RedirectResponse
from starlette.requests import Request
from starlette.routing import Mount, Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from orcas.admin import docs, health, metrics
from orcas.admin.events import PATH, EventStreams
from orcas.admin.parts import Parts
from orcas.admin.schedule import Clock, SystemClock
from orcas.admin.tools import MOUNT
from orcas.admin.upkeep import check_default, check_presence, keyring_noted, keyring_upkeep
from orcas.admin.watching.history import History
from orcas.cluster.health import health_of
from orcas.cluster.leaving import check_no_node
from orcas.cluster.numbers import numbers_of
from orcas.cluster.opening import looping
from orcas.control.identities.snapshot import IdentitySnapshot
from orcas.control.root import Root, noted_keyring
from orcas.control.store import prepared
from orcas.engine import (
    Core,
    Keyring,
    StoreError,
    admit,
    close_core,
    names_bucket,
    open_core,
)
from orcas.errors import ConfigurationError, UnavailableError, because
from orcas.http.asgi import HostedExchange
from orcas.http.bodies import run_counted
from orcas.http.extensions import ConnectionDropped
from orcas.http.hosts import FOREIGN, is_own
from orcas.http.pages import POLICY, is_browser
from orcas.iam.directory import Directory, directory_of
from orcas.iam.endpoint import QueryEndpoint, is_query
from orcas.iam.file import Declared, read_identities
from orcas.localstack import paths as localstack
from orcas.minio import paths as minio
from orcas.process.memory import private_directory
from orcas.s3.delivery import LogDelivery
from orcas.s3.dispatch import Dispatcher
from orcas.s3.store import Store
from orcas.serving.assembly import exchanges_of, parts_of, prepare
from orcas.serving.connections import Connections
from orcas.serving.reading import is_read, readable
from orcas.settings.clients import S3_TABLES
from orcas.settings.config import DEV_SECRET_KEY, Settings, resolve
from orcas.settings.paths import reserved_paths
from orcas.standby.following import Progress
from orcas.standby.mark import check_no_standby
from orcas.tables import MOUNT as TABLES
from orcas.tables import NEEDED
from orcas.targets.file import check_targets
from orcas.telemetry.access import AccessLog
from orcas.telemetry.reports import reporting
from orcas.telemetry.tracing import Traces

if TYPE_CHECKING:
    from orcas.admin.routes.server import Around
    from orcas.admin.testing.control import TestControl
    from orcas.cluster.member import Member
    from orcas.engine import IncompleteBodies, SalvageReport
    from orcas.localstack.scripts import InitScripts

Dispatch = Callable[[Scope, Receive, Send], Awaitable[None]]
# Methods of requests that change nothing, except those of IAM's query protocol.
_SAFE: Final = frozenset({"GET", "HEAD", "OPTIONS"})

log = logging.getLogger("orcas.control")


@dataclass(frozen=True, slots=True, kw_only=True)
class OpenStore:
    """The parts of an open store that the application uses: the S3 dispatcher, health, the root identity, and more."""

    dispatch: Dispatch
    health: Callable[[], health.StoreHealth]
    root: Root
    # Bodies that arrive before it is known who sends them.
    incomplete: IncompleteBodies
    # The dispatcher of an application that is mounted under a path: `Dispatcher.below`.
    below: Callable[[int], Dispatch] | None = None
    # For the admin API, the console and the listener.
    parts: Parts | None = None
    # What opening the store involved, for the log.
    opening: Mapping[str, object] = field(default_factory=dict)
    # The findings, if the store is open for salvage.
    salvage: SalvageReport | None = None
    streams: EventStreams | None = None
    # Requests of IAM; None if the store is open for salvage.
    iam: QueryEndpoint | None = None
    # Spans of traces that were sent and dropped.
    spans: Callable[[], tuple[int, int]] = lambda: (0, 0)


StoreOpener = Callable[[Settings], AbstractAsyncContextManager[OpenStore]]


@asynccontextmanager
async def open_store(
    settings: Settings,
    *,
    keyring_required: bool = True,
    serves: bool = True,
    clock: Clock | None = None,
    member: Member | None = None,
) -> AsyncIterator[OpenStore]:
    """Open the engine, then the control store, and create the dispatcher. On exit, flush the engine, release the lock.

    The engine comes first, because the keyring needs its id, and seals what the control store keeps. `serves`: others have
    keys. Otherwise the root has a pair of this process only, and the control store is not opened.

    `keyring_required`: as of `orcas.engine.open_core`. `clock`: when periodic tasks are due. `member`: the node of a
    cluster whose store it is.

    Raises:
        ConfigurationError: the master key is missing, or is not that of the keyring.
        UnavailableError: the store is locked or damaged.
    """
    await asyncio.to_thread(admit, settings.data)
    if is_read(settings, member):
        async with readable(settings, member) as found:
            opened = _assembled(
                found.core, settings, found.root, {"recovery": found.kind}, found.report,
                standby=found.progress, member=member,
            )  # fmt: skip
            async with opened as store, found.loop:
                yield store
        return
    declared = _declared(settings) if keyring_required else None
    check_no_standby(settings.data)
    if member is None:
        check_no_node(settings.data)
    with prepared(settings.data) as owner:
        if keyring_required:
            check_presence(settings.data)
        # In a thread: recovery reads the log and may take seconds, and the loop must handle signals.
        began = time.monotonic()
        noted = noted_keyring(settings.data)
        # Requests of a command are not those of a user.
        metered = settings if serves else dataclasses.replace(settings, usage_interval_sec=0)
        core = await asyncio.to_thread(
            open_core,
            metered,
            IdentitySnapshot.of_root(owner),
            keyring_required=keyring_required,
            keyring_noted=noted,
            node=None if member is None else member.node,
        )
        opening = _opening(core, round(time.monotonic() - began, 3))
        if member is not None:
            # A follower had it open before, in this process.
            del opening["last_stop"]
        async with _identities(core, settings, owner, declared, serves=serves) as (root, directory):
            opened = _assembled(
                core, settings, root, opening, delivers=keyring_required, serves=serves, clock=clock,
                directory=directory, member=member,
            )  # fmt: skip
            async with opened as store, _looked_after(core, settings, member, keyring_required=keyring_required):
                yield store


def _declared(settings: Settings) -> Declared | None:
    """Check what depends on settings, before there is a directory with a root key that nothing has sealed, and read the
    file of identities."""
    check_default(settings)
    check_targets(settings)
    return None if settings.identities_file is None else read_identities(settings.identities_file)


@asynccontextmanager
async def _looked_after(
    core: Core, settings: Settings, member: Member | None, *, keyring_required: bool
) -> AsyncIterator[None]:
    """Look after the keyring, and let the other nodes of a cluster have what this one changes."""
    async with contextlib.AsyncExitStack() as stack:
        keyring = core.keyring()
        if isinstance(keyring, Keyring):
            kept = keyring_upkeep if keyring_required else keyring_noted
            await stack.enter_async_context(kept(keyring, settings.data))
        if member is not None:
            await asyncio.to_thread(member.opened)
            await stack.enter_async_context(looping(member, core))
        yield


@asynccontextmanager
async def _identities(
    core: Core, settings: Settings, owner: str, declared: Declared | None, *, serves: bool
) -> AsyncIterator[tuple[Root, Directory]]:
    """Let the identities of the store sign requests. If that fails, close the engine."""
    async with contextlib.AsyncExitStack() as stack:
        try:
            known = await stack.enter_async_context(directory_of(core, settings, owner, declared, serves=serves))
        except BaseException:
            await asyncio.to_thread(close_core, core)
            raise
        yield known


@asynccontextmanager
async def _assembled(
    core: Core,
    settings: Settings,
    root: Root,
    opening: Mapping[str, object],
    report: SalvageReport | None = None,
    *,
    delivers: bool = False,
    serves: bool = True,
    clock: Clock | None = None,
    directory: Directory | None = None,
    standby: Callable[[], Progress] | None = None,
    member: Member | None = None,
) -> AsyncIterator[OpenStore]:
    """Create what uses the engine. On exit, close it and then the engine."""
    try:
        logs, store = core.request_logs(), Store(core, settings.body_budget)
        streams = EventStreams(core, store.wait_for_events, settings.events_token)

        async def to_s3(scope: Scope, receive: Receive, send: Send) -> None:
            await dispatcher(scope, receive, send)

        pulls, replicator = await exchanges_of(core, to_s3, root, settings, directory, (serves, delivers))
        audit = None if directory is None else directory.audit
        dispatcher = Dispatcher(
            core, store, audit=audit, listen=streams.listen, console=settings.console, origins=pulls
        )
        delivery = LogDelivery(logs, dispatcher.perform, settings, root)
        how = {"delivers": delivers, "serves": serves, "reads": (reads := report is not None or standby is not None)}
        parts = parts_of(core, settings, pulls=pulls, replicator=replicator, directory=directory, standby=standby,
                         clock=clock or SystemClock(), member=member, **how)  # fmt: skip
        traces = None if settings.traces_endpoint is None else Traces(settings.traces_endpoint, logs)
        watching = health.watch(core.health, "ok" if standby is None else "read-only")
        looking, delivering = map(asyncio.create_task, (watching, delivery.run()))
        try:
            parts.deliveries.start()
            parts.replicator.start()
            # A command that only looks removes nothing.
            if serves:
                parts.schedule.start()
                if not reads:
                    await prepare(core, settings, root, dispatcher)
            dispatch, below = _dispatch(dispatcher, parts.testing)
            yield OpenStore(
                dispatch=dispatch,
                below=below,
                health=core.health if member is None else lambda: health_of(member, core.health()),
                root=root,
                incomplete=store.incomplete,
                parts=parts,
                opening=opening,
                salvage=report,
                streams=streams,
                iam=None if directory is None else QueryEndpoint(core, directory),
                spans=(lambda: (0, 0)) if traces is None else traces.counts,
            )
        finally:
            streams.close()
            await asyncio.to_thread(parts.watch.stop)
            await asyncio.to_thread(parts.deliveries.close)
            looking.cancel()
            await _deliver_rest(delivery, delivering)
            await _stop_work(parts)
            dispatcher.close()
            if traces is not None:
                await asyncio.to_thread(traces.close)
    finally:
        await asyncio.to_thread(close_core, core)
    await parts.schedule.join()
    await asyncio.to_thread(parts.tools.jobs.join)


async def _deliver_rest(delivery: LogDelivery, delivering: asyncio.Task[None]) -> None:
    """End the task that delivers server access logs, and deliver what is left."""
    delivering.cancel()
    await asyncio.gather(delivering, return_exceptions=True)
    await delivery.deliver_all()


async def _stop_work(parts: Parts) -> None:
    """End what works on the store, before it is closed. Jobs that cannot be cancelled end after it."""
    await parts.schedule.stop()
    if parts.usage is not None:
        await parts.usage.close()
    parts.pins.close()
    await asyncio.to_thread(parts.replicator.close)
    await parts.pulls.close()
    await asyncio.to_thread(parts.tools.jobs.cancel)


def _dispatch(dispatcher: Dispatcher, testing: TestControl | None) -> tuple[Dispatch, Callable[[int], Dispatch]]:
    """The dispatcher, and those for mounted applications; for a store in memory with what its tests ask for."""
    if testing is None:
        return dispatcher, dispatcher.below
    return testing.around(dispatcher), lambda length: testing.around(dispatcher.below(length), length)


@asynccontextmanager
async def _access_log(store: OpenStore, settings: Settings) -> AsyncIterator[AccessLog | None]:
    """Write the access log, if there is to be one."""
    if settings.access_log is None or store.parts is None:
        yield None
        return
    logs, copy = store.parts.core.request_logs(), store.parts.watch.take
    access = AccessLog(logs, settings.access_log, settings.access_log_max_size, settings.access_log_files, copy)
    try:
        await asyncio.to_thread(access.start)
    except OSError as error:
        raise UnavailableError(f"The access log {settings.access_log} cannot be opened: {because(error)}.") from None
    try:
        yield access
    finally:
        await asyncio.to_thread(access.stop)


def _opening(core: Core, seconds: float) -> dict[str, object]:
    """How the last process ended, and what the start had to do. The numbers of a recovery are included if there was one."""
    recovery = core.recovery()
    stop = "unclean" if recovery["unclean"] else "clean"
    done: dict[str, object] = {"last_stop": stop, "recovery": "none", "opened_in_sec": seconds}
    if recovery["batches"] or recovery["torn_bytes"] or recovery["index_rebuilt"]:
        done |= {
            "recovery": "index rebuilt" if recovery["index_rebuilt"] else "log replayed",
            "replayed_batches": recovery["batches"],
            "replayed_records": recovery["records"],
            "dropped_bytes": recovery["torn_bytes"],
        }
    return done


@asynccontextmanager
async def _open_embedded(settings: Settings) -> AsyncIterator[OpenStore]:
    """Open a store as `open_store` does; for one in memory, first create its directory, as `orcas serve` does."""
    with contextlib.ExitStack() as stack:
        if settings.memory:
            settings = dataclasses.replace(settings, data=stack.enter_context(private_directory(owned=True)))
        async with open_store(settings) as store:
            yield store


def create_app(data: str | Path | None = None, *, memory: bool = False, **settings: object) -> Orcas:
    """Orcas as an ASGI application, for an ASGI server, a test client, or an application of your own.

    Any ASGI server on asyncio can run it: `uvicorn --factory orcas:create_app`,
    `hypercorn "orcas.serving.app:create_app()"`, `granian --interface asgi --factory orcas:create_app`. Use a single
    process, because only one process can open a store. It also runs under `ASGITransport` of httpx and `TestClient` of
    FastAPI.

    The lifespan opens and closes the store. If another application mounts this one, its server does not run this
    lifespan, so pass it on: `FastAPI(lifespan=s3.lifespan)`.

    `orcas serve` limits request heads, slow and idle clients on connections of its own. Here, these limits are up to the
    ASGI server, and so are the address, signals and logging. The settings for them have no effect.

    Args:
        data: data directory of the store, created if it does not exist. Only its owner should have access to it.
        memory: keep the store in memory instead, for the duration of the lifespan.
        **settings: any other setting by name, such as `root_access_key` and `root_secret_key`. Without any arguments,
            all settings come from `ORCAS_*` variables and `orcas.toml`, as for `orcas serve`. With arguments, these
            sources are not read.

    Raises:
        ConfigurationError: a setting is wrong.
    """
    if data is None and not memory:
        if settings:
            raise ConfigurationError("create_app needs either data=DIRECTORY or memory=True: give one of them.")
        return orcas_of(resolve().settings, _open_embedded)
    if data is not None and memory:
        raise ConfigurationError("create_app takes either data or memory, not both: give one of them.")
    place: dict[str, object] = {"memory": True} if memory else {"data": str(data)}
    return orcas_of(resolve(place | settings, ambient=False).settings, _open_embedded)


def _mounted(path: str, app: ASGIApp) -> Mount:
    """The route of everything below `path`, also of paths with a line end, which Starlette's own pattern leaves out."""
    mount = Mount(path, app)
    mount.path_regex = re.compile(mount.path_regex.pattern, re.DOTALL)
    return mount


async def _to_console(request: Request) -> RedirectResponse:
    """The console, for those who leave out the slash at the end."""
    return RedirectResponse(request.scope["root_path"] + "/_orcas/console/")


class _Streams:
    """The streams of events of the open store, as an application: a route passes on all methods to one."""

    def __init__(self, app: Orcas) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        store = self._app.store
        if store is None or store.streams is None:
            raise RuntimeError("the application's lifespan is not open")
        await store.streams(scope, receive, send)


class Orcas(FastAPI):
    """The server as an ASGI application. `store` is set while the lifespan is open, and only then.

    Args:
        settings: all settings.
        open_store: opens the store when the lifespan begins.
        sources: where the value of each setting is from, if that is known: `orcas.settings.config.Resolved`.
        init_scripts: those of `orcas localstack`.
        member: the node of a cluster that this serves.
        ending: runs when the server is to stop, while it still serves. It gets the seconds that it may take, and blocks.
    """

    def __init__(
        self,
        settings: Settings,
        open_store: StoreOpener = open_store,
        *,
        sources: Mapping[str, str] | None = None,
        init_scripts: InitScripts | None = None,
        ending: Callable[[float], None] | None = None,
        member: Member | None = None,
    ) -> None:
        super().__init__(
            title="Orcas",
            # Of these routes: everybody can read it, and must not learn the version of the server.
            version="1",
            lifespan=self.lifespan,
            # FastAPI's own pages would load scripts from another host, and its document lacks the admin API.
            docs_url=None,
            redoc_url=None,
            openapi_url=None,
        )
        self.settings = settings
        self._sources = sources or {}
        self.store: OpenStore | None = None
        self._history: History | None = None
        self._access: AccessLog | None = None
        self.ending = ending
        self.member = member
        self._open_store = open_store
        self._loop: asyncio.AbstractEventLoop | None = None
        self._domains = list(settings.domains)
        self._reserved = [path.encode() for path in reserved_paths(settings)]
        self.connections = Connections()
        self.include_router(health.router(self._health), prefix="/_orcas/health")
        self._reader = metrics.Reader(
            settings,
            page=lambda: self._parts().core.metrics,
            connections=self.connections.count_connections,
            refusals=self.connections.count_refusals,
            certificate=self.connections.certificate_state,
            spans=self._spans,
            targets=lambda: self._parts().deliveries.counts(),
            tasks=lambda: self._parts().schedule.numbers(),
            origins=lambda: self._parts().pulls.counts(),
            replication=lambda: self._parts().replicator.counts(),
            damaged=self._damaged,
            standby=self._standby,
            node=lambda: None if self.member is None else numbers_of(self.member),
            passed=self.connections.count_passed,
        )
        self.include_router(metrics.router(settings, self._reader), prefix="/_orcas")
        # No redirects from a path to the same path with a slash.
        self.router.redirect_slashes = False
        self.routes.append(_mounted(MOUNT, self._serve_admin))
        for mount in (TABLES, S3_TABLES):
            self.routes.append(_mounted(mount, functools.partial(self._serve_tables, mount)))
        if settings.console:
            self.routes.append(Route("/_orcas/console", _to_console))
            self.routes.append(_mounted("/_orcas/console", self._serve_console))
        if settings.minio:
            self.include_router(minio.router(settings, self._health, self._reader, self._root), prefix=minio.PREFIX)
            self.routes.append(_mounted(f"{minio.PREFIX}/admin", self._serve_minio_admin))
            self.routes.append(Route(minio.PREFIX, minio.Refusing()))
            self.routes.append(_mounted(minio.PREFIX, minio.Refusing()))
        if settings.localstack:
            self.include_router(localstack.router(init_scripts), prefix=localstack.PREFIX)
        self.routes.append(Route(PATH, _Streams(self)))
        self.routes.append(Route("/_orcas/docs", self._docs))
        self.routes.append(Route("/_orcas/openapi.json", self._openapi))

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one ASGI scope."""
        if scope["type"] != "http":
            await super().__call__(scope, receive, send)
        else:
            if self.member is not None and self.member.owns and (scope["method"] not in _SAFE or is_query(scope)):
                send = _after(self.member.bring, send)
            await self._answer(scope, receive, send)

    async def _own(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request for what is not S3."""
        if self.store is None:
            raise RuntimeError("the application's lifespan is not open")
        app, watched = super().__call__, reporting(log, scope, send)
        await run_counted(app, scope, receive, watched, self.store.incomplete)

    async def _answer(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer a request."""
        exchange = HostedExchange(scope, receive, send)
        path = exchange.scope["raw_path"][exchange.mount_length :]
        if self._is_reserved(path) and not self._names_bucket(exchange.scope):
            await exchange.run(self._own)
            return
        if self.store is None:
            raise RuntimeError("the application's lifespan is not open")
        if self._loop is not asyncio.get_running_loop():
            raise RuntimeError("the application's lifespan was opened on another event loop")
        if path in (b"/", b"") and self._opens_console(exchange.scope):
            await exchange.run(RedirectResponse(exchange.scope.get("root_path", "") + "/_orcas/console/"))
        elif path in (b"/", b"") and self._is_iam(exchange.scope):
            await exchange.run(self._iam)
        elif exchange.mount_length and self.store.below is not None:
            await exchange.run(self.store.below(exchange.mount_length))
        else:
            await exchange.run(self.store.dispatch)

    def _is_reserved(self, path: bytes) -> bool:
        """Whether a path is not S3's."""
        return any(
            path.startswith(each) and (each.endswith(b"/") or path[len(each) :][:1] in (b"", b"/"))
            for each in self._reserved
        )

    def _opens_console(self, scope: Scope) -> bool:
        """Whether a browser asks a server whose console has a port for nothing in particular.

        As with MinIO, that leads to the console from either port: behind a mapping of ports, Host tells neither.
        """
        if self.settings.console_port is None or not self.settings.console:
            return False
        return scope["method"] == "GET" and not scope["query_string"] and is_browser(scope["headers"])

    def _is_iam(self, scope: Scope) -> bool:
        """Whether a request to `/` is for IAM or STS."""
        return is_query(scope) and not self._names_bucket(scope)

    async def _iam(self, scope: Scope, receive: Receive, send: Send) -> None:
        assert self.store is not None
        if self.store.iam is None:
            await self.store.dispatch(scope, receive, send)
        else:
            await run_counted(self.store.iam, scope, receive, reporting(log, scope, send), self.store.incomplete)

    def _names_bucket(self, scope: Scope) -> bool:
        """Whether Host names a bucket or its website, so that `/_orcas/…` is a key of it. Rust decides, as for S3."""
        named = (value for name, value in scope["headers"] if name == b"host")
        return any(names_bucket(value, self._domains, self.settings.website_host) for value in named)

    async def _make(self, part: str) -> None:
        """Make a part of the application unless it is there: in a thread, so that S3 requests do not wait for imports."""
        if part not in vars(self):
            await asyncio.to_thread(getattr, self, part)
            if gc.get_freeze_count():
                # As `serve` does with what there was at the start: collections look at it no more.
                gc.freeze()

    @functools.cached_property
    def _admin(self) -> FastAPI:
        """The admin API: made when it is first asked for, because making it would take a tenth of the start."""
        from orcas.admin.api import admin_app

        return admin_app(self._parts, self._around)

    async def _serve_admin(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._make("_admin")
        await self._admin(scope, receive, send)

    @functools.cached_property
    def _console(self) -> ASGIApp:
        """The console: made when it is first asked for, likewise."""
        from orcas.console.app import console_app

        return console_app(self, self.settings, lambda: self._parts().core, self._root)

    @functools.cached_property
    def _minio_admin(self) -> ASGIApp:
        """MinIO's admin API, likewise."""
        from orcas.minio.admin import MinioAdmin

        return MinioAdmin(self._parts, self._root)

    async def _serve_minio_admin(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._make("_minio_admin")
        await self._minio_admin(scope, receive, send)

    @functools.cached_property
    def _tables(self) -> dict[str, ASGIApp]:
        """The catalog of tables by where it is mounted, likewise."""
        if find_spec("pyiceberg") is None:
            said = {"message": NEEDED, "type": "UnsupportedOperationException", "code": 501}
            other = JSONResponse({"message": NEEDED}, 501, {"x-amzn-errortype": "NotImplementedException"})
            return {TABLES: JSONResponse({"error": said}, 501), S3_TABLES: other}
        from orcas.tables.api import tables_apps

        return tables_apps(self.settings, self._parts, self._dispatch, self._root)

    async def _serve_tables(self, mount: str, scope: Scope, receive: Receive, send: Send) -> None:
        await self._make("_tables")
        await self._tables[mount](scope, receive, send)

    def _dispatch(self) -> Dispatch:
        if self.store is None:
            raise RuntimeError("the application's lifespan is not open")
        return self.store.dispatch

    async def _serve_console(self, scope: Scope, receive: Receive, send: Send) -> None:
        await self._make("_console")
        await self._console(scope, receive, send)

    def openapi(self) -> dict[str, Any]:
        """The routes under `/_orcas/`, including the admin API."""
        return self._documentation[0]

    @functools.cached_property
    def _documentation(self) -> tuple[dict[str, Any], str]:
        """The OpenAPI document and the page. Made once, because everybody may ask for them."""
        document = docs.joined(super().openapi(), self._admin.openapi(), MOUNT)
        return document, docs.page(document)

    # Not coroutines, so that Starlette runs them in threads: the first one imports the admin API.
    def _docs(self, _: Request) -> HTMLResponse:
        return HTMLResponse(self._documentation[1], headers={"content-security-policy": POLICY.decode()})

    def _openapi(self, _: Request) -> JSONResponse:
        return JSONResponse(self.openapi())

    def _around(self) -> Around:
        from orcas.admin.routes.server import Around

        opening = {} if self.store is None else self.store.opening
        member = self.member
        return Around(
            self.settings, self._sources, opening, self._history, self._standby(), self._health,
            None if member is None else member.status,
        )  # fmt: skip

    def _health(self) -> health.StoreHealth:
        if self.store is None:
            raise RuntimeError("the application's lifespan is not open")
        return self.store.health()

    def reopen_logs(self) -> None:
        """Open the file of the access log anew: it may have been renamed."""
        if self._access is not None:
            self._access.reopen()

    def _damaged(self) -> int:
        identities = self._parts().identities
        return 0 if identities is None else len(identities.damaged())

    def _standby(self) -> Progress | None:
        standby = self._parts().standby
        return None if standby is None else standby()

    def _spans(self) -> tuple[int, int]:
        return (0, 0) if self.store is None else self.store.spans()

    def _root(self) -> Root:
        if self.store is None:
            raise RuntimeError("the application's lifespan is not open")
        return self.store.root

    def _parts(self) -> Parts:
        if self.store is None or self.store.parts is None:
            raise RuntimeError("the application's lifespan is not open")
        return self.store.parts

    @asynccontextmanager
    async def lifespan(self, _: object = None) -> AsyncIterator[None]:
        """Open the store for as long as the context lasts; the argument is there for applications that pass themselves.

        Raises:
            UnavailableError: the store is locked or damaged.
        """
        async with self._open_store(self.settings) as store, _access_log(store, self.settings) as access:
            self.store, self._loop, self._access = store, asyncio.get_running_loop(), access
            sampling: asyncio.Task[None] | None = None
            if self.settings.console and self.settings.metrics:
                self._history = History(self._reader.read)
                sampling = asyncio.create_task(self._history.run())
            try:
                yield
            finally:
                if sampling is not None:
                    sampling.cancel()
                    await asyncio.gather(sampling, return_exceptions=True)
                self.store = self._access = self._history = None


def _after(bring: Callable[[], None], send: Send) -> Send:
    """Send an answer when the other nodes of the cluster have what the request has changed."""

    async def sent(message: Message) -> None:
        if message["type"] == "http.response.start":
            try:
                await asyncio.to_thread(bring)
            except StoreError:
                # What has become of the change, the next owner knows.
                raise ConnectionDropped from None
        await send(message)

    return sent


class _OfDevelopment(Orcas):
    """The server with published keys. It answers only requests whose Host nobody else can have."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one ASGI scope."""
        if scope["type"] == "http":
            settings = self.settings
            names = (*settings.domains, *filter(None, (settings.website_host,)))
            if not is_own([value for name, value in scope["headers"] if name.lower() == b"host"], names):
                await FOREIGN.answer(log, scope, send)
                return
        await super().__call__(scope, receive, send)


def orcas_of(
    settings: Settings,
    open_store: StoreOpener = open_store,
    *,
    sources: Mapping[str, str] | None = None,
    init_scripts: InitScripts | None = None,
    ending: Callable[[float], None] | None = None,
    member: Member | None = None,
) -> Orcas:
    """The server as an ASGI application, for clients. The arguments are those of `Orcas`."""
    published = settings.dev or settings.root_secret_key == DEV_SECRET_KEY
    kind = _OfDevelopment if published else Orcas
    return kind(settings, open_store, sources=sources, init_scripts=init_scripts, ending=ending, member=member)
