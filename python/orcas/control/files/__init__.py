"""Small files of the data directory that hold secrets, and the lock over them.

Each file is replaced atomically (temporary name, sync, rename, sync of the directory) and only its owner can ever read it.
The lock is advisory and ends with the process, so nothing is ever left locked.
"""

from __future__ import annotations

import fcntl
import os
import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Final

from orcas.errors import UnavailableError, because

LOCK_NAME: Final = "control.lock"
DATABASE_NAME: Final = "control.db"
USAGE_NAME: Final = "usage.db"
QUOTAS_NAME: Final = "quotas.json"
ROOT_NAME: Final = "root.json"
KEY_NAME: Final = "control.key"
# What a node of a cluster keeps for itself. Locked while the node runs, also between two roles.
NODE_FOLDER: Final = "cluster.node"
KEYRING_NAMES: Final = ("keyring", "keyring.copy")
# What begins a new store in place of nothing is not the start, but its operator.
GIVE_UP: Final = "`orcas fsck --repair --accept-loss`"
# A directory with any of these is a store, if only a begun one. `log` and `chunks` are too common to count.
_STORE_FILES: Final = frozenset(
    {
        LOCK_NAME,
        # A standby whose first copy was not complete.
        "standby.json",
        # A node of a cluster that has applied nothing of the log.
        NODE_FOLDER,
        *(f"{name}{copy}" for name in (DATABASE_NAME, ROOT_NAME, KEY_NAME, "store.keys") for copy in ("", ".copy")),
    }
    | {*KEYRING_NAMES}
)
# Files that a directory may have and still count as empty: of file systems, of version control, and Orcas's settings.
IGNORED_FILES: Final = frozenset(
    {"lost+found", ".snapshot", ".gitignore", ".gitkeep", ".keep", ".DS_Store", "orcas.toml"}
)
_LOCK_ATTEMPTS_MAX: Final = 50
_LOCK_RETRY_SECONDS: Final = 0.01


class InUseError(UnavailableError):
    """The store in `directory` is open in another process. `silent`: it is no server, or accepts no requests."""

    def __init__(self, directory: Path, *, silent: bool = False) -> None:
        super().__init__(
            f"The store in {directory} is in use by another process, which accepts no requests: wait until it does, or stop "
            "it if it was started with --salvage."
            if silent
            else f"The store in {directory} is in use by another process: stop that one first."
        )


class NoStoreError(UnavailableError):
    """There is no store in `directory`."""

    def __init__(self, directory: Path) -> None:
        create = f"orcas serve --data {shlex.quote(str(directory))}"
        super().__init__(
            f"There is no store in {directory}: name another directory with --data; `{create}` creates one."
        )


class LaterVersionError(UnavailableError):
    """A later version of Orcas has written the file at `path`."""

    def __init__(self, path: Path) -> None:
        super().__init__(f"{path} was written by a later version of Orcas: use that version.")


def make_directory(path: Path) -> None:
    """Create the data directory, accessible only to its owner, if it does not exist.

    Raises:
        UnavailableError: it cannot be created, is not a directory, or contains other files.
    """
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        raise UnavailableError(
            f"The data directory {path} cannot be created: {because(error)}, or name another with --data."
        ) from None
    try:
        there = {entry.name for entry in path.iterdir()}
    except OSError as error:
        raise UnavailableError(
            f"The data directory {path} cannot be read: {because(error)}, or name another with --data."
        ) from None
    foreign = sorted(there - IGNORED_FILES)
    if foreign and not there & _STORE_FILES:
        raise UnavailableError(
            f"{path} holds other files, such as {foreign[0]}, and no store: choose an empty or new directory."
        )


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
        raise UnavailableError(
            f"The data directory {directory} cannot be used: {because(error)}, or name another with --data."
        ) from None
    try:
        if not _lock(descriptor):
            raise InUseError(directory)
        yield
    finally:
        os.close(descriptor)


def is_locked(directory: Path) -> bool:
    """Whether a process has the store of `directory` open. Asking does not keep a store from opening: see `_lock`."""
    try:
        descriptor = os.open(directory / LOCK_NAME, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(descriptor)
    return False


def is_running(directory: Path) -> bool:
    """Whether a process has the store of `directory` open, or is a node of a cluster that has none open at the moment."""
    return is_locked(directory) or is_locked(directory / NODE_FOLDER)


def _lock(descriptor: int) -> bool:
    """Take the lock. Wait only for `is_locked`, which holds it shared for a moment."""
    for _ in range(_LOCK_ATTEMPTS_MAX):
        with suppress(OSError):
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            return True
        try:
            fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except OSError:
            return False
        fcntl.flock(descriptor, fcntl.LOCK_UN)
        time.sleep(_LOCK_RETRY_SECONDS)
    return False


def read_secret_file(path: Path) -> bytes | None:
    """The content of `path`, or None if there is no such file.

    Raises:
        UnavailableError: it exists but cannot be read.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise UnavailableError(f"{path} cannot be read: {because(error)}.") from None


def write_secret_file(path: Path, content: bytes) -> None:
    """Write `content` to `path` with mode 0600, atomically and durably.

    Raises:
        UnavailableError: it cannot be written.
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
        raise UnavailableError(f"{path} cannot be written: {because(error)}.") from None


def sync_directory(path: Path) -> None:
    """Make the entries of a directory durable.

    Raises:
        OSError: it cannot be synced.
    """
    directory = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory)
    finally:
        os.close(directory)
