"""Small files of the data directory that hold secrets, and the lock over them.

Each file appears whole or not at all (temporary name, sync, rename, sync of the directory) and is readable by its owner
alone from its first byte. The lock is advisory and ends with the process, so nothing is ever left locked.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from orcas.errors import UnavailableError

LOCK_NAME: Final = "control.lock"
DATABASE_NAME: Final = "control.db"


class InUseError(UnavailableError):
    """Another process has the store of a directory."""


def make_directory(path: Path) -> None:
    """Create the data directory, for its owner alone, where there is none.

    Raises:
        UnavailableError: it cannot be created, or is not a directory.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UnavailableError(f"The data directory {path} cannot be created: {error.strerror}.") from None


@contextmanager
def locked(directory: Path) -> Iterator[None]:
    """Hold the directory's control lock.

    Raises:
        InUseError: another process holds it.
        UnavailableError: it cannot be opened.
    """
    try:
        descriptor = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise UnavailableError(f"The data directory {directory} cannot be used: {error.strerror}.") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise InUseError(f"The store in {directory} is in use by another process.") from None
        yield
    finally:
        os.close(descriptor)


def read_secret_file(path: Path) -> bytes | None:
    """The content of `path`, or None where there is no such file.

    Raises:
        UnavailableError: it exists but cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnavailableError(f"{path} cannot be read: {error.strerror}.") from None


def write_secret_file(path: Path, content: bytes) -> None:
    """Put `content` at `path`, mode 0600, durably, replacing what was there.

    Raises:
        UnavailableError: the file system refuses.
    """
    temporary = path.with_name(path.name + ".new")
    try:
        temporary.unlink(missing_ok=True)
        descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        with os.fdopen(descriptor, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
        sync_directory(path.parent)
    except OSError as error:
        with suppress(OSError):
            temporary.unlink()
        raise UnavailableError(f"{path} cannot be written: {error.strerror}.") from None


def sync_directory(path: Path) -> None:
    """Make the entries of a directory durable.

    Raises:
        OSError: the file system refuses.
    """
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
