"""Every notebook runs from its source, and its .ipynb is that source without outputs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

NOTEBOOKS = sorted((Path(__file__).parents[2] / "notebooks").glob("[0-9]*.py"))


def cells(source: str) -> list[tuple[str, str]]:
    """Kind and text of each cell of a percent script."""
    parts = re.split(r"^# %%( \[markdown\])?\n", source, flags=re.MULTILINE)[1:]
    found = []
    for marker, text in zip(parts[::2], parts[1::2], strict=True):
        if marker:
            found.append(("markdown", re.sub(r"^# ?", "", text.strip(), flags=re.MULTILINE)))
        else:
            found.append(("code", text.strip()))
    return found


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path) -> None:
    # A small pass, and plots that nobody looks at.
    environment = os.environ | {"NOTEBOOK_QUICK": "1", "MPLBACKEND": "Agg"}
    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, timeout=120, check=False, env=environment
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_paired_with_its_source(path: Path) -> None:
    paired = json.loads(path.with_suffix(".ipynb").read_text())
    assert cells(path.read_text()) == [(cell["cell_type"], "".join(cell["source"])) for cell in paired["cells"]]
    assert not any(cell.get("outputs") for cell in paired["cells"])
