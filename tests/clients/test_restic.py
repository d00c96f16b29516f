"""restic: encrypted backups in a bucket, in files of some megabytes with names of their hash."""

from __future__ import annotations

from pathlib import Path

import pytest
from tests.fixtures.clients import AWKWARD, WRONG_SECRET, Command, executable, tree_of, variables_of, write_tree
from tests.fixtures.targets import MIB, Target

RESTIC = executable("restic", "apt-get install restic")

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(900)]


@pytest.fixture
def restic(target: Target, bucket: str, tmp_path: Path) -> Command:
    words = (RESTIC, "--repo", f"s3:{target.server.endpoint}/{bucket}/a repository")
    variables = variables_of(target) | {"RESTIC_PASSWORD": "password", "RESTIC_CACHE_DIR": str(tmp_path / "cache")}
    return Command(words, tmp_path, variables)


def test_backups(restic: Command) -> None:
    restic.output("init")
    write_tree(restic.directory / "files", dict.fromkeys(AWKWARD, 300) | {"large": 40 * MIB})
    restic.output("backup", "files")
    before = tree_of(restic.directory / "files")
    (restic.directory / "files" / "large").unlink()
    write_tree(restic.directory / "files", {"other": 20 * MIB})
    restic.output("backup", "files")
    restic.output("check", "--read-data")
    restic.output("restore", "latest", "--target", "latest")
    assert tree_of(restic.directory / "latest" / "files") == tree_of(restic.directory / "files")
    first = restic.text("snapshots", "--compact").splitlines()[2].split()[0]
    restic.output("restore", first, "--target", "first")
    assert tree_of(restic.directory / "first" / "files") == before
    restic.output("forget", "--keep-last", "1", "--prune")
    restic.output("check", "--read-data")
    assert restic.text("list", "snapshots").strip() not in {"", first}
    assert restic.text("list", "locks").strip() == ""


def test_many_small_files(restic: Command) -> None:
    restic.output("init")
    write_tree(restic.directory / "files", {f"d{number % 10}/{number}": 200 + number for number in range(1_500)})
    restic.output("backup", "files")
    restic.output("restore", "latest", "--target", "back", "--verify")
    assert tree_of(restic.directory / "back" / "files") == tree_of(restic.directory / "files")


def test_errors(restic: Command) -> None:
    assert "Is there a repository" in restic.failure("snapshots")
    assert "Access Denied" in restic.using(AWS_SECRET_ACCESS_KEY=WRONG_SECRET).failure("init")
