"""Buckets with versioning that have many layers: lists, merges and restarts change nothing of what clients see."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.commands import document
from tests.fixtures.marks import full
from tests.fixtures.targets import content, read, running
from tests.fixtures.versions import fill, history, listed, put, set_versioning, shown, tag, tags

import orcas
from orcas import buckets
from orcas.errors import OrcasError

pytestmark = pytest.mark.conformance

ENDINGS: list[Callable[[orcas.Server], None]] = [orcas.Server.stop, orcas.Server.kill]


@pytest.fixture
def fork() -> str:
    """The name of a bucket that is not there yet."""
    return f"t-{uuid.uuid4().hex}"


def steps(s3: Any, bucket: str) -> Iterator[None]:
    """A history of every kind, with a pause after each step."""

    def delete(key: str, places: slice) -> None:
        for entry in listed(s3, bucket, Prefix=key)[places]:
            s3.delete_object(Bucket=bucket, Key=key, VersionId=entry["VersionId"])

    yield fill(s3, bucket)
    set_versioning(s3, bucket, "Suspended")
    yield fill(s3, bucket)
    yield delete("a/c", slice(1))
    s3.delete_object(Bucket=bucket, Key="a", VersionId="null")
    set_versioning(s3, bucket, "Enabled")
    yield delete("b", slice(2))
    yield delete("a/c", slice(1, 2))
    yield fill(s3, bucket)
    yield delete("a/b", slice(None))
    put(s3, bucket, b"last", key="z")


@pytest.mark.parametrize("snapshots", [range(0, 7, 3), *full(range(1, 2), range(7))], ids=["some", "one", "many"])
def test_lists_are_those_of_a_bucket_without_snapshots(s3: Any, bucket: str, fork: str, snapshots: range) -> None:
    """With every parameter, one after the other and together."""
    s3.create_bucket(Bucket=fork)
    put(s3, bucket, b"from before")
    put(s3, fork, b"from before")
    for name in (bucket, fork):
        set_versioning(s3, name, "Enabled")
    for at, _ in enumerate(zip(steps(s3, bucket), steps(s3, fork), strict=True)):
        if at in snapshots:
            buckets.create_snapshot(s3, bucket, f"s{at}")
    ours, theirs = listed(s3, bucket), listed(s3, fork)
    ids = {our["VersionId"]: their["VersionId"] for our, their in zip(ours, theirs, strict=True)}
    assert [ids[our["VersionId"]] for our in ours] == [their["VersionId"] for their in theirs]

    def page(bucket: str, names: dict[str, str], asked: dict[str, Any]) -> list[Any]:
        """With the names that versions have in the other bucket."""
        found = s3.list_object_versions(Bucket=bucket, **asked)
        entries = [
            [names.get(entry["VersionId"], entry["VersionId"])]
            + [entry.get(name) for name in ("Key", "IsLatest", "ETag", "Size")]
            for entry in [*found.get("Versions", []), *found.get("DeleteMarkers", [])]
        ]
        marker = found.get("NextVersionIdMarker", "")
        ends = [found["IsTruncated"], found.get("NextKeyMarker"), names.get(marker, marker)]
        return [entries, found.get("CommonPrefixes"), ends]

    markers: list[dict[str, str]] = [{}, *({"KeyMarker": key} for key in ("a", "a/", "a/b", "c", "k", "z"))]
    markers += [{"KeyMarker": our["Key"], "VersionIdMarker": our["VersionId"]} for our in ours]
    for prefix, delimiter, size, marker in itertools.product(("", "a/"), ("", "/"), (1, 3, 1000), markers):
        asked = {"Prefix": prefix, "MaxKeys": size, **({"Delimiter": delimiter} if delimiter else {}), **marker}
        same = asked | ({"VersionIdMarker": ids[marker["VersionIdMarker"]]} if "VersionIdMarker" in marker else {})
        assert page(bucket, ids, asked) == page(fork, {}, same), asked


def changed_by_step(s3: Any, bucket: str, at: int) -> None:
    """A new version, changes of older ones, and null versions in between."""
    set_versioning(s3, bucket, "Suspended" if at % 3 == 2 else "Enabled")
    put(s3, bucket, content(5_000, at))
    tag(s3, bucket, f"step {at}")
    put(s3, bucket, content(70_000, at), key=f"k/{at}")
    older = [version for _, version, _, marker in history(s3, bucket)[1:] if not marker]
    if at % 2:
        s3.delete_object(Bucket=bucket, Key="k", VersionId=older[0])
        s3.delete_object(Bucket=bucket, Key=f"k/{at - 1}")


@pytest.mark.parametrize("order", [[2, 0, 4, 1, 3], *full([0, 1, 2, 3, 4], [4, 3, 2, 1, 0])])
def test_snapshots_go_in_any_order_and_layers_are_merged(tmp_path: Path, order: list[int]) -> None:
    with running(tmp_path / "store") as target:
        s3 = target.client()
        s3.create_bucket(Bucket="versioned")
        put(s3, "versioned", b"from before", b"null")
        states = []
        for at in range(5):
            if at:
                changed_by_step(s3, "versioned", at)
            states.append(shown(s3, "versioned"))
            buckets.create_snapshot(s3, "versioned", f"s{at}")
        changed_by_step(s3, "versioned", 5)
        present = shown(s3, "versioned")
        for done, at in enumerate(order):
            buckets.delete_snapshot(s3, "versioned", f"s{at}")
            document("gc", "--data", tmp_path / "store")
            assert shown(s3, "versioned") == present
            for kept in order[done + 1 :]:
                name = f"fork-{at}-{kept}"
                buckets.fork(s3, "versioned", name, snapshot=f"s{kept}")
                assert shown(s3, name) == states[kept]
    assert document("fsck", "--data", tmp_path / "store")["findings"] == []


def test_a_bucket_has_31_snapshots_at_a_time_and_any_number_over_time(tmp_path: Path) -> None:
    with running(tmp_path / "store") as target:
        s3 = target.client()
        s3.create_bucket(Bucket="versioned")
        set_versioning(s3, "versioned", "Enabled")
        ids: list[str] = []

        def change() -> list[tuple[str, str, bool, bool]]:
            """A new version, and other tags of one that a lower layer has."""
            ids.extend(put(s3, "versioned", content(300, len(ids))))
            tag(s3, "versioned", f"{len(ids)}", VersionId=ids[len(ids) // 2])
            return [("k", version, version == ids[-1], False) for version in reversed(ids)]

        # Layers of amendments do not count.
        for at in range(31):
            change()
            buckets.create_snapshot(s3, "versioned", f"s{at}")
        change()
        with pytest.raises(OrcasError, match="too many snapshots"):
            buckets.create_snapshot(s3, "versioned", "s31")
        for at in range(31, 40):
            buckets.delete_snapshot(s3, "versioned", f"s{at - 31}")
            document("gc", "--data", tmp_path / "store")
            expected = change()
            assert history(s3, "versioned") == expected
            buckets.create_snapshot(s3, "versioned", f"s{at}")
        change()
        buckets.fork(s3, "versioned", "fork", snapshot="s39")
        assert history(s3, "fork") == expected
        assert tags(s3, "fork", ids[19]) == ["39"]


@pytest.mark.parametrize("end", ENDINGS, ids=["stopped", "killed"])
def test_they_are_there_after_a_restart(tmp_path: Path, end: Callable[[orcas.Server], None]) -> None:
    with running(tmp_path / "store") as first:
        s3 = first.client()
        s3.create_bucket(Bucket="versioned")
        put(s3, "versioned", b"from before")
        buckets.create_snapshot(s3, "versioned", "s0")
        s3.delete_object(Bucket="versioned", Key="k")
        put(s3, "versioned", b"null", key="other")
        for at in range(1, 5):
            changed_by_step(s3, "versioned", at)
            buckets.create_snapshot(s3, "versioned", f"s{at}")
        buckets.fork(s3, "versioned", "fork", snapshot="s2")
        changed_by_step(s3, "fork", 5)
        buckets.restore_snapshot(s3, "versioned", "s3")
        changed_by_step(s3, "versioned", 6)
        before = [shown(s3, "versioned"), shown(s3, "fork")]
        end(first.server)
    with running(tmp_path / "store") as second:
        s3 = second.client()
        assert [shown(s3, "versioned"), shown(s3, "fork")] == before
        assert [snapshot.name for snapshot in buckets.list_snapshots(s3, "versioned")] == [f"s{at}" for at in range(5)]
        changed_by_step(s3, "versioned", 7)
        buckets.restore_snapshot(s3, "versioned", "s0")
        assert history(s3, "versioned") == [("k", "null", True, False)]
        assert read(s3, "versioned", "k") == b"from before"
    assert document("fsck", "--data", tmp_path / "store")["findings"] == []
