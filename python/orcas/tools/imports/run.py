"""An import: both sides are listed and compared, and what the store lacks is copied, several objects at a time.

Invariant: no state is kept anywhere else, so an import that was interrupted at any point is continued by running it again:
an object is whole or absent, and of a key with versions the store has the oldest ones, without a gap.
"""

from __future__ import annotations

import functools
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, Final, Protocol, runtime_checkable

from orcas.errors import OrcasError, UnavailableError, UsageError
from orcas.tools.bucket_settings import is_durable
from orcas.tools.imports.pool import Pool
from orcas.tools.imports.requests import ObjectError
from orcas.tools.imports.server import Copied
from orcas.tools.imports.target import Target
from orcas.tools.objects import Listed, Version, listed, listed_versions
from orcas.tools.session import Session

Advance = Callable[[str, int, int], None]

# Failures that are kept with their reason; all are counted.
_FAILURES_MAX: Final = 100
_GONE: Final = 404
# The answer to HEAD has no code.
_GONE_CODES: Final = ("NoSuchKey", "NoSuchVersion", "status 404")


class Source(Protocol):
    """Where objects come from. `left_out`: what was seen there that is no object."""

    name: str
    left_out: Counter[str]

    def listed(self, bucket: str, prefix: bytes) -> Iterator[Listed]:
        """The objects of a bucket, in the order of their keys."""

    def is_same(self, bucket: str, entry: Listed, there: Listed, target: Target) -> bool:
        """Whether the store has an object of the same size that was imported from this one."""

    def copy(self, bucket: str, entry: Listed, target: Target) -> Copied:
        """Store an object."""

    def create(self, bucket: str, target: Target) -> None:
        """Create the bucket in the store if there is none."""

    def settle(self, bucket: str, target: Target, *, dry_run: bool) -> Iterator[str]:
        """Bring over what the bucket has beside objects, when they are there; what of it is not taken."""


@runtime_checkable
class VersionedSource(Source, Protocol):
    """One whose objects may have versions."""

    def versioning(self, bucket: str) -> str:
        """Enabled, Suspended, or nothing."""

    def versions(self, bucket: str, prefix: bytes) -> Iterator[Version]:
        """All versions of the objects of a bucket, in the order of their keys, the newest of a key first."""

    def problem(self, entry: Version) -> str:
        """Why a version cannot be imported, if that is known."""


class MovableSource(Source, Protocol):
    """One whose objects can be removed when the store has them."""

    def remove(self, bucket: str, versions: Sequence[Listed], target: Target) -> None:
        """Remove an object of which these are all versions, the oldest first, if the store has them."""


@dataclass
class Outcome:
    """What an import did. Bytes are those of objects that were copied."""

    source: str
    dry_run: bool
    buckets: int = 0
    copied: int = 0
    bytes: int = 0
    present: int = 0
    removed: int = 0
    delete_markers: int = 0
    gone: int = 0
    unverified: int = 0
    failed: int = 0
    seconds: float = 0.0
    failures: list[dict[str, str]] = field(default_factory=list)
    not_kept: Counter[str] = field(default_factory=Counter)

    def document(self) -> dict[str, Any]:
        """The result for JSON."""
        return {**vars(self), "not_kept": dict(sorted(self.not_kept.items()))}


@dataclass
class _History:
    """The versions of a key from the oldest on, and those that the store has, if they are known.

    `is_complete`: none of them had to be left out.
    """

    key: bytes
    versions: list[Version]
    have: list[Version] | None
    is_complete: bool
    counted: bool = False


class Import:
    """One import under way.

    Args:
        session: the store.
        source: where the objects are.
        threads: how many objects are copied at a time.
        advance: is told of the bytes so far.
        dry_run: copy nothing, and count what would be copied.
        moving: `source`, if its objects are to be removed when the store has them.
    """

    def __init__(
        self,
        session: Session,
        source: Source,
        threads: int,
        advance: Advance,
        *,
        dry_run: bool = False,
        moving: MovableSource | None = None,
    ) -> None:
        self._session = session
        self._source = source
        self._pool = Pool(threads, "orcas-import")
        self._advance = advance
        self._lock = threading.Lock()
        self._done = Outcome(source.name, dry_run)
        self._moving = None if dry_run else moving

    def run(self, buckets: list[tuple[str, str, bytes]], prefix: bytes, versions: bool) -> Outcome:
        """Import each of `buckets`: its name (or directory) in the source, that in the store, what is put before every key.

        Raises:
            UnavailableError: one of the servers is gone, or the store takes nothing more.
            OrcasError: a bucket cannot be read or created. What was imported before stays.
        """
        began = time.monotonic()
        with self._pool:
            for name, target_name, before in buckets:
                target = Target(self._session, target_name, before, self._pool.stop)
                try:
                    source = self._source if versions and isinstance(self._source, VersionedSource) else None
                    # A bucket that never was versioned has only its objects.
                    if source is not None and (status := source.versioning(name)):
                        self._bucket_with_versions(source, name, prefix, target, status)
                    else:
                        self._bucket(name, prefix, target)
                    self._done.not_kept.update(self._source.settle(name, target, dry_run=self._done.dry_run))
                except ObjectError as error:
                    raise OrcasError(
                        f"{name} cannot be imported ({error}): remove the cause, and run it again."
                    ) from None
                self._done.buckets += 1
        self._done.not_kept.update(self._source.left_out)
        self._done.seconds = round(time.monotonic() - began, 3)
        return self._done

    def _bucket(self, bucket: str, prefix: bytes, target: Target) -> None:
        entries = self._source.listed(bucket, prefix)
        # Before the bucket is made: there may be none of this name.
        first = next(entries, None)
        self._create(bucket, target)
        there = listed(self._session, target.bucket, target.prefix + prefix) if self._is_there(target) else iter(())
        for entry, known in _paired(bucket, _chained(first, entries), there, len(target.prefix)):
            is_same = known is not None and known.size == entry.size and known.etag == entry.etag
            if is_same and self._moving is None:
                self._count(present=1)
            else:
                self._submit(self._object, bucket, entry, known, target)
        self._pool.wait()

    def _bucket_with_versions(
        self, source: VersionedSource, bucket: str, prefix: bytes, target: Target, status: str
    ) -> None:
        entries = source.versions(bucket, prefix)
        first = next(entries, None)
        self._create(bucket, target)
        is_there = self._is_there(target)
        # A delete marker in a bucket that was never versioned, or is no longer, would delete.
        if not self._done.dry_run and target.versioning() != "Enabled":
            target.set_versioning("Enabled")
        there = listed_versions(self._session, target.bucket, target.prefix + prefix) if is_there else iter(())
        before = len(target.prefix)
        known_keys = groupby(there, lambda version: version.key[before:])
        known_key, known = next(known_keys, (None, iter(())))
        for key, group in groupby(_chained(first, entries), lambda version: version.key):
            while known_key is not None and known_key < key:
                known_key, known = next(known_keys, (None, iter(())))
            have = list(known)[::-1] if known_key == key else []
            versions, is_complete = [], True
            for version in group:
                if problem := source.problem(version):
                    self._failed(bucket, key, ObjectError(problem))
                    is_complete = False
                else:
                    versions.append(version)
            self._submit(self._history, bucket, _History(key, versions[::-1], have, is_complete), target)
        self._pool.wait()
        if status == "Suspended" and not self._done.dry_run:
            target.set_versioning(status)

    def _create(self, bucket: str, target: Target) -> None:
        if not self._done.dry_run:
            self._source.create(bucket, target)
        if self._moving is not None and not is_durable(self._session, target.bucket):
            raise UsageError(
                f"The bucket {target.bucket} acknowledges what is not durable yet, so nothing can be moved there: give it "
                "the durability sync, or leave out --move."
            )

    def _is_there(self, target: Target) -> bool:
        return not self._done.dry_run or target.exists()

    def _object(self, bucket: str, entry: Listed, known: Listed | None, target: Target) -> None:
        """Copy an object unless it is there."""
        if known is not None and known.size == entry.size and self._source.is_same(bucket, entry, known, target):
            self._count(present=1)
        else:
            self._copy(bucket, entry, target)
        self._remove(bucket, [entry], target)

    def _remove(self, bucket: str, versions: Sequence[Listed], target: Target) -> None:
        if self._moving is not None and versions:
            self._moving.remove(bucket, versions, target)
            self._count(removed=1)

    def _copy(self, bucket: str, entry: Listed, target: Target) -> None:
        copied = Copied(entry.size) if self._done.dry_run else self._source.copy(bucket, entry, target)
        with self._lock:
            self._done.not_kept.update(copied.not_kept)
        self._count(copied=1, bytes=copied.size, unverified=not copied.is_verified)
        self._advance(bucket, self._done.bytes, 0)

    def _history(self, bucket: str, history: _History, target: Target) -> None:
        """Copy the versions of a key that the store lacks."""
        # Tried again, it must not copy what a request without an answer has stored.
        have, history.have = history.have, None
        if have is None:
            have = target.versions_of(history.key)
        same = len(have) <= len(history.versions) and all(
            mine.is_marker == theirs.is_marker
            and mine.size == theirs.size
            and (mine.is_marker or self._source.is_same(bucket, theirs, mine, target))
            for mine, theirs in zip(have, history.versions, strict=False)
        )
        if not same:
            raise ObjectError("the store has other versions of it, so import into another bucket or prefix")
        if not history.counted:
            history.counted = True
            self._count(present=len(have))
        for version in history.versions[len(have) :]:
            if self._pool.stop.is_set():
                return
            if not version.is_marker:
                self._copy(bucket, version, target)
                continue
            if not self._done.dry_run:
                target.delete(version.key)
            self._count(delete_markers=1)
        if history.is_complete:
            self._remove(bucket, history.versions, target)

    def _submit(self, work: Callable[..., None], bucket: str, what: Listed | _History, *rest: Any) -> None:
        self._pool.submit(
            functools.partial(work, bucket, what, *rest), functools.partial(self._failed, bucket, what.key)
        )

    def _count(self, **more: int) -> None:
        with self._lock:
            for name, count in more.items():
                setattr(self._done, name, getattr(self._done, name) + count)

    def _failed(self, bucket: str, key: bytes, error: ObjectError) -> None:
        if error.status == _GONE and not error.at_target and error.code in _GONE_CODES:
            self._count(gone=1)
            return
        # A store that is full, or stops, takes none of the others.
        if error.at_target and error.is_busy:
            self._pool.end(
                UnavailableError(f"The import has stopped, because {error}: remove the cause, and run it again.")
            )
            return
        with self._lock:
            self._done.failed += 1
            if len(self._done.failures) < _FAILURES_MAX:
                text = key.decode(errors="backslashreplace")
                self._done.failures.append({"place": bucket, "key": text, "reason": str(error)})


def _chained(first: Any, rest: Iterator[Any]) -> Iterator[Any]:
    if first is not None:
        yield first
        yield from rest


def _paired(
    bucket: str, entries: Iterator[Listed], there: Iterator[Listed], skip: int
) -> Iterator[tuple[Listed, Listed | None]]:
    """Each entry with the object of the same key that the store has; the keys of those have `skip` bytes before."""
    have = next(there, None)
    before = b""
    for entry in entries:
        if entry.key < before:
            raise UnavailableError(
                f"The keys of {bucket} are not listed in order, so it cannot be compared: import it with --prefix, "
                "part by part."
            )
        before = entry.key
        while have is not None and have.key[skip:] < entry.key:
            have = next(there, None)
        yield entry, have if have is not None and have.key[skip:] == entry.key else None
