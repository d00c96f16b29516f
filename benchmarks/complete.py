"""Whether a short pass measured everything: `python benchmarks/complete.py DIRECTORY PROFILE`. No figure is judged.

Reads what run.py (`figures.json`) and pytest-benchmark (`micro.json`) wrote there.
"""

from __future__ import annotations

import json
import math
import re
import sys
from pathlib import Path
from typing import Any, Final

# The figures of the measurements that a short pass has, as docs/benchmarks.md names them.
FIGURES: Final = ("get-cpu", "put-cpu", "get-10mib", "get-10mib-cpu", "ready")
_GROUP: Final = re.compile(r'@pytest\.mark\.benchmark\(group="([^"]+)"')


def problems(figures: dict[str, Any], micro: dict[str, Any], groups: set[str], profile: str) -> list[str]:
    """What is missing or is no number, each as a sentence; empty when both documents are complete."""
    found = [*_figure_problems(figures), *_micro_problems(micro, groups)]
    said = (figures.get("circumstances", {}), micro.get("machine_info", {}).get("orcas", {}))
    if any(part.get("cargo_profile") != profile for part in said):
        found.append(f"it is not said that the profile was {profile}")
    return found


def _figure_problems(figures: dict[str, Any]) -> list[str]:
    values = {figure["name"]: figure["values"] for figure in figures.get("figures", [])}
    missing = [f"{name} is missing" for name in FIGURES if not values.get(name)]
    return missing + [f"{name} has a value that is none" for name, rounds in values.items() if not _positive(rounds)]


def _micro_problems(micro: dict[str, Any], groups: set[str]) -> list[str]:
    benchmarks = micro.get("benchmarks", [])
    measured = {benchmark["group"] for benchmark in benchmarks}
    missing = [f"nothing of the group {group} was measured" for group in sorted(groups - measured)]
    return missing + [
        f"{benchmark['name']} has a value that is none"
        for benchmark in benchmarks
        if benchmark["stats"]["rounds"] < 1 or not _positive([benchmark["stats"]["median"]])
    ]


def _positive(values: list[float]) -> bool:
    return all(math.isfinite(value) and value > 0 for value in values)


def main() -> int:
    """Say what is missing."""
    directory, profile = Path(sys.argv[1]), sys.argv[2]
    figures, micro = (json.loads((directory / name).read_text()) for name in ("figures.json", "micro.json"))
    sources = Path(__file__).with_name("micro").glob("test_*.py")
    groups = {group for source in sources for group in _GROUP.findall(source.read_text())}
    found = problems(figures, micro, groups, profile)
    for problem in found:
        print(problem, file=sys.stderr)
    if not found:
        print(
            f"{directory}: {len(figures['figures'])} figures, {len(micro['benchmarks'])} calls through boto3 and PyO3"
        )
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
