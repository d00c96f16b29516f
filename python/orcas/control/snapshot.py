"""What a request needs of the control plane, frozen. Built here, handed whole to Rust, never changed afterwards."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Credential:
    """One access key that may sign requests, and the identity it speaks for (`owner`, 64 hexadecimal digits)."""

    access_key: str
    secret_key: str = field(repr=False)
    owner: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Every credential in force, and the identity that may do everything."""

    credentials: tuple[Credential, ...]
    root_owner: str
