"""What requests need of the control plane: an immutable snapshot, which is passed to Rust."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Credential:
    """An access key that may sign requests, and its identity (`owner`, 64 hexadecimal digits)."""

    access_key: str
    secret_key: str = field(repr=False)
    owner: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All valid credentials, and the identity that may do everything."""

    credentials: tuple[Credential, ...]
    root_owner: str

    @classmethod
    def of_root(cls, access_key: str, secret_key: str, owner: str) -> Snapshot:
        """The root identity alone."""
        return cls((Credential(access_key, secret_key, owner),), owner)
