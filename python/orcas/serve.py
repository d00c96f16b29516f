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
import sys
from collections.abc import Callable, Iterator
from typing import Final

import uvicorn
import uvloop

from orcas.app import Orcas
from orcas.config import Settings
from orcas.errors import OrcasError, UnavailableError

# orcas.protocol builds on internals of this minor.
UVICORN_MINOR: Final = "0.54."
_CANCEL_SECONDS: Final = 5.0
_SWEEP_TICKS: Final = 10

log = logging.getLogger("orcas")


def run(settings: Settings, announce: Callable[[str, Orcas], None]) -> None:
    """Serve until SIGTERM or SIGINT. `announce` gets the URL once requests are accepted.

    Raises:
        UnavailableError: the address or the store cannot be had.
    """
    if not uvicorn.__version__.startswith(UVICORN_MINOR):
        raise UnavailableError(f"Orcas needs uvicorn {UVICORN_MINOR}*, but {uvicorn.__version__} is installed.")
    with bound(settings.host, settings.port) as listener, asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_serve(settings, listener, announce))


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
        raise UnavailableError(f"{host} cannot be listened on: {error.strerror}.") from None
    with listener:
        try:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listener.bind(address)
        except OSError as error:
            raise UnavailableError(f"{host} port {port} cannot be listened on: {error.strerror}.") from None
        yield listener


def url_of(listener: socket.socket) -> str:
    """The URL under which a bound socket is reached; an unspecified address is shown as it is."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"
