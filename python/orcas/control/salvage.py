"""The credentials of a store that is open for salvage: only the root identity.

Reads `root.json` and writes nothing. If the file is missing or damaged, a key pair is generated for as long as the process
runs. `control.db` is not opened.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from orcas.control.files import LOCK_NAME, InUseError
from orcas.control.root import Root, fresh_pair, known_root
from orcas.errors import UnavailableError


@contextlib.contextmanager
def salvaged_root(directory: Path, access_key: str | None, secret_key: str | None) -> Iterator[Root]:
    """The root identity of the store in `directory`, with the operator's pair, else the stored one, else a new one.

    Raises:
        InUseError: another process has the store open.
    """
    with _locked_if_present(directory):
        known = known_root(directory)
        owner = known.get("owner") or secrets.token_hex(32)
        if access_key is not None and secret_key is not None:
            yield Root(owner, access_key, secret_key, None, fresh=False)
        elif "access_key" in known:
            yield Root(owner, known["access_key"], known["secret_key"], None, fresh=False)
        else:
            yield Root(owner, *fresh_pair(), None, fresh=True)


@contextlib.contextmanager
def _locked_if_present(directory: Path) -> Iterator[None]:
    """Hold the control lock, if its file exists. A process that has the store open has created it."""
    try:
        descriptor = os.open(directory / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    except OSError as error:
        raise UnavailableError(f"The data directory {directory} cannot be read: {error.strerror}.") from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in {errno.EWOULDBLOCK, errno.EAGAIN}:
                raise InUseError(directory) from None
        yield
    finally:
        os.close(descriptor)
