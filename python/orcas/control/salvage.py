"""Who may ask a store that is open for salvage: the root identity, as far as it is left, and nobody else.

Reads `root.json` and writes nothing: where the file is gone or damaged, a key pair is made that lasts as long as the
process. `control.db` is not opened, whatever state it is in.
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
    """The root identity of the store in `directory`, with the operator's pair, else the generated one, else a fresh one.

    Raises:
        InUseError: another process has the store.
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
    """Hold the control lock where there is one; a process that has the store has made it."""
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
                raise InUseError(f"The store in {directory} is in use by another process.") from None
        yield
    finally:
        os.close(descriptor)
