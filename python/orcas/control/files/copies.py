"""Copies of databases while they are in use, by SQLite's backup: a copy is one consistent state in one file."""

from __future__ import annotations

import contextlib
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final
from urllib.parse import quote

from orcas.errors import UnavailableError

# Between two steps, whoever writes has its turn.
_STEP_PAGES: Final = 4096
COPY_SECONDS_MAX: Final = 60.0


def copy_database(path: Path, to: Path, seconds_max: float = COPY_SECONDS_MAX) -> None:
    """Write the present state of the database at `path` to `to`, which must not exist.

    Raises:
        UnavailableError: it cannot be read or written, or was in use for `seconds_max`.
    """
    try:
        with (
            contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=rw", uri=True)) as source,
            contextlib.closing(sqlite3.connect(to)) as copy,
        ):
            source.backup(copy, pages=_STEP_PAGES, progress=_until(time.monotonic() + seconds_max))
            # So that the copy needs no WAL file.
            copy.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise UnavailableError(
            f"{path} cannot be copied: {error}; check both files and their disks, and try again."
        ) from error


def _until(deadline: float) -> Callable[[int, int, int], None]:
    """Called after each step, also after one that found the database busy, which SQLite's backup would repeat for ever."""

    def check(_status: int, _remaining: int, _total: int) -> None:
        if time.monotonic() > deadline:
            raise sqlite3.OperationalError("it was in use for too long")

    return check
