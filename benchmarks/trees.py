"""Checkouts of other commits beside this one, and what cargo builds in a checkout."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

REPOSITORY = Path(__file__).resolve().parents[1]


def git(*words: str, tree: Path | None = None) -> str:
    """What git says of a checkout, or of this repository.

    Raises:
        RuntimeError: it fails.
    """
    command = ["git", *words]
    done = subprocess.run(command, cwd=tree or REPOSITORY, capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout.strip()


def worktree(name: str, commit: str) -> Path:
    """A checkout of `commit` under target/compare. The next one of that name takes its place and builds what differs."""
    tree = REPOSITORY / "target" / "compare" / name
    found = git("rev-parse", "--verify", f"{commit}^{{commit}}")
    # Without a `.git` of its own git would take the repository around it for what is to be changed.
    if (tree / ".git").is_file():
        git("checkout", "--quiet", "--detach", "--force", found, tree=tree)
    else:
        # Forced, because git may remember one that was deleted with target.
        git("worktree", "add", "--quiet", "--force", "--detach", str(tree), found)
    return tree


def describe(tree: Path) -> str:
    """The commit of a checkout, and whether it has changes."""
    return git("rev-parse", "HEAD", tree=tree) + ("-dirty" if git("status", "--porcelain", tree=tree) else "")


def benches(tree: Path, names: list[str], *options: str, **environment: str) -> dict[str, Path]:
    """Builds benchmarks of the crate with cargo's `options` in this `environment` and returns their executables by name."""
    command = ["cargo", "build", "--locked", "--package", "orcas_core", "--message-format", "json-render-diagnostics"]
    command += [*options, *(word for name in names for word in ("--bench", name))]
    variables = os.environ | environment
    done = subprocess.run(command, cwd=tree, stdout=subprocess.PIPE, text=True, check=True, env=variables)
    built = [json.loads(line) for line in done.stdout.splitlines()]
    return {
        artifact["target"]["name"]: Path(artifact["executable"])
        for artifact in built
        if artifact["reason"] == "compiler-artifact" and artifact["executable"] and artifact["target"]["name"] in names
    }
