"""`control.db` as a whole: whether its bytes are those that were written last, and its copy, from which it is restored.

The copy, `control.db.copy`, has the bytes of the database after the last change, behind a checksum. SQLite counts changes in
the header of the file. So if the counts are equal and the bytes are not, the file is damaged; if the counts differ, the file
was changed after the copy was written, and must pass SQLite's own checks and those of its digests. Of a database that does
not, and has no such copy, `rescue` takes what is intact.
"""

from __future__ import annotations

import contextlib
import logging
import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote

from orcas.control.cipher import Cipher
from orcas.control.digests import Digests
from orcas.control.files import GIVE_UP, read_secret_file, write_secret_file
from orcas.control.files.copies import copy_database
from orcas.control.files.twice import copy_of, is_refuted, read_copy, read_unverified, secure_copy, write_copy
from orcas.control.identities.schema import SCHEMA_VERSION, STORED_KEYS
from orcas.control.rescue import FAILURES, Source, counted, denied, finding, lines_since, rescue, unsound
from orcas.errors import UnavailableError, because

# Where the count of changes is in the file.
_COUNT: Final = slice(24, 28)
# And its schema, as `PRAGMA user_version` has it.
_VERSION: Final = slice(60, 64)
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

log = logging.getLogger("orcas")


class DamagedError(UnavailableError):
    """The database is damaged, and so is its copy, or there is none."""


def is_damage(error: Exception) -> bool:
    """Whether the file of a database is damaged, so that it will not be better at the next attempt."""
    if isinstance(error, UnicodeDecodeError) or "Could not decode to UTF-8" in str(error):
        return True
    return getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED


@dataclass(frozen=True)
class Found:
    """What a database has, and what is wrong with its file, if that is not what the file has.

    `is_merged`: it is what is intact of the file and of its copy.
    """

    content: bytes | None
    why: str | None = None
    is_merged: bool = False


def read_database(path: Path, keys: list[Digests], owner: str) -> Found:
    """The content of the database or, if it is missing or damaged, of its copy, or what is intact of both.

    A transaction that a crash interrupted is rolled back first. The caller has no connection to the database. `keys`: what
    may have made its digests, none if that is not known. `owner`: the id of the account of root.

    Raises:
        DamagedError: nothing is intact.
        UnavailableError: it cannot be read.
    """
    copy = read_copy(path)
    why = _finding(path) if Path(f"{path}-journal").exists() else None
    content = read_secret_file(path)
    if content == copy:
        return Found(content)
    if content is None:
        why = "was missing"
    elif copy is not None and _is_same_change(content, copy):
        return Found(copy, "was damaged")
    elif not content:
        # SQLite would take it for a new database.
        why = "it is empty"
    else:
        why = why or _wrong(path, content, keys)
        if why is None:
            return Found(content)
    said = why if content is None else f"was damaged ({why})"
    # The copy may be a change behind, or damaged as well.
    main, other = Source.of(content or b""), Source.of(copy or read_unverified(path))
    if copy is not None and not main.is_whole and not lines_since(path.parent, other, keys):
        return Found(copy, said)
    rescued = rescue(main, other, keys, path.parent, owner) if keys else None
    if rescued is not None:
        return Found(counted(rescued, content, copy), said, is_merged=True)
    if copy is not None:
        return Found(copy, said)
    if main.is_whole and main.digests:
        # Its digests are of another key, of which its secrets will tell.
        return Found(content)
    raise DamagedError(
        f"{path} is damaged, and there is no intact copy of it: {why}; restore it from a backup, or run {GIVE_UP} to go "
        "on with the root key alone."
    )


def restore_database(path: Path, keys: list[Digests], owner: str) -> bytes | None:
    """Put what is intact in place of a database that is missing or damaged. A damaged one is kept under another name.

    Returns what the database has then, which is intact.

    Raises:
        DamagedError: nothing is intact.
        UnavailableError: it cannot be read or written.
    """
    found = read_database(path, keys, owner)
    if found.content is None or found.why is None:
        return found.content
    # It may have changes that the copy lacks.
    aside = path.with_name(f"{path.name}.damaged")
    try:
        # Its journal first, which would be played into the copy.
        for suffix in ("-journal", ""):
            with contextlib.suppress(FileNotFoundError):
                Path(f"{path}{suffix}").replace(f"{aside}{suffix}")
    except OSError as error:
        raise UnavailableError(f"{path} is damaged and cannot be renamed: {because(error)}.") from None
    write_secret_file(path, found.content)
    if found.is_merged:
        log.warning("%s %s, and is made anew of what is intact in it and in its copy", path, found.why)
    else:
        log.warning("%s %s, and is restored from its copy, %s", path, found.why, copy_of(path).name)
    return found.content


def back_up_database(path: Path, to: Path) -> None:
    """Write the present state of the database to `to`, which must not exist; of a damaged one, that of its copy.

    Raises:
        UnavailableError: it cannot be read or written.
    """
    found = Found(None)
    with contextlib.suppress(DamagedError):
        found = read_database(path, [], "")
    if found.content is None or found.why is None:
        copy_database(path, to)
        return
    log.warning("%s %s: the backup has its copy, from which the next start restores it", path, found.why)
    to.write_bytes(found.content)


def check_database(path: Path, keys: list[Digests]) -> tuple[str | None, list[str]]:
    """What is wrong with a database and its copy, of a store that is not open, and who is denied everything by it.

    Raises:
        UnavailableError: they cannot be read.
    """
    content, copy = read_secret_file(path), read_copy(path)
    if content is None:
        return (None if copy is None else f"{path.name} is missing"), []
    if content == copy:
        return None, denied(content)
    why = None
    if copy is not None and _is_same_change(content, copy):
        why = "it differs from its copy, although nothing was changed after the copy was written"
    why = why or _wrong(path, content, keys)
    if why is not None:
        return f"{path.name} is damaged: {why}", []
    is_cut = copy is None and copy_of(path).exists()
    return (f"{copy_of(path).name} is damaged" if is_cut else None), denied(content)


def secure_database(path: Path, keys: list[Digests], intact: bytes | None, *, is_new: bool) -> None:
    """Bring the copy up to date after a change. If that cannot be written, a later start does it.

    `intact`: what the database had before, if it was verified.
    """
    try:
        content, copy = read_secret_file(path), read_copy(path)
        if content is None:
            return
        if is_new or (copy is not None and copy != content):
            if content == intact:
                write_copy(path, content)
            else:
                copy_verified(path, content, keys)
        else:
            secure_copy(path, content)
    except UnavailableError as error:
        log.warning("%s is not kept twice yet: %s", path.name, error)


def copy_verified(path: Path, content: bytes, keys: list[Digests]) -> bool:
    """Make this content of the database its copy, unless it is damaged: then the copy stays what it is.

    Raises:
        UnavailableError: the copy cannot be written.
    """
    why = unsound(content, keys)
    if why is None:
        write_copy(path, content)
    return why is None


def check_secrets(path: Path, cipher: Cipher, most: int = -1) -> None:
    """Raise UnavailableError if `cipher` is not that of the database, by all of its secrets or the first `most`.

    Some rows may be damaged, as long as it decrypts anything, and that of root in any case.
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
                if not is_root:
                    refused = error
    if refused is not None and not is_known:
        raise refused


def _wrong(path: Path, content: bytes, keys: list[Digests]) -> str | None:
    """The sentence about a database whose copy is another one, or none."""
    why = unsound(content, keys)
    if why is not None or _has_digests(content) or not is_refuted(path, content):
        return why
    # Of another change, the copy is of what there was before.
    return "it does not match the checksum in its copy" if _is_same_change(content, read_unverified(path)) else None


def _is_same_change(content: bytes, copy: bytes) -> bool:
    return content[_COUNT] == copy[_COUNT]


def _has_digests(content: bytes) -> bool:
    return int.from_bytes(content[_VERSION], "big") >= SCHEMA_VERSION


def _finding(path: Path) -> str | None:
    """The finding of SQLite about the database, if it has one.

    Raises:
        UnavailableError: it cannot be read now.
    """
    try:
        # Writable, because an interrupted transaction is rolled back.
        with contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=rw", uri=True)) as connection:
            return finding(connection)
    except FAILURES as error:
        if is_damage(error):
            return str(error)
        raise UnavailableError(
            f"{path} cannot be used: {error}; check the file and its disk, and try again."
        ) from error
