"""Backups of running and stopped stores, what is copied again, and what a restore restores or refuses."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.commands import command, document
from tests.fixtures.marks import full
from tests.fixtures.targets import Target, content, read
from tests.tools.conftest import BUCKET, fill

Serve = Callable[..., AbstractContextManager[Target]]


def assert_holds(target: Target, bodies: dict[str, bytes]) -> None:
    for key, body in bodies.items():
        assert read(target.client(), BUCKET, key) == body, key


def stored_bytes(place: Path) -> int:
    return sum(path.stat().st_size for path in (place / "files").rglob("*") if path.is_file())


def test_a_backup_under_load_holds_what_was_acknowledged_before_it(serve: Serve, data: Path, tmp_path: Path) -> None:
    place, restored = tmp_path / "backup", tmp_path / "restored"
    with serve() as target:
        before = fill(target, range(60))
        deleted = [key for key in before if key.endswith("3")]
        for key in deleted:
            target.client().delete_object(Bucket=BUCKET, Key=key)
        stop = threading.Event()

        def load(worker: int) -> None:
            at = 0
            while not stop.is_set():
                key = f"load/{worker}/{at}"
                target.client().put_object(Bucket=BUCKET, Key=key, Body=content(3000 + 90_000 * (at % 2), at))
                if at % 3:
                    target.client().delete_object(Bucket=BUCKET, Key=key)
                at += 1

        threads = [threading.Thread(target=load, args=(worker,)) for worker in range(3)]
        for thread in threads:
            thread.start()
        try:
            first = document("backup", place, "--data", data)
            after = fill(target, range(60, 80))
            second = document("backup", place, "--data", data)
        finally:
            stop.set()
            for thread in threads:
                thread.join()
        key = target.server.access_key
    assert (first["number"], second["number"]) == (1, 2)
    assert second["sequence"] > first["sequence"]
    shown = document("restore", place, "--data", restored)
    assert shown["sequence"] == second["sequence"]
    assert shown["buckets"] == 1
    checked = document("fsck", "--data", restored)
    assert checked["clean"], checked
    with serve(restored) as copy:
        # The backup includes the keys.
        assert copy.server.access_key == key
        assert_holds(copy, {key: body for key, body in (before | after).items() if key not in deleted})
        listed = [entry["Key"] for entry in copy.client().list_objects_v2(Bucket=BUCKET, Prefix="k/")["Contents"]]
        assert not set(listed) & set(deleted)


def test_only_what_is_new_is_copied(serve: Serve, data: Path, tmp_path: Path) -> None:
    place = tmp_path / "backup"
    with serve() as target:
        fill(target, range(50))
        first = document("backup", place, "--data", data)
        assert first["copied_bytes"] == first["bytes"] == stored_bytes(place)
        again = document("backup", place, "--data", data)
        assert (again["copied_files"], again["copied_bytes"], again["removed_files"]) == (0, 0, 0)
        more = fill(target, range(50, 60))
        grown = document("backup", place, "--data", data)
        brought = sum(map(len, more.values()))
        assert brought < grown["copied_bytes"] < brought + 200_000
        assert stored_bytes(place) == grown["bytes"] == again["bytes"] + grown["copied_bytes"]
        manifest = json.loads((place / "manifest.json").read_text())
        assert {entry["stored"].rpartition(".")[2] for entry in manifest["files"]} == {"1"}
    # What was deleted from the store is deleted from the target after the new manifest was written.
    with serve() as target:
        for entry in target.client().list_objects_v2(Bucket=BUCKET)["Contents"]:
            target.client().delete_object(Bucket=BUCKET, Key=entry["Key"])
    command("compact", "--data", data)
    emptied = document("backup", place, "--data", data)
    assert emptied["removed_files"] > 0
    assert stored_bytes(place) == emptied["bytes"] < grown["bytes"] / 2


def dump(path: Path) -> list[str]:
    with contextlib.closing(sqlite3.connect(path)) as connection:
        return list(connection.iterdump())


def test_usage_that_cannot_be_read_costs_no_backup(serve: Serve, data: Path, tmp_path: Path) -> None:
    place = tmp_path / "backup"
    with serve() as target:
        bodies = fill(target, range(3))
    whole = dump(data / "usage.db")
    command("backup", place, "--data", data)
    (data / "usage.db").write_bytes(b"damaged" * 1000)
    for _ in range(2):
        command("backup", place, "--data", data)
    command("restore", place, "--data", tmp_path / "restored")
    assert dump(tmp_path / "restored" / "usage.db") == whole
    with serve(tmp_path / "restored") as target:
        assert_holds(target, bodies)


def test_a_store_at_rest_is_backed_up_and_restored(serve: Serve, data: Path, tmp_path: Path) -> None:
    with serve() as target:
        bodies = fill(target, range(20))
    document("backup", tmp_path / "backup", "--data", data)
    shutil.rmtree(data)
    shown = command("restore", tmp_path / "backup", "--data", data)
    assert "restored to" in shown
    assert not data.with_name("data.partial").exists()
    for path in [data, *data.rglob("*")]:
        assert path.stat().st_mode & 0o077 == 0, path
    with serve() as target:
        assert_holds(target, bodies)


def test_a_backup_goes_to_a_bucket_and_comes_back(serve: Serve, data: Path, tmp_path: Path) -> None:
    with serve(tmp_path / "elsewhere") as elsewhere, serve() as target:
        elsewhere.client().create_bucket(Bucket="backups")
        bodies = fill(target, range(20))
        server = elsewhere.server
        keys = {
            "AWS_ACCESS_KEY_ID": server.access_key, "AWS_SECRET_ACCESS_KEY": server.secret_key, "AWS_REGION": "us-east-1",
        }  # fmt: skip
        place = ("s3://backups/of/tools", "--target-endpoint", server.endpoint)
        first = document("backup", *place, "--data", data, **keys)
        again = document("backup", *place, "--data", data, **keys)
        assert first["copied_bytes"] == first["bytes"]
        assert again["copied_bytes"] == 0
        bodies |= fill(target, range(20, 25))
        grown = document("backup", *place, "--data", data, **keys)
        assert grown["removed_files"] == 2
        document("restore", *place, "--data", tmp_path / "restored", **keys)
        absent = command("restore", "s3://backups/nothing", "--target-endpoint", server.endpoint,
                         "--data", tmp_path / "other", code=69, **keys)  # fmt: skip
        assert "no backup" in absent
    with serve(tmp_path / "restored") as copy:
        assert_holds(copy, bodies)


@pytest.fixture
def backed_up(serve: Serve, data: Path, tmp_path: Path) -> Path:
    with serve() as target:
        fill(target, range(10))
    document("backup", tmp_path / "backup", "--data", data)
    return tmp_path / "backup"


def flip(path: Path, at: int) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        byte = file.read(1)
        file.seek(at)
        file.write(bytes([byte[0] ^ 1]))


def test_a_damaged_backup_is_refused(backed_up: Path, tmp_path: Path) -> None:
    restored = tmp_path / "restored"
    pack = next((backed_up / "files" / "chunks").iterdir())
    flip(pack, 5000)
    assert "damaged" in command("restore", backed_up, "--data", restored, code=69)
    assert not restored.exists()
    flip(pack, 5000)
    os.truncate(pack, pack.stat().st_size - 1)
    assert "damaged" in command("restore", backed_up, "--data", restored, code=69)
    pack.unlink()
    command("restore", backed_up, "--data", restored, code=69)
    assert not restored.exists()
    (backed_up / "manifest.json").write_text("{}")
    assert "damaged" in command("restore", backed_up, "--data", restored, code=69)


def test_a_missing_file_of_the_target_is_copied_again(backed_up: Path, data: Path, tmp_path: Path) -> None:
    next((backed_up / "files" / "chunks").iterdir()).unlink()
    os.truncate(backed_up / "files" / "root.json.1", 3)
    document("backup", backed_up, "--data", data)
    document("restore", backed_up, "--data", tmp_path / "restored")


def test_an_interrupted_restore_is_done_again(backed_up: Path, tmp_path: Path) -> None:
    partial = tmp_path / "restored.partial"
    partial.mkdir()
    (partial / "precious").touch()
    assert "in the way" in command("restore", backed_up, "--data", tmp_path / "restored", code=69)
    (partial / "restore.unfinished").touch()
    (tmp_path / "restored").mkdir()
    document("restore", backed_up, "--data", tmp_path / "restored")
    assert not partial.exists()
    assert "not empty" in command("restore", backed_up, "--data", tmp_path / "restored", code=69)


def test_places_that_are_no_backups_are_refused(backed_up: Path, data: Path, tmp_path: Path) -> None:
    assert "inside the store" in command("backup", data / "backup", "--data", data, code=2)
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "precious").touch()
    assert "precious" in command("backup", tmp_path / "full", "--data", data, code=69)
    command("backup", "s3://", "--data", data, code=2)
    command("backup", tmp_path / "b", "--target-endpoint", "http://127.0.0.1:1", "--data", data, code=2)
    assert "no store" in command("backup", tmp_path / "b", "--data", tmp_path / "none", code=69)
    assert "no backup" in command("restore", tmp_path / "none", "--data", tmp_path / "x", code=69)


def test_backups_of_two_stores_do_not_mix(backed_up: Path, serve: Serve, tmp_path: Path) -> None:
    with serve(tmp_path / "second"):
        assert "another store" in command("backup", backed_up, "--data", tmp_path / "second", code=69)


def test_a_lost_hold_gives_the_backup_up(serve: Serve, data: Path, tmp_path: Path, monkeypatch: Any) -> None:
    """The server loses the pin while files are copied: files read after that may not be consistent."""
    from orcas.errors import UnavailableError
    from orcas.settings.config import resolve
    from orcas.tools.copies import backup
    from orcas.tools.copies.targets import DirectoryTarget
    from orcas.tools.reach import reached

    settings = resolve({"data": str(data)}, ambient=False).settings
    with serve() as target:
        fill(target, range(5))
        with reached(settings) as session:
            taken: list[str] = []
            ask = session.admin

            def admin(method: str, path: str, order: Any = None) -> Any:
                answer = ask(method, path, order)
                taken.extend([answer["id"]] if (method, path) == ("POST", "backup-pins") else [])
                return answer

            def advance(*_: object) -> None:
                with contextlib.suppress(Exception):
                    ask("DELETE", f"backup-pins/{taken[0]}")

            monkeypatch.setattr(session, "admin", admin)
            with pytest.raises(UnavailableError, match="aborted"):
                backup.back_up(session, data, DirectoryTarget(tmp_path / "backup"), advance)
    assert not (tmp_path / "backup" / "manifest.json").exists()


@pytest.mark.parametrize("fails", ["write_manifest", *full("make_durable")])
def test_an_interrupted_backup_leaves_the_last_one_whole(
    serve: Serve, data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: str
) -> None:
    from orcas.settings.config import resolve
    from orcas.tools.copies import backup
    from orcas.tools.copies.targets import DirectoryTarget
    from orcas.tools.reach import reached

    place = tmp_path / "backup"
    settings = resolve({"data": str(data)}, ambient=False).settings

    def fail(*_: object) -> None:
        raise OSError(28, "No space left on device")

    with serve() as target:
        first = fill(target, range(20))
        document("backup", place, "--data", data)
        later = fill(target, range(20, 40))
        for key in first:
            target.client().delete_object(Bucket=BUCKET, Key=key)
        command("compact", "--data", data)
        with monkeypatch.context() as broken, reached(settings) as session:
            broken.setattr(DirectoryTarget, fails, fail)
            with pytest.raises(OSError, match="No space"):
                backup.back_up(session, data, DirectoryTarget(place), lambda *_: None)
    document("restore", place, "--data", tmp_path / "first")
    with serve(tmp_path / "first") as copy:
        assert_holds(copy, first)
    document("backup", place, "--data", data)
    document("restore", place, "--data", tmp_path / "second")
    with serve(tmp_path / "second") as copy:
        assert_holds(copy, later)
        assert copy.client().list_objects_v2(Bucket=BUCKET)["KeyCount"] == len(later)
