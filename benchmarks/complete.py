"""Checks that short passes measured everything: `python benchmarks/complete.py PROFILE FILE…`. Judges no figure.

Files by name: `figures.json` of run.py, `micro.json` of pytest-benchmark, `compare.json` of compare.py.
"""

from __future__ import annotations

import json
import math
import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

# The contents of a short pass of each, as docs/benchmarks.md names them.
FIGURES: Final = ("get-cpu", "put-cpu", "get-10mib", "get-10mib-cpu", "ready")
_SMALL: Final = ("get-1kib-cpu", "put-1kib-cpu", "get-64kib-cpu")
_PRESIGNED: Final = tuple(f"presigned-{name}" for name in _SMALL)
COMPARED: Final = (*_SMALL, *_PRESIGNED, "list-1000-cpu", "get-10mib-cpu", "put-10mib-cpu")
_GROUP: Final = re.compile(r'@pytest\.mark\.benchmark\(group="([^"]+)"')


def figure_problems(document: dict[str, Any], profile: str) -> list[str]:
    """A sentence for each figure of run.py that is missing or not a number; empty if the document is complete."""
    values = {figure["name"]: figure["values"] for figure in document.get("figures", [])}
    missing = [f"{name} is missing" for name in FIGURES if not values.get(name)]
    missing += [f"{name} has a value that is none" for name, rounds in values.items() if not _positive(rounds)]
    return missing + _profile_problems(document.get("circumstances", {}), profile)


def micro_problems(document: dict[str, Any], profile: str, groups: set[str]) -> list[str]:
    """The same for pytest-benchmark, which must have measured each of `groups`."""
    benchmarks = document.get("benchmarks", [])
    measured = {benchmark["group"] for benchmark in benchmarks}
    missing = [f"nothing of the group {group} was measured" for group in sorted(groups - measured)]
    missing += [
        f"{benchmark['name']} has a value that is none"
        for benchmark in benchmarks
        if benchmark["stats"]["rounds"] < 1 or not _positive([benchmark["stats"]["median"]])
    ]
    return missing + _profile_problems(document.get("machine_info", {}).get("orcas", {}), profile)


def comparison_problems(document: dict[str, Any], profile: str) -> list[str]:
    """The same for the servers of two commits, which must have the same number of rounds."""
    figures = {figure["name"]: figure for figure in document.get("servers", [])}
    sides = ("base", "head")
    missing = [
        f"{name} of {side} is missing" for name in COMPARED for side in sides if not figures.get(name, {}).get(side)
    ]
    for name, figure in figures.items():
        base, head = (figure[side] for side in sides)
        if len(base) != len(head):
            missing.append(f"{name} has {len(base)} rounds of base and {len(head)} of head")
        if not _positive([*base, *head]):
            missing.append(f"{name} has a value that is none")
    missing += [f"the commit of {side} is missing" for side in sides if not document.get("commits", {}).get(side)]
    return missing + _profile_problems(document.get("circumstances", {}), profile)


def _profile_problems(said: dict[str, Any], profile: str) -> list[str]:
    return [] if said.get("cargo_profile") == profile else [f"it is not said that the profile was {profile}"]


def _positive(values: list[float]) -> bool:
    return all(math.isfinite(value) and value > 0 for value in values)


def _micro_groups() -> set[str]:
    sources = Path(__file__).with_name("micro").glob("test_*.py")
    return {group for source in sources for group in _GROUP.findall(source.read_text())}


def main() -> int:
    """Print what is missing."""
    profile, files = sys.argv[1], [Path(name) for name in sys.argv[2:]]
    checks: dict[str, Callable[[dict[str, Any]], list[str]]] = {
        "figures.json": lambda document: figure_problems(document, profile),
        "micro.json": lambda document: micro_problems(document, profile, _micro_groups()),
        "compare.json": lambda document: comparison_problems(document, profile),
    }
    found = [f"{file}: {problem}" for file in files for problem in checks[file.name](json.loads(file.read_text()))]
    for problem in found:
        print(problem, file=sys.stderr)
    if not found:
        print(f"Complete: {', '.join(map(str, files))}")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
