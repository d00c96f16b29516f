"""Random snapshots, forks and restores of buckets. What a snapshot has shows in a fork of it."""

from __future__ import annotations

from hypothesis import strategies as st
from hypothesis.stateful import rule

import orcas.buckets

from .calls import ObjectCalls

SNAPSHOTS = ("monday", "tuesday")
FORK = "fork"

sources = st.sampled_from(("one", "one", "two", FORK))
snapshots = st.sampled_from(SNAPSHOTS)


class SnapshotRules(ObjectCalls):
    """All of them are operations of the admin API."""

    @rule(bucket=sources, name=snapshots)
    def create_snapshot(self, bucket: str, name: str) -> None:
        self.both(
            lambda: self.admin(orcas.buckets.create_snapshot, bucket, name),
            lambda: self.model.create_snapshot(bucket, name),
        )

    @rule(bucket=sources, name=snapshots)
    def delete_snapshot(self, bucket: str, name: str) -> None:
        self.both(
            lambda: self.admin(orcas.buckets.delete_snapshot, bucket, name),
            lambda: self.model.delete_snapshot(bucket, name),
        )

    @rule(bucket=sources, name=snapshots)
    def restore_snapshot(self, bucket: str, name: str) -> None:
        self.both(
            lambda: self.admin(orcas.buckets.restore_snapshot, bucket, name),
            lambda: self.model.restore_snapshot(bucket, name),
        )

    @rule(bucket=sources, new_bucket=st.sampled_from(("two", FORK)), snapshot=st.none() | snapshots)
    def fork(self, bucket: str, new_bucket: str, snapshot: str | None) -> None:
        self.both(
            lambda: self.admin(orcas.buckets.fork, bucket, self.name(new_bucket), snapshot=snapshot),
            lambda: self.model.fork(bucket, new_bucket, snapshot),
        )

    def read_snapshots(self) -> None:
        """Compare every snapshot with the model, and delete it. Its fork stays until the server ends."""
        client = self.place.client
        for bucket, found in self.model.buckets.items():
            listed = [snapshot.name for snapshot in orcas.buckets.list_snapshots(client, self.name(bucket))]
            assert listed == sorted(found.snapshots)
            for name, objects in found.snapshots.items():
                fork = f"snapshot-{self.example}-{bucket}-{name}"
                orcas.buckets.fork(client, self.name(bucket), fork, snapshot=name)
                orcas.buckets.delete_snapshot(client, self.name(bucket), name)
                for key, expected in objects.items():
                    assert client.get_object(Bucket=fork, Key=key)["Body"].read() == expected.body
                page = client.list_objects_v2(Bucket=fork)
                shown = [(entry["Key"], entry["ETag"]) for entry in page.get("Contents", [])]
                assert shown == [(key, f'"{objects[key].etag}"') for key in sorted(objects, key=str.encode)]
