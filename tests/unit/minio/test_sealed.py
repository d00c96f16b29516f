"""Encrypted bodies of MinIO's admin API: what is sealed opens, and nothing else does."""

from __future__ import annotations

import hashlib
import os

import pytest
from cryptography.hazmat.primitives.ciphers.aead import AESGCM, ChaCha20Poly1305
from cryptography.hazmat.primitives.kdf.argon2 import Argon2id

from orcas.minio.sealed import SealedError, opened, sealed

FRAGMENT = 16 * 1024


@pytest.mark.parametrize("size", [0, 1, FRAGMENT - 1, FRAGMENT, FRAGMENT + 1, 3 * FRAGMENT + 7])
def test_what_is_sealed_opens(size: int) -> None:
    content = os.urandom(size)
    body = sealed("secret", content)
    assert opened("secret", body) == content
    assert sealed("secret", content) != body
    with pytest.raises(SealedError):
        opened("another", body)


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_bodies_of_other_clients_open(kind: int) -> None:
    """Made as madmin makes them, one fragment."""
    salt, nonce = bytes(range(32)), b"12345678"
    if kind == 2:
        key = hashlib.pbkdf2_hmac("sha256", b"secret", salt, 8192, 32)
    else:
        key = Argon2id(salt=salt, length=32, iterations=1, lanes=4, memory_cost=65536).derive(b"secret")
    cipher = ChaCha20Poly1305(key) if kind == 1 else AESGCM(key)
    bound = b"\x80" + cipher.encrypt(nonce + bytes(4), b"", b"")
    body = salt + bytes([kind]) + nonce + cipher.encrypt(nonce + b"\x01\0\0\0", b"content", bound)
    assert opened("secret", body) == b"content"


def test_nothing_else_opens() -> None:
    body = sealed("secret", bytes(2 * FRAGMENT))
    whole = FRAGMENT + 16
    changed = [bytes([*body[:at], body[at] ^ 1, *body[at + 1 :]]) for at in (0, 31, 33, 40, 41, len(body) - 1)]
    cut = [body[:length] for length in (0, 32, 41, 56, 57, 41 + whole, len(body) - 1)]
    swapped = body[:41] + body[41 + whole :] + body[41 : 41 + whole]
    longer = [body + b"x", body + bytes(whole)]
    unknown = body[:32] + b"\x03" + body[33:]
    for wrong in (*changed, *cut, swapped, *longer, unknown, os.urandom(100), b"{}"):
        with pytest.raises(SealedError):
            opened("secret", wrong)
