"""What every rule of the test of versions uses: how it names versions, and what the answers about one must say."""

from __future__ import annotations

from typing import Any

from .calls import Calls
from .model import Object
from .versions import NULL, Version, VersionedBucket, VersionedModel

# Few, so that they have long histories.
KEYS = ("a", "a/b", "a/c", "a b+c%2F", "é/1")
BUCKETS = ("plain", "other")
UNKNOWN = "0f" * 16


class VersionedCalls(Calls):
    """A server, and the model of its versions."""

    def __init__(self) -> None:
        super().__init__()
        self.model = VersionedModel()
        # Every id that a version of this sequence got, and the last one that was deleted.
        self.given: set[str] = set()
        self.gone = UNKNOWN

    def create_bucket(self, bucket: str) -> None:
        self.client.create_bucket(Bucket=self.name(bucket))
        self.model.buckets[bucket] = VersionedBucket()

    def choose(self, bucket: str, key: str, which: int) -> str | None:
        """The id that a request names: that of a version of this key, of none, or no id at all."""
        there = [version.id for version in self.model.buckets[bucket].keys.get(key, [])]
        names = (None, None, None, *there, *there, NULL, self.gone, UNKNOWN)
        return names[which % len(names)]

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
        arguments = {"Bucket": self.name(bucket), "Key": key}
        arguments |= {} if version_id is None else {"VersionId": version_id}
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
        assert answer.get("VersionId") == (found.id if self.model.buckets[bucket].versioning else None)
        assert head or answer["Body"].read() == content.body
