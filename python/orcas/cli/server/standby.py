"""`orcas standby` and `orcas promote`: a second copy of a store, and what makes it the first one."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from orcas.cli.options import Data, Host, Port
from orcas.errors import UsageError

From = Annotated[
    str | None,
    typer.Option(
        "--from", metavar="URL", help="The server to follow. A standby that was started before knows its address."
    ),
]


def add_to(app: typer.Typer) -> None:
    """Add the commands."""
    app.command()(standby)
    app.command()(promote)


def standby(source: From = None, data: Data = None, host: Host = None, port: Port = None) -> None:
    """Keep a copy of another server's store up to date, and serve reads from it, until SIGTERM or Ctrl-C.

    The key is the root key of that server, in AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY; later the copy knows it. The copy
    is asynchronous: what that server has acknowledged in the last moments may be missing when it is lost. `orcas promote`
    makes the copy a store of its own.

    Example:

        orcas standby --from https://s3.example.org --data /srv/standby
    """
    from orcas.cli.server.serving import serve_command
    from orcas.settings.config import resolve
    from orcas.standby.mark import read_mark

    overrides: dict[str, object] = {"data": data, "host": host, "port": port}
    if source is None:
        mark = read_mark(resolve(overrides).settings.data)
        if mark is None:
            raise UsageError("There is no standby in that directory yet: name the server to follow with --from.")
        source = mark.url
    serve_command(resolve(overrides | {"standby_of": source}))


def promote(data: Data = None) -> None:
    """Make the copy of a stopped standby a store of its own, which `orcas serve` opens. Stop the other server first.

    Nothing keeps two servers from taking writes for the same clients: that the other one is stopped, and stays so, is up to
    whoever promotes.

    Example:

        orcas promote --data /srv/standby
    """
    from orcas.control.files import InUseError, is_locked
    from orcas.settings.config import resolve
    from orcas.standby.mark import promote as make_store

    directory = resolve({"data": data}).settings.data
    if is_locked(directory):
        raise InUseError(directory)
    mark = make_store(directory)
    sys.stdout.write(f"{directory} is a store of its own now, up to record {mark.sequence} of {mark.url}.\n")
    sys.stdout.write(f"Check it: orcas fsck --data {directory}\nStart it: orcas serve --data {directory}\n")
