"""`orcas env`: the address and the root key of a server, as lines that a shell reads.

Both are those of the server that has the store open. Where none has, the address is the one that it would listen on, and
nothing is printed if somebody else listens there: one store's key does not go to another.
"""

from __future__ import annotations

import shlex
import socket
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final
from urllib.parse import urlsplit

import typer

from orcas.cli.options import Data
from orcas.clients import client_environment, foreign_variables, proxied, unproxied_environment
from orcas.config import DEV_ACCESS_KEY, DEV_SECRET_KEY, Settings, resolve
from orcas.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from orcas.control.address import Address

_POLL_SECONDS: Final = 0.05
_CONNECT_SECONDS: Final = 1.0

Host = Annotated[str | None, typer.Option("--host", metavar="ADDRESS", help="Another address of the server.")]
Port = Annotated[str | None, typer.Option("--port", "-p", metavar="PORT", help="Another port of the server.")]
Dev = Annotated[bool, typer.Option("--dev", help="The published keys of `orcas serve --dev`.")]
Memory = Annotated[
    bool, typer.Option("--memory", help="The server of `orcas serve --memory`; --port chooses among several.")
]
Wait = Annotated[
    float, typer.Option("--wait", metavar="SECONDS", min=0, help="Wait so long for a server that is being started.")
]


def env(
    data: Data = None, host: Host = None, port: Port = None, dev: Dev = False, memory: Memory = False, wait: Wait = 0.0
) -> None:
    """Print the export lines that point AWS clients at the server, with the root key.

    The address is that of the server that has the store open. --host and --port name another way to it.

    Examples:

        eval "$(orcas env)" && aws s3 ls

        eval "$(orcas env --memory --wait 10)"
    """
    from orcas.control.address import reachable

    if memory and data is not None:
        raise UsageError("--memory and --data exclude each other: a store in memory has no directory.")
    settings = resolve({"data": data, "host": host, "port": port, "dev": dev or None}).settings
    deadline = time.monotonic() + wait
    running: Address | None
    if memory:
        settings, running = _in_memory(settings, port, deadline)
    else:
        running = _running(settings.data, deadline)
        if running is None and wait:
            raise UnavailableError(f"No server had the store in {settings.data} open within {wait:g} seconds.")
    keys = _keys(settings, running, dev)
    if dev and running is not None and keys != _keys(settings, running, dev=False):
        # Some other server has that directory.
        running = None
    if running is not None and not memory:
        named = urlsplit(running.url)
        url = _url(
            named.hostname or "" if host is None else reachable(settings.host),
            named.port or 0 if port is None else settings.port,
        )
    elif running is not None:
        url = running.url
    else:
        url = _expected(settings, sure=dev or host is not None or port is not None)
    region = settings.region if running is None else running.region
    variables = client_environment(url, *keys, region)
    if proxied():
        variables |= unproxied_environment(url)
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()]
    lines += [f"unset {name}\n" for name in foreign_variables()]
    sys.stdout.write("".join(lines))


def _running(directory: Path, deadline: float) -> Address | None:
    """The server of `directory`, waited for until `deadline`."""
    from orcas.control.address import running_at

    while (found := running_at(directory)) is None and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return found


def _in_memory(settings: Settings, port: str | None, deadline: float) -> tuple[Settings, Address]:
    """The directory and the address of a server with a store in memory.

    Raises:
        UnavailableError: there is none, or more than one.
    """
    from dataclasses import replace

    from orcas.control.address import running_at
    from orcas.process.memory import private_directories

    while True:
        found = {at: path for path in private_directories() if (at := running_at(path)) is not None}
        if port is not None:
            found = {at: path for at, path in found.items() if urlsplit(at.url).port == settings.port}
        if found or time.monotonic() >= deadline:
            break
        time.sleep(_POLL_SECONDS)
    if not found:
        where = f" on port {settings.port}" if port is not None else ""
        raise UnavailableError(
            f"No server of this user has a store in memory{where}: `orcas serve --memory` starts one."
        )
    if len(found) > 1:
        urls = ", ".join(sorted(at.url for at in found))
        raise UnavailableError(f"Several servers have a store in memory, {urls}: choose one with --port.")
    at, directory = found.popitem()
    return replace(settings, data=directory), at


def _keys(settings: Settings, running: Address | None, dev: bool) -> tuple[str, str]:
    from orcas.control.keys import root_pair

    if dev:
        return DEV_ACCESS_KEY, DEV_SECRET_KEY
    if running is None:
        return root_pair(settings.data, settings.root_access_key, settings.root_secret_key)
    return root_pair(settings.data, None, None)


def _expected(settings: Settings, *, sure: bool) -> str:
    """Where a server of these settings would be. `sure`: the command line says it, so nothing is asked.

    Raises:
        UnavailableError: some other server is there, or nobody can know where.
    """
    from orcas.control.address import reachable
    from orcas.control.files import is_locked

    url = _url(reachable(settings.host), settings.port)
    if sure and settings.port:
        return url
    if is_locked(settings.data):
        raise UnavailableError(
            f"A process has the store in {settings.data}, but does not say where it takes requests: "
            "wait for it with --wait, or name its address with --port."
        )
    if settings.port == 0:
        raise UnavailableError(f"No server has the store in {settings.data} open: `orcas serve` starts one.")
    try:
        socket.create_connection((reachable(settings.host), settings.port), _CONNECT_SECONDS).close()
    except OSError:
        sys.stderr.write(f"orcas: No server has the store in {settings.data} open yet: `orcas serve` starts one.\n")
        return url
    raise UnavailableError(
        f"No server has the store in {settings.data} open, and {url} is another server's: "
        "name the store with --data, or the address with --port."
    )


def _url(host: str, port: int) -> str:
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def add_to(app: typer.Typer) -> None:
    """Make it a command of `orcas`."""
    app.command()(env)
