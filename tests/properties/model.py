"""A model of S3: dictionaries, and the rules of the API Reference for the effect of each call on them.

Errors are `S3Error` with the code that clients see. Must not know HTTP or Orcas.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field, replace

Metadata = tuple[tuple[str, str], ...]

PART_SIZE_MIN = 5 << 20


class S3Error(Exception):
    """An error with one of these codes: if a request has several errors, S3 does not document which one it reports."""

    def __init__(self, *codes: str, marker: str | None = None) -> None:
        super().__init__(*codes)
        self.codes = codes
        # The version id of the delete marker that was met.
        self.marker = marker


def md5(body: bytes) -> str:
    """The hexadecimal MD5 of a body."""
    return hashlib.md5(body, usedforsecurity=False).hexdigest()


def common_prefix(key: str, prefix: str, delimiter: str) -> str | None:
    """What a list shows instead of a key that begins with `prefix`."""
    end = key.find(delimiter, len(prefix)) if delimiter else -1
    return None if end < 0 else key[: end + len(delimiter)]


@dataclass(frozen=True)
class Object:
    """One state of a key. `etag` is without quotes."""

    body: bytes
    etag: str
    metadata: Metadata = ()
    content_type: str = "binary/octet-stream"
    tags: Metadata = ()
    # Content was appended to it.
    appended: bool = False

    def with_appended(self, new: Object) -> Object:
        """The object after an append. Its metadata and tags stay."""
        if new.metadata or new.tags:
            raise S3Error("InvalidRequest")
        digest, _, parts = self.etag.partition("-")
        etag = f"{md5(bytes.fromhex(digest + new.etag))}-{max(1, int(parts or 0)) + 1}"
        return replace(self, body=self.body + new.body, etag=etag, appended=True)

    def copied(self, replacement: Metadata | None, tags: Metadata | None = None) -> Object:
        """A copy shares the content and keeps the ETag, also that of a multipart upload. What was appended counts as one
        part with the rest. Metadata and tags that are not replaced stay."""
        etag = f"{self.etag.partition('-')[0]}-1" if self.appended else self.etag
        copy = replace(self, etag=etag, tags=self.tags if tags is None else tags)
        return copy if replacement is None else replace(copy, metadata=replacement, content_type=Object.content_type)


@dataclass
class Upload:
    """An open multipart upload."""

    key: str
    metadata: Metadata
    content_type: str
    parts: dict[int, bytes] = field(default_factory=dict)


@dataclass
class Bucket:
    """Objects by key, uploads by id, and the objects of each snapshot."""

    objects: dict[str, Object] = field(default_factory=dict)
    uploads: dict[str, Upload] = field(default_factory=dict)
    snapshots: dict[str, dict[str, Object]] = field(default_factory=dict)


@dataclass(frozen=True)
class Condition:
    """A precondition on the present object of a key. ETags are without quotes."""

    if_match: str | None = None
    if_none_match: bool = False

    def check(self, current: Object | None) -> None:
        """Raise the error of S3 if the condition does not hold."""
        if self.if_match is not None and current is None:
            raise S3Error("NoSuchKey")
        if self.if_match is not None and current is not None and self.if_match not in ("*", current.etag):
            raise S3Error("PreconditionFailed")
        if self.if_none_match and current is not None:
            raise S3Error("PreconditionFailed")


ALWAYS = Condition()


class Model:
    """A store. Methods have the names and answers of the corresponding calls of boto3."""

    def __init__(self) -> None:
        self.buckets: dict[str, Bucket] = {}

    def bucket(self, name: str) -> Bucket:
        if name not in self.buckets:
            raise S3Error("NoSuchBucket")
        return self.buckets[name]

    def object(self, bucket: str, key: str) -> Object:
        found = self.bucket(bucket).objects.get(key)
        if found is None:
            raise S3Error("NoSuchKey")
        return found

    def upload(self, bucket: str, key: str, upload_id: str) -> Upload:
        found = self.bucket(bucket).uploads.get(upload_id)
        if found is None or found.key != key:
            raise S3Error("NoSuchUpload")
        return found

    def create_bucket(self, name: str) -> None:
        # In the region us-east-1, creating a bucket again changes nothing.
        self.buckets.setdefault(name, Bucket())

    def delete_bucket(self, name: str) -> None:
        # Open uploads end with their bucket.
        found = self.bucket(name)
        wrong = ["BucketNotEmpty"] if found.objects else []
        if found.snapshots:
            wrong.append("InvalidBucketState")
        if wrong:
            raise S3Error(*wrong)
        del self.buckets[name]

    def snapshot(self, bucket: str, name: str) -> dict[str, Object]:
        found = self.bucket(bucket).snapshots.get(name)
        if found is None:
            raise S3Error("NoSuchSnapshot")
        return found

    def create_snapshot(self, bucket: str, name: str) -> None:
        found = self.bucket(bucket)
        if name in found.snapshots:
            raise S3Error("SnapshotAlreadyExists")
        found.snapshots[name] = dict(found.objects)

    def delete_snapshot(self, bucket: str, name: str) -> None:
        self.snapshot(bucket, name)
        del self.buckets[bucket].snapshots[name]

    def restore_snapshot(self, bucket: str, name: str) -> None:
        """Uploads stay as they are."""
        self.bucket(bucket).objects = dict(self.snapshot(bucket, name))

    def fork(self, bucket: str, new_bucket: str, snapshot: str | None) -> None:
        """The new bucket has neither the snapshots nor the uploads of the other one."""
        taken = ["BucketAlreadyOwnedByYou"] if new_bucket in self.buckets else []
        try:
            objects = self.bucket(bucket).objects if snapshot is None else self.snapshot(bucket, snapshot)
        except S3Error as error:
            raise S3Error(*error.codes, *taken) from None
        if taken:
            raise S3Error(*taken)
        self.buckets[new_bucket] = Bucket(dict(objects))

    def put_object(self, bucket: str, key: str, new: Object, condition: Condition = ALWAYS) -> Object:
        objects = self.bucket(bucket).objects
        condition.check(objects.get(key))
        objects[key] = new
        return new

    def put_object_tagging(self, bucket: str, key: str, tags: Metadata) -> Object:
        changed = replace(self.object(bucket, key), tags=tags)
        return self.put_object(bucket, key, changed)

    def append(self, bucket: str, key: str, offset: int, new: Object, condition: Condition = ALWAYS) -> Object:
        """Put an object with a write offset. The metadata of an object that exists stays."""
        current = self.bucket(bucket).objects.get(key)
        condition.check(current)
        if offset != (len(current.body) if current else 0):
            raise S3Error("InvalidWriteOffset")
        if current is None:
            return self.put_object(bucket, key, new)
        return self.put_object(bucket, key, current.with_appended(new))

    def expire(self, bucket: str, prefix: str) -> None:
        """Apply a lifecycle rule by which every object with this prefix is due."""
        objects = self.bucket(bucket).objects
        for key in [key for key in objects if key.startswith(prefix)]:
            del objects[key]

    def delete_object(self, bucket: str, key: str) -> None:
        self.bucket(bucket).objects.pop(key, None)

    def copy_object(self, source: tuple[str, str], bucket: str, key: str, replacement: Metadata | None) -> Object:
        self.bucket(bucket)
        found = self.object(*source)
        if replacement is None and source == (bucket, key):
            raise S3Error("InvalidRequest")
        return self.put_object(bucket, key, found.copied(replacement))

    def rename_object(self, bucket: str, source: str, key: str) -> None:
        objects = self.bucket(bucket).objects
        found = self.object(bucket, source)
        if source == key:
            raise S3Error("InvalidRequest")
        del objects[source]
        objects[key] = found

    def complete_multipart_upload(
        self, bucket: str, key: str, upload_id: str, numbers: list[int], condition: Condition = ALWAYS
    ) -> Object:
        upload = self.upload(bucket, key, upload_id)
        wrong = []
        if any(number not in upload.parts for number in numbers):
            wrong.append("InvalidPart")
        if numbers != sorted(set(numbers)):
            wrong.append("InvalidPartOrder")
        if any(len(upload.parts.get(number, b"")) < PART_SIZE_MIN for number in numbers[:-1]):
            wrong.append("EntityTooSmall")
        try:
            condition.check(self.bucket(bucket).objects.get(key))
        except S3Error as error:
            wrong += error.codes
        if wrong:
            raise S3Error(*wrong)
        bodies = [upload.parts[number] for number in numbers]
        digests = b"".join(bytes.fromhex(md5(body)) for body in bodies)
        new = Object(b"".join(bodies), f"{md5(digests)}-{len(bodies)}", upload.metadata, upload.content_type)
        del self.buckets[bucket].uploads[upload_id]
        return self.put_object(bucket, key, new)

    def list_entries(
        self, bucket: str, prefix: str, delimiter: str, after: str, *, version: int
    ) -> list[tuple[str, Object | None]]:
        """All keys and common prefixes (those with None) after `after`, in the order of their UTF-8 bytes. The second
        version of the list shows a common prefix if one of its keys comes later, the first if the prefix itself does."""
        entries: dict[str, Object | None] = {}
        for key, found in self.bucket(bucket).objects.items():
            if key.startswith(prefix):
                common = common_prefix(key, prefix, delimiter)
                name = key if common is None else common
                if name != after and (key if version == 2 else name).encode() > after.encode():
                    entries[name] = found if common is None else None
        return [(name, entries[name]) for name in sorted(entries, key=str.encode)]
