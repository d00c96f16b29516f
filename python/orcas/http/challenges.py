"""The challenge of an instant upload: what the server asks of whoever says that it has some content, and the answer."""

from __future__ import annotations

import hashlib
import xml.etree.ElementTree as ET
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, Protocol

# Most bytes to read to answer a challenge, and the maximum size of a challenge document.
_RANGES_BYTES_MAX: Final = 1 << 20
_DOCUMENT_MAX: Final = 1 << 16


class HasBlocks(Protocol):
    """Some content, of which parts can be read."""

    def blocks(self, first: int, length: int) -> Iterator[bytes]:
        """`length` bytes from `first` on."""


@dataclass(frozen=True)
class Challenge:
    """A digest of some ranges of the content, behind a nonce, is the answer."""

    token: str
    nonce: bytes
    ranges: list[tuple[int, int]]

    def answer(self, content: HasBlocks) -> str:
        """The answer that proves to the server that the client has the content."""
        digest = hashlib.sha256(self.nonce)
        for first, last in self.ranges:
            for block in content.blocks(first, last - first + 1):
                digest.update(block)
        return digest.hexdigest()


def read_challenge(document: bytes, size: int) -> Challenge | None:
    """The challenge in the answer of a server; None if there is none that is valid for `size` bytes."""
    if len(document) > _DOCUMENT_MAX:
        return None
    try:
        root = ET.fromstring(document)  # noqa: S314 - short, and expat bounds entities
        namespace = root.tag.rpartition("InstantUpload")[0]
        if root.findtext(f"{namespace}Status") != "challenge":
            return None
        token = root.findtext(f"{namespace}Challenge") or ""
        nonce = bytes.fromhex(root.findtext(f"{namespace}Nonce") or "")
        places = root.findall(f"{namespace}Range")
        ranges = [(int(place.attrib["first"]), int(place.attrib["last"])) for place in places]
    except (ET.ParseError, KeyError, ValueError):
        return None
    sound = all(0 <= first <= last < size for first, last in ranges)
    asked = sum(last - first + 1 for first, last in ranges)
    return Challenge(token, nonce, ranges) if token.isalnum() and sound and asked <= _RANGES_BYTES_MAX else None
