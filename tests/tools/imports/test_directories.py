"""Imports of directories: a file is an object with its path as its key, and one that has not changed is not sent again."""

from __future__ import annotations

import os
import uuid
from pathlib import Path

import pytest
from tests.fixtures.targets import MIB, Target, content, keys_of, read
from tests.tools.imports.conftest import Importing

FILES = {
    "a": b"a", "a-b": b"", "b/c": b"c", "b/d/e.json": b"{}", "b-c/x": b"x", "sp ace/ü%+&.txt": b"u",
    "large": content(3 * MIB),
}  # fmt: skip


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    top = tmp_path / "tree"
    for name, body in FILES.items():
        (top / name).parent.mkdir(parents=True, exist_ok=True)
        (top / name).write_bytes(body)
    (top / "empty").mkdir()
    return top


def test_files_become_objects_once(target: Target, tree: Path, importing: Importing) -> None:
    bucket = f"d-{uuid.uuid4()}"
    os.utime(tree / "a", ns=(0, 1_700_000_000_123_456_789))
    (tree / "link").symlink_to(tree / "a")
    (tree / "loop").symlink_to(tree)
    os.mkfifo(tree / "pipe")
    (tree / "parts").write_bytes(content(17 * MIB))
    bodies = FILES | {"parts": content(17 * MIB)}
    done = importing(tree, f"{bucket}/in/")
    assert (done["copied"], done["unverified"]) == (len(bodies), 0)
    assert done["not_kept"] == {"symbolic link or special file": 3}
    client = target.client()
    assert keys_of(client, bucket) == sorted(f"in/{name}" for name in bodies)
    assert all(read(client, bucket, f"in/{name}") == body for name, body in bodies.items())
    head = client.head_object(Bucket=bucket, Key="in/b/d/e.json")
    assert head["ContentType"] == "application/json"
    assert client.head_object(Bucket=bucket, Key="in/a")["Metadata"] == {"mtime": "1700000000.123456789"}
    assert importing(tree, f"{bucket}/in/")["present"] == len(bodies)
    # The same size and the same time, but other bytes.
    (tree / "a").write_bytes(b"b")
    os.utime(tree / "a", ns=(0, 1_700_000_000_123_456_789))
    again = importing(tree, f"{bucket}/in/")
    assert (again["copied"], again["present"]) == (1, len(bodies) - 1)
    assert read(client, bucket, "in/a") == b"b"


def test_files_that_cannot_be_read_are_named_and_the_others_arrive(
    target: Target, tree: Path, importing: Importing, monkeypatch: pytest.MonkeyPatch
) -> None:
    bucket = f"d-{uuid.uuid4()}"
    real = os.open

    def refuse(path: object, *rest: int) -> int:
        if isinstance(path, bytes) and path.endswith(b"/b/c"):
            raise PermissionError(13, "Permission denied")
        return real(path, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr("os.open", refuse)
    done = importing(tree, bucket, code=1)
    reason = "the file cannot be read: Permission denied; give this user access"
    assert done["failures"] == [{"place": str(tree), "key": "b/c", "reason": reason}]
    assert keys_of(target.client(), bucket) == sorted(set(FILES) - {"b/c"})
