"""Other S3 servers in `control.db`: the origins of buckets, and the targets to which buckets are replicated.

The secret of a key is encrypted like those of access keys, bound to the name of its bucket or target. An origin belongs
to one bucket, which has a number: another bucket that gets the same name later has none. The row of a target has a name
that no bucket can have.
"""

from __future__ import annotations

import json
import sqlite3
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import aiosqlite

from orcas.control.audit import Audit
from orcas.control.cipher import Cipher
from orcas.control.digests import AMONG, among, unequal
from orcas.control.files.audit import Entry
from orcas.control.identities.names import root_arn
from orcas.control.identities.schema import ORIGIN
from orcas.errors import UnavailableError

_SET: Final = "SetBucketOrigin"
_REMOVE: Final = "RemoveBucketOrigin"
_ADD_TARGET: Final = "AddReplicationTarget"
_REMOVE_TARGET: Final = "RemoveReplicationTarget"
# Before the names of targets, in the column of buckets.
_TARGET: Final = "target "


@dataclass(frozen=True, slots=True, kw_only=True)
class Origin:
    """The origin of a bucket.

    `bucket` and `bucket_id` are the bucket here, `source` is the one at `url`. Without `access_key`, requests are not
    signed. `private`: the address may be one of a private network or of this machine. `object_bytes_max`: the largest
    object that is fetched. `timeout_sec`: how long the origin may be silent. `damage`: why it cannot be used; only the
    bucket is known then.
    """

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
        hidden = {"secret_key", "bucket_id", "damage"}
        return {name: value for name, value in asdict(self).items() if name not in hidden}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicationTarget:
    """A server that buckets are replicated to, and the key that writes there.

    `ca`: certificates in PEM of who may sign that of the server, if not whom the system trusts. `concurrency`: requests at
    a time. `bytes_per_sec`: what is sent at most; 0 is no limit. `damage`: why it cannot be used.
    """

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
        return {name: value for name, value in asdict(self).items() if name not in ("secret_key", "ca")}


def holder_of(bucket: str) -> str:
    """The name under which the row of a bucket is digested."""
    return f"origin {bucket}"


def _damaged(bucket: str, why: str) -> Origin:
    return Origin(
        bucket=bucket, bucket_id=0, url="", source="", region="", access_key=None, secret_key="", private=False,
        object_bytes_max=0, timeout_sec=1, damage=why,
    )  # fmt: skip


class Origins:
    """The table of origins."""

    def __init__(self, connection: aiosqlite.Connection, path: Path, cipher: Cipher, audit: Audit, number: str) -> None:
        self._connection = connection
        self._path = path
        self._cipher = cipher
        self._audit = audit
        # That of the account of root.
        self._number = number

    async def load(self) -> dict[str, Origin]:
        """All of them, by bucket. One that cannot be read has its damage.

        Raises:
            UnavailableError: the table cannot be read.
        """
        try:
            rows = await self._connection.execute_fetchall("SELECT bucket, details, nonce, secret FROM origins")
        except sqlite3.Error as error:
            raise self._unusable(error) from None
        broken = unequal(
            await self._connection.execute_fetchall(AMONG, (among([holder_of(bucket) for bucket, *_ in rows]),))
        )
        return {
            bucket: _damaged(bucket, "its row is damaged")
            if holder_of(bucket) in broken
            else self._origin(bucket, *row)
            for bucket, *row in rows
            if not bucket.startswith(_TARGET)
        }

    async def load_targets(self) -> dict[str, ReplicationTarget]:
        """The targets of replication, by name. One that cannot be read has its damage.

        Raises:
            UnavailableError: the table cannot be read.
        """
        try:
            rows = await self._connection.execute_fetchall("SELECT bucket, details, nonce, secret FROM origins")
        except sqlite3.Error as error:
            raise self._unusable(error) from None
        broken = unequal(await self._connection.execute_fetchall(AMONG, (among([holder_of(row) for row, *_ in rows]),)))
        found = {}
        for row, *rest in rows:
            if row.startswith(_TARGET):
                name = row.removeprefix(_TARGET)
                found[name] = self._target(name, *rest, is_damaged=holder_of(row) in broken)
        return found

    def _target(self, name: str, details: str, nonce: bytes, secret: bytes, *, is_damaged: bool) -> ReplicationTarget:
        why = "its row is damaged"
        try:
            if not is_damaged:
                secret_key = self._cipher.decrypt(_TARGET + name, ORIGIN, nonce, secret)
                return ReplicationTarget(**json.loads(details), name=name, secret_key=secret_key)
        except UnavailableError:
            why = "its secret cannot be decrypted"
        except (ValueError, TypeError) as error:
            why = str(error)
        return ReplicationTarget(
            name=name, url="", region="", access_key="", secret_key="", private=False, ca=None, concurrency=1,
            bytes_per_sec=0, timeout_sec=1, damage=why,
        )  # fmt: skip

    async def change_target(
        self, name: str, target: ReplicationTarget | None, access_key: str, address: str | None
    ) -> None:
        """Add or replace a target of replication, or remove it. `access_key`, `address`: of whoever asks for it.

        Raises:
            UnavailableError: it cannot be written. Nothing has changed.
        """
        row, fields = _TARGET + name, {"Target": name}
        if target is not None:
            fields |= {"Url": target.url, "TargetAccessKeyId": target.access_key}
        action = _REMOVE_TARGET if target is None else _ADD_TARGET
        stored = None
        if target is not None:
            hidden = {"name", "secret_key", "damage"}
            details = {field: value for field, value in asdict(target).items() if field not in hidden}
            stored = (row, json.dumps(details), *self._cipher.encrypt(row, ORIGIN, target.secret_key))
        await self._write(row, stored, Entry(root_arn(self._number), action, fields, self._number, access_key, address))

    def _origin(self, bucket: str, details: str, nonce: bytes, secret: bytes) -> Origin:
        try:
            secret_key = self._cipher.decrypt(bucket, ORIGIN, nonce, secret)
            return Origin(**json.loads(details), bucket=bucket, secret_key=secret_key)
        except (UnavailableError, ValueError, TypeError) as error:
            why = "its secret cannot be decrypted" if isinstance(error, UnavailableError) else str(error)
            return _damaged(bucket, why)

    async def change(self, bucket: str, origin: Origin | None, access_key: str, address: str | None) -> None:
        """Give a bucket an origin, or none. `access_key`, `address`: of whoever asks for it.

        Raises:
            UnavailableError: it cannot be written. Nothing has changed.
        """
        fields = {"Bucket": bucket}
        if origin is not None:
            fields |= {"Url": origin.url, "SourceBucket": origin.source}
            fields |= {} if origin.access_key is None else {"SourceAccessKeyId": origin.access_key}
        action = _REMOVE if origin is None else _SET
        entry = Entry(root_arn(self._number), action, fields, self._number, access_key, address)
        await self._write(bucket, None if origin is None else self._row(origin), entry)

    async def _write(self, row: str, stored: tuple[str, str, bytes, bytes] | None, entry: Entry) -> None:
        try:
            async with self._audit.change():
                await self._audit.write([entry])
                await self._connection.execute("DELETE FROM origins WHERE bucket = ?", (row,))
                if stored is not None:
                    await self._connection.execute("INSERT INTO origins VALUES (?, ?, ?, ?)", stored)
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def _unusable(self, error: sqlite3.Error) -> UnavailableError:
        return UnavailableError(f"{self._path} cannot be used: {error}; check the file and its disk, and try again.")

    def _row(self, origin: Origin) -> tuple[str, str, bytes, bytes]:
        details = {
            name: value for name, value in asdict(origin).items() if name not in {"bucket", "secret_key", "damage"}
        }
        return origin.bucket, json.dumps(details), *self._cipher.encrypt(origin.bucket, ORIGIN, origin.secret_key)
