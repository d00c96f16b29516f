"""The listener in Rust: how it starts, and the application behind it.

What the listener does not answer comes over a private socket, and says where it comes from. The listener alone can write
to the socket. What it says of a request is read and removed here, so nothing behind this sees the headers, and no client
can set them: the listener drops copies. Must not know S3.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from orcas.edge import Front
from orcas.http.extensions import ENDLESS
from orcas.settings.config import DEV_SECRET_KEY, Settings

if TYPE_CHECKING:
    import socket

    from starlette.types import ASGIApp, Message, Receive, Scope, Send

    from orcas.app import OpenStore
    from orcas.http.certificate import Certificates

# Connections that wait to be accepted.
_BACKLOG: Final = 2048
_CLIENT: Final = b"orcas-front-client"
_SCHEME: Final = b"orcas-front-scheme"
# Of an answer without an end of its own, which the listener ends when the server stops.
_ENDLESS: Final = b"orcas-front-endless"


def passed_on(app: ASGIApp) -> ASGIApp:
    """`app` for requests that the listener passes on."""

    async def answer(scope: Scope, receive: Receive, send: Send) -> None:
        async def said(message: Message) -> None:
            if ENDLESS in message:
                message = {**message, "headers": [*message["headers"], (_ENDLESS, b"")]}
            await send(message)

        if scope["type"] == "http":
            scope = _as_sent(scope)
        await app(scope, receive, said)

    return answer


def _as_sent(scope: Scope) -> Scope:
    """The scope of a request as the client has sent it."""
    headers: list[tuple[bytes, bytes]] = []
    said: dict[bytes, str] = {}
    for name, value in scope["headers"]:
        if name in (_CLIENT, _SCHEME):
            said[name] = value.decode("ascii")
        else:
            headers.append((name, value))
    # An IPv6 address is in brackets.
    host, _, port = said[_CLIENT].rpartition(":")
    return {**scope, "headers": headers, "client": (host.strip("[]"), int(port)), "scheme": said[_SCHEME]}


def start_front(
    settings: Settings, store: OpenStore, certificates: Certificates | None, listener: socket.socket, application: str
) -> Front:
    """Serve clients that connect to `listener`. Blocks.

    Args:
        settings: all settings.
        store: the open store.
        certificates: those of TLS, if there is to be any.
        listener: a bound socket.
        application: the path of the socket on which the application listens.

    Raises:
        OSError: another process listens on the address, or threads cannot be started.
    """
    assert store.tools is not None
    listener.listen(_BACKLOG)
    own_names = None
    if settings.dev or settings.root_secret_key == DEV_SECRET_KEY:
        own_names = [*settings.domains, *filter(None, (settings.website_host,))]
    front = Front.start(store.tools.core, listener.fileno(), {
        "threads": os.cpu_count() or 1, "application": application,
        "domains": list(settings.domains), "website_host": settings.website_host,
        "trusted_proxies": list(settings.trusted_proxies), "own_names": own_names,
        "body_budget": settings.body_budget, "max_head_size": settings.max_head_size,
        "head_timeout_sec": settings.head_timeout_sec, "body_timeout_sec": settings.body_timeout_sec,
        "idle_timeout_sec": settings.idle_timeout_sec,
    }, None if certificates is None else certificates.current.files)  # fmt: skip
    pulls, testing = store.tools.pulls, store.tools.testing
    if pulls is not None:
        pulls.replaced = front.set_origins
        front.set_origins(list(pulls.buckets))
    if testing is not None:
        testing.watched = front.hold
    return front
