"""Sealing on a file system that has little room: it ends with one sentence, loses nothing, and goes on with more room."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.fixtures.commands import command, document
from tests.fixtures.targets import content, read, running

from .disks import MIB, eat, mounted

pytestmark = pytest.mark.crash

BUCKET = "full"
KEY = base64.b64encode(bytes(range(32))).decode()
SETTINGS = {"disk_reserve": 8 * MIB}
NAMES = {"ORCAS_DISK_RESERVE": str(8 * MIB), "ORCAS_MASTER_KEY": KEY}


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    with mounted(tmp_path, 512 * MIB) as place:
        yield place


@pytest.mark.full
def test_it_goes_on_when_there_is_room(small: Path) -> None:
    data = small / "data"
    bodies = {f"k{n}": content(size, n) for n, size in enumerate([100, 3_000, 60_000, 3 * MIB] * 40)}
    with running(data, **SETTINGS) as target:
        target.client().create_bucket(Bucket=BUCKET)
        for key, body in bodies.items():
            target.client().put_object(Bucket=BUCKET, Key=key, Body=body)
    filler = eat(small, 30 * MIB)
    said = command("compact", "--seal", "--data", data, code=1, **NAMES)
    assert "room" in said or "space" in said, said
    with running(data, master_key=KEY, **SETTINGS) as target:
        assert all(read(target.client(), BUCKET, key) == body for key, body in bodies.items())
    filler.unlink()
    done = document("compact", "--seal", "--data", data, **NAMES)
    assert done["left"] == {"blobs": 0, "bytes": 0, "uploads": 0, "files": False, "index": False}, done
    with running(data, master_key=KEY, **SETTINGS) as target:
        assert all(read(target.client(), BUCKET, key) == body for key, body in bodies.items())
    stored = b"".join(path.read_bytes() for path in data.rglob("*") if path.is_file())
    assert not [key for key, body in bodies.items() if body[:16] in stored or body[-16:] in stored]
