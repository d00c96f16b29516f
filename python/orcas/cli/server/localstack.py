"""`orcas localstack`: the server, started as one starts LocalStack."""

from __future__ import annotations

import functools
import logging
import sys
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

if TYPE_CHECKING:
    from orcas.localstack.environment import Wanted
    from orcas.localstack.scripts import InitScripts
    from orcas.settings.config import Settings

_PASSED_ON: Final = {"ignore_unknown_options": True, "allow_interspersed_args": False}

log = logging.getLogger("orcas.localstack")

Command = Annotated[list[str] | None, typer.Argument(metavar="[start]", help="As that of `localstack`.")]


def add_to(app: typer.Typer) -> None:
    """Add the command."""
    app.command(context_settings=_PASSED_ON)(localstack)


def localstack(command: Command = None) -> None:
    """Run the server in place of LocalStack, for S3, IAM and STS: on its port, with its variables and init scripts.

    The keys are `test` and `test`, or AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY. Everything is in memory, unless
    PERSISTENCE is 1 or DATA_DIR names a directory. What has no effect here is named once at the start.

    Example:

        orcas localstack
    """
    from orcas.cli.server.serving import serve_command
    from orcas.localstack.environment import PREFIX, UNUSED, USED, wanted
    from orcas.localstack.scripts import InitScripts
    from orcas.serving.app import orcas_of
    from orcas.settings.config import resolve, variables_named, variables_of

    made = wanted(command or [], {**variables_named((*USED, *UNUSED)), **variables_of(PREFIX)})
    resolved = resolve(made.settings)
    scripts = InitScripts(Path(made.init))
    environment = _environment(resolved.settings)
    scripts.run("BOOT", environment)
    scripts.run("START", environment)

    ending = functools.partial(scripts.run, "SHUTDOWN", environment)
    make = functools.partial(orcas_of, init_scripts=scripts, ending=ending)
    try:
        serve_command(resolved, then=functools.partial(_tell, made, scripts, environment), make=make)
    finally:
        scripts.end()


def _tell(made: Wanted, scripts: InitScripts, environment: dict[str, str], url: str) -> None:
    """Say what has no effect; run the scripts that wait for the server; then say what others wait for."""
    from orcas.localstack.environment import DEFAULT_KEY

    if made.unused:
        log.warning("Without effect here: %s", ", ".join(made.unused))
    if made.absent_services:
        log.warning("These services are not here, and answer with a sentence: %s", ", ".join(made.absent_services))
    if made.settings["any_signature"]:
        log.warning("Signatures are not verified: whoever reaches the server may do everything, whatever the keys")
    elif made.settings["root_secret_key"] == DEFAULT_KEY:
        log.warning("The keys are the published ones of LocalStack: let nobody else reach the server")

    environment["AWS_ENDPOINT_URL"] = url

    def get_ready() -> None:
        scripts.run("READY", environment)
        sys.stdout.write("Ready.\n")
        sys.stdout.flush()

    threading.Thread(target=get_ready, name="orcas-init", daemon=True).start()


def _environment(settings: Settings) -> dict[str, str]:
    """The keys that scripts have, and the region."""
    keys = {
        "AWS_ACCESS_KEY_ID": settings.root_access_key or "",
        "AWS_SECRET_ACCESS_KEY": settings.root_secret_key or "",
    }
    region = {"AWS_DEFAULT_REGION": settings.region, "AWS_REGION": settings.region}
    return {**keys, **region}
