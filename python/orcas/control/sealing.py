"""Seals secrets of the control plane under the keyring of the store, if it has one. Callers know which secrets."""

from __future__ import annotations

from typing import Protocol

from orcas.errors import ConfigurationError


class Sealer(Protocol):
    """Seals secrets under a key of the keyring, each bound to its name."""

    def seal(self, name: str, secret: bytes) -> bytes:
        """The bytes that are stored of `secret`.

        Raises:
            UnavailableError: the keyring cannot have the key for it, for example because the disk is full.
        """

    def open(self, name: str, sealed: bytes) -> bytes | None:
        """The secret that was sealed under this name; None if it does not open."""


class SealedError(ConfigurationError):
    """The root key is sealed under a master key that this process does not have."""
