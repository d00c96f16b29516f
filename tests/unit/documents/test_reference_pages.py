"""What is generated is current: the pages of the command line and of Python, and the chart of docs/performance.md."""

from __future__ import annotations

from pathlib import Path

import pytest
from benchmarks.chart import CHART, chart
from tests.fixtures.tables.reference_pages import PAGES


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_a_page_is_current(path: Path) -> None:
    assert path.read_text(encoding="utf-8") == PAGES[path](), "run python -m tests.fixtures.tables.reference_pages"


def test_the_chart_is_that_of_the_results() -> None:
    assert CHART.read_text(encoding="utf-8") == chart(), "run python benchmarks/chart.py"
