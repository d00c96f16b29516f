"""The credentials of a store that is open for salvage: only the root identity.

Reads `root.json` and writes nothing. If the file is missing, damaged or sealed under a key that is not there, a key pair is
generated for as long as the process runs. `control.db` is not opened.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

from orcas.control.files import LOCK_NAME, ROOT_NAME, InUseError
from orcas.control.root import Root, ephemeral_root, generated_pair, known_owner
from orcas.control.sealing import Sealer
from orcas.errors import UnavailableError, because


@contextlib.contextmanager
def salvaged(directory: Path) -> Iterator[str]:
    """Keep other processes out of the store in `directory`. The id of its root identity, else a new one.

    Raises:
        InUseError: another process has the store open.
    """
    with _locked_if_present(directory):
        yield known_owner(directory) or secrets.token_hex(32)


def salvaged_root(
    directory: Path, owner: str, access_key: str | None, secret_key: str | None, sealer: Sealer | None
) -> Root:
    """The root identity with the operator's pair, else the stored one, else a new one."""
    if access_key is not None and secret_key is not None:
        return Root(owner, access_key, secret_key, None, fresh=False)
    with contextlib.suppress(UnavailableError):
        pair = generated_pair(directory, sealer)
        if pair is not None:
            return Root(owner, *pair, directory / ROOT_NAME, fresh=False)
    return ephemeral_root(owner)


@contextlib.contextmanager
def _locked_if_present(directory: Path) -> Iterator[None]:
    """Hold the control lock, if its file exists. A process that has the store open has created it."""
    try:
        descriptor = os.open(directory / LOCK_NAME, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        yield
        return
    except OSError as error:
        raise UnavailableError(
            f"The data directory {directory} cannot be read: {because(error)}, or name another with --data."
        ) from None
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if error.errno in {errno.EWOULDBLOCK, errno.EAGAIN}:
                raise InUseError(directory) from None
        yield
    finally:
        os.close(descriptor)
