"""Every notebook runs from its source, its .ipynb is that source without outputs, and its figures are labelled."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

FOLDER = Path(__file__).parents[3] / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("[0-9]*.py"))
# A small pass, without visible plots.
SMALL = {"NOTEBOOK_QUICK": "1", "MPLBACKEND": "Agg"}


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


@pytest.mark.full
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs(path: Path) -> None:
    done = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, timeout=500, check=False, env=os.environ | SMALL
    )
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_paired_with_its_source(path: Path) -> None:
    paired = json.loads(path.with_suffix(".ipynb").read_text())
    assert cells(path.read_text()) == [(cell["cell_type"], "".join(cell["source"])) for cell in paired["cells"]]
    assert not any(cell.get("outputs") for cell in paired["cells"])


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_every_figure_of_a_notebook_bears_a_stamp(path: Path) -> None:
    """`stamp` requires durability and concurrency; `plot` shows its third argument."""
    tree = ast.parse(path.read_text())
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    stamps = {
        ast.unparse(target)
        for node in ast.walk(tree)
        if isinstance(node, ast.Assign) and ast.unparse(node.value).startswith("stamp(")
        for target in node.targets
    }
    figures = [call for call in calls if ast.unparse(call.func) == "plot"]
    assert {ast.unparse(call.args[2]) for call in figures} <= stamps
    # What the axis shows, and in which unit, stands behind the title.
    for call in figures:
        titles = call.args[0].keys if isinstance(call.args[0], ast.Dict) else [call.args[0].key]  # type: ignore[attr-defined]
        assert all(" | " in ast.unparse(title) for title in titles if title is not None), ast.unparse(call)
    # There is no other way to make a figure.
    assert "pyplot" not in path.read_text()
    assert figures or path.stem == "00_first_steps"


@pytest.mark.full
def test_a_notebook_is_rendered_with_what_came_of_it(tmp_path: Path) -> None:
    for module in ("jupytext", "nbclient", "nbconvert", "matplotlib"):
        pytest.importorskip(module)
    command = [sys.executable, FOLDER / "render.py", "02", "--into", tmp_path]
    # Only the kernel's own backend puts figures into a notebook.
    environment = os.environ | {"NOTEBOOK_QUICK": "1"}
    done = subprocess.run(command, capture_output=True, text=True, timeout=500, check=False, env=environment)
    assert done.returncode == 0, done.stderr
    text = (tmp_path / "02_request_cost.md").read_text()
    title, _, rendered, *_ = text.splitlines()
    assert title == "# What a request costs"
    assert "02_request_cost.py" in rendered
    assert "commit" in rendered
    # The text output of cells, and their figures.
    assert re.search(r"^    GET +[\d.]+ +[\d.]+ \([\d.]+", text, re.MULTILINE)
    figures = re.findall(r"!\[.*\]\((.*)\)", text)
    assert len(figures) == 4
    assert all((tmp_path / figure).read_bytes().startswith(b"\x89PNG") for figure in figures)
