"""`orcas env`: the address and the root key of a server, as shell commands.

Both come from the server that has the store open. If there is none, the address is the one on which it would listen.
Nothing is printed if another program listens there: the key of one store must not reach the server of another.
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
from orcas.errors import UnavailableError, UsageError
from orcas.settings.clients import client_environment, foreign_variables, proxied, server_url, unproxied_environment
from orcas.settings.config import DEV_ACCESS_KEY, DEV_SECRET_KEY, Settings, has_tls, resolve

if TYPE_CHECKING:
    from orcas.control.files.address import Address

_POLL_SECONDS: Final = 0.05
_CONNECT_SECONDS: Final = 1.0

Host = Annotated[
    str | None,
    typer.Option("--host", metavar="ADDRESS", help="Use this address instead of the one the server reports."),
]
Port = Annotated[
    str | None,
    typer.Option("--port", "-p", metavar="PORT", help="Use this port instead of the one the server reports."),
]
Dev = Annotated[bool, typer.Option("--dev", help="Print the published keys of `orcas serve --dev`.")]
Memory = Annotated[
    bool, typer.Option("--memory", help="Find the server of `orcas serve --memory`; --port selects one of several.")
]
Wait = Annotated[
    float, typer.Option("--wait", metavar="SECONDS", min=0, help="Wait this long for a server that is starting.")
]


def env(
    data: Data = None, host: Host = None, port: Port = None, dev: Dev = False, memory: Memory = False, wait: Wait = 0.0
) -> None:
    """Print shell commands that point AWS clients at the server, with the root key.

    The address is that of the server that has the store open. Use --host and --port to reach it at another address.

    Examples:

        eval "$(orcas env)" && aws s3 ls

        eval "$(orcas env --memory --wait 10)"
    """
    from orcas.control.files.address import following, reachable

    if memory and data is not None:
        raise UsageError(
            "--memory and --data cannot be used together, because a store in memory has no directory: give one of them."
        )
    settings = resolve({"data": data, "host": host, "port": port, "dev": dev or None}).settings
    settings = following(settings, data)
    deadline = time.monotonic() + wait
    running: Address | None
    if memory:
        settings, running = in_memory(settings, port, deadline)
    else:
        running = _running(settings.data, deadline)
        if running is None and wait:
            raise UnavailableError(
                f"No server opened the store in {settings.data} within {wait:g} s: start it, or wait longer."
            )
    keys = _keys(settings, running, dev)
    if dev and running is not None and keys != _keys(settings, running, dev=False):
        # That directory belongs to another server.
        running = None
    if running is not None and not memory:
        named = urlsplit(running.url)
        url = server_url(
            named.hostname or "" if host is None else reachable(settings.host),
            named.port or 0 if port is None else settings.port,
            tls=named.scheme == "https",
        )
    elif running is not None:
        url = running.url
    else:
        url = _expected(settings, sure=dev or host is not None or port is not None)
    region = settings.region if running is None else running.region
    variables = client_environment(url, *keys, region, None if running is None else running.ca)
    if proxied():
        variables |= unproxied_environment(url)
    lines = [f"export {name}={shlex.quote(value)}\n" for name, value in variables.items()]
    lines += [f"unset {name}\n" for name in foreign_variables()]
    sys.stdout.write("".join(lines))


def _running(directory: Path, deadline: float) -> Address | None:
    """The server of `directory`. Waits for it until `deadline`."""
    from orcas.control.files.address import running_at

    while (found := running_at(directory)) is None and time.monotonic() < deadline:
        time.sleep(_POLL_SECONDS)
    return found


def in_memory(settings: Settings, port: str | None, deadline: float) -> tuple[Settings, Address]:
    """The directory and the address of a server with a store in memory.

    Raises:
        UnavailableError: there is none, or more than one.
    """
    from dataclasses import replace

    from orcas.control.files.address import running_at
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
            f"No server of this user has a store in memory{where}: start one with `orcas serve --memory`."
        )
    if len(found) > 1:
        urls = ", ".join(sorted(at.url for at in found))
        raise UnavailableError(f"Several servers have a store in memory, {urls}: select one with --port.")
    at, directory = found.popitem()
    return replace(settings, data=directory), at


def _keys(settings: Settings, running: Address | None, dev: bool) -> tuple[str, str]:
    from orcas.tools.reach import stored_pair

    if dev:
        return DEV_ACCESS_KEY, DEV_SECRET_KEY
    if running is None:
        return stored_pair(settings, settings.root_access_key, settings.root_secret_key)
    return stored_pair(settings)


def _expected(settings: Settings, *, sure: bool) -> str:
    """The URL at which a server with these settings would listen.

    `sure`: the command line names the address, so it is not probed.

    Raises:
        UnavailableError: another server is there, or the address cannot be known.
    """
    from orcas.control.files import is_locked
    from orcas.control.files.address import reachable

    url = server_url(reachable(settings.host), settings.port, tls=has_tls(settings))
    start = f"orcas serve --data {shlex.quote(str(settings.data))}"
    if sure and settings.port:
        return url
    if is_locked(settings.data):
        raise UnavailableError(
            f"A process has the store in {settings.data} open but has not published its address: "
            "wait for it with --wait, or name its address with --port, as for a server with --salvage."
        )
    if settings.port == 0:
        raise UnavailableError(f"No server has the store in {settings.data} open: start one with `{start}`.")
    try:
        socket.create_connection((reachable(settings.host), settings.port), _CONNECT_SECONDS).close()
    except OSError:
        sys.stderr.write(f"orcas: No server has the store in {settings.data} open yet: start one with `{start}`.\n")
        return url
    raise UnavailableError(
        f"No server has the store in {settings.data} open, and another server listens at {url}: "
        "name the store with --data, or the address with --port."
    )


def add_to(app: typer.Typer) -> None:
    """Add this command to `orcas`."""
    app.command()(env)
