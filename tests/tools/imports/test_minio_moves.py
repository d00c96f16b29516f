"""`--move`: an object leaves the drives of a MinIO when the store has all of it on its disk, and nothing else is touched."""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.commands import command, document
from tests.fixtures.targets import Target, running
from tests.golden.minio.description import described
from tests.golden.minio.drives import current, expected, state, unpacked

Moving = Callable[..., Any]


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Target]:
    with running(tmp_path / "store") as target:
        yield target


def words_and_keys(target: Target, drives: list[Path], *words: str) -> tuple[list[str | Path], dict[str, str]]:
    keys = {"AWS_ACCESS_KEY_ID": target.server.access_key, "AWS_SECRET_ACCESS_KEY": target.server.secret_key}
    return ["import", "--minio-disk", *drives, "--versions", *words, "--endpoint", target.server.endpoint], keys


@pytest.fixture
def moving(store: Target) -> Moving:
    def run(drives: list[Path], *words: str, code: int = 0, target: Target = store) -> Any:
        given, keys = words_and_keys(target, drives, *(words or ("--move", "--yes")))
        return (document if code in {0, 1} else command)(*given, code=code, **keys)

    return run


def keys_left(drives: list[Path]) -> set[str]:
    """The keys of the objects that are left."""
    return {
        str(path.parent.relative_to(bucket))
        for drive in drives
        for bucket in drive.glob("[a-z]*")
        for path in bucket.rglob("xl.meta")
    }


def clean(found: Any) -> Any:
    return {name: bucket for name, bucket in found.items() if name != "below"}


@pytest.mark.parametrize("kind", ["one", "ec2", "sets"])
def test_what_was_moved_is_in_the_store_alone(kind: str, store: Target, moving: Moving, tmp_path: Path) -> None:
    drives = unpacked(kind, tmp_path)
    own = state([drive / ".minio.sys" for drive in drives])
    done = moving(drives)
    assert (done["failed"], done["not_kept"]) == (0, {})
    assert clean(described(store.client())) == expected()
    # Buckets stay, and what is MinIO's own.
    names = {"below", *expected()}
    left = {path.name for drive in drives for path in drive.iterdir()}
    assert left == {".minio.sys", *names}
    assert not any(path for drive in drives for name in names for path in (drive / name).iterdir())
    assert state([drive / ".minio.sys" for drive in drives]) == own
    there = described(store.client()).values()
    assert done["removed"] == sum(len({version["key"] for version in bucket["versions"]}) for bucket in there)
    again = moving(drives)
    assert (again["copied"], again["removed"], again["failed"]) == (0, 0, 0)


def test_what_cannot_be_imported_stays_and_so_do_files_of_others(store: Target, moving: Moving, tmp_path: Path) -> None:
    drives = unpacked("one", tmp_path)
    (part,) = (drives[0] / "plain" / "large").glob("*/part.1")
    part.write_bytes(part.read_bytes()[:-1] + b"\0")
    (drives[0] / "plain" / "b" / "b" / "note").write_text("mine")
    (old := drives[0] / "plain" / "old").mkdir()
    (old / "xl.json").write_text("{}")
    before = part.read_bytes()
    done = moving(drives, code=1)
    reasons = {failure["key"]: failure["reason"] for failure in done["failures"]}
    assert reasons.keys() == {"large", "old"}
    assert reasons["old"] == "it was written by a MinIO of before 2020"
    assert keys_left(drives) == {"large"}
    assert part.read_bytes() == before
    assert (drives[0] / "plain" / "b" / "b" / "note").read_text() == "mine"
    assert (old / "xl.json").exists()
    wanted = current(expected())
    del wanted["plain"]["large"]
    assert current(clean(described(store.client()))) == wanted


def test_a_removal_that_was_interrupted_goes_on(store: Target, moving: Moving, tmp_path: Path) -> None:
    drives = unpacked("ec2", tmp_path)
    moving(drives, "--threads", "4")
    # Content goes first, so this is what an interruption leaves.
    for drive in drives:
        for part in [*(drive / "plain" / "large").glob("*/part.1"), *(drive / "history" / "k").glob("*/part.1")]:
            part.unlink()
    (drives[0] / "plain" / "parts" / "xl.meta").unlink()
    done = moving(drives)
    assert (done["copied"], done["failed"], keys_left(drives)) == (0, 0, set())
    assert clean(described(store.client())) == expected()


def test_a_command_that_is_killed_loses_nothing(store: Target, moving: Moving, tmp_path: Path) -> None:
    drives = unpacked("ec2", tmp_path)

    def left() -> int:
        buckets = [bucket for drive in drives for bucket in drive.glob("[a-z]*")]
        return sum("xl.meta" in names for bucket in buckets for _, _, names in os.walk(bucket))

    everything = left()
    for share in (0.8, 0.5, 0.2):
        words, keys = words_and_keys(store, drives, "--move", "--yes", "--threads", "2")
        arguments = [sys.executable, "-m", "orcas", *map(str, words)]
        with subprocess.Popen(arguments, env=os.environ | keys, stdout=subprocess.DEVNULL) as process:
            while process.poll() is None and left() > share * everything:
                time.sleep(0.001)
            with contextlib.suppress(ProcessLookupError):
                process.kill()
    assert moving(drives)["failed"] == 0
    assert clean(described(store.client())) == expected()
    # Of an object that was being removed, some drives may have kept what says that it was there.
    assert left() <= 3 * 2 * len(drives)


def test_what_the_store_does_not_have_as_it_was_stays(store: Target, moving: Moving, tmp_path: Path) -> None:
    drives = unpacked("one", tmp_path)
    moving(drives, "--threads", "4")
    client = store.client()
    client.put_object_tagging(Bucket="plain", Key="described", Tagging={"TagSet": [{"Key": "team", "Value": "red"}]})
    got = client.get_object(Bucket="plain", Key="b/b")
    client.put_object(Bucket="plain", Key="b/b", Body=got["Body"].read(), ContentType="text/other")
    client.put_object(Bucket="history", Key="k", Body=b"newer than the import")
    done = moving(drives, code=1)
    assert {failure["key"]: failure["reason"] for failure in done["failures"]} == {
        "described": "it stays on the drives, because the store has another x-amz-tagging of it",
        "b/b": "it stays on the drives, because the store has another content-type of it",
        "k": "the store has other versions of it, so import into another bucket or prefix",
    }
    assert keys_left(drives) == {"described", "b/b", "k"}


def test_locks_that_the_store_does_not_have_keep_objects_on_the_drives(
    store: Target, moving: Moving, tmp_path: Path
) -> None:
    drives = unpacked("one", tmp_path)
    store.client().create_bucket(Bucket="locked")
    done = moving(drives, code=1)
    assert {failure["key"] for failure in done["failures"]} == {"kept", "held"} == keys_left(drives)
    assert all("does not keep its object lock" in failure["reason"] for failure in done["failures"])


def test_nothing_is_removed_through_a_symbolic_link(store: Target, moving: Moving, tmp_path: Path) -> None:
    drives = unpacked("ec2", tmp_path)
    elsewhere = (drives[0] / "plain" / "b").rename(tmp_path / "elsewhere")
    (drives[0] / "plain" / "b").symlink_to(elsewhere)
    before = state([elsewhere])
    done = moving(drives, code=1)
    assert {failure["key"] for failure in done["failures"]} == {"b/b", "b/c/d.txt"} == keys_left(drives[1:])
    assert all("a symbolic link is in its path" in failure["reason"] for failure in done["failures"])
    assert state([elsewhere]) == before


def test_a_store_that_is_not_durable_gets_nothing_to_keep_alone(store: Target, moving: Moving, tmp_path: Path) -> None:
    drives = unpacked("one", tmp_path)
    before = state(drives)
    with running(None) as memory:
        assert "acknowledges what is not durable yet" in moving(drives, code=2, target=memory)
    with running(tmp_path / "buffered", durability="buffered") as buffered:
        assert "acknowledges what is not durable yet" in moving(drives, code=2, target=buffered)
    assert state(drives) == before


def test_a_word_is_needed(moving: Moving, tmp_path: Path) -> None:
    drives = unpacked("one", tmp_path)
    before = state(drives)
    assert "needs a confirmation" in moving(drives, "--move", code=2)
    would = moving(drives, "--move", "--dry-run")
    assert (would["copied"] > 0, would["removed"]) == (True, 0)
    assert state(drives) == before
