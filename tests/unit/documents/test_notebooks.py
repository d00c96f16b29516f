"""Every notebook runs from its source, its .ipynb is that source without outputs, and its figures are labelled."""

from __future__ import annotations

import ast
import json
import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
from tests.fixtures.sources import ROOT

FOLDER = ROOT / "notebooks"
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


# What the extra has and no file imports.
ONLY_RUN = {
    "flask": "the server of moto",
    "flask-cors": "the server of moto",
    "httpx": "httpx-sse imports it, and does not say so",
    "ipykernel": "render.py runs each notebook in a kernel",
    "moto": "notebook 07 starts its server",
    "opentelemetry-exporter-otlp-proto-http": "notebook 11 starts a server that sends traces",
    "opentelemetry-sdk": "likewise",
}
# What the files import and the extra does not name.
BROUGHT = {
    "botocore": "boto3 needs it", "nbclient": "nbconvert needs it", "traitlets": "nbconvert needs it",
    "uvicorn": "Orcas needs it", "uvloop": "Orcas needs it",
    "s3fs": "it needs an older botocore, and notebook 00 runs without it",
}  # fmt: skip

# Where the modules of this repository are.
FOLDERS = (FOLDER, ROOT / "benchmarks", ROOT)
OWN = {"orcas", "tests", *(path.stem for folder in FOLDERS for path in folder.glob("*.py"))}


def imported(sources: list[Path]) -> set[str]:
    """The packages of others that these files import, and the modules of the notebooks, benchmarks and tests below them."""
    found: set[str] = set()
    seen, left = set(sources), list(sources)
    while left:
        for node in ast.walk(ast.parse(left.pop().read_text(encoding="utf-8"))):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            if isinstance(node, ast.ImportFrom) and node.module and not node.level:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            for name in names:
                places = [folder / f"{name.replace('.', '/')}.py" for folder in FOLDERS]
                own = {path for path in places if path.is_file()}
                left += own - seen
                seen |= own
                top = name.partition(".")[0]
                if top not in {*sys.stdlib_module_names, *OWN}:
                    found.add(top.replace("_", "-"))
    return found


def test_the_extra_has_what_the_notebooks_import_and_no_more() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    named = {re.split(r"[\[>=<]", requirement)[0] for requirement in extras["notebooks"]}
    assert named - set(ONLY_RUN) == imported([*NOTEBOOKS, FOLDER / "render.py"]) - set(BROUGHT)
    assert set(ONLY_RUN) <= named


def test_a_notebook_names_the_reports_whose_tables_it_reproduces() -> None:
    page = (ROOT / "docs" / "benchmarks.md").read_text(encoding="utf-8").partition("### The original reports")[2]
    rows = re.findall(r"^\| (\*.+?\*)[^|]*\|[^|]+\| (.+) \|$", page, re.MULTILINE)
    named = {(title, number) for title, numbers in rows for number in re.findall(r"`(\d\d)`", numbers)}
    assert len(rows) == 5
    for path in NOTEBOOKS:
        rendered = (ROOT / "docs" / "notebooks" / f"{path.stem}.md").read_text(encoding="utf-8")
        for text in (cells(path.read_text(encoding="utf-8"))[0][1], rendered):
            opening = " ".join(text.partition("\nBelow")[0].split())
            assert {title for title, _ in rows if title in opening} == {
                title for title, number in named if number == path.stem[:2]
            }, path.stem


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
    assert figures or path.stem in ("00_first_steps", "14_tables")


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
