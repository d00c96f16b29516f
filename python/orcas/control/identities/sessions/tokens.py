"""Tokens of sessions, and the keys that seal them. What is in a token is opened by the engine for every request as well.

A token is Base64 of: version 1 (1 byte), id of the key (8), nonce (12), and claims as JSON, sealed with AES-256-GCM. The
keys are of tokens alone. They are kept encrypted in `control.db`, and each until all tokens under it have expired.
"""

from __future__ import annotations

import base64
import binascii
import json
import logging
import os
import secrets
import string
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Final, Protocol

from orcas.control.cipher import open_message, seal_message
from orcas.control.root import fresh_secret
from orcas.errors import UnavailableError

if TYPE_CHECKING:
    import aiosqlite

# Longest life of a token, and age of a key from which another one seals.
LIFE_MAX_MS: Final = 36 * 60 * 60 * 1000
_KEY_AGE_MAX_MS: Final = 7 * 24 * 60 * 60 * 1000
# Characters of a token: it must fit in a header, and in an address.
TOKEN_MAX: Final = 8_192
_BOUND: Final = b"orcas session token"
_VERSION: Final = b"\x01"
_ID_BYTES: Final = 8

log = logging.getLogger("orcas")


@dataclass(frozen=True, slots=True)
class Claims:
    """The claims of a token. `identity` and `id`: the identity that has the session."""

    access_key: str
    secret: str = field(repr=False)
    identity: str
    id: str
    # The access key that asked for it: of sessions of users and roots, which end with it. None after a certificate.
    by: str | None
    # Who signs; None for the user itself.
    arn: str | None
    # `aws:userid`
    user_id: str
    issued_ms: int
    ends_ms: int
    tags: list[tuple[str, str]]
    # Names of tags that sessions have which this one makes.
    transitive: list[str]
    # ARNs of policies, and a document, that narrow it; None without any. An empty list: it may nothing.
    policies: list[str] | None
    document: str | None
    # Of a web identity.
    provider: str | None
    # That of a session of a role.
    name: str | None
    # ARNs and access keys of those who have asked for it, and for what they have asked with: their limits count.
    limited: list[str] = field(default_factory=list)
    # The name of a bucket, and another bucket that it leads to in this session.
    alias: tuple[str, str] | None = None


class Secrets(Protocol):
    """As of `Identities`."""

    def encrypt(self, access_key: str, identity: str, secret: str, /) -> tuple[bytes, bytes]:
        """Nonce and ciphertext."""

    def decrypt(self, access_key: str, identity: str, nonce: bytes, encrypted: bytes, /) -> str:
        """The secret."""


class Opener(Protocol):
    """The part of the engine that opens tokens."""

    def use_session_keys(self, keys: list[tuple[bytes, bytes]], /) -> None:
        """Open tokens with these keys, each with its id, from now on."""

    def now_ms(self) -> int:
        """The time by which sessions expire."""


def fresh_credentials() -> tuple[str, str]:
    """A new temporary access key, and its secret."""
    alphabet = string.ascii_uppercase + string.digits
    return "ASIA" + "".join(secrets.choice(alphabet) for _ in range(16)), fresh_secret()


class SessionKeys:
    """The keys of an open control store. Under the lock of `Identities`."""

    def __init__(
        self, connection: aiosqlite.Connection, encrypting: Secrets, opener: Opener, changed: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._encrypting = encrypting
        self._opener = opener
        self._changed = changed
        # Id, key and time, the oldest first; None before they are read.
        self._keys: list[tuple[bytes, bytes, int]] | None = None

    def now_ms(self) -> int:
        """The time by which sessions expire."""
        return self._opener.now_ms()

    async def load(self) -> list[tuple[bytes, bytes, int]]:
        """Read the keys, and let the engine know them."""
        if self._keys is None:
            query = "SELECT id, nonce, secret, created_ms FROM session_keys ORDER BY created_ms"
            self._keys = []
            for name, nonce, secret, created in await self._connection.execute_fetchall(query):
                try:
                    key = bytes.fromhex(self._encrypting.decrypt(name, "session", nonce, secret))
                    self._keys.append((bytes.fromhex(name), key, created))
                except (UnavailableError, ValueError):
                    log.error("A key of sessions is damaged: those sealed with it are over")
            self._tell()
        return self._keys

    def _tell(self) -> None:
        self._opener.use_session_keys([(name, key) for name, key, _ in self._keys or []])

    async def _newest(self) -> tuple[bytes, bytes]:
        """The key that seals. A new one takes the place of one that is old."""
        keys, now = await self.load(), self.now_ms()
        if keys and now - keys[-1][2] < _KEY_AGE_MAX_MS:
            return keys[-1][:2]
        name, key = os.urandom(_ID_BYTES), os.urandom(32)
        # Each key seals until the next one is made, so those before the last are not needed much longer than that.
        kept = [each for at, each in enumerate(keys) if at + 1 == len(keys) or now - keys[at + 1][2] < LIFE_MAX_MS]
        nonce, secret = self._encrypting.encrypt(name.hex(), "session", key.hex())
        await self._connection.execute("BEGIN IMMEDIATE")
        try:
            await self._connection.execute(
                "INSERT INTO session_keys VALUES (?, ?, ?, ?)", (name.hex(), nonce, secret, now)
            )
            for gone in set(keys) - set(kept):
                await self._connection.execute("DELETE FROM session_keys WHERE id = ?", (gone[0].hex(),))
            await self._connection.commit()
        except BaseException:
            await self._connection.rollback()
            raise
        self._keys = [*kept, (name, key, now)]
        self._tell()
        self._changed()
        return name, key

    async def seal(self, claims: Claims) -> str:
        """The token of a session."""
        name, key = await self._newest()
        said = asdict(claims)
        # Nodes of an older version know no aliases.
        alias = said.pop("alias")
        if alias is not None:
            said["alias"] = {"name": alias[0], "bucket": alias[1]}
        sealed = seal_message(key, _BOUND, json.dumps(said, separators=(",", ":")).encode())
        return base64.b64encode(_VERSION + name + sealed).decode()

    async def open(self, token: str) -> Claims | None:
        """The claims of a token, expired or not; None for one that no key has sealed."""
        try:
            content = base64.b64decode(token, validate=True)
        except (binascii.Error, ValueError):
            return None
        head, sealed = content[: 1 + _ID_BYTES], content[1 + _ID_BYTES :]
        key = next((key for name, key, _ in await self.load() if _VERSION + name == head), None)
        opened = None if key is None else open_message(key, _BOUND, sealed)
        if opened is None:
            return None
        found: dict[str, Any] = json.loads(opened)
        # Only requests to objects need it.
        found.pop("alias", None)
        return Claims(**{**found, "tags": [(name, value) for name, value in found["tags"]]})
