"""Objects on their way between files and buckets, several at a time, and the counts of what became of them.

Invariant: what fails for one object keeps none of the others back, and is counted; what fails for all ends everything.
"""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, BinaryIO, Final
from urllib.parse import quote

from orcas.errors import OrcasError
from orcas.tools.copies.copying import write_at
from orcas.tools.imports.directory import content_type
from orcas.tools.imports.pool import Pool
from orcas.tools.imports.requests import ObjectError, Side, StoppedError, length_of, path_of
from orcas.tools.objects import Listed, listed
from orcas.tools.session import Headers, RefusedError, Session
from orcas.tools.transfers.download import Download
from orcas.tools.transfers.files import Tree, failing, files_below
from orcas.tools.transfers.places import Place, parts_of
from orcas.tools.transfers.upload import Uploads

_THREADS: Final = 8
# Parts of objects that are under way at a time, those of uploads each in memory.
_PARTS: Final = 4
# Failures that are kept with their reason; all are counted.
_FAILURES_MAX: Final = 100


@dataclass
class Outcome:
    """What was done. `left_out`: files that are none, as broken symbolic links; `unverified`: no digest was known."""

    objects: int = 0
    bytes: int = 0
    unverified: int = 0
    left_out: int = 0
    failed: int = 0
    failures: list[dict[str, str]] = field(default_factory=list)

    def document(self) -> dict[str, Any]:
        """The result for JSON."""
        return {
            "Objects": self.objects, "Bytes": self.bytes, "Unverified": self.unverified, "LeftOut": self.left_out,
            "Failed": self.failed, "Errors": self.failures,
        }  # fmt: skip


@dataclass(frozen=True)
class Shown:
    """The progress of a copy: a line for each object that is done, and bytes for a progress bar."""

    line: Callable[[str], None]
    advance: Callable[[str, int, int], None]
    dry_run: bool = False


class Copies:
    """Copies in one session. `headers`: those with which objects are stored."""

    def __init__(self, session: Session, headers: Headers, shown: Shown) -> None:
        self.done = Outcome()
        self._session = session
        self._side = Side(session, is_target=False)
        self._headers = headers
        self._shown = shown
        self._lock = threading.Lock()
        self._moved = self._total = 0
        self._pool = Pool(_THREADS, "orcas-copy")
        self._parts = ThreadPoolExecutor(_PARTS, "orcas-part")
        self._uploads = Uploads(session, self._parts, self._pool.stop, self._meter)

    def __enter__(self) -> Copies:
        self._pool.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        self._pool.__exit__(*error)
        self._parts.shutdown()

    def find(self, place: Place) -> Listed:
        """An object.

        Raises:
            RefusedError: there is none, or it may not be read.
        """
        path = path_of(place.bucket, place.key)
        try:
            given, _ = self._side.ask("HEAD", path)
        except ObjectError as error:
            if error.status == 404:
                raise RefusedError(404, f"There is no object {place}: name another one.", "NoSuchKey") from None
            raise _unreadable(place, self._explained(path, error)) from None
        return Listed(place.key, length_of(given), given.get("etag", "").strip('"'))

    def _explained(self, path: str, error: ObjectError) -> ObjectError:
        """Why HEAD was refused, whose answer has no document: that to GET has one."""
        try:
            with self._side.opened("GET", path):
                return error
        except ObjectError as explained:
            return explained

    def upload(self, files: Iterable[tuple[bytes, Place]]) -> None:
        """Store each file at its place, with the type that its name suggests unless one is given."""
        given = any(name == b"content-type" for name, _ in self._headers)
        if isinstance(files, list):
            self._total = sum(os.stat(path).st_size for path, _ in files)  # noqa: PTH116 - of bytes
        for path, place in files:
            headers = [*self._headers, *([] if given else [(b"content-type", content_type(path).encode())])]
            work = functools.partial(self._uploads.file, path, place, headers)
            self._submit(f"upload: {os.fsdecode(path)} to {place}", os.fsdecode(path), work)
        self._pool.wait()

    def upload_tree(self, top: bytes, place: Place) -> None:
        """Store every file below a directory."""
        left_out: list[bytes] = []
        self.upload(((path, place.below(key)) for key, path in files_below(top, left_out)))
        self.done.left_out = len(left_out)

    def upload_stream(self, stream: BinaryIO, place: Place, expected: int) -> None:
        """Store what a stream has.

        Raises:
            RefusedError: it cannot be stored.
        """
        try:
            size = 0 if self._shown.dry_run else self._uploads.stream(stream, place, self._headers, expected)
        except ObjectError as error:
            raise RefusedError(
                error.status, f"{place} cannot be written ({error}): remove the cause, and run it again.", error.code
            ) from None
        self._count(objects=1, bytes=size)
        self._shown.line(f"upload: - to {place}")

    def download(self, place: Place, tree: Tree, parts: list[bytes]) -> None:
        """Write one object to a file."""
        entry = self.find(place)
        self._total = entry.size
        self._download(place, entry, tree, parts)
        self._pool.wait()

    def download_all(self, place: Place, tree: Tree) -> None:
        """Write every object below a prefix to a file; one whose key is no path fails."""
        for entry in self._below(place):
            name = entry.key.removeprefix(place.key)
            # What marks a folder is no file.
            if name.endswith(b"/") and not entry.size:
                continue
            if (parts := parts_of(name)) is None:
                self._failed(
                    str(Place(place.bucket, entry.key)), ObjectError("its key is no path of a file", 0, "InvalidKey")
                )
            else:
                self._download(Place(place.bucket, entry.key), entry, tree, parts)
        self._pool.wait()

    def download_stream(self, place: Place, stream: BinaryIO) -> None:
        """Write one object to a stream.

        Raises:
            RefusedError: it cannot be read, or other bytes have arrived than it has.
        """
        entry = self.find(place)
        self._total = entry.size

        def write(_: int, piece: bytes) -> None:
            try:
                stream.write(piece)
            except OSError as error:
                # A transport would take it for a lost connection.
                raise StoppedError from error
            self._meter(len(piece))

        try:
            verified = self._shown.dry_run or Download(self._side, place, entry, write, self._pool.stop).run()
        except StoppedError as end:
            raise end.__cause__ or end from None
        except ObjectError as error:
            raise _unreadable(place, error) from None
        self._count(objects=1, bytes=entry.size, unverified=not verified)

    def copy(self, pairs: Iterable[tuple[Place, Place, int]]) -> None:
        """Copy each object to its place, within the server."""
        for source, target, size in pairs:
            work = functools.partial(self._copy, source, target, size)
            self._submit(f"copy: {source} to {target}", str(source), work)
        self._pool.wait()

    def copy_all(self, source: Place, target: Place) -> None:
        """Copy every object below a prefix."""
        found = self._below(source)
        if source.bucket == target.bucket and target.key.startswith(source.key):
            # The copies would be listed, and copied, as well.
            found = iter(list(found))
        self.copy(
            (Place(source.bucket, entry.key), target.below(entry.key.removeprefix(source.key)), entry.size)
            for entry in found
        )

    def _below(self, place: Place) -> Iterator[Listed]:
        return listed(self._session, place.bucket, place.key)

    def _copy(self, source: Place, target: Place, size: int) -> int:
        headers = [(b"x-amz-copy-source", quote(f"/{source.bucket}/").encode() + quote(source.key).encode())]
        if self._headers:
            headers += [(b"x-amz-metadata-directive", b"REPLACE"), *self._headers]
        answer = self._side.document(path_of(target.bucket, target.key), {}, "PUT", headers=headers)
        # The status may have been sent before the copy was made.
        if answer.tag.endswith("Error"):
            raise ObjectError("the server could not copy it", code="SlowDown")
        self._meter(size)
        return size

    def _download(self, place: Place, entry: Listed, tree: Tree, parts: list[bytes]) -> None:
        path = tree.path(parts)

        def work() -> int:
            with tree.written(parts) as descriptor:

                def write(at: int, piece: bytes) -> None:
                    with failing(path):
                        write_at(descriptor, piece, at)
                    self._meter(len(piece))

                read = Download(self._side, place, entry, write, self._pool.stop, self._parts)
                if not read.run():
                    self._count(unverified=1)
                modified = parsedate_to_datetime(read.modified).timestamp()
                os.utime(descriptor, (modified, modified))
            return entry.size

        self._submit(f"download: {place} to {os.fsdecode(path)}", str(place), work)

    def _submit(self, line: str, name: str, work: Callable[[], int]) -> None:
        """Do `work` in a thread, and say so when it is done."""
        if self._shown.dry_run:
            self._shown.line(f"(dry run) {line}")
            self._count(objects=1)
            return

        def run() -> None:
            size = work()
            self._count(objects=1, bytes=size)
            with self._lock:
                self._shown.line(line)

        self._pool.submit(run, functools.partial(self._failed, name))

    def _count(self, **more: int) -> None:
        with self._lock:
            for name, count in more.items():
                setattr(self.done, name, getattr(self.done, name) + count)

    def _meter(self, count: int) -> None:
        with self._lock:
            self._moved += count
            self._shown.advance("copying", self._moved, self._total)

    def _failed(self, name: str, error: ObjectError) -> None:
        with self._lock:
            self.done.failed += 1
            if len(self.done.failures) < _FAILURES_MAX:
                self.done.failures.append({"Key": name, "Code": error.code or OrcasError.code, "Message": str(error)})


def _unreadable(place: Place, error: ObjectError) -> OrcasError:
    """The error of a command that cannot read an object."""
    return RefusedError(
        error.status, f"{place} cannot be read ({error}): remove the cause, and run it again.", error.code
    )
