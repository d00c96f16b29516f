"""`control.db`: the tables, and the only code that reads and writes them.

Secrets are encrypted with AES-256-GCM under the key in `control.key` (mode 0600, a file of its own, so that a copy of the
database alone reveals nothing) and bound to their access key and identity. Every write is synced. The root pair comes from
the settings or `root.json`; the tables only follow it. A start without changes writes nothing, because the disk may be full.
For the same reason there is a rollback journal and no WAL, which needs space even to be read.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import secrets
import sqlite3
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Final
from urllib.parse import quote

import aiosqlite
from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from orcas.control.files import (
    DATABASE_NAME,
    KEY_NAME,
    locked,
    make_directory,
    read_secret_file,
    write_secret_file,
)
from orcas.control.root import Root, ensure_root
from orcas.control.snapshot import Credential, Snapshot
from orcas.errors import UnavailableError

SCHEMA_VERSION: Final = 1
_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12
_DAMAGED: Final = frozenset({sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB})

log = logging.getLogger("orcas")

_SCHEMA: Final = """
CREATE TABLE identities (
    id TEXT PRIMARY KEY, name TEXT NOT NULL UNIQUE, created_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE TABLE access_keys (
    access_key TEXT PRIMARY KEY, identity TEXT NOT NULL REFERENCES identities (id) ON DELETE CASCADE,
    nonce BLOB NOT NULL, secret BLOB NOT NULL, created_ms INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX access_keys_of_identity ON access_keys (identity);
"""
_ROOT_KEY: Final = """
SELECT access_key, identity, nonce, secret FROM access_keys
WHERE identity = (SELECT id FROM identities WHERE name = 'root')
"""


class Control:
    """The open control store of one data directory. Created by `open_control`; used from one event loop."""

    def __init__(self, connection: aiosqlite.Connection, cipher: AESGCM, root: Root) -> None:
        self._connection = connection
        self._cipher = cipher
        self.root = root

    async def load_snapshot(self) -> Snapshot:
        """All valid credentials, with decrypted secrets.

        Raises:
            UnavailableError: a secret cannot be decrypted with the key of this directory.
        """
        root = self.root
        credentials = [Credential(root.access_key, root.secret_key, root.owner)]
        others = "SELECT access_key, identity, nonce, secret FROM access_keys WHERE identity <> ? AND access_key <> ?"
        async with self._connection.execute(others, (root.owner, root.access_key)) as rows:
            async for access_key, identity, nonce, sealed in rows:
                secret = _open_secret(self._cipher, access_key, identity, nonce, sealed)
                credentials.append(Credential(access_key, secret, identity))
        return Snapshot(tuple(credentials), root.owner)

    async def set_root(self) -> None:
        """Store `self.root` in the tables: one identity with one key."""
        if await self._stores_root():
            return
        try:
            await self._write_root()
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                raise
            log.warning(
                "The disk is full: the root key is in effect, but %s gets it only at a start with more room",
                DATABASE_NAME,
            )

    async def _stores_root(self) -> bool:
        root = self.root
        query = "SELECT access_key, nonce, secret FROM access_keys WHERE identity = ?"
        async with self._connection.execute(query, (root.owner,)) as rows:
            found = [row async for row in rows]
        if [row[0] for row in found] != [root.access_key]:
            return False
        (access_key, nonce, sealed), *_ = found
        try:
            return _open_secret(self._cipher, access_key, root.owner, nonce, sealed) == root.secret_key
        except UnavailableError:
            return False

    async def _write_root(self) -> None:
        now_ms = time.time_ns() // 1_000_000
        root = self.root
        nonce = secrets.token_bytes(_NONCE_BYTES)
        sealed = self._cipher.encrypt(nonce, root.secret_key.encode(), _binding(root.access_key, root.owner))
        await self._connection.execute("BEGIN IMMEDIATE")
        try:
            await self._connection.execute(
                "INSERT INTO identities (id, name, created_ms) VALUES (?, 'root', ?) ON CONFLICT DO NOTHING",
                (root.owner, now_ms),
            )
            await self._connection.execute("DELETE FROM access_keys WHERE identity = ?", (root.owner,))
            await self._connection.execute(
                "INSERT INTO access_keys (access_key, identity, nonce, secret, created_ms) VALUES (?, ?, ?, ?, ?)",
                (root.access_key, root.owner, nonce, sealed, now_ms),
            )
        except BaseException:
            await self._connection.rollback()
            raise
        await self._connection.commit()


def stored_root_pair(directory: Path) -> tuple[str, str] | None:
    """The pair that the last server of `directory` had for its root, or has now; None where that is not known.

    Raises:
        UnavailableError: it cannot be read.
    """
    path, key = directory / DATABASE_NAME, read_secret_file(directory / KEY_NAME)
    if key is None or len(key) != _KEY_BYTES or not path.is_file():
        return None
    try:
        with contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
            row = connection.execute(_ROOT_KEY).fetchone()
    except sqlite3.Error as error:
        raise UnavailableError(f"{path} cannot be read: {error}.") from error
    # A row that is damaged is written again by the next start.
    with contextlib.suppress(UnavailableError):
        return None if row is None else (row[0], _open_secret(AESGCM(key), *row))
    return None


def _open_secret(cipher: AESGCM, access_key: str, identity: str, nonce: bytes, sealed: bytes) -> str:
    try:
        return cipher.decrypt(nonce, sealed, _binding(access_key, identity)).decode()
    except (InvalidTag, ValueError):
        raise UnavailableError(
            f"The secret of access key {access_key} cannot be decrypted: {KEY_NAME} or {DATABASE_NAME} is damaged, "
            "or belongs to another store."
        ) from None


@asynccontextmanager
async def open_control(directory: Path, access_key: str | None, secret_key: str | None) -> AsyncIterator[Control]:
    """Lock `directory`, open its control store, and set its root identity to the operator's pair or the generated one.

    Raises:
        UnavailableError: the directory is in use, unreadable, damaged, or written by a later version.
    """
    make_directory(directory)
    with locked(directory):
        cipher = AESGCM(_load_key(directory))
        path = directory / DATABASE_NAME
        root = ensure_root(directory, access_key, secret_key, established=path.exists())
        try:
            # Autocommit: every transaction here is begun and ended by name.
            async with aiosqlite.connect(path, isolation_level=None) as connection:
                await _prepare(connection, path)
                control = Control(connection, cipher, root)
                await control.set_root()
                yield control
        except sqlite3.Error as error:
            raise UnavailableError(_unusable(path, error)) from error


async def _prepare(connection: aiosqlite.Connection, path: Path) -> None:
    await asyncio.to_thread(path.chmod, 0o600)
    for pragma in ("journal_mode = DELETE", "synchronous = EXTRA", "foreign_keys = ON", "trusted_schema = OFF"):
        await connection.execute(f"PRAGMA {pragma}")
    async with connection.execute("PRAGMA user_version") as rows:
        row = await rows.fetchone()
    version = row[0] if row is not None else 0
    if version > SCHEMA_VERSION:
        raise UnavailableError(f"{path} was written by a later version of Orcas: its schema is {version}.")
    if version == 0:
        await connection.executescript(f"BEGIN IMMEDIATE;{_SCHEMA}PRAGMA user_version = {SCHEMA_VERSION};COMMIT;")


def _unusable(path: Path, error: sqlite3.Error) -> str:
    damaged = getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED
    advice = "; restore it from a backup, or move it away: without it, only the root key is known" if damaged else ""
    return f"{path} cannot be used: {error}{advice}."


def _load_key(directory: Path) -> bytes:
    path = directory / KEY_NAME
    key = read_secret_file(path)
    if key is None:
        if (directory / DATABASE_NAME).exists():
            raise UnavailableError(f"{path} is missing, and {DATABASE_NAME} cannot be read without it: restore it.")
        key = os.urandom(_KEY_BYTES)
        write_secret_file(path, key)
    if len(key) != _KEY_BYTES:
        raise UnavailableError(f"{path} is damaged: it must hold {_KEY_BYTES} bytes.")
    return key


def _binding(access_key: str, identity: str) -> bytes:
    return f"{identity}:{access_key}".encode()
