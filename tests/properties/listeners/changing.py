"""Changes of requests that are signed and framed."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Final

_BYTES: Final = tuple(bytes((byte,)) for byte in b"%/?#\x00\xff \t\r\n")


def _somewhere(rng: random.Random, raw: bytes, first: int, last: int) -> bytes:
    """A byte changed, removed, or added between two places."""
    at = rng.randrange(first, max(first + 1, last))
    changed = bytes((raw[at] ^ (1 << rng.randrange(8)),))
    return raw[:at] + rng.choice((changed, b"", rng.choice(_BYTES))) + raw[at + rng.choice((0, 1)) :]


def _line(raw: bytes) -> int:
    return raw.index(b"\r\n")


def _head(raw: bytes) -> int:
    return raw.index(b"\r\n\r\n")


def _in_target(rng: random.Random, raw: bytes) -> bytes:
    return _somewhere(rng, raw, raw.index(b" ") + 1, _line(raw) - 9)


def _in_body(rng: random.Random, raw: bytes) -> bytes:
    """A byte changed: the length of the body stays. Not of one in chunks: llhttp sees broken ones that nobody receives."""
    first = _head(raw) + 4
    if len(raw) == first or b"\r\ntransfer-encoding" in raw[:first]:
        return raw
    at = rng.randrange(first, len(raw))
    return raw[:at] + bytes((raw[at] ^ (1 << rng.randrange(8)),)) + raw[at + 1 :]


def _of_the_connection(rng: random.Random, raw: bytes) -> bytes:
    at = _line(raw) + 2
    return raw[:at] + rng.choice((b"te: trailers\r\n", b"keep-alive: 3\r\n", b"proxy-connection: close\r\n")) + raw[at:]


Change = Callable[[random.Random, bytes], bytes]
# These leave the framing of requests as it is.
ALL: Final[tuple[Change, ...]] = (_in_target, _in_body, _of_the_connection)
