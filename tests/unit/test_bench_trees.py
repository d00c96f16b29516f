"""Checkouts of other commits: in their own place, and nothing else is touched."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks import trees


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository with the commits `one` and `two`, and a change that is in neither."""
    monkeypatch.setattr(trees, "REPOSITORY", tmp_path)
    trees.git("init", "--quiet", tree=tmp_path)
    (tmp_path / ".gitignore").write_text("/target/\n")
    for name in ("one", "two"):
        (tmp_path / "file").write_text(name)
        trees.git("add", ".", tree=tmp_path)
        who = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
        trees.git(*who, "commit", "--quiet", "--message", name, tree=tmp_path)
        trees.git("tag", name, tree=tmp_path)
    (tmp_path / "file").write_text("unsaved")
    return tmp_path


def worktree(commit: str, repository: Path) -> str:
    """What the file says in the checkout, after the repository is known to be as it was."""
    tree = trees.worktree("base", trees.git("rev-parse", commit, tree=repository))
    assert (repository / "file").read_text() == "unsaved"
    assert trees.describe(repository) == trees.git("rev-parse", "two", tree=repository) + "-dirty"
    assert trees.describe(tree) == trees.git("rev-parse", commit, tree=repository)
    return (tree / "file").read_text()


def test_a_checkout_follows_the_commit_it_is_asked_for(repository: Path) -> None:
    assert worktree("one", repository) == "one"
    (repository / "target" / "compare" / "base" / "file").write_text("left behind")
    assert worktree("two", repository) == "two"


def test_a_checkout_that_was_deleted_is_made_again(repository: Path) -> None:
    assert worktree("one", repository) == "one"
    (repository / "target").rename(repository.parent / "gone")
    assert worktree("one", repository) == "one"


def test_a_directory_that_is_no_checkout_is_left_alone(repository: Path) -> None:
    other = repository / "target" / "compare" / "base" / "other"
    other.parent.mkdir(parents=True)
    other.write_text("mine")
    with pytest.raises(RuntimeError, match="already exists"):
        trees.worktree("base", "one")
    assert other.read_text() == "mine"
    assert (repository / "file").read_text() == "unsaved"


def test_an_unknown_commit_is_refused(repository: Path) -> None:
    with pytest.raises(RuntimeError, match="nowhere"):
        trees.worktree("base", "nowhere")
