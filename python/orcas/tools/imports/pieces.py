"""Bodies of unknown digests: what comes in pieces of any size is sent to the store in parts of one size."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from typing import Final

from orcas.tools.imports.target import Target
from orcas.tools.session import Body, Headers

# Bodies up to this are taken into memory, which saves a packet.
SMALL_BYTES: Final = 1 << 20
# A larger file, or object without a digest, is uploaded in parts of this, or of more if it has too many.
PART_BYTES: Final = 16 << 20
# The largest object that can be put in one request.
PUT_BYTES_MAX: Final = 5 << 30
_PARTS_MAX: Final = 10_000
_MIB: Final = 1 << 20


def part_bytes(size: int) -> int:
    """The size of the parts of an object of `size` bytes: whole MiB, at most 10,000 of them."""
    least = -(-size // _PARTS_MAX)
    return max(PART_BYTES, -(-least // _MIB) * _MIB)


class Cutter:
    """Gives the bytes of an iterator in portions that are asked for."""

    def __init__(self, pieces: Iterator[bytes]) -> None:
        self._pieces = pieces
        self._rest = b""

    def take(self, count: int) -> Iterator[bytes]:
        """The next `count` bytes, fewer at the end."""
        while count:
            piece = self._rest or next(self._pieces, b"")
            if not piece:
                return
            self._rest, piece = piece[count:], piece[:count]
            count -= len(piece)
            yield piece


def store_in_parts(target: Target, key: bytes, pieces: Iterator[bytes], size: int, headers: Headers) -> None:
    """Store a body of `size` bytes. What arrives is compared with what was sent, part by part.

    Raises:
        ObjectError: it was refused.
    """
    if size <= SMALL_BYTES:
        body = b"".join(pieces)
        target.put(key, body, headers, hashlib.md5(body, usedforsecurity=False).hexdigest())
        return
    cutter, step = Cutter(pieces), part_bytes(size)
    with target.upload(key, headers) as upload:
        for start in range(0, size, step):
            count = min(step, size - start)
            upload.send(Body(count, cutter.take(count)))
        upload.complete()
