"""A model of versions: the history of each key, and the rules of S3 for what becomes of it.

Names of versions are the server's: a new version has none until `Version.id` is set. Must not know HTTP or Orcas.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from .model import ALWAYS, Condition, Metadata, Object, S3Error, common_prefix

NULL = "null"
# Key or common prefix, version (None for a common prefix), whether it is the newest of its key.
Entry = tuple[str, "Version | None", bool]


@dataclass(frozen=True)
class Retention:
    mode: str
    until: dt.datetime


@dataclass(frozen=True)
class Lock:
    """What an upload or a version says about its lock. `hold` is None if nobody has said anything."""

    retention: Retention | None = None
    hold: bool | None = None

    def forbids_removal(self, *, bypass: bool) -> bool:
        """Retention of this model never ends."""
        governed = self.retention is not None and self.retention.mode == "GOVERNANCE"
        return bool(self.hold) or (self.retention is not None and not (governed and bypass))


UNLOCKED = Lock()


@dataclass(eq=False)
class Version:
    """A version of a key: a delete marker if there is no content."""

    content: Object | None
    lock: Lock = UNLOCKED
    # The retention is the default of the bucket: it began when the server stored the version.
    by_default: bool = False
    id: str = ""
    # The time that the server first showed.
    modified: Any = None


@dataclass
class VersionedBucket:
    """Versions by key, newest first; no key has none."""

    versioning: str | None = None
    locking: bool = False
    # Mode and days.
    default: tuple[str, int] | None = None
    keys: dict[str, list[Version]] = field(default_factory=dict)
    # By name, what `keys` was.
    snapshots: dict[str, dict[str, list[Version]]] = field(default_factory=dict)

    def newest(self, key: str) -> Version | None:
        return next(iter(self.keys.get(key, [])), None)

    def current(self, key: str) -> Object | None:
        newest = self.newest(key)
        return newest.content if newest else None

    def versions(self) -> Iterator[tuple[str, Version]]:
        return ((key, version) for key, history in self.keys.items() for version in history)

    def add(self, key: str, version: Version) -> Version:
        """Without versioning there is one version, `null`. Where it is suspended, the new one replaces that."""
        history = self.keys.setdefault(key, [])
        if self.versioning != "Enabled":
            version.id = NULL
            history[:] = [other for other in history if other.id != NULL]
        if self.default and version.content and version.lock.retention is None:
            mode, days = self.default
            until = dt.datetime.now(dt.UTC) + dt.timedelta(days=days)
            version.lock, version.by_default = Lock(Retention(mode, until), version.lock.hold), True
        history.insert(0, version)
        return version

    def named(self, key: str, version_id: str) -> Version | None:
        return next((version for version in self.keys.get(key, []) if version.id == version_id), None)

    def remove(self, key: str, version: Version) -> None:
        self.keys[key].remove(version)
        if not self.keys[key]:
            del self.keys[key]


def copied(keys: dict[str, list[Version]]) -> dict[str, list[Version]]:
    """The same versions. Changes of their tags and locks are seen on one side only."""
    return {key: [replace(version) for version in history] for key, history in keys.items()}


class VersionedModel:
    """A store whose buckets stay to the end. Methods have the names of the corresponding calls of boto3."""

    def __init__(self) -> None:
        self.buckets: dict[str, VersionedBucket] = {}

    def put_bucket_versioning(self, bucket: str, status: str) -> None:
        found = self.buckets[bucket]
        if found.locking and status != "Enabled":
            raise S3Error("InvalidBucketState")
        found.versioning = status

    def put_object_lock_configuration(self, bucket: str, default: tuple[str, int] | None) -> None:
        found = self.buckets[bucket]
        if found.versioning != "Enabled":
            raise S3Error("InvalidBucketState")
        found.locking, found.default = True, default

    def delete_bucket(self, bucket: str) -> None:
        """Only as long as it is refused."""
        found = self.buckets[bucket]
        wrong = ["BucketNotEmpty"] if found.keys else []
        wrong += ["InvalidBucketState"] if found.snapshots else []
        if wrong:
            raise S3Error(*wrong)

    # Snapshots.

    def create_snapshot(self, bucket: str, name: str) -> None:
        found = self.buckets[bucket]
        if name in found.snapshots:
            raise S3Error("SnapshotAlreadyExists")
        found.snapshots[name] = copied(found.keys)

    def snapshot(self, bucket: str, name: str) -> dict[str, list[Version]]:
        found = self.buckets[bucket].snapshots.get(name)
        if found is None:
            raise S3Error("NoSuchSnapshot")
        return found

    def delete_snapshot(self, bucket: str, name: str) -> None:
        self.snapshot(bucket, name)
        del self.buckets[bucket].snapshots[name]

    def restore_snapshot(self, bucket: str, name: str) -> None:
        """Versions that were written since go, so there is none where they may be locked."""
        found = self.buckets[bucket]
        if found.locking:
            raise S3Error("InvalidBucketState", "NoSuchSnapshot")
        found.keys = copied(self.snapshot(bucket, name))

    def fork(self, bucket: str, new_bucket: str, snapshot: str | None) -> VersionedBucket:
        """With the versions of a moment, and the versioning and the locks that the bucket has now."""
        found = self.buckets[bucket]
        keys = found.keys if snapshot is None else self.snapshot(bucket, snapshot)
        new = VersionedBucket(found.versioning, found.locking, found.default, copied(keys))
        self.buckets[new_bucket] = new
        return new

    # Objects.

    def find(self, bucket: str, key: str, version_id: str | None) -> Version:
        """The version that a read or a copy finds."""
        if version_id is not None:
            named = self.buckets[bucket].named(key, version_id)
            if named is None:
                raise S3Error("NoSuchVersion")
            if named.content is None:
                raise S3Error("MethodNotAllowed", marker=named.id)
            return named
        newest = self.buckets[bucket].newest(key)
        if newest is None or newest.content is None:
            raise S3Error("NoSuchKey", marker=newest.id if newest else None)
        return newest

    def find_to_change(self, bucket: str, key: str, version_id: str | None) -> Version:
        """The version whose tags or lock are read or changed. Not even the current one may be a delete marker."""
        target = self.buckets[bucket].newest(key) if version_id is None else None
        if target is not None and target.content is None:
            raise S3Error("MethodNotAllowed")
        try:
            return self.find(bucket, key, version_id)
        except S3Error as error:
            raise S3Error(*error.codes) from None

    def check_lock(self, bucket: str, lock: Lock) -> None:
        if lock != UNLOCKED and not self.buckets[bucket].locking:
            raise S3Error("InvalidRequest")

    def put_object(self, bucket: str, key: str, new: Version, condition: Condition = ALWAYS) -> Version:
        found, wrong = self.buckets[bucket], list[str]()
        try:
            self.check_lock(bucket, new.lock)
        except S3Error as error:
            wrong += error.codes
        try:
            condition.check(found.current(key))
        except S3Error as error:
            wrong += error.codes
        if wrong:
            raise S3Error(*wrong)
        return found.add(key, new)

    def append(self, bucket: str, key: str, offset: int, new: Version) -> Version:
        """Put an object with a write offset. What is there gives the new version its metadata and tags."""
        current = self.buckets[bucket].current(key)
        if offset != (len(current.body) if current else 0):
            raise S3Error("InvalidWriteOffset")
        if current is None or new.content is None:
            return self.put_object(bucket, key, new)
        return self.put_object(bucket, key, Version(current.with_appended(new.content), new.lock))

    def copy_object(
        self, source: tuple[str, str, str | None], bucket: str, key: str,
        metadata: Metadata | None, tags: Metadata | None, lock: Lock,
    ) -> tuple[Version, Version]:  # fmt: skip
        """The source and the copy. Metadata and tags that are not replaced are those of the source; a lock never is."""
        # Copied onto itself, a version that is named becomes the newest.
        restores = source[2] is not None and self.buckets[bucket].versioning is not None
        if source[:2] == (bucket, key) and metadata is None and not restores:
            raise S3Error("InvalidRequest", "NoSuchKey", "NoSuchVersion")
        try:
            found = self.find(*source)
        except S3Error as error:
            # A delete marker that is named is an invalid source.
            code = "InvalidRequest" if error.codes == ("MethodNotAllowed",) else error.codes[0]
            raise S3Error(code, *(["InvalidRequest"] if lock != UNLOCKED else [])) from None
        assert found.content is not None
        copied = Version(found.content.copied(metadata, tags), lock)
        return found, self.put_object(bucket, key, copied)

    def delete_object(
        self, bucket: str, key: str, version_id: str | None, *, bypass: bool = False, condition: Condition = ALWAYS
    ) -> Version | None:
        """The delete marker that was made, or the version that was removed."""
        found = self.buckets[bucket]
        if bypass and not found.locking:
            raise S3Error("InvalidArgument")
        if version_id is None:
            condition.check(found.current(key))
            if found.versioning is not None:
                return found.add(key, Version(None))
            found.keys.pop(key, None)
            return None
        target = found.named(key, version_id)
        condition.check(target.content if target else None)
        if target is not None and target.lock.forbids_removal(bypass=bypass):
            raise S3Error("AccessDenied")
        if target is not None:
            found.remove(key, target)
        return target

    def expire(self, bucket: str, prefix: str) -> list[tuple[str, Version]]:
        """Apply a lifecycle rule by which every current version with this prefix is due; the markers that come."""
        found = self.buckets[bucket]
        due = [key for key in found.keys if key.startswith(prefix) and found.current(key)]
        made = [(key, self.delete_object(bucket, key, None)) for key in due]
        return [(key, marker) for key, marker in made if marker]

    def expire_noncurrent(self, bucket: str, prefix: str, newer: int) -> None:
        """Apply a lifecycle rule for noncurrent versions, delete markers included, that have been so for long enough: the
        newest ones stay, as many as `newer`, and so does what is locked."""
        found = self.buckets[bucket]
        for key in [key for key in found.keys if key.startswith(prefix)]:
            for version in found.keys[key][1 + newer :]:
                if not version.lock.forbids_removal(bypass=False):
                    found.remove(key, version)

    def expire_lone_markers(self, bucket: str, prefix: str) -> None:
        """Apply a lifecycle rule for delete markers that are the only version of their key."""
        found = self.buckets[bucket]
        for key in [key for key in found.keys if key.startswith(prefix)]:
            if [version.content for version in found.keys[key]] == [None]:
                del found.keys[key]

    def put_object_tagging(self, bucket: str, key: str, version_id: str | None, tags: Metadata) -> Version:
        """The version stays the same."""
        target = self.find_to_change(bucket, key, version_id)
        assert target.content is not None
        target.content = replace(target.content, tags=tags)
        return target

    # Locks.

    def put_object_retention(
        self, bucket: str, key: str, version_id: str | None, new: Retention | None, *, bypass: bool
    ) -> Version:
        """Whoever does not bypass governance can only extend retention; nobody can do more in compliance mode."""
        if not self.buckets[bucket].locking:
            raise S3Error("InvalidRequest", "InvalidArgument")
        target = self.find_to_change(bucket, key, version_id)
        now = target.lock.retention
        extends = now is None or (new is not None and new.mode == now.mode and new.until >= now.until)
        if now is not None and not extends and not (now.mode == "GOVERNANCE" and bypass):
            raise S3Error("AccessDenied")
        target.lock = Lock(new, target.lock.hold)
        return target

    def put_object_legal_hold(self, bucket: str, key: str, version_id: str | None, *, on: bool) -> Version:
        if not self.buckets[bucket].locking:
            raise S3Error("InvalidRequest")
        target = self.find_to_change(bucket, key, version_id)
        target.lock = Lock(target.lock.retention, on)
        return target

    # Lists.

    def list_objects(self, bucket: str, prefix: str, delimiter: str) -> list[tuple[str, Object | None]]:
        """All current objects, and common prefixes (those with None), in the order of their UTF-8 bytes."""
        found, entries = self.buckets[bucket], dict[str, Object | None]()
        for key in found.keys:
            content = found.current(key)
            if content and key.startswith(prefix):
                common = common_prefix(key, prefix, delimiter)
                entries[common or key] = None if common else content
        return [(name, entries[name]) for name in sorted(entries, key=str.encode)]

    def list_entries(
        self, bucket: str, prefix: str, delimiter: str, key_marker: str = "", version_marker: str | None = None
    ) -> list[Entry]:
        """All versions, newest first, and common prefixes behind the markers, in the order of the UTF-8 bytes of keys. A
        key marker below a common prefix is behind all of it."""
        entries: list[Entry] = []
        for key, history in sorted(self.buckets[bucket].keys.items(), key=lambda item: item[0].encode()):
            if not key.startswith(prefix):
                continue
            common = common_prefix(key, prefix, delimiter)
            if common is not None:
                if common.encode() > key_marker.encode() and (common, None, False) not in entries:
                    entries.append((common, None, False))
                continue
            passed = key.encode() <= key_marker.encode()
            for at, version in enumerate(history):
                if not passed:
                    entries.append((key, version, at == 0))
                # Only versions of the key marker that are older than the version marker are behind both.
                passed &= not (key == key_marker and version.id == version_marker)
        return entries
