"""Other S3 servers in `control.db`: the origins of buckets, and the targets to which buckets are replicated.

They are two kinds of rows of one table. The secret of a key is encrypted like those of access keys, bound to the name of
its row. An origin belongs to one bucket, which has a number: another bucket that gets the same name later has none. The
row of a target has a name that no bucket can have.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Final, Generic, Self, TypeVar, cast

import aiosqlite

from orcas.control.audit import Audit
from orcas.control.cipher import Cipher
from orcas.control.digests import AMONG, among, unequal
from orcas.control.files.audit import Entry
from orcas.control.identities.names import root_arn
from orcas.control.identities.schema import ORIGIN
from orcas.errors import UnavailableError

# Beside what both kinds have, neither in details nor shown.
_HIDDEN: Final = frozenset({"secret_key", "damage"})


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The origin of a bucket.

    `bucket` and `bucket_id` are the bucket here, `source` is the one at `url`. Without `access_key`, requests are not
    signed. `private`: the address may be one of a private network or of this machine. `object_bytes_max`: the largest
    object that is fetched. `timeout_sec`: how long the origin may be silent. `damage`: why it cannot be used; only the
    bucket is known then.
    """

    # The field with the name of the row, what the row has before it, and what the audit log calls changes.
    NAME: ClassVar[str] = "bucket"
    PREFIX: ClassVar[str] = ""
    ACTIONS: ClassVar[tuple[str, str]] = ("SetBucketOrigin", "RemoveBucketOrigin")

    bucket: str
    bucket_id: int
    url: str
    source: str
    region: str
    access_key: str | None
    secret_key: str = field(repr=False)
    private: bool
    object_bytes_max: int
    timeout_sec: int
    damage: str | None = None

    def shown(self) -> dict[str, Any]:
        """Everything but the secret, and what is of no interest."""
        return _fields_of(self, _HIDDEN | {"bucket_id"})

    def audited(self) -> dict[str, str]:
        """What the audit log says of it."""
        key = {} if self.access_key is None else {"SourceAccessKeyId": self.access_key}
        return {"Url": self.url, "SourceBucket": self.source, **key}

    @classmethod
    def damaged(cls, name: str, why: str) -> Self:
        """One that cannot be used."""
        return cls(
            bucket=name, bucket_id=0, url="", source="", region="", access_key=None, secret_key="", private=False,
            object_bytes_max=0, timeout_sec=1, damage=why,
        )  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationTarget:
    """A server that buckets are replicated to, and the key that writes there.

    `ca`: certificates in PEM of who may sign that of the server, if not whom the system trusts. `concurrency`: requests at
    a time. `bytes_per_sec`: what is sent at most; 0 is no limit. `damage`: why it cannot be used.
    """

    NAME: ClassVar[str] = "name"
    PREFIX: ClassVar[str] = "target "
    ACTIONS: ClassVar[tuple[str, str]] = ("AddReplicationTarget", "RemoveReplicationTarget")

    name: str
    url: str
    region: str
    access_key: str
    secret_key: str = field(repr=False)
    private: bool
    ca: str | None
    concurrency: int
    bytes_per_sec: int
    timeout_sec: int
    damage: str | None = None

    def shown(self) -> dict[str, Any]:
        """Everything but the secret."""
        return {**_fields_of(self, _HIDDEN | {"ca"}), "damage": self.damage}

    def audited(self) -> dict[str, str]:
        """What the audit log says of it."""
        return {"Url": self.url, "TargetAccessKeyId": self.access_key}

    @classmethod
    def damaged(cls, name: str, why: str) -> Self:
        """One that cannot be used."""
        return cls(
            name=name, url="", region="", access_key="", secret_key="", private=False, ca=None, concurrency=1,
            bytes_per_sec=0, timeout_sec=1, damage=why,
        )  # fmt: skip


Server = TypeVar("Server", bound=Origin | ReplicationTarget)


def holder_of(row: str) -> str:
    """The name under which a row is digested."""
    return f"origin {row}"


def _fields_of(server: Origin | ReplicationTarget, hidden: frozenset[str]) -> dict[str, Any]:
    return {name: value for name, value in asdict(server).items() if name not in hidden}


class Servers(Generic[Server]):
    """The rows of one kind."""

    def __init__(
        self,
        kind: type[Server],
        connection: aiosqlite.Connection,
        path: Path,
        cipher: Cipher,
        audit: Audit,
        number: str,
    ) -> None:
        self._kind = kind
        self._connection = connection
        self._path = path
        self._cipher = cipher
        self._audit = audit
        # That of the account of root.
        self._number = number

    async def load(self) -> dict[str, Server]:
        """All of them, by name. One that cannot be read has its damage.

        Raises:
            UnavailableError: the table cannot be read.
        """
        try:
            rows = await self._connection.execute_fetchall("SELECT bucket, details, nonce, secret FROM origins")
        except sqlite3.Error as error:
            raise self._unusable(error) from None
        broken = unequal(await self._connection.execute_fetchall(AMONG, (among([holder_of(row) for row, *_ in rows]),)))
        # No bucket has a name like a row of a target.
        is_target = self._kind is ReplicationTarget
        return {
            row.removeprefix(self._kind.PREFIX): self._read(row, *rest, is_broken=holder_of(row) in broken)
            for row, *rest in rows
            if row.startswith(ReplicationTarget.PREFIX) == is_target
        }

    def _read(self, row: str, details: str, nonce: bytes, secret: bytes, *, is_broken: bool) -> Server:
        name, why = row.removeprefix(self._kind.PREFIX), "its row is damaged"
        try:
            if not is_broken:
                secret_key = self._cipher.decrypt(row, ORIGIN, nonce, secret)
                return self._kind(**{**json.loads(details), self._kind.NAME: name, "secret_key": secret_key})
        except UnavailableError:
            why = "its secret cannot be decrypted"
        except (ValueError, TypeError) as error:
            why = str(error)
        return cast("Server", self._kind.damaged(name, why))

    async def change(self, name: str, server: Server | None, access_key: str, address: str | None) -> None:
        """Set one, or remove it. `access_key`, `address`: of whoever asks for it.

        Raises:
            UnavailableError: it cannot be written. Nothing has changed.
        """
        row = self._kind.PREFIX + name
        action = self._kind.ACTIONS[server is None]
        fields = {"Target" if self._kind.PREFIX else "Bucket": name, **({} if server is None else server.audited())}
        entry = Entry(root_arn(self._number), action, fields, self._number, access_key, address)
        try:
            async with self._audit.change():
                await self._audit.write([entry])
                await self._connection.execute("DELETE FROM origins WHERE bucket = ?", (row,))
                if server is not None:
                    details = json.dumps(_fields_of(server, _HIDDEN | {self._kind.NAME}))
                    stored = (row, details, *self._cipher.encrypt(row, ORIGIN, server.secret_key))
                    await self._connection.execute("INSERT INTO origins VALUES (?, ?, ?, ?)", stored)
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def _unusable(self, error: sqlite3.Error) -> UnavailableError:
        return UnavailableError(f"{self._path} cannot be used: {error}; check the file and its disk, and try again.")
