"""A control file that its operator puts back by hand, as docs/operations/missing-files.md says."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.fixtures.control import add_identity, snapshot_of

from orcas.control.cipher import read_cipher
from orcas.control.files.twice import copy_of
from orcas.control.quotas import ensure_quotas, write_quotas


async def test_a_database_counts_as_it_is_without_its_copy(tmp_path: Path) -> None:
    earlier = await snapshot_of(tmp_path)
    kept = shutil.copy(tmp_path / "control.db", tmp_path / "kept")
    cipher = read_cipher(tmp_path, None)
    assert cipher is not None
    add_identity(tmp_path, cipher, "other", "secret-of-the-other")
    assert await snapshot_of(tmp_path) != earlier
    shutil.move(kept, tmp_path / "control.db")
    copy_of(tmp_path / "control.db").unlink()
    assert await snapshot_of(tmp_path) == earlier
    assert copy_of(tmp_path / "control.db").exists()


@pytest.mark.parametrize("copy_is_deleted", [True, False])
async def test_quotas_that_are_put_back_need_the_copy_gone(tmp_path: Path, copy_is_deleted: bool) -> None:
    """An intact copy counts more than its file."""
    await snapshot_of(tmp_path)
    write_quotas(tmp_path, {"e" * 64: (1, None)})
    kept = (tmp_path / "quotas.json").read_bytes()
    write_quotas(tmp_path, {"e" * 64: (2, None)})
    (tmp_path / "quotas.json").write_bytes(kept)
    if copy_is_deleted:
        copy_of(tmp_path / "quotas.json").unlink()
    assert ensure_quotas(tmp_path) == {"e" * 64: (1 if copy_is_deleted else 2, None)}
