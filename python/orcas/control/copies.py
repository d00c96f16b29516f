"""Copies of databases while they are in use, by SQLite's backup: a copy is one consistent state in one file."""

from __future__ import annotations

import contextlib
import sqlite3
from pathlib import Path
from urllib.parse import quote

from orcas.errors import UnavailableError


def copy_database(path: Path, to: Path) -> None:
    """Write the present state of the database at `path` to `to`, which must not exist.

    Raises:
        UnavailableError: it cannot be read or written.
    """
    try:
        with (
            contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=rw", uri=True)) as source,
            contextlib.closing(sqlite3.connect(to)) as copy,
        ):
            source.backup(copy)
            # So that the copy needs no WAL file.
            copy.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.Error as error:
        raise UnavailableError(f"{path} cannot be copied: {error}.") from error
