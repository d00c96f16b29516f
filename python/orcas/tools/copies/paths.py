"""Turns keys, which are any bytes, into paths below a directory. Pure.

Each part of a key between slashes becomes one name. `%`, control characters and bytes that are not UTF-8 are written as
`%XX`; so are the dots of `.` and `..`. An empty part is `%2F`. A name of more than `NAME_MAX` bytes is cut, and ends in
`%~` and 32 hexadecimal digits of its SHA-256. Two keys never get one path, and no path leaves its directory. A key that
is also the directory of others ends in `%` (`SIDE`), which nothing else does.
"""

from __future__ import annotations

import hashlib
from pathlib import PurePosixPath
from typing import Final

# File systems take 255 bytes; the rest is for the suffixes of files that are being written.
NAME_MAX: Final = 240
SIDE: Final = "%"
PART: Final = "%part"
_CUT: Final = 200


def path_of(key: bytes) -> PurePosixPath:
    """The path of a key, relative to the directory of its bucket."""
    return PurePosixPath(*(_name(part) for part in key.split(b"/")))


def bucket_name(bucket: str) -> str:
    """The directory of a bucket; never the name of the index beside it."""
    return _name(bucket.encode()).replace("index.jsonl", "index%2Ejsonl")


def _name(part: bytes) -> str:
    if not part:
        return "%2F"
    if part in {b".", b".."}:
        return "%2E" * len(part)
    units = [_unit(character) for character in part.decode("utf-8", "surrogateescape")]
    name = "".join(units)
    if len(name.encode()) <= NAME_MAX:
        return name
    kept, size = [], 0
    for unit in units:
        size += len(unit.encode())
        if size > _CUT:
            break
        kept.append(unit)
    return f"{''.join(kept)}%~{hashlib.sha256(part).hexdigest()[:32]}"


def _unit(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:
        return f"%{code - 0xDC00:02X}"
    if code < 0x20 or code == 0x7F or character == "%":
        return f"%{code:02X}"
    return character
