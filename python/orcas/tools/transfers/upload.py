"""Uploads of files and of streams. The server verifies every byte: the signature of a request has the digest of its body.

Invariants: an object appears whole or not at all. A file of more than one part that is interrupted continues with the
parts that have arrived, each compared with the file, if it is uploaded again to the same place with the same headers;
the note that says which upload this is lies outside the store. A stream begins anew.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import stat
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import BinaryIO, Final

from orcas.settings.config import state_directory
from orcas.tools.imports.directory import pieces, reading
from orcas.tools.imports.pieces import PART_BYTES, part_bytes
from orcas.tools.imports.pool import each, insist
from orcas.tools.imports.requests import ChangedError, ObjectError, Side
from orcas.tools.imports.target import Part, Target, Upload
from orcas.tools.session import Headers, Session
from orcas.tools.transfers.places import Place

# Parts of a stream that wait to be sent, each in memory.
_WAITING: Final = 4
_PARTS_MAX: Final = 10_000
_NOTES_DAYS: Final = 30


class Uploads:
    """Uploads to one server, parts of them by `threads`. `meter` is told of what has arrived; `stop` ends everything."""

    def __init__(
        self, session: Session, threads: ThreadPoolExecutor, stop: threading.Event, meter: Callable[[int], None]
    ) -> None:
        self._session = session
        self._threads = threads
        self._stop = stop
        self._meter = meter

    def file(self, path: bytes, place: Place, headers: Headers) -> int:
        """Upload a file, or what a pipe has; how many bytes that were.

        Raises:
            ObjectError: it cannot be read or stored.
            ChangedError: it changed meanwhile, so that nothing was stored.
        """
        target = self._target(place)
        with reading(path, flags=0) as descriptor:
            before = os.fstat(descriptor)
            if not stat.S_ISREG(before.st_mode):
                with os.fdopen(os.dup(descriptor), "rb") as stream:
                    return self.stream(stream, place, headers, 0)
            if before.st_size > PART_BYTES:
                self._in_parts(
                    descriptor, target, place.key, headers, _Note.of(self._session, path, before, place, headers)
                )
            else:
                body = b"".join(pieces(descriptor, before.st_size))
                _check_unchanged(descriptor, before)
                target.put(place.key, body, headers)
                self._meter(len(body))
            return before.st_size

    def stream(self, stream: BinaryIO, place: Place, headers: Headers, expected: int) -> int:
        """Upload what comes until the end; how many bytes that were. `expected`: about how many, if more than 156 GiB.

        Raises:
            ObjectError: it cannot be stored.
        """
        target, step = self._target(place), part_bytes(expected)
        first = stream.read(step)
        if len(first) < step:
            insist(lambda: target.put(place.key, first, headers), self._stop)
            self._meter(len(first))
            return len(first)
        with target.upload(place.key, headers) as upload:
            size, waiting = 0, deque[Future[Part]]()
            for number, body in enumerate(_whole(first, stream, step), 1):
                if number > _PARTS_MAX:
                    raise ObjectError(
                        "it has more bytes than 10,000 parts take, so say about how many: --expected-size"
                    )
                waiting.append(self._threads.submit(self._send, upload, number, body))
                size += len(body)
                if len(waiting) == _WAITING:
                    upload.parts.append(waiting.popleft().result())
            upload.parts += [future.result() for future in waiting]
            insist(upload.complete, self._stop)
        return size

    def _target(self, place: Place) -> Target:
        return Target(self._session, place.bucket, b"", self._stop)

    def _in_parts(self, descriptor: int, target: Target, key: bytes, headers: Headers, note: _Note) -> None:
        before = os.fstat(descriptor)
        size, step = before.st_size, part_bytes(before.st_size)
        upload, there = self._begun(target, key, headers, note)

        def send(number: int) -> Part:
            start = (number - 1) * step
            body = b"".join(pieces(descriptor, min(step, size - start), start))
            if there.get(number) == (found := _part(body)).etag:
                self._meter(len(body))
                return found
            return self._send(upload, number, body)

        try:
            upload.parts += each(self._threads, send, range(1, -(-size // step) + 1))
            _check_unchanged(descriptor, before)
            insist(upload.complete, self._stop)
        except ObjectError as error:
            # What may go away, and Ctrl-C, leave the parts for the next attempt.
            if isinstance(error, ChangedError) or not error.is_transient:
                note.forget()
                with contextlib.suppress(Exception):
                    upload.side.ask("DELETE", upload.path, {"uploadId": upload.id})
            raise
        note.forget()

    def _begun(self, target: Target, key: bytes, headers: Headers, note: _Note) -> tuple[Upload, dict[int, str]]:
        """An upload, and the ETags of the parts that it has."""
        path = target.path(key)
        if known := note.read():
            with contextlib.suppress(ObjectError):
                return Upload(target.side, path, known, target.check, []), _parts_of(target.side, path, known)
        made = target.side.document(path, {"uploads": ""}, "POST", headers=headers).findtext("{*}UploadId") or ""
        note.write(made)
        return Upload(target.side, path, made, target.check, []), {}

    def _send(self, upload: Upload, number: int, body: bytes) -> Part:
        query = {"partNumber": f"{number}", "uploadId": upload.id}
        given, _ = insist(lambda: upload.side.ask("PUT", upload.path, query, body), self._stop)
        self._meter(len(body))
        return Part(b"", given["etag"].strip('"'))


class _Note:
    """Says which upload a file is in. Without a directory for notes, an upload begins anew."""

    def __init__(self, path: Path | None) -> None:
        self._path = path

    @classmethod
    def of(cls, session: Session, path: bytes, found: os.stat_result, place: Place, headers: Headers) -> _Note:
        """The note of a file as it was found, on its way to this place."""
        about = [
            session.transport.host, str(place), os.fsdecode(os.path.realpath(path)), found.st_size, found.st_mtime_ns,
            found.st_ino, [(name.decode(), value.decode("latin-1")) for name, value in headers],
        ]  # fmt: skip
        top = state_directory()
        name = hashlib.sha256(json.dumps(about).encode()).hexdigest()
        return cls(None if top is None else top / "uploads" / name)

    def read(self) -> str:
        """The id of the upload; empty if it is not known."""
        with contextlib.suppress(OSError, UnicodeDecodeError):
            return "" if self._path is None else self._path.read_text(encoding="ascii")
        return ""

    def write(self, upload: str) -> None:
        """Note the id, and remove notes whose uploads nobody has continued."""
        if self._path is None:
            return
        with contextlib.suppress(OSError):
            self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            self._path.write_text(upload, encoding="ascii")
            for other in self._path.parent.iterdir():
                if other.stat().st_mtime < time.time() - _NOTES_DAYS * 86_400:
                    other.unlink()

    def forget(self) -> None:
        """The upload has ended."""
        with contextlib.suppress(OSError):
            if self._path is not None:
                self._path.unlink()


def _parts_of(side: Side, path: str, upload: str) -> dict[int, str]:
    """The ETags of the parts that an upload has.

    Raises:
        ObjectError: there is no such upload.
    """
    found: dict[int, str] = {}
    marker = "0"
    while True:
        document = side.document(path, {"part-number-marker": marker, "uploadId": upload})
        for part in document.iterfind("{*}Part"):
            found[int(part.findtext("{*}PartNumber") or 0)] = (part.findtext("{*}ETag") or "").strip('"')
        if document.findtext("{*}IsTruncated") != "true":
            return found
        marker = document.findtext("{*}NextPartNumberMarker") or ""


def _part(body: bytes) -> Part:
    digest = hashlib.md5(body, usedforsecurity=False)
    return Part(digest.digest(), digest.hexdigest())


def _whole(first: bytes, stream: BinaryIO, step: int) -> Iterator[bytes]:
    body = first
    while body:
        yield body
        body = stream.read(step)


def _check_unchanged(descriptor: int, before: os.stat_result) -> None:
    after = os.fstat(descriptor)
    if (after.st_mtime_ns, after.st_size) != (before.st_mtime_ns, before.st_size):
        raise ChangedError
