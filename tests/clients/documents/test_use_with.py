"""The examples of docs/how-to/use-with.md, one by one, as after `eval "$(orcas env)"`."""

from __future__ import annotations

import re
import shutil
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.fixtures.clients import Command, variables_of
from tests.fixtures.targets import Target

PAGE = Path(__file__).parents[3] / "docs" / "how-to" / "use-with.md"
# What each needs. Those that need s3fs run in the environment of an older botocore.
NEEDS = {
    "pandas, s3fs, dask": ("pandas", "s3fs"),
    "Polars": ("polars",),
    "PyArrow": ("pyarrow",),
    "DuckDB": ("duckdb", "pyarrow"),
    "Delta Lake": ("deltalake", "pyarrow"),
    "rclone": ("rclone",),
    "s5cmd": ("s5cmd",),
    "restic": ("restic",),
}

pytestmark = [pytest.mark.clients, pytest.mark.filterwarnings("ignore"), pytest.mark.timeout(900)]


def blocks() -> dict[str, tuple[str, str]]:
    """The first runnable block of each section, with its language."""
    sections = re.split(r"^## ", PAGE.read_text(encoding="utf-8"), flags=re.MULTILINE)[1:]
    found = {}
    for section in sections:
        if block := re.search(r"^```(python|sh)\n(.*?)^```", section, re.MULTILINE | re.DOTALL):
            found[section.partition("\n")[0]] = (block[1], block[2])
    return found


def test_every_example_is_run_here() -> None:
    assert set(blocks()) == set(NEEDS)


@pytest.fixture
def lake(target: Target, s3: Any) -> None:
    if "lake" not in {entry["Name"] for entry in s3.list_buckets()["Buckets"]}:
        s3.create_bucket(Bucket="lake")


@pytest.mark.usefixtures("lake")
@pytest.mark.parametrize("title", NEEDS)
def test_an_example_runs(title: str, target: Target, tmp_path: Path) -> None:
    language, text = blocks()[title]
    variables = variables_of(target)
    if language == "python":
        for name in NEEDS[title]:
            pytest.importorskip(name, reason=f"{name} is not installed: run .ci/run clients")
        assert Command((sys.executable, "-c"), tmp_path, variables).text(text)
        return
    places = f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin"
    if not shutil.which(NEEDS[title][0], path=places):
        pytest.skip(f"{title} is not installed: run .ci/run clients")
    (tmp_path / "notes.txt").write_text("Bring a tent.")
    words = ("bash", "-ec")
    assert Command(words, tmp_path, {**variables, "PATH": places}).text(text)
