"""Small files that nothing else could replace: each is kept as `NAME` and, behind a checksum, as `NAME.copy`.

A change is written to `NAME` first, and counts once the copy has it. So a copy whose checksum matches decides, and `NAME` is
restored from it if it is missing or differs. Behind a damaged copy, `NAME` must match its checksum. Without a copy, which a
restored backup lacks, `NAME` counts as it is. Whoever knows what a valid content is calls `secure` after checking it. Must
not know what is in the files.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
from pathlib import Path
from typing import Final

from orcas.control.files import read_secret_file, write_secret_file
from orcas.errors import UnavailableError

SUFFIX: Final = ".copy"
_MAGIC: Final = b"orcas copy 1 "
HEAD_BYTES: Final = len(_MAGIC) + 64

log = logging.getLogger("orcas")


class BothDamagedError(UnavailableError):
    """There is no intact copy of the file at `path`, which is damaged as well."""

    def __init__(self, path: Path) -> None:
        super().__init__(
            f"{path} and its copy are damaged: restore it from a backup, or run `orcas fsck`, which says how to go on "
            "without."
        )


def copy_of(path: Path) -> Path:
    """The path of the copy."""
    return path.with_name(path.name + SUFFIX)


def read_copy(path: Path) -> bytes | None:
    """The content of the copy; None if it is missing, damaged or unreadable."""
    head, content = _parts(path)
    return content if _verifies(head, content) else None


def read_unverified(path: Path) -> bytes:
    """The content of the copy as far as it is there, damaged or not."""
    return _parts(path)[1]


def is_refuted(path: Path, content: bytes) -> bool:
    """Whether the copy is damaged, but has the checksum of another content than this one, which `path` has."""
    head, other = _parts(path)
    whole = len(head) == HEAD_BYTES and head.startswith(_MAGIC)
    return whole and not _verifies(head, other) and not _verifies(head, content)


def is_present(path: Path) -> bool:
    """Whether there is the file, in whatever state, or an intact copy."""
    return path.exists() or read_copy(path) is not None


def write_copy(path: Path, content: bytes) -> None:
    """Replace the copy alone.

    Raises:
        UnavailableError: it cannot be written.
    """
    write_secret_file(copy_of(path), _copy(content))


def read_twice(path: Path) -> bytes | None:
    """The content; None if there is neither the file nor an intact copy.

    Raises:
        BothDamagedError: the file is damaged, and so is its copy.
        UnavailableError: there is no intact copy, and the file cannot be read.
    """
    content = read_copy(path)
    if content is not None:
        return content
    content = read_secret_file(path)
    if content is not None and is_refuted(path, content):
        raise BothDamagedError(path)
    return content


def write_twice(path: Path, content: bytes) -> None:
    """Replace the file and its copy, durably.

    Raises:
        UnavailableError: one of them cannot be written.
    """
    write_secret_file(path, content)
    write_copy(path, content)


def secure(path: Path) -> None:
    """Write again what is missing or damaged of a file and its copy. What `read_twice` returns is valid.

    What cannot be written, for example because the disk is full, is written by a later start.
    """
    found = None
    with contextlib.suppress(UnavailableError):
        found = read_secret_file(path)
    try:
        content = read_twice(path)
        if content is None:
            return
        if found != content:
            # A change that was interrupted before the copy had it was never confirmed.
            why = "was missing" if found is None else "has an interrupted change, or was damaged or changed by hand"
            log.warning("%s %s, and is restored from its copy, %s", path, why, copy_of(path).name)
            write_secret_file(path, content)
        secure_copy(path, content)
    except UnavailableError as error:
        log.warning("%s is not kept twice yet: %s", path.name, error)


def secure_copy(path: Path, content: bytes) -> None:
    """Write the copy again if it is missing or damaged.

    Raises:
        UnavailableError: it cannot be written.
    """
    copy = copy_of(path)
    found = None
    with contextlib.suppress(UnavailableError):
        found = read_secret_file(copy)
    if found == _copy(content):
        return
    if found is None and not copy.exists():
        # Not a warning, because a restored backup has no copies.
        log.info("%s was missing, and is written again", copy)
    else:
        log.warning("%s was damaged, and is written again", copy)
    write_copy(path, content)


def _parts(path: Path) -> tuple[bytes, bytes]:
    """The header of the copy and its content, both empty if it is missing or unreadable."""
    found = None
    with contextlib.suppress(UnavailableError):
        found = read_secret_file(copy_of(path))
    found = found or b""
    return found[:HEAD_BYTES], found[HEAD_BYTES + 1 :]


def _verifies(head: bytes, content: bytes) -> bool:
    """Whether the header has the checksum of this content. The header may be damaged itself: then most of its digits are
    right, of the checksum of another content one in 16."""
    expected = _head(content)
    return sum(one == other for one, other in zip(head, expected, strict=False)) > len(expected) * 2 // 3


def _copy(content: bytes) -> bytes:
    return _head(content) + b"\n" + content


def _head(content: bytes) -> bytes:
    return _MAGIC + hashlib.sha256(content).hexdigest().encode()
