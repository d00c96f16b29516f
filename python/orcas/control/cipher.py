"""`control.key`: the key that encrypts secrets in `control.db`, sealed if the store has a keyring.

Sealing it makes a new key. Until no row needs the old one, the file has both, sealed, so a crash in between leaves every
secret readable. A copy of the file from before opens nothing that was written since.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

from orcas._core import open_secret, seal_secret
from orcas.control.digests import Digests
from orcas.control.files import DATABASE_NAME, GIVE_UP, KEY_NAME
from orcas.control.files.twice import read_twice, secure, write_twice
from orcas.control.sealing import Sealer
from orcas.errors import UnavailableError

_KEY_BYTES: Final = 32
_NONCE_BYTES: Final = 12

log = logging.getLogger("orcas")


def seal_message(key: bytes, bound: bytes, message: bytes) -> bytes:
    """A nonce, and behind it a message that only this key opens, with the same `bound`."""
    nonce = os.urandom(_NONCE_BYTES)
    return nonce + seal_secret(key, nonce, bound, message)


def open_message(key: bytes, bound: bytes, sealed: bytes) -> bytes | None:
    """The message; None if another key has sealed it, or it was changed."""
    nonce = sealed[:_NONCE_BYTES]
    return open_secret(key, nonce, bound, sealed[_NONCE_BYTES:]) if len(nonce) == _NONCE_BYTES else None


class Cipher:
    """Encrypts and decrypts the secrets of access keys, bound to their key and identity. The newest key encrypts."""

    def __init__(self, keys: list[bytes]) -> None:
        self._keys = keys

    @property
    def has_old(self) -> bool:
        """Whether rows may still need an old key."""
        return len(self._keys) > 1

    def digests(self) -> list[Digests]:
        """The functions that make the digests of rows of the database, that of the newest key first."""
        return [Digests(key) for key in self._keys]

    def encrypt(self, access_key: str, identity: str, secret: str) -> tuple[bytes, bytes]:
        """A nonce, and the encrypted secret."""
        nonce = os.urandom(_NONCE_BYTES)
        return nonce, seal_secret(self._keys[0], nonce, _binding(access_key, identity), secret.encode())

    def decrypt(self, access_key: str, identity: str, nonce: bytes, encrypted: bytes) -> str:
        """The secret.

        Raises:
            UnavailableError: it cannot be decrypted with the key of this directory.
        """
        # A damaged row may have a nonce of any length.
        for key in self._keys if len(nonce) == _NONCE_BYTES else ():
            secret = open_secret(key, nonce, _binding(access_key, identity), encrypted)
            if secret is not None:
                return secret.decode()
        raise UnavailableError(
            f"The secret of access key {access_key} cannot be decrypted: {KEY_NAME} or {DATABASE_NAME} is damaged, or of "
            f"another store: restore both from one backup, or run {GIVE_UP} to go on with the root key alone."
        )

    def renewed(self) -> Cipher:
        """A cipher with a new key that encrypts. It still decrypts what this one has encrypted."""
        return Cipher([os.urandom(_KEY_BYTES), self._keys[0]])

    def without_old(self) -> Cipher:
        """A cipher with the newest key alone."""
        return Cipher(self._keys[:1])

    def write(self, directory: Path, sealer: Sealer | None) -> None:
        """Replace the file of `directory`.

        Raises:
            UnavailableError: it cannot be sealed or written.
        """
        keys = b"".join(self._keys)
        write_twice(directory / KEY_NAME, keys if sealer is None else sealer.seal(KEY_NAME, keys))


def is_key_sealed(directory: Path) -> bool:
    """Whether the file is there and sealed.

    Raises:
        UnavailableError: it cannot be read.
    """
    content = read_twice(directory / KEY_NAME)
    return content is not None and len(content) > _KEY_BYTES


def read_cipher(directory: Path, sealer: Sealer | None) -> Cipher | None:
    """The cipher of `directory`; None if there is no file.

    Raises:
        UnavailableError: the file is damaged, or `sealer` does not open it, or there is none for a sealed one.
    """
    path = directory / KEY_NAME
    content = read_twice(path)
    if content is None:
        return None
    if len(content) > _KEY_BYTES:
        if sealer is None:
            raise UnavailableError(
                f"The identities of the store in {directory} are sealed, and its keyring is not open: set ORCAS_MASTER_KEY "
                "or ORCAS_MASTER_PASSPHRASE to what it was sealed with."
            )
        opened = sealer.open(KEY_NAME, content)
        if opened is None:
            raise UnavailableError(
                f"{path} is damaged, or sealed under a key that the keyring lacks: restore it or a newer keyring, or move "
                f"it, {DATABASE_NAME} and their copies away and run {GIVE_UP} to go on with the root key alone."
            )
        content = opened
    if len(content) not in {_KEY_BYTES, 2 * _KEY_BYTES}:
        raise UnavailableError(
            f"{path} is damaged: restore it from a backup, or run {GIVE_UP} to go on with the root key alone."
        )
    return Cipher([content[at : at + _KEY_BYTES] for at in range(0, len(content), _KEY_BYTES)])


def ensure_cipher(directory: Path, sealer: Sealer | None, check: Callable[[Cipher], None]) -> Cipher:
    """The cipher of `directory`, made for a new store. If the file is not sealed, but `sealer` is there, it is renewed.

    `check`: raises if the cipher is not that of the database; called before anything is written.

    Raises:
        UnavailableError: the file is missing, damaged or cannot be written, or `sealer` does not open it.
    """
    found = read_cipher(directory, sealer)
    if found is None:
        if (directory / DATABASE_NAME).exists():
            raise UnavailableError(
                f"{directory / KEY_NAME} and its copy are missing, and {DATABASE_NAME} cannot be read without them: restore "
                f"one from a backup, or run {GIVE_UP} to go on with the root key alone."
            )
        made = Cipher([os.urandom(_KEY_BYTES)])
        made.write(directory, sealer)
        return made
    check(found)
    secure(directory / KEY_NAME)
    if sealer is None or is_key_sealed(directory):
        return found
    renewed = found.renewed()
    try:
        renewed.write(directory, sealer)
    except UnavailableError as error:
        # The disk may be full. A start must succeed all the same.
        log.warning("%s is not sealed yet: %s", KEY_NAME, error)
        return found
    return renewed


def _binding(access_key: str, identity: str) -> bytes:
    return f"{identity}:{access_key}".encode()
