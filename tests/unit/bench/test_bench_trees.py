"""Checkouts of other commits: which commits, where, and with which builds; nothing else changes."""

from __future__ import annotations

import json
import os
import shutil
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
        commit(tmp_path, name)
    (tmp_path / "file").write_text("unsaved")
    return tmp_path


def commit(repository: Path, name: str) -> str:
    """Commits everything, and a file named after the commit, which also gets that name as its tag."""
    (repository / "file").write_text(name)
    trees.git("add", ".", tree=repository)
    who = ("-c", "user.name=a", "-c", "user.email=a@example.com", "-c", "commit.gpgsign=false")
    trees.git(*who, "commit", "--quiet", "--message", name, tree=repository)
    trees.git("tag", name, tree=repository)
    return trees.git("rev-parse", name, tree=repository)


def publish(repository: Path, name: str, commit: str, day: int) -> None:
    """Figures that were taken at a commit."""
    results = repository / "benchmarks" / "results"
    results.mkdir(parents=True, exist_ok=True)
    found = {"at": f"2026-11-{day:02}T06:00:00+00:00", "commit": commit}
    (results / f"{name}.json").write_text(json.dumps({"circumstances": found}))


def worktree(commit: str, repository: Path) -> str:
    """The file in the checkout, after checking that the repository is unchanged."""
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


def test_a_checkout_of_a_clone_that_is_gone_is_made_again(repository: Path) -> None:
    tree = repository / "target" / "compare" / "base"
    assert worktree("one", repository) == "one"
    shutil.rmtree(repository / ".git" / "worktrees")
    (tree / "file").write_text("left behind")
    assert worktree("one", repository) == "one"


def test_the_newest_figures_of_this_history_are_compared_with(repository: Path) -> None:
    one, two = (trees.git("rev-parse", name) for name in ("one", "two"))
    assert trees.earlier() == one, "nothing is published: the parent"
    three = commit(repository, "three")
    publish(repository, "b", one, 20)
    assert trees.earlier() == one
    publish(repository, "a", two, 21)
    assert trees.earlier() == two, "the newest, whatever its name"
    publish(repository, "c", f"{three}-dirty", 22)
    publish(repository, "d", "0123456789012345678901234567890123456789", 23)
    assert trees.earlier() == two, "what nobody can check out is passed over"
    trees.git("checkout", "--quiet", "--force", "two")
    publish(repository, "e", three, 24)
    assert trees.earlier() == two, "three is not in the history of two"


def test_without_history_there_is_nothing_to_compare_with(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shallow = repository / "target" / "shallow"
    trees.git("clone", "--quiet", "--depth", "1", repository.as_uri(), str(shallow))
    monkeypatch.setattr(trees, "REPOSITORY", shallow)
    with pytest.raises(RuntimeError, match="neither"):
        trees.earlier()
    shutil.rmtree(shallow / ".git")
    with pytest.raises(RuntimeError, match="not a clone"):
        trees.earlier()
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(shallow.parent))
    with pytest.raises(RuntimeError, match="not a git repository"):
        trees.earlier()
    monkeypatch.setenv("PATH", "")
    with pytest.raises(RuntimeError, match="not installed"):
        trees.earlier()
    assert trees.describe(shallow) == ""


def put(path: Path, text: str, at_ns: int = 1_700_000_000_123_456_789) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    os.utime(path, ns=(at_ns, at_ns))


def test_a_checkout_gets_dependencies_and_not_the_crates(repository: Path) -> None:
    built = repository / "target" / "ci"
    lent = ("deps/libbytes-1.rlib", "build/blake3-2/out/ours.a", ".fingerprint/bytes-1/lib-bytes")
    kept = (
        "deps/liborcas_core.so",
        "deps/races-3",
        "deps/bytes-1.d",
        "deps/liborcas_engine-5.rlib",
        ".fingerprint/orcas_core-4/lib-orcas_core",
        "x.so",
    )
    for name in (*lent, *kept):
        put(built / name, name)
    tree = repository / "target" / "compare" / "base"
    (tree / "target" / "ci.part" / "deps").mkdir(parents=True)
    said = trees._build(["sh", "-c", "echo $CARGO_TARGET_DIR $COLOUR"], tree, "ci", COLOUR="blue")
    assert said == f"{tree / 'target'} blue\n"
    found = {path.relative_to(tree / "target" / "ci").as_posix(): path for path in tree.rglob("*") if path.is_file()}
    assert set(found) == set(lent)
    for name, path in found.items():
        # Cargo compares times to the nanosecond.
        assert (path.read_text(), path.stat().st_mtime_ns) == (name, (built / name).stat().st_mtime_ns)
    assert [path.name for path in (tree / "target").iterdir()] == ["ci"]


def test_the_crates_of_a_checkout_are_found_in_either_layout(tmp_path: Path) -> None:
    put(tmp_path / "rust_core" / "Cargo.toml", '[package]\nname = "orcas_core"\n')
    assert trees.crates(tmp_path) == ["orcas_core"]
    put(tmp_path / "rust_core" / "crates" / "log" / "Cargo.toml", '[package]\nname = "orcas_log"\n')
    assert trees.crates(tmp_path) == ["orcas_core", "orcas_log"]


def test_what_a_checkout_has_built_stays(repository: Path) -> None:
    put(repository / "target" / "ci" / "deps" / "libbytes-1.rlib", "ours")
    put(repository / "target" / "compare" / "base" / "target" / "ci" / "deps" / "libbytes-1.rlib", "theirs")
    for tree in (repository / "target" / "compare" / "base", repository):
        trees._build(["true"], tree, "ci")
        trees._build(["true"], tree, "release")
    assert (repository / "target" / "ci" / "deps" / "libbytes-1.rlib").read_text() == "ours"
    base = repository / "target" / "compare" / "base" / "target"
    assert (base / "ci" / "deps" / "libbytes-1.rlib").read_text() == "theirs"
    assert [path.name for path in base.iterdir()] == ["ci"]
