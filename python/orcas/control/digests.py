"""Digests of the rows of `control.db` that decide who may do what, so that damage is noticed when they are read.

Each row belongs to a holder, such as a user or a managed policy. The digest of a holder is the sum of keyed hashes of its
rows, so a row that was changed, lost or put elsewhere is noticed. Triggers of the connection that writes keep the digests,
by what each statement adds and takes away: damage that was there before stays noticed. Must not know rules of identities.
"""

from __future__ import annotations

import json
import sqlite3
from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from hashlib import blake2b
from typing import Any, Final, NamedTuple

DIGEST_BYTES: Final = 16
# The holder of the chain head of the audit log.
AUDIT: Final = "audit"
# The holder of the number of the schema.
SCHEMA_NUMBER: Final = "schema"
# What the holder of the limits of a user or access key begins with.
LIMITS: Final = "limits "
# The functions of the connection, in SQL: a digest with a row more, and with one less.
_WITH: Final = "digest_with"
_WITHOUT: Final = "digest_without"
_MODULUS: Final = 1 << 8 * DIGEST_BYTES
_NONE: Final = f"zeroblob({DIGEST_BYTES})"
_AMONG: Final = "IN (SELECT value FROM json_each(?1))"
_NUMBERS: Final = frozenset({"created_ms", "active", "requests_per_sec", "bytes_per_sec", "sequence"})
_BLOBS: Final = frozenset({"nonce", "secret"})


class Rows(NamedTuple):
    """The rows of a table. `holder`: an expression for the holder of a row.

    `leads`: a holder is there if such a row is. `among`: what finds the rows of some holders. `keys`: so many of the columns
    are the key of the table.
    """

    table: str
    holder: str
    columns: tuple[str, ...]
    leads: bool
    among: tuple[str, ...]
    keys: int = 1

    @property
    def texts(self) -> frozenset[str]:
        """The columns that have text."""
        return frozenset(self.columns) - _NUMBERS - _BLOBS - (frozenset({"id"}) if self.table == AUDIT else frozenset())

    def hashed(self, row: str) -> str:
        """The arguments of a digest function for a row, in SQL: columns as bytes, because damaged text could not be
        passed."""
        return f"'{self.table}', " + ", ".join(f"CAST({row}.{column} AS BLOB)" for column in self.columns)


def _of(table: str, column: str, columns: str, *, leads: bool = False, prefix: str = "", keys: int = 1) -> Rows:
    holder = f"'{prefix}' || {{0}}.{column}" if prefix else f"{{0}}.{column}"
    named = f"substr(value, {len(prefix) + 1}) FROM json_each(?1) WHERE substr(value, 1, {len(prefix)}) = '{prefix}'"
    among = f"WHERE each.{column} IN (SELECT {named})"
    return Rows(table, holder, tuple(columns.split()), leads, (among,), keys)


# Of these columns: all that the schema has, but for when a key was used last.
TABLES: Final = (
    _of("accounts", "id", "id number name created_ms", leads=True),
    _of("entities", "id", "id account kind name path created_ms boundary details", leads=True),
    _of("tags", "entity", "entity name value", keys=2),
    _of("documents", "entity", "entity name document created_ms", keys=2),
    _of("attachments", "entity", "entity policy", keys=2),
    _of("members", "user", "team user", keys=2),
    Rows(
        "access_keys", "coalesce({0}.user, {0}.account)",
        ("access_key", "account", "user", "nonce", "secret", "created_ms", "active", "session_policy"), False,
        # By the index, which begins with the account.
        (
            f"JOIN entities ON each.account = entities.account AND each.user = entities.id WHERE entities.id {_AMONG}",
            f"WHERE each.user IS NULL AND each.account {_AMONG}",
        ),
    ),
    _of("limits", "id", "id requests_per_sec bytes_per_sec", leads=True, prefix=LIMITS),
    _of("session_keys", "id", "id nonce secret created_ms", leads=True, prefix="session "),
    _of("origins", "bucket", "bucket details nonce secret", leads=True, prefix="origin "),
    Rows(AUDIT, f"'{AUDIT}'", ("id", "sequence", "digest"), True, (f"WHERE '{AUDIT}' {_AMONG}",)),
)  # fmt: skip


def _query(*, among: bool) -> str:
    """Digests as they are stored, and of each row the digest that it would have alone."""
    parts = [f"SELECT 1, CAST(id AS BLOB), digest FROM digests {f'WHERE id {_AMONG}' if among else ''}"]
    for rows in TABLES:
        found = f"SELECT 0, CAST({rows.holder.format('each')} AS BLOB), {_WITH}({_NONE}, {rows.hashed('each')})"
        parts += [f"{found} FROM {rows.table} AS each {which}" for which in (rows.among if among else ("",))]
    if not among:
        number = f"{_WITH}({_NONE}, '{SCHEMA_NUMBER}', CAST(user_version AS BLOB))"
        parts.append(f"SELECT 0, CAST('{SCHEMA_NUMBER}' AS BLOB), {number} FROM pragma_user_version")
    return " UNION ALL ".join(parts)


_ALL: Final = _query(among=False)
# Of holders in a JSON array.
AMONG: Final = _query(among=True)


class Digests:
    """Makes digests with a key."""

    def __init__(self, key: bytes) -> None:
        self._key = blake2b(b"orcas control.db", key=key).digest()
        self.functions: Mapping[str, Callable[..., bytes | None]] = {_WITH: self._with, _WITHOUT: self._without}

    def _with(self, digest: bytes | None, table: str, *values: bytes | None) -> bytes | None:
        return self._moved(digest, self._hash(table, values))

    def _without(self, digest: bytes | None, table: str, *values: bytes | None) -> bytes | None:
        return self._moved(digest, -self._hash(table, values))

    def _moved(self, digest: bytes | None, by: int) -> bytes | None:
        if digest is None or len(digest) != DIGEST_BYTES:
            # It is damaged itself.
            return digest
        return _bytes(int.from_bytes(digest, "little") + by)

    def _hash(self, table: str, values: Iterable[object]) -> int:
        parts = [table.encode()]
        for value in values:
            if value is None:
                parts.append(b"-")
                continue
            content = value if isinstance(value, bytes) else str(value).encode()
            parts.append(b"%d:%b" % (len(content), content))
        return int.from_bytes(blake2b(b"".join(parts), digest_size=DIGEST_BYTES, key=self._key).digest(), "little")

    def sum(self, held: Mapping[str, Iterable[Iterable[object]]]) -> bytes:
        """The digest of a holder with these rows, by table."""
        return _bytes(sum(self._hash(table, values) for table, rows in held.items() for values in rows))

    def is_of(self, connection: sqlite3.Connection, version: int) -> bool:
        """Whether a database has this schema by its digests. The number that it has may be damaged."""
        row = connection.execute("SELECT digest FROM digests WHERE id = ?", (SCHEMA_NUMBER,)).fetchone()
        return row is not None and row[0] == self.sum({SCHEMA_NUMBER: [(version,)]})

    def broken(self, connection: sqlite3.Connection) -> set[str]:
        """The holders whose rows are not those that were written.

        Raises:
            sqlite3.Error: they cannot be read.
        """
        self._serve(connection)
        return unequal(connection.execute(_ALL))

    def digest_all(self, connection: sqlite3.Connection) -> None:
        """Digest everything as it is, within a transaction."""
        self._serve(connection)
        _, sums = _sums(connection.execute(_ALL))
        connection.execute("DELETE FROM digests")
        connection.executemany("INSERT INTO digests VALUES (?, ?)", sums.items())

    def _serve(self, connection: sqlite3.Connection) -> None:
        for name, function in self.functions.items():
            connection.create_function(name, -1, function, deterministic=True)


def unequal(found: Iterable[Any]) -> set[str]:
    """The holders whose rows are not those that were written, by the rows of a query of digests."""
    stored, sums = _sums(found)
    return {holder for holder in stored.keys() | sums.keys() if stored.get(holder) != sums.get(holder)}


def among(holders: Collection[str]) -> str:
    """The parameters of the query `AMONG`."""
    return json.dumps(list(holders))


def _sums(found: Iterable[Any]) -> tuple[dict[str, bytes], dict[str, bytes]]:
    """Digests as they are stored, and as they should be."""
    stored, sums = {}, defaultdict[str, int](int)
    for is_stored, holder, digest in found:
        if is_stored:
            stored[text(holder)] = digest
        else:
            sums[text(holder)] += int.from_bytes(digest, "little")
    return stored, {holder: _bytes(total) for holder, total in sums.items()}


def _bytes(total: int) -> bytes:
    return (total % _MODULUS).to_bytes(DIGEST_BYTES, "little")


def text(content: Any) -> str:
    """Text of a database. That of a damaged one may be anything."""
    return content.decode(errors="backslashreplace") if isinstance(content, bytes) else ""


def keeping() -> Iterator[str]:
    """Statements that let a connection keep the digests, once it has the functions. Other connections must not write."""
    # The disk may be full.
    yield "PRAGMA temp_store = MEMORY"
    # `INSERT OR REPLACE` is a removal too.
    yield "PRAGMA recursive_triggers = ON"
    for rows in TABLES:
        new, old = rows.hashed("NEW"), rows.hashed("OLD")
        holder, former = rows.holder.format("NEW"), rows.holder.format("OLD")
        if rows.leads:
            added = f"INSERT OR REPLACE INTO digests VALUES ({holder}, {_WITH}({_NONE}, {new}))"
            removed = f"DELETE FROM digests WHERE id = {former}"
        else:
            added = f"UPDATE digests SET digest = {_WITH}(digest, {new}) WHERE id = {holder}"
            removed = f"UPDATE digests SET digest = {_WITHOUT}(digest, {old}) WHERE id = {former}"
        changed = f"UPDATE digests SET digest = {_WITH}({_WITHOUT}(digest, {old}), {new}) WHERE id = {former}"
        trigger, on = f"CREATE TEMP TRIGGER digest_{rows.table}", f"main.{rows.table}"
        yield f"{trigger}_added AFTER INSERT ON {on} BEGIN {added}; END"
        yield f"{trigger}_removed AFTER DELETE ON {on} BEGIN {removed}; END"
        columns = ", ".join(rows.columns)
        yield f"{trigger}_changed AFTER UPDATE OF {columns} ON {on} BEGIN {changed}; END"
