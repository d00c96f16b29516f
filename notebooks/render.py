"""Run the notebooks and write what came of them to docs/notebooks: `python notebooks/render.py [NAME]…`.

A name may be its beginning, such as `01`; without names all of them, one after the other. Each runs in a kernel of its own;
one that fails writes nothing. Needs the extra `notebooks`. With `NOTEBOOK_QUICK=1` a pass that shows that they run: it
belongs into no commit.
"""

from __future__ import annotations

import argparse
import re
import shutil
import sys
import time
from pathlib import Path

import jupytext
from nbclient import NotebookClient
from nbconvert import MarkdownExporter
from support import REPOSITORY, stamp
from traitlets.config import Config

HERE = Path(__file__).parent
RENDERED = REPOSITORY / "docs" / "notebooks"
_CELL_SECONDS_MAX = 900


def render(source: Path, into: Path) -> None:
    """Run one notebook, and write it with its outputs as Markdown, its figures as files beside it."""
    notebook = jupytext.read(source)
    NotebookClient(notebook, timeout=_CELL_SECONDS_MAX, resources={"metadata": {"path": str(HERE)}}).execute()
    figures = f"{source.stem}_figures"
    # Tables of pandas as text: their HTML brings styles, which not every reader of Markdown leaves out.
    exporter = MarkdownExporter(config=Config(NbConvertBase={"display_data_priority": ["image/png", "text/plain"]}))
    text, resources = exporter.from_notebook_node(notebook, {"output_files_dir": figures})
    title, _, rest = text.partition("\n")
    # Those of the last time may be more.
    shutil.rmtree(into / figures, ignore_errors=True)
    for name, content in resources["outputs"].items():
        path = into / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    where = stamp("", durability="under each figure", concurrency="under each figure").splitlines()[0]
    said = f"*Rendered from `notebooks/{source.name}` by `make notebooks`. {where}.*"
    page = "\n".join(line.rstrip() for line in f"{title}\n\n{said}\n{rest}".splitlines())
    # The exporter is generous with empty lines; code has two at most.
    (into / f"{source.stem}.md").write_text(re.sub(r"\n{4,}", "\n\n", page).strip() + "\n")


def main() -> None:
    """Render, and print how long each notebook took."""
    parser = argparse.ArgumentParser(description="Run the notebooks and write them to docs/notebooks.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="beginnings of names; without any, all notebooks")
    parser.add_argument("--into", type=Path, default=RENDERED, metavar="DIR", help="instead of docs/notebooks")
    given = parser.parse_args()
    found = [
        path for path in sorted(HERE.glob("[0-9]*.py")) if not given.names or path.name.startswith(tuple(given.names))
    ]
    if not found:
        parser.error(f"no notebook is called {' or '.join(given.names)}")
    given.into.mkdir(parents=True, exist_ok=True)
    for source in found:
        began = time.monotonic()
        render(source, given.into)
        sys.stdout.write(f"{source.stem:40} {time.monotonic() - began:6.1f} s\n")
        sys.stdout.flush()


if __name__ == "__main__":
    main()
