"""Golden stores: stores of earlier versions, and of this one, are served completely and can be written to."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.commands import command
from tests.fixtures.targets import running
from tests.golden.expectation import change, verify
from tests.golden.make import MASTER_KEY, lags

HERE = Path(__file__).parent
STORES = sorted(path.name.removesuffix(".tar.gz") for path in HERE.glob("*.tar.gz"))


def unpack(name: str, to: Path) -> dict[str, Any]:
    """Unpacks a store into an empty directory. Returns its manifest."""
    with tarfile.open(HERE / f"{name}.tar.gz") as archive:
        archive.extractall(to, filter="data")
    manifest: dict[str, Any] = json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))
    return manifest


def test_there_are_stores_of_each_end() -> None:
    ends = [json.loads((HERE / f"{name}.json").read_text(encoding="utf-8"))["end"] for name in STORES]
    assert set(ends) == {"closed", "killed"}
    assert {path.name.removesuffix(".json") for path in HERE.glob("*.json")} == set(STORES)


@pytest.mark.parametrize("name", STORES)
def test_a_store_is_served_whole_and_can_be_written_to(name: str, tmp_path: Path) -> None:
    manifest = unpack(name, tmp_path)
    assert lags(tmp_path) == (manifest["end"] == "killed")
    with running(tmp_path, master_key=MASTER_KEY) as target:
        verify(target, manifest)
        change(target, manifest)
    with running(tmp_path, master_key=MASTER_KEY) as target:
        verify(target, manifest)
    command("fsck", "--data", tmp_path)


@pytest.mark.parametrize("name", STORES)
def test_the_log_alone_says_everything(name: str, tmp_path: Path) -> None:
    manifest = unpack(name, tmp_path)
    for path in tmp_path.glob("index.db*"):
        path.unlink()
    with running(tmp_path, master_key=MASTER_KEY) as target:
        verify(target, manifest)
