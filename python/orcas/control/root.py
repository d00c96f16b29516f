"""The root identity: its id, and its key pair.

`root.json` in the data directory keeps the id for ever and, if the operator sets no pair, the generated key pair. A pair
that the operator sets is never written there; see `control.keys`. Its note of the keyring tells a store that has lost its
keyring from one that never had any.
"""

from __future__ import annotations

import json
import re
import secrets
import string
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from orcas.control.files import ROOT_NAME, read_secret_file, write_secret_file
from orcas.errors import UnavailableError

FILE_NAME: Final = ROOT_NAME
_OWNER: Final = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True, slots=True)
class Root:
    """The root identity. `path` is the file with the pair, None for the operator's own; `fresh`: generated just now."""

    owner: str
    access_key: str
    secret_key: str = field(repr=False)
    path: Path | None
    fresh: bool


def generated_pair(directory: Path) -> tuple[str, str] | None:
    """The pair that was generated for the store of `directory`, if one was.

    Raises:
        UnavailableError: the file is damaged.
    """
    path = directory / FILE_NAME
    content = read_secret_file(path)
    document = _parse(path, content) if content is not None else {}
    return (document["access_key"], document["secret_key"]) if "access_key" in document else None


def ensure_root(directory: Path, access_key: str | None, secret_key: str | None, *, established: bool) -> Root:
    """Read the root identity of `directory`, and generate what is missing. The caller holds the control lock.

    `established`: the store was used before, so a missing identity is an error.

    Raises:
        UnavailableError: the identity is lost or damaged, or cannot be written.
    """
    path = directory / FILE_NAME
    content = read_secret_file(path)
    if content is None and established:
        raise UnavailableError(f"{path} is missing: restore it, because it has the identity that owns the buckets.")
    document = _parse(path, content) if content is not None else {"owner": secrets.token_hex(32)}
    operators = access_key is not None and secret_key is not None
    fresh = not operators and "access_key" not in document
    if fresh:
        document["access_key"], document["secret_key"] = fresh_pair()
    if fresh or content is None:
        write_secret_file(path, json.dumps(document, indent=2).encode() + b"\n")
    if access_key is not None and secret_key is not None:
        return Root(document["owner"], access_key, secret_key, None, fresh=False)
    return Root(document["owner"], document["access_key"], document["secret_key"], path, fresh)


def noted_keyring(directory: Path) -> int:
    """The newest generation of the keyring that a server of `directory` has met; 0 if the store never had one.

    Raises:
        UnavailableError: the file is damaged.
    """
    content = read_secret_file(directory / FILE_NAME)
    return 0 if content is None else int(_parse(directory / FILE_NAME, content).get("keyring", "0"))


def note_keyring(directory: Path, generation: int) -> None:
    """Note that the keyring has this generation, unless it has had a newer one. The caller holds the control lock.

    Raises:
        UnavailableError: the file is damaged, or cannot be written.
    """
    path = directory / FILE_NAME
    content = read_secret_file(path)
    if content is not None and noted_keyring(directory) < generation:
        document = _parse(path, content) | {"keyring": str(generation)}
        write_secret_file(path, json.dumps(document, indent=2).encode() + b"\n")


def fresh_pair() -> tuple[str, str]:
    """A new random access key and secret key."""
    alphabet = string.ascii_uppercase + string.digits
    return "ORCAS" + "".join(secrets.choice(alphabet) for _ in range(15)), secrets.token_urlsafe(30)


def known_root(directory: Path) -> dict[str, str]:
    """The content of `root.json`, empty if it is missing or damaged; for salvage."""
    path = directory / FILE_NAME
    try:
        content = read_secret_file(path)
        return {} if content is None else _parse(path, content)
    except UnavailableError:
        return {}


def _parse(path: Path, content: bytes) -> dict[str, str]:
    try:
        document = json.loads(content)
    except ValueError:
        document = None
    if (
        not isinstance(document, dict)
        or not all(isinstance(value, str) and value for value in document.values())
        or not _OWNER.fullmatch(document.get("owner", ""))
        or ("access_key" in document) != ("secret_key" in document)
        or not re.fullmatch(r"[0-9]{1,20}", document.get("keyring", "0"), re.ASCII)
    ):
        raise UnavailableError(f"{path} is damaged: restore it, because it has the identity that owns the buckets.")
    return document
