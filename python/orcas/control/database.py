"""`control.db` as a whole: whether its bytes are those that were written last, and its copy, from which it is restored.

The copy, `control.db.copy`, has the bytes of the database after the last change, behind a checksum. SQLite counts changes in
the header of the file. So if the counts are equal and the bytes are not, the file is damaged; if the counts differ, the file
was changed after the copy was written, and must pass SQLite's own checks.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from pathlib import Path
from typing import Final
from urllib.parse import quote

from orcas.control.cipher import Cipher
from orcas.control.files import GIVE_UP, read_secret_file, write_secret_file
from orcas.control.files.copies import copy_database
from orcas.control.files.twice import copy_of, is_refuted, read_copy, secure_copy, write_copy
from orcas.control.identities.schema import ORIGIN, SCHEMA_VERSION, STORED_KEYS
from orcas.errors import UnavailableError, because

# Where the count of changes is in the file.
_COUNT: Final = slice(24, 28)
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

log = logging.getLogger("orcas")


# What reading a database raises. Python decodes SQLite's messages, which may quote damaged text.
FAILURES: Final = (sqlite3.Error, UnicodeDecodeError)


class DamagedError(UnavailableError):
    """The database is damaged, and so is its copy, or there is none."""


def is_damage(error: Exception) -> bool:
    """Whether the file of a database is damaged, so that it will not be better at the next attempt."""
    if isinstance(error, UnicodeDecodeError) or "Could not decode to UTF-8" in str(error):
        return True
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED


def read_database(path: Path) -> bytes | None:
    """The content of the database or, if it is missing or damaged, of its copy. None if there is neither.

    A transaction that a crash interrupted is rolled back first. The caller has no connection to the database.

    Raises:
        DamagedError: neither is intact.
        UnavailableError: it cannot be read.
    """
    return _read(path)[0]


def restore_database(path: Path) -> None:
    """Put the copy in place of a database that is missing or damaged. A damaged one is kept under another name.

    Raises:
        DamagedError: there is no intact copy either.
        UnavailableError: it cannot be read or written.
    """
    content, why = _read(path)
    if content is None or why is None:
        return
    # It may have changes that the copy lacks.
    aside = path.with_name(f"{path.name}.damaged")
    try:
        # Its journal first, which would be played into the copy.
        for suffix in ("-journal", ""):
            with contextlib.suppress(FileNotFoundError):
                Path(f"{path}{suffix}").replace(f"{aside}{suffix}")
    except OSError as error:
        raise UnavailableError(f"{path} is damaged and cannot be renamed: {because(error)}.") from None
    write_secret_file(path, content)
    log.warning("%s %s, and is restored from its copy, %s", path, why, copy_of(path).name)


def back_up_database(path: Path, to: Path) -> None:
    """Write the present state of the database to `to`, which must not exist; of a damaged one, that of its copy.

    Raises:
        UnavailableError: it cannot be read or written.
    """
    content, why = None, None
    with contextlib.suppress(DamagedError):
        content, why = _read(path)
    if content is None or why is None:
        copy_database(path, to)
        return
    log.warning("%s %s: the backup has its copy, from which the next start restores it", path, why)
    to.write_bytes(content)


def secure_database(path: Path, *, is_new: bool) -> None:
    """Bring the copy up to date after a change. If that cannot be written, a later start does it."""
    try:
        content, copy = read_secret_file(path), read_copy(path)
        if content is None:
            return
        if is_new or (copy is not None and copy != content):
            write_copy(path, content)
        else:
            secure_copy(path, content)
    except UnavailableError as error:
        log.warning("%s is not kept twice yet: %s", path.name, error)


def check_secrets(path: Path, cipher: Cipher, most: int = -1) -> None:
    """Raise UnavailableError if `cipher` is not that of the database, by all of its secrets or the first `most`.

    The row of the root may be damaged. So may those of origins, as long as it decrypts anything.
    """
    refused: UnavailableError | None = None
    is_known = False
    # A database that cannot be read is reported when it is opened.
    with (
        contextlib.suppress(*FAILURES),
        contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection,
    ):
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        query = f"{STORED_KEYS.get(version, STORED_KEYS[SCHEMA_VERSION])} LIMIT ?"
        for *row, is_root in connection.execute(query, (most,)):
            try:
                cipher.decrypt(*row)
                is_known = True
            except UnavailableError as error:
                if row[1] == ORIGIN:
                    refused = error
                elif not is_root:
                    raise
    if refused is not None and not is_known:
        raise refused


def _read(path: Path) -> tuple[bytes | None, str | None]:
    """The content, and what is wrong with the file if that is from the copy."""
    copy = read_copy(path)
    why = None
    if Path(f"{path}-journal").exists():
        why = _finding(path)
    content = read_secret_file(path)
    if why is None:
        if content == copy:
            return content, None
        if content is None:
            return copy, "was missing"
        if copy is not None and content[_COUNT] == copy[_COUNT]:
            return copy, "was damaged"
        if not content:
            # SQLite would take it for a new database.
            why = "it is empty"
        elif is_refuted(path, content):
            why = "it does not match the checksum in its copy"
        else:
            why = _finding(path)
    if why is None:
        return content, None
    if copy is None:
        raise DamagedError(
            f"{path} is damaged, and there is no intact copy of it: {why}; restore it from a backup, or run {GIVE_UP} to go "
            "on with the root key alone."
        )
    return copy, f"was damaged ({why})"


def _finding(path: Path) -> str | None:
    """What SQLite finds wrong with the database.

    Raises:
        UnavailableError: it cannot be read now.
    """
    try:
        # Writable, because an interrupted transaction is rolled back.
        with contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=rw", uri=True)) as connection:
            found = [row[0] for row in connection.execute("PRAGMA integrity_check(1)")]
            found += [f"a row of {row[0]} has no {row[2]}" for row in connection.execute("PRAGMA foreign_key_check")]
    except FAILURES as error:
        if is_damage(error):
            return str(error)
        raise UnavailableError(
            f"{path} cannot be used: {error}; check the file and its disk, and try again."
        ) from error
    return next((str(finding) for finding in found if finding != "ok"), None)
