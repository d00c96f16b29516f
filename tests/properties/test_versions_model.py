"""Random sequences of calls that make, tag, lock, name, list, delete and expire versions, compared with a model.

One bucket begins without versioning, the other has Object Lock; both get snapshots and forks, which have versions, too.
A server that was restarted or killed has the same versions, tags and locks as before.
"""

from __future__ import annotations

import datetime as dt
import time
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import strategies as st
from hypothesis.stateful import MultipleResults, initialize, multiple, precondition, rule
from tests.fixtures.targets import content_of

from .calls import EXAMPLES, compare, condition_on, tag_sets, tagged
from .machines import DAY_SEC, Machines
from .model import Metadata, Object, S3Error, md5
from .version_attributes import buckets, bypasses, keys, locks, picks
from .version_snapshots import SNAPSHOTS, SnapshotRules
from .versioned_calls import BUCKETS, Upload, locked, named
from .versions import UNLOCKED, Entry, Lock, Version

PREFIXES = ("", "a", "a/", "b", "é", "nothing")
# Versions with names of their own that a sequence has made before noncurrent ones expire.
MANY = 12

bodies = st.builds(content_of, st.integers(0, 5), st.sampled_from((0, 1, 257, 4096, 65_537, 300_000)))
metadata = st.sampled_from(((), (("color", "red"),)))
statuses = st.sampled_from(("Enabled", "Suspended"))
conditions = st.sampled_from((0, 0, 0, 0, 1, 2, 3))


class VersionsMachine(SnapshotRules):
    """Each rule makes the same call to the server and the model, and compares the answers."""

    def __init__(self) -> None:
        super().__init__()
        self.waited = False

    @initialize(
        target=buckets,
        before=st.lists(keys, max_size=3),
        after=st.lists(
            st.tuples(st.none() | statuses, st.sampled_from(BUCKETS), keys, tag_sets, locks), min_size=4, max_size=10
        ),
        snapshots=st.sets(st.sampled_from(SNAPSHOTS)),
    )  # fmt: skip
    def begin(
        self, before: list[str], after: list[tuple[str | None, str, str, Metadata, Lock]], snapshots: set[str]
    ) -> MultipleResults[str]:
        """Up to one snapshot is from before versioning."""
        for bucket in BUCKETS:
            self.create_bucket(bucket, locking=bucket == "locks")
        for at, key in enumerate(before):
            self.put_object("plain", key, content_of(at, 300), (), (), UNLOCKED, 0)
            self.upload_in_parts("plain", key, content_of(at, 400), (), (), UNLOCKED, completed=False)
        if SNAPSHOTS[0] in snapshots:
            self.create_snapshot("plain", SNAPSHOTS[0])
        for at, (status, bucket, key, tags, lock) in enumerate(after):
            if status is not None:
                self.put_bucket_versioning("plain", status)
            self.put_object(bucket, key, content_of(at, 200), (), tags, lock, 0)
            if SNAPSHOTS[1] in snapshots and at == len(after) // 2:
                self.create_snapshot("plain", SNAPSHOTS[1])
                self.create_snapshot("locks", SNAPSHOTS[1])
        return multiple(*BUCKETS)

    @rule(bucket=buckets, status=statuses)
    def put_bucket_versioning(self, bucket: str, status: str) -> None:
        self.both(
            lambda: self.client.put_bucket_versioning(
                Bucket=self.name(bucket), VersioningConfiguration={"Status": status}
            ),
            lambda: self.model.put_bucket_versioning(bucket, status),
        )
        self.check_versioning(bucket)

    # Writes.

    @rule(bucket=buckets, key=keys, body=bodies, data=metadata, tags=tag_sets, lock=locks, choice=conditions)
    def put_object(
        self, bucket: str, key: str, body: bytes, data: Metadata, tags: Metadata, lock: Lock, choice: int
    ) -> None:
        arguments, condition = condition_on(self.model.buckets[bucket].current(key), choice)
        lock = self.lock_for(bucket, lock)
        content = Object(body, md5(body), data, tags=tags)
        new = Version(content, lock)
        answer, stored = self.both(
            lambda: self.put(bucket, key, content, **tagged(tags), **locked(lock), **arguments),
            lambda: self.model.put_object(bucket, key, new, condition),
        )
        if stored:
            assert answer["ETag"] == f'"{md5(body)}"'
            self.stored(bucket, key, stored, answer.get("VersionId"))

    @rule(bucket=buckets, key=keys, name=st.integers(0, 5), data=metadata, lock=locks, off=st.sampled_from((0, 0, 1)))
    def append(self, bucket: str, key: str, name: int, data: Metadata, lock: Lock, off: int) -> None:
        current = self.model.buckets[bucket].current(key)
        lock = self.lock_for(bucket, lock)
        offset, body = off + (len(current.body) if current else 0), content_of(name, 257)
        new = Object(body, md5(body), () if current else data)
        answer, stored = self.both(
            lambda: self.put(bucket, key, new, WriteOffsetBytes=offset, **locked(lock)),
            lambda: self.model.append(bucket, key, offset, Version(new, lock)),
        )
        if stored:
            assert answer["ETag"] == f'"{stored.content.etag}"'
            self.stored(bucket, key, stored, answer.get("VersionId"))

    @rule(
        bucket=buckets, key=keys, body=bodies, data=metadata, tags=tag_sets, lock=locks,
        completed=st.booleans(),
    )  # fmt: skip
    def upload_in_parts(
        self, bucket: str, key: str, body: bytes, data: Metadata, tags: Metadata, lock: Lock, completed: bool
    ) -> None:
        """Uploads that stay open are completed later: in the meantime, the versioning of the bucket may change."""
        address: dict[str, Any] = {"Bucket": self.name(bucket), "Key": key}
        lock = self.lock_for(bucket, lock)
        # An append must have the algorithm of the object, and boto3's is this one.
        address |= {"ChecksumAlgorithm": "CRC32"}
        created, _ = self.both(
            lambda: self.client.create_multipart_upload(
                **address, ChecksumType="FULL_OBJECT", Metadata=dict(data), **tagged(tags), **locked(lock)
            ),
            lambda: self.model.check_lock(bucket, lock),
        )
        if not created:
            return
        part = self.client.upload_part(**address, UploadId=created["UploadId"], PartNumber=1, Body=body)["ETag"]
        new = Version(Object(body, f"{md5(bytes.fromhex(md5(body)))}-1", data, tags=tags), lock)
        self.uploads.append(Upload(bucket, key, created["UploadId"], part, new))
        if completed:
            self.complete(self.uploads.pop())

    @precondition(lambda self: self.uploads)
    @rule(which=st.integers(0, 9))
    def complete_multipart_upload(self, which: int) -> None:
        self.complete(self.uploads.pop(which % len(self.uploads)))

    def complete(self, upload: Upload) -> None:
        """What the version becomes is decided now: its id, and whether it replaces the null version."""
        answer, stored = self.both(
            lambda: self.client.complete_multipart_upload(
                Bucket=self.name(upload.bucket),
                Key=upload.key,
                UploadId=upload.id,
                MultipartUpload={"Parts": [{"PartNumber": 1, "ETag": upload.etag}]},
            ),
            lambda: self.model.put_object(upload.bucket, upload.key, upload.new),
        )
        assert answer["ETag"] == f'"{stored.content.etag}"'
        self.stored(upload.bucket, upload.key, stored, answer.get("VersionId"))

    @rule(
        source_bucket=buckets, pick=picks, bucket=buckets, key=keys, data=st.none() | metadata,
        tags=st.none() | tag_sets, lock=locks, onto_itself=st.sampled_from((False, False, True)),
    )  # fmt: skip
    def copy_object(
        self, source_bucket: str, pick: int, bucket: str, key: str, data: Metadata | None,
        tags: Metadata | None, lock: Lock, onto_itself: bool,
    ) -> None:  # fmt: skip
        source, version_id = self.choose(source_bucket, pick)
        if onto_itself:
            bucket, key = source_bucket, source
            version_id = version_id if pick % 2 else None
        lock = self.lock_for(bucket, lock)
        directives: dict[str, Any] = locked(lock)
        if data is not None:
            directives |= {"MetadataDirective": "REPLACE", "Metadata": dict(data)}
        if tags is not None:
            directives |= {"TaggingDirective": "REPLACE", **tagged(tags)}
        answer, expected = self.both(
            lambda: self.client.copy_object(
                Bucket=self.name(bucket),
                Key=key,
                CopySource={"Bucket": self.name(source_bucket), "Key": source, **named(version_id)},
                **directives,
            ),
            lambda: self.model.copy_object((source_bucket, source, version_id), bucket, key, data, tags, lock),
        )
        if expected:
            found, copied = expected
            assert answer["CopyObjectResult"]["ETag"] == f'"{copied.content.etag}"'
            assert answer.get("CopySourceVersionId", "null") == found.id
            self.stored(bucket, key, copied, answer.get("VersionId"))

    # Deletions.

    @rule(bucket=buckets, pick=picks, bypass=bypasses, choice=conditions)
    def delete_object(self, bucket: str, pick: int, bypass: bool, choice: int) -> None:
        key, version_id = self.choose(bucket, pick)
        arguments, condition = condition_on(self.target(bucket, key, version_id), choice if choice != 1 else 0)
        arguments |= {"BypassGovernanceRetention": True} if bypass else {}
        answer, expected = self.both(
            lambda: self.client.delete_object(Bucket=self.name(bucket), Key=key, **named(version_id), **arguments),
            lambda: (self.model.delete_object(bucket, key, version_id, bypass=bypass, condition=condition),),
        )
        if expected:
            self.deleted(bucket, key, version_id, expected[0], answer)

    @rule(bucket=buckets, several=st.lists(picks, min_size=1, max_size=5), bypass=bypasses)
    def delete_objects(self, bucket: str, several: list[int], bypass: bool) -> None:
        chosen = dict.fromkeys(self.choose(bucket, pick) for pick in several)
        # S3 does not document in which order it deletes.
        unnamed = {key for key, version_id in chosen if version_id is None}
        wanted = [(key, version_id) for key, version_id in chosen if version_id is None or key not in unnamed]
        answer = self.client.delete_objects(
            Bucket=self.name(bucket),
            Delete={"Objects": [{"Key": key, **named(name)} for key, name in wanted]},
            **({"BypassGovernanceRetention": True} if bypass else {}),
        )
        deleted = {(entry["Key"], entry.get("VersionId")): entry for entry in answer.get("Deleted", [])}
        refused = {(entry["Key"], entry.get("VersionId")): entry["Code"] for entry in answer.get("Errors", [])}
        # Where there are no locks, a bypass is passed over.
        bypass = bypass and self.model.buckets[bucket].locking
        for key, version_id in wanted:
            try:
                expected = self.model.delete_object(bucket, key, version_id, bypass=bypass)
            except S3Error as error:
                assert refused.pop((key, version_id)) in error.codes
                continue
            entry = deleted.pop((key, version_id))
            shown = {"DeleteMarker": entry.get("DeleteMarker"), "VersionId": entry.get("DeleteMarkerVersionId")}
            if expected is None or expected.content is not None:
                assert shown == {"DeleteMarker": None, "VersionId": None}
                shown["VersionId"] = version_id
            self.deleted(bucket, key, version_id, expected, shown)
        assert not deleted
        assert not refused

    @rule(bucket=buckets, prefix=st.sampled_from(PREFIXES), lone=st.booleans())
    def expire(self, bucket: str, prefix: str, lone: bool) -> None:
        expiration = {"ExpiredObjectDeleteMarker": True} if lone else {"Date": dt.datetime(2020, 1, 1, tzinfo=dt.UTC)}
        self.apply_rule(bucket, prefix, {"Expiration": expiration})
        self.model.expire_lone_markers(bucket, prefix)
        if lone:
            return
        for key, marker in self.model.expire(bucket, prefix):
            page = self.place.client.list_object_versions(Bucket=self.name(bucket), Prefix=key)
            newest = next(found for found in page["DeleteMarkers"] if found["Key"] == key)
            self.stored(bucket, key, marker, newest["VersionId"])

    # It waits for two days of the server, so a sequence has it once.
    @precondition(lambda self: not self.waited and len(self.given) > MANY)
    @rule(prefix=st.sampled_from(("", "", "a")), newer=st.sampled_from((0, 0, 1, 2)), lone=st.booleans())
    def expire_noncurrent(self, prefix: str, newer: int, lone: bool) -> None:
        """In all buckets. Delete markers that are alone afterwards go with the next run."""
        self.waited = True
        time.sleep(2 * DAY_SEC)
        action = {"NoncurrentDays": 1} | ({"NewerNoncurrentVersions": newer} if newer else {})
        rule = {"NoncurrentVersionExpiration": action}
        rule |= {"Expiration": {"ExpiredObjectDeleteMarker": True}} if lone else {}
        for bucket in self.model.buckets:
            self.apply_rule(bucket, prefix, rule, runs=2)
            self.model.expire_noncurrent(bucket, prefix, newer)
            if lone:
                self.model.expire_lone_markers(bucket, prefix)
            self.list_object_versions(bucket, "", "", None, 0, 1000)

    def apply_rule(self, bucket: str, prefix: str, actions: dict[str, Any], *, runs: int = 1) -> None:
        every = {"ID": "all", "Status": "Enabled", "Filter": {"Prefix": prefix}, **actions}
        self.client.put_bucket_lifecycle_configuration(
            Bucket=self.name(bucket), LifecycleConfiguration={"Rules": [every]}
        )
        for _ in range(runs):
            self.place.apply_lifecycle_rules()
        self.place.client.delete_bucket_lifecycle(Bucket=self.name(bucket))

    # Reads.

    @rule(bucket=buckets, pick=picks, head=st.booleans())
    def read(self, bucket: str, pick: int, head: bool) -> None:
        self.check_version(bucket, *self.choose(bucket, pick), head=head)

    def check_entries(self, page: Any, entries: list[Entry]) -> None:
        """The page of a list of versions."""
        versions = [(key, found, newest) for key, found, newest in entries if found]
        for name, is_marker in (("Versions", False), ("DeleteMarkers", True)):
            expected = [entry for entry in versions if (entry[1].content is None) == is_marker]
            shown = page.get(name, [])
            assert [(entry["Key"], entry["VersionId"], entry["IsLatest"]) for entry in shown] == [
                (key, found.id, newest) for key, found, newest in expected
            ]
            for entry, (_, found, _) in zip(shown, expected, strict=True):
                if found.content:
                    assert (entry["ETag"], entry["Size"]) == (f'"{found.content.etag}"', len(found.content.body))
                found.modified = found.modified or entry["LastModified"]
                assert entry["LastModified"] == found.modified
        prefixes = [name for name, found, _ in entries if found is None]
        assert [entry["Prefix"] for entry in page.get("CommonPrefixes", [])] == prefixes

    @rule(
        bucket=buckets, prefix=st.sampled_from(PREFIXES), delimiter=st.sampled_from(("", "", "/", "b")),
        key_marker=st.none() | keys, which=st.integers(0, 8), size=st.sampled_from((1, 2, 3, 1000)),
    )  # fmt: skip
    def list_object_versions(
        self, bucket: str, prefix: str, delimiter: str, key_marker: str | None, which: int, size: int
    ) -> None:
        """Every page behind the markers."""
        asked: dict[str, Any] = {"Bucket": self.name(bucket), "Prefix": prefix, "MaxKeys": size}
        asked |= {"Delimiter": delimiter} if delimiter else {}
        version_marker = None
        if key_marker is not None:
            asked["KeyMarker"] = key_marker
            history = self.model.buckets[bucket].keys.get(key_marker, [])
            if history and which % 3:
                version_marker = asked["VersionIdMarker"] = history[which % len(history)].id
        entries = self.model.list_entries(bucket, prefix, delimiter, key_marker or "", version_marker)
        while True:
            page = self.client.list_object_versions(**asked)
            self.check_entries(page, entries[:size])
            assert page["IsTruncated"] == (len(entries) > size)
            if not page["IsTruncated"]:
                return
            name, last, _ = entries[size - 1]
            assert (page["NextKeyMarker"], page.get("NextVersionIdMarker")) == (name, last.id if last else None)
            asked |= {"KeyMarker": name}
            asked.pop("VersionIdMarker", None)
            asked |= {"VersionIdMarker": last.id} if last else {}
            entries = entries[size:]

    @rule(bucket=buckets, prefix=st.sampled_from(PREFIXES), delimiter=st.sampled_from(("", "", "/", "b")),
          size=st.sampled_from((1, 2, 1000)))  # fmt: skip
    def list_objects(self, bucket: str, prefix: str, delimiter: str, size: int) -> None:
        """Every page."""
        asked: dict[str, Any] = {"Bucket": self.name(bucket), "Prefix": prefix, "MaxKeys": size}
        asked |= {"Delimiter": delimiter} if delimiter else {}
        entries = self.model.list_objects(bucket, prefix, delimiter)
        while True:
            page = self.client.list_objects_v2(**asked)
            objects = [(name, content) for name, content in entries[:size] if content]
            shown = [(entry["Key"], entry["ETag"], entry["Size"]) for entry in page.get("Contents", [])]
            assert shown == [(key, f'"{content.etag}"', len(content.body)) for key, content in objects]
            prefixes = [name for name, content in entries[:size] if content is None]
            assert [entry["Prefix"] for entry in page.get("CommonPrefixes", [])] == prefixes
            assert page["IsTruncated"] == (len(entries) > size)
            if not page["IsTruncated"]:
                return
            asked["ContinuationToken"] = page["NextContinuationToken"]
            entries = entries[size:]

    def teardown(self) -> None:
        """In the end, what is open is completed, and all that can be deleted goes."""
        while self.uploads:
            self.complete(self.uploads.pop())
        self.check_everything()
        self.fork_snapshots()
        for bucket, found in self.model.buckets.items():
            self.list_object_versions(bucket, "", "/", None, 0, 2)
            versions = [{"Key": key, "VersionId": version.id} for key, version in found.versions()]
            bypass = {"BypassGovernanceRetention": True} if found.locking else {}
            if versions:
                self.client.delete_objects(Bucket=self.name(bucket), Delete={"Objects": versions}, **bypass)
            page = self.client.list_object_versions(Bucket=self.name(bucket))
            left = {(bucket, entry["Key"], entry["VersionId"]) for entry in page.get("Versions", [])}
            assert left == {kept for kept in self.kept if kept[0] == bucket}
            assert "DeleteMarkers" not in page
            if left:
                with pytest.raises(ClientError, match="BucketNotEmpty"):
                    self.client.delete_bucket(Bucket=self.name(bucket))
            else:
                self.client.delete_bucket(Bucket=self.name(bucket))

    def check_everything(self) -> None:
        for bucket in self.model.buckets:
            self.check_bucket(bucket)

    def check_bucket(self, bucket: str) -> None:
        self.check_versioning(bucket)
        self.check_history(bucket)
        self.list_objects(bucket, "", "", 1000)
        self.list_objects(bucket, "", "/", 1)
        found = self.model.buckets[bucket]
        for key, version in found.versions():
            self.check_version(bucket, key, version.id, head=version.content is None)
        for key in found.keys:
            self.check_version(bucket, key, None, head=True)

    def check_history(self, bucket: str) -> None:
        self.list_object_versions(bucket, "", "", None, 0, 1000)


@pytest.mark.parametrize("examples", EXAMPLES)
@pytest.mark.timeout(600)
def test_versions_are_what_the_model_says(place: Machines, examples: int) -> None:
    compare(place, VersionsMachine, examples=examples, steps=50)
