"""Rows of identities in `control.db`, as objects. Every change of them passes here, and notes what requests need to know.

Not thread-safe, and without transactions of its own: see `Identities`. Must not know rules, limits or AWS's answers.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Collection, Iterable
from dataclasses import dataclass, field, replace
from typing import Any, Final

import aiosqlite

from orcas.control.digests import AMONG, among, unequal
from orcas.control.identities.names import arn_of, new_id, root_arn
from orcas.errors import UnavailableError

_COLUMNS: Final = "entities.id, account, number, kind, entities.name, path, entities.created_ms, boundary, details"
_ENTITIES: Final = f"SELECT {_COLUMNS} FROM entities JOIN accounts ON accounts.id = account"
_KEYS: Final = "SELECT access_key, account, user, created_ms, active, session_policy, used_ms FROM access_keys"


@dataclass(frozen=True, slots=True)
class Account:
    """An account. `id` is its canonical id."""

    id: str
    number: str
    name: str
    created_ms: int

    @property
    def arn(self) -> str:
        """The ARN of the root of the account."""
        return root_arn(self.number)


@dataclass(frozen=True, slots=True)
class Entity:
    """A user, group, role or managed policy. `details`: what only its kind has."""

    id: str
    account: str
    number: str
    kind: str
    name: str
    path: str
    created_ms: int
    boundary: str | None = None
    details: dict[str, Any] = field(default_factory=dict)

    @property
    def arn(self) -> str:
        """The name by which policies know it."""
        return arn_of(self.number, self.kind, self.path, self.name)


@dataclass(frozen=True, slots=True)
class Key:
    """An access key without its secret. Without a user, it is of the root of its account."""

    access_key: str
    account: str
    user: str | None
    created_ms: int
    active: bool
    session_policy: str | None
    used_ms: int | None


@dataclass(frozen=True, slots=True)
class Document:
    """An inline policy, or a version of a managed one."""

    name: str
    text: str
    created_ms: int


@dataclass(slots=True)
class Changes:
    """The changes of a transaction, as far as requests depend on them. Entities with the ARNs that they had."""

    accounts: set[str] = field(default_factory=set)
    entities: dict[str, set[str]] = field(default_factory=dict)
    # Ids of policies, as the identity snapshot has them.
    policies: set[str] = field(default_factory=set)
    keys: set[str] = field(default_factory=set)

    def touch(self, entity: Entity) -> None:
        """The entity is not what it was. Managed policies are known by their ids, and nobody signs as one."""
        if entity.kind != "policy":
            self.entities.setdefault(entity.id, set()).add(entity.arn)


def id_of(of: Entity | Key) -> str:
    """The id by which the limits of a user or key are known."""
    return of.access_key if isinstance(of, Key) else of.id


def now_ms() -> int:
    """Milliseconds since 1970."""
    return time.time_ns() // 1_000_000


def inline_id(entity: str, name: str) -> str:
    """The id of an inline policy in the identity snapshot."""
    return f"{entity}/{name}"


def session_id(access_key: str) -> str:
    """The id of the policy of an access key in the identity snapshot."""
    return f"session:{access_key}"


class Records:
    """The rows, read and written one by one."""

    def __init__(self, connection: aiosqlite.Connection) -> None:
        self._connection = connection
        self.changes = Changes()
        # Entities by account and kind, of those that were counted: a file of identities adds thousands at once.
        self._counts: dict[tuple[str, str], int] = {}

    async def all(self, query: str, *values: object) -> list[Any]:
        """All rows of a query."""
        return list(await self._connection.execute_fetchall(query, values))

    async def one(self, query: str, *values: object) -> Any:
        """The first row; None if there is none."""
        return next(iter(await self.all(query, *values)), None)

    async def count(self, query: str, *values: object) -> int:
        """The number that a query counts."""
        return int((await self.one(query, *values))[0])

    async def run(self, statement: str, *values: object) -> int:
        """The number of rows that the statement has changed."""
        async with self._connection.execute(statement, values) as done:
            return done.rowcount

    # Digests.

    async def broken(self, holders: Collection[str]) -> set[str]:
        """Entities whose rows are not those that were written, since the file is damaged."""
        # There may be many, and nobody is served meanwhile on this thread.
        return await asyncio.to_thread(unequal, await self.all(AMONG, among(holders)))

    async def check(self, *holders: str) -> None:
        """Called before anything is decided by the rows of these accounts and entities.

        Raises:
            UnavailableError: those of one are damaged.
        """
        broken = await self.broken(holders)
        if broken:
            raise _damaged(min(broken))

    # Accounts.

    async def accounts(self) -> list[Account]:
        """All of them, the first one first."""
        rows = await self.all("SELECT id, number, name, created_ms FROM accounts ORDER BY created_ms, name")
        return [Account(*row) for row in rows]

    async def account(self, id_or_number: str) -> Account | None:
        """The account with this canonical id or number."""
        row = await self.one(
            "SELECT id, number, name, created_ms FROM accounts WHERE id = ?1 OR number = ?1", id_or_number
        )
        return None if row is None else Account(*row)

    async def add_account(self, account: Account) -> None:
        """Add an account, whose id and number are new."""
        await self.run(
            "INSERT INTO accounts VALUES (?, ?, ?, ?)", account.id, account.number, account.name, account.created_ms
        )
        self.changes.accounts.add(account.id)

    # Entities.

    async def find(self, account: str, kind: str, name: str) -> Entity | None:
        """The entity with exactly this name."""
        # By the index, which does not tell upper case from lower.
        query = (
            f"{_ENTITIES} WHERE account = ?1 AND kind = ?2 AND entities.name = ?3 COLLATE NOCASE AND entities.name = ?3"
        )
        row = await self.one(query, account, kind, name)
        return None if row is None else _entity(row)

    async def named(self, account: str, kind: str, name: str) -> Entity | None:
        """The entity with this name, in whatever case, as AWS finds it by name; an ARN tells cases apart."""
        query = f"{_ENTITIES} WHERE account = ?1 AND kind = ?2 AND entities.name = ?3 COLLATE NOCASE"
        row = await self.one(query, account, kind, name)
        return None if row is None else _entity(row)

    async def by_id(self, entity: str) -> Entity | None:
        """The entity with this id."""
        row = await self.one(f"{_ENTITIES} WHERE entities.id = ?", entity)
        return None if row is None else _entity(row)

    async def is_taken(self, account: str, kind: str, name: str) -> bool:
        """Whether a name differs from that of another entity by case at most."""
        return None is not await self.one(
            "SELECT 1 FROM entities WHERE account = ? AND kind = ? AND name = ? COLLATE NOCASE", account, kind, name
        )

    async def with_names(self, account: str, kind: str, names: Iterable[str]) -> list[Entity]:
        """Entities with one of these names, in whatever case."""
        query = f"""{_ENTITIES} WHERE account = ? AND kind = ?
            AND entities.name COLLATE NOCASE IN (SELECT value FROM json_each(?))"""
        return [_entity(row) for row in await self.all(query, account, kind, json.dumps(list(names)))]

    async def entities(self, account: str, kind: str, path: str = "/", after: str = "", most: int = -1) -> list[Entity]:
        """Entities with a path that begins with `path`, by name, from the one after `after` on."""
        query = f"""{_ENTITIES} WHERE account = ? AND kind = ? AND substr(path, 1, length(?)) = ?
            AND entities.name COLLATE NOCASE > ? ORDER BY entities.name COLLATE NOCASE LIMIT ?"""
        return [_entity(row) for row in await self.all(query, account, kind, path, path, after, most)]

    async def number_of(self, account: str, kind: str) -> int:
        """How many there are."""
        if (account, kind) not in self._counts:
            query = "SELECT count(*) FROM entities WHERE account = ? AND kind = ?"
            self._counts[account, kind] = await self.count(query, account, kind)
        return self._counts[account, kind]

    async def add(self, account: Account, kind: str, name: str, path: str, **more: Any) -> Entity:
        """Add an entity whose name is free."""
        entity = Entity(new_id(kind), account.id, account.number, kind, name, path, now_ms(), **more)
        await self.run(
            "INSERT INTO entities VALUES (?, ?, ?, ?, ?, ?, ?, ?)",
            entity.id, entity.account, kind, name, path, entity.created_ms, entity.boundary, json.dumps(entity.details),
        )  # fmt: skip
        if (account.id, kind) in self._counts:
            self._counts[account.id, kind] += 1
        self.changes.touch(entity)
        return entity

    async def update(self, entity: Entity, **changed: Any) -> Entity:
        """Change an entity, and return what it is now."""
        new = replace(entity, **changed)
        await self.run(
            "UPDATE entities SET name = ?, path = ?, boundary = ?, details = ? WHERE id = ?",
            new.name, new.path, new.boundary, json.dumps(new.details), entity.id,
        )  # fmt: skip
        self.changes.touch(entity)
        self.changes.touch(new)
        if entity.arn != new.arn:
            self.changes.keys.update(key.access_key for key in await self.keys(entity.account, entity.id))
        return new

    async def remove(self, entity: Entity) -> None:
        """Remove an entity with all that belongs to it."""
        await self.touch(entity)
        self.changes.policies.update(inline_id(entity.id, each.name) for each in await self.documents(entity))
        self.changes.keys.update(key.access_key for key in await self.keys(entity.account, entity.id))
        await self.run("DELETE FROM limits WHERE id IN (SELECT access_key FROM access_keys WHERE user = ?)", entity.id)
        await self.run("DELETE FROM limits WHERE id = ?", entity.id)
        await self.run("DELETE FROM entities WHERE id = ?", entity.id)
        self._counts.pop((entity.account, entity.kind), None)

    async def touch(self, entity: Entity) -> None:
        """Note that the rights of this entity have changed; of a group, those of its members."""
        self.changes.touch(entity)
        if entity.kind == "group":
            for member in await self.members(entity):
                self.changes.touch(member)

    # Tags.

    async def tags(self, entity: Entity) -> list[tuple[str, str]]:
        """Keys and values, by key."""
        rows = await self.all("SELECT name, value FROM tags WHERE entity = ? ORDER BY name", entity.id)
        return [(name, value) for name, value in rows]

    async def set_tags(self, entity: Entity, tags: Iterable[tuple[str, str]]) -> None:
        """Add tags, in place of those with the same keys."""
        for name, value in tags:
            await self.run("INSERT OR REPLACE INTO tags VALUES (?, ?, ?)", entity.id, name, value)
        self.changes.touch(entity)

    async def drop_tags(self, entity: Entity, names: Iterable[str]) -> None:
        """Remove tags, if they are there."""
        for name in names:
            await self.run("DELETE FROM tags WHERE entity = ? AND name = ?", entity.id, name)
        self.changes.touch(entity)

    # Documents: inline policies, and versions.

    async def documents(self, entity: Entity) -> list[Document]:
        """All of an entity, by name."""
        query = "SELECT name, document, created_ms FROM documents WHERE entity = ? ORDER BY name"
        return [Document(*row) for row in await self.all(query, entity.id)]

    async def document(self, entity: Entity, name: str) -> Document | None:
        """One of them."""
        query = "SELECT name, document, created_ms FROM documents WHERE entity = ? AND name = ?"
        row = await self.one(query, entity.id, name)
        return None if row is None else Document(*row)

    async def put_document(self, entity: Entity, name: str, text: str) -> Document:
        """Add a document, or replace the one with this name."""
        document = Document(name, text, now_ms())
        await self.run(
            "INSERT OR REPLACE INTO documents VALUES (?, ?, ?, ?)", entity.id, name, text, document.created_ms
        )
        await self._changed(entity, name)
        return document

    async def drop_document(self, entity: Entity, name: str) -> bool:
        """Whether there was such a document, which is gone now."""
        done = await self.run("DELETE FROM documents WHERE entity = ? AND name = ?", entity.id, name)
        await self._changed(entity, name)
        return done > 0

    async def _changed(self, entity: Entity, document: str) -> None:
        if entity.kind == "policy":
            self.changes.policies.add(entity.arn)
        else:
            self.changes.policies.add(inline_id(entity.id, document))
            await self.touch(entity)

    # Attachments, by the ARN of the policy.

    async def attached(self, entity: Entity) -> list[str]:
        """The policies that are attached to an entity."""
        return [arn for (arn,) in await self.all("SELECT policy FROM attachments WHERE entity = ?", entity.id)]

    async def attach(self, entity: Entity, policy: str) -> None:
        """Attach a policy, if it is not attached yet."""
        await self.run("INSERT OR IGNORE INTO attachments VALUES (?, ?)", entity.id, policy)
        await self.touch(entity)

    async def detach(self, entity: Entity, policy: str) -> bool:
        """Whether the policy was attached, which it no longer is."""
        done = await self.run("DELETE FROM attachments WHERE entity = ? AND policy = ?", entity.id, policy)
        await self.touch(entity)
        return done > 0

    async def users_of(self, policy: str, account: str) -> tuple[list[Entity], list[Entity]]:
        """The entities of an account to which a policy is attached, and those that have it as their boundary."""
        attached = f"""{_ENTITIES} WHERE account = ? AND entities.id IN
            (SELECT entity FROM attachments WHERE policy = ?) ORDER BY entities.name"""
        bounded = f"{_ENTITIES} WHERE account = ? AND boundary = ? ORDER BY entities.name"
        return (
            [_entity(row) for row in await self.all(attached, account, policy)],
            [_entity(row) for row in await self.all(bounded, account, policy)],
        )

    async def uses(self, policy: str, account: str) -> tuple[int, int]:
        """The numbers of entities of an account that a policy is attached to, and whose boundary it is."""
        attached = await self.count(
            # Few have the policy, and many may be of the account.
            "SELECT count(*) FROM attachments CROSS JOIN entities ON id = entity WHERE policy = ? AND account = ?",
            policy, account,
        )  # fmt: skip
        bounded = await self.count("SELECT count(*) FROM entities WHERE boundary = ? AND account = ?", policy, account)
        return attached, bounded

    # Groups.

    async def members(self, group: Entity) -> list[Entity]:
        """The users of a group, by name."""
        query = f"""{_ENTITIES} WHERE entities.id IN (SELECT user FROM members WHERE team = ?)
            ORDER BY entities.name COLLATE NOCASE"""
        return [_entity(row) for row in await self.all(query, group.id)]

    async def groups_of(self, user: Entity) -> list[Entity]:
        """The groups of a user, by name."""
        query = f"""{_ENTITIES} WHERE entities.id IN (SELECT team FROM members WHERE user = ?)
            ORDER BY entities.name COLLATE NOCASE"""
        return [_entity(row) for row in await self.all(query, user.id)]

    async def join(self, group: Entity, user: Entity) -> None:
        """Add a user to a group."""
        await self.run("INSERT OR IGNORE INTO members VALUES (?, ?)", group.id, user.id)
        self.changes.touch(user)

    async def leave(self, group: Entity, user: Entity) -> bool:
        """Whether the user was in the group, which it no longer is."""
        self.changes.touch(user)
        return await self.run("DELETE FROM members WHERE team = ? AND user = ?", group.id, user.id) > 0

    # Access keys.

    async def keys(self, account: str, user: str | None) -> list[Key]:
        """Keys of a user, or of the root of an account, the oldest first."""
        query = f"{_KEYS} WHERE account = ? AND user IS ? ORDER BY created_ms, access_key"
        return [_key(row) for row in await self.all(query, account, user)]

    async def key(self, access_key: str) -> Key | None:
        """One of them."""
        row = await self.one(f"{_KEYS} WHERE access_key = ?", access_key)
        return None if row is None else _key(row)

    async def add_key(self, key: Key, nonce: bytes, secret: bytes) -> None:
        """Add an access key, which is new."""
        await self.run(
            "INSERT INTO access_keys VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)",
            key.access_key, key.account, key.user, nonce, secret, key.created_ms, key.active, key.session_policy,
        )  # fmt: skip
        self.changes.keys.add(key.access_key)

    async def set_key_active(self, access_key: str, active: bool) -> None:
        """Turn a key on or off."""
        await self.run("UPDATE access_keys SET active = ? WHERE access_key = ?", active, access_key)
        self.changes.keys.add(access_key)

    async def drop_key(self, access_key: str) -> None:
        """Remove a key."""
        await self.run("DELETE FROM limits WHERE id = ?", access_key)
        await self.run("DELETE FROM access_keys WHERE access_key = ?", access_key)
        self.changes.keys.add(access_key)

    # Limits, of a user by its id or of an access key: requests and bytes a second, 0 for none.

    async def limits(self, of: str) -> tuple[int, int]:
        """The limits of a user or key."""
        row = await self.one("SELECT requests_per_sec, bytes_per_sec FROM limits WHERE id = ?", of)
        return (0, 0) if row is None else (row[0], row[1])

    async def set_limits(self, of: Entity | Key, limits: tuple[int, int]) -> None:
        """Change those of a user or key."""
        await self.run("DELETE FROM limits WHERE id = ?", id_of(of))
        if any(limits):
            await self.run("INSERT INTO limits VALUES (?, ?, ?)", id_of(of), *limits)
        if isinstance(of, Key):
            self.changes.keys.add(of.access_key)
        else:
            self.changes.touch(of)


def _entity(row: Any) -> Entity:
    id_, account, number, kind, name, path, created_ms, boundary, details = row
    try:
        return Entity(id_, account, number, kind, name, path, created_ms, boundary, json.loads(details))
    except ValueError:
        raise _damaged(id_) from None


def _damaged(holder: str) -> UnavailableError:
    return UnavailableError(
        f"control.db is damaged at {holder}: restart the server, which takes from the copy what is intact there."
    )


def _key(row: Any) -> Key:
    access_key, account, user, created_ms, active, session_policy, used_ms = row
    return Key(access_key, account, user, created_ms, bool(active), session_policy, used_ms)
