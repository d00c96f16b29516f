"""Criterion's suites of `orcas_core`: runs one and reads the medians it leaves behind."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from figures import Plan

# Group and function of a benchmark; outside a group, its name and None.
Cell = tuple[str, str | None]


def run(plan: Plan, directory: Path, suite: str, only: str = "") -> tuple[str, dict[Cell, float]]:
    """What the suite printed, and the median nanoseconds of each benchmark that matches the expression `only`.

    Raises:
        RuntimeError: it could not be compiled, or it failed.
    """
    seconds = ("0.1", "0.2") if plan.quick else ("0.5", "1")
    command = ["cargo", "bench", "--quiet", "-p", "orcas_core", "--features", "criterion", "--bench", suite, "--"]
    command += [only] if only else []
    command += ["--warm-up-time", seconds[0], "--measurement-time", seconds[1], "--sample-size", "50"]
    # Resampling makes intervals, which are not used here, and takes longer than the measurement.
    command += ["--nresamples", "2000"]
    # The suite's own directory has the baselines of developers.
    environment = os.environ | {"CRITERION_HOME": str(directory)}
    done = subprocess.run(command, cwd=plan.repository, check=False, capture_output=True, text=True, env=environment)
    if done.returncode:
        raise RuntimeError(f"cargo bench ended with {done.returncode}: {done.stderr}")
    return done.stdout, medians(directory)


def medians(directory: Path) -> dict[Cell, float]:
    """The median nanoseconds of each benchmark of which Criterion left an estimate in the directory."""
    found: dict[Cell, float] = {}
    # A benchmark outside a group has no directory for one.
    for path in directory.rglob("new/estimates.json"):
        named = json.loads((path.parent / "benchmark.json").read_text())
        found[named["group_id"], named["function_id"]] = json.loads(path.read_text())["median"]["point_estimate"]
    return found
