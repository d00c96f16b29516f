"""`orcas run`: a command with a server of its own, which is gone afterwards."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from typing import Annotated

import typer

from orcas.errors import UnavailableError, UsageError, because
from orcas.process.failures import EXIT_NOT_FOUND

# As a shell says it: a signal has ended it.
_BY_SIGNAL = 128
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP)


def run(
    command: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND...", help="What to run.")] = None,
    bucket: Annotated[
        list[str] | None, typer.Option("--bucket", metavar="NAME", help="Create this bucket; may be repeated.")
    ] = None,
    region: Annotated[str | None, typer.Option("--region", metavar="REGION", help="Region of the store.")] = None,
) -> None:
    """Run a command, such as a test suite in any language, with a server in memory that ends with it.

    The command finds the server by the variables that AWS's SDKs read: AWS_ENDPOINT_URL_S3, the keys and the region. The
    exit code is that of the command.

    Examples:

        orcas run -- npm test

        orcas run --bucket uploads -- go test ./...
    """
    from orcas.server import Server
    from orcas.testing import Control, settings_for_tests

    if not command:
        raise UsageError("A command is missing: write it after --, as in `orcas run -- npm test`.")
    settings = settings_for_tests({} if region is None else {"region": region})
    with Server(**settings) as server, server.env():
        with Control(server) as control:
            for name in bucket or ():
                control.create_bucket(name)
        # Handled before there is a child, so that none is lost while it starts.
        child: subprocess.Popen[bytes] | None = None
        early: list[int] = []

        def pass_on(number: int, _: object) -> None:
            if child is None:
                early.append(number)
            else:
                child.send_signal(number)

        for number in _PASSED_ON:
            signal.signal(number, pass_on)
        try:
            child = subprocess.Popen(command)
        except FileNotFoundError:
            sys.stderr.write(f"orcas: There is no command {command[0]}: install it, or correct its name or PATH.\n")
            raise typer.Exit(EXIT_NOT_FOUND) from None
        except OSError as error:
            raise UnavailableError(f"{command[0]} cannot be run: {because(error)}.") from None
        for pending in early:
            child.send_signal(pending)
        code = _wait(child)
    raise typer.Exit(code if code >= 0 else _BY_SIGNAL - code)


def _wait(child: subprocess.Popen[bytes]) -> int:
    """The exit code. Ctrl-C reaches the child as well, which decides what becomes of it."""
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            return child.wait()


def add_to(app: typer.Typer) -> None:
    """Add this command to `orcas`."""
    app.command()(run)
