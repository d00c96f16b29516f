"""Bytes of files with holes in them: read in order, hashed, written with the holes kept, and made durable."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from orcas.errors import UnavailableError, because

if TYPE_CHECKING:
    from hashlib import _Hash

PIECE: Final = 1 << 20
_ZEROS: Final = bytes(PIECE)
# Below this a hole is not worth a seek.
_HOLE_MIN: Final = 64 << 10


class Meter(Protocol):
    """Gets the number of bytes that were read; may raise to end the copy."""

    def __call__(self, count: int, /) -> None:
        """`count` bytes more."""


@contextlib.contextmanager
def reading(path: Path) -> Iterator[int]:
    """A descriptor of `path`.

    Raises:
        UnavailableError: it cannot be opened.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    except OSError as error:
        raise UnavailableError(f"{path} cannot be read: {because(error)}.") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def spans(descriptor: int, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """`(from, to, data)` of the runs of data and of holes between `start` and `end`."""
    if not hasattr(os, "SEEK_DATA"):
        yield start, end, True
        return
    at = start
    while at < end:
        try:
            data = min(os.lseek(descriptor, at, os.SEEK_DATA), end)
        except OSError:
            # Behind the last byte of data.
            data = end
        if data - at >= _HOLE_MIN:
            yield at, data, False
            at = data
        if at < end:
            try:
                # From the data that was found: behind a hole too small to be kept as one.
                hole = os.lseek(descriptor, max(at, data), os.SEEK_HOLE) if data < end else end
            except OSError:
                hole = end
            hole = max(at + 1, min(hole, end))
            yield at, hole, True
            at = hole


def pieces(descriptor: int, start: int, end: int) -> Iterator[bytes | int]:
    """The bytes from `start` to `end` in order; for a piece of a hole only how long it is."""
    for first, last, data in spans(descriptor, start, end):
        at = first
        while at < last:
            wanted = min(PIECE, last - at)
            if not data:
                yield wanted
                at += wanted
                continue
            piece = os.pread(descriptor, wanted, at)
            if not piece:
                raise UnavailableError(
                    "A file of the store is shorter than it must be: `orcas fsck` says what is lost."
                )
            yield piece
            at += len(piece)
    # Behind the end of a file there is a hole as well: one that was cut short must not pass for zeros.
    if os.fstat(descriptor).st_size < end:
        raise UnavailableError("A file of the store is shorter than it must be: `orcas fsck` says what is lost.")


def hashed(descriptor: int, start: int, end: int, digest: _Hash, meter: Meter) -> None:
    """Feed `digest` with the bytes from `start` to `end`."""
    for piece in pieces(descriptor, start, end):
        if isinstance(piece, int):
            digest.update(memoryview(_ZEROS)[:piece])
            meter(piece)
        else:
            digest.update(piece)
            meter(len(piece))


def copy_span(source: int, to: int, start: int, end: int, digest: _Hash, meter: Meter) -> None:
    """Write the bytes from `start` to `end` of `source` at the same place of `to`, holes as holes, and hash them."""
    at = start
    for piece in pieces(source, start, end):
        if isinstance(piece, int):
            digest.update(memoryview(_ZEROS)[:piece])
            at += piece
            meter(piece)
        else:
            digest.update(piece)
            write_at(to, piece, at)
            at += len(piece)
            meter(len(piece))
    os.ftruncate(to, end)


def write_at(descriptor: int, piece: bytes | memoryview, at: int) -> None:
    """All of `piece` at `at`."""
    view = memoryview(piece)
    while view:
        written = os.pwrite(descriptor, view, at)
        view = view[written:]
        at += written


def write_sparse(descriptor: int, incoming: Iterator[bytes], digest: _Hash, meter: Meter) -> int:
    """Write what comes, hash it, and leave runs of zeros out as holes. Returns the length."""
    at = 0
    for piece in incoming:
        digest.update(piece)
        view = memoryview(piece)
        for start in range(0, len(piece), _HOLE_MIN):
            block = view[start : start + _HOLE_MIN]
            if block != memoryview(_ZEROS)[: len(block)]:
                write_at(descriptor, block, at + start)
        at += len(piece)
        meter(len(piece))
    os.ftruncate(descriptor, at)
    return at


def sha256() -> _Hash:
    """The digest of every file in a backup."""
    return hashlib.sha256()
