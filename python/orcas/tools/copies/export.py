"""Export: every current object as a plain file, with an index of what does not fit into one.

A file appears whole or not at all, under the path that `paths` gives its key, with the object's time. An export is not the
state of one moment: each object is as it was when its turn came, and one that was deleted meanwhile is left out.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from http import HTTPStatus
from pathlib import Path
from typing import IO, Any, Final

from orcas.errors import OrcasError, UnavailableError, because
from orcas.tools.copies.copying import write_at
from orcas.tools.copies.paths import PART, SIDE, bucket_name, path_of
from orcas.tools.objects import Listed, buckets, listed, opened
from orcas.tools.salvage import readable_salvage, text_fields
from orcas.tools.session import RefusedError, Session

INDEX: Final = "index.jsonl"
LOST: Final = "lost.jsonl"
_WORKERS: Final = 4
# Objects under way at a time.
_WINDOW: Final = 32

Advance = Callable[[str, int, int], None]


@dataclass
class Export:
    """An export under way, and in the end its result."""

    session: Session
    target: Path
    resume: bool
    advance: Advance
    # Leave out what is damaged, and list it, as what the store refuses to open is in any case.
    skip_lost: bool = False
    objects: int = 0
    size: int = 0
    skipped: int = 0
    gone: int = 0
    lost: list[dict[str, Any]] = field(default_factory=list)
    _directories: set[Path] = field(default_factory=set)
    _moved: dict[str, str] = field(default_factory=dict)
    _pending: deque[Future[dict[str, Any] | None]] = field(default_factory=deque)

    def run(self, bucket: str | None, prefix: bytes) -> dict[str, Any]:
        """Export one bucket or all of them.

        Raises:
            OrcasError: there is no such bucket, an object cannot be read, or a file not be written.
        """
        with _failing(self.target):
            # Before anything is made: what is not there leaves nothing behind.
            if bucket is not None and next(listed(self.session, bucket, prefix), None) is None and prefix:
                raise OrcasError(
                    f"No key of {bucket} begins with {prefix.decode(errors='replace')}: give another --prefix."
                )
            self._prepare_target()
            unfinished = self.target / f"{INDEX}{PART}"
            with ThreadPoolExecutor(_WORKERS, "orcas-export") as pool, _replaced(unfinished, "w") as index:
                try:
                    for name in [bucket] if bucket is not None else buckets(self.session):
                        self._bucket(name, prefix, pool, index)
                except BaseException:
                    pool.shutdown(cancel_futures=True)
                    raise
            self._finish_index(unfinished)
            if self.skip_lost or self.lost:
                self._list_lost()
        return {
            "target": str(self.target), "objects": self.objects, "bytes": self.size, "skipped": self.skipped,
            "gone": self.gone, **({"lost": len(self.lost)} if self.skip_lost or self.lost else {}),
        }  # fmt: skip

    def _prepare_target(self) -> None:
        self.target.mkdir(parents=True, exist_ok=True)
        if not self.resume and any(self.target.iterdir()):
            raise UnavailableError(f"{self.target} is not empty: choose another directory, or continue with --resume.")
        probe = self.target / f"case{PART}"
        probe.touch()
        try:
            if probe.with_name(probe.name.upper()).exists():
                raise UnavailableError(
                    f"{self.target} is case-insensitive, but keys are not: choose another file system."
                )
        finally:
            probe.unlink()

    def _bucket(self, bucket: str, prefix: bytes, pool: ThreadPoolExecutor, index: IO[str]) -> None:
        top = self.target / bucket_name(bucket)
        top.mkdir(exist_ok=True)
        self._directories = {top}
        for entry in listed(self.session, bucket, prefix):
            path = top / path_of(entry.key)
            self._make_directory(path.parent, top, index)
            if path.is_dir():
                path = path.with_name(path.name + SIDE)
            self._pending.append(pool.submit(self._object, bucket, entry, path))
            while len(self._pending) >= _WINDOW:
                self._collect_one(index)
        self._collect_all(index)

    def _make_directory(self, directory: Path, top: Path, index: IO[str]) -> None:
        """The directories down to `directory`; a file that is in the way, an object's as well, is renamed."""
        if directory in self._directories:
            return
        # Neighbours share their directories, and what lies behind is not looked at again.
        wanted = [directory, *directory.parents[: len(directory.relative_to(top).parts)]]
        for path in reversed(wanted):
            if path not in self._directories and not path.is_dir():
                self._collect_all(index)
                if path.exists():
                    renamed = path.with_name(path.name + SIDE)
                    path.rename(renamed)
                    self._moved[self._relative(path)] = self._relative(renamed)
                path.mkdir()
        self._directories = set(wanted)

    def _object(self, bucket: str, entry: Listed, path: Path) -> dict[str, Any] | None:
        try:
            return self._copy(bucket, entry, path)
        except (RefusedError, UnavailableError) as error:
            # Without the key of a customer, or with a key that is disabled, an object is refused though nothing is lost.
            refused = isinstance(error, RefusedError) and error.status < HTTPStatus.INTERNAL_SERVER_ERROR
            if not (refused or self.skip_lost):
                raise
            # A store that is gone altogether has lost nothing.
            next(iter(buckets(self.session)), None)
            path.with_name(path.name + PART).unlink(missing_ok=True)
            return {
                "lost": {"bucket": bucket, **text_fields("key", entry.key), "size": entry.size, "reason": str(error)}
            }

    def _copy(self, bucket: str, entry: Listed, path: Path) -> dict[str, Any] | None:
        with opened(self.session, bucket, entry.key) as found:
            if found is None:
                return None
            line: dict[str, Any] = {
                "bucket": bucket, **text_fields("key", entry.key), "path": self._relative(path), "size": found.size,
                "etag": found.etag, "modified": found.modified, "headers": found.headers, "metadata": found.metadata,
            }  # fmt: skip
            line["skipped"] = self.resume and _is_there(path, found.size, found.modified)
            if not line["skipped"]:
                self._write(path, found.answer.pieces, found.size, found.modified)
            return line

    def _write(self, path: Path, pieces: Iterator[bytes], size: int, modified: float) -> None:
        part = path.with_name(path.name + PART)
        with _replaced(part, "wb") as file:
            at = 0
            for piece in pieces:
                write_at(file.fileno(), piece, at)
                at += len(piece)
        if at != size:
            raise UnavailableError(
                f"The object for {path} arrived with {at} bytes instead of {size}: continue with --resume."
            )
        os.utime(part, (modified, modified))
        part.replace(path)

    def _collect_all(self, index: IO[str]) -> None:
        while self._pending:
            self._collect_one(index)

    def _collect_one(self, index: IO[str]) -> None:
        line = self._pending.popleft().result()
        if line is None:
            self.gone += 1
            return
        if "lost" in line:
            self.lost.append(line["lost"])
            return
        skipped = line.pop("skipped")
        self.skipped += skipped
        self.objects += 1
        self.size += line["size"]
        index.write(json.dumps(line) + "\n")
        self.advance(line["bucket"], self.size, 0)

    def _finish_index(self, unfinished: Path) -> None:
        """The index under its name, with the paths that files have in the end."""
        if self._moved:
            fixed = unfinished.with_name(f"{INDEX}.moved{PART}")
            with unfinished.open(encoding="utf-8") as lines, _replaced(fixed, "w") as index:
                for text in lines:
                    line = json.loads(text)
                    line["path"] = self._moved.get(line["path"], line["path"])
                    index.write(json.dumps(line) + "\n")
            fixed.replace(unfinished)
        unfinished.replace(self.target / INDEX)

    def _list_lost(self) -> None:
        """List the objects that were not exported, and those that a salvage knows to be missing beside them."""
        lines = list(self.lost)
        if self.session.salvage is not None:
            shown = {(line["bucket"], line["key"]) for line in lines}
            document = readable_salvage(self.session.salvage)
            lines += [loss for loss in document["losses"] if (loss["bucket"], loss["key"]) not in shown]
            lines += [{**named, "reason": "may have been deleted or replaced"} for named in document["named"]]
        unfinished = self.target / f"{LOST}{PART}"
        with _replaced(unfinished, "w") as file:
            file.writelines(json.dumps(line) + "\n" for line in lines)
        unfinished.replace(self.target / LOST)

    def _relative(self, path: Path) -> str:
        return path.relative_to(self.target).as_posix()


def _is_there(path: Path, size: int, modified: float) -> bool:
    with contextlib.suppress(FileNotFoundError):
        found = path.lstat()
        return found.st_size == size and int(found.st_mtime) == int(modified)
    return False


@contextlib.contextmanager
def _replaced(path: Path, mode: str) -> Iterator[Any]:
    """A new file at `path`, its owner's alone, whatever was there."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, mode, encoding=None if "b" in mode else "utf-8") as file:
        yield file


@contextlib.contextmanager
def _failing(target: Path) -> Iterator[None]:
    try:
        yield
    except OrcasError:
        raise
    except OSError as error:
        raise UnavailableError(f"{error.filename or target} cannot be written: {because(error)}.") from error
