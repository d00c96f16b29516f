"""The listener: how it starts, and the application behind it.

What the listener does not answer comes over pairs of sockets, and says where it comes from. The listener alone has the
other ends. What it says of a request is read and removed here, so nothing behind this sees the headers, and no client
can set them: the listener drops copies. Must not know S3.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import os
import socket
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from starlette.requests import ClientDisconnect

from orcas.engine import Front
from orcas.http.extensions import CERTIFICATE, COUNTED, ENDLESS, ConnectionDropped
from orcas.http.refusals import FAILED
from orcas.settings.config import DEV_SECRET_KEY, Settings
from orcas.settings.paths import node_paths, reserved_paths

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from orcas.http.certificate import Certificates
    from orcas.serving.app import OpenStore

# Connections that wait to be accepted.
_BACKLOG: Final = 2048
_CLIENT: Final = b"orcas-front-client"
_SCHEME: Final = b"orcas-front-scheme"
_CERTIFICATE: Final = b"orcas-front-certificate"
# The longest time for which a connection of the listener is kept while it has no request.
_KEPT_SECONDS: Final = 3600
# Time for requests of the application to end when the listener has ended.
_GRACE_SECONDS: Final = 5
# Of an answer without an end of its own, which the listener ends when the server stops.
_ENDLESS: Final = b"orcas-front-endless"
# Of an answer that the client is not to see: its connection ends instead.
_DROPPED: Final = b"orcas-front-dropped"

log = logging.getLogger("orcas.front")


def passed_on(app: ASGIApp) -> ASGIApp:
    """`app` for requests that the listener passes on. Its failures are answered, or end the connection."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        started = False

        async def said(message: Message) -> None:
            nonlocal started
            started = True
            if ENDLESS in message:
                message = {**message, "headers": [*message["headers"], (_ENDLESS, b"")]}
            await send(message)

        if scope["type"] == "http":
            scope = _as_sent(scope)
        try:
            await app(scope, receive, said)
        except ClientDisconnect:
            pass
        except ConnectionDropped:
            if started:
                # The server ends the connection for it.
                raise
            await send({"type": "http.response.start", "status": 503, "headers": [(_DROPPED, b"")]})
            await send({"type": "http.response.body", "body": b""})
        except Exception:
            log.exception("%s %r failed", scope["method"], scope["raw_path"])
            if started:
                raise
            await FAILED.answer(log, scope, send, closes=True)

    return answer


def _as_sent(scope: Scope) -> Scope:
    """The scope of a request as the client has sent it."""
    headers: list[tuple[bytes, bytes]] = []
    said: dict[bytes, str] = {}
    for name, value in scope["headers"]:
        if name in (_CLIENT, _SCHEME, _CERTIFICATE):
            said[name] = value.decode("ascii")
        else:
            headers.append((name, value))
    # An IPv6 address is in brackets.
    host, _, port = said[_CLIENT].rpartition(":")
    client = host.strip("[]"), int(port)
    scope = {**scope, "headers": headers, "client": client, "scheme": said[_SCHEME], COUNTED: True}
    if _CERTIFICATE in said:
        scope[CERTIFICATE] = bytes.fromhex(said[_CERTIFICATE])
    return scope


def start_front(
    settings: Settings,
    store: OpenStore,
    certificates: Certificates | None,
    listeners: Sequence[socket.socket],
    application: socket.socket,
) -> Front:
    """Serve clients that connect to `listeners`. Blocks.

    Args:
        settings: all settings.
        store: the open store.
        certificates: those of TLS, if there is to be any.
        listeners: bound sockets.
        application: the other end of that of `ApplicationServer`.

    Raises:
        OSError: another process listens on the address, or threads cannot be started.
    """
    assert store.parts is not None
    for listener in listeners:
        listener.listen(_BACKLOG)
    own_names = None
    if settings.dev or settings.root_secret_key == DEV_SECRET_KEY:
        own_names = [*settings.domains, *filter(None, (settings.website_host,))]
    member = store.parts.member
    front = Front.start(store.parts.core, [each.fileno() for each in listeners], application.fileno(), {
        "threads": _processors(), "reserved": list(reserved_paths(settings)),
        "of_node": list(node_paths(settings)), "is_owner": member is None or member.owns,
        "reads_here": settings.cluster_reads == "strict",
        "domains": list(settings.domains), "website_host": settings.website_host,
        "trusted_proxies": list(settings.trusted_proxies), "own_names": own_names,
        "body_budget": settings.body_budget, "max_head_size": settings.max_head_size,
        "head_timeout_sec": settings.head_timeout_sec, "body_timeout_sec": settings.body_timeout_sec,
        "idle_timeout_sec": settings.idle_timeout_sec,
    }, None if certificates is None else certificates.tls(), None if member is None else member.node)  # fmt: skip
    pulls, testing = store.parts.pulls, store.parts.testing
    pulls.replaced = front.set_origins
    front.set_origins(list(pulls.buckets))
    if testing is not None:
        testing.watched = front.hold
    return front


class ApplicationServer(uvicorn.Server):
    """uvicorn's server of an application behind the listener. Signals and lifespan are left to whoever runs it."""

    def __init__(self, app: ASGIApp) -> None:
        super().__init__(
            uvicorn.Config(
                passed_on(app),
                http="httptools",
                ws="none",
                lifespan="off",
                log_config=None,
                access_log=False,
                proxy_headers=False,
                server_header=False,
                date_header=False,
                # The listener keeps its connections, and has waited for requests before this ends.
                timeout_keep_alive=_KEPT_SECONDS,
                timeout_graceful_shutdown=_GRACE_SECONDS,
            )
        )
        self._beginning: set[asyncio.Task[None]] = set()

    @functools.cached_property
    def _ends(self) -> tuple[socket.socket, socket.socket]:
        """The socket over which the application gets its ends of connections, and that of the listener."""
        return socket.socketpair()

    @property
    def listener_end(self) -> socket.socket:
        """The socket to which the listener gives the application's ends of connections."""
        return self._ends[1]

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Capture none: whoever runs the server does."""
        yield

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Take connections of the listener."""
        self._ends[0].setblocking(False)
        asyncio.get_running_loop().add_reader(self._ends[0], self._take)
        self.servers, self.started = [], True

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """End them."""
        asyncio.get_running_loop().remove_reader(self._ends[0])
        for end in self._ends:
            end.close()
        # One that begins later would not be ended.
        await asyncio.gather(*self._beginning, return_exceptions=True)
        await super().shutdown(sockets)

    def _take(self) -> None:
        loop = asyncio.get_running_loop()
        with contextlib.suppress(BlockingIOError):
            message, descriptors, _, _ = socket.recv_fds(self._ends[0], 1, 1)
            if not message:
                loop.remove_reader(self._ends[0])
            for descriptor in descriptors:
                task = loop.create_task(self._serve_one(socket.socket(fileno=descriptor)))
                self._beginning.add(task)
                task.add_done_callback(self._beginning.discard)

    async def _serve_one(self, connection: socket.socket) -> None:
        connection.setblocking(False)
        made: Any = self.config.http_protocol_class
        protocol = functools.partial(made, config=self.config, server_state=self.server_state, app_state={})
        await asyncio.get_running_loop().connect_accepted_socket(protocol, connection)


def _processors() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
