"""The small files of a store that is in use, as a standby copies them: one consistent state of them, kept while it lasts.
And the identities that such copies have, which are read only.

The order of reading is that of a backup: what is noted elsewhere is read before what notes it, and the keyring comes last.
"""

from __future__ import annotations

import contextlib
import hashlib
import tempfile
import threading
from pathlib import Path
from typing import Final, NamedTuple
from urllib.parse import quote

import aiosqlite

from orcas.control.cipher import read_cipher
from orcas.control.database import back_up_database
from orcas.control.files import DATABASE_NAME, KEY_NAME, KEYRING_NAMES, QUOTAS_NAME, ROOT_NAME, read_secret_file
from orcas.control.files.audit import FOLDER, audit_files
from orcas.control.files.twice import read_twice
from orcas.control.identities.schema import SCHEMA_VERSION
from orcas.control.identities.service import all_identities
from orcas.control.identities.sessions.tokens import SessionKeys
from orcas.control.identities.snapshot import IdentitySnapshot
from orcas.control.rescue import FAILURES
from orcas.control.root import Root, known_owner
from orcas.control.sealing import Sealer
from orcas.control.store import stored_root_pair
from orcas.errors import UnavailableError

# Kept twice by the store; a copy has the content once.
CONTROL_NAMES: Final = (ROOT_NAME, DATABASE_NAME, KEY_NAME, QUOTAS_NAME, *KEYRING_NAMES)
_WATCHED: Final = (*CONTROL_NAMES, f"{DATABASE_NAME}-wal")


class ControlFile(NamedTuple):
    """A file of the data directory, its length in bytes and its SHA-256 in hexadecimal digits."""

    name: str
    length: int
    sha256: str


class ControlCopies:
    """Copies of the files of one store, in memory, read again when one has changed. Thread-safe; everything blocks."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._lock = threading.Lock()
        self._seen: list[tuple[int, int, int] | None] = []
        self._contents: dict[str, bytes] = {}

    def files(self) -> tuple[ControlFile, ...]:
        """The present state.

        Raises:
            UnavailableError: a file cannot be read, or is damaged.
        """
        with self._lock:
            seen = [_stamp(self._directory / name) for name in _WATCHED]
            if seen != self._seen:
                self._contents, self._seen = self._copy(), seen
            contents = self._contents
        return tuple(
            ControlFile(name, len(content), hashlib.sha256(content).hexdigest()) for name, content in contents.items()
        )

    def read(self, name: str) -> bytes | None:
        """The content of a file of `files`. None if there is none, now."""
        if name not in CONTROL_NAMES:
            return None
        if not self._contents:
            self.files()
        return self._contents.get(name)

    def audit(self) -> list[tuple[str, int]]:
        """Names and lengths of the files of the audit log. They only grow. To be asked for after `files`."""
        return [(f"{FOLDER}/{path.name}", path.stat().st_size) for path in audit_files(self._directory)]

    def _copy(self) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for name in CONTROL_NAMES:
            path = self._directory / name
            if name == DATABASE_NAME:
                # On the disk for a moment only: a process that is killed later leaves no secrets behind.
                with tempfile.TemporaryDirectory(prefix="orcas-standby-") as scratch:
                    back_up_database(path, Path(scratch, name))
                    found[name] = Path(scratch, name).read_bytes()
                continue
            content = read_secret_file(path) if name in KEYRING_NAMES else read_twice(path)
            if content is not None:
                found[name] = content
        return found


def digest_of(files: tuple[ControlFile, ...]) -> str:
    """One word for a state: two are equal if their words are."""
    return hashlib.sha256(repr([tuple(file) for file in files]).encode()).hexdigest()[:32]


def _stamp(path: Path) -> tuple[int, int, int] | None:
    try:
        found = path.stat()
    except OSError:
        return None
    return found.st_mtime_ns, found.st_size, found.st_ino


class Loaded(NamedTuple):
    """The identities, and what else requests need of the control store."""

    snapshot: IdentitySnapshot
    # Ids and keys of the tokens of sessions.
    session_keys: list[tuple[bytes, bytes]]
    # Buckets with an origin.
    pulled: list[str]


class _Keys:
    """Takes the keys of tokens in place of an engine."""

    def __init__(self) -> None:
        self.found: list[tuple[bytes, bytes]] = []

    def use_session_keys(self, keys: list[tuple[bytes, bytes]]) -> None:
        """Take them."""
        self.found = keys

    def now_ms(self) -> int:
        """Nothing expires here."""
        return 0


async def load_identities(folder: Path, sealer: Sealer | None) -> Loaded:
    """Read the files in `folder`, which nobody writes: they are only replaced.

    Raises:
        UnavailableError: they are not complete, or damaged, or of another version, or `sealer` does not open them.
    """
    path = folder / DATABASE_NAME
    cipher, owner, pair = read_cipher(folder, sealer), known_owner(folder), stored_root_pair(folder, sealer)
    if cipher is None or owner is None or pair is None:
        raise UnavailableError(
            f"{path} cannot be read without {KEY_NAME} and the root key: start the node in an empty directory."
        )
    root, keys = Root(owner, *pair, None, fresh=False), _Keys()
    try:
        uri = f"file:{quote(str(path))}?mode=ro&immutable=1"
        async with contextlib.AsyncExitStack() as stack:
            connection = await stack.enter_async_context(aiosqlite.connect(uri, uri=True, isolation_level=None))
            version = next(iter(await connection.execute_fetchall("PRAGMA user_version")))[0]
            if version != SCHEMA_VERSION:
                raise UnavailableError(f"{path} is of another version of Orcas: upgrade this node.")
            for name, function in cipher.digests()[0].functions.items():
                await connection.create_function(name, -1, function, deterministic=True)
            snapshot = await all_identities(connection, cipher, root)
            await SessionKeys(connection, cipher, keys, lambda: None).load()
            pulled = [row[0] for row in await connection.execute_fetchall("SELECT bucket FROM origins")]
    except FAILURES as error:
        raise UnavailableError(f"{path} cannot be read: {error}.") from None
    return Loaded(snapshot, keys.found, pulled)
