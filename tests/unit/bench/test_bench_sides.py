"""benchmarks/compare.py when it cannot compare: the reason, in one sentence and in the exit code."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A tree with only the benchmarks, with nothing to build and without git."""
    # They use the signer and the raw client of the tests.
    for folder in ("benchmarks", "tests/fixtures"):
        shutil.copytree(ROOT / folder, tmp_path / folder, ignore=shutil.ignore_patterns("results", "__pycache__"))
    return tmp_path


def compare(tree: Path, *words: str) -> tuple[int, str]:
    """Exit code and errors of a short pass in this tree."""
    command = [sys.executable, str(tree / "benchmarks" / "compare.py"), "--only", "servers", "--quick", *words]
    alone = os.environ | {
        "LC_ALL": "C",
        "GIT_CEILING_DIRECTORIES": str(tree.parent),
        "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    }
    done = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False, env=alone)
    return done.returncode, done.stderr


def commit(tree: Path) -> None:
    who = ["-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false"]
    (tree / ".gitignore").write_text("/target/\n")
    for words in (["init", "--quiet"], ["add", "."], [*who, "commit", "--quiet", "--message", "one"]):
        subprocess.run(["git", *words], cwd=tree, check=True)


def test_without_git_nothing_is_compared(tree: Path) -> None:
    status, said = compare(tree, "--installed")
    assert status == 3
    assert said.startswith("Not compared: git rev-parse --show-toplevel: fatal: not a git repository")


def test_without_a_parent_nothing_is_compared(tree: Path) -> None:
    commit(tree)
    assert compare(tree, "--installed") == (
        3,
        "Not compared: this clone has neither a commit whose figures are published nor the parent of its own.\n",
    )


def test_a_base_that_is_not_there_is_an_error(tree: Path) -> None:
    commit(tree)
    status, said = compare(tree, "nowhere")
    assert status == 2
    assert "nowhere" in said


def test_a_base_that_cannot_be_built_is_no_fault_of_head(tree: Path) -> None:
    commit(tree)
    status, said = compare(tree, "HEAD", "--installed")
    assert status == 3
    assert "Not compared: base (" in said


def test_a_head_that_cannot_be_built_is(tree: Path) -> None:
    commit(tree)
    status, said = compare(tree, "HEAD")
    assert status == 1
    assert "Not compared: head (" in said
    assert compare(tree, "HEAD", "HEAD")[0] == 1


def test_an_installed_build_is_not_that_of_another_commit(tree: Path) -> None:
    assert compare(tree, "HEAD", "HEAD", "--installed")[0] == 2
