"""Checkouts of other commits beside this one, and what cargo builds in a checkout."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]
# The parts of cargo's directory for a profile with a dependency, and with the record that it is up to date.
_BUILT = ("deps", "build", ".fingerprint")


_GIT_PLACES = frozenset(("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"))


def git(*words: str, tree: Path | None = None) -> str:
    """The output of git for a checkout, or for this repository.

    Raises:
        RuntimeError: it fails, or is not installed.
    """
    command = ["git", *words]
    # In a hook, git sets variables that name another repository.
    environment = {name: value for name, value in os.environ.items() if name not in _GIT_PLACES} | {"LC_ALL": "C"}
    try:
        done = subprocess.run(
            command, cwd=tree or REPOSITORY, capture_output=True, text=True, check=False, env=environment
        )
    except FileNotFoundError as error:
        raise RuntimeError("git is not installed") from error
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.strip()


def earlier() -> str:
    """The default commit to compare with: that of the newest published figures, else the first parent.

    Published figures are those in benchmarks/results whose commit is in the history of the present one.

    Raises:
        RuntimeError: there is none, with the reason.
    """
    # An unpacked archive may lie inside another repository.
    if Path(git("rev-parse", "--show-toplevel")).resolve() != REPOSITORY:
        raise RuntimeError("this tree is not a clone of its own repository")
    documents = [json.loads(path.read_text()) for path in (REPOSITORY / "benchmarks" / "results").glob("*.json")]
    taken = sorted((document["circumstances"] for document in documents), key=lambda found: found["at"], reverse=True)
    for commit in [*(found["commit"] for found in taken), "HEAD^"]:
        try:
            found = git("rev-parse", "--verify", f"{commit}^{{commit}}")
            git("merge-base", "--is-ancestor", found, "HEAD")
        except RuntimeError:
            continue
        return found
    raise RuntimeError("this clone has neither a commit whose figures are published nor the parent of its own")


def worktree(name: str, commit: str) -> Path:
    """A checkout of `commit` under target/compare. The next one of its name replaces it and builds what differs."""
    tree = REPOSITORY / "target" / "compare" / name
    found = git("rev-parse", "--verify", f"{commit}^{{commit}}")
    # Without its own `.git`, git would change the surrounding repository.
    made = (tree / ".git").is_file()
    if made and not describe(tree):
        # It may belong to a clone that was moved or deleted: target can be older than the repository around it.
        shutil.rmtree(tree)
        made = False
    if made:
        git("checkout", "--quiet", "--detach", "--force", found, tree=tree)
    else:
        # Forced, because git may remember a checkout that was deleted with target.
        git("worktree", "add", "--quiet", "--force", "--detach", str(tree), found)
    return tree


def describe(tree: Path) -> str:
    """The commit of a checkout, and whether it has changes; empty without git."""
    try:
        return git("rev-parse", "HEAD", tree=tree) + ("-dirty" if git("status", "--porcelain", tree=tree) else "")
    except RuntimeError:
        return ""


def _lend(tree: Path, profile: str) -> None:
    """Copies the dependencies that this repository has built with a cargo profile to a checkout that has built none.

    Cargo then compiles only the crates there. They cannot share a target directory: the name of a crate's library
    depends on neither checkout nor content, so one would get the library of the other.
    """
    built, lent = (root / "target" / profile for root in (REPOSITORY, tree))
    if lent.exists() or not built.is_dir():
        return
    # It gets its name when it is complete, because cargo does not check what it finds.
    part = lent.with_name(f"{profile}.part")
    shutil.rmtree(part, ignore_errors=True)
    for name in _BUILT:
        if (built / name).is_dir():
            shutil.copytree(built / name, part / name, ignore=_not_lent)
    part.rename(lent)


def _not_lent(directory: str, names: list[str]) -> set[str]:
    """The crates of the checkout, and what is linked with none of them: tests and benchmarks."""
    unlinked = [name for name in names if not name.startswith("lib")] if Path(directory).name == "deps" else []
    return {name for name in names if "orcas_" in name}.union(unlinked)


def _build(command: list[str], tree: Path, profile: str, **variables: str) -> str:
    """The output of a command that builds a checkout into its own target directory, whatever the environment says."""
    _lend(tree, profile)
    chosen = os.environ | {"CARGO_TARGET_DIR": str(tree / "target")} | variables
    return subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, text=True, check=True, env=chosen).stdout


def crates(tree: Path) -> list[str]:
    """The names of the crates of a checkout."""
    manifests = [tree / "rust_core" / "Cargo.toml", *sorted((tree / "rust_core" / "crates").glob("*/Cargo.toml"))]
    return [tomllib.loads(manifest.read_text())["package"]["name"] for manifest in manifests]


def package(tree: Path, profile: str, target: Path) -> None:
    """The Python package as pip installs it, built with a cargo profile, in a directory without its dependencies.

    Raises:
        CalledProcessError: it cannot be built; pip printed the reason.
    """
    command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--upgrade", "--target", str(target)]
    _build([*command, str(tree)], tree, profile, MATURIN_PEP517_ARGS=f"--profile {profile} --locked")


def _features(tree: Path, names: list[str]) -> list[str]:
    """The features that these benchmarks of a checkout need."""
    manifest = tomllib.loads((tree / "rust_core" / "Cargo.toml").read_text())
    needed = [bench.get("required-features", []) for bench in manifest.get("bench", []) if bench["name"] in names]
    return sorted({feature for features in needed for feature in features})


def benches(tree: Path, names: list[str], profile: str, *options: str, **variables: str) -> dict[str, Path]:
    """Builds benchmarks with these `options` of cargo and `variables`, and returns the executables by name.

    Raises:
        CalledProcessError: they cannot be built; cargo printed the reason.
    """
    command = ["cargo", "build", "--locked", "--package", "orcas_core", "--message-format", "json-render-diagnostics"]
    command += ["--profile", profile, *options, *(word for name in names for word in ("--bench", name))]
    command += [word for feature in _features(tree, names) for word in ("--features", feature)]
    said = _build(command, tree, profile, **variables)
    built = [json.loads(line) for line in said.splitlines()]
    return {
        artifact["target"]["name"]: Path(artifact["executable"])
        for artifact in built
        if artifact["reason"] == "compiler-artifact" and artifact["executable"] and artifact["target"]["name"] in names
    }
