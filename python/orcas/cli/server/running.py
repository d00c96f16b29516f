"""`orcas run`: a command with a server of its own, which is gone afterwards."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from orcas.cli.app import AnyDate, Dev, SelfSigned
from orcas.cli.options import Port
from orcas.errors import UnavailableError, UsageError, because
from orcas.process.failures import EXIT_NOT_FOUND
from orcas.settings.config import child_environment, resolve, set_by_variables, unlike_a_root_key, variable_name

if TYPE_CHECKING:
    from orcas.testing import Control

# As a shell says it: a signal has ended it.
_BY_SIGNAL = 128
_PASSED_ON = (signal.SIGTERM, signal.SIGHUP)


# Settings that a run does not take, and why.
_NOT_TAKEN: Final = dict.fromkeys(("data", "durability"), "its store is in memory") | dict.fromkeys(
    ("log_format", "log_level"), "its log is shown only if it does not start"
)

AccessKey = Annotated[str | None, typer.Option("--access-key", metavar="KEY", help="Access key of the server.")]
SecretKey = Annotated[
    str | None,
    typer.Option("--secret-key", metavar="SECRET", help="Secret key of the server, given with --access-key."),
]


def run(
    command: Annotated[list[str] | None, typer.Argument(metavar="-- COMMAND...", help="What to run.")] = None,
    bucket: Annotated[
        list[str] | None, typer.Option("--bucket", metavar="NAME", help="Create this bucket; may be repeated.")
    ] = None,
    region: Annotated[str | None, typer.Option("--region", metavar="REGION", help="Region of the store.")] = None,
    port: Port = None,
    access_key: AccessKey = None,
    secret_key: SecretKey = None,
    dev: Dev = False,
    tls: SelfSigned = False,
    any_date: AnyDate = False,
) -> None:
    """Run a command, such as a test suite in any language, with a server in memory that ends with it.

    The command finds the server by the variables that AWS's SDKs read: AWS_ENDPOINT_URL_S3, the keys and the region. The
    exit code is that of the command.

    Unless options say otherwise, the port is a free one and the keys are new. Variables of settings (ORCAS_PORT and all
    others) count for the server, and are not passed on to the command; orcas.toml is not read.

    Examples:

        orcas run -- npm test

        orcas run --bucket uploads -- go test ./...

        orcas run -p 9000 --access-key minioadmin --secret-key minioadmin -- npm test
    """
    from orcas.server import Server
    from orcas.testing import Control, settings_for_tests

    if not command:
        raise UsageError("A command is missing: write it after --, as in `orcas run -- npm test`.")
    if (access_key is None) != (secret_key is None):
        raise UsageError("--access-key and --secret-key are one pair: give both or neither.")
    settings = settings_for_tests(
        _chosen({
            "region": region, "port": port, "root_access_key": access_key, "root_secret_key": secret_key,
            "dev": dev or None, "tls_self_signed": tls or None, "any_date": any_date or None,
        })
    )  # fmt: skip
    with Server(**settings) as server, server.env():
        with Control(server) as control:
            for name in bucket or ():
                _create(control, name)
        code = _run(command)
    raise typer.Exit(code if code >= 0 else _BY_SIGNAL - code)


def _chosen(options: dict[str, object]) -> dict[str, object]:
    """The settings that options and variables choose for the server, checked; reports which variables count for
    nothing."""
    resolved = resolve({**options, "memory": True}, files=False)
    for name in set_by_variables():
        if name in _NOT_TAKEN:
            sys.stderr.write(f"orcas: {variable_name(name)} does not count for this server: {_NOT_TAKEN[name]}.\n")
    # Those of the environment would have been taken.
    if resolved.sources.get("root_access_key") == "--dev" and (reason := unlike_a_root_key()) is not None:
        sys.stderr.write(f"orcas: The server takes the published keys, not those of the environment: {reason}.\n")
    chosen = {
        name: getattr(resolved.settings, name) for name, source in resolved.sources.items() if source != "default"
    }
    left_out = {*_NOT_TAKEN, *(name for name, source in resolved.sources.items() if source == "--memory")}
    return {
        name: str(value) if isinstance(value, Path) else value for name, value in chosen.items() if name not in left_out
    }


def _create(control: Control, bucket: str) -> None:
    from orcas.tools.session import RefusedError

    try:
        control.create_bucket(bucket)
    except RefusedError as error:
        if error.code != "InvalidBucketName":
            raise
        raise UsageError(
            f"--bucket must be a valid name of a bucket, of 3 to 63 lower-case letters, digits, dots and hyphens, not "
            f"{bucket}."
        ) from None


def _run(command: list[str]) -> int:
    """Run the command, pass signals on to it, and give its exit code."""
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
        child = subprocess.Popen(command, env=child_environment())
    except FileNotFoundError:
        sys.stderr.write(f"orcas: There is no command {command[0]}: install it, or correct its name or PATH.\n")
        raise typer.Exit(EXIT_NOT_FOUND) from None
    except OSError as error:
        raise UnavailableError(f"{command[0]} cannot be run: {because(error)}.") from None
    for pending in early:
        child.send_signal(pending)
    return _wait(child)


def _wait(child: subprocess.Popen[bytes]) -> int:
    """The exit code. Ctrl-C reaches the child as well, which decides what becomes of it."""
    while True:
        with contextlib.suppress(KeyboardInterrupt):
            return child.wait()


def add_to(app: typer.Typer) -> None:
    """Add this command to `orcas`."""
    app.command()(run)
