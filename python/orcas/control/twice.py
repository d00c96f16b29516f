"""Small files that nothing else could replace: each is kept as `NAME` and, behind a checksum, as `NAME.copy`.

A change is written to `NAME` first, and counts once the copy has it. So a copy whose checksum matches decides, and `NAME` is
restored from it if it is missing or differs. Without such a copy, which stores of earlier versions lack, `NAME` counts as it
is. Whoever knows what a valid content is calls `secure` after checking it. Must not know what is in the files.
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

log = logging.getLogger("orcas")


def copy_of(path: Path) -> Path:
    """The path of the copy."""
    return path.with_name(path.name + SUFFIX)


def read_copy(path: Path) -> bytes | None:
    """The content of the copy; None if it is missing, damaged or unreadable."""
    content = None
    with contextlib.suppress(UnavailableError):
        content = read_secret_file(copy_of(path))
    head, _, body = (content or b"").partition(b"\n")
    return body if head == _head(body) else None


def is_present(path: Path) -> bool:
    """Whether there is the file, in whatever state, or an intact copy."""
    return path.exists() or read_copy(path) is not None


def write_copy(path: Path, content: bytes) -> None:
    """Replace the copy alone.

    Raises:
        UnavailableError: it cannot be written.
    """
    write_secret_file(copy_of(path), _head(content) + b"\n" + content)


def read_twice(path: Path) -> bytes | None:
    """The content; None if there is neither the file nor an intact copy.

    Raises:
        UnavailableError: there is no intact copy, and the file cannot be read.
    """
    content = read_copy(path)
    return read_secret_file(path) if content is None else content


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
        if read_copy(path) is None:
            if copy_of(path).exists():
                log.warning("%s was damaged, and is written again", copy_of(path))
            write_copy(path, content)
        elif found != content:
            why = "was missing" if found is None else "was damaged or changed by hand"
            log.warning("%s %s, and is restored from its copy, %s", path, why, copy_of(path).name)
            write_secret_file(path, content)
    except UnavailableError as error:
        log.warning("%s is not kept twice yet: %s", path.name, error)


def _head(content: bytes) -> bytes:
    return b"orcas copy 1 " + hashlib.sha256(content).hexdigest().encode()
