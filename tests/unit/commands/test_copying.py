"""Copies of files with holes, and the targets that receive them."""

from __future__ import annotations

import hashlib
import os
import random
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from orcas.errors import ConfigurationError, OrcasError, UnavailableError
from orcas.tools.copies.copying import sha256, write_sparse
from orcas.tools.copies.targets import DirectoryTarget, target_at

MIB = 1 << 20


def quiet(_count: int) -> None:
    """Nobody watches."""


@pytest.fixture
def sparse(tmp_path: Path) -> Path:
    """Data, a large hole, data, small holes, a hole up to the end."""
    path = tmp_path / "source"
    noise = random.Random(1).randbytes
    with path.open("wb") as file:
        for at, length in ((0, 5000), (9 * MIB + 123, 2 * MIB), (12 * MIB, 4096), (12 * MIB + 8192, 1)):
            file.seek(at)
            file.write(noise(length))
        file.truncate(20 * MIB + 7)
    return path


def room(path: Path) -> int:
    return path.stat().st_blocks * 512


@pytest.mark.parametrize("length", [0, 1, 5000, 5001, 9 * MIB, 9 * MIB + 124, 12 * MIB + 8193, 20 * MIB + 7])
def test_holes_are_kept_and_every_byte_counts(tmp_path: Path, sparse: Path, length: int) -> None:
    target = DirectoryTarget(tmp_path / "target")
    content = sparse.read_bytes()[:length]
    digest = target.store(sparse, length, "log/file.1", quiet)
    stored = tmp_path / "target" / "files" / "log" / "file.1"
    assert digest == hashlib.sha256(content).hexdigest()
    assert stored.read_bytes() == content
    assert room(stored) <= room(sparse) + 8192
    assert b"".join(target.fetch("log/file.1", length)) == content
    assert target.sizes() == {"log/file.1": length}
    with (tmp_path / "restored").open("wb") as file:
        again = sha256()
        assert write_sparse(file.fileno(), target.fetch("log/file.1", length), again, quiet) == length
    assert again.hexdigest() == digest
    assert (tmp_path / "restored").read_bytes() == content
    assert room(tmp_path / "restored") <= 4 * MIB


def test_a_file_that_grew_is_extended_and_a_changed_one_is_not(tmp_path: Path, sparse: Path) -> None:
    target = DirectoryTarget(tmp_path / "target")
    content = sparse.read_bytes()
    short = target.store(sparse, 10 * MIB, "f.1", quiet)
    # An earlier, interrupted attempt left a longer file.
    with (tmp_path / "target/files/f.1").open("ab") as file:
        file.write(b"rubbish" * 1000)
    whole = target.extend(sparse, len(content), "f.1", (10 * MIB, short), quiet)
    assert whole == hashlib.sha256(content).hexdigest()
    assert (tmp_path / "target/files/f.1").read_bytes() == content
    with sparse.open("r+b") as file:
        file.write(b"changed")
    before = (tmp_path / "target/files/f.1").read_bytes()
    assert target.extend(sparse, len(content), "f.1", (10 * MIB, short), quiet) is None
    assert (tmp_path / "target/files/f.1").read_bytes() == before


def test_a_source_that_is_cut_short_is_noticed(tmp_path: Path, sparse: Path) -> None:
    target = DirectoryTarget(tmp_path / "target")

    def cut(_count: int) -> None:
        os.truncate(sparse, 100)

    with pytest.raises(UnavailableError):
        target.store(sparse, 20 * MIB + 7, "f.1", cut)
    with pytest.raises(UnavailableError, match="too short"):
        list(target.fetch("f.1", 21 * MIB))


def test_two_backups_at_a_time_are_one_too_many(tmp_path: Path) -> None:
    with DirectoryTarget(tmp_path).writing(), pytest.raises(UnavailableError, match="is running"):
        _enter(DirectoryTarget(tmp_path).writing())


def _enter(context: object) -> Iterator[None]:
    return context.__enter__()  # type: ignore[attr-defined, no-any-return]


def test_without_boto3_a_sentence_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "boto3", None)
    with pytest.raises(OrcasError, match=r"pip install 'orcas-s3\[backup\]'"):
        target_at("s3://bucket/prefix", None)
    with pytest.raises(ConfigurationError):
        target_at("s3:///prefix", None)
