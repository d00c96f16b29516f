"""The places of backups: a directory, or a prefix of a bucket of any S3 server.

Both keep files under `files/`, next to the manifest. Stored files are durable when `make_durable` has returned, the manifest
when it is written. Must not know what the files are.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final, Protocol

from orcas.control.files import sync_directory, write_secret_file
from orcas.errors import OrcasError, UnavailableError, UsageError, because
from orcas.tools.copies.copying import PIECE, Meter, copy_span, hashed, reading, sha256
from orcas.tools.copies.manifest import NAME, SIZE_MAX

_FILES: Final = "files"
_LOCK: Final = "backup.lock"
_MISSING: Final = "A backup to or from S3 needs boto3: run pip install 'orcas-s3[backup]'."


class Target(Protocol):
    """A place for one line of backups."""

    name: str

    def read_manifest(self) -> bytes | None:
        """The manifest, if there is one."""

    def sizes(self) -> dict[str, int]:
        """The stored files, whole or not, with their lengths."""

    def store(self, path: Path, length: int, stored: str, meter: Meter) -> str:
        """Copy the first `length` bytes of `path`; returns their SHA-256. `stored` is a new name."""

    def extend(self, path: Path, length: int, stored: str, known: tuple[int, str], meter: Meter) -> str | None:
        """Make `stored`, whose first bytes are `known` by number and SHA-256, the first `length` bytes of `path`.

        Returns the SHA-256 of all; None when the first bytes are others, or the target cannot extend files.
        """

    def make_durable(self) -> None:
        """Everything stored is durable."""

    def write_manifest(self, content: bytes) -> None:
        """Replace the manifest, durably."""

    def remove(self, stored: str) -> None:
        """Take a stored file away."""

    def fetch(self, stored: str, length: int) -> Iterator[bytes]:
        """The first `length` bytes of a stored file."""


class DirectoryTarget:
    """A directory of its own on some file system."""

    def __init__(self, path: Path) -> None:
        self.name = str(path)
        self._path = path
        self._touched: set[Path] = set()

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Take the directory for a backup.

        Raises:
            UnavailableError: it cannot be made, holds something else, or another backup is under way.
        """
        try:
            self._path.mkdir(mode=0o700, parents=True, exist_ok=True)
            foreign = [
                entry.name for entry in self._path.iterdir() if entry.name not in {NAME, NAME + ".new", _FILES, _LOCK}
            ]
            if foreign:
                raise UnavailableError(
                    f"{self._path} contains {foreign[0]}, which is not part of a backup: choose an empty directory."
                )
            lock = os.open(self._path / _LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise UnavailableError(f"{self._path} cannot be used: {because(error)}.") from error
        try:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise UnavailableError(f"Another backup to {self._path} is running: wait for it.") from None
            yield
        finally:
            os.close(lock)

    def read_manifest(self) -> bytes | None:
        """The manifest, if there is one."""
        try:
            return (self._path / NAME).read_bytes()
        except (FileNotFoundError, NotADirectoryError):
            return None
        except OSError as error:
            raise UnavailableError(f"{self._path / NAME} cannot be read: {because(error)}.") from error

    def sizes(self) -> dict[str, int]:
        """Every file, by its path under `files/`."""
        top = self._path / _FILES
        return {path.relative_to(top).as_posix(): path.lstat().st_size for path in top.rglob("*") if not path.is_dir()}

    def store(self, path: Path, length: int, stored: str, meter: Meter) -> str:
        """Copy a file, holes kept."""
        to = self._place(stored)
        with self._failing(to), reading(path) as source, _writing(to, os.O_CREAT | os.O_TRUNC) as copy:
            digest = sha256()
            copy_span(source, copy, 0, length, digest, meter)
            os.fsync(copy)
        return digest.hexdigest()

    def extend(self, path: Path, length: int, stored: str, known: tuple[int, str], meter: Meter) -> str | None:
        """Append what is new behind bytes that are the same."""
        to = self._place(stored)
        start, expected = known
        with self._failing(to), reading(path) as source:
            digest = sha256()
            hashed(source, 0, start, digest, meter)
            if digest.hexdigest() != expected:
                return None
            with _writing(to, 0) as copy:
                # What an interrupted backup appended is not known.
                os.ftruncate(copy, start)
                copy_span(source, copy, start, length, digest, meter)
                os.fsync(copy)
        return digest.hexdigest()

    def make_durable(self) -> None:
        """Sync the directories in which files were made, and those in which these were."""
        with self._failing(self._path):
            for directory in sorted(self._touched, reverse=True):
                sync_directory(directory)
            sync_directory(self._path)
            sync_directory(self._path.parent)
        self._touched.clear()

    def write_manifest(self, content: bytes) -> None:
        """Under another name, synced, renamed."""
        write_secret_file(self._path / NAME, content)

    def remove(self, stored: str) -> None:
        """A leftover of an interrupted removal is removed by the next backup."""
        with self._failing(self._path):
            (self._path / _FILES / stored).unlink(missing_ok=True)

    def fetch(self, stored: str, length: int) -> Iterator[bytes]:
        """Read a file; it may be longer than asked for."""
        with reading(self._path / _FILES / stored) as descriptor:
            at = 0
            while at < length:
                piece = os.pread(descriptor, min(PIECE, length - at), at)
                if not piece:
                    raise UnavailableError(
                        f"{self._path / _FILES / stored} is too short, so the backup is damaged: restore another one."
                    )
                yield piece
                at += len(piece)

    def _place(self, stored: str) -> Path:
        path = self._path / _FILES / stored
        with self._failing(path.parent):
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._touched |= {path.parent, self._path / _FILES}
        return path

    @contextlib.contextmanager
    def _failing(self, path: Path) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UnavailableError(f"{path} cannot be written: {because(error)}.") from error


class S3Target:
    """A prefix of a bucket; the credentials are those that boto3 finds."""

    def __init__(self, bucket: str, prefix: str, endpoint: str | None) -> None:
        try:
            import boto3
            from boto3.s3.transfer import TransferConfig
            from botocore.exceptions import BotoCoreError, ClientError
        except ImportError:
            raise OrcasError(_MISSING) from None
        self.name = f"s3://{bucket}/{prefix}".rstrip("/")
        self._bucket = bucket
        self._prefix = f"{prefix.strip('/')}/" if prefix.strip("/") else ""
        self._errors = (BotoCoreError, ClientError)
        self._transfer = TransferConfig(multipart_threshold=16 << 20, multipart_chunksize=16 << 20, max_concurrency=4)
        with self._failing("used"):
            self._client: Any = boto3.session.Session().client("s3", endpoint_url=endpoint)

    @contextlib.contextmanager
    def writing(self) -> Iterator[None]:
        """Nothing locks a bucket: one backup at a time is the operator's care."""
        yield

    def read_manifest(self) -> bytes | None:
        """The manifest, if there is one."""
        with self._failing("read"):
            try:
                answer = self._client.get_object(Bucket=self._bucket, Key=self._prefix + NAME)
            except self._client.exceptions.NoSuchKey:
                return None
            content: bytes = answer["Body"].read(SIZE_MAX)
            return content

    def sizes(self) -> dict[str, int]:
        """Every object under `files/`."""
        top = f"{self._prefix}{_FILES}/"
        found = {}
        with self._failing("listed"):
            for page in self._client.get_paginator("list_objects_v2").paginate(Bucket=self._bucket, Prefix=top):
                for entry in page.get("Contents", []):
                    found[entry["Key"].removeprefix(top)] = entry["Size"]
        return found

    def store(self, path: Path, length: int, stored: str, meter: Meter) -> str:
        """Upload a file, in parts when it is large."""
        with reading(path) as source, self._failing("written"):
            body = _Reader(source, length, meter)
            self._client.upload_fileobj(body, self._bucket, self._key(stored), Config=self._transfer)
        if body.at != length:
            raise UnavailableError(f"{self.name} did not store all of {path}: run the command again.")
        return body.digest.hexdigest()

    def extend(self, path: Path, length: int, stored: str, known: tuple[int, str], meter: Meter) -> str | None:
        """Objects are not extended."""
        return None

    def make_durable(self) -> None:
        """An upload that was answered is durable."""

    def write_manifest(self, content: bytes) -> None:
        """Replace the object."""
        with self._failing("written"):
            self._client.put_object(Bucket=self._bucket, Key=self._prefix + NAME, Body=content)

    def remove(self, stored: str) -> None:
        """Delete the object."""
        with self._failing("cleaned"):
            self._client.delete_object(Bucket=self._bucket, Key=self._key(stored))

    def fetch(self, stored: str, length: int) -> Iterator[bytes]:
        """Download an object."""
        with self._failing("read"):
            body = self._client.get_object(Bucket=self._bucket, Key=self._key(stored))["Body"]
            left = length
            while left:
                piece = body.read(min(PIECE, left))
                if not piece:
                    raise UnavailableError(
                        f"{self.name}/{_FILES}/{stored} is too short, so the backup is damaged: restore another one."
                    )
                yield piece
                left -= len(piece)

    def _key(self, stored: str) -> str:
        return f"{self._prefix}{_FILES}/{stored}"

    @contextlib.contextmanager
    def _failing(self, done: str) -> Iterator[None]:
        try:
            yield
        except self._errors as error:
            raise UnavailableError(
                f"{self.name} cannot be {done}: {str(error).rstrip('.')}; check it, and try again."
            ) from error


class _Reader:
    """A file as boto3 reads it: in order, up to a length, hashed on the way."""

    def __init__(self, descriptor: int, length: int, meter: Meter) -> None:
        self._descriptor, self._length, self._meter = descriptor, length, meter
        self.at = 0
        self.digest = sha256()

    def read(self, count: int = -1) -> bytes:
        """The next `count` bytes, fewer only at the end: boto3 makes a part of what it gets."""
        left = self._length - self.at
        wanted = left if count < 0 else min(count, left)
        piece = b""
        while len(piece) < wanted and (more := os.pread(self._descriptor, wanted - len(piece), self.at + len(piece))):
            piece = piece + more if piece else more
        self.digest.update(piece)
        self.at += len(piece)
        self._meter(len(piece))
        return piece


@contextlib.contextmanager
def _writing(path: Path, flags: int) -> Iterator[int]:
    descriptor = os.open(path, os.O_WRONLY | os.O_CLOEXEC | os.O_NOFOLLOW | flags, 0o600)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def target_at(place: str, endpoint: str | None) -> DirectoryTarget | S3Target:
    """The target that the command line names: a directory, or `s3://BUCKET/PREFIX`.

    Raises:
        ConfigurationError: it names none.
        OrcasError: boto3 is missing.
    """
    if place.startswith("s3://"):
        bucket, _, prefix = place.removeprefix("s3://").partition("/")
        if not bucket:
            raise UsageError(f"{place} names no bucket: use s3://BUCKET/PREFIX.")
        return S3Target(bucket, prefix, endpoint)
    if endpoint is not None:
        raise UsageError("--target-endpoint needs a target s3://BUCKET/PREFIX, not a directory.")
    return DirectoryTarget(Path(os.path.abspath(Path(place).expanduser())))  # noqa: PTH100 - keeps symlinks
