"""Random snapshots, forks and restores of buckets with versions. What a snapshot has shows in a fork of it."""

from __future__ import annotations

from abc import abstractmethod

from hypothesis import strategies as st
from hypothesis.stateful import MultipleResults, multiple, precondition, rule

import orcas.buckets

from .version_attributes import AttributeRules, buckets
from .versions import VersionedBucket

SNAPSHOTS = ("monday", "tuesday", "friday")
# Buckets of a sequence, so that each has a long history.
BUCKETS_MAX = 4

snapshots = st.sampled_from(SNAPSHOTS)


class SnapshotRules(AttributeRules):
    """All of them are operations of the admin API."""

    @abstractmethod
    def check_bucket(self, bucket: str) -> None:
        """Compare all that a bucket has with the model."""

    @abstractmethod
    def check_history(self, bucket: str) -> None:
        """Compare the list of all versions of a bucket with the model."""

    @rule(bucket=buckets, name=snapshots)
    def create_snapshot(self, bucket: str, name: str) -> None:
        # The times of versions, too, are what they were.
        self.check_history(bucket)
        self.both(
            lambda: self.admin(orcas.buckets.create_snapshot, bucket, name),
            lambda: self.model.create_snapshot(bucket, name),
        )

    @rule(bucket=buckets, name=snapshots)
    def delete_snapshot(self, bucket: str, name: str) -> None:
        self.both(
            lambda: self.admin(orcas.buckets.delete_snapshot, bucket, name),
            lambda: self.model.delete_snapshot(bucket, name),
        )

    @rule(bucket=buckets, name=snapshots)
    def restore_snapshot(self, bucket: str, name: str) -> None:
        self.both(
            lambda: self.admin(orcas.buckets.restore_snapshot, bucket, name),
            lambda: self.model.restore_snapshot(bucket, name),
        )
        self.check_history(bucket)

    @precondition(lambda self: len(self.model.buckets) < BUCKETS_MAX)
    @rule(target=buckets, bucket=buckets, snapshot=st.none() | snapshots)
    def fork(self, bucket: str, snapshot: str | None) -> str | MultipleResults[str]:
        self.check_history(bucket)
        name = f"fork-{len(self.model.buckets)}"
        return name if self.forked(bucket, name, snapshot) else multiple()

    def forked(self, bucket: str, name: str, snapshot: str | None) -> VersionedBucket | None:
        """What is locked in the bucket is locked in the fork."""
        _, made = self.both(
            lambda: self.admin(orcas.buckets.fork, bucket, self.name(name), snapshot=snapshot),
            lambda: self.model.fork(bucket, name, snapshot),
        )
        for key, version in made.versions() if made else ():
            self.lock_changed(name, key, version)
        return made

    @rule(bucket=buckets)
    def refuse_to_delete_bucket(self, bucket: str) -> None:
        found = self.model.buckets[bucket]
        if found.keys or found.snapshots:
            self.both(
                lambda: self.client.delete_bucket(Bucket=self.name(bucket)), lambda: self.model.delete_bucket(bucket)
            )

    def fork_snapshots(self) -> None:
        """Every snapshot gets a fork and goes. The fork stays as it is."""
        for bucket, found in list(self.model.buckets.items()):
            listed = [snapshot.name for snapshot in orcas.buckets.list_snapshots(self.client, self.name(bucket))]
            assert listed == sorted(found.snapshots)
            for name in list(found.snapshots):
                fork = f"{bucket}-{name}"
                self.forked(bucket, fork, name)
                self.delete_snapshot(bucket, name)
                self.check_bucket(fork)
