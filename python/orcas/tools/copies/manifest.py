"""The manifest of a backup: its files, the names under which they are stored, and their lengths and digests.

It is written last, and without it there is no backup. Files that it names are never overwritten: a file that changed gets a
new stored name. A file that grew is extended, so it may be longer than an older manifest says; the rest is ignored.
"""

from __future__ import annotations

import json
import re
from dataclasses import asdict, dataclass
from typing import Any, Final

from orcas.errors import UnavailableError

NAME: Final = "manifest.json"
FORMAT: Final = 1
# A manifest names every file of the store: some 250 bytes each.
SIZE_MAX: Final = 256 << 20
# A keyring that another one replaced without having all its keys, with its generation.
FORMER_KEYRING: Final = re.compile(r"keyring\.[0-9]{1,20}", re.ASCII)
# Everything that a data directory is made of. Nothing else is ever written by a restore.
_FILE: Final = re.compile(
    rf"store\.keys(\.copy)?|keyring(\.copy)?|{FORMER_KEYRING.pattern}|root\.json|control\.(db|key)|usage\.db|quotas\.json|"
    r"log/[0-9]{20}\.log|chunks/[0-9]{20}\.pack|audit/[0-9]{20}\.jsonl",
    re.ASCII,
)
_DIGEST: Final = re.compile(r"[0-9a-f]{64}")
_STORE: Final = re.compile(r"[0-9a-f]{32}")


@dataclass(frozen=True)
class Stat:
    """Identity and timestamps of the source when it was read: if they are the same, so are the bytes."""

    device: int
    inode: int
    mtime_ns: int
    ctime_ns: int


@dataclass(frozen=True)
class Entry:
    """A file. `stored` is its name in the target; `stat` is None where it may not be relied on."""

    name: str
    length: int
    sha256: str
    stored: str
    stat: Stat | None = None


@dataclass(frozen=True)
class Manifest:
    """A backup of a store."""

    store: str
    number: int
    sequence: int
    time: str
    orcas: str
    files: tuple[Entry, ...]

    def encode(self) -> bytes:
        """The manifest as it is stored."""
        document: dict[str, Any] = {"format": FORMAT, **asdict(self)}
        return json.dumps(document, indent=1).encode() + b"\n"


def stored_name(name: str, number: int) -> str:
    """A name in the target that no earlier backup used."""
    return f"{name}.{number}"


def decode(content: bytes, place: str) -> Manifest:
    """Read and check a manifest.

    Raises:
        UnavailableError: it is damaged, or of a later format.
    """
    try:
        document = json.loads(content)
        found = document["format"]
        if found != FORMAT:
            raise UnavailableError(f"{place} is of the format {found}, of another version of Orcas: use that version.")
        files = tuple(_entry(entry) for entry in document["files"])
        manifest = Manifest(
            document["store"], document["number"], document["sequence"], document["time"], document["orcas"], files
        )
        numbers = manifest.number, manifest.sequence
        if not _STORE.fullmatch(manifest.store) or not all(type(n) is int and n >= 0 for n in numbers):
            raise ValueError(manifest.store)
        if len({entry.name for entry in files}) != len(files) or len({entry.stored for entry in files}) != len(files):
            raise ValueError("a file is named twice")
    except (ValueError, KeyError, TypeError):
        raise UnavailableError(f"{place} is damaged: restore another backup.") from None
    return manifest


def _entry(document: dict[str, Any]) -> Entry:
    stat = document["stat"]
    entry = Entry(
        document["name"],
        document["length"],
        document["sha256"],
        document["stored"],
        None if stat is None else Stat(**stat),
    )
    if not _FILE.fullmatch(entry.name) or not _DIGEST.fullmatch(entry.sha256):
        raise ValueError(entry.name)
    if type(entry.length) is not int or entry.length < 0:
        raise ValueError(entry.name)
    suffix = entry.stored.removeprefix(entry.name)
    if suffix == entry.stored or not re.fullmatch(r"\.[0-9]{1,18}", suffix, re.ASCII):
        raise ValueError(entry.stored)
    return entry
