"""`orcas serve`: what surrounds a run of the server for a person or a supervisor."""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import os
import sys

from orcas import logs
from orcas.app import Lane, Orcas
from orcas.config import Settings
from orcas.descriptors import allow_files
from orcas.errors import UnavailableError
from orcas.memory import private_directory
from orcas.serve import Announce, run

log = logging.getLogger("orcas")


def serve_command(settings: Settings) -> None:
    """Serve until a signal. The ready line goes to stdout, everything else to stderr.

    Raises:
        OrcasError: the server cannot start.
    """

    def announce(url: str, lane: Lane) -> None:
        sys.stdout.write(f"orcas ready {url}\n")
        sys.stdout.flush()
        _tell_root_key(lane)
        if settings.durability != "sync":
            log.warning("Durability is %s: an acknowledged write may be lost in a crash", settings.durability)

    serve_with(settings, announce)


def serve_with(settings: Settings, announce: Announce) -> None:
    """Configure logging, make the directory of a store in memory, and run."""
    logs.configure(settings.log_format, settings.log_level)
    # Whatever is made from here on, the engine's key files included, is its owner's alone.
    os.umask(0o077)
    allow_files()
    with contextlib.ExitStack() as stack:
        if settings.memory:
            try:
                data = stack.enter_context(private_directory())
            except OSError as error:
                raise UnavailableError(f"A directory in memory cannot be made: {error}.") from None
            settings = dataclasses.replace(settings, data=data)
        run(Orcas(settings), announce)


def _tell_root_key(lane: Lane) -> None:
    root = lane.root
    if root.path is None:
        return
    if root.fresh and sys.stderr.isatty():
        sys.stderr.write(
            f"A root key was generated. It is kept in {root.path} and not shown again.\n"
            f"  access key  {root.access_key}\n"
            f"  secret key  {root.secret_key}\n"
        )
    else:
        log.info("The root key is in %s", root.path)
