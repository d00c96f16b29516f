"""Exports of running and stopped stores: a file for every object, whatever its key, and an index of the files."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.commands import command, document
from tests.fixtures.targets import Target, content
from tests.tools.conftest import BUCKET

Serve = Callable[..., AbstractContextManager[Target]]

NASTY = (
    "plain", "a", "a/b", "a/b/c", "a/b/c/", "a-b", "..", "../..", "../escape", "/", "//", "/etc/passwd", "x//y", "trailing/",
    "./here", "a/./b", "sp ace", "plus+", "per%cent", "%2F", "a%", "new\nline", "tab\t", "back\\slash", "ü",
    "日本", "💾", "x" * 1000, "deep/" * 100 + "er", "~", "*", "index.jsonl", "CON", "A", "\x7f",
)  # fmt: skip


@pytest.fixture
def bodies(serve: Serve) -> dict[str, bytes]:
    """The contents of the store of the test."""
    with serve() as target:
        made = {key: key.encode() * 7 for key in NASTY} | {"big": content(5 << 20)} | {"empty": b""}
        for key, body in made.items():
            target.client().put_object(
                Bucket=BUCKET,
                Key=key,
                Body=body,
                Metadata={"who": "me"},
                ContentType="text/plain",
                CacheControl="no-store",
            )
        target.client().create_bucket(Bucket="index.jsonl")
        target.client().put_object(Bucket="index.jsonl", Key="k", Body=b"in the other bucket")
    return made


def entries(place: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (place / "index.jsonl").read_text().splitlines()]


def assert_exported(place: Path, bodies: dict[str, bytes]) -> None:
    found = {}
    for entry in entries(place):
        path = place / entry["path"]
        assert path.resolve().is_relative_to(place.resolve())
        key = base64.b64decode(entry["key_base64"]).decode() if "key_base64" in entry else entry["key"]
        if entry["bucket"] == BUCKET:
            found[key] = path.read_bytes()
            assert entry["size"] == len(bodies[key])
            assert entry["metadata"] == {"who": "me"}
            assert entry["headers"] == {"content-type": "text/plain", "cache-control": "no-store"}
            assert path.stat().st_mtime == pytest.approx(entry["modified"], abs=1)
    assert found == bodies
    files = [path for path in place.rglob("*") if path.is_file()]
    assert len(files) == len(entries(place)) + 1


def test_every_key_becomes_a_file(serve: Serve, data: Path, tmp_path: Path, bodies: dict[str, bytes]) -> None:
    done = document("export", tmp_path / "rest", "--data", data)
    assert done == {
        "target": str(tmp_path / "rest"), "objects": len(bodies) + 1, "skipped": 0, "gone": 0,
        "bytes": sum(map(len, bodies.values())) + len(b"in the other bucket"),
    }  # fmt: skip
    assert_exported(tmp_path / "rest", bodies)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["data", "rest"]
    with serve() as target:
        # The result is the same through the server of the directory and through one at a URL.
        document("export", tmp_path / "work", "--data", data)
        keys = {"ORCAS_ROOT_ACCESS_KEY": target.server.access_key, "ORCAS_ROOT_SECRET_KEY": target.server.secret_key}
        document("export", tmp_path / "far", "--endpoint", target.server.endpoint, "--bucket", BUCKET, **keys)
    assert entries(tmp_path / "work") == entries(tmp_path / "rest")
    assert_exported(tmp_path / "work", bodies)
    assert_exported(tmp_path / "far", bodies)


def test_a_part_of_a_bucket_and_what_is_there_already(
    serve: Serve, data: Path, tmp_path: Path, bodies: dict[str, bytes]
) -> None:
    place = tmp_path / "export"
    part = document("export", place, "--data", data, "--bucket", BUCKET, "--prefix", "a/")
    assert {entry["key"] for entry in entries(place)} == {"a/b", "a/b/c", "a/b/c/", "a/./b"}
    assert part["objects"] == 4
    assert "not empty" in command("export", place, "--data", data, code=69)
    (place / BUCKET / "a" / "b" / "c%").write_bytes(b"other bytes of another length")
    resumed = document("export", place, "--data", data, "--resume")
    assert resumed["skipped"] == 3
    assert_exported(place, bodies)
    assert document("export", place, "--data", data, "--resume")["skipped"] == len(bodies) + 1


def test_what_cannot_be_exported_is_said(data: Path, tmp_path: Path, bodies: dict[str, bytes]) -> None:
    assert bodies
    command("export", tmp_path / "x", "--data", data, "--bucket", "absent", code=1)
    command("export", tmp_path / "x", "--data", data, "--bucket", BUCKET, "--prefix", "nothing/", code=1)
    assert not (tmp_path / "x").exists()
    command("export", tmp_path / "x", "--data", data, "--prefix", "a", code=2)
    (tmp_path / "file").touch()
    command("export", tmp_path / "file", "--data", data, code=69)
    command("export", tmp_path / "y", "--endpoint", "ftp://nowhere", "--data", data, code=2)
    command("export", tmp_path / "y", "--endpoint", "http://127.0.0.1:1", "--data", data, code=69)
