"""What every rule of the test of versions uses: how it names versions, and what the answers about one must say."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from typing import Any

from hypothesis.stateful import invariant

from .calls import Calls, tags_in
from .model import Object
from .versions import NULL, UNLOCKED, Lock, Retention, Version, VersionedBucket, VersionedModel

# Few, so that they have long histories.
KEYS = ("a", "a/b", "a/c", "a b+c%2F", "é/1")
BUCKETS = ("plain", "locks")
UNKNOWN = "0f" * 16


def named(version_id: str | None) -> dict[str, str]:
    """The arguments of a request about a version."""
    return {} if version_id is None else {"VersionId": version_id}


def locked(lock: Lock) -> dict[str, Any]:
    """Those of an upload with a lock."""
    arguments: dict[str, Any] = {}
    if lock.retention is not None:
        arguments |= {"ObjectLockMode": lock.retention.mode, "ObjectLockRetainUntilDate": lock.retention.until}
    if lock.hold is not None:
        arguments["ObjectLockLegalHoldStatus"] = "ON" if lock.hold else "OFF"
    return arguments


def lock_in(answer: Any) -> Lock:
    """What a read says about the lock."""
    mode, hold = answer.get("ObjectLockMode"), answer.get("ObjectLockLegalHoldStatus")
    retention = Retention(mode, answer["ObjectLockRetainUntilDate"]) if mode else None
    return Lock(retention, None if hold is None else hold == "ON")


@dataclass(frozen=True)
class Upload:
    """An open upload of one part, and what becomes of it."""

    bucket: str
    key: str
    id: str
    # Of the part.
    etag: str
    new: Version


class VersionedCalls(Calls):
    """A server, and the model of its versions."""

    def __init__(self) -> None:
        super().__init__()
        self.model = VersionedModel()
        # Every id that a version of this sequence got, and the last one that was deleted.
        self.given: set[str] = set()
        self.gone = UNKNOWN
        # Bucket, key and id of what must stay, whatever the model makes of deletions.
        self.kept: set[tuple[str, str, str]] = set()
        self.uploads: list[Upload] = []

    def create_bucket(self, bucket: str, *, locking: bool) -> None:
        self.client.create_bucket(Bucket=self.name(bucket), ObjectLockEnabledForBucket=locking)
        self.model.buckets[bucket] = VersionedBucket("Enabled" if locking else None, locking)

    def lock_changed(self, bucket: str, key: str, version: Version) -> None:
        if version.lock.forbids_removal(bypass=True):
            self.kept.add((bucket, key, version.id))
        else:
            self.kept.discard((bucket, key, version.id))

    @invariant()
    def no_locked_version_is_ever_gone(self) -> None:
        assert all(self.model.buckets[bucket].named(key, version_id) for bucket, key, version_id in self.kept)

    def lock_for(self, bucket: str, lock: Lock) -> Lock:
        """Where there are no locks, an upload seldom asks for one."""
        return lock if self.model.buckets[bucket].locking or lock.hold is False else UNLOCKED

    def choose(self, bucket: str, pick: int) -> tuple[str, str | None]:
        """The key and the version that a request names: usually of what exists."""
        if pick % 8 == 0:
            key = KEYS[pick % len(KEYS)]
            return key, (None, NULL, self.gone, UNKNOWN)[pick // 8 % 4]
        found = self.model.buckets[bucket]
        there = [(key, version.id) for key, version in found.versions()]
        there += [(key, version.id) for key, version in found.versions() if version.lock.retention]
        names = [*there, *there, *((key, None) for key in found.keys), (KEYS[pick % len(KEYS)], None)]
        return names[pick % len(names)]

    def target(self, bucket: str, key: str, version_id: str | None) -> Object | None:
        """The content of what a request names."""
        found = self.model.buckets[bucket]
        version = found.newest(key) if version_id is None else found.named(key, version_id)
        return version.content if version else None

    def stored(self, bucket: str, key: str, version: Version, version_id: str | None) -> None:
        """A version is new. If it has a name of its own, no other has that name."""
        if self.model.buckets[bucket].versioning == "Enabled":
            assert version_id not in (None, NULL, *self.given)
            assert version_id is not None
            version.id = version_id
            self.given.add(version_id)
        # Of the null version, some answers say so, and others say nothing.
        assert version_id in (version.id, None), (version_id, version.id)
        if version.by_default:
            assert version.lock.retention is not None
            shown = lock_in(self.client.head_object(Bucket=self.name(bucket), Key=key, VersionId=version.id)).retention
            assert shown is not None
            assert abs(shown.until - version.lock.retention.until) < dt.timedelta(minutes=1)
            version.lock = Lock(Retention(version.lock.retention.mode, shown.until), version.lock.hold)
        self.lock_changed(bucket, key, version)

    def deleted(self, bucket: str, key: str, version_id: str | None, expected: Version | None, answer: Any) -> None:
        """The answer names the version of the request, or the delete marker that was made."""
        if version_id is None and expected is None:
            assert (answer.get("VersionId"), answer.get("DeleteMarker")) == (None, None)
            return
        assert bool(answer.get("DeleteMarker")) == (expected is not None and expected.content is None)
        if version_id is None:
            assert expected is not None
            assert answer["VersionId"] is not None
            self.stored(bucket, key, expected, answer["VersionId"])
        else:
            assert answer["VersionId"] == version_id
            self.gone = version_id

    def check_versioning(self, bucket: str) -> None:
        status = self.client.get_bucket_versioning(Bucket=self.name(bucket)).get("Status")
        assert status == self.model.buckets[bucket].versioning

    def check_version(self, bucket: str, key: str, version_id: str | None, *, head: bool) -> None:
        """Read a version, or what is current."""
        arguments = {"Bucket": self.name(bucket), "Key": key, **named(version_id)}
        answer, found = self.both(
            lambda: self.client.head_object(**arguments) if head else self.client.get_object(**arguments),
            lambda: self.model.find(bucket, key, version_id),
        )
        if not found:
            return
        content = found.content
        assert answer["ETag"] == f'"{content.etag}"'
        assert answer["Metadata"] == dict(content.metadata)
        assert answer["ContentLength"] == len(content.body)
        self.check_name(bucket, found, answer)
        assert answer.get("TagCount", 0) == len(content.tags)
        assert lock_in(answer) == found.lock
        assert head or answer["Body"].read() == content.body
        if content.tags:
            self.check_tags(bucket, key, version_id)

    def check_tags(self, bucket: str, key: str, version_id: str | None) -> None:
        answer, found = self.both(
            lambda: self.client.get_object_tagging(Bucket=self.name(bucket), Key=key, **named(version_id)),
            lambda: self.model.find_to_change(bucket, key, version_id),
        )
        if found:
            assert tags_in(answer) == found.content.tags
            self.check_name(bucket, found, answer)

    def check_name(self, bucket: str, expected: Version, answer: Any) -> None:
        """The answer names a version where there are any."""
        assert answer.get("VersionId") == (expected.id if self.model.buckets[bucket].versioning else None)
