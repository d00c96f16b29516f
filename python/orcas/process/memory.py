"""The directory of a store in memory: private, on a memory file system if there is one, and removed at exit.

Each directory has a lock file next to it, which is locked before the directory is created. So a process that gets the lock
of another directory may remove both: the process that owned it has ended.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

_PREFIX: Final = "orcas-memory-"
# Part of the names of directories that belong to one program, which `private_directories` does not list.
_OWNED: Final = "owned-"
_LOCK: Final = ".lock"
_SHARED_MEMORY: Final = Path("/dev/shm")  # noqa: S108 - names in it are unguessable and private


# Containers often have 64 MiB of shared memory: too little to keep objects in.
_ROOM_MIN: Final = 512 << 20


def _base() -> Path:
    usable = os.access(_SHARED_MEMORY, os.W_OK | os.X_OK) and shutil.disk_usage(_SHARED_MEMORY).free >= _ROOM_MIN
    return _SHARED_MEMORY if usable else Path(tempfile.gettempdir())


@contextlib.contextmanager
def private_directory(base: Path | None = None, *, owned: bool = False) -> Iterator[Path]:
    """A new private directory, removed at the end. Also removes directories of processes that have died.

    `owned`: for the program that started this process, so that `private_directories` does not list it.

    Raises:
        OSError: it cannot be created.
    """
    base = base or _base()
    _remove_abandoned(base)
    path = base / f"{_PREFIX}{os.getuid()}-{_OWNED if owned else ''}{secrets.token_hex(8)}"
    lock = path.with_name(path.name + _LOCK)
    with contextlib.ExitStack() as stack:
        descriptor = os.open(lock, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
        stack.callback(os.close, descriptor)
        stack.callback(lock.unlink, missing_ok=True)
        # Another process may hold the lock to clean up. It unlinks the file, so this directory would outlive a crash.
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        path.mkdir(mode=0o700)
        stack.callback(shutil.rmtree, path, ignore_errors=True)
        yield path


def private_directories() -> list[Path]:
    """The directories of this user that are not owned, whether or not their processes are still running."""
    bases = {_SHARED_MEMORY, Path(tempfile.gettempdir())}
    prefix = f"{_PREFIX}{os.getuid()}-"
    found = [path for base in bases for path in base.glob(f"{prefix}*") if path.is_dir()]
    return sorted(path for path in found if not path.name.startswith(prefix + _OWNED))


def _remove_abandoned(base: Path) -> None:
    for lock in base.glob(f"{_PREFIX}{os.getuid()}-*{_LOCK}"):
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            descriptor = os.open(lock, os.O_RDWR | os.O_CLOEXEC | os.O_NOFOLLOW)
            stack.callback(os.close, descriptor)
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(lock.with_name(lock.name.removesuffix(_LOCK)), ignore_errors=True)
            lock.unlink(missing_ok=True)
