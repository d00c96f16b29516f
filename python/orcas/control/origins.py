"""The origins of buckets in `control.db`: buckets on other S3 servers that buckets here stand for.

The secret of a key is encrypted like those of access keys, bound to the name of its bucket. An origin belongs to one
bucket, which has a number: another bucket that gets the same name later has none.
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
            raise UnavailableError(
                f"{self._path} cannot be used: {error}; check the file and its disk, and try again."
            ) from None
        broken = unequal(
            await self._connection.execute_fetchall(AMONG, (among([holder_of(bucket) for bucket, *_ in rows]),))
        )
        return {
            bucket: _damaged(bucket, "its row is damaged")
            if holder_of(bucket) in broken
            else self._origin(bucket, *row)
            for bucket, *row in rows
        }

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
        try:
            async with self._audit.change():
                await self._audit.write([entry])
                await self._connection.execute("DELETE FROM origins WHERE bucket = ?", (bucket,))
                if origin is not None:
                    await self._connection.execute("INSERT INTO origins VALUES (?, ?, ?, ?)", self._row(origin))
        except sqlite3.Error as error:
            raise UnavailableError(
                f"{self._path} cannot be used: {error}; check the file and its disk, and try again."
            ) from None

    def _row(self, origin: Origin) -> tuple[str, str, bytes, bytes]:
        details = {
            name: value for name, value in asdict(origin).items() if name not in {"bucket", "secret_key", "damage"}
        }
        return origin.bucket, json.dumps(details), *self._cipher.encrypt(origin.bucket, ORIGIN, origin.secret_key)
