"""`control.db`: how it is opened and kept, and the root of the store.

Secrets are encrypted under the key in `control.key`, so that a copy of the database alone reveals nothing, and bound to
their access key and identity (`cipher.py`). Every write is synced. The root pair comes from the settings or `root.json`;
the tables only follow it. A start without changes writes nothing, because the disk may be full.
For the same reason there is a rollback journal and no WAL, which needs space even to be read. The file has a copy
(`database.py`), which is brought up to date after each change. Rules for identities are in `identities`.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import logging
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote

import aiosqlite

from orcas._core import check_policy
from orcas.control.audit import Audit
from orcas.control.cipher import Cipher, ensure_cipher, read_cipher
from orcas.control.database import check_secrets, copy_verified, is_damage, restore_database, secure_database
from orcas.control.digests import Digests, keeping
from orcas.control.files import (
    DATABASE_NAME,
    GIVE_UP,
    KEY_NAME,
    LaterVersionError,
    locked,
    make_directory,
    read_secret_file,
)
from orcas.control.files.admission import warn_root
from orcas.control.files.audit import Entry
from orcas.control.files.lost import check_lost, is_established, note_presence
from orcas.control.identities.names import account_number, root_arn
from orcas.control.identities.rows import root_delta
from orcas.control.identities.schema import ORIGIN, SCHEMA_VERSION, STEPS, STORED_KEYS, STORED_OWNERS
from orcas.control.identities.service import Engine, Identities, all_identities
from orcas.control.identities.snapshot import IdentitySnapshot
from orcas.control.origins import Server, Servers
from orcas.control.rescue import DENIAL, DENIED, FAILURES, denied, deny_unreadable, remedy
from orcas.control.root import Root, ensure_owner, ensure_root, known_owner, noted_files, replace_pair
from orcas.control.sealing import Sealer
from orcas.errors import UnavailableError

# Time after a change until the database is copied: the copy takes longer than the change.
_COPY_AFTER_SECONDS: Final = 1
# And, in a store with many identities, so many times as long as the last copy took.
_COPY_PAUSE: Final = 10
# So many tell whether the key is that of the database. A server decrypts all of them a moment later.
_CHECKED_SECRETS: Final = 1_000
# How the audit log names another key of root, and the one before.
_ROTATE: Final = "RotateRootKey"
_SET: Final = "SetRootKey"
_FORMER: Final = "FormerAccessKeyId"
# Where secrets are that no identity owns, by what owns them in `STORED_KEYS`: table and column of their names.
_TABLES: Final = {"session": ("session_keys", "id"), ORIGIN: ("origins", "bucket")}

log = logging.getLogger("orcas")


class Control:
    """The open control store of one data directory. Created by `open_control`; used from one event loop."""

    def __init__(
        self,
        connection: aiosqlite.Connection,
        cipher: Cipher,
        root: Root,
        directory: Path,
        sealer: Sealer | None,
        digests: Digests,
    ) -> None:
        self._connection = connection
        self._digests = digests
        self._cipher = cipher
        self._directory = directory
        self._sealer = sealer
        self.root = root
        self._audit = Audit(connection, directory, account_number(root.owner))
        self._identities: Identities | None = None
        self._engine: Engine | None = None
        # Whose rights are lost.
        self.denied: list[str] = []
        # Since the start.
        self.is_damaged = False
        # Copies the database after changes.
        self._copying: asyncio.Task[None] | None = None
        self._is_newer = False
        self._closing = asyncio.Event()

    async def load_snapshot(self) -> IdentitySnapshot:
        """All identities, with decrypted secrets.

        Raises:
            UnavailableError: a secret cannot be decrypted with the key of this directory.
        """
        return await all_identities(self._connection, self._cipher, self.root)

    def identities(self, engine: Engine) -> Identities:
        """The identities, which tell `engine` what changes."""
        if self._identities is None:
            self._engine = engine
            self._identities = Identities(self._connection, self._cipher, self.root, self._audit, engine, self._changed)
        return self._identities

    async def load_servers(self, kind: type[Server]) -> dict[str, Server]:
        """The origins of buckets by the names of the buckets, or the targets of replication by name.

        Raises:
            UnavailableError: they cannot be read.
        """
        return await self._servers(kind).load()

    async def change_server(self, kind: type[Server], name: str, server: Server | None, address: str | None) -> None:
        """Set an origin or a target in place of the one that there is, or remove it. `address`: of whoever asks for it.

        Raises:
            UnavailableError: it cannot be written.
        """
        identities = self._identities
        assert identities is not None

        async def change() -> None:
            async with identities.lock:
                await self._servers(kind).change(name, server, self.root.access_key, address)
                self._changed()

        await identities.finished(change())

    def _servers(self, kind: type[Server]) -> Servers[Server]:
        path, number = self._directory / DATABASE_NAME, account_number(self.root.owner)
        return Servers(kind, self._connection, path, self._cipher, self._audit, number)

    async def rotate_root(self, address: str | None = None) -> Root:
        """Replace the key pair of root: by a generated one, in effect at once and for the next start.

        `address`: of the client who asks for it.

        Raises:
            UnavailableError: it cannot be written.
        """
        identities, engine = self._identities, self._engine
        assert identities is not None
        assert engine is not None

        async def rotate() -> Root:
            async with identities.lock:
                former, root = self.root.access_key, self.root
                try:
                    await self._replace_root(address)
                except sqlite3.Error as error:
                    if root.access_key == former:
                        path = self._directory / DATABASE_NAME
                        raise UnavailableError(
                            f"{path} cannot be used: {error}; check the file and its disk, and try again."
                        ) from None
                    # The next start writes it.
                    self._audit.done()
                    log.warning("%s does not have the new root key yet: %s", DATABASE_NAME, error)
                await asyncio.to_thread(engine.change, root_delta(root, former))
                self._changed()
                return root

        return await identities.finished(rotate())

    async def _replace_root(self, address: str | None) -> None:
        root, number = self.root, account_number(self.root.owner)
        line = Entry(root_arn(number), _ROTATE, {_FORMER: root.access_key}, number, root.access_key, address)
        async with self._audit.change():
            await self._audit.write([line])
            # The file first: it is what the next start follows.
            new = await asyncio.to_thread(replace_pair, self._directory, root, self._sealer)
            root.access_key, root.secret_key, root.path = new.access_key, new.secret_key, new.path
            await self._write_root()

    async def open_audit(self) -> None:
        """Find the end of the audit log.

        Raises:
            UnavailableError: it cannot be read.
        """
        # Another key of root is in effect with its file.
        await self._audit.open(
            lambda line: (
                line.get("action") in (_ROTATE, _SET) and line["parameters"].get(_FORMER) != self.root.access_key
            )
        )

    def _changed(self) -> None:
        self._is_newer = True
        if self._copying is None or self._copying.done():
            self._copying = asyncio.create_task(self._copy())

    async def _copy(self) -> None:
        """Bring the copy of the database up to date. Changes go on meanwhile, and one copy serves those of a second."""
        path, identities = self._directory / DATABASE_NAME, self._identities
        assert identities is not None
        pause = float(_COPY_AFTER_SECONDS)
        while self._is_newer:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._closing.wait(), pause)
            try:
                async with identities.lock:
                    self._is_newer = False
                    content = await asyncio.to_thread(read_secret_file, path)
                began = time.monotonic()
                is_copied = await asyncio.to_thread(copy_verified, path, content or b"", [self._digests])
                pause = max(_COPY_AFTER_SECONDS, _COPY_PAUSE * (time.monotonic() - began))
                self.is_damaged = not is_copied
                if self.denied:
                    self.denied = await asyncio.to_thread(denied, content or b"")
                if not is_copied:
                    log.error(
                        "%s is damaged and is not copied: restart the server, which takes what is intact from its copy",
                        path,
                    )
            except UnavailableError as error:
                log.warning("%s is not kept twice yet: %s", path.name, error)

    async def close(self) -> None:
        """Finish what is under way."""
        if self._identities is not None:
            await self._identities.close()
        self._closing.set()
        if self._copying is not None:
            await self._copying

    async def tell_denied(self) -> None:
        """Name in the log whose rights are lost."""
        rows = await self._connection.execute_fetchall(DENIED, (DENIAL,))
        self.denied = [f"{kind} {name}" for kind, name in rows]
        for name in self.denied:
            log.error(
                "The rights of %s are lost, since control.db was damaged, and deny everything: %s", name, remedy(name)
            )

    async def has_root(self) -> bool:
        """Whether the tables have a key of root, whichever it is."""
        return bool(await self._stored_keys_of_root())

    async def set_root(self) -> None:
        """Store `self.root` in the tables: one identity with one key."""
        keys = await self._stored_keys_of_root()
        if self._stores_root(keys):
            return
        former = next((key for key, *_ in keys if key != self.root.access_key), None)
        if self.root.path is not None and former is not None:
            log.warning(
                "The root key of the last server, access key %s, is not valid any more, and the one in %s is: "
                "ORCAS_ROOT_ACCESS_KEY and ORCAS_ROOT_SECRET_KEY are not set",
                former, self.root.path,
            )  # fmt: skip
        try:
            async with self._audit.change():
                if former is not None:
                    number = account_number(self.root.owner)
                    given = {_FORMER: former, "AccessKeyId": self.root.access_key}
                    await self._audit.write([Entry(root_arn(number), _SET, given, number)])
                await self._write_root()
        except (sqlite3.OperationalError, UnavailableError) as error:
            if isinstance(error, sqlite3.OperationalError) and error.sqlite_errorcode != sqlite3.SQLITE_FULL:
                raise
            log.warning(
                "The disk is full: the root key is in effect, but %s is updated only at a start with enough space",
                DATABASE_NAME,
            )

    async def _stored_keys_of_root(self) -> list[Any]:
        query = "SELECT access_key, nonce, secret FROM access_keys WHERE account = ? AND user IS NULL"
        async with self._connection.execute(query, (self.root.owner,)) as rows:
            return [row async for row in rows]

    def _stores_root(self, found: list[Any]) -> bool:
        root = self.root
        if [row[0] for row in found] != [root.access_key]:
            return False
        (access_key, nonce, encrypted), *_ = found
        try:
            return self._cipher.decrypt(access_key, root.owner, nonce, encrypted) == root.secret_key
        except UnavailableError:
            return False

    async def _write_root(self) -> None:
        """Within a transaction."""
        now_ms = time.time_ns() // 1_000_000
        root = self.root
        nonce, encrypted = self._cipher.encrypt(root.access_key, root.owner, root.secret_key)
        await self._connection.execute(
            "INSERT INTO accounts (id, number, name, created_ms) VALUES (?, ?, 'root', ?) ON CONFLICT DO NOTHING",
            (root.owner, account_number(root.owner), now_ms),
        )
        await self._connection.execute(
            "DELETE FROM access_keys WHERE account = ? AND user IS NULL OR access_key = ?",
            (root.owner, root.access_key),
        )
        await self._connection.execute(
            """INSERT INTO access_keys (access_key, account, nonce, secret, created_ms, active)
            VALUES (?, ?, ?, ?, ?, 1)""",
            (root.access_key, root.owner, nonce, encrypted, now_ms),
        )


def _renew_secrets(path: Path, cipher: Cipher, sealer: Sealer | None) -> Digests:
    """Encrypt all secrets under the newest key, if some may need the old one, which is then forgotten.

    Returns what makes the digests of rows from then on.
    """
    newest, *older = cipher.digests()
    if not older:
        return newest
    try:
        with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
            connection.execute("PRAGMA synchronous = EXTRA")
            connection.execute("BEGIN IMMEDIATE")
            for access_key, identity, nonce, encrypted, _ in connection.execute(STORED_KEYS[SCHEMA_VERSION]).fetchall():
                secret = cipher.decrypt(access_key, identity, nonce, encrypted)
                row = *cipher.encrypt(access_key, identity, secret), access_key
                table, column = _TABLES.get(identity, ("access_keys", "access_key"))
                connection.execute(f"UPDATE {table} SET nonce = ?, secret = ? WHERE {column} = ?", row)
            newest.digest_all(connection)
            connection.execute("COMMIT")
        cipher.without_old().write(path.parent, sealer)
    except sqlite3.OperationalError as error:
        if error.sqlite_errorcode != sqlite3.SQLITE_FULL:
            raise
        log.warning("The disk is full: secrets get a new key at the next start with enough space")
        return older[0]
    except UnavailableError as error:
        log.warning("%s still has the old key of secrets: %s", KEY_NAME, error)
    return newest


def stored_root_pair(directory: Path, sealer: Sealer | None) -> tuple[str, str] | None:
    """The pair that the last server of `directory` had for its root, or has now; None where that is not known.

    Raises:
        UnavailableError: it cannot be read.
    """
    path = directory / DATABASE_NAME
    # A key or row that is damaged is for the next start to judge.
    with contextlib.suppress(UnavailableError):
        cipher = read_cipher(directory, sealer)
        if cipher is None or not path.is_file():
            return None
        row: tuple[str, str, bytes, bytes] | None = _row(
            path, {version: f"SELECT * FROM ({keys}) WHERE is_root" for version, keys in STORED_KEYS.items()}
        )
        return None if row is None else (row[0], cipher.decrypt(*row[:4]))
    return None


def knows_identity(directory: Path, identity: str) -> bool:
    """Whether an identity of the store in `directory` has this id, with keys or without. The store may be open or not.

    Raises:
        UnavailableError: that cannot be read.
    """
    path = directory / DATABASE_NAME
    return path.is_file() and _row(path, STORED_OWNERS, identity) is not None


def _row(path: Path, queries: dict[int, str], *values: str) -> Any:
    """The first row of a query, which depends on the schema."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{quote(str(path))}?mode=ro", uri=True)) as connection:
            version = connection.execute("PRAGMA user_version").fetchone()[0]
            return connection.execute(queries.get(version, queries[SCHEMA_VERSION]), values).fetchone()
    except FAILURES as error:
        raise UnavailableError(
            f"{path} cannot be read: {error}; check the file and its disk, and try again."
        ) from error


@contextlib.contextmanager
def prepared(directory: Path) -> Iterator[str]:
    """Create `directory` if necessary, and lock it. The id of its root identity, made for a new store.

    Raises:
        UnavailableError: the directory is in use or unreadable, or the identity is lost or damaged.
    """
    make_directory(directory)
    warn_root(directory)
    with locked(directory):
        owner = ensure_owner(directory, established=is_established(directory))
        check_lost(directory)
        yield owner


@asynccontextmanager
async def open_control(
    directory: Path, access_key: str | None, secret_key: str | None, sealer: Sealer | None, *, follows: bool = True
) -> AsyncIterator[Control]:
    """Open the control store of a directory that is `prepared`. Its root gets the operator's pair or the generated one.

    `sealer`: seals the files with secrets, and opens them. `follows`: the tables follow that pair. Otherwise root keeps the
    key that the last server has let it have.

    Raises:
        UnavailableError: it is unreadable or damaged, was written by a later version, or is sealed under another key.
    """
    path = directory / DATABASE_NAME
    known = read_cipher(directory, sealer)
    owner = known_owner(directory) or ""
    intact = await asyncio.to_thread(restore_database, path, [] if known is None else known.digests(), owner)
    cipher = ensure_cipher(directory, sealer, functools.partial(check_secrets, path, most=_CHECKED_SECRETS))
    root = ensure_root(directory, access_key, secret_key, sealer)
    try:
        await asyncio.to_thread(_prepare, path, cipher.digests()[0])
        digests = await asyncio.to_thread(_renew_secrets, path, cipher, sealer)
        # Autocommit: every transaction here is begun and ended by name.
        async with aiosqlite.connect(path, isolation_level=None) as connection:
            await _keep_digests(connection, digests)
            control = Control(connection, cipher, root, directory, sealer, digests)
            await control.open_audit()
            if follows or not await control.has_root():
                await control.set_root()
            await asyncio.to_thread(_secure, directory, digests, intact)
            # It may be large.
            del intact
            await control.tell_denied()
            try:
                yield control
            finally:
                await control.close()
    except FAILURES as error:
        raise UnavailableError(_unusable(path, error)) from error


def _secure(directory: Path, digests: Digests, intact: bytes | None) -> None:
    """Bring the copy of the database and the note of the files up to date."""
    secure_database(directory / DATABASE_NAME, [digests], intact, is_new=DATABASE_NAME not in noted_files(directory))
    note_presence(directory)


def _prepare(path: Path, digests: Digests) -> None:
    """Bring the database to the present schema. An earlier one had no digests: what it has is believed once."""
    with contextlib.closing(sqlite3.connect(path, isolation_level=None)) as connection:
        path.chmod(0o600)
        version = connection.execute("PRAGMA user_version").fetchone()[0]
        if version > SCHEMA_VERSION:
            raise LaterVersionError(path)
        if version == SCHEMA_VERSION:
            return
        for pragma in ("synchronous = EXTRA", "foreign_keys = ON", "secure_delete = ON"):
            connection.execute(f"PRAGMA {pragma}")
        connection.create_function("account_number", 1, account_number, deterministic=True)
        connection.executescript(f"BEGIN IMMEDIATE;{STEPS[version]}PRAGMA user_version = {SCHEMA_VERSION};")
        deny_unreadable(connection, check_policy)
        digests.digest_all(connection)
        connection.execute("COMMIT")


async def _keep_digests(connection: aiosqlite.Connection, digests: Digests) -> None:
    for pragma in (
        "journal_mode = DELETE",
        "synchronous = EXTRA",
        "foreign_keys = ON",
        "trusted_schema = OFF",
        "secure_delete = ON",
    ):
        await connection.execute(f"PRAGMA {pragma}")
    for name, function in digests.functions.items():
        await connection.create_function(name, -1, function, deterministic=True)
    for statement in keeping():
        await connection.execute(statement)


def _unusable(path: Path, error: Exception) -> str:
    advice = (
        f"; restore it from a backup, or run {GIVE_UP} to go on with the root key alone" if is_damage(error) else ""
    )
    return f"{path} cannot be used: {error}{advice}."
