"""Bodies of MinIO's admin API: encrypted with a key that is derived from the secret of whoever sends the request.

32 bytes of salt, a byte that names the algorithm, 8 bytes of nonce, and fragments of at most 16 KiB, each with its tag.
https://github.com/minio/madmin-go/blob/main/encrypt.go and https://github.com/secure-io/sio-go
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305

_SALT, _NONCE, _TAG = 32, 8, 16
_FRAGMENT: Final = 16 * 1024
_AES, _CHACHA, _PBKDF2 = 0, 1, 2
# KiB, passes and lanes of Argon2id; passes of PBKDF2.
_MEMORY, _PASSES, _LANES, _PBKDF2_PASSES = 64 * 1024, 1, 4, 8192


class SealedError(Exception):
    """A body is not encrypted with this secret."""


def opened(secret: str, body: bytes) -> bytes:
    """The content of a body. Takes 64 MiB and a tenth of a second.

    Raises:
        SealedError: it has none for this secret.
    """
    from cryptography.exceptions import InvalidTag

    head = _SALT + 1 + _NONCE
    if len(body) < head + _TAG or body[_SALT] not in (_AES, _CHACHA, _PBKDF2):
        raise SealedError
    salt, kind, nonce, rest = body[:_SALT], body[_SALT], body[_SALT + 1 : head], body[head:]
    cipher = _cipher(secret, salt, kind)
    size = _FRAGMENT + _TAG
    pieces = [rest[at : at + size] for at in range(0, len(rest), size)]
    try:
        return b"".join(
            cipher.decrypt(at, piece, bound)
            for (at, bound), piece in zip(_places(cipher, nonce, len(pieces)), pieces, strict=True)
        )
    except InvalidTag:
        raise SealedError from None


def sealed(secret: str, content: bytes) -> bytes:
    """The body with this content. Takes 64 MiB and a tenth of a second."""
    salt, nonce = os.urandom(_SALT), os.urandom(_NONCE)
    cipher = _cipher(secret, salt, _AES)
    pieces = [content[at : at + _FRAGMENT] for at in range(0, max(len(content), 1), _FRAGMENT)]
    made = (
        cipher.encrypt(at, piece, bound)
        for (at, bound), piece in zip(_places(cipher, nonce, len(pieces)), pieces, strict=True)
    )
    return b"".join((salt, bytes([_AES]), nonce, *made))


def _cipher(secret: str, salt: bytes, kind: int) -> AESGCM | ChaCha20Poly1305:
    from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
    from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

    if kind == _PBKDF2:
        return AESGCM(hashlib.pbkdf2_hmac("sha256", secret.encode(), salt, _PBKDF2_PASSES, 32))
    derive = Argon2id(salt=salt, length=32, iterations=_PASSES, lanes=_LANES, memory_cost=_MEMORY)
    key = derive.derive(secret.encode())
    return AESGCM(key) if kind == _AES else ChaCha20Poly1305(key)


def _places(cipher: AESGCM | ChaCha20Poly1305, nonce: bytes, count: int) -> Iterator[tuple[bytes, bytes]]:
    """The nonce of each fragment, and what is bound to it: the last one says so."""
    bound = cipher.encrypt(nonce + bytes(4), b"", b"")
    for number in range(1, count + 1):
        yield nonce + number.to_bytes(4, "little"), (b"\x80" if number == count else b"\x00") + bound
