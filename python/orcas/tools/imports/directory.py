"""A directory as the source of an import: a file is an object whose key is its path.

Symbolic links and special files are left out, because they may lead anywhere. Must not know buckets.
"""

from __future__ import annotations

import contextlib
import hashlib
import http.client
import mimetypes
import os
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

from orcas.errors import UnavailableError, because
from orcas.tools.imports.pieces import PART_BYTES, SMALL_BYTES, part_bytes, store_in_parts
from orcas.tools.imports.requests import ChangedError, ObjectError
from orcas.tools.imports.server import Copied
from orcas.tools.imports.target import Target
from orcas.tools.objects import Listed
from orcas.tools.session import Body, Headers

# The time of a file, as rclone keeps it: seconds since 1970.
MTIME = b"x-amz-meta-mtime"


class DirectorySource:
    """A tree of files. `left_out` counts what is no file."""

    def __init__(self, top: Path) -> None:
        self.name = str(top)
        self.left_out: Counter[str] = Counter()
        self._top = os.fsencode(top)

    def close(self) -> None:
        """Nothing is kept open."""

    def listed(self, bucket: str, prefix: bytes) -> Iterator[Listed]:
        """Every file, in the order in which S3 lists their keys. `prefix` is empty."""
        return self._below(b"")

    def create(self, bucket: str, target: Target) -> None:
        """Create the bucket if there is none."""
        target.create()

    def settle(self, bucket: str, target: Target, *, dry_run: bool) -> Iterator[str]:
        """A directory has nothing beside its files."""
        return iter(())

    def is_same(self, bucket: str, entry: Listed, there: Listed, target: Target) -> bool:
        """Whether the object has the bytes of the file, which is read for that."""
        with reading(self._path(entry.key)) as descriptor:
            found = _etag(descriptor, entry.size, target.check)
        return found == there.etag or found == target.imported_etag(there)

    def copy(self, bucket: str, entry: Listed, target: Target) -> Copied:
        """Store a file.

        Raises:
            ObjectError: it cannot be read or stored.
            ChangedError: it changed meanwhile; what is stored may be a mixture, and must be replaced.
        """
        path = self._path(entry.key)
        with reading(path) as descriptor:
            before = os.fstat(descriptor)
            headers: Headers = [
                (b"content-type", content_type(path).encode()),
                (MTIME, b"%d.%09d" % divmod(before.st_mtime_ns, 10**9)),
            ]
            size = before.st_size
            if size <= SMALL_BYTES:
                store_in_parts(target, entry.key, pieces(descriptor, size), size, headers)
            elif size <= PART_BYTES:
                digest = _etag(descriptor, size, target.check)
                target.put(entry.key, Body(size, pieces(descriptor, size)), headers, digest)
            else:
                store_in_parts(target, entry.key, pieces(descriptor, size), size, headers)
            if (after := os.fstat(descriptor)).st_mtime_ns != before.st_mtime_ns or after.st_size != size:
                raise ChangedError
        return Copied(size)

    def _path(self, key: bytes) -> bytes:
        return os.path.join(self._top, key)  # noqa: PTH118 - of bytes

    def _below(self, folder: bytes) -> Iterator[Listed]:
        path = self._path(folder)
        try:
            # A folder is where its keys are: "a-b" comes before those of the folder "a".
            entries = sorted(
                os.scandir(path), key=lambda entry: entry.name + b"/" * entry.is_dir(follow_symlinks=False)
            )
        except OSError as error:
            raise UnavailableError(f"{os.fsdecode(path)} cannot be read: {because(error)}.") from error
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                yield from self._below(folder + entry.name + b"/")
            elif entry.is_file(follow_symlinks=False):
                yield Listed(folder + entry.name, entry.stat(follow_symlinks=False).st_size, "")
            else:
                self.left_out["symbolic link or special file"] += 1


def content_type(path: bytes) -> str:
    """The content type of a file, by its name."""
    return mimetypes.guess_type(os.fsdecode(path))[0] or "binary/octet-stream"


@contextlib.contextmanager
def reading(path: bytes, flags: int = os.O_NOFOLLOW) -> Iterator[int]:
    """A descriptor of a file; what the system refuses is a reason not to copy it."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | flags)
    except FileNotFoundError:
        raise ObjectError("the file was deleted", http.client.NOT_FOUND, "NoSuchKey") from None
    except OSError as error:
        raise ObjectError(f"the file cannot be read: {because(error)}") from error
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def pieces(descriptor: int, size: int, start: int = 0) -> Iterator[bytes]:
    """The bytes of a file from `start` on.

    Raises:
        ObjectError: they cannot be read.
        ChangedError: there are fewer.
    """
    at, end = start, start + size
    while at < end:
        try:
            piece = os.pread(descriptor, min(SMALL_BYTES, end - at), at)
        except OSError as error:
            raise ObjectError(f"the file cannot be read: {because(error)}") from error
        if not piece:
            raise ChangedError
        yield piece
        at += len(piece)


def _etag(descriptor: int, size: int, check: Callable[[], None]) -> str:
    """The ETag that an object has which was imported from this file."""
    if size <= PART_BYTES:
        return _digest(descriptor, 0, size, check).hex()
    step = part_bytes(size)
    digests = [_digest(descriptor, start, min(step, size - start), check) for start in range(0, size, step)]
    return f"{hashlib.md5(b''.join(digests), usedforsecurity=False).hexdigest()}-{len(digests)}"


def _digest(descriptor: int, start: int, size: int, check: Callable[[], None]) -> bytes:
    digest = hashlib.md5(usedforsecurity=False)
    for piece in pieces(descriptor, size, start):
        check()
        digest.update(piece)
    return digest.digest()
