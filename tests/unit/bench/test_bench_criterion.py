"""Estimates that Criterion leaves behind, in and outside groups."""

from __future__ import annotations

import json
from pathlib import Path

from benchmarks import criterion


def leave(directory: Path, group: str, function: str | None, median: float) -> None:
    """What Criterion writes for a benchmark with this median."""
    directory.mkdir(parents=True)
    (directory / "benchmark.json").write_text(json.dumps({"group_id": group, "function_id": function}))
    (directory / "estimates.json").write_text(json.dumps({"median": {"point_estimate": median}}))


def test_medians_are_found_in_groups_and_outside(tmp_path: Path) -> None:
    leave(tmp_path / "key_lookup" / "new", "key/lookup", None, 17.5)
    leave(tmp_path / "one" / "md5" / "new", "one", "md5", 3.25)
    # A baseline is not the last run.
    leave(tmp_path / "one" / "md5" / "base", "one", "md5", 9.0)
    assert criterion.medians(tmp_path) == {("key/lookup", None): 17.5, ("one", "md5"): 3.25}
