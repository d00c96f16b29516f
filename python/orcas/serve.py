"""Running the server: the address, the signals, the ready line, and an orderly end.

Orcas binds the socket and owns the signals; uvicorn gets both as they are. Order at the end: stop accepting, let requests
finish for at most the drain time, cancel the rest, then close the lifespan, which flushes the engine. Must not know S3.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import signal
import socket
from collections.abc import Callable, Iterator
from typing import Final

import uvicorn
import uvloop

from orcas.app import OpenStore, Orcas
from orcas.clients import http_url
from orcas.config import KIB, Settings
from orcas.control.address import remove_address, write_address
from orcas.errors import UnavailableError
from orcas.http.protocol import TICK_SECONDS, LimitedProtocol, limited_protocol
from orcas.logs import report_suppressed
from orcas.version import orcas_version

# orcas.http.protocol builds on internals of this minor.
UVICORN_MINOR: Final = "0.54."
# uvicorn calls `on_tick` ten times a second.
_TICKS: Final = 10 * TICK_SECONDS
# After the drain time, what was cancelled gets this long to notice.
_CANCEL_SECONDS: Final = 5
_BACKLOG: Final = 2048
# libuv accepts one connection for each listening descriptor in a turn of the event loop. With one descriptor a burst of
# new connections costs as many turns, and whoever comes behind it waits for them.
_LISTENERS: Final = 16
# Bytes that a connection's socket takes before they can be sent. A client that does not read would fill megabytes of
# kernel memory, and the event loop would do nothing else while many of them are filled.
_UNSENT_BYTES: Final = 256 * KIB

log = logging.getLogger("orcas")

Announce = Callable[[str, OpenStore], None]


def run(app: Orcas, announce: Announce) -> None:
    """Serve until SIGTERM or SIGINT; `announce` gets the URL once requests are accepted.

    Raises:
        UnavailableError: the address or the store cannot be had.
    """
    if not uvicorn.__version__.startswith(UVICORN_MINOR):
        raise UnavailableError(f"Orcas needs uvicorn {UVICORN_MINOR}*, but {uvicorn.__version__} is installed.")
    settings = app.settings
    with bound(settings.host, settings.port) as listener, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(app, listener, announce))


@contextlib.contextmanager
def bound(host: str, port: int) -> Iterator[socket.socket]:
    """A socket bound to the address; it listens only once the store is open.

    Raises:
        UnavailableError: the name does not resolve, or the port is taken.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listener = socket.socket(family, kind, protocol)
    except OSError as error:
        raise UnavailableError(f"Orcas cannot listen on {host}: {error.strerror}.") from None
    with listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if hasattr(socket, "TCP_NOTSENT_LOWAT"):
                # Connections inherit it.
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
            listener.bind(address)
        except OSError as error:
            raise UnavailableError(f"Orcas cannot listen on {host} port {port}: {error.strerror}.") from None
        yield listener


def listeners(listener: socket.socket) -> list[socket.socket]:
    """`listener` under several descriptors, so that a turn of the event loop accepts as many connections."""
    return [listener, *(listener.dup() for _ in range(_LISTENERS - 1))]


def url_of(listener: socket.socket) -> str:
    """The URL under which a bound socket is reached; an unspecified address is shown as it is."""
    host, port = listener.getsockname()[:2]
    return http_url(host, port)


async def _serve(app: Orcas, listener: socket.socket, announce: Announce) -> None:
    config = uvicorn.Config(
        app,
        http=limited_protocol(app.settings),
        ws="none",
        # The lifespan is entered here: its failure is a sentence, not a traceback, and it closes after the drain.
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=app.settings.drain_timeout_sec,
    )
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    server = _Server(config, stopping)
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    async with app.router.lifespan_context(app):
        if stopping.is_set() or app.store is None:
            log.info("Stopped before it was ready")
            return
        store = app.store
        # What exists now stays, so no later collection stops the loop to look at it again.
        gc.collect()
        gc.freeze()
        gc.enable()

        def ready() -> None:
            url = url_of(listener)
            try:
                if not app.settings.salvage:
                    write_address(app.settings.data, url, app.settings.region)
            except UnavailableError as error:
                # On a full disk. It only helps commands to find this server.
                log.warning("%s Commands that look after the store need --endpoint %s", error, url)
            log.info("Ready", extra={"orcas": _start(app.settings, url, store)})
            announce(url, store)

        server.ready = ready
        try:
            await server.serve(sockets=listeners(listener))
            await server.finish()
        finally:
            # While the store is still locked: the file is this server's until then.
            if not app.settings.salvage:
                remove_address(app.settings.data)
    log.info("Stopped")


def _start(settings: Settings, url: str, store: OpenStore) -> dict[str, object]:
    """What the log says about this server."""
    place = "memory" if settings.memory else str(settings.data)
    return {
        "version": orcas_version(), "url": url, "data": place, "durability": settings.durability, **store.opening,
    }  # fmt: skip


class _Server(uvicorn.Server):
    """uvicorn's server without its signals, with the connections' clock and a complete end."""

    def __init__(self, config: uvicorn.Config, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self.stopping = stopping
        self.ready: Callable[[], None] = lambda: None

    def stop(self) -> None:
        """A signal came: drain; at the second one, stop waiting."""
        requests, patience = len(self.server_state.tasks), self.config.timeout_graceful_shutdown
        if self.should_exit:
            log.warning("A second signal: requests under way are cut off", extra={"orcas": {"requests": requests}})
        else:
            log.info("Stopping", extra={"orcas": {"requests": requests, "drain_timeout_sec": patience}})
        self.force_exit = self.should_exit
        self.should_exit = True
        self.stopping.set()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Signals are handled by the loop."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen, then say so."""
        try:
            await super().startup(sockets)
        except OSError as error:
            # Another process bound the port beside us and listened first.
            raise UnavailableError(f"Orcas cannot listen on the address: {error.strerror}.") from None
        await super().on_tick(0)  # the first Date header
        self.ready()

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: the connections' clock once in `TICK_SECONDS`."""
        if counter % _TICKS == 0:
            self._tick_connections()
            report_suppressed()
        return await super().on_tick(counter)

    def _tick_connections(self) -> None:
        for connection in list(self.server_state.connections):
            if isinstance(connection, LimitedProtocol):
                try:
                    connection.tick()
                except Exception:
                    # uvicorn's main loop calls this: whatever is wrong with one connection ends no other.
                    log.exception("The clock of a connection failed")
                    connection.transport.abort()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting and drain, with the connections' clock running on."""
        clock = asyncio.create_task(self._keep_ticking())
        try:
            await super().shutdown(sockets)
        finally:
            clock.cancel()

    async def _keep_ticking(self) -> None:
        while True:
            await asyncio.sleep(TICK_SECONDS)
            self._tick_connections()

    async def finish(self) -> None:
        """End what the drain time left: cancelled requests get a moment, then their connections are cut."""
        tasks = set(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            log.warning("Requests were cut off", extra={"orcas": {"requests": len(tasks)}})
            await asyncio.wait(tasks, timeout=_CANCEL_SECONDS)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)
        report_suppressed(quiet_seconds=0)
