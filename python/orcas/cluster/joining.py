"""A node for which the log begins too late: first a copy of the files of another node, then the log from an earlier place.

Invariants. The mark is that of the other node before the copy began. Everything behind it is applied once more, so it does
not matter that the files change while they are copied. The mark is written last, and without it nobody opens the directory.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Final

from orcas.cluster.small import NAMES, kept_path
from orcas.control.files import locked, make_directory, sync_directory, write_secret_file
from orcas.errors import UnavailableError, because
from orcas.standby.copy import Copy, check_directory
from orcas.standby.mark import NAME as STANDBY
from orcas.standby.source import Source
from orcas.tools.session import Session

MARK: Final = "mark.json"


def join(directory: Path, session: Session, url: str, advance: Callable[[int, int], None]) -> None:
    """Copy the files of the owner at `url` into a directory, for a node that is to be started there.

    `advance` is told how many bytes of how many were copied.

    Raises:
        ConfigurationError: the server has another store than a copy that was begun.
        UnavailableError: the directory has a store, or the server is gone, or a file cannot be written.
        RefusedError: the server is no node of a cluster.
    """
    make_directory(directory)
    check_directory(directory)
    with locked(directory):
        found = session.admin("GET", "cluster")
        if found["mark"] is None:
            raise UnavailableError(f"{url} has no mark in the log yet: try again in some seconds.")
        Copy(directory, Source(session, url)).bring(0, advance)
        try:
            (directory / "cluster.node" / "control").mkdir(parents=True, exist_ok=True)
            for name in NAMES:
                if (directory / name).exists():
                    shutil.copyfile(directory / name, kept_path(directory, name))
            write_secret_file(directory / "cluster.node" / MARK, json.dumps(found["mark"]).encode())
            (directory / STANDBY).unlink()
            sync_directory(directory)
        except OSError as error:
            raise UnavailableError(f"{directory} cannot be changed: {because(error)}.") from None
