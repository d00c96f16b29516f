"""`orcas console`: opens the web console of a running server in the browser, signed in by a link that works once."""

from __future__ import annotations

import contextlib
import json
import secrets
import sys
import time
from typing import TYPE_CHECKING, Annotated

import typer

from orcas.cli.options import Data, Endpoint
from orcas.cli.server.env import Memory, in_memory
from orcas.cli.store.upkeep import settings_of
from orcas.errors import UnavailableError, UsageError

if TYPE_CHECKING:
    from orcas.tools.session import Session

Print = Annotated[bool, typer.Option("--print", help="Print the link instead of opening the browser.")]
Port = Annotated[
    str | None, typer.Option("--port", "-p", metavar="PORT", help="With --memory: select one of several servers.")
]


def console(
    data: Data = None, endpoint: Endpoint = None, memory: Memory = False, port: Port = None, print_link: Print = False
) -> None:
    """Open the web console of a running server in the browser, signed in with the root key.

    The link works once, within 60 seconds. Without a browser on this machine, --print prints it.

    Example:

        orcas console --print
    """
    import webbrowser

    if memory and (data is not None or endpoint is not None):
        raise UsageError("--memory cannot be used with --data or --endpoint: give one of them.")
    if port is not None and not memory:
        raise UsageError("--port needs --memory: give both or neither.")
    with contextlib.closing(_session(data, endpoint, port, memory=memory)) as session:
        link = _link(session)
    if print_link or not webbrowser.open(link):
        sys.stdout.write(f"{link}\n")


def _session(data: str | None, endpoint: str | None, port: str | None, *, memory: bool) -> Session:
    from orcas.control.files import is_locked
    from orcas.settings.config import resolve
    from orcas.tools.reach import remote, through_server

    settings = settings_of(data)
    if endpoint is not None:
        return remote(settings, endpoint)
    if memory:
        settings, _ = in_memory(resolve({"port": port}).settings, port, time.monotonic())
    elif not is_locked(settings.data):
        raise UnavailableError(f"No server has the store in {settings.data} open: start one with `orcas serve`.")
    return through_server(settings)


def _link(session: Session) -> str:
    from orcas.tools.session import HttpTransport, RefusedError

    nonce = [(b"x-amz-orcas-nonce", secrets.token_hex(16).encode())]
    with session.request("POST", "/_orcas/console/links", extra=nonce) as answer:
        body = answer.read(1 << 20)
    if answer.status == 201:
        assert isinstance(session.transport, HttpTransport)
        return f"{session.transport.url}{json.loads(body)['path']}"
    if answer.status == 403:
        raise RefusedError(403, f"The server refused the key{session.key_owner}: use the root key of its store.")
    raise RefusedError(answer.status, "The server has no console: start it with ORCAS_CONSOLE=true.")


def add_to(app: typer.Typer) -> None:
    """Add this command to `orcas`."""
    app.command()(console)
