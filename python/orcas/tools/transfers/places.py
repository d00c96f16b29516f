"""Objects as the command line names them, s3://BUCKET/KEY, and which keys are paths of files. Pure.

Invariant: no part of a path leads elsewhere, and a path gives back the key that it was made of.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, replace
from typing import Final

from orcas.errors import UsageError

SCHEME: Final = "s3://"
# Bytes that file systems take for the name of a file.
_NAME_MAX: Final = 255


@dataclass(frozen=True)
class Place:
    """A bucket and a key, a prefix, or nothing behind it. Keys are bytes, as arguments of the command line are."""

    bucket: str
    key: bytes = b""

    def __str__(self) -> str:
        return f"{SCHEME}{self.bucket}/{self.key.decode(errors='backslashreplace')}"

    @property
    def name(self) -> bytes:
        """The last part of the key."""
        return self.key.rpartition(b"/")[2]

    @property
    def parent(self) -> bytes:
        """The key up to its last slash."""
        return self.key[: len(self.key) - len(self.name)]

    @property
    def folder(self) -> Place:
        """The prefix of what is below it, as of a directory."""
        return self if self.key.endswith(b"/") or not self.key else replace(self, key=self.key + b"/")

    def below(self, name: bytes) -> Place:
        """What has this name after it."""
        return replace(self, key=self.key + name)


def is_place(text: str) -> bool:
    """Whether an argument names a bucket or an object, and no file."""
    return text.startswith(SCHEME)


def place_of(text: str) -> Place:
    """The bucket and the key that an argument names.

    Raises:
        UsageError: it names no bucket.
    """
    bucket, _, key = text.removeprefix(SCHEME).partition("/")
    if not is_place(text) or not bucket:
        raise UsageError(f"{text} is not s3://BUCKET/KEY: give such a value.")
    return Place(bucket, os.fsencode(key))


def object_of(text: str, *, has_recursive: bool = False) -> Place:
    """The object that an argument names. `has_recursive`: of a command that has -r.

    Raises:
        UsageError: it names none.
    """
    place = place_of(text)
    if not place.key:
        raise UsageError(
            f"{text} names no object: add its key, or use -r for all that a bucket has."
            if has_recursive
            else f"{text} names no object: add its key."
        )
    return place


def bucket_of(text: str) -> str:
    """The bucket that an argument names.

    Raises:
        UsageError: it names none, or something in one.
    """
    bucket, _, key = text.removeprefix(SCHEME).partition("/")
    if not is_place(text) or not bucket:
        raise UsageError(f"{text} is not s3://BUCKET: give such a value.")
    if key:
        raise UsageError(f"{text} names an object, not a bucket: write s3://{bucket}.")
    return bucket


def parts_of(key: bytes) -> list[bytes] | None:
    """The names of the directories and of the file whose path a key is, from the top; None if it is none."""
    parts = key.split(b"/")
    return (
        None if any(part in (b"", b".", b"..") or b"\0" in part or len(part) > _NAME_MAX for part in parts) else parts
    )
