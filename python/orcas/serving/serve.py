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
import math
import signal
import socket
import ssl
import sys
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final

import uvloop

from orcas.control.files.address import Address, link_to, reachable, remove_address, remove_link, write_address
from orcas.engine import Front
from orcas.errors import ConfigurationError, UnavailableError, because
from orcas.http.certificate import Certificates
from orcas.serving.app import OpenStore, Orcas
from orcas.serving.front import ApplicationServer, start_front
from orcas.settings.clients import server_url
from orcas.settings.config import KIB, LETS_ENCRYPT, Settings
from orcas.telemetry.logs import report_suppressed
from orcas.version import orcas_version

if TYPE_CHECKING:
    from orcas.acme.keeper import Keeper

# A stop that takes longer than this says what it waits for.
_SILENT_SECONDS: Final = 3
# Time for requests to end when a node of a cluster gets another role.
_LEAVING_SECONDS: Final = 1.0
_CHANGE_SECONDS: Final = 0.05
# Time for cancelled requests to end.
_CANCEL_SECONDS: Final = 5
# Between two reports of lines that were left out.
_REPORT_SECONDS: Final = 1.0
# Between two looks at the files of the certificate.
_RENEW_SECONDS: Final = 1.0
# Most unsent bytes in the socket of a connection. Without it, each client that does not read would fill megabytes of kernel
# memory.
_UNSENT_BYTES: Final = 256 * KIB

log = logging.getLogger("orcas")

Announce = Callable[[Address, OpenStore], None]


def listening(settings: Settings) -> list[int]:
    """The ports to listen on."""
    return [port for port in (settings.port, settings.console_port) if port is not None]


def run(app: Orcas, announce: Announce, sockets: list[socket.socket] | None = None) -> bool:
    """Serve until SIGTERM or SIGINT; `announce` gets the address once requests are accepted.

    `sockets` are bound, and closed at the end; without them, those of the settings are made. Whether a signal was the end.

    Raises:
        ConfigurationError: the certificate cannot be used.
        UnavailableError: the address or the store is not available.
    """
    settings = app.settings
    certificates = given_certificates(settings)
    with contextlib.ExitStack() as stack:
        listeners = (
            [stack.enter_context(bound(settings.host, port)) for port in listening(settings)]
            if sockets is None
            else [stack.enter_context(each) for each in sockets]
        )
        runner = stack.enter_context(asyncio.Runner(loop_factory=uvloop.new_event_loop))
        return runner.run(_serve(app, listeners, certificates, announce))


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


def given_certificates(settings: Settings) -> Certificates | None:
    """The certificates of the operator, if there are any.

    Raises:
        ConfigurationError: they cannot be used, or what would make others is not installed.
    """
    if settings.tls_self_signed and find_spec("cryptography") is None:
        raise ConfigurationError("--tls-self-signed needs the package cryptography: pip install 'orcas-s3[tls]'.")
    if settings.tls_client_ca_file is not None and find_spec("cryptography") is None:
        raise ConfigurationError(
            "ORCAS_TLS_CLIENT_CA_FILE needs the package cryptography: pip install 'orcas-s3[tls]'."
        )
    if settings.acme and find_spec("acme") is None:
        raise ConfigurationError("--acme needs the package acme: pip install 'orcas-s3[acme]'.")
    if settings.acme_ca_file is not None:
        try:
            ssl.create_default_context(cafile=settings.acme_ca_file)
        except OSError as error:
            raise ConfigurationError(
                f"ORCAS_ACME_CA_FILE names a file that cannot be used: {error}; name one with CA certificates in PEM."
            ) from None
    if not settings.tls_cert_file:
        return None
    files = [*zip(settings.tls_cert_file, settings.tls_key_file, strict=True)]
    return Certificates(files, settings.tls_client_ca_file, Front.check_tls)


def _self_signed(settings: Settings) -> tuple[Certificates, str]:
    """Certificates of development, for all names of the server, and the file of their CA. Blocks.

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
    return Certificates([(path, path)], settings.tls_client_ca_file, Front.check_tls), str(ca)


def _by_acme(settings: Settings) -> tuple[Certificates, Keeper | None]:
    """The certificate of a CA, or one that stands in for it; and its keeper, unless it is a salvage. Blocks."""
    from orcas.acme.ca import Ca
    from orcas.acme.keeper import CERTIFICATE_NAME, Keeper
    from orcas.acme.selfsigned import stand_in

    path = settings.data / CERTIFICATE_NAME
    certificates = Certificates(
        [(path, path)], settings.tls_client_ca_file, Front.check_tls, stand_in=stand_in(settings.acme)
    )
    if settings.salvage:
        return certificates, None
    ca = Ca(
        settings.acme_directory or LETS_ENCRYPT, settings.acme_ca_file, settings.acme_email,
        accept_terms=settings.acme_accept_terms, user_agent=f"orcas/{orcas_version()}",
    )  # fmt: skip
    return certificates, Keeper(settings.data, settings.acme, ca, Front.check_tls)


def address_of(url: str, settings: Settings, certificates: Certificates | None, ca: str | None) -> Address:
    """The address of the server, as commands read it from the file."""
    return Address(url, settings.region, None if certificates is None else certificates.current.digest, ca)


async def _serve(
    app: Orcas, listeners: list[socket.socket], certificates: Certificates | None, announce: Announce
) -> bool:
    stopping = asyncio.Event()
    server = _Server(app, app.settings, stopping)
    connections = app.connections
    _listen_for_ends(app, server)
    async with app.router.lifespan_context(app):
        if stopping.is_set() or app.store is None:
            log.info("Stopped before it was ready")
            return True
        store = app.store
        ca = None
        if app.settings.tls_self_signed:
            certificates, ca = await asyncio.to_thread(_self_signed, app.settings)
        elif app.settings.acme:
            certificates, connections.keeper = await asyncio.to_thread(_by_acme, app.settings)
        connections.certificates = certificates
        # What exists now stays, so no later collection stops the loop to look at it again.
        gc.collect()
        gc.freeze()
        gc.enable()

        # An unspecified address, such as 0.0.0.0, is not replaced.
        url = server_url(*listeners[0].getsockname()[:2], tls=certificates is not None)

        def publish() -> Address:
            if connections.front is not None and certificates is not None:
                connections.front.use_tls(certificates.tls())
            address = address_of(url, app.settings, certificates, ca)
            try:
                if not app.settings.salvage:
                    write_address(app.settings.data, address)
            except UnavailableError as error:
                # The disk is full. The file only helps commands to find this server.
                log.warning("%s Commands that look after the store need --endpoint %s", error, address.url)
            return address

        def ready() -> None:
            address = publish()
            _link(app.settings)
            log.info("Ready", extra={"orcas": _start(app.settings, address.url, store)})
            announce(address, store)
            if connections.keeper is not None and connections.front is not None:
                connections.keeper.start(connections.front.use_challenges)

        server.ready = ready
        if store.streams is not None:
            server.draining = store.streams.close
        clocks = [asyncio.create_task(_report_suppressed())]
        if certificates is not None:
            clocks.append(asyncio.create_task(_renew(certificates, publish)))
        try:
            await server.serve_behind(listeners, store)
        finally:
            for clock in clocks:
                clock.cancel()
            # While the store is locked, so that it cannot be the file of another server.
            if not app.settings.salvage:
                remove_address(app.settings.data)
                remove_link(app.settings.data, app.settings.server_link)
    if not server.has_left:
        log.info("Stopped")
    return not server.has_left


def _listen_for_ends(app: Orcas, server: _Server) -> None:
    """Let signals stop the server, and the node of a cluster that it serves end its role."""
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, server.stop)
    loop.add_signal_handler(signal.SIGHUP, _hangup(app, server))
    if app.member is not None:

        def leave() -> None:
            loop.call_soon_threadsafe(server.leave)

        app.member.leave = leave


def _link(settings: Settings) -> None:
    """Let commands find this server, wherever its store is."""
    if settings.server_link is None or settings.salvage:
        return
    try:
        link_to(settings.data, settings.server_link)
    except OSError as error:
        log.warning(
            "ORCAS_SERVER_LINK %s cannot be made (%s): commands need --data %s", settings.server_link, because(error),
            settings.data,
        )  # fmt: skip


async def _renew(certificates: Certificates, publish: Callable[[], object]) -> None:
    """Look every second whether there is a new certificate. Until it is cancelled."""
    while True:
        # In a thread, like what writes the address: the disk may be slow.
        if await asyncio.to_thread(certificates.check):
            await asyncio.to_thread(publish)
        await asyncio.sleep(_RENEW_SECONDS)


async def _report_suppressed() -> None:
    """Say every second how many lines of the log were left out. Until it is cancelled."""
    while True:
        report_suppressed()
        await asyncio.sleep(_REPORT_SECONDS)


def _hangup(app: Orcas, server: _Server) -> Callable[[], None]:
    """The handler of SIGHUP: it tells a service to reload, which must not end it. A terminal that is closed sends it,
    too."""
    terminal = sys.stdin is not None and not sys.stdin.closed and sys.stdin.isatty()
    return server.stop if terminal and app.settings.access_log is None else app.reopen_logs


def _start(settings: Settings, url: str, store: OpenStore) -> dict[str, object]:
    """The fields of the log line `Ready`."""
    place = "memory" if settings.memory else str(settings.data)
    return {
        "version": orcas_version(), "url": url, "data": place, "durability": settings.durability, **store.opening,
    }  # fmt: skip


class _Server(ApplicationServer):
    """The application behind the listener, which it starts and stops."""

    def __init__(self, app: Orcas, settings: Settings, stopping: asyncio.Event) -> None:
        super().__init__(app)
        self._app = app
        self.settings = settings
        self.stopping = stopping
        self.ready: Callable[[], None] = lambda: None
        # A node of a cluster gets another role.
        self.has_left = False
        self._is_serving = False
        # Ends what does not end by itself.
        self.draining: Callable[[], None] = lambda: None
        self._connections = app.connections
        self._listeners: list[socket.socket] = []
        self._begin: Callable[[], Front] | None = None

    def stop(self) -> None:
        """Handle a stop signal: begin to drain. At the second one, stop waiting."""
        requests, timeout = sum(self._under_way()), self.settings.drain_timeout_sec
        if self.should_exit:
            log.warning("A second signal: requests in progress are cut off", extra={"orcas": {"requests": requests}})
            if self._connections.front is not None:
                self._connections.front.cut()
        else:
            log.info("Stopping", extra={"orcas": {"requests": requests, "drain_timeout_sec": timeout}})
        self.force_exit = self.should_exit
        self.should_exit = True
        self.has_left = False
        self.stopping.set()

    def leave(self) -> None:
        """End the role of a node of a cluster, once it has begun."""
        if not self.should_exit:
            self.has_left = True
            self.should_exit = self._is_serving

    async def serve_behind(self, listeners: list[socket.socket], store: OpenStore) -> None:
        """Serve clients that connect to `listeners`, until a signal."""
        self._listeners = listeners
        self._begin = functools.partial(
            start_front, self.settings, store, self._connections.certificates, listeners, self.listener_end
        )
        try:
            await self.serve()
        finally:
            # A start that fails has no shutdown.
            for end in self._ends:
                end.close()

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Take connections of the front, then let it serve, then call `ready`."""
        await super().startup(sockets)
        assert self._begin is not None
        try:
            self._connections.front = await asyncio.to_thread(self._begin)
        except OSError as error:
            # Another process bound the same port and listened first.
            raise UnavailableError(
                f"Orcas cannot listen on the address: {error.strerror}; give another --port, or stop what listens there."
            ) from None
        if self._app.member is not None:
            self._app.member.served_by(self._connections.front)
        self.ready()
        self._is_serving = True
        if self.has_left:
            # When the main loop has begun, so that it ends in order.
            asyncio.get_running_loop().call_later(_CHANGE_SECONDS, self.leave)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop accepting and drain, the application last."""
        if self._app.ending is not None:
            await asyncio.to_thread(self._app.ending, self.settings.drain_timeout_sec)
        self.draining()
        if self._connections.keeper is not None:
            self._connections.keeper.stop()
        if self._connections.front is not None:
            # With those of the front, so that new clients are refused at once.
            for listener in self._listeners:
                listener.close()
            silence = asyncio.get_running_loop().call_later(_SILENT_SECONDS, self._report)
            try:
                timeout = min(self.settings.drain_timeout_sec, _LEAVING_SECONDS if self.has_left else math.inf)
                requests, unread = await asyncio.to_thread(self._connections.front.stop, timeout)
            finally:
                silence.cancel()
            if unread:
                log.warning(
                    "Responses that their clients had not read were cut off", extra={"orcas": {"responses": unread}}
                )
            if requests:
                log.warning("Requests were cut off", extra={"orcas": {"requests": requests}})
        await super().shutdown(sockets)
        # Those whose clients have gone, before the store is closed.
        tasks = set(self.server_state.tasks)
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=_CANCEL_SECONDS)
        report_suppressed(quiet_seconds=0)

    def _under_way(self) -> tuple[int, int]:
        """Requests in progress, and answers that their clients do not read."""
        return (0, 0) if self._connections.front is None else self._connections.front.under_way()

    def _report(self) -> None:
        requests, unread = self._under_way()
        waiting = {"requests": requests, "unread_responses": unread}
        log.info("Waiting for requests in progress, and for clients to read their responses", extra={"orcas": waiting})
