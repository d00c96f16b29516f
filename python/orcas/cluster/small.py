"""The small files of the store on all nodes: identities, settings of the control plane and their keys.

The log has each file whole. A node keeps what the log has beside the files that the control store works on, and begins
with it: what a former owner has changed there and not put into the log counts no more.
"""

from __future__ import annotations

import hashlib
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Final

from orcas.control.copied import CONTROL_NAMES, ControlCopies
from orcas.control.files import DATABASE_NAME, KEYRING_NAMES, ROOT_NAME, sync_directory, write_secret_file
from orcas.control.files.twice import SUFFIX
from orcas.errors import UnavailableError, because

if TYPE_CHECKING:
    from orcas.engine import ClusterNode

# The engine writes the keyring, so that its files come to other nodes like those of the log.
NAMES: Final = tuple(name for name in CONTROL_NAMES if name not in KEYRING_NAMES)
_FOLDER: Final = Path("cluster.node", "control")
_OF_THE_DATABASE: Final = tuple(DATABASE_NAME + suffix for suffix in ("-wal", "-shm", "-journal"))


class SmallFiles:
    """Small files of the control plane that one owner of the log keeps. Thread-safe; everything blocks."""

    def __init__(self, directory: Path, node: ClusterNode) -> None:
        self._copies = ControlCopies(directory)
        self._node = node
        self._lock = threading.Lock()
        self._known = digests(directory)

    def bring(self) -> None:
        """Bring what has changed to the other nodes. When this returns, it has.

        Raises:
            StoreError: this node does not own the log any more.
            UnavailableError: a file cannot be read.
        """
        with self._lock:
            for name, _, digest in self._copies.files():
                if name not in NAMES or self._known.get(name) == digest:
                    continue
                content = self._copies.read(name)
                assert content is not None
                self._node.replace(name, content)
                self._known[name] = digest


def use_kept(directory: Path) -> None:
    """Begin with the files as the log has them. The store is not open.

    Raises:
        UnavailableError: a file cannot be written.
    """
    for path in _kept(directory):
        try:
            names = (path.name + SUFFIX, *(_OF_THE_DATABASE if path.name == DATABASE_NAME else ()))
            for name in names:
                (directory / name).unlink(missing_ok=True)
            write_secret_file(directory / path.name, path.read_bytes())
        except OSError as error:
            raise UnavailableError(f"{directory / path.name} cannot be replaced: {because(error)}.") from None
    sync_directory(directory)


def has_kept(directory: Path) -> bool:
    """Whether the log has what a store needs to open: an owner has served before."""
    return kept_path(directory, ROOT_NAME).exists() and (directory / "store.keys").exists()


def kept_path(directory: Path, name: str) -> Path:
    """Where a small file is kept as the log has it."""
    return small_folder(directory) / name


def small_folder(directory: Path) -> Path:
    """Where they all are."""
    return directory / _FOLDER


def digests(directory: Path) -> dict[str, str]:
    """SHA-256 of the files as the log has them."""
    return {path.name: _digest(path.read_bytes()) for path in _kept(directory)}


def _kept(directory: Path) -> list[Path]:
    return [path for path in (kept_path(directory, name) for name in NAMES) if path.exists()]


def _digest(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
