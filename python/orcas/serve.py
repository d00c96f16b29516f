"""Running the server: the address, the signals, the ready line, and an orderly end.

Orcas binds the socket and handles the signals, not uvicorn. Order of a stop: stop accepting, let requests finish for at most
the drain time, cancel the rest, then close the lifespan, which flushes the engine. Must not know S3.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import logging
import signal
import socket
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from email.utils import formatdate
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import uvicorn
import uvloop

from orcas.app import OpenStore, Orcas
from orcas.control.files.address import Address, reachable, remove_address, write_address
from orcas.errors import ConfigurationError, UnavailableError
from orcas.front import passed_on, start_front
from orcas.http.certificate import Certificates
from orcas.http.protocol import TICK_SECONDS, LimitedProtocol, limited_protocol
from orcas.http.refusals import COUNTS
from orcas.http.status import set_date
from orcas.http.tls import TlsListener
from orcas.settings.clients import server_url
from orcas.settings.config import KIB, Settings
from orcas.telemetry.logs import report_suppressed
from orcas.version import orcas_version

if TYPE_CHECKING:
    from orcas.edge import Front

# Time that clients have to read the end of a stream. A stop takes at most this longer for those that read nothing.
_FAREWELL_SECONDS: Final = 1
# A stop that takes longer than this says what it waits for.
_SILENT_SECONDS: Final = 3
# Time for cancelled requests to end, after the drain time.
_CANCEL_SECONDS: Final = 5
_BACKLOG: Final = 2048
# The longest time for which a connection of the listener in Rust is kept while it has no request.
_KEPT_SECONDS: Final = 3600
# Between two looks at the files of the certificate.
_RENEW_SECONDS: Final = 1.0
# libuv accepts one connection per listening descriptor in each turn of the event loop. With one descriptor, a burst of new
# connections would take as many turns, and later connections would wait for them.
_LISTENERS: Final = 16
# Most unsent bytes in the socket of a connection. Without it, each client that does not read would fill megabytes of kernel
# memory, and filling many of them would block the event loop.
_UNSENT_BYTES: Final = 256 * KIB

log = logging.getLogger("orcas")

Announce = Callable[[Address, OpenStore], None]


def run(app: Orcas, announce: Announce) -> None:
    """Serve until SIGTERM or SIGINT; `announce` gets the address once requests are accepted.

    Raises:
        ConfigurationError: the certificate cannot be used.
        UnavailableError: the address or the store is not available.
    """
    settings = app.settings
    certificates = given_certificates(settings)
    with bound(settings.host, settings.port) as listener, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(app, listener, certificates, announce))


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
        raise UnavailableError(
            f"Orcas cannot listen on {host}: {error.strerror}; give an address of this machine with --host."
        ) from None
    with listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            if hasattr(socket, "TCP_NOTSENT_LOWAT"):
                # Connections inherit it.
                listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, _UNSENT_BYTES)
            listener.bind(address)
        except OSError as error:
            raise UnavailableError(
                f"Orcas cannot listen on {host} port {port}: {error.strerror}; give another --port or --host, or stop what "
                "listens there."
            ) from None
        yield listener


def listeners(listener: socket.socket) -> list[socket.socket]:
    """`listener` under several descriptors, so that a turn of the event loop accepts as many connections."""
    return [listener, *(listener.dup() for _ in range(_LISTENERS - 1))]


def given_certificates(settings: Settings) -> Certificates | None:
    """Those of the operator, if there are any.

    Raises:
        ConfigurationError: they cannot be used, or what would make others is not installed.
    """
    if settings.tls_self_signed and find_spec("cryptography") is None:
        raise ConfigurationError("--tls-self-signed needs the package cryptography: pip install 'orcas-s3[tls]'.")
    if settings.tls_cert_file is None or settings.tls_key_file is None:
        return None
    return Certificates(settings.tls_cert_file, settings.tls_key_file)


def _self_signed(settings: Settings) -> tuple[Certificates, str]:
    """Those of development, for all names of the server, and the file of their CA. Blocks.

    Raises:
        UnavailableError: they cannot be written.
    """
    from orcas.control.files.authority import certify

    wildcards = [f"*.{domain}" for domain in ("localhost", *settings.domains)]
    hosts = [
        "localhost",
        "127.0.0.1",
        "::1",
        reachable(settings.host),
        socket.gethostname(),
        *settings.domains,
        *wildcards,
    ]
    # The name of a machine may have any characters; those of certificates have not.
    path, ca = certify(settings.data, [host.lower() for host in hosts if host.isascii()])
    return Certificates(path, path), str(ca)


def address_of(
    listener: socket.socket, settings: Settings, certificates: Certificates | None, ca: str | None
) -> Address:
    """The address of a bound socket. An unspecified one, such as 0.0.0.0, is not replaced."""
    host, port = listener.getsockname()[:2]
    url = server_url(host, port, tls=certificates is not None)
    return Address(url, settings.region, None if certificates is None else certificates.current.digest, ca)


async def _serve(app: Orcas, listener: socket.socket, certificates: Certificates | None, announce: Announce) -> None:
    stopping = asyncio.Event()
    loop = asyncio.get_running_loop()
    server = _server(app, stopping)
    app.connections, app.refusals = server.count_connections, server.count_refusals
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    loop.add_signal_handler(signal.SIGHUP, _hangup(app, server))
    async with app.router.lifespan_context(app):
        if stopping.is_set() or app.store is None:
            log.info("Stopped before it was ready")
            return
        store = app.store
        ca = None
        if app.settings.tls_self_signed:
            certificates, ca = await asyncio.to_thread(_self_signed, app.settings)
        server.certificates = certificates
        app.certificate = server.certificate_state
        # What exists now stays, so no later collection stops the loop to look at it again.
        gc.collect()
        gc.freeze()
        gc.enable()

        def publish() -> Address:
            if isinstance(server, _FrontServer) and server.front is not None and certificates is not None:
                server.front.use_certificate(*certificates.current.files)
            address = address_of(listener, app.settings, certificates, ca)
            try:
                if not app.settings.salvage:
                    write_address(app.settings.data, address)
            except UnavailableError as error:
                # The disk is full. The file only helps commands to find this server.
                log.warning("%s Commands that look after the store need --endpoint %s", error, address.url)
            return address

        def ready() -> None:
            address = publish()
            log.info("Ready", extra={"orcas": _start(app.settings, address.url, store)})
            announce(address, store)

        server.ready = ready
        if store.streams is not None:
            server.draining = store.streams.close
        clocks = [asyncio.create_task(server.keep_ticking())]
        if certificates is not None:
            clocks.append(asyncio.create_task(_renew(certificates, publish)))
        try:
            if isinstance(server, _FrontServer):
                await server.serve_behind(listener, store)
            else:
                await server.serve(sockets=[listener] if certificates is not None else listeners(listener))
            await server.finish()
        finally:
            for clock in clocks:
                clock.cancel()
            # While the store is locked, so that it cannot be the file of another server.
            if not app.settings.salvage:
                remove_address(app.settings.data)
    log.info("Stopped")


def _server(app: Orcas, stopping: asyncio.Event) -> _Server:
    in_rust = app.settings.listener == "rust"
    config = uvicorn.Config(
        passed_on(app) if in_rust else app,
        http="httptools" if in_rust else limited_protocol(app.settings),
        ws="none",
        # The lifespan is entered below, so that its failure is one sentence, and so that it closes after the drain.
        lifespan="off",
        log_config=None,
        access_log=False,
        proxy_headers=False,
        server_header=False,
        date_header=False,
        backlog=_BACKLOG,
        timeout_graceful_shutdown=app.settings.drain_timeout_sec,
    )
    if in_rust:
        # The listener keeps its connections.
        config.timeout_keep_alive = _KEPT_SECONDS
    return (_FrontServer if in_rust else _Server)(config, app.settings, stopping)


async def _renew(certificates: Certificates, publish: Callable[[], object]) -> None:
    """Look every second whether there is a new certificate. Until it is cancelled."""
    while True:
        # In a thread, like what writes the address: the disk may be slow.
        if await asyncio.to_thread(certificates.check):
            await asyncio.to_thread(publish)
        await asyncio.sleep(_RENEW_SECONDS)


def _hangup(app: Orcas, server: _Server) -> Callable[[], None]:
    """What SIGHUP does: it tells a service to reload, which must not end it. A terminal that is closed sends it, too."""
    terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
    return server.stop if terminal and app.settings.access_log is None else app.reopen_logs


def _start(settings: Settings, url: str, store: OpenStore) -> dict[str, object]:
    """The fields of the log line `Ready`."""
    place = "memory" if settings.memory else str(settings.data)
    return {
        "version": orcas_version(), "url": url, "data": place, "durability": settings.durability, **store.opening,
    }  # fmt: skip


class _Server(uvicorn.Server):
    """uvicorn's server without its signal handlers, with a clock for connections, and with an end for all requests."""

    def __init__(self, config: uvicorn.Config, settings: Settings, stopping: asyncio.Event) -> None:
        super().__init__(config)
        self.settings = settings
        self.stopping = stopping
        self.ready: Callable[[], None] = lambda: None
        # Ends what does not end by itself.
        self.draining: Callable[[], None] = lambda: None
        # Without any, the server speaks plain HTTP.
        self.certificates: Certificates | None = None

    def certificate_state(self) -> tuple[float, bool] | None:
        """When the certificate ends, in seconds since 1970, and whether newer files cannot be used; None without TLS."""
        certificates = self.certificates
        return None if certificates is None else (certificates.current.ends, certificates.failure is not None)

    def count_connections(self) -> int:
        """How many clients are connected."""
        return len(self.server_state.connections)

    def count_refusals(self) -> Counter[str]:
        """How often connections were ended with an answer of their own, by error code."""
        return COUNTS

    def stop(self) -> None:
        """Handle a stop signal: begin to drain. At the second one, stop waiting."""
        requests, patience = len(self.server_state.tasks), self.config.timeout_graceful_shutdown
        if self.should_exit:
            log.warning("A second signal: requests in progress are cut off", extra={"orcas": {"requests": requests}})
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
        """Listen, then call `ready`."""
        try:
            if self.certificates is None:
                await super().startup(sockets)
            else:
                self._listen(self.certificates, sockets or [])
        except OSError as error:
            # Another process bound the same port and listened first.
            raise UnavailableError(
                f"Orcas cannot listen on the address: {error.strerror}; give another --port, or stop what listens there."
            ) from None
        self.ready()

    def _listen(self, certificates: Certificates, sockets: list[socket.socket]) -> None:
        """As uvicorn does, with TLS."""
        limits = self.settings
        protocol = limited_protocol(limits)
        self.servers = []
        for listening in sockets:
            listener = TlsListener(
                listening,
                lambda: certificates.current.context,
                lambda: protocol(self.config, self.server_state, self.lifespan.state),
                handshake_sec=limits.head_timeout_sec,
                flush_sec=limits.body_timeout_sec,
            )
            listener.start(self.config.backlog)
            self.servers.append(listener)  # type: ignore[arg-type]  # has what uvicorn asks of it
        self.started = True

    async def keep_ticking(self) -> None:
        """Every `TICK_SECONDS`: set the date of responses, and tick the connections."""
        while True:
            set_date(formatdate(usegmt=True).encode())
            self._tick_connections()
            report_suppressed()
            await asyncio.sleep(TICK_SECONDS)

    def _tick_connections(self) -> None:
        for connection in list(self.server_state.connections):
            if isinstance(connection, LimitedProtocol):
                try:
                    connection.tick()
                except Exception:
                    # An exception would end the clock, so one faulty connection must not raise here.
                    log.exception("The clock of a connection failed")
                    connection.transport.abort()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting and drain. The clock goes on meanwhile."""
        loop = asyncio.get_running_loop()
        self.draining()
        timers = loop.call_later(_FAREWELL_SECONDS, self._cut_streams), loop.call_later(_SILENT_SECONDS, self._report)
        try:
            await super().shutdown(sockets)
        finally:
            for timer in timers:
                timer.cancel()

    def _cut_streams(self) -> None:
        """End the connections of streams. Their responses may be complete, but their clients read too slowly."""
        for connection in list(self.server_state.connections):
            if isinstance(connection, LimitedProtocol) and connection.endless:
                connection.transport.abort()

    def _unread(self) -> int:
        """Connections that are closed as soon as their clients have read what was sent."""
        return sum(connection.transport.is_closing() for connection in self.server_state.connections)

    def _report(self) -> None:
        waiting = {"requests": len(self.server_state.tasks), "unread_responses": self._unread()}
        log.info("Waiting for requests in progress, and for clients to read their responses", extra={"orcas": waiting})

    async def finish(self) -> None:
        """End requests that the drain time was too short for: cancel them, then close their connections."""
        tasks, unread = set(self.server_state.tasks), self._unread()
        for task in tasks:
            task.cancel()
        if unread:
            log.warning(
                "Responses that their clients had not read were cut off", extra={"orcas": {"responses": unread}}
            )
        if tasks:
            log.warning("Requests were cut off", extra={"orcas": {"requests": len(tasks)}})
            await asyncio.wait(tasks, timeout=_CANCEL_SECONDS)
        for connection in list(self.server_state.connections):
            connection.transport.abort()
        await asyncio.sleep(0)
        report_suppressed(quiet_seconds=0)


class _FrontServer(_Server):
    """The server of the application behind the listener in Rust, which it starts and stops."""

    def __init__(self, config: uvicorn.Config, settings: Settings, stopping: asyncio.Event) -> None:
        super().__init__(config, settings, stopping)
        self.front: Front | None = None
        self._begin: Callable[[], Front] | None = None

    def count_connections(self) -> int:
        """As above; those of the listener to the application do not count."""
        return 0 if self.front is None else self.front.connections()

    def count_refusals(self) -> Counter[str]:
        """As above; the application ends connections of the listener, too."""
        return COUNTS if self.front is None else COUNTS + Counter(dict(self.front.refusals()))

    async def serve_behind(self, listener: socket.socket, store: OpenStore) -> None:
        """Serve clients that connect to `listener`, until a signal."""
        # Only this user may look into the directory.
        with tempfile.TemporaryDirectory(prefix="orcas-front-") as directory:
            self.config.uds = f"{directory}/application"
            self._begin = functools.partial(
                start_front, self.settings, store, self.certificates, listener, self.config.uds
            )
            await self.serve()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Listen on the private socket, then let the front serve, then call `ready`."""
        # The application is behind it, without TLS.
        await uvicorn.Server.startup(self, sockets)
        assert self._begin is not None
        try:
            self.front = await asyncio.to_thread(self._begin)
        except OSError as error:
            raise UnavailableError(
                f"Orcas cannot listen on the address: {error.strerror}; give another --port, or stop what listens there."
            ) from None
        self.ready()

    def stop(self) -> None:
        """As above."""
        if self.should_exit and self.front is not None:
            self.front.cut()
        super().stop()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting and drain, the application last."""
        self.draining()
        if self.front is not None:
            cut = await asyncio.to_thread(self.front.stop, self.settings.drain_timeout_sec)
            if cut:
                log.warning("Requests were cut off", extra={"orcas": {"requests": cut}})
        await super().shutdown(sockets)
