"""Whether this version of Orcas, and this user, may open the store in a directory, as far as the control data say.

Asked through `orcas.engine.admit` before anything else of a store is read: what nobody here can read looks damaged to all
who read on, and what is damaged is given up. Changes nothing, and needs no lock. Must not know the files of the engine.
"""

from __future__ import annotations

import contextlib
import logging
import os
import pwd
import shlex
from pathlib import Path
from typing import Final

from orcas.control.files import DATABASE_NAME, IGNORED_FILES, LaterVersionError, read_secret_file
from orcas.control.files.twice import HEAD_BYTES, copy_of, read_copy
from orcas.control.identities.schema import SCHEMA_VERSION
from orcas.control.quotas import read_quotas
from orcas.errors import ConfigurationError, UnavailableError

# SQLite opens no file whose path, without symbolic links, has more than 504 bytes. `index.db.rebuild` has the longest name.
PATH_BYTES_MAX: Final = 504 - len("/index.db.rebuild")
_FOLDERS: Final = ("log", "chunks", "events", "audit", "webhooks")
_SQLITE: Final = b"SQLite format 3\0"
# Where SQLite keeps `user_version` in the file.
_VERSION: Final = slice(60, 64)
_GONE: Final = (0, 0)

log = logging.getLogger("orcas")


def check_path(directory: Path) -> None:
    """Raise ConfigurationError if SQLite could not open the databases of a store in this directory."""
    real = os.fsencode(os.path.realpath(directory))
    try:
        real.decode()
    except UnicodeDecodeError:
        shown = real.decode(errors="backslashreplace")
        raise ConfigurationError(
            f"The path of the data directory, {shown}, is not UTF-8: name another with --data."
        ) from None
    if len(real) > PATH_BYTES_MAX:
        raise ConfigurationError(
            f"The path of the data directory has {len(real)} bytes, and must have at most {PATH_BYTES_MAX} for SQLite: name "
            "another with --data."
        )


def check_owner(directory: Path) -> None:
    """Raise UnavailableError if another user, such as root, has left files in the store that this one cannot read."""
    closed = [path for path in _paths(directory) if _is_closed(path)]
    if not closed:
        return
    others = f" and {len(closed) - 1} more files of the store" if len(closed) > 1 else ""
    raise UnavailableError(
        f"{closed[0]}{others} cannot be read by this user, as after a command that root ran on the store: as root, run "
        f"`chown -R {user_name(os.geteuid())} {shlex.quote(str(directory))}`."
    )


def _is_closed(path: Path) -> bool:
    """Whether this user cannot read it. What a server at work renames or removes meanwhile is nobody else's.

    It is not opened for that: closing it would end the locks that SQLite has in this process.
    """
    before = _state(path)
    readable = os.access(path, os.R_OK | (os.X_OK if path.is_dir() else 0))
    return not readable and before == _state(path) != _GONE


def _state(path: Path) -> tuple[int, int]:
    """The inode of a file and when it last changed; both 0 if there is none."""
    try:
        status = path.stat()
    except OSError:
        return _GONE
    return status.st_ino, status.st_ctime_ns


def warn_root(directory: Path) -> None:
    """Called before anything is written: say so if root would leave files that the owner of the store cannot read."""
    owner = directory.stat().st_uid
    if owner not in {0, os.geteuid()} and os.geteuid() == 0:
        log.warning(
            "The store in %s belongs to %s, who cannot read what root writes: run commands as that user, or run chown -R "
            "on the directory afterwards",
            directory, user_name(owner),
        )  # fmt: skip


def user_name(number: int) -> str:
    """The name of a user, or the number of one without a name."""
    try:
        return pwd.getpwuid(number).pw_name
    except KeyError:
        return str(number)


def check_control_formats(directory: Path) -> None:
    """Raise LaterVersionError if a later version of Orcas has written the identities or the quotas."""
    path = directory / DATABASE_NAME
    if max(_version(_beginning(path)), _version(_beginning(copy_of(path), HEAD_BYTES + 1))) > SCHEMA_VERSION:
        # Either may be damaged just there. A copy whose checksum matches counts more.
        copy = read_copy(path)
        if _version(read_secret_file(path) if copy is None else copy) > SCHEMA_VERSION:
            raise LaterVersionError(path)
    try:
        read_quotas(directory)
    except LaterVersionError:
        raise
    except UnavailableError:
        # Damage is for others to report.
        return


def _paths(directory: Path) -> list[Path]:
    """The files of a store and its folders, as far as this user can list them."""
    found: list[Path] = []
    for folder in (directory, *(directory / name for name in _FOLDERS)):
        with contextlib.suppress(OSError):
            found += sorted(path for path in folder.iterdir() if path.name in _FOLDERS or path.is_file())
    return [path for path in found if path.name not in IGNORED_FILES]


def _beginning(path: Path, offset: int = 0) -> bytes:
    """The part of a file that says what version a database has; empty if there is none, or it cannot be read."""
    try:
        with path.open("rb") as file:
            file.seek(offset)
            return file.read(_VERSION.stop)
    except OSError:
        return b""


def _version(content: bytes | None) -> int:
    """`user_version` of a database; 0 of what is none."""
    return int.from_bytes(content[_VERSION], "big") if content and content.startswith(_SQLITE) else 0
